//! Split and merge against the case files: sets made by hand, and command lines, with the right
//! verdict for each.

use std::{collections::BTreeMap, fmt::Write as _, fs};

use serde_json::Value;
use sha2::{Digest, Sha256};
use smidgen_core::gguf::Gguf;
use smidgen_shards::ShardSet;
use smidgen_tests::{
    Done, Smidgen,
    cases::{self, Case, Expectation},
};

/// Words that a message must hold to have named the cause.
fn words(case: &Case) -> &'static [&'static str] {
    match (case.reason.as_deref(), &case.id[..]) {
        (Some("shard_missing"), "shard_count_65535") => &["65533 after it are missing"],
        (Some("shard_missing"), "shard_name_prefix") => &["m-00002-of-00003.gguf", "missing"],
        (Some("shard_missing"), _) => &["m-00003-of-00003.gguf", "missing"],
        (Some("truncated"), _) => &["m-00002-of-00003.gguf", "truncated"],
        (Some("shard_no"), "shard_entry_is_2") => &["is shard 2", "m-00001-of-00003.gguf"],
        (Some("shard_no"), _) => &["split.no"],
        (Some("shard_total"), _) => &["split.tensors.count"],
        (Some("shard_count"), _) => &["split.count"],
        (Some("kv_type"), _) => &["split.count", "it is str"],
        (Some("shard_name"), _) => &["no shard's name"],
        (Some("output_exists"), _) => &["m-00002-of-00003.gguf", "is both input and output"],
        (Some("argument"), "split_max_0" | "split_max_neg" | "split_max_junk") => {
            &["--split-max-tensors", "whole number from 1"]
        }
        (Some("argument"), "split_size_unit_only") => &["--split-max-size", "a whole number"],
        (Some("argument"), "split_size_no_unit") => &["--split-max-size", "needs a unit"],
        (Some("argument"), "split_size_overflow") => &["--split-max-size", "too large"],
        (reason, id) => panic!("{id}: no words for {reason:?}"),
    }
}

/// The command in a folder that holds the case's files.
fn with_files(case: &Case) -> Smidgen {
    let smidgen = Smidgen::new();
    for file in &case.files {
        let name = file.file_name().and_then(|name| name.to_str());
        smidgen.write(name.expect("a name"), fs::read(file).expect("a case file"));
    }
    smidgen
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key]
        .as_str()
        .unwrap_or_else(|| panic!("no {key} in {value}"))
}

fn hash(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().take(8).fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a string takes any text");
        hex
    })
}

/// After a reject nothing has come, gone or changed.
fn check_rejected(case: &Case, smidgen: &Smidgen, done: &Done, before: &BTreeMap<String, Vec<u8>>) {
    done.expect_error(words(case));
    assert_eq!(&contents(smidgen), before, "{}", case.id);
    if let Some(kept) = case.facts["must_not_change"].as_object() {
        for (name, expected) in kept {
            assert_eq!(hash(&before[name]), *expected, "{name}");
        }
    }
}

fn contents(smidgen: &Smidgen) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| {
        let bytes = fs::read(smidgen.path(&name)).expect("a file");
        (name, bytes)
    };
    smidgen.files().into_iter().map(read).collect()
}

/// Compares tensors, given as a file and the number of each, with the facts.
fn check_tensors(case: &Case, files: &[&[u8]]) {
    let expected = case.facts["tensors"].as_array().expect("tensors");
    let mut found = Vec::new();
    for bytes in files {
        let gguf = Gguf::parse_small(bytes).unwrap_or_else(|e| panic!("{}: {e}", case.id));
        for info in gguf.tensors() {
            let data = gguf.data(&info).expect("the data is there");
            found.push(serde_json::json!({
                "dims": info.dims(),
                "name": info.name(),
                "sha256_16": hash(data),
                "type": info.ty().name(),
            }));
        }
    }
    assert_eq!(&found, expected, "{}", case.id);
    let order: Vec<_> = found.iter().map(|tensor| tensor["name"].clone()).collect();
    assert_eq!(
        Value::Array(order),
        case.facts["tensor_order"],
        "{}",
        case.id
    );
    assert_eq!(found.len() as u64, case.facts["n_tensors"], "{}", case.id);
}

