//! The parser against the case files: the right verdict for each, with the cause or the facts that
//! the manifest names; and no input, cut or changed anywhere, that breaks a promise.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};
use smidgen_core::gguf::{Array, Error, ErrorKind, GgmlType, Gguf, KeyError, Value, ValueType};
use smidgen_io::GgufBuilder;
use smidgen_tests::cases::{self, Case, Expectation};
use smidgen_tests::{feed, shared};

/// The manifest holds version 1 for something to refuse by name or to read; we read it.
const READ_INSTEAD: &str = "hdr_version_1";

/// All cases that say what a parser does.
fn parser_cases() -> Vec<Case> {
    let mut found = cases::of("parser", "inspect");
    found.extend(cases::of("parser", "roundtrip"));
    found.extend(cases::of("parser", "inspect_prefixes"));
    found.extend(cases::of("embedded", "inspect"));
    assert_eq!(found.len(), 108);
    found
}

fn accepted() -> impl Iterator<Item = Case> {
    parser_cases()
        .into_iter()
        .filter(|case| case.expectation == Expectation::Accept || case.id == READ_INSTEAD)
}

#[test]
fn each_reject_is_rejected_for_its_reason() {
    let mut count = 0;
    for case in parser_cases() {
        if case.expectation == Expectation::Accept || case.id == READ_INSTEAD {
            continue;
        }
        let bytes = case.bytes();
        let error = match feed(&bytes) {
            Err(error) => error,
            Ok(gguf) => panic!("{}: accepted: {gguf:?}", case.id),
        };
        let reason = case.reason.as_deref().unwrap_or_default();
        assert!(is_reason(&error, reason), "{}: {reason}: {error}", case.id);
        count += 1;
    }
    assert_eq!(count, 69);
}

/// Whether the error is of the kind that the manifest's word stands for.
fn is_reason(error: &Error, reason: &str) -> bool {
    use ErrorKind as E;
    match reason {
        // A count or a length that the file cannot hold may be wrong, or the file may be cut.
        "truncated" => match error.kind {
            E::Truncated { .. } | E::DataTruncated { .. } => true,
            E::StringLength { .. }
            | E::TensorCount { .. }
            | E::MetadataCount { .. }
            | E::TensorTooLarge { .. } => {
                let text = error.to_string();
                text.contains("truncated") || text.contains("cut short")
            }
            _ => false,
        },
        "bad_magic" => matches!(error.kind, E::BadMagic { .. }),
        "bad_version" => matches!(error.kind, E::BadVersion { .. }),
        "endianness" => error.kind == E::BigEndian && error.to_string().contains("endian"),
        "count_overflow" => matches!(error.kind, E::TensorCount { .. } | E::MetadataCount { .. }),
        "kv_type" => matches!(error.kind, E::ValueType { .. }),
        "empty_key" => error.kind == E::EmptyKey,
        "dup_key" => matches!(error.kind, E::DuplicateKey { .. }),
        "key_charset" => error.kind == E::KeyCharset,
        "string_length" => matches!(error.kind, E::StringLength { .. }),
        "array_length" => matches!(error.kind, E::ArrayLength { .. }),
        "nesting" => error.kind == E::NestedArray,
        "bool_value" => matches!(error.kind, E::BoolValue { .. }),
        "alignment" => matches!(error.kind, E::Alignment { .. } | E::AlignmentType { .. }),
        "tensor_offset" => matches!(
            error.kind,
            E::OffsetUnaligned { .. } | E::OffsetOutOfBounds { .. }
        ),
        "n_dims" => matches!(error.kind, E::DimensionCount { .. }),
        "shape" => matches!(error.kind, E::ShapeOverflow | E::TensorTooLarge { .. }),
        "tensor_type" => matches!(error.kind, E::TensorType { .. }),
        "row_size" => matches!(error.kind, E::RowLength { .. }),
        "dup_tensor" => matches!(error.kind, E::DuplicateTensor { .. }),
        "name" => matches!(error.kind, E::EmptyName | E::NameCharset),
        "name_length" => matches!(error.kind, E::NameTooLong { .. }),
        other => panic!("the manifest's reason {other} is not known here"),
    }
}

#[test]
fn each_accept_is_accepted_with_its_facts() {
    let mut facts = 0;
    for case in parser_cases() {
        if case.expectation == Expectation::Reject {
            continue;
        }
        let bytes = case.bytes();
        let gguf = feed(&bytes).unwrap_or_else(|error| panic!("{}: {error}", case.id));
        let map = case.facts.as_object();
        for (name, fact) in map.unwrap_or_else(|| panic!("{}: no facts", case.id)) {
            check_fact(&gguf, name, fact, &case.id);
            facts += 1;
        }
    }
    assert_eq!(facts, 259);
}

