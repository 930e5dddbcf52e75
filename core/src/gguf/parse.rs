//! The one door: a linear pass that checks everything later accessors rely on.

use core::hash::Hasher;
use core::ops::ControlFlow;

use super::{
    DEFAULT_ALIGNMENT, Error, ErrorKind, Gguf, MAX_ALIGNMENT, MAX_NAME_LEN, TensorInfo, Value,
    ValueType, align_up, keys, reader::Reader, reader::to_u64,
};

/// The first four bytes of every file.
pub const MAGIC: [u8; 4] = *b"GGUF";

/// The most entries whose names and places are compared without scratch, each with each.
pub const MAX_WITHOUT_SCRATCH: usize = 1024;

const MAX_KEY_LEN: usize = 65_535;

impl<'a> Gguf<'a> {
    /// Parses and checks a file. `scratch` needs [`scratch_len`](Self::scratch_len) words; with it
    /// the time is linear in the bytes read, but for the sorting of names and places.
    ///
    /// # Errors
    /// The first fault found.
    pub fn parse(bytes: &'a [u8], scratch: &mut [u32]) -> Result<Self, Error> {
        first_fault(|report| Self::check(bytes, scratch, report))
    }

    /// Parses and checks a file of at most 1,024 metadata entries and 1,024 tensors without
    /// scratch: each name is compared with each, which takes quadratic time.
    ///
    /// # Errors
    /// The first fault found, or [`ErrorKind::ScratchTooSmall`] for a file with more entries.
    pub fn parse_small(bytes: &'a [u8]) -> Result<Self, Error> {
        first_fault(|report| check(bytes, None, report))
    }

    /// Words of scratch that [`parse`](Self::parse) needs for these bytes. Only the two counts in
    /// the header are read; counts that the bytes cannot hold ask for none.
    #[must_use]
    pub fn scratch_len(bytes: &[u8]) -> usize {
        match header(bytes) {
            Ok((_, tensors, entries, _)) => tensors.max(entries),
            Err(_) => 0,
        }
    }

    /// Checks a file and reports every fault, not only the first, until `report` breaks.
    ///
    /// The answer is `None` when even the header cannot be read. Otherwise the file can be looked
    /// at; after a fault was reported, only for showing it: where the walk had to stop, because
    /// `report` broke or a length leads out of the file, the entries and tensors before that place
    /// are there, and [`data_offset`](Self::data_offset) is `u64::MAX`.
    pub fn check(
        bytes: &'a [u8],
        scratch: &mut [u32],
        report: &mut dyn FnMut(Error) -> ControlFlow<()>,
    ) -> Option<Self> {
        check(bytes, Some(scratch), report)
    }
}

fn first_fault<'a>(
    check: impl FnOnce(&mut dyn FnMut(Error) -> ControlFlow<()>) -> Option<Gguf<'a>>,
) -> Result<Gguf<'a>, Error> {
    let mut first = None;
    let checked = check(&mut |error| {
        first = Some(error);
        ControlFlow::Break(())
    });
    match (first, checked) {
        (None, Some(gguf)) => Ok(gguf),
        (Some(error), _) => Err(error),
        // `check` gives up only after a report: without one there is a file.
        (None, None) => Err(Error {
            kind: ErrorKind::BadMagic { found: [0; 4] },
            offset: 0,
        }),
    }
}

type Report<'r> = &'r mut dyn FnMut(Error) -> ControlFlow<()>;

/// Reports and says whether to go on; `None` is "stop".
fn tell(report: Report<'_>, kind: ErrorKind, offset: u64) -> Option<()> {
    match report(Error { kind, offset }) {
        ControlFlow::Continue(()) => Some(()),
        ControlFlow::Break(()) => None,
    }
}

/// Reports a fault after which the walk cannot go on.
fn fatal<T>(report: Report<'_>, result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            let _ = report(error);
            None
        }
    }
}

