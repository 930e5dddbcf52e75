//! Checking where the tensors lie.

use super::{
    ErrorKind, Gguf, TensorInfo, align_up, names::skip_info, parse::Report, parse::tell,
    reader::Reader, reader::to_u64,
};
use crate::sort::sort_unstable_by;

/// Checks where the tensors lie: aligned, inside the data, none over another.
pub(super) fn places(
    gguf: &Gguf<'_>,
    scratch: Option<&mut [u32]>,
    report: Report<'_>,
) -> Option<()> {
    let data = gguf.data_len();
    let file = to_u64(gguf.bytes.len());
    let alignment = gguf.alignment;
    // Where the next tensor begins if the file is laid out as ggml writes it.
    let mut packed = Some(0);
    let mut end = 0;
    let mut ascending = true;
    for info in gguf.tensors() {
        let at = info.info_offset();
        let found = info.offset();
        if align_up(found, alignment) != Some(found) {
            let kind = ErrorKind::OffsetUnaligned { found, alignment };
            tell(report, kind, at)?;
        }
        // Its own fault has been reported.
        let Some(bytes) = info.byte_len() else {
            packed = None;
            continue;
        };
        let reach = found.checked_add(bytes);
        if bytes > file {
            tell(report, ErrorKind::TensorTooLarge { bytes, file }, at)?;
        } else if reach.is_none_or(|reach| reach > data) {
            let padded_data = align_up(data, alignment).unwrap_or(data);
            match reach {
                // Nothing of it has to be there.
                Some(reach) if bytes == 0 && reach <= padded_data => {}
                Some(needed) if packed == Some(found) => {
                    tell(report, ErrorKind::DataTruncated { needed, data }, at)?;
                }
                _ => {
                    let kind = ErrorKind::OffsetOutOfBounds { found, bytes, data };
                    tell(report, kind, at)?;
                }
            }
        }
        if bytes > 0 {
            ascending = ascending && found >= end;
            end = reach.unwrap_or(u64::MAX);
        }
        packed = packed
            .filter(|&packed| packed == found)
            .and(reach)
            .and_then(|reach| align_up(reach, alignment));
    }
    if ascending {
        return Some(());
    }
    match scratch.and_then(|scratch| scratch.get_mut(..gguf.tensor_count)) {
        Some(positions) => overlaps_sorted(gguf, positions, report),
        None => overlaps_each_with_each(gguf, report),
    }
}

/// The bytes that a tensor takes, if any and known: first, and one past the last.
fn extent(info: &TensorInfo<'_>) -> Option<(u64, u64)> {
    let bytes = info.byte_len().filter(|&bytes| bytes > 0)?;
    let end = info.offset().checked_add(bytes)?;
    Some((info.offset(), end))
}

fn overlaps_sorted(gguf: &Gguf<'_>, positions: &mut [u32], report: Report<'_>) -> Option<()> {
    let start = Reader::new(gguf.bytes, gguf.infos_at, gguf.version >= 2);
    let info_at = |position: u32| {
        let at = usize::try_from(position).ok()?;
        let info = TensorInfo::read(&mut start.moved_to(at)).ok()?;
        extent(&info)
    };
    let mut reader = start;
    for position in positions.iter_mut() {
        *position = u32::try_from(reader.at()).ok()?;
        skip_info(&mut reader)?;
    }
    let key = |&position: &u32| (info_at(position), position);
    sort_unstable_by(positions, |a, b| key(a).cmp(&key(b)));
    let mut furthest: Option<(u64, u32)> = None;
    for &position in positions.iter() {
        let Some((begin, end)) = info_at(position) else {
            continue;
        };
        if let Some((_, other)) = furthest.filter(|&(reached, _)| begin < reached) {
            // The tensor that the file names later is the one at fault.
            let (other, at) = (other.min(position), other.max(position));
            let other = u64::from(other);
            tell(report, ErrorKind::Overlap { other }, at.into())?;
        }
        if furthest.is_none_or(|(reached, _)| end > reached) {
            furthest = Some((end, position));
        }
    }
    Some(())
}

fn overlaps_each_with_each(gguf: &Gguf<'_>, report: Report<'_>) -> Option<()> {
    for (index, info) in gguf.tensors().enumerate() {
        let Some((begin, end)) = extent(&info) else {
            continue;
        };
        let mut earlier = gguf.tensors().take(index);
        let other = earlier
            .find(|other| extent(other).is_some_and(|(first, past)| begin < past && first < end));
        if let Some(other) = other {
            let other = other.info_offset();
            tell(report, ErrorKind::Overlap { other }, info.info_offset())?;
        }
    }
    Some(())
}
