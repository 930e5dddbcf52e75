//! Goes through everything that a GGUF parser gives out, and checks what its callers rely on.

use std::collections::HashSet;
use std::mem::discriminant;
use std::ops::ControlFlow;

use smidgen_core::gguf::{
    Array, Error, ErrorKind, Gguf, MAX_NAME_LEN, MAX_WITHOUT_SCRATCH, Value, ValueType,
};

/// Parses any bytes in each way there is; the answers must agree, and an accepted file must bear
/// [`walk`]. This is what the fuzzer runs.
///
/// # Errors
/// The parser's answer.
///
/// # Panics
/// The parser does not keep its promises.
pub fn feed(bytes: &[u8]) -> Result<Gguf<'_>, Error> {
    let mut scratch = vec![0; Gguf::scratch_len(bytes)];
    let parsed = Gguf::parse(bytes, &mut scratch);

    let small = Gguf::parse_small(bytes);
    match (&parsed, &small) {
        (_, Err(error)) if matches!(error.kind, ErrorKind::ScratchTooSmall { .. }) => {
            assert!(scratch.len() > MAX_WITHOUT_SCRATCH, "{error}");
        }
        (Err(a), Err(b)) if is_of_a_pair(&a.kind) => {
            assert_eq!(discriminant(&a.kind), discriminant(&b.kind), "{a}; {b}");
        }
        _ => assert_eq!(parsed.as_ref().err(), small.as_ref().err(), "the two forms"),
    }

    let mut faults = Vec::new();
    let checked = Gguf::check(bytes, &mut scratch, &mut |error| {
        faults.push(error);
        ControlFlow::Continue(())
    });
    assert_eq!(faults.first(), parsed.as_ref().err(), "check and parse");
    assert!(checked.is_some() || !faults.is_empty());
    for error in &faults {
        // A message for every fault, and a place that is in the file or just behind it.
        assert!(!error.to_string().is_empty());
        assert!(error.offset <= bytes.len() as u64, "{error}");
    }
    if let Some(shown) = checked {
        // Also what is wrong can be shown.
        assert_eq!(shown.metadata().count(), shown.metadata_count());
        assert_eq!(shown.tensors().count(), shown.tensor_count());
        for info in shown.tensors() {
            let _ = (info.name(), info.byte_len(), shown.data(&info));
        }
    }

    if let Ok(gguf) = &parsed {
        walk(gguf);
    }
    parsed
}

/// Whether the fault lies between two entries: of several such pairs, one form finds another first.
fn is_of_a_pair(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::DuplicateKey { .. }
            | ErrorKind::DuplicateTensor { .. }
            | ErrorKind::Overlap { .. }
    )
}

/// Reads everything in a file that was accepted.
///
/// # Panics
/// Something is not as an accepted file promises.
pub fn walk(gguf: &Gguf<'_>) {
    let mut keys = HashSet::new();
    for entry in gguf.metadata() {
        assert!(keys.insert(entry.key()), "key {:?} twice", entry.key());
        assert_eq!(entry.key().as_bytes(), entry.key_bytes());
        assert!(!entry.key().is_empty());
        assert!(entry.offset >= gguf.metadata_offset() && entry.offset < gguf.infos_offset());
        if let Value::Array(array) = entry.value {
            walk_array(&array);
        }
        // Looking a key up walks from the start: some of them stand for all.
        if keys.len() <= 32 {
            look_up(gguf, entry.key(), &entry.value);
        }
    }
    assert_eq!(keys.len(), gguf.metadata_count());
    assert!(gguf.get("").is_none(), "there is no empty key");

    let mut names = HashSet::new();
    let mut extents = Vec::new();
    for (index, info) in gguf.tensors().enumerate() {
        assert!(names.insert(info.name()), "tensor {:?} twice", info.name());
        assert!((1..=MAX_NAME_LEN).contains(&info.name_bytes().len()));
        assert!(info.dims().len() <= 4);
        let elements: u64 = info.dims().iter().product();
        assert_eq!(info.elements(), Some(elements));
        let data = gguf.data(&info).expect("the bytes of an accepted tensor");
        assert_eq!(Some(data.len() as u64), info.byte_len());
        assert!(info.offset().is_multiple_of(gguf.alignment().into()));
        if !data.is_empty() {
            let start = gguf.data_offset() + info.offset();
            extents.push((start, start + data.len() as u64));
        }
        if index < 32 {
            assert_eq!(gguf.tensor(info.name()), Some(info));
        }
    }
    assert_eq!(names.len(), gguf.tensor_count());
    extents.sort_unstable();
    for pair in extents.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "tensors overlap: {pair:?}");
    }
    assert!(gguf.alignment().is_power_of_two());
    assert!(gguf.data_offset().is_multiple_of(gguf.alignment().into()));
    assert!(gguf.data_offset() >= gguf.infos_end());
    if let Some(&(start, end)) = extents.last() {
        assert!(start >= gguf.infos_end() && end <= gguf.bytes().len() as u64);
    }
}

fn walk_array(array: &Array<'_>) {
    assert_eq!(array.iter().count(), array.len());
    let of_type = |value: &Value<'_>| value.value_type() == array.element_type();
    assert!(array.iter().all(|value| of_type(&value)));
    for at in [0, 1, array.len() / 2, array.len().saturating_sub(1)] {
        let stepped = array.iter().nth(at);
        let direct = array.get(at);
        assert_eq!(direct.is_some(), at < array.len());
        assert!(same(direct.as_ref(), stepped.as_ref()), "element {at}");
    }
    assert!(array.get(array.len()).is_none());
    assert!(array.get(usize::MAX).is_none());
    let strings = array.strings().count();
    let is_strings = array.element_type() == ValueType::String;
    assert_eq!(strings, if is_strings { array.len() } else { 0 });
}

/// Every getter answers; the one of the value's type with the value, the others with an error.
fn look_up(gguf: &Gguf<'_>, key: &str, value: &Value<'_>) {
    assert!(same(gguf.get(key).as_ref(), Some(value)), "{key}");
    let integer = value.as_integer();
    let wide = gguf.get_u64(key).ok().flatten();
    assert_eq!(wide, integer.and_then(|n| u64::try_from(n).ok()), "{key}");
    let narrow = gguf.get_u32(key).ok().flatten();
    assert_eq!(narrow, integer.and_then(|n| u32::try_from(n).ok()), "{key}");
    let is_float = matches!(value, Value::F32(_) | Value::F64(_));
    assert_eq!(gguf.get_f32(key).is_ok(), is_float, "{key}");
    assert_eq!(gguf.get_bool(key).is_ok(), matches!(value, Value::Bool(_)));
    let is_string = matches!(value, Value::String(_));
    assert_eq!(gguf.get_bytes(key).is_ok(), is_string, "{key}");
    assert_eq!(gguf.get_str(key).ok().flatten(), value.as_str(), "{key}");
    if let Value::Array(array) = value {
        let got = gguf.get_array(key, array.element_type());
        assert_eq!(got, Ok(Some(*array)), "{key}");
    }
}

/// Equality that a NaN has with itself.
fn same(a: Option<&Value<'_>>, b: Option<&Value<'_>>) -> bool {
    match (a, b) {
        (Some(Value::F32(a)), Some(Value::F32(b))) => a.to_bits() == b.to_bits(),
        (Some(Value::F64(a)), Some(Value::F64(b))) => a.to_bits() == b.to_bits(),
        _ => a == b,
    }
}
