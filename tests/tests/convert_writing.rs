//! What `smidgen convert` leaves behind: the whole file or none, whatever happens.

#![cfg(unix)] // Signals, limits and mounts.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use smidgen_core::gguf::{Gguf, keys};
use smidgen_tests::{Smidgen, cases};

/// Copies checkpoint and vocabulary of the plainest case into the folder.
fn plain(smidgen: &Smidgen) -> [PathBuf; 2] {
    let case = cases::named("l2c_v0_tied");
    ["model.bin", "tokenizer.bin"].map(|name| {
        let from = case.file().with_file_name(name);
        smidgen.write(name, fs::read(from).unwrap())
    })
}

const PLAIN: [&str; 6] = [
    "convert",
    "model.bin",
    "--vocab",
    "tokenizer.bin",
    "-o",
    "out.gguf",
];

/// The arguments of [`PLAIN`] with others for some of them.
fn with<'a>(changes: &[(&str, &'a str)]) -> Vec<&'a str> {
    let change = |word: &'static str| {
        let found = changes.iter().find(|(from, _)| *from == word);
        found.map_or(word, |(_, to)| to)
    };
    PLAIN.map(change).to_vec()
}

/// A legacy checkpoint of zeros, which takes no room on most disks, beside the plain vocabulary;
/// returns its length.
fn large(smidgen: &Smidgen) -> u64 {
    plain(smidgen);
    let (dim, hidden, layers, vocab, seq) = (1024_u64, 2816, 4, 293, 64);
    let header = [dim, hidden, layers, 16, 16, vocab, seq];
    let per_layer = 4 * dim * dim + 3 * dim * hidden + 2 * dim;
    let floats = vocab * dim + layers * per_layer + dim + seq * (dim / 16);
    let mut file = File::create(smidgen.path("model.bin")).unwrap();
    for field in header {
        file.write_all(&u32::try_from(field).unwrap().to_le_bytes())
            .unwrap();
    }
    let len = 28 + 4 * floats;
    file.set_len(len).unwrap();
    len
}

/// What is in the folder besides the inputs.
fn left(smidgen: &Smidgen) -> Vec<String> {
    let mut files = smidgen.files();
    files.retain(|name| name != "model.bin" && name != "tokenizer.bin");
    files
}

/// What a process that was killed may leave: nothing that looks like a model.
fn is_part(name: &str) -> bool {
    name.starts_with(".out.gguf.") && name.ends_with(".part")
}

#[test]
fn killed_in_the_middle_it_leaves_no_output() {
    let smidgen = Smidgen::new();
    let len = large(&smidgen);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(
            Instant::now() < deadline,
            "it is always faster than the kill"
        );
        let mut command = smidgen.command();
        command.args(PLAIN).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        while left(&smidgen).is_empty() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let files = left(&smidgen);
        if status.signal() == Some(9) && !files.contains(&"out.gguf".to_owned()) {
            assert!(files.iter().all(|name| is_part(name)), "{files:?}");
            break;
        }
        // It was through already; the output must be whole then.
        let written = fs::metadata(smidgen.path("out.gguf")).unwrap().len();
        assert!(written > len - 100_000);
        fs::remove_file(smidgen.path("out.gguf")).unwrap();
    }
    // What is left is in nobody's way.
    smidgen.run(PLAIN).expect_success();
    let bytes = fs::read(smidgen.path("out.gguf")).unwrap();
    assert_eq!(Gguf::parse_small(&bytes).unwrap().tensor_count(), 38);
}

/// Runs `smidgen` with the arguments of [`PLAIN`] in a shell, behind `before`.
fn in_shell(smidgen: &Smidgen, before: &str) -> Output {
    let program = smidgen.command().get_program().to_owned();
    let mut command = Command::new("sh");
    command.current_dir(smidgen.dir());
    command
        .arg("-c")
        .arg(format!("{before}; exec \"$0\" \"$@\""));
    command.arg(program).args(PLAIN);
    command.output().unwrap()
}

