//! Every fault in small files made for it.

use super::*;
use crate::gguf::{Array, GgmlType, Writer, names::short_hash};
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