/// Version, tensor count, metadata count, and the reader behind them.
fn header(bytes: &[u8]) -> Result<(u32, usize, usize, Reader<'_>), Error> {
    let error = |kind, offset| Error { kind, offset };
    let mut reader = Reader::new(bytes, 0, true);
    if let Ok(magic) = reader.take(MAGIC.len(), "magic") {
        let mut found = [0; 4];
        found.copy_from_slice(magic);
        if found != MAGIC {
            return Err(error(ErrorKind::BadMagic { found }, 0));
        }
    } else {
        reader.take(MAGIC.len(), "magic")?;
    }
    let at = reader.offset();
    let version = reader.u32("version")?;
    let wide = match version {
        1 => false,
        2 | 3 => true,
        found if (1..=3).contains(&found.swap_bytes()) => {
            return Err(error(ErrorKind::BigEndian, at));
        }
        found => return Err(error(ErrorKind::BadVersion { found }, at)),
    };
    let mut reader = Reader::new(bytes, reader.at(), wide);
    let tensors_at = reader.offset();
    let tensors = reader.count("tensor count")?;
    let entries_at = reader.offset();
    let entries = reader.count("metadata count")?;

    // The smallest tensor info: a name's length and one byte of name, the number of dimensions, a
    // type, an offset. The smallest entry: a key's length and one byte, a type, one byte of value.
    let left = reader.left();
    let width = reader.count_width();
    let room = |smallest: usize| {
        left.checked_div(width.saturating_add(smallest))
            .unwrap_or(0)
    };
    let fits = |found: u64, room: usize| usize::try_from(found).ok().filter(|&n| n <= room);
    let (tensor_room, entry_room) = (room(17), room(6));
    let Some(tensor_count) = fits(tensors, tensor_room) else {
        let kind = ErrorKind::TensorCount {
            found: tensors,
            room: to_u64(tensor_room),
        };
        return Err(error(kind, tensors_at));
    };
    let Some(entry_count) = fits(entries, entry_room) else {
        let kind = ErrorKind::MetadataCount {
            found: entries,
            room: to_u64(entry_room),
        };
        return Err(error(kind, entries_at));
    };
    Ok((version, tensor_count, entry_count, reader))
}

fn check<'a>(bytes: &'a [u8], scratch: Option<&mut [u32]>, report: Report<'_>) -> Option<Gguf<'a>> {
    let (version, tensor_count, metadata_count, mut reader) = fatal(report, header(bytes))?;
    let most = tensor_count.max(metadata_count);
    let given = scratch.as_ref().map_or(MAX_WITHOUT_SCRATCH, |s| s.len());
    if most > given {
        let kind = ErrorKind::ScratchTooSmall {
            needed: to_u64(most),
            given: to_u64(scratch.as_ref().map_or(0, |s| s.len())),
        };
        tell(report, kind, 0)?;
        return None;
    }

    let mut gguf = Gguf {
        bytes,
        version,
        metadata_count: 0,
        tensor_count: 0,
        metadata_at: reader.at(),
        infos_at: reader.at(),
        infos_end: reader.at(),
        data_at: u64::MAX,
        alignment: DEFAULT_ALIGNMENT,
    };
    let counts = (metadata_count, tensor_count);
    let _ = walk(&mut gguf, &mut reader, counts, scratch, report);
    Some(gguf)
}

/// Goes through the whole file and keeps in `gguf` how far that went.
fn walk<'a>(
    gguf: &mut Gguf<'a>,
    reader: &mut Reader<'a>,
    (metadata_count, tensor_count): (usize, usize),
    mut scratch: Option<&mut [u32]>,
    report: Report<'_>,
) -> Option<()> {
    metadata(gguf, reader, metadata_count, scratch.as_deref_mut(), report)?;
    infos(gguf, reader, tensor_count, scratch.as_deref_mut(), report)?;
    // Cannot overflow: both are below 2^63.
    gguf.data_at = align_up(gguf.infos_end(), gguf.alignment).unwrap_or(u64::MAX);
    places(gguf, scratch, report)
}

/// Positions are kept in 32 bits in scratch.
fn fits_32_bits(reader: &Reader<'_>, report: Report<'_>) -> Option<()> {
    if u32::try_from(reader.at()).is_err() {
        tell(report, ErrorKind::MetadataTooLarge, reader.offset())?;
        return None;
    }
    Some(())
}

