//! Decoding of block types against the Python package that llama.cpp publishes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use sha2::{Digest, Sha256};
use smidgen_core::gguf::Gguf;
use smidgen_core::quant::{activation_kind, dequantize_row};

/// What that package decodes; the file says how it was made.
const EXPECTED: &str = include_str!("../cases/dequantized-sha256.txt");

#[test]
fn tensors_decode_bit_for_bit_as_in_python() {
    let Some(shared) = smidgen_tests::shared() else {
        return;
    };
    let golden = shared.join("golden");
    let mut types = BTreeSet::new();
    let mut open: Option<(&str, Vec<u8>)> = None;
    for line in EXPECTED.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        let &[file, tensor, ty, expected] = fields.as_slice() else {
            panic!("not four fields: {line}");
        };
        if open.as_ref().is_none_or(|(name, _)| *name != file) {
            open = Some((file, fs::read(golden.join(file)).expect(file)));
        }
        let (_, bytes) = open.as_ref().expect("just opened");
        let mut scratch = vec![0; Gguf::scratch_len(bytes)];
        let gguf = Gguf::parse(bytes, &mut scratch).expect(file);

        let info = gguf.tensor(tensor).expect(tensor);
        assert_eq!(info.ty().name(), Some(ty), "{file} {tensor}");
        types.insert(info.ty());
        let elements = usize::try_from(info.elements().expect(tensor)).expect(tensor);
        let mut out = vec![0.0f32; elements];
        dequantize_row(info.ty(), gguf.data(&info).expect(tensor), &mut out).expect(tensor);

        let mut hash = Sha256::new();
        for number in &out {
            hash.update(number.to_le_bytes());
        }
        let found = hash.finalize().iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("a string takes any text");
            hex
        });
        assert_eq!(found, expected, "{file} {tensor}");
    }
    let missing = smidgen_core::gguf::GgmlType::all()
        .filter(|&ty| activation_kind(ty).is_some() && !types.contains(&ty));
    assert_eq!(missing.count(), 0, "only {types:?} were compared");
}
