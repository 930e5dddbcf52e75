//! `smidgen hash`, `diff`, `vocab` and `name`.

use std::{fs, path::PathBuf};

use smidgen_core::gguf::{GgmlType, keys};
use smidgen_io::{GgufBuilder, OwnedValue};
use smidgen_tests::{Smidgen, cases, shared};

const MODEL: &str = "stories260K-Q4_0.gguf";

/// The model whose manifest llama-gguf-hash has made, and that manifest.
fn with_model() -> Option<(Smidgen, PathBuf)> {
    let golden = shared()?.join("golden/stories260K");
    let smidgen = Smidgen::new();
    smidgen.write(MODEL, fs::read(golden.join("gguf").join(MODEL)).unwrap());
    Some((smidgen, golden.join("gguf-hash-Q4_0.txt")))
}

#[test]
fn hashes_are_those_of_llama_cpp() {
    let Some((smidgen, manifest)) = with_model() else {
        return;
    };
    let expected = fs::read_to_string(&manifest).unwrap();
    let done = smidgen.run(["hash", "--all", "--per-tensor", MODEL]);
    done.expect_success().expect_stdout_is(&expected);
    // Without --per-tensor the lines of the file alone, which are the last.
    let whole: String = expected.split_inclusive('\n').skip(48 * 3).collect();
    smidgen
        .run(["hash", "--all", MODEL])
        .expect_stdout_is(&whole);
    let sha256: String = expected
        .split_inclusive('\n')
        .filter(|line| line.starts_with("sha256"))
        .collect();
    let done = smidgen.run(["hash", "--sha256", "--per-tensor", MODEL]);
    done.expect_stdout_is(&sha256);
    let xxh64 = whole.lines().next().unwrap();
    smidgen
        .run(["hash", MODEL])
        .expect_stdout_is(&format!("{xxh64}\n"));
    let json = smidgen.run(["hash", "--json", "--sha1", MODEL]).json();
    assert_eq!(
        json["hashes"][0]["hash"],
        "07e47ea56d0c36b1bdcdde868b696f4f97c6f6f6"
    );
    assert_eq!(json["hashes"][0]["tensor"], serde_json::Value::Null);
}

#[test]
fn manifests_check_files_wherever_they_are() {
    let Some((smidgen, manifest)) = with_model() else {
        return;
    };
    let manifest = manifest.to_str().unwrap();
    let done = smidgen.run(["hash", "--check", manifest, MODEL]);
    done.expect_success();
    assert_eq!(done.stdout().lines().count(), 49);
    assert!(
        done.stdout()
            .lines()
            .all(|line| line.starts_with("sha256") && line.ends_with("  -  Ok"))
    );
    let full = smidgen.path(MODEL);
    let done = smidgen.run(["hash", "--all", "-c", manifest, full.to_str().unwrap()]);
    done.expect_success();
    assert_eq!(done.stdout().lines().count(), 147);
    // Our own manifests too, and metadata make no difference.
    let own = smidgen
        .run(["hash", "--uuid", "--xxh64", MODEL])
        .stdout()
        .to_owned();
    smidgen.write("own.txt", own);
    smidgen
        .run(["meta", "set", MODEL, "general.name", "another"])
        .expect_success();
    smidgen
        .run(["hash", "-c", "own.txt", "--uuid", MODEL])
        .expect_success();
    // A bit of a tensor does.
    let mut bytes = fs::read(&full).unwrap();
    let at = bytes.len() - 1000;
    bytes[at] ^= 1;
    smidgen.write(MODEL, &bytes);
    let done = smidgen.run(["hash", "-c", manifest, MODEL]);
    done.expect_code(1)
        .expect_stderr(&["is not what the manifest says"]);
    let bad = done
        .stdout()
        .lines()
        .filter(|line| line.ends_with("Mismatch"));
    let bad: Vec<_> = bad
        .map(|line| line.split_whitespace().nth(2).unwrap())
        .collect();
    assert_eq!(bad, [&format!("{MODEL}:blk.4.ffn_up.weight"), MODEL]);
    smidgen
        .run(["hash", "-c", "own.txt", "--uuid", MODEL])
        .expect_code(1);
    // A manifest of another file says nothing.
    smidgen.write("other.gguf", &bytes);
    smidgen
        .run(["hash", "-c", manifest, "other.gguf"])
        .expect_code(1);
    smidgen.write("no.txt", "nothing");
    smidgen
        .run(["hash", "-c", "no.txt", MODEL])
        .expect_error(&["no manifest"]);
    smidgen
        .run(["hash", "-c", "missing", MODEL])
        .expect_error(&["cannot read missing"]);
}

