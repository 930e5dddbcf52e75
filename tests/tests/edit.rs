//! `smidgen meta` and `smidgen tensors`: what they change, and that they change nothing else.

use std::{fs, path::Path};

use serde_json::json;
use smidgen_core::gguf::{GgmlType, Gguf, Value, keys};
use smidgen_io::{FileBytes, GgufBuilder, OwnedValue, vocab_index};
use smidgen_tests::{Smidgen, cases, shared};

/// A small file with a vocabulary, its index, and three tensors.
fn builder(index: bool) -> GgufBuilder<'static> {
    let tokens = OwnedValue::strings(["<unk>", "<s>", "</s>", "b", "a"]);
    let mut builder = GgufBuilder::new();
    builder.set(keys::GENERAL_ARCHITECTURE, "llama");
    builder.set(keys::GENERAL_NAME, "small");
    builder.set(keys::TOKENIZER_GGML_TOKENS, tokens.clone());
    builder.set("x.u8", 7_u8).set("x.f32", 0.5_f32);
    builder.set("x.list", &[1_i16, -2][..]);
    if index {
        let Value::Array(tokens) = tokens.as_value() else {
            unreachable!()
        };
        let (offsets, sorted) = vocab_index(&tokens).unwrap();
        builder.set(keys::SMIDGEN_TOKENIZER_OFFSETS, offsets);
        builder.set(keys::SMIDGEN_TOKENIZER_SORTED, sorted);
    }
    for (name, len) in [("blk.0.a", 40), ("blk.0.b", 3), ("blk.1.a", 32)] {
        let bytes: Vec<u8> = (0..len).map(|n| n as u8 + len as u8).collect();
        builder.tensor(name, &[len], GgmlType::I8, bytes).unwrap();
    }
    builder
}

fn small() -> Vec<u8> {
    bytes_of(builder(true))
}

fn bytes_of(mut builder: GgufBuilder<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    builder.write_to(&mut bytes).unwrap();
    bytes
}

fn with_small() -> Smidgen {
    let smidgen = Smidgen::new();
    smidgen.write("m.gguf", small());
    smidgen
}

fn get(smidgen: &Smidgen, key: &str) -> String {
    let done = smidgen.run(["meta", "get", "m.gguf", key]);
    done.expect_success();
    done.stdout().to_owned()
}

#[test]
fn values_come_out_as_they_are() {
    let smidgen = with_small();
    assert_eq!(get(&smidgen, "general.name"), "small\n");
    assert_eq!(get(&smidgen, "x.u8"), "7\n");
    assert_eq!(get(&smidgen, "x.f32"), "0.5\n");
    assert_eq!(get(&smidgen, "x.list"), "[1,-2]\n");
    let done = smidgen.run(["meta", "get", "--json", "m.gguf", "x.list"]);
    let expected = json!({
        "key": "x.list", "type": "arr", "element": "i16", "count": 2, "value": [1, -2],
    });
    assert_eq!(done.json(), expected);
    let done = smidgen.run(["meta", "get", "m.gguf", "nothing"]);
    done.expect_error(&["smidgen: m.gguf: no key nothing", "hint: "]);
    let done = smidgen.run_with_input(["meta", "get", "-", "x.u8"], &small());
    done.expect_success().expect_stdout_is("7\n");
    // Raw means raw, also what is no text.
    let nul = cases::named("kv_string_nul");
    let done = smidgen.run([
        "meta".as_ref(),
        "get".as_ref(),
        nul.file().as_os_str(),
        "x.s".as_ref(),
    ]);
    assert_eq!(done.stdout_bytes(), b"ab\0cd\0\n");
}

