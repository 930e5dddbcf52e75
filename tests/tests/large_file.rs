//! What commands do to a file that is larger than memory may be.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::MetadataExt,
    process::Stdio,
};

use smidgen_core::gguf::{GgmlType, TensorInfo, Value, Writer};
use smidgen_io::{FileBytes, OwnedValue};
use smidgen_tests::Smidgen;

/// 10 GiB of which almost all are holes: nothing of it is read but the head, and a changed copy has
/// the same holes.
#[test]
fn a_large_file_is_neither_read_nor_filled() {
    const TENSORS: u64 = 160;
    const EACH: u64 = 64 << 20;
    let smidgen = Smidgen::new();
    let path = smidgen.path("big.gguf");
    let mut head = Vec::new();
    let sink = |part: &[u8]| -> Result<(), ()> {
        head.extend_from_slice(part);
        Ok(())
    };
    let words = OwnedValue::strings((0..32_000).map(|n| format!("token {n}")));
    let mut writer = Writer::new(sink, 2, TENSORS).unwrap();
    writer
        .metadata("general.name", &Value::String(b"big"))
        .unwrap();
    writer
        .metadata("tokenizer.ggml.tokens", &words.as_value())
        .unwrap();
    for at in 0..TENSORS {
        let name = format!("t.{at}");
        let info = TensorInfo::new(&name, &[EACH], GgmlType::I8, at * EACH);
        writer.tensor(&info.unwrap()).unwrap();
    }
    let data = writer.finish(32).unwrap();
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(&head).unwrap();
    for at in [0, 80, 159] {
        file.seek(SeekFrom::Start(data + at * EACH)).unwrap();
        file.write_all(format!("here is {at}").as_bytes()).unwrap();
    }
    file.set_len(data + TENSORS * EACH).unwrap();
    drop(file);
    if fs::metadata(&path).unwrap().blocks() > 100_000 {
        eprintln!("skipped: this file system has no holes");
        return;
    }

    // More than a pipe holds: the command waits while its memory is looked at.
    let mut command = smidgen.command();
    command.args(["meta", "get", "big.gguf", "tokenizer.ggml.tokens"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    std::io::copy(&mut stdout, &mut std::io::sink()).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(peak < 32 << 10, "{peak} KiB");

    let set = ["meta", "set", "big.gguf", "general.name", "another name"];
    smidgen.run(set).expect_success();
    let found = fs::metadata(&path).unwrap();
    assert!(found.blocks() < 100_000, "{} blocks", found.blocks());
    let file = FileBytes::open(&path).unwrap();
    let gguf = file.gguf().unwrap();
    assert_eq!(gguf.data_len(), TENSORS * EACH);
    for at in [0, 80, 159] {
        let expected = format!("here is {at}");
        let mut found = vec![0; expected.len()];
        file.read_at(&mut found, gguf.data_offset() + at * EACH)
            .unwrap();
        assert_eq!(found, expected.as_bytes());
    }
}