#[test]
fn a_file_that_may_not_grow_is_taken_away() {
    let smidgen = Smidgen::new();
    large(&smidgen);
    // 1 MiB in blocks of 512 bytes; without the signal the write fails with EFBIG.
    let output = in_shell(&smidgen, "trap '' XFSZ; ulimit -f 2048");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.starts_with("smidgen: cannot write out.gguf: "),
        "{stderr}"
    );
    assert_eq!(left(&smidgen), [""; 0]);
    // With the signal the process ends on the spot.
    let output = in_shell(&smidgen, "ulimit -f 2048");
    assert_eq!(output.status.code(), None);
    let files = left(&smidgen);
    assert!(files.iter().all(|name| is_part(name)), "{files:?}");
}

/// Needs a mount of its own, and says so where that is not to be had.
#[test]
fn a_full_disk_leaves_nothing() {
    let smidgen = Smidgen::new();
    let len = large(&smidgen);
    fs::create_dir(smidgen.path("disk")).unwrap();
    let program = smidgen.command().get_program().to_owned();
    let script = "\
mount -t tmpfs -o size=4m none disk || exit 77
\"$0\" convert model.bin --vocab tokenizer.bin -o disk/out.gguf
code=$?
ls -A disk
exit $code";
    let mut unshare = Command::new("unshare");
    unshare.args(["--map-root-user", "--mount", "sh", "-c", script]);
    let unshare = unshare.arg(program).current_dir(smidgen.dir());
    let output = match unshare.output() {
        Ok(output) if output.status.code() != Some(77) && output.status.code() != Some(1) => output,
        no_mount => {
            eprintln!("skipped: no mount namespace here ({no_mount:?})");
            return;
        }
    };
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(len > 4 << 20);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("cannot write disk/out.gguf: No space left"),
        "{stderr}"
    );
    assert_eq!(output.stdout, b"", "left on the disk");
}

#[test]
fn an_output_that_exists_is_kept_without_force() {
    let smidgen = Smidgen::new();
    plain(&smidgen);
    smidgen.write("out.gguf", "mine");
    let done = smidgen.run(PLAIN);
    done.expect_error(&["out.gguf exists", "--force"]);
    assert_eq!(fs::read(smidgen.path("out.gguf")).unwrap(), b"mine");
    let forced = [&PLAIN[..], &["--force"]].concat();
    smidgen.run(forced).expect_success();
    assert!(
        fs::read(smidgen.path("out.gguf"))
            .unwrap()
            .starts_with(b"GGUF")
    );
    assert_eq!(left(&smidgen), ["out.gguf"]);
}