#[test]
fn merge_answers_as_it_should() {
    for case in cases::of("split", "merge") {
        let smidgen = with_files(&case);
        let before = contents(&smidgen);
        let (input, output) = (text(&case.args, "input"), text(&case.args, "output"));
        let done = smidgen.run(["merge", input, output]);
        if case.expectation == Expectation::Reject {
            check_rejected(&case, &smidgen, &done, &before);
            let done = smidgen.run(["merge", "--delete-splits", input, output]);
            check_rejected(&case, &smidgen, &done, &before);
            let done = smidgen.run(["gguf-split", "--merge", input, output]);
            check_rejected(&case, &smidgen, &done, &before);
            let done = smidgen.run(["merge", "--dry-run", input, output]);
            check_rejected(&case, &smidgen, &done, &before);
            continue;
        }
        done.expect_success();
        let merged = fs::read(smidgen.path(output)).expect("the output");
        check_tensors(&case, &[&merged]);
        let gguf = Gguf::parse_small(&merged).expect("a valid file");
        if let Some(alignment) = case.facts["alignment"].as_u64() {
            assert_eq!(u64::from(gguf.alignment()), alignment, "{}", case.id);
        }
        // "kv_from": all metadata is the first shard's, and the split keys are gone.
        assert_eq!(text(&case.facts, "kv_from"), "first shard");
        let first = Gguf::parse_small(&before[input]).expect("a valid file");
        let expected = first
            .metadata()
            .filter(|entry| !entry.key().starts_with("split."));
        let keys = expected.map(|entry| (entry.key(), entry.value));
        assert!(
            gguf.metadata().map(|e| (e.key(), e.value)).eq(keys),
            "{}",
            case.id
        );
        // The shards have not been touched.
        let mut after = contents(&smidgen);
        after.remove(output);
        assert_eq!(after, before, "{}", case.id);

        // With deletion: the same file, and it alone.
        fs::remove_file(smidgen.path(output)).expect("removing the output");
        let done = smidgen.run(["merge", "--delete-splits", input, output]);
        done.expect_success();
        assert_eq!(
            contents(&smidgen),
            BTreeMap::from([(output.to_owned(), merged)])
        );
    }
}

#[test]
fn a_set_is_opened_from_its_first_shard() {
    for case in cases::of("split", "load_sharded") {
        assert_eq!(case.expectation, Expectation::Accept);
        let set = ShardSet::open(case.file()).unwrap_or_else(|e| panic!("{}: {e}", case.id));
        let mapped = set.map().expect("the shards are still there");
        let bytes: Vec<&[u8]> = mapped.iter().map(|shard| &shard[..]).collect();
        assert_eq!(bytes.len(), case.files.len());
        check_tensors(&case, &bytes);
    }
}

#[test]
fn split_answers_as_it_should() {
    for case in cases::of("split", "split") {
        let smidgen = with_files(&case);
        let before = contents(&smidgen);
        let shown = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
        let limit = match (&case.args["max_tensors"], &case.args["max_size"]) {
            (Value::Null, size) => ["--split-max-size".to_owned(), shown(size)],
            (tensors, _) => ["--split-max-tensors".to_owned(), shown(tensors)],
        };
        let (input, prefix) = (text(&case.args, "input"), text(&case.args, "output"));
        let words = |command: &str| {
            let mut words = vec![command.to_owned()];
            words.extend(limit.clone());
            words.extend([input.to_owned(), prefix.to_owned()]);
            words
        };
        let done = smidgen.run(words("split"));
        if case.expectation == Expectation::Reject {
            check_rejected(&case, &smidgen, &done, &before);
            check_rejected(&case, &smidgen, &smidgen.run(words("gguf-split")), &before);
            continue;
        }
        done.expect_success();
        let mut after = contents(&smidgen);
        assert_eq!(
            after.remove(input),
            before.get(input).cloned(),
            "{}",
            case.id
        );
        let expected = case.facts["n_shards"].as_u64().expect("n_shards");
        assert_eq!(after.len() as u64, expected, "{}", case.id);
        let source = Gguf::parse_small(&before[input]).expect("a valid file");
        let (mut counts, mut tensors) = (Vec::new(), source.tensors());
        for (number, (name, bytes)) in (1..).zip(&after) {
            assert_eq!(name, &format!("{prefix}-{number:05}-of-{expected:05}.gguf"));
            let shard = Gguf::parse_small(bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
            counts.push(shard.tensor_count());
            assert_eq!(shard.alignment(), source.alignment(), "{name}");
            for info in shard.tensors() {
                let original = tensors.next().expect("no more tensors than there were");
                assert_eq!(info.name(), original.name());
                assert_eq!(shard.data(&info), source.data(&original), "{}", info.name());
            }
        }
        assert_eq!(tensors.next(), None, "{}: tensors are missing", case.id);
        if let Some(alignment) = case.facts["alignment_first"].as_u64() {
            assert_eq!(u64::from(source.alignment()), alignment);
        }
        if let Some(expected) = case.facts["per_shard"].as_array() {
            let counts: Vec<_> = counts.into_iter().map(Value::from).collect();
            assert_eq!(&counts, expected, "{}", case.id);
        }
        let first = format!("{prefix}-00001-of-{expected:05}.gguf");
        smidgen
            .run(["merge", &first, "again.gguf"])
            .expect_success();
        let again = fs::read(smidgen.path("again.gguf")).expect("the output");
        assert_eq!(again, before[input], "{}", case.id);
    }
}
