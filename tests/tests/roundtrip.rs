//! What is parsed and built again is the same.

use std::{fs, path::PathBuf};

use smidgen_core::gguf::Gguf;
use smidgen_io::GgufBuilder;
use smidgen_tests::{cases, shared};

fn rebuilt(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut scratch = vec![0; Gguf::scratch_len(bytes)];
    let gguf = Gguf::parse(bytes, &mut scratch).ok()?;
    let mut again = Vec::new();
    let mut builder = GgufBuilder::from_gguf(&gguf).unwrap();
    builder.write_to(&mut again).unwrap();
    Some(again)
}

fn ggufs(folder: PathBuf) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|ext| ext == "gguf"))
        .collect()
}

#[test]
fn files_of_llama_cpp_come_back_byte_for_byte() {
    let Some(shared) = shared() else { return };
    let folders = ["golden/stories260K/gguf", "golden/shards", "golden/wide"];
    let files = folders.map(|folder| ggufs(shared.join(folder)));
    let files = files.concat();
    assert!(files.len() > 40);
    for path in files {
        let bytes = fs::read(&path).unwrap();
        assert!(rebuilt(&bytes).unwrap() == bytes, "{}", path.display());
    }
    // No file of llama.cpp's: the padding behind the metadata is not there.
    let bytes = fs::read(shared.join("models/llama32000-vocab.gguf")).unwrap();
    let again = rebuilt(&bytes).unwrap();
    assert!(
        again
            .strip_prefix(&bytes[..])
            .unwrap()
            .iter()
            .all(|&byte| byte == 0)
    );
}

/// The bytes of all metadata, floats that are no numbers included; version 1 has others.
fn metadata<'a>(gguf: &Gguf<'a>) -> &'a [u8] {
    let place = gguf.metadata_offset()..gguf.infos_offset();
    &gguf.bytes()[place.start as usize..place.end as usize]
}

#[test]
fn good_cases_keep_their_metadata_names_and_data() {
    let (mut same, mut all) = (0, 0);
    for case in cases::all() {
        let bytes = fs::read(case.file()).unwrap();
        let Some(again) = rebuilt(&bytes) else {
            continue;
        };
        all += 1;
        same += usize::from(again == bytes);
        let (a, b) = (Gguf::parse_small(&bytes), Gguf::parse_small(&again));
        let (a, b) = (
            a.unwrap(),
            b.unwrap_or_else(|error| panic!("{}: {error}", case.id)),
        );
        if a.version() == 1 {
            assert_eq!(b.version(), 3, "{}", case.id);
            let entries = |gguf: &Gguf<'_>| -> Vec<_> {
                let entries = gguf.metadata();
                entries
                    .map(|entry| format!("{} {:?}", entry.key(), entry.value))
                    .collect()
            };
            assert_eq!(entries(&a), entries(&b), "{}", case.id);
        } else {
            assert_eq!(a.version(), b.version(), "{}", case.id);
            assert!(metadata(&a) == metadata(&b), "{}", case.id);
        }
        assert_eq!(a.tensor_count(), b.tensor_count(), "{}", case.id);
        for (x, y) in a.tensors().zip(b.tensors()) {
            assert_eq!(
                (x.name(), x.dims(), x.ty()),
                (y.name(), y.dims(), y.ty()),
                "{}",
                case.id
            );
            assert_eq!(a.data(&x), b.data(&y), "{}", case.id);
        }
        // A second time nothing changes any more.
        assert!(rebuilt(&again).unwrap() == again, "{}", case.id);
        if case.op == "roundtrip" && case.id != "ti_trailing_ones" {
            assert!(again == bytes, "{}", case.id);
        }
    }
    assert!(all > 100 && same > 80, "{same} of {all}");
}