fn check_fact(gguf: &Gguf<'_>, name: &str, fact: &Json, id: &str) {
    let number = || fact.as_u64().expect("a number");
    match name {
        "version" => assert_eq!(u64::from(gguf.version()), number(), "{id}"),
        "alignment" => assert_eq!(u64::from(gguf.alignment()), number(), "{id}"),
        "data_offset" => assert_eq!(gguf.data_offset(), number(), "{id}"),
        "n_kv" => assert_eq!(gguf.metadata_count() as u64, number(), "{id}"),
        "n_tensors" => assert_eq!(gguf.tensor_count() as u64, number(), "{id}"),
        "n_elements" => {
            let counts: Vec<_> = gguf.tensors().map(|info| info.elements()).collect();
            assert_eq!(serde_json::json!(counts), *fact, "{id}");
        }
        "n_dims_in_file" => {
            let info = gguf.tensors().next().unwrap();
            assert_eq!(info.dims().len() as u64, number(), "{id}");
        }
        "second_f32_bits" => {
            let info = gguf.tensors().next().unwrap();
            let data = gguf.data(&info).unwrap();
            let bits = u32::from_le_bytes(data[4..8].try_into().unwrap());
            assert_eq!(format!("{bits:08x}"), fact.as_str().unwrap(), "{id}");
        }
        "kv" => check_metadata(gguf, fact, id),
        "tensors" => check_tensors(gguf, fact, id),
        // What the prefixes of the file are measured by, in another test.
        "min_good" => assert_eq!(needed(gguf), number(), "{id}"),
        "size" => assert_eq!(gguf.bytes().len() as u64, number(), "{id}"),
        other => panic!("{id}: the manifest's fact {other} is not known here"),
    }
}

fn check_metadata(gguf: &Gguf<'_>, fact: &Json, id: &str) {
    let map = fact.as_object().unwrap();
    assert_eq!(gguf.metadata_count(), map.len(), "{id}");
    for (key, typed) in map {
        let place = format!("{id}: {key}");
        let value = gguf
            .get(key)
            .unwrap_or_else(|| panic!("{place} is missing"));
        let ty = typed[0].as_str().and_then(ValueType::from_name);
        assert_eq!(Some(value.value_type()), ty, "{place}");
        check_value(&value, &typed[1], &place);
    }
}

fn check_value(value: &Value<'_>, fact: &Json, place: &str) {
    match value {
        Value::String(bytes) => check_string(bytes, fact, place),
        Value::Array(array) => check_array(array, fact, place),
        Value::Bool(value) => assert_eq!(Some(*value), fact.as_bool(), "{place}"),
        Value::F32(value) => {
            let bits = format!("{:08x}", value.to_bits());
            assert_eq!(Some(&bits[..]), fact["bits"].as_str(), "{place}");
        }
        Value::F64(value) => {
            let bits = format!("{:016x}", value.to_bits());
            assert_eq!(Some(&bits[..]), fact["bits"].as_str(), "{place}");
        }
        integer => {
            let integer = integer.as_integer().unwrap().to_string();
            assert_eq!(integer, fact.to_string(), "{place}");
        }
    }
}

fn check_string(bytes: &[u8], fact: &Json, place: &str) {
    match (fact.as_str(), fact["hex"].as_str()) {
        (Some(text), _) => assert_eq!(bytes, text.as_bytes(), "{place}"),
        (None, Some(hex)) => assert_eq!(hex_of(bytes), hex, "{place}"),
        (None, None) => panic!("{place}: no string {fact}"),
    }
}

fn check_array(array: &Array<'_>, fact: &Json, place: &str) {
    let element = fact["elem"].as_str().and_then(ValueType::from_name);
    assert_eq!(Some(array.element_type()), element, "{place}");
    assert_eq!(Some(array.len() as u64), fact["len"].as_u64(), "{place}");
    let head = fact["head"].as_array().unwrap();
    assert!(array.is_empty() || !head.is_empty(), "{place}");
    for (at, fact) in head.iter().enumerate() {
        let value = array.get(at).unwrap_or_else(|| panic!("{place}: {at}"));
        check_value(&value, fact, &format!("{place}[{at}]"));
    }
}

