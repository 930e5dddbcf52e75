//! `smidgen verify` and `Gguf::parse` over the cases of the parser, and beyond them.

use std::fs;

use smidgen_core::gguf::{GgmlType, Gguf, TensorInfo, Value, Writer, keys};
use smidgen_tests::{
    Smidgen,
    cases::{self, Case, Expectation},
    shared,
};

/// The cases that are about the bytes of one file.
fn container_cases() -> Vec<Case> {
    let mut cases = cases::all();
    cases.retain(|case| {
        matches!(case.area.as_str(), "parser" | "embedded") && case.op != "load_embedded"
    });
    assert!(cases.len() > 100);
    cases
}

/// Words of which one is in every message about a cause of this kind.
fn words(reason: &str) -> &'static [&'static str] {
    match reason {
        "truncated" => &["truncated", "bytes are left"],
        "bad_magic" => &["bad magic"],
        "bad_version" => &["version"],
        "endianness" => &["big-endian"],
        "count_overflow" => &["tensor count", "metadata count"],
        "kv_type" => &["value type", "key type"],
        "empty_key" => &["empty key"],
        "dup_key" => &["duplicate key"],
        "key_charset" => &["key is not UTF-8 or holds a NUL"],
        "string_length" => &["string length"],
        "array_length" => &["array length"],
        "nesting" => &["nested array"],
        "bool_value" => &["bool of value"],
        "alignment" => &["alignment"],
        "tensor_offset" => &["tensor offset"],
        "n_dims" => &["dimensions"],
        "shape" => &["shape"],
        "tensor_type" => &["tensor type"],
        "row_size" => &["row of"],
        "dup_tensor" => &["duplicate tensor"],
        "name" => &["tensor name"],
        "name_length" => &["tensor name of"],
        other => panic!("no words for {other}"),
    }
}

/// Version 1 is read: real files of it exist. The manifest leaves that open.
fn is_rejected(case: &Case) -> bool {
    case.expectation == Expectation::Reject && case.id != "hdr_version_1"
}

#[test]
fn every_case_gets_its_verdict_with_its_cause() {
    let smidgen = Smidgen::new();
    for case in container_cases() {
        let done = smidgen.run(["verify".as_ref(), case.file().as_os_str()]);
        done.expect_code(is_rejected(&case).into());
        let stdout = done.stdout();
        if is_rejected(&case) {
            let reason = case.reason.as_deref().unwrap();
            let named = words(reason).iter().any(|words| stdout.contains(words));
            assert!(named, "{}: {reason} is not named in {stdout}", case.id);
        } else {
            assert!(stdout.contains(": ok: "), "{}: {stdout}", case.id);
        }
        assert_eq!(done.stderr(), "", "{}", case.id);
    }
}

/// What `verify` calls a fault of the container is what `parse` refuses.
#[test]
fn parse_refuses_what_verify_calls_a_fault_of_the_container() {
    let smidgen = Smidgen::new();
    for case in container_cases() {
        let bytes = case.bytes();
        let mut scratch = vec![0; Gguf::scratch_len(&bytes)];
        let parsed = Gguf::parse(&bytes, &mut scratch);
        let small = Gguf::parse_small(&bytes);
        assert_eq!(parsed.is_ok(), small.is_ok(), "{}", case.id);
        let done = smidgen.run([
            "verify".as_ref(),
            case.file().as_os_str(),
            "--json".as_ref(),
        ]);
        let json = done.json();
        let faults = json["files"][0]["faults"].as_array().unwrap();
        // What is wrong with a key's type is for those who know the key.
        let container = faults.iter().filter(|fault| fault["code"] != "key_type");
        let container: Vec<_> = container.collect();
        match parsed {
            Ok(_) => assert!(container.is_empty(), "{}: {container:?}", case.id),
            Err(error) => {
                let codes = container
                    .iter()
                    .map(|fault| fault["code"].as_str().unwrap());
                assert!(
                    codes.clone().any(|code| code == error.kind.name()),
                    "{}: {error} is not among {:?}",
                    case.id,
                    codes.collect::<Vec<_>>()
                );
                let at = |fault: &&&serde_json::Value| fault["offset"] == error.offset;
                assert!(container.iter().any(|fault| at(&fault)), "{}", case.id);
            }
        }
    }
}

