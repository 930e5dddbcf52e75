//! One number that tells whether a chip computes what all others do.

mod engine;

use engine::{Run, argmax, golden};
use smidgen_core::LogitsHash;
use smidgen_core::gguf::Gguf;
use smidgen_core::kernels::Backend;
use smidgen_core::kv_cache::KvType;
use smidgen_core::session::SessionError;

/// The hashes of the logits that 64 greedy tokens are chosen from, after BOS alone, with an f32
/// cache. They hold for every back end, every chip, debug and release builds.
const HASHES: [(&str, u64); 6] = [
    (
        "stories260K/gguf/stories260K-F32.gguf",
        0x644e_d2fd_626d_6622,
    ),
    (
        "stories260K/gguf/stories260K-F16.gguf",
        0x0ce8_3306_2d25_1c5f,
    ),
    (
        "stories260K/gguf/stories260K-Q8_0.gguf",
        0x90ad_9154_cf2c_60f2,
    ),
    (
        "stories260K/gguf/stories260K-Q4_0.gguf",
        0xc87a_8574_e8e9_13b2,
    ),
    (
        "stories260K/gguf/stories260K-Q5_0.gguf",
        0x06cf_b2bc_04d1_a63b,
    ),
    ("wide/wide-Q4_K.gguf", 0xef2e_a912_a1e0_bdd5),
];

fn hash(bytes: &[u8], backend: Backend) -> Result<u64, SessionError> {
    let gguf = Gguf::parse(bytes, &mut vec![0; Gguf::scratch_len(bytes)]).unwrap();
    let mut run = Run::of(gguf, KvType::F32, 64, 1);
    run.backend = backend;
    run.with_session(|mut session| {
        let mut hash = LogitsHash::new();
        let mut next = 1;
        for _ in 0..64 {
            let logits = session.step(next)?;
            hash.update(logits);
            next = argmax(logits);
        }
        Ok(hash.value())
    })
}

/// A file of the table, and where a tensor of it begins.
fn file(name: &str, tensor: &str) -> Option<(Vec<u8>, usize)> {
    let bytes = std::fs::read(golden()?.join(name)).unwrap();
    let gguf = Gguf::parse(&bytes, &mut vec![0; Gguf::scratch_len(&bytes)]).unwrap();
    let info = gguf.tensor(tensor).unwrap();
    let at = usize::try_from(gguf.data_offset() + info.offset()).unwrap();
    Some((bytes, at))
}

#[test]
fn hashes_are_those_of_the_table_on_every_back_end() {
    for (name, expected) in HASHES {
        let Some((bytes, _)) = file(name, "token_embd.weight") else {
            return;
        };
        for backend in Backend::available() {
            let found = hash(&bytes, backend).unwrap();
            assert_eq!(
                format!("{found:016x}"),
                format!("{expected:016x}"),
                "{name}, {}",
                backend.name()
            );
        }
    }
}

#[test]
fn one_bit_of_a_weight_changes_the_hash() {
    for (name, expected) in HASHES {
        // What these compute is not quantized again, which could make good for a small change.
        for tensor in ["blk.0.attn_output.weight", "output.weight"] {
            let Some((mut bytes, at)) = file(name, tensor) else {
                return;
            };
            // The highest bit of a float's fraction; of blocks, which begin with their scales, a
            // bit of a quant.
            let (offset, bit) = match name {
                _ if name.ends_with("-F32.gguf") => (22, 0x40),
                _ if name.ends_with("-F16.gguf") => (21, 0x02),
                _ => (20, 0x08),
            };
            bytes[at + offset] ^= bit;
            assert_ne!(
                hash(&bytes, Backend::best()),
                Ok(expected),
                "{name}, {tensor}"
            );
        }
    }
}

#[test]
fn numbers_that_are_none_give_an_error_and_no_hash() {
    let nan16 = [0x00, 0x7e];
    let nan32 = f32::NAN.to_le_bytes();
    let infinite = f32::INFINITY.to_le_bytes();
    // The scale of a Q8_0 or Q4_0 block comes first; of a Q4_K block, too.
    for (name, bad) in [
        (HASHES[0].0, &nan32[..]),
        (HASHES[0].0, &infinite),
        (HASHES[1].0, &nan16),
        (HASHES[2].0, &nan16),
        (HASHES[3].0, &nan16),
        (HASHES[5].0, &nan16),
    ] {
        for tensor in [
            "blk.0.attn_q.weight",
            "blk.0.ffn_down.weight",
            "output.weight",
        ] {
            let Some((mut bytes, at)) = file(name, tensor) else {
                return;
            };
            bytes[at..at + bad.len()].copy_from_slice(bad);
            for backend in Backend::available() {
                let result = hash(&bytes, backend);
                assert!(
                    matches!(result, Err(SessionError::NotFinite { .. })),
                    "{name}, {tensor}, {}: {result:?}",
                    backend.name()
                );
            }
        }
    }
}