fn metadata(
    gguf: &mut Gguf<'_>,
    reader: &mut Reader<'_>,
    count: usize,
    scratch: Option<&mut [u32]>,
    report: Report<'_>,
) -> Option<()> {
    let start = *reader;
    for index in 0..count {
        let offset = reader.offset();
        fits_32_bits(reader, report)?;
        let key = fatal(report, reader.string("key"))?;
        if key.is_empty() {
            tell(report, ErrorKind::EmptyKey, offset)?;
        }
        if key.len() > MAX_KEY_LEN {
            let len = to_u64(key.len());
            tell(report, ErrorKind::KeyTooLong { len }, offset)?;
        }
        if core::str::from_utf8(key).is_err() || key.contains(&0) {
            tell(report, ErrorKind::KeyCharset, offset)?;
        }
        let type_at = reader.offset();
        let id = fatal(report, reader.u32("value type"))?;
        let Some(ty) = ValueType::from_id(id) else {
            tell(report, ErrorKind::ValueType { found: id }, type_at)?;
            return None;
        };
        let value_at = reader.offset();
        let before = *reader;
        let value = fatal(report, Value::read(reader, ty))?;
        bad_bools(before, &value, value_at, report)?;
        if key == keys::GENERAL_ALIGNMENT.as_bytes() {
            match value {
                Value::U32(found) if found.is_power_of_two() && found <= MAX_ALIGNMENT => {
                    gguf.alignment = found;
                }
                Value::U32(found) => tell(report, ErrorKind::Alignment { found }, value_at)?,
                other => {
                    let found = other.value_type();
                    tell(report, ErrorKind::AlignmentType { found }, type_at)?;
                }
            }
        }
        gguf.metadata_count = index.saturating_add(1);
        gguf.infos_at = reader.at();
        gguf.infos_end = reader.at();
    }
    let names = Names {
        start,
        count,
        next: skip_entry,
    };
    names.duplicates(scratch, report, |first| ErrorKind::DuplicateKey { first })
}

/// A bool reads as true for any byte but 0: the byte itself is looked at here.
fn bad_bools(
    before: Reader<'_>,
    value: &Value<'_>,
    value_at: u64,
    report: Report<'_>,
) -> Option<()> {
    match value {
        Value::Bool(_) => {
            let byte = { before }.take(1, "bool").ok()?.first().copied()?;
            if byte > 1 {
                tell(report, ErrorKind::BoolValue { found: byte }, value_at)?;
            }
        }
        Value::Array(array) => {
            if let Some((index, byte)) = array.bad_bool() {
                let head = to_u64(before.count_width()).saturating_add(4);
                let offset = value_at.saturating_add(head).saturating_add(to_u64(index));
                tell(report, ErrorKind::BoolValue { found: byte }, offset)?;
            }
        }
        _ => {}
    }
    Some(())
}

fn infos(
    gguf: &mut Gguf<'_>,
    reader: &mut Reader<'_>,
    count: usize,
    scratch: Option<&mut [u32]>,
    report: Report<'_>,
) -> Option<()> {
    let start = *reader;
    for index in 0..count {
        fits_32_bits(reader, report)?;
        let (info, too_many_dims) = fatal(report, TensorInfo::read(reader))?;
        let offset = info.info_offset();
        let name = info.name_bytes();
        if name.is_empty() {
            tell(report, ErrorKind::EmptyName, offset)?;
        }
        if name.len() > MAX_NAME_LEN {
            let len = to_u64(name.len());
            tell(report, ErrorKind::NameTooLong { len }, offset)?;
        }
        if core::str::from_utf8(name).is_err() || name.contains(&0) {
            tell(report, ErrorKind::NameCharset, offset)?;
        }
        match too_many_dims {
            Some(error) => tell(report, error.kind, error.offset)?,
            None => {
                if let Some(kind) = shape_fault(&info) {
                    tell(report, kind, offset)?;
                }
            }
        }
        gguf.tensor_count = index.saturating_add(1);
        gguf.infos_end = reader.at();
    }
    let names = Names {
        start,
        count,
        next: skip_info,
    };
    names.duplicates(scratch, report, |first| ErrorKind::DuplicateTensor {
        first,
    })
}

/// What is wrong with a tensor by itself: its type, its dimensions, its row length.
fn shape_fault(info: &TensorInfo<'_>) -> Option<ErrorKind> {
    let fits = |n: u64| i64::try_from(n).is_ok();
    if !info.dims().iter().copied().all(fits) || !info.elements().is_some_and(fits) {
        return Some(ErrorKind::ShapeOverflow);
    }
    let Some(geometry) = info.ty().geometry() else {
        let found = info.ty().id();
        return Some(ErrorKind::TensorType { found });
    };
    let block = geometry.block_len;
    let row = info.row_len();
    if row.checked_rem(u64::from(block)) != Some(0) {
        return Some(ErrorKind::RowLength {
            row,
            block,
            ty: info.ty(),
        });
    }
    let padded = info.byte_len().and_then(|len| align_up(len, MAX_ALIGNMENT));
    if !padded.is_some_and(fits) {
        return Some(ErrorKind::ShapeOverflow);
    }
    None
}