/// The file is what a builder makes with the same change.
#[test]
fn changes_are_those_of_a_fresh_build() {
    type Change = fn(&mut GgufBuilder<'static>);
    let changes: [(&[&str], Change); 9] = [
        (&["set", "m.gguf", "general.name", "a longer name"], |b| {
            b.set("general.name", "a longer name");
        }),
        (&["set", "m.gguf", "x.f32", "-0.1"], |b| {
            b.set("x.f32", -0.1_f32);
        }),
        (&["set", "m.gguf", "x.list", "[300, \"-7\"]"], |b| {
            b.set("x.list", &[300_i16, -7][..]);
        }),
        (
            &[
                "set",
                "m.gguf",
                "x.new",
                "--type",
                "arr:str",
                "[\"▁\", {\"hex\":\"ff\"}]",
            ],
            |b| {
                b.set("x.new", OwnedValue::strings(["▁".as_bytes(), b"\xff"]));
            },
        ),
        (&["set", "m.gguf", "llama.context_length", "128"], |b| {
            b.set("llama.context_length", 128_u32);
        }),
        (&["set", "m.gguf", "x.u8", "true", "--type", "bool"], |b| {
            b.set("x.u8", true);
        }),
        (&["set", "m.gguf", "general.alignment", "128"], |b| {
            b.set("general.alignment", 128_u32);
        }),
        (&["rm", "m.gguf", "x.u8", "x.list"], |b| {
            b.remove("x.u8");
            b.remove("x.list");
        }),
        (&["rename", "m.gguf", "x.u8", "y.u8"], |b| {
            b.rename("x.u8", "y.u8");
        }),
    ];
    for (args, change) in changes {
        let smidgen = with_small();
        let done = smidgen.run([&["meta"], args].concat());
        done.expect_success();
        assert_eq!(done.stdout(), "");
        let mut expected = builder(true);
        change(&mut expected);
        assert!(
            fs::read(smidgen.path("m.gguf")).unwrap() == bytes_of(expected),
            "{args:?}"
        );
        assert_eq!(smidgen.files(), ["m.gguf"]);
    }
}

#[test]
fn refusals_leave_the_file() {
    let smidgen = with_small();
    for (args, words) in [
        (&["set", "m.gguf", "x.u8", "256"][..], "256 does not fit u8"),
        (&["set", "m.gguf", "x.u8", "many"], "\"many\" is no u8"),
        (
            &["set", "m.gguf", "x.new", "1"],
            "the type of the new key x.new is not known",
        ),
        (
            &["set", "m.gguf", "x.new", "1", "--type", "q8"],
            "`q8` is no type",
        ),
        (&["set", "m.gguf", "x.list", "[1"], "no JSON"),
        (&["set", "m.gguf", "", "1", "--type", "u8"], "can be no key"),
        (
            &["set", "m.gguf", "general.alignment", "3"],
            "must be a u32 power of two",
        ),
        (
            &["set", "m.gguf", "llama.context_length", "0"],
            "must be an integer above 0",
        ),
        (
            &["set", "m.gguf", "general.name", "1", "--type", "u8"],
            "must be a string",
        ),
        (
            &["set", "m.gguf", "tokenizer.ggml.scores", "[1]"],
            "1 entries for 5 tokens",
        ),
        (
            &["set", "m.gguf", "smidgen.tokenizer.sorted", "[1,2,0,4,3]"],
            "does not fit the tokens",
        ),
        (&["rm", "m.gguf", "x.u8", "nothing"], "no key nothing"),
        (
            &["rename", "m.gguf", "x.u8", "x.f32"],
            "key x.f32 is there already",
        ),
        (&["rename", "m.gguf", "nothing", "x"], "no key nothing"),
        (&["copy", "m.gguf", "m.gguf"], "m.gguf is both files"),
        (
            &["set", "m.gguf", "x.u8", "8", "-o", "m.gguf"],
            "m.gguf is the input",
        ),
        (
            &["set", "m.gguf", "x.u8", "8", "-o", "./m.gguf", "--force"],
            "is the input",
        ),
        (
            &["set", "m.gguf", "x.u8", "8", "-o", "no/folder/m.gguf"],
            "cannot write",
        ),
        (
            &["set", "-", "x.u8", "8"],
            "standard input cannot be changed",
        ),
        (
            &["set", "m.gguf", "general.name", "longer", "--patch"],
            "cannot be patched in place",
        ),
    ] {
        let done = smidgen.run([&["meta"], args].concat());
        done.expect_error(&[words]);
        assert!(
            fs::read(smidgen.path("m.gguf")).unwrap() == small(),
            "{args:?}"
        );
        assert_eq!(smidgen.files(), ["m.gguf"], "{args:?}");
    }
    // Who insists gets it, as long as it can be read at all.
    let force = [
        "meta",
        "set",
        "m.gguf",
        "llama.context_length",
        "0",
        "--force",
    ];
    smidgen.run(force).expect_success();
    assert_eq!(get(&smidgen, "llama.context_length"), "0\n");
    let done = smidgen.run(["meta", "set", "m.gguf", "general.alignment", "3", "--force"]);
    done.expect_error(&["must be a u32 power of two"]);
}

#[cfg(unix)]
#[test]
fn a_patch_writes_only_what_changes() {
    use std::os::unix::fs::MetadataExt;
    let smidgen = with_small();
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    let before = inode(&smidgen.path("m.gguf"));
    smidgen
        .run(["meta", "set", "m.gguf", "general.name", "SMALL", "--patch"])
        .expect_success();
    smidgen
        .run(["meta", "rename", "m.gguf", "x.u8", "y.u8", "--patch"])
        .expect_success();
    assert_eq!(inode(&smidgen.path("m.gguf")), before);
    let mut expected = builder(true);
    expected.set("general.name", "SMALL");
    expected.rename("x.u8", "y.u8");
    assert!(fs::read(smidgen.path("m.gguf")).unwrap() == bytes_of(expected));
    let refused = smidgen.run([
        "meta",
        "set",
        "m.gguf",
        "tokenizer.ggml.tokens",
        "1",
        "--type",
        "u8",
    ]);
    refused.expect_error(&["must be an array of strings"]);
    let done = smidgen.run(["meta", "set", "m.gguf", "y.u8", "8", "--patch", "-o", "x"]);
    done.expect_code(2);
}

#[cfg(unix)]
#[test]
fn what_is_so_already_is_not_written() {
    use std::os::unix::fs::MetadataExt;
    let smidgen = with_small();
    let inode = || fs::metadata(smidgen.path("m.gguf")).unwrap().ino();
    let before = inode();
    smidgen
        .run(["meta", "set", "m.gguf", "x.u8", "7"])
        .expect_success();
    assert_eq!(inode(), before);
    smidgen
        .run(["meta", "set", "m.gguf", "x.u8", "8"])
        .expect_success();
    assert_ne!(inode(), before);
}

#[test]
fn another_output_leaves_the_file() {
    let smidgen = with_small();
    let args = ["meta", "set", "m.gguf", "x.u8", "8", "-o", "n.gguf"];
    smidgen.run(args).expect_success();
    assert!(fs::read(smidgen.path("m.gguf")).unwrap() == small());
    let mut expected = builder(true);
    expected.set("x.u8", 8_u8);
    assert!(fs::read(smidgen.path("n.gguf")).unwrap() == bytes_of(expected));
    smidgen
        .run(args)
        .expect_error(&["n.gguf exists; --force overwrites it"]);
    smidgen
        .run([&args[..], &["--force"]].concat())
        .expect_success();
}

/// Whoever changes the vocabulary changes what finds its tokens.
#[test]
fn the_index_follows_the_tokens() {
    let smidgen = with_small();
    let words = "[\"<unk>\",\"z\",\"y\"]";
    let set = ["meta", "set", "m.gguf", "tokenizer.ggml.tokens", words];
    smidgen.run(set).expect_success();
    assert_eq!(get(&smidgen, "smidgen.tokenizer.sorted"), "[0,2,1]\n");
    assert_eq!(get(&smidgen, "smidgen.tokenizer.offsets"), "[8,21,30,39]\n");
    smidgen.run(["verify", "m.gguf"]).expect_success();
    // Copied tokens too; an index in the other file is not needed.
    smidgen.write("other.gguf", bytes_of(builder(false)));
    let copy = [
        "meta",
        "copy",
        "other.gguf",
        "m.gguf",
        "--keys",
        "tokenizer.*",
    ];
    smidgen.run(copy).expect_success();
    assert_eq!(get(&smidgen, "smidgen.tokenizer.sorted"), "[2,1,0,4,3]\n");
    smidgen.run(["verify", "m.gguf"]).expect_success();
    // Without tokens there is nothing to find.
    smidgen
        .run(["meta", "rm", "m.gguf", "tokenizer.ggml.tokens"])
        .expect_success();
    for key in ["smidgen.tokenizer.sorted", "smidgen.tokenizer.offsets"] {
        smidgen
            .run(["meta", "get", "m.gguf", key])
            .expect_error(&["no key"]);
    }
    // A file without an index gets none.
    smidgen.write("m.gguf", bytes_of(builder(false)));
    smidgen.run(set).expect_success();
    smidgen
        .run(["meta", "get", "m.gguf", "smidgen.tokenizer.sorted"])
        .expect_error(&["no key"]);
}

#[test]
fn copies_take_what_is_asked_for() {
    let smidgen = with_small();
    let mut other = GgufBuilder::new();
    other
        .set("general.name", "other")
        .set("x.u8", 9_u16)
        .set("x.more", 1.5_f64);
    other.set(keys::GENERAL_ALIGNMENT, 64_u32);
    smidgen.write("other.gguf", bytes_of(other));
    let done = smidgen.run(["meta", "copy", "other.gguf", "m.gguf", "--keys", "y.*"]);
    done.expect_error(&["no key y.*"]);
    assert!(fs::read(smidgen.path("m.gguf")).unwrap() == small());
    let args = [
        "meta",
        "copy",
        "other.gguf",
        "m.gguf",
        "--keys",
        "x.*",
        "-o",
        "n.gguf",
    ];
    smidgen.run(args).expect_success();
    let mut expected = builder(true);
    expected.set("x.u8", 9_u16).set("x.more", 1.5_f64);
    assert!(fs::read(smidgen.path("n.gguf")).unwrap() == bytes_of(expected));
    // All but how the other file is laid out.
    smidgen
        .run(["meta", "copy", "other.gguf", "m.gguf"])
        .expect_success();
    let mut expected = builder(true);
    expected
        .set("x.u8", 9_u16)
        .set("x.more", 1.5_f64)
        .set("general.name", "other");
    let done = smidgen.run(["meta", "get", "m.gguf", "general.name"]);
    done.expect_stdout_is("other\n");
    assert!(fs::read(smidgen.path("m.gguf")).unwrap() == bytes_of(expected));
}

#[test]
fn tensors_are_renamed_all_or_none() {
    let smidgen = with_small();
    let names = |smidgen: &Smidgen| -> Vec<String> {
        let file = FileBytes::open(smidgen.path("m.gguf")).unwrap();
        let gguf = file.gguf().unwrap();
        gguf.tensors().map(|info| info.name().to_owned()).collect()
    };
    let rename = |rest: &[&str]| smidgen.run([&["tensors", "rename", "m.gguf"], rest].concat());
    for (rules, words) in [
        (&["blk.*.a=x"][..], "two tensors would be called x"),
        (&["blk.0.a=blk.0.b"], "two tensors would be called blk.0.b"),
        (&["blk.0.a=y", "c=z"], "no tensor for c=z"),
        (&["blk.0.a="], "can be no tensor's name"),
        (&["blk.0.a"], "is no PATTERN=REPLACEMENT"),
        (&["blk.0.a=**"], "more wildcards"),
        (&["--regex", "(=x"], "`(`"),
    ] {
        rename(rules).expect_error(&[words]);
        assert!(
            fs::read(smidgen.path("m.gguf")).unwrap() == small(),
            "{rules:?}"
        );
    }
    let long = format!("blk.0.a={}", "n".repeat(64));
    rename(&[&long]).expect_error(&["can be no tensor's name"]);
    let done = rename(&["blk.*.a=layers.*.first", "--dry-run"]);
    done.expect_success()
        .expect_stdout_is("blk.0.a -> layers.0.first\nblk.1.a -> layers.1.first\n");
    assert!(fs::read(smidgen.path("m.gguf")).unwrap() == small());
    // Names may be exchanged.
    rename(&["blk.0.a=blk.1.a", "blk.1.a=blk.0.a"]).expect_success();
    assert_eq!(names(&smidgen), ["blk.1.a", "blk.0.b", "blk.0.a"]);
    rename(&["--regex", r"^blk\.(\d)\.=l$1."]).expect_success();
    assert_eq!(names(&smidgen), ["l1.a", "l0.b", "l0.a"]);
    let (old, new) = (small(), fs::read(smidgen.path("m.gguf")).unwrap());
    let (old, new) = (
        Gguf::parse_small(&old).unwrap(),
        Gguf::parse_small(&new).unwrap(),
    );
    for (old_info, new_info) in old.tensors().zip(new.tensors()) {
        assert_eq!(old.data(&old_info), new.data(&new_info));
    }
}

#[test]
fn tensors_are_removed_and_the_others_move_up() {
    let smidgen = with_small();
    let remove = |rest: &[&str]| smidgen.run([&["tensors", "rm", "m.gguf"], rest].concat());
    remove(&["blk.0.a", "c"]).expect_error(&["no tensor c"]);
    let dry = remove(&["blk.*.a", "--dry-run"]);
    dry.expect_success().expect_stdout_is("blk.0.a\nblk.1.a\n");
    assert!(fs::read(smidgen.path("m.gguf")).unwrap() == small());
    remove(&["blk.0.a"]).expect_success();
    let old = small();
    let old = Gguf::parse_small(&old).unwrap();
    let mut expected = builder(true);
    let mut fresh = GgufBuilder::new();
    for (key, value) in expected.metadata() {
        fresh.set(key, value.clone());
    }
    for info in old.tensors().filter(|info| info.name() != "blk.0.a") {
        let bytes = old.data(&info).unwrap();
        fresh
            .tensor(info.name(), info.dims(), info.ty(), bytes)
            .unwrap();
    }
    assert!(fs::read(smidgen.path("m.gguf")).unwrap() == bytes_of(fresh));
    // A shard is counted in its set.
    expected.set("split.no", 0_u16).set("split.count", 2_u16);
    expected.set("split.tensors.count", 6_i32);
    smidgen.write("m.gguf", bytes_of(expected));
    remove(&["blk.0.a"]).expect_error(&["a shard's tensors are counted"]);
}

/// Gaps, order and what trails are the file's own business.
#[test]
fn odd_layouts_stay() {
    let smidgen = Smidgen::new();
    for id in [
        "ti_off_gap",
        "ti_off_reorder",
        "data_tail_zeros",
        "hdr_version_2",
        "align_4",
    ] {
        let case = cases::named(id);
        smidgen.write("m.gguf", case.bytes());
        let set = [
            "meta",
            "set",
            "m.gguf",
            "general.name",
            "a much longer name than before",
        ];
        smidgen.run(set).expect_success();
        let (old, new) = (case.bytes(), fs::read(smidgen.path("m.gguf")).unwrap());
        let (old, new) = (
            Gguf::parse_small(&old).unwrap(),
            Gguf::parse_small(&new).unwrap(),
        );
        assert_eq!(old.version(), new.version(), "{id}");
        let data = |gguf: &Gguf<'_>| gguf.bytes()[gguf.data_offset() as usize..].to_vec();
        assert!(data(&old) == data(&new), "{id}");
        let offsets = |gguf: &Gguf<'_>| -> Vec<_> {
            gguf.tensors()
                .map(|info| (info.name().to_owned(), info.offset()))
                .collect()
        };
        assert_eq!(offsets(&old), offsets(&new), "{id}");
    }
}