fn check_tensors(gguf: &Gguf<'_>, fact: &Json, id: &str) {
    let facts = fact.as_array().unwrap();
    // In the order of the file; of one with hundreds, the first dozen.
    assert!(facts.len() == gguf.tensor_count().min(12), "{id}");
    for (at, (fact, info)) in facts.iter().zip(gguf.tensors()).enumerate() {
        let place = format!("{id}: tensor {at}");
        assert_eq!(Some(info.name()), fact["name"].as_str(), "{place}");
        assert_eq!(serde_json::json!(info.dims()), fact["dims"], "{place}");
        assert_eq!(
            Some(info.ty()),
            GgmlType::from_name(fact["type"].as_str().unwrap()),
            "{place}"
        );
        assert_eq!(Some(info.offset()), fact["offset"].as_u64(), "{place}");
        assert_eq!(info.byte_len(), fact["nbytes"].as_u64(), "{place}");
        let data = gguf.data(&info).unwrap();
        let hash = hex_of(&Sha256::digest(data)[..8]);
        assert_eq!(Some(&hash[..]), fact["sha256_16"].as_str(), "{place}");
    }
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn version_1_is_read() {
    let bytes = cases::named(READ_INSTEAD).bytes();
    let gguf = feed(&bytes).unwrap();
    assert_eq!(gguf.version(), 1);
    let architecture = gguf.get_str("general.architecture");
    assert_eq!(architecture, Ok(Some("llama")));
    assert_eq!(gguf.tensor_count(), 0);
    // Read with the widths of version 3, the same bytes are no file.
    for version in [2, 3] {
        let mut other = bytes.clone();
        other[4] = version;
        assert!(feed(&other).is_err(), "version {version}");
    }
}

#[test]
fn a_value_of_another_type_is_told_from_a_missing_one() {
    let bytes = cases::named("kv_count_as_string").bytes();
    let gguf = feed(&bytes).unwrap();
    let key = "llama.block_count";
    let error = gguf.get_u32(key).unwrap_err();
    let found = ValueType::String;
    assert!(
        matches!(error, KeyError::WrongType { key: k, found: f, .. } if k == key && f == found),
        "{error}"
    );
    assert_eq!(gguf.get_u32("llama.context_length"), Ok(None));

    let bytes = cases::named("kv_count_as_array").bytes();
    let gguf = feed(&bytes).unwrap();
    let error = gguf.get_u32("llama.attention.head_count").unwrap_err();
    let found = ValueType::Array;
    assert!(matches!(error, KeyError::WrongType { found: f, .. } if f == found));

    let bytes = cases::named("kv_tokens_as_u8_array").bytes();
    let gguf = feed(&bytes).unwrap();
    let tokens = gguf.get_array("tokenizer.ggml.tokens", ValueType::String);
    assert!(matches!(tokens, Err(KeyError::WrongType { .. })));
}

/// A model anywhere in flash: offsets count from its own first byte, and nothing needs the
/// processor's alignment.
#[test]
fn a_model_at_an_odd_address_is_read() {
    let mut with_offset = 0;
    for case in cases::of("embedded", "load_embedded") {
        let flash = case.bytes();
        let base = usize::try_from(case.args["base_offset"].as_u64().unwrap()).unwrap();
        let model = &flash[base..];
        let parsed = feed(model);
        if case.expectation == Expectation::Reject {
            // Erased flash reads as 0xFF: the container is whole, its last floats are no numbers.
            // Whoever runs the model sees that; the length alone does not tell.
            let gguf = parsed.unwrap();
            let last = gguf.tensors().max_by_key(|info| info.offset()).unwrap();
            let data = gguf.data(&last).unwrap();
            assert!(data.ends_with(&[0xff; 4]), "{}", case.id);
            continue;
        }
        let gguf = parsed.unwrap_or_else(|error| panic!("{}: {error}", case.id));
        let facts = &case.facts;
        let offset = facts["data_offset_in_model"].as_u64();
        assert_eq!(Some(gguf.data_offset()), offset, "{}", case.id);
        let first = gguf.tensors().find(|info| info.ty() == GgmlType::F32);
        let data = gguf.data(&first.unwrap()).unwrap();
        let value = f32::from_le_bytes(data[..4].try_into().unwrap());
        let expected = facts["first_f32"].as_str().unwrap().parse::<f64>().unwrap();
        assert_eq!(f64::from(value), expected, "{}", case.id);
        with_offset += 1;
    }
    assert_eq!(with_offset, 3);
}

/// The bytes that must be there: up to the end of the infos and of the last tensor that has any.
fn needed(gguf: &Gguf<'_>) -> u64 {
    let ends = gguf.tensors().filter_map(|info| {
        let bytes = info.byte_len().filter(|&bytes| bytes > 0)?;
        Some(gguf.data_offset() + info.offset() + bytes)
    });
    ends.max().unwrap_or(0).max(gguf.infos_end())
}

#[test]
fn every_prefix_of_every_valid_file_is_rejected() {
    for case in accepted() {
        let bytes = case.bytes();
        let needed = needed(&feed(&bytes).unwrap());
        let needed = usize::try_from(needed).unwrap();
        for len in 0..needed {
            let prefix = &bytes[..len];
            let mut scratch = vec![0; Gguf::scratch_len(prefix)];
            let with = Gguf::parse(prefix, &mut scratch).err();
            assert!(with.is_some(), "{}: accepted {len} bytes", case.id);
            // The form without scratch is quadratic: of a long file, some prefixes stand for all.
            if bytes.len() < 4096 || len % 64 == 0 {
                let without = Gguf::parse_small(prefix).err();
                assert_eq!(with, without, "{}: {len} bytes", case.id);
            }
        }
        // Padding behind the last tensor may be missing.
        for len in needed..bytes.len() {
            assert!(feed(&bytes[..len]).is_ok(), "{}: {len} bytes", case.id);
        }
    }
}

/// Neighbours of every case: each byte of the part before the data set to values that hurt.
#[test]
fn no_changed_byte_breaks_a_promise() {
    let (mut accepted, mut rejected) = (0, 0);
    for case in parser_cases() {
        let good = case.bytes();
        if good.len() > 1024 {
            continue;
        }
        let mut bytes = good.clone();
        for at in 0..bytes.len() {
            let byte = good[at];
            for other in [byte ^ 1, byte ^ 0x80, 0, 0xff, byte.wrapping_add(4)] {
                bytes[at] = other;
                match feed(&bytes) {
                    Ok(_) => accepted += 1,
                    Err(_) => rejected += 1,
                }
            }
            bytes[at] = byte;
        }
    }
    // Both happen, or the changes say nothing.
    assert!(
        accepted > 10_000 && rejected > 10_000,
        "{accepted}, {rejected}"
    );
}

#[test]
fn what_is_parsed_can_be_built_again() {
    for case in accepted() {
        let bytes = case.bytes();
        let gguf = feed(&bytes).unwrap();
        let mut built = Vec::new();
        let mut builder = GgufBuilder::from_gguf(&gguf).unwrap();
        builder.write_to(&mut built).unwrap();
        let again = feed(&built).unwrap_or_else(|error| panic!("{}: {error}", case.id));
        assert_eq!(again.alignment(), gguf.alignment(), "{}", case.id);
        // Debug tells NaN from NaN by nothing but its name; the bytes of arrays and strings, and
        // all bits of floats, are compared with the case's facts.
        let entries = |gguf: &Gguf<'_>| -> Vec<_> {
            let entry = |e: smidgen_core::gguf::Entry<'_>| format!("{} {:?}", e.key(), e.value);
            gguf.metadata().map(entry).collect()
        };
        if gguf.version() >= 2 {
            assert_eq!(entries(&again), entries(&gguf), "{}", case.id);
        }
        let mut before: Vec<_> = gguf.tensors().collect();
        let mut after: Vec<_> = again.tensors().collect();
        before.sort_by_key(|info| info.name());
        after.sort_by_key(|info| info.name());
        assert_eq!(before.len(), after.len(), "{}", case.id);
        for (old, new) in before.iter().zip(&after) {
            assert_eq!(old.name(), new.name(), "{}", case.id);
            assert_eq!(old.dims(), new.dims(), "{}", case.id);
            assert_eq!(old.ty(), new.ty(), "{}", case.id);
            assert_eq!(gguf.data(old), again.data(new), "{}", case.id);
        }
        if let Some(facts) = case.facts.as_object() {
            for name in ["kv", "n_kv", "n_tensors", "n_dims_in_file"] {
                if let Some(fact) = facts.get(name) {
                    check_fact(&again, name, fact, &case.id);
                }
            }
        }
    }
}

#[test]
fn files_that_llama_cpp_wrote_are_read_and_no_cut_of_them() {
    let Some(shared) = shared() else { return };
    let mut files = Vec::new();
    for folder in ["golden", "models"] {
        find_files(&shared.join(folder), &mut files);
    }
    assert!(files.len() >= 20, "{} files", files.len());
    for path in files {
        let bytes = fs::read(&path).unwrap();
        let gguf = feed(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let needed = usize::try_from(needed(&gguf)).unwrap();
        let infos_end = usize::try_from(gguf.infos_end()).unwrap();
        // All around each border, and at even steps between them.
        let borders = [0, 24, infos_end, needed];
        let near = borders
            .iter()
            .flat_map(|&at| at.saturating_sub(40)..at + 40);
        let steps = (0..needed).step_by(needed / 100 + 1);
        for len in near.chain(steps).filter(|&len| len < needed) {
            let prefix = &bytes[..len];
            let mut scratch = vec![0; Gguf::scratch_len(prefix)];
            let parsed = Gguf::parse(prefix, &mut scratch);
            assert!(parsed.is_err(), "{}: {len} bytes", path.display());
        }
    }
}

fn find_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_files(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "gguf") {
            found.push(path);
        }
    }
}