fn built(change: impl FnOnce(&mut GgufBuilder<'static>)) -> Vec<u8> {
    let mut builder = GgufBuilder::new();
    builder.set("general.name", "a").set("x.nan", f32::NAN);
    builder.set("x.list", &[1_u32, 2][..]);
    change(&mut builder);
    let mut bytes = Vec::new();
    builder.write_to(&mut bytes).unwrap();
    bytes
}

fn floats(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

fn add(builder: &mut GgufBuilder<'static>, name: &str, values: &[f32]) {
    let dims = [values.len() as u64];
    builder
        .tensor(name, &dims, GgmlType::F32, floats(values))
        .unwrap();
}

#[test]
fn differences_are_found_and_measured() {
    let smidgen = Smidgen::new();
    let a = built(|builder| {
        builder.set("x.gone", 1_u8);
        add(builder, "same", &[1.0, f32::NAN]);
        add(builder, "apart", &[1.0, 2.0, 3.0, 4.0]);
        add(builder, "gone", &[0.0]);
        add(builder, "shape", &[0.0, 0.0]);
    });
    let b = built(|builder| {
        builder.set(keys::GENERAL_ALIGNMENT, 64_u32);
        builder.set("general.name", "b");
        add(builder, "new", &[0.0]);
        add(builder, "shape", &[0.0]);
        add(builder, "apart", &[1.0, 2.5, 3.0, f32::INFINITY]);
        add(builder, "same", &[1.0, f32::NAN]);
    });
    smidgen.write("a.gguf", &a);
    smidgen.write("b.gguf", &b);
    let done = smidgen.run(["diff", "--json", "a.gguf", "b.gguf"]);
    done.expect_code(1);
    let json = done.json();
    let changes = |of: &str, name: &str| -> Vec<(String, String)> {
        let found = json[of].as_array().unwrap().iter();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        found
            .map(|found| (text(&found[name]), text(&found["change"])))
            .collect()
    };
    let owned = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter().map(|&(a, b)| (a.into(), b.into())).collect()
    };
    let metadata = [
        ("general.name", "changed"),
        ("x.gone", "removed"),
        ("general.alignment", "added"),
    ];
    assert_eq!(changes("metadata", "key"), owned(&metadata));
    let tensors = [
        ("apart", "changed"),
        ("gone", "removed"),
        ("shape", "changed"),
        ("new", "added"),
    ];
    assert_eq!(changes("tensors", "name"), owned(&tensors));
    let distance = &json["tensors"][0]["distance"];
    assert_eq!(distance["elements"], 4);
    assert_eq!(distance["different"], 2);
    assert_eq!(distance["not_finite"], 1);
    assert_eq!(distance["max"], 0.5);
    assert_eq!(distance["rms"], 0.25);
    assert_eq!(json["tensors"][2]["distance"], serde_json::Value::Null);
    let done = smidgen.run(["diff", "a.gguf", "b.gguf"]);
    done.expect_code(1).expect_stdout(&[
        "~ general.name\n",
        "- x.gone u8 1\n",
        "+ general.alignment u32 64\n",
        "~ apart F32 4: 2 of 4 values differ, max 5.000e-1, RMS 2.500e-1, 1 not finite\n",
        "~ shape F32 2 -> F32 1\n",
    ]);
    // The same contents in another order and with other padding are equal.
    let c = built(|builder| {
        builder.set("x.gone", 1_u8);
        builder.remove("general.name");
        builder.set("general.name", "a");
        add(builder, "shape", &[0.0, 0.0]);
        add(builder, "gone", &[0.0]);
        add(builder, "apart", &[1.0, 2.0, 3.0, 4.0]);
        add(builder, "same", &[1.0, f32::NAN]);
    });
    assert_ne!(a, c);
    smidgen.write("c.gguf", c);
    let done = smidgen.run(["diff", "a.gguf", "c.gguf"]);
    done.expect_success().expect_stdout_is("");
    assert_eq!(
        smidgen.run(["diff", "--json", "a.gguf", "c.gguf"]).json()["equal"],
        true
    );
    let done = smidgen.run(["diff", "a.gguf", "missing"]);
    done.expect_error(&["cannot read missing"]);
}

/// Against values that were worked out from the two files' golden decoding: an F16 copy of F32.
#[test]
fn a_type_is_as_far_away_as_its_rounding() {
    let Some(shared) = shared() else { return };
    let smidgen = Smidgen::new();
    let path = |name: &str| shared.join("golden/stories260K/gguf").join(name);
    let (f32_file, f16_file) = (path("stories260K-F32.gguf"), path("stories260K-F16.gguf"));
    let args = [
        "diff".as_ref(),
        "--json".as_ref(),
        f32_file.as_os_str(),
        f16_file.as_os_str(),
    ];
    let done = smidgen.run(args);
    done.expect_code(1);
    let json = done.json();
    let tensors = json["tensors"].as_array().unwrap();
    // All matrices and no norm.
    assert_eq!(tensors.len(), 37);
    for tensor in tensors {
        let max = tensor["distance"]["max"].as_f64().unwrap();
        let rms = tensor["distance"]["rms"].as_f64().unwrap();
        // Values are below 8: half a unit in the last of 11 places is 2^-9 at most.
        assert!(0.0 < rms && rms < max && max <= 2_f64.powi(-9), "{tensor}");
    }
    let no_data = smidgen.run([
        "diff".as_ref(),
        "--no-data".as_ref(),
        f32_file.as_os_str(),
        f32_file.as_os_str(),
    ]);
    no_data.expect_success();
}

#[test]
fn types_without_a_decoder_are_only_told_apart() {
    let smidgen = Smidgen::new();
    let file = |byte: u8| {
        built(|builder| {
            let bytes = vec![byte; 54];
            builder.tensor("t", &[256], GgmlType::TQ1_0, bytes).unwrap();
        })
    };
    smidgen.write("a.gguf", file(1));
    smidgen.write("b.gguf", file(2));
    let done = smidgen.run(["diff", "a.gguf", "b.gguf"]);
    done.expect_code(1).expect_stdout(&["~ t TQ1_0 256"]);
    smidgen
        .run(["diff", "a.gguf", "b.gguf", "--no-data"])
        .expect_success();
    smidgen.run(["diff", "a.gguf", "a.gguf"]).expect_success();
}

#[test]
fn a_vocabulary_in_three_forms() {
    let smidgen = Smidgen::new();
    let mut builder = GgufBuilder::new();
    let tokens: [&[u8]; 5] = [b"<unk>", b"<0x0A>", "▁a".as_bytes(), b"a\tb\\\n", b"\xff"];
    builder.set(keys::TOKENIZER_GGML_MODEL, "llama");
    builder.set(keys::TOKENIZER_GGML_TOKENS, OwnedValue::strings(tokens));
    builder.set(
        keys::TOKENIZER_GGML_SCORES,
        &[0.0_f32, 0.0, -1.5, f32::NAN, -3.0][..],
    );
    builder.set(keys::TOKENIZER_GGML_TOKEN_TYPE, &[2, 6, 1, 4, 99][..]);
    builder.set(keys::TOKENIZER_GGML_UNKNOWN_TOKEN_ID, 0_u32);
    let mut bytes = Vec::new();
    builder.write_to(&mut bytes).unwrap();
    smidgen.write("v.gguf", bytes);
    let table = [
        "id  type          score  text",
        " 0  unknown         0.0  <unk>",
        " 1  byte            0.0  <0x0A>",
        " 2  normal         -1.5  ▁a",
        r" 3  user_defined    NaN  a\tb\\\n",
        r" 4  99             -3.0  \xff",
        "",
    ];
    let done = smidgen.run(["vocab", "v.gguf"]);
    done.expect_success().expect_stdout_is(&table.join("\n"));
    smidgen.run(["vocab", "--tsv", "v.gguf"]).expect_stdout_is(
        "id\ttype\tscore\ttext\n0\tunknown\t0.0\t<unk>\n1\tbyte\t0.0\t<0x0A>\n\
         2\tnormal\t-1.5\t▁a\n3\tuser_defined\tNaN\ta\\tb\\\\\\n\n4\t99\t-3.0\t\\xff\n",
    );
    let json = smidgen.run(["vocab", "--json", "v.gguf"]).json();
    assert_eq!(json["model"], "llama");
    assert_eq!(json["special"]["unknown"], 0);
    assert_eq!(json["tokens"][4]["text"]["hex"], "ff");
    assert_eq!(json["tokens"][3]["score"], "NaN");
    assert_eq!(json["tokens"][2]["type"], "normal");
    let none = cases::named("ti_ok_f16");
    let done = smidgen.run(["vocab".as_ref(), none.file().as_os_str()]);
    done.expect_error(&["tokenizer.ggml.tokens is missing"]);
    let mistyped = cases::named("kv_tokens_as_u8_array");
    let done = smidgen.run(["vocab".as_ref(), mistyped.file().as_os_str()]);
    done.expect_error(&["must be an array of strings"]);
    smidgen.run(["vocab"]).expect_code(2);
}

#[test]
fn text_goes_through_escape_and_back() {
    let smidgen = Smidgen::new();
    let every_byte: Vec<u8> = (0..=255).chain(*b" <0x41>").chain("▁é".bytes()).collect();
    let escaped = smidgen.run_with_input(["vocab", "escape"], &every_byte);
    escaped.expect_success();
    assert!(!escaped.stdout().contains(' '));
    assert!(
        escaped
            .stdout()
            .contains("<0xFF>▁<0x3C>0x41><0xE2><0x96><0x81>é")
    );
    let back = smidgen.run_with_input(["vocab", "unescape"], escaped.stdout_bytes());
    back.expect_success();
    assert_eq!(back.stdout_bytes(), every_byte);
    let story = smidgen.run_with_input(["vocab", "unescape"], "▁Once▁upon<0x0A>".as_bytes());
    assert_eq!(story.stdout_bytes(), b" Once upon\n");
}

#[test]
fn names_are_told_given_and_taken_apart() {
    let smidgen = Smidgen::new();
    let bytes = built(|builder| {
        builder.set("general.basename", "Tiny Llama");
        builder.set("general.size_label", "15M");
        builder.set("general.finetune", "chat");
        builder.set("general.version", "2.1");
        builder.set("general.file_type", 7_u32);
        add(builder, "t", &[1.0]);
    });
    let name = "Tiny-Llama-15M-chat-v2.1-Q8_0.gguf";
    smidgen.write("m.gguf", &bytes);
    let done = smidgen.run(["name", "m.gguf"]);
    done.expect_success().expect_stdout_is(&format!("{name}\n"));
    assert_eq!(done.stderr(), "");
    let json = smidgen.run(["name", "--json", "m.gguf"]).json();
    assert_eq!(json["name"], name);
    assert_eq!(json["parts"]["fine_tune"], "chat");
    assert_eq!(json["parts"]["conforms"], true);
    smidgen.run(["name", "--rename", "m.gguf"]).expect_success();
    assert_eq!(smidgen.files(), [name]);
    assert_eq!(fs::read(smidgen.path(name)).unwrap(), bytes);
    smidgen.run(["name", "--rename", name]).expect_success();
    // Another file is not lost.
    smidgen.write("n.gguf", &bytes);
    smidgen.write(name, "another");
    smidgen
        .run(["name", "--rename", "n.gguf"])
        .expect_error(&["exists; --force overwrites it"]);
    assert_eq!(fs::read(smidgen.path(name)).unwrap(), b"another");
    assert_eq!(smidgen.files(), [name, "n.gguf"]);
    smidgen
        .run(["name", "--rename", "--force", "n.gguf"])
        .expect_success();
    assert_eq!(smidgen.files(), [name]);

    let nameless = built(|builder| {
        builder.remove("general.name");
    });
    smidgen.write("m.gguf", nameless);
    let done = smidgen.run(["name", "m.gguf"]);
    done.expect_error(&["neither general.basename nor general.name", "hint: "]);
    let mistyped = built(|builder| {
        builder.set("general.version", 1_u32);
    });
    smidgen.write("m.gguf", mistyped);
    smidgen
        .run(["name", "m.gguf"])
        .expect_error(&["general.version must be"]);

    let parse = |name: &str| smidgen.run(["name", "--parse", "--json", name]);
    let shard = parse("Grok-100B-v1.0-Q4_0-00003-of-00009.gguf");
    assert_eq!(
        shard.expect_success().json()["parts"]["shard"],
        serde_json::json!([3, 9])
    );
    parse("folder/Mixtral-8x7B-v0.1-KQ2.gguf").expect_success();
    parse("not-a-known-arrangement.gguf").expect_code(1);
    smidgen
        .run(["name", "--parse", "nonsense"])
        .expect_error(&["does not end in .gguf"]);
}