/// Entries that begin with a name, one after the other.
struct Names<'a> {
    start: Reader<'a>,
    count: usize,
    /// Reads an entry and gives its name.
    next: fn(&mut Reader<'a>) -> Option<&'a [u8]>,
}

fn skip_entry<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let key = reader.string("key").ok()?;
    let ty = ValueType::from_id(reader.u32("value type").ok()?)?;
    Value::read(reader, ty).ok()?;
    Some(key)
}

fn skip_info<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let (info, _) = TensorInfo::read(reader).ok()?;
    Some(info.name_bytes())
}

impl<'a> Names<'a> {
    /// Reports every name that came before, with the place where it came first.
    ///
    /// Names are compared by their hashes first: sorting numbers is quick, where sorting names
    /// leads all over the file. Only where hashes are equal, rare unless somebody meant it, the
    /// names are looked at.
    fn duplicates(
        &self,
        scratch: Option<&mut [u32]>,
        report: Report<'_>,
        kind: impl Fn(u64) -> ErrorKind,
    ) -> Option<()> {
        let Some(slots) = scratch.and_then(|scratch| scratch.get_mut(..self.count)) else {
            return self.each_with_each(report, kind);
        };
        let mut reader = self.start;
        for slot in slots.iter_mut() {
            *slot = short_hash((self.next)(&mut reader)?);
        }
        slots.sort_unstable();
        let equal = slots.windows(2).filter(|pair| pair.first() == pair.last());
        let mut shared = [0; 8];
        let mut count = 0_usize;
        for hash in equal.filter_map(|pair| pair.first()) {
            if shared.get(..count)?.last() == Some(hash) {
                continue;
            }
            let Some(slot) = shared.get_mut(count) else {
                // Many: somebody meant it. Look at all names.
                return self.sorted_by_name(slots, |_| true, report, kind);
            };
            *slot = *hash;
            count = count.saturating_add(1);
        }
        match shared.get(..count) {
            None | Some([]) => Some(()),
            Some(shared) => {
                let suspect = |name: &[u8]| shared.contains(&short_hash(name));
                self.sorted_by_name(slots, suspect, report, kind)
            }
        }
    }

    /// Reports every name among those that are `suspect` which came before.
    fn sorted_by_name(
        &self,
        slots: &mut [u32],
        suspect: impl Fn(&[u8]) -> bool,
        report: Report<'_>,
        kind: impl Fn(u64) -> ErrorKind,
    ) -> Option<()> {
        let mut reader = self.start;
        let mut count = 0_usize;
        for _ in 0..self.count {
            let position = u32::try_from(reader.at()).ok()?;
            if suspect((self.next)(&mut reader)?) {
                *slots.get_mut(count)? = position;
                count = count.saturating_add(1);
            }
        }
        let slots = slots.get_mut(..count)?;
        let name = |&position: &u32| self.name_at(position);
        slots.sort_unstable_by(|a, b| name(a).cmp(name(b)).then(a.cmp(b)));
        let mut first = None;
        for pair in slots.windows(2) {
            let &[before, after] = pair else { continue };
            if name(&before) == name(&after) {
                let first = *first.get_or_insert(before);
                tell(report, kind(first.into()), after.into())?;
            } else {
                first = None;
            }
        }
        Some(())
    }

    fn each_with_each(&self, report: Report<'_>, kind: impl Fn(u64) -> ErrorKind) -> Option<()> {
        let mut later = self.start;
        for index in 0..self.count {
            let offset = later.offset();
            let name = (self.next)(&mut later)?;
            let mut earlier = self.start;
            for _ in 0..index {
                let first = earlier.offset();
                if (self.next)(&mut earlier)? == name {
                    tell(report, kind(first), offset)?;
                    break;
                }
            }
        }
        Some(())
    }

