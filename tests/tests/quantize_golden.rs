//! Quantized files against those that llama-quantize makes of the same model.

use std::path::Path;

use smidgen_core::gguf::{GgmlType, Gguf, keys};
use smidgen_io::FileBytes;
use smidgen_quantize::{FileType, Options, Padding, quantize};
use smidgen_tests::shared;

/// The checkpoint as llama.cpp's converter would make it: with the output matrix, though tied.
fn converted(checkpoint: &Path, vocab: &Path) -> Vec<u8> {
    let checkpoint = FileBytes::open(checkpoint).unwrap();
    let checkpoint = smidgen_llama2c::Checkpoint::parse(&checkpoint).unwrap();
    let vocab = FileBytes::open(vocab).unwrap();
    let tokens = checkpoint.config().vocab_size();
    let vocab = smidgen_llama2c::Vocabulary::read(&vocab, tokens).unwrap();
    let options = smidgen_llama2c::Options {
        keep_tied_output: true,
        ..smidgen_llama2c::Options::default()
    };
    let mut bytes = Vec::new();
    let mut conversion = smidgen_llama2c::convert(&checkpoint, &vocab, &options).unwrap();
    conversion.write_to(&mut bytes).unwrap();
    bytes
}

/// As llama-quantize does it.
fn plain(ty: &str) -> Options {
    let mut options = Options::new(FileType::from_name(ty).unwrap());
    options.padding = Padding::Off;
    options.keep_tied_output = true;
    options
}

fn quantized(input: &[u8], options: &Options) -> Vec<u8> {
    let gguf = Gguf::parse_small(input).unwrap();
    let mut bytes = Vec::new();
    let mut quantization = quantize(&[gguf], options).unwrap();
    let len = quantization.file_len().unwrap();
    assert_eq!(quantization.write_to(&mut bytes).unwrap(), len);
    assert_eq!(bytes.len() as u64, len);
    bytes
}

/// The types, shapes and bytes of all tensors are equal, and what the metadata say of them.
fn compare(ours: &[u8], golden: &Path) {
    let ours = Gguf::parse_small(ours).unwrap();
    let theirs = FileBytes::open(golden).unwrap();
    let theirs = theirs.gguf().unwrap();
    assert_eq!(ours.tensor_count(), theirs.tensor_count(), "{golden:?}");
    for info in theirs.tensors() {
        let name = info.name();
        let found = ours.tensor(name).unwrap();
        assert_eq!(found.ty(), info.ty(), "{golden:?} {name}");
        assert_eq!(found.dims(), info.dims(), "{golden:?} {name}");
        let (a, b) = (ours.data(&found).unwrap(), theirs.data(&info).unwrap());
        let differs = a.iter().zip(b).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{golden:?} {name}: first different byte");
        assert_eq!(a.len(), b.len());
    }
    for key in [keys::GENERAL_FILE_TYPE, keys::GENERAL_QUANTIZATION_VERSION] {
        assert_eq!(ours.get(key), theirs.get(key), "{golden:?} {key}");
    }
}

#[test]
fn every_type_is_that_of_llama_quantize() {
    let Some(shared) = shared() else { return };
    let folder = shared.join("golden/wide");
    let input = converted(&folder.join("wide.bin"), &shared.join("models/tok512.bin"));
    for ty in [
        "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
    ] {
        let mut options = plain(ty);
        options.pure = true;
        let ours = quantized(&input, &options);
        compare(&ours, &folder.join(format!("wide-{ty}.gguf")));
    }
}

#[test]
fn mixtures_are_those_of_llama_quantize() {
    let Some(shared) = shared() else { return };
    let folder = shared.join("golden/wide");
    let input = converted(&folder.join("wide.bin"), &shared.join("models/tok512.bin"));
    for ty in [
        "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M",
    ] {
        let ours = quantized(&input, &plain(ty));
        compare(&ours, &folder.join(format!("wide-mix-{ty}.gguf")));
    }
}

#[test]
fn fallbacks_are_those_of_llama_quantize() {
    let Some(shared) = shared() else { return };
    let models = shared.join("models");
    let input = converted(&models.join("stories260K.bin"), &models.join("tok512.bin"));
    for ty in [
        "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "Q4_K_M",
    ] {
        let ours = quantized(&input, &plain(ty));
        let golden = format!("golden/stories260K/gguf/stories260K-{ty}.gguf");
        compare(&ours, &shared.join(golden));
    }
}

#[test]
fn a_padded_model_is_whole_and_stores_a_tied_output_once() {
    let Some(shared) = shared() else { return };
    let models = shared.join("models");
    let input = converted(&models.join("stories260K.bin"), &models.join("tok512.bin"));
    for (ty, down, len) in [
        ("Q8_0", GgmlType::Q8_0, 317_000),
        ("Q4_0", GgmlType::Q4_0, 194_000),
        // For a K type the stand-in of 32 comes first.
        ("Q4_K_M", GgmlType::Q8_0, 240_000),
    ] {
        let options = Options::new(FileType::from_name(ty).unwrap());
        let ours = quantized(&input, &options);
        assert!(ours.len() <= len, "{ty}: {} bytes", ours.len());
        let gguf = Gguf::parse_small(&ours).unwrap();
        assert_eq!(gguf.get_u32(keys::LLAMA_FEED_FORWARD_LENGTH), Ok(Some(192)));
        assert!(gguf.tensor("output.weight").is_none());
        for layer in 0..5 {
            let tensor = |name: &str| gguf.tensor(&format!("blk.{layer}.{name}.weight")).unwrap();
            assert_eq!(tensor("ffn_gate").dims(), [64, 192]);
            assert_eq!(tensor("ffn_up").dims(), [64, 192]);
            assert_eq!(tensor("ffn_down").dims(), [192, 64]);
        }
        // The third layer is one of those with more bits.
        let third = gguf.tensor("blk.2.ffn_down.weight").unwrap();
        assert_eq!(third.ty(), down, "{ty}");
    }
}
