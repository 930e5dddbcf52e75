//! The one door: a linear pass that checks everything later accessors rely on.

use core::ops::ControlFlow;

use super::{
    DEFAULT_ALIGNMENT, Error, ErrorKind, Gguf, MAX_ALIGNMENT, MAX_NAME_LEN, TensorInfo, Value,
    ValueType, align_up, keys, names::Names, names::skip_entry, names::skip_info, places::places,
    reader::Reader, reader::to_u64,
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

pub(super) type Report<'r> = &'r mut dyn FnMut(Error) -> ControlFlow<()>;

/// Reports and says whether to go on; `None` is "stop".
pub(super) fn tell(report: Report<'_>, kind: ErrorKind, offset: u64) -> Option<()> {
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

#[inline(never)] // A frame of its own: boards have little stack.
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

#[inline(never)] // As above.
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
        if !is_name(key) {
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

#[inline(never)] // As above.
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
        let info = fatal(report, TensorInfo::read(reader))?;
        let offset = info.info_offset();
        let name = info.name_bytes();
        if name.is_empty() {
            tell(report, ErrorKind::EmptyName, offset)?;
        }
        if name.len() > MAX_NAME_LEN {
            let len = to_u64(name.len());
            tell(report, ErrorKind::NameTooLong { len }, offset)?;
        }
        if !is_name(name) {
            tell(report, ErrorKind::NameCharset, offset)?;
        }
        match info.too_many_dims(reader) {
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

/// Whether these bytes are UTF-8 without a NUL.
fn is_name(bytes: &[u8]) -> bool {
    // Not `contains`: its search by words takes flash, and names are short.
    bytes.iter().all(|&byte| byte != 0) && core::str::from_utf8(bytes).is_ok()
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
    let row = info.row_len();
    if geometry.blocks(row).is_none() {
        return Some(ErrorKind::RowLength {
            row,
            block: geometry.block_len,
            ty: info.ty(),
        });
    }
    let padded = info.byte_len().and_then(|len| align_up(len, MAX_ALIGNMENT));
    if !padded.is_some_and(fits) {
        return Some(ErrorKind::ShapeOverflow);
    }
    None
}

#[cfg(test)]
mod tests;