#[test]
fn a_fault_found_while_writing_keeps_what_was_there() {
    let smidgen = Smidgen::new();
    let [model, _] = plain(&smidgen);
    let mut bytes = fs::read(&model).unwrap();
    // Header, embeddings, the norms of two layers, wq of the first, 17 elements of the second.
    let at = 28 + 4 * (293 * 16 + 2 * 16 + 16 * 16 + 17);
    bytes[at..][..4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    fs::write(&model, bytes).unwrap();
    smidgen.write("out.gguf", "mine");
    let forced = [&PLAIN[..], &["--force"]].concat();
    let done = smidgen.run(forced);
    done.expect_error(&["model.bin: blk.1.attn_q.weight: element 17 is inf"]);
    assert_eq!(fs::read(smidgen.path("out.gguf")).unwrap(), b"mine");
    assert_eq!(left(&smidgen), ["out.gguf"]);
}

#[test]
fn a_number_too_large_for_the_type_is_refused() {
    let smidgen = Smidgen::new();
    let [model, _] = plain(&smidgen);
    let mut bytes = fs::read(&model).unwrap();
    bytes[28 + 4 * 3..][..4].copy_from_slice(&70_000_f32.to_le_bytes());
    fs::write(&model, bytes).unwrap();
    let typed = |ty| smidgen.run([&PLAIN[..], &["--type", ty]].concat());
    typed("f16").expect_error(&["token_embd.weight: element 3 is 70000", "too large for F16"]);
    assert_eq!(left(&smidgen), [""; 0]);
    typed("bf16").expect_success();
}

#[test]
fn an_input_is_never_the_output() {
    let smidgen = Smidgen::new();
    let [model, vocab] = plain(&smidgen);
    let before = [fs::read(&model).unwrap(), fs::read(&vocab).unwrap()];
    std::os::unix::fs::symlink("model.bin", smidgen.path("link")).unwrap();
    fs::hard_link(&vocab, smidgen.path("hard")).unwrap();
    for output in ["model.bin", "./model.bin", "tokenizer.bin", "link", "hard"] {
        let args = [&with(&[("out.gguf", output)])[..], &["--force"]].concat();
        smidgen.run(args).expect_error(&["same file"]);
    }
    assert_eq!(
        [fs::read(&model).unwrap(), fs::read(&vocab).unwrap()],
        before
    );
}

#[test]
fn paths_that_are_no_files_are_named() {
    let smidgen = Smidgen::new();
    plain(&smidgen);
    fs::create_dir(smidgen.path("folder")).unwrap();
    for (changes, words) in [
        (("model.bin", "folder"), ["folder", "directory"]),
        (("tokenizer.bin", "folder"), ["folder", "directory"]),
        (("out.gguf", "folder"), ["folder", "no regular file"]),
        (("out.gguf", "/dev/null"), ["/dev/null", "no regular file"]),
        (("model.bin", "missing"), ["missing", "No such file"]),
        (("tokenizer.bin", "missing"), ["missing", "No such file"]),
        (("out.gguf", "no/such/out"), ["no/such/out", "No such file"]),
    ] {
        smidgen.run(with(&[changes])).expect_error(&words);
    }
    assert_eq!(left(&smidgen), ["folder"]);
}

#[test]
fn files_that_are_swapped_are_named() {
    let smidgen = Smidgen::new();
    plain(&smidgen);
    let swapped = [
        ("model.bin", "tokenizer.bin"),
        ("tokenizer.bin", "model.bin"),
    ];
    let done = smidgen.run(with(&swapped));
    done.expect_error(&["tokenizer.bin: not a llama2.c checkpoint", "swapped?"]);
    let done = smidgen.run(with(&swapped[1..]));
    done.expect_error(&["model.bin: neither a tokenizer.bin nor a GGUF", "swapped?"]);
    // A converted file as checkpoint.
    smidgen.run(PLAIN).expect_success();
    let again = with(&[("model.bin", "out.gguf"), ("out.gguf", "again.gguf")]);
    let done = smidgen.run(again);
    done.expect_error(&["out.gguf: not a llama2.c checkpoint", "converted already"]);
}

#[test]
fn streams_work_where_they_make_sense() {
    let smidgen = Smidgen::new();
    let [model, vocab] = plain(&smidgen);
    smidgen.run(PLAIN).expect_success();
    let file = fs::read(smidgen.path("out.gguf")).unwrap();
    let name = ["--name", "model"];
    let args = [&with(&[("model.bin", "-"), ("out.gguf", "-")])[..], &name].concat();
    let done = smidgen.run_with_input(args, &fs::read(&model).unwrap());
    done.expect_success();
    assert!(done.stdout_bytes() == file);
    let done = smidgen.run_with_input(
        with(&[("tokenizer.bin", "-"), ("out.gguf", "-")]),
        &fs::read(&vocab).unwrap(),
    );
    assert!(done.stdout_bytes() == file);
    let both = with(&[("model.bin", "-"), ("tokenizer.bin", "-")]);
    smidgen.run(both).expect_error(&["standard input"]);
    let mixed = [&with(&[("out.gguf", "-")])[..], &["--json"]].concat();
    smidgen.run(mixed).expect_error(&["--json"]);
    // A reader that has enough is no failure.
    let mut command = smidgen.command();
    let args: Vec<OsString> = with(&[("out.gguf", "-")]).iter().map(Into::into).collect();
    let mut child = command.args(args).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn options_reach_the_file() {
    let smidgen = Smidgen::new();
    plain(&smidgen);
    let options = [
        "--context=96",
        "--name=A name",
        "--author=An author",
        "--license=MIT",
        "--url=https://example.org",
        "--eps=1e-6",
        "--rope-base=500000",
        "--json",
    ];
    let done = smidgen.run([&PLAIN[..], &options].concat());
    done.expect_success();
    let bytes = fs::read(smidgen.path("out.gguf")).unwrap();
    let gguf = Gguf::parse_small(&bytes).unwrap();
    for (key, expected) in [
        (keys::GENERAL_NAME, "A name"),
        (keys::GENERAL_AUTHOR, "An author"),
        (keys::GENERAL_LICENSE, "MIT"),
        (keys::GENERAL_URL, "https://example.org"),
    ] {
        assert_eq!(gguf.get_str(key).unwrap(), Some(expected));
    }
    let context = gguf.get_u32(keys::LLAMA_CONTEXT_LENGTH).unwrap();
    assert_eq!(context, Some(96));
    for (key, expected) in [
        (keys::LLAMA_ATTENTION_LAYER_NORM_RMS_EPSILON, 1e-6),
        (keys::LLAMA_ROPE_FREQ_BASE, 500_000.0),
    ] {
        assert_eq!(gguf.get_f32(key).unwrap(), Some(expected));
    }
    let json = done.json();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["checkpoint"]["version"], 0);
    assert_eq!(json["checkpoint"]["shared_classifier"], true);
    assert_eq!(json["vocab"]["format"], "tokenizer.bin");
    assert_eq!(json["vocab"]["tokens"], 293);
    assert_eq!(json["output"]["path"], "out.gguf");
    assert_eq!(json["output"]["type"], "F32");
    assert_eq!(json["output"]["tensors"], 20);
    assert_eq!(json["output"]["context"], 96);
    assert_eq!(json["output"]["bytes"], bytes.len());
    // 96 positions are more than the 32 of the training.
    assert_eq!(json["warnings"].as_array().unwrap().len(), 1);
}

#[test]
fn quiet_is_quiet_and_words_go_to_stderr() {
    let smidgen = Smidgen::new();
    plain(&smidgen);
    let done = smidgen.run(PLAIN);
    done.expect_success().expect_stdout_is("");
    done.expect_stderr(&["out.gguf: 20 tensors", "293 tokens"]);
    let done = smidgen.run([&PLAIN[..], &["--force", "--quiet", "--context", "64"]].concat());
    assert_eq!(done.expect_success().stderr(), "");
    assert_eq!(done.stdout(), "");
}

#[test]
fn wrong_options_are_refused_before_anything_is_written() {
    let smidgen = Smidgen::new();
    plain(&smidgen);
    for (options, word) in [
        (&["--context", "0"][..], "--context"),
        (&["--context", "-1"], "-1"),
        (&["--eps", "0"], "epsilon must be positive"),
        (&["--eps", "nan"], "epsilon must be positive"),
        (&["--rope-base=-1"], "base must be positive"),
        (&["--type", "q4_0"], "q4_0"),
        (&["--llama2c-model", "model.bin"], "--llama2c-model"),
    ] {
        let done = smidgen.run([&PLAIN[..], options].concat());
        done.expect_code(2).expect_stderr(&[word]);
        assert_eq!(left(&smidgen), [""; 0], "{options:?}");
    }
    for missing in [&PLAIN[..1], &PLAIN[..2], &PLAIN[..4]] {
        let done = smidgen.run(missing);
        done.expect_code(2).expect_stderr(&["Usage"]);
    }
    assert!(!Path::new(&smidgen.path("ak_llama_model.gguf")).exists());
}