/// Every command that changes or reads files leaves a rejected one as it is.
#[test]
fn rejected_files_are_left_untouched() {
    let smidgen = Smidgen::new();
    let mut seen = 0;
    for case in cases::all() {
        let bytes = case.bytes();
        let mut scratch = vec![0; Gguf::scratch_len(&bytes)];
        if Gguf::parse(&bytes, &mut scratch).is_ok() {
            continue;
        }
        seen += 1;
        smidgen.write("bad.gguf", &bytes);
        smidgen.write("good.gguf", small());
        // One command that changes for each case, all kinds over all cases.
        let all: [&[&str]; 8] = [
            &[
                "meta",
                "set",
                "bad.gguf",
                "general.name",
                "x",
                "--type",
                "str",
                "--force",
            ],
            &["meta", "rm", "bad.gguf", "general.name", "--force"],
            &[
                "meta",
                "rename",
                "bad.gguf",
                "general.name",
                "x",
                "--patch",
                "--force",
            ],
            &["meta", "copy", "bad.gguf", "good.gguf", "--force"],
            &["meta", "copy", "good.gguf", "bad.gguf", "--force"],
            &["tensors", "rename", "bad.gguf", "*=x*", "--force"],
            &["tensors", "rm", "bad.gguf", "*", "--force"],
            &["name", "bad.gguf", "--rename", "--force"],
        ];
        let readers: [&[&str]; 5] = [
            &["meta", "get", "bad.gguf", "general.name"],
            &["hash", "bad.gguf"],
            &["diff", "bad.gguf", "good.gguf"],
            &["diff", "good.gguf", "bad.gguf"],
            &["vocab", "bad.gguf"],
        ];
        for args in [all[seen % all.len()], readers[seen % readers.len()]] {
            let done = smidgen.run(args);
            done.expect_error(&["bad.gguf"]);
            assert!(
                fs::read(smidgen.path("bad.gguf")).unwrap() == bytes,
                "{} {args:?}",
                case.id
            );
            assert!(fs::read(smidgen.path("good.gguf")).unwrap() == small());
            assert_eq!(
                smidgen.files(),
                ["bad.gguf", "good.gguf"],
                "{} {args:?}",
                case.id
            );
        }
    }
    assert!(seen > 60, "{seen}");
}

#[test]
fn what_runs_must_go_on_running() {
    let Some(shared) = shared() else { return };
    let smidgen = Smidgen::new();
    let model = fs::read(shared.join("golden/stories260K/gguf/stories260K-Q4_0.gguf")).unwrap();
    smidgen.write("m.gguf", &model);
    let set = |key: &str, value: &str| smidgen.run(["meta", "set", "m.gguf", key, value]);
    for (key, value, words) in [
        ("llama.embedding_length", "128", "the hyperparameters say"),
        (
            "llama.block_count",
            "4000000000",
            "layers are more than there are tensors",
        ),
        (
            "llama.attention.head_count",
            "7",
            "no multiple of the head count",
        ),
        ("tokenizer.ggml.bos_token_id", "9999", "only 512 tokens"),
        ("tokenizer.ggml.model", "gpt2", "only llama is supported"),
        ("llama.context_length", "0", "above 0"),
    ] {
        set(key, value).expect_error(&["refused: ", words, "--force"]);
        assert!(fs::read(smidgen.path("m.gguf")).unwrap() == model, "{key}");
    }
    set("llama.context_length", "512").expect_success();
    smidgen.run(["verify", "m.gguf"]).expect_success();
}