    fn name_at(&self, position: u32) -> &'a [u8] {
        let at = usize::try_from(position).unwrap_or(usize::MAX);
        let mut reader = self.start.moved_to(at);
        reader.string("name").unwrap_or_default()
    }
}

/// 32 bits of a name's FNV-1a hash.
fn short_hash(name: &[u8]) -> u32 {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(name);
    let [a, b, c, d, e, f, g, h] = hasher.finish().to_le_bytes();
    u32::from_le_bytes([a, b, c, d]) ^ u32::from_le_bytes([e, f, g, h])
}

/// Checks where the tensors lie: aligned, inside the data, none over another.
fn places(gguf: &Gguf<'_>, scratch: Option<&mut [u32]>, report: Report<'_>) -> Option<()> {
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
        let (info, _) = TensorInfo::read(&mut start.moved_to(at)).ok()?;
        extent(&info)
    };
    let mut reader = start;
    for position in positions.iter_mut() {
        *position = u32::try_from(reader.at()).ok()?;
        skip_info(&mut reader)?;
    }
    positions.sort_unstable_by_key(|&position| (info_at(position), position));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::{Array, GgmlType, Writer};
    use std::{format, string::String, vec, vec::Vec};

    type Tensor<'a> = (&'a str, &'a [u64], GgmlType, u64);

    fn file(entries: &[(&str, Value<'_>)], tensors: &[Tensor<'_>], data: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let sink = |part: &[u8]| -> Result<(), ()> {
            bytes.extend_from_slice(part);
            Ok(())
        };
        let counts = (to_u64(entries.len()), to_u64(tensors.len()));
        let mut writer = Writer::new(sink, counts.0, counts.1).unwrap();
        for (key, value) in entries {
            writer.metadata(key, value).unwrap();
        }
        for &(name, dims, ty, offset) in tensors {
            let info = TensorInfo::new(name, dims, ty, offset).unwrap();
            writer.tensor(&info).unwrap();
        }
        writer.finish(32).unwrap();
        bytes.resize(bytes.len() + data, 7);
        bytes
    }

    /// Both forms must find the same first fault.
    fn fault(bytes: &[u8]) -> Option<ErrorKind> {
        let mut scratch = vec![0; Gguf::scratch_len(bytes)];
        let with = Gguf::parse(bytes, &mut scratch).err();
        let without = Gguf::parse_small(bytes).err();
        assert_eq!(with, without);
        with.map(|error| error.kind)
    }

    #[test]
    fn places_are_told_apart() {
        use GgmlType::F32;
        let of = |tensors: &[Tensor<'_>], data| fault(&file(&[], tensors, data));
        let a = ("a", &[8_u64][..], F32, 0);
        assert_eq!(of(&[a, ("b", &[8], F32, 32)], 64), None);
        // The last tensor's own bytes must be there, not the padding behind them.
        assert_eq!(of(&[a, ("b", &[1], F32, 32)], 36), None);
        let cut = of(&[a, ("b", &[8], F32, 32)], 63);
        let (needed, data) = (64, 63);
        assert_eq!(cut, Some(ErrorKind::DataTruncated { needed, data }));
        let past = of(&[a, ("b", &[8], F32, 64)], 64);
        let (found, bytes, data) = (64, 32, 64);
        let kind = ErrorKind::OffsetOutOfBounds { found, bytes, data };
        assert_eq!(past, Some(kind));
        let odd = of(&[a, ("b", &[8], F32, 40)], 128);
        let (found, alignment) = (40, 32);
        let kind = ErrorKind::OffsetUnaligned { found, alignment };
        assert_eq!(odd, Some(kind));
        let far = of(&[a, ("b", &[8], F32, u64::MAX - 31)], 64);
        assert!(matches!(far, Some(ErrorKind::OffsetOutOfBounds { .. })));
    }

    #[test]
    fn overlaps_are_found_in_any_order() {
        use GgmlType::F32;
        let long = ("long", &[64_u64][..], F32, 0);
        let inside = ("inside", &[8_u64][..], F32, 128);
        let behind = ("behind", &[8_u64][..], F32, 256);
        let empty = ("empty", &[0_u64][..], F32, 32);
        let orders = [
            [long, inside, behind, empty],
            [behind, empty, inside, long],
            [inside, long, empty, behind],
        ];
        for order in orders {
            let bytes = file(&[], &order, 288);
            let found = fault(&bytes);
            assert!(
                matches!(found, Some(ErrorKind::Overlap { .. })),
                "{found:?}"
            );
            let without: Vec<_> = order.into_iter().filter(|t| t.0 != "inside").collect();
            assert_eq!(fault(&file(&[], &without, 288)), None);
        }
    }

    #[test]
    fn every_duplicate_is_reported_with_the_first() {
        let key = |name| (name, Value::U8(1));
        let bytes = file(&["x", "y", "x", "z", "x", "y"].map(key), &[], 0);
        let offsets: Vec<u64> = {
            let mut offsets = Vec::new();
            let mut scratch = [0; 6];
            let gguf = Gguf::check(&bytes, &mut scratch, &mut |_| ControlFlow::Continue(()));
            offsets.extend(gguf.unwrap().metadata().map(|entry| entry.offset));
            offsets
        };
        for with_scratch in [true, false] {
            let mut found = Vec::new();
            let mut report = |error: Error| {
                match error.kind {
                    ErrorKind::DuplicateKey { first } => found.push((first, error.offset)),
                    other => panic!("{other}"),
                }
                ControlFlow::Continue(())
            };
            let mut scratch = [0; 6];
            let scratch = with_scratch.then_some(&mut scratch[..]);
            assert!(check(&bytes, scratch, &mut report).is_some());
            found.sort_unstable();
            let pairs = [(0, 2), (0, 4), (1, 5)];
            let expected = pairs.map(|(first, at)| (offsets[first], offsets[at]));
            assert_eq!(found, expected);
        }
    }

    /// Two names whose hashes are equal, and many of each.
    #[test]
    fn equal_hashes_are_no_duplicates() {
        let mut seen = std::collections::HashMap::new();
        let mut pairs = Vec::new();
        for number in 0.. {
            let name = format!("n{number}");
            if let Some(other) = seen.insert(short_hash(name.as_bytes()), name.clone()) {
                pairs.push((other, name));
                if pairs.len() == 2 {
                    break;
                }
            }
        }
        let names = |pairs: &[(String, String)], twice: bool| {
            let mut names: Vec<String> = Vec::new();
            for (a, b) in pairs {
                names.extend([a.clone(), b.clone()]);
            }
            names.extend(twice.then(|| pairs[0].1.clone()));
            names
        };
        for twice in [false, true] {
            let names = names(&pairs, twice);
            let entries: Vec<_> = names.iter().map(|n| (&n[..], Value::U8(0))).collect();
            let found = fault(&file(&entries, &[], 0));
            let duplicate = matches!(found, Some(ErrorKind::DuplicateKey { .. }));
            assert_eq!(duplicate, twice, "{found:?}");
        }
    }

    #[test]
    fn many_duplicates_are_all_reported() {
        let names: Vec<String> = (0..60).map(|n| format!("key.{}", n % 20)).collect();
        let entries: Vec<_> = names.iter().map(|n| (&n[..], Value::U8(0))).collect();
        let bytes = file(&entries, &[], 0);
        let mut count = 0;
        let mut scratch = vec![0; 60];
        let gguf = Gguf::check(&bytes, &mut scratch, &mut |error| {
            assert!(matches!(error.kind, ErrorKind::DuplicateKey { .. }));
            count += 1;
            ControlFlow::Continue(())
        });
        assert!(gguf.is_some());
        assert_eq!(count, 40);
    }

    #[test]
    fn scratch_is_asked_for_by_name() {
        let names: Vec<String> = (0..1025).map(|n| format!("key.{n}")).collect();
        let entries: Vec<_> = names.iter().map(|n| (&n[..], Value::U8(0))).collect();
        let bytes = file(&entries, &[], 0);
        assert_eq!(Gguf::scratch_len(&bytes), 1025);
        let kind = Gguf::parse_small(&bytes).unwrap_err().kind;
        let (needed, given) = (1025, 0);
        assert_eq!(kind, ErrorKind::ScratchTooSmall { needed, given });
        let kind = Gguf::parse(&bytes, &mut [0; 1024]).unwrap_err().kind;
        let (needed, given) = (1025, 1024);
        assert_eq!(kind, ErrorKind::ScratchTooSmall { needed, given });
        assert!(Gguf::parse(&bytes, &mut vec![0; 1025]).is_ok());
        assert!(Gguf::parse_small(&file(&entries[1..], &[], 0)).is_ok());
    }

    #[test]
    fn bools_are_0_or_1_wherever_they_stand() {
        let good = Array::new(ValueType::Bool, 3, &[0, 1, 1]).unwrap();
        assert_eq!(Array::new(ValueType::Bool, 3, &[0, 1, 2]), None);
        let bytes = file(
            &[("one", Value::Bool(true)), ("many", Value::Array(good))],
            &[],
            0,
        );
        assert_eq!(fault(&bytes), None);
        let ends = [24 + 8 + 3 + 4, 24 + 8 + 3 + 4 + 1 + 8 + 4 + 4 + 4 + 8 + 2];
        for at in ends {
            let mut bad = bytes.clone();
            bad[at] = 255;
            let error = Gguf::parse_small(&bad).unwrap_err();
            assert_eq!(error.kind, ErrorKind::BoolValue { found: 255 });
            assert_eq!(error.offset, to_u64(at));
        }
    }

    #[test]
    fn a_check_reports_all_faults_in_one_run() {
        use GgmlType::{F32, Q8_0};
        let entries = [("", Value::U8(1)), ("general.alignment", Value::U32(3))];
        let tensors = [
            ("a", &[33_u64][..], Q8_0, 0),
            ("a", &[8], GgmlType::Unknown(31), 32),
            ("b", &[u64::MAX, 2], F32, 33),
            ("c", &[8], F32, 64),
        ];
        let bytes = file(&entries, &tensors, 64);
        let mut kinds = Vec::new();
        let mut scratch = [0; 4];
        let gguf = Gguf::check(&bytes, &mut scratch, &mut |error| {
            kinds.push(error.kind);
            ControlFlow::Continue(())
        });
        assert_eq!(gguf.unwrap().tensors().count(), 4);
        assert_eq!(kinds.len(), 8, "{kinds:?}");
        assert!(matches!(kinds[0], ErrorKind::EmptyKey));
        assert!(matches!(kinds[1], ErrorKind::Alignment { found: 3 }));
        assert!(matches!(kinds[2], ErrorKind::RowLength { row: 33, .. }));
        assert!(matches!(kinds[3], ErrorKind::TensorType { found: 31 }));
        assert!(matches!(kinds[4], ErrorKind::ShapeOverflow));
        assert!(matches!(kinds[5], ErrorKind::DuplicateTensor { .. }));
        assert!(matches!(
            kinds[6],
            ErrorKind::OffsetUnaligned { found: 33, .. }
        ));
        assert!(matches!(kinds[7], ErrorKind::OffsetOutOfBounds { .. }));
    }

    #[test]
    fn version_1_has_counts_of_32_bits() {
        let mut bytes = Vec::from(*b"GGUF");
        let u32s = |bytes: &mut Vec<u8>, words: &[u32]| {
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        };
        u32s(&mut bytes, &[1, 1, 1]);
        u32s(&mut bytes, &[4]);
        bytes.extend(b"list");
        u32s(&mut bytes, &[9, 8, 2, 2]);
        bytes.extend(b"ab");
        u32s(&mut bytes, &[1]);
        bytes.extend(b"c");
        u32s(&mut bytes, &[1]);
        bytes.extend(b"t");
        u32s(&mut bytes, &[2, 2, 3, 0, 0, 0]);
        bytes.resize(bytes.len().next_multiple_of(32) + 24, 1);
        let gguf = Gguf::parse_small(&bytes).unwrap();
        assert_eq!(gguf.version(), 1);
        let list = gguf.get_array("list", ValueType::String).unwrap().unwrap();
        assert!(list.strings().eq([&b"ab"[..], b"c"]));
        let tensor = gguf.tensor("t").unwrap();
        assert_eq!(tensor.dims(), [2, 3]);
        assert_eq!(gguf.data(&tensor).unwrap(), [1; 24]);
    }

    #[test]
    fn no_prefix_is_accepted() {
        let list = Array::new(ValueType::U16, 2, &[1, 0, 2, 0]).unwrap();
        let entries = [("a", Value::Array(list)), ("b", Value::String(b"text"))];
        let bytes = file(&entries, &[("t", &[4], GgmlType::F32, 0)], 16);
        assert_eq!(fault(&bytes), None);
        for len in 0..bytes.len() {
            assert!(fault(&bytes[..len]).is_some(), "{len}");
        }
    }
}