/// The model may lie anywhere in flash; it is not found where it is not.
#[test]
fn models_at_any_address_of_a_flash_image() {
    for case in cases::of("embedded", "load_embedded") {
        let bytes = case.bytes();
        let base = usize::try_from(case.args["base_offset"].as_u64().unwrap()).unwrap();
        let parsed = Gguf::parse_small(&bytes[base..]);
        if case.id == "emb_base_partial" {
            // The file was cut and the rest of the partition is erased flash: the bytes are there.
            // Only who knows the file's length can tell.
            assert!(parsed.is_ok());
            let cut = bytes.iter().rposition(|&byte| byte != 0xff).unwrap();
            let error = Gguf::parse_small(&bytes[..=cut]).unwrap_err();
            assert_eq!(error.kind.name(), "data_truncated");
            continue;
        }
        let gguf = parsed.unwrap_or_else(|error| panic!("{}: {error}", case.id));
        let data = case.facts["data_offset_in_model"].as_u64().unwrap();
        assert_eq!(gguf.data_offset(), data, "{}", case.id);
        let first = gguf.tensors().next().unwrap();
        let bytes: [u8; 4] = gguf.data(&first).unwrap()[..4].try_into().unwrap();
        let expected: f64 = case.facts["first_f32"].as_str().unwrap().parse().unwrap();
        assert_eq!(
            f64::from(f32::from_le_bytes(bytes)),
            expected,
            "{}",
            case.id
        );
    }
}

/// Where a file's last tensor ends; shorter prefixes are cut.
fn shortest_good(gguf: &Gguf<'_>) -> u64 {
    let ends = gguf.tensors().filter_map(|info| {
        let bytes = info.byte_len().filter(|&bytes| bytes > 0)?;
        Some(gguf.data_offset() + info.offset() + bytes)
    });
    ends.max().unwrap_or(gguf.infos_end())
}

#[test]
fn every_prefix_of_every_good_case_is_refused() {
    let mut swept = 0;
    for case in container_cases() {
        let bytes = case.bytes();
        let Ok(gguf) = Gguf::parse_small(&bytes) else {
            continue;
        };
        let good = usize::try_from(shortest_good(&gguf)).unwrap();
        if case.op == "inspect_prefixes" {
            assert_eq!(case.facts["min_good"], good);
        }
        // Most of the bytes of large files are much alike.
        let step = if bytes.len() > 8192 { 97 } else { 1 };
        for len in (0..good).step_by(step).chain([good - 1]) {
            assert!(
                Gguf::parse_small(&bytes[..len]).is_err(),
                "{} {len}",
                case.id
            );
        }
        for len in good..bytes.len() {
            assert!(
                Gguf::parse_small(&bytes[..len]).is_ok(),
                "{} {len}",
                case.id
            );
        }
        swept += 1;
    }
    assert!(swept > 40);
}

#[test]
fn prefixes_of_real_models_are_refused() {
    let Some(shared) = shared() else { return };
    let path = shared.join("golden/stories260K/gguf/stories260K-Q4_0.gguf");
    let bytes = fs::read(path).unwrap();
    let mut scratch = vec![0; Gguf::scratch_len(&bytes)];
    let gguf = Gguf::parse(&bytes, &mut scratch).unwrap();
    let good = usize::try_from(shortest_good(&gguf)).unwrap();
    let head = usize::try_from(gguf.data_offset()).unwrap();
    for len in (0..head).chain((head..good).step_by(1009)) {
        assert!(Gguf::parse(&bytes[..len], &mut scratch).is_err(), "{len}");
    }
}

#[test]
fn files_of_llama_cpp_are_valid_and_called_what_they_are() {
    let Some(shared) = shared() else { return };
    let smidgen = Smidgen::new();
    for (file, contents, words) in [
        (
            "golden/stories260K/gguf/stories260K-Q4_0.gguf",
            "model",
            "model, 48 tensors",
        ),
        ("golden/wide/wide-Q2_0.gguf", "model", "model, 12 tensors"),
        (
            "golden/shards/max10-00001-of-00005.gguf",
            "shard",
            "shard 1 of 5, 10 tensors of 48",
        ),
        (
            "golden/shards/max10-00005-of-00005.gguf",
            "shard",
            "shard 5 of 5, 8 tensors of 48",
        ),
        (
            "golden/shards/first16-00001-of-00004.gguf",
            "shard",
            "shard 1 of 4, 0 tensors of 48",
        ),
        (
            "models/llama32000-vocab.gguf",
            "vocabulary",
            "vocabulary without tensors, 32000 tokens",
        ),
    ] {
        let path = shared.join(file);
        let done = smidgen.run(["verify".as_ref(), path.as_os_str()]);
        let mut expected = format!("{}: ok: {words}\n", path.display());
        // Of a first shard the others are looked at too.
        if let (true, Some((_, count))) = (file.contains("-00001-"), file.rsplit_once("-of-0000")) {
            let count = count.trim_end_matches(".gguf");
            let words = format!("whole set of {count} shards, 48 tensors");
            expected += &format!("{}: ok: {words}\n", path.display());
        }
        done.expect_success().expect_stdout_is(&expected);
        let done = smidgen.run(["verify".as_ref(), "--json".as_ref(), path.as_os_str()]);
        let json = done.json();
        assert_eq!(json["schema"], 1);
        assert_eq!(json["files"][0]["contents"], contents, "{file}");
        assert_eq!(json["files"][0]["valid"], true, "{file}");
    }
    // A merge by llama-gguf-split leaves its keys behind.
    let merged = shared.join("golden/shards/merged-max10.gguf");
    let done = smidgen.run(["verify".as_ref(), merged.as_os_str()]);
    done.expect_success()
        .expect_stdout(&["split keys left behind"]);
}

/// A file with these entries and tensors of 32 bytes, one behind the other.
fn file(entries: &[(&str, Value<'_>)], tensors: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let sink = |part: &[u8]| -> Result<(), ()> {
        bytes.extend_from_slice(part);
        Ok(())
    };
    let (n_entries, n_tensors) = (entries.len() as u64, tensors.len() as u64);
    let mut writer = Writer::new(sink, n_entries, n_tensors).unwrap();
    for (key, value) in entries {
        writer.metadata(key, value).unwrap();
    }
    for (at, name) in (0..).zip(tensors) {
        let info = TensorInfo::new(name, &[8], GgmlType::F32, at * 32).unwrap();
        writer.tensor(&info).unwrap();
    }
    writer.finish(32).unwrap();
    bytes.resize(bytes.len() + tensors.len() * 32, 0);
    bytes
}

/// The codes of a file's faults and warnings under the name `name`.
fn codes(name: &str, bytes: &[u8]) -> (Vec<String>, Vec<String>) {
    let smidgen = Smidgen::new();
    smidgen.write(name, bytes);
    let done = smidgen.run(["verify", "--json", name]);
    let json = done.json();
    let codes = |kind: &str| -> Vec<String> {
        let findings = json["files"][0][kind].as_array().unwrap();
        let code = |finding: &serde_json::Value| finding["code"].as_str().unwrap().to_owned();
        findings.iter().map(code).collect()
    };
    let (faults, warnings) = (codes("faults"), codes("warnings"));
    assert_eq!(done.code(), i32::from(!faults.is_empty()));
    (faults, warnings)
}

const LLAMA: (&str, Value<'_>) = (keys::GENERAL_ARCHITECTURE, Value::String(b"llama"));

#[test]
fn all_faults_are_found_not_only_the_first() {
    let entries = [
        LLAMA,
        ("", Value::U8(1)),
        ("a", Value::U8(1)),
        ("a", Value::U8(2)),
    ];
    let (faults, _) = codes("m.gguf", &file(&entries, &["t", "t", ""]));
    assert_eq!(
        faults,
        [
            "empty_key",
            "duplicate_key",
            "empty_name",
            "duplicate_tensor"
        ]
    );
}

#[test]
fn shards_contradicting_themselves_or_their_name() {
    let shard = |no: u16, count: u16, total: i32| {
        let entries = [
            LLAMA,
            (keys::SPLIT_NO, Value::U16(no)),
            (keys::SPLIT_COUNT, Value::U16(count)),
            (keys::SPLIT_TENSORS_COUNT, Value::I32(total)),
        ];
        file(&entries, &["t", "u"])
    };
    let none: [&str; 0] = [];
    for (name, bytes, faults, warnings) in [
        (
            "m-00002-of-00003.gguf",
            shard(1, 3, 6),
            &none[..],
            &none[..],
        ),
        (
            "m-00001-of-00003.gguf",
            shard(1, 3, 6),
            &["split_name"],
            &none,
        ),
        (
            "m-00002-of-00004.gguf",
            shard(1, 3, 6),
            &["split_name"],
            &none,
        ),
        ("m.gguf", shard(1, 3, 6), &none, &["split_name"]),
        (
            "m-00004-of-00004.gguf",
            shard(3, 3, 6),
            &["split_no", "split_name"],
            &none,
        ),
        (
            "m-00002-of-00003.gguf",
            shard(1, 3, 1),
            &["split_tensors"],
            &none,
        ),
        ("m-00001-of-00001.gguf", shard(0, 1, 2), &none, &none),
        (
            "m-00001-of-00001.gguf",
            shard(0, 1, 3),
            &["split_tensors"],
            &none,
        ),
        ("m.gguf", shard(0, 0, 2), &none, &["split_left"]),
        (
            "m-00001-of-00002.gguf",
            file(&[LLAMA], &["t"]),
            &none,
            &["split_name"],
        ),
        (
            "m-00001-of-00002.gguf",
            file(&[LLAMA, (keys::SPLIT_COUNT, Value::U16(2))], &["t"]),
            &["split_no"],
            &none,
        ),
    ] {
        let (found_faults, found_warnings) = codes(name, &bytes);
        assert_eq!(found_faults, faults, "{name}");
        assert_eq!(found_warnings, warnings, "{name}");
    }
}

#[test]
fn tokenizer_arrays_must_fit_each_other() {
    use smidgen_io::{OwnedValue, vocab_index};
    let tokens = OwnedValue::strings(["<unk>", "<s>", "</s>", "b", "a"]);
    let Value::Array(array) = tokens.as_value() else {
        unreachable!()
    };
    let (offsets, sorted) = vocab_index(&array).unwrap();
    let scores = |n: usize| OwnedValue::from(&vec![0.0_f32; n][..]);
    let check = |scores: OwnedValue, bos: u32, offsets: Option<OwnedValue>, sorted: OwnedValue| {
        let mut entries = vec![
            LLAMA,
            (keys::TOKENIZER_GGML_TOKENS, tokens.as_value()),
            (keys::TOKENIZER_GGML_SCORES, scores.as_value()),
            (keys::TOKENIZER_GGML_BOS_TOKEN_ID, Value::U32(bos)),
            (keys::SMIDGEN_TOKENIZER_SORTED, sorted.as_value()),
        ];
        if let Some(offsets) = &offsets {
            entries.push((keys::SMIDGEN_TOKENIZER_OFFSETS, offsets.as_value()));
        }
        codes("m.gguf", &file(&entries, &[]))
    };
    let good = || Some(offsets.clone());
    let (none, index) = (vec![], ["token_index"]);
    let result = check(scores(5), 1, good(), sorted.clone());
    assert_eq!(result, (none.clone(), none.clone()));
    assert_eq!(
        check(scores(4), 1, good(), sorted.clone()).0,
        ["token_arrays"]
    );
    assert_eq!(check(scores(5), 5, good(), sorted.clone()).1, ["token_id"]);
    assert_eq!(check(scores(5), u32::MAX, good(), sorted.clone()).1, none);
    assert_eq!(check(scores(5), 1, None, sorted.clone()).0, index);
    // Two ids swapped, one left out, one entry wrong.
    let swapped = OwnedValue::from(&[1_u16, 2, 0, 4, 3][..]);
    assert_eq!(check(scores(5), 1, good(), swapped).0, index);
    let short = OwnedValue::from(&[2_u16, 1, 0, 4][..]);
    assert_eq!(check(scores(5), 1, good(), short).0, index);
    let wrong = OwnedValue::from(&[8_u16, 21, 32, 44, 54, 62][..]);
    assert_eq!(check(scores(5), 1, Some(wrong), sorted.clone()).0, index);
    let text = OwnedValue::from("text");
    assert_eq!(
        check(scores(5), 1, Some(text), sorted).0,
        ["key_type", "token_index"]
    );
}

#[test]
fn several_files_and_one_that_is_not_there() {
    let smidgen = Smidgen::new();
    smidgen.write("good.gguf", file(&[LLAMA], &["t"]));
    smidgen.write("bad.gguf", b"GGUF");
    let done = smidgen.run(["verify", "good.gguf", "bad.gguf"]);
    done.expect_code(1).expect_stdout(&[
        "good.gguf: ok: model, 1 tensor\n",
        "bad.gguf: fault: at byte 4: truncated",
    ]);
    let done = smidgen.run(["verify", "missing.gguf", "good.gguf"]);
    done.expect_code(2)
        .expect_stdout_is("good.gguf: ok: model, 1 tensor\n")
        .expect_stderr(&["smidgen: cannot read missing.gguf: "]);
    let done = smidgen.run(["verify", "--json", "missing.gguf", "bad.gguf"]);
    done.expect_code(2);
    let json = done.json();
    assert!(
        json["files"][0]["error"]
            .as_str()
            .unwrap()
            .contains("missing.gguf")
    );
    assert_eq!(json["files"][1]["valid"], false);
}
