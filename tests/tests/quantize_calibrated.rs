//! Calibrated rounding, budgets, importance matrices and the measures of quality, on stories260K.

use std::path::Path;

use smidgen_core::gguf::{GgmlType, Gguf};
use smidgen_core::quant::dequantize_row;
use smidgen_io::FileBytes;
use smidgen_tests::{Smidgen, shared};

/// A folder with the model as `f32.gguf`, its output stored once.
fn with_model(shared: &Path) -> Smidgen {
    let smidgen = Smidgen::new();
    let [checkpoint, vocab] = ["stories260K.bin", "tok512.bin"].map(|name| {
        let path = shared.join("models").join(name);
        path.into_os_string().into_string().unwrap()
    });
    let convert = ["convert", &checkpoint, "--vocab", &vocab, "-o", "f32.gguf"];
    smidgen.run(convert).expect_success();
    smidgen
}

fn text(shared: &Path) -> String {
    let path = shared.join("golden/stories260K/tinystories-200k.txt");
    path.into_os_string().into_string().unwrap()
}

/// Perplexity over the whole text, which nothing was calibrated on.
fn perplexity(smidgen: &Smidgen, shared: &Path, model: &str) -> f64 {
    let text = text(shared);
    let done = smidgen.run(["perplexity", "-m", model, "-f", &text, "--json"]);
    done.expect_success();
    done.json()["perplexity"].as_f64().unwrap()
}

fn size(smidgen: &Smidgen, name: &str) -> u64 {
    std::fs::metadata(smidgen.path(name)).unwrap().len()
}

#[test]
fn calibrated_rounding_beats_plain_rounding() {
    let Some(shared) = shared() else { return };
    let smidgen = with_model(&shared);
    for (ty, bytes, at_most) in [("Q8_0", 317_000, 6.357), ("Q4_0", 177_000, 6.95)] {
        for (more, name) in [
            (None, "plain.gguf"),
            (Some("--calibrate"), "calibrated.gguf"),
        ] {
            let line = ["quantize", "f32.gguf", name, ty, "--pure", "--force"];
            smidgen.run(line.into_iter().chain(more)).expect_success();
        }
        assert_eq!(
            size(&smidgen, "calibrated.gguf"),
            size(&smidgen, "plain.gguf")
        );
        assert!(size(&smidgen, "calibrated.gguf") <= bytes, "{ty}");
        let plain = perplexity(&smidgen, &shared, "plain.gguf");
        let calibrated = perplexity(&smidgen, &shared, "calibrated.gguf");
        assert!(calibrated <= at_most, "{ty}: {calibrated}");
        assert!(calibrated < plain, "{ty}: {calibrated} and {plain}");
    }
    // Nothing depends on the number of threads.
    let line = [
        "quantize",
        "f32.gguf",
        "one.gguf",
        "Q4_0",
        "--pure",
        "--calibrate=self",
        "-t",
        "1",
    ];
    smidgen.run(line).expect_success();
    let read = |name| std::fs::read(smidgen.path(name)).unwrap();
    assert!(read("one.gguf") == read("calibrated.gguf"));
}

#[test]
fn a_budget_is_kept_and_used() {
    let Some(shared) = shared() else { return };
    let smidgen = with_model(&shared);
    for (budget, at_most) in [(194_000, 6.70), (225_000, 6.45)] {
        let bytes = budget.to_string();
        let line = [
            "quantize", "f32.gguf", "fit.gguf", "--fit", &bytes, "--force", "--json",
        ];
        let done = smidgen.run(line);
        let report = done.expect_success().json();
        let size = size(&smidgen, "fit.gguf");
        assert!(
            size <= budget && size > budget * 97 / 100,
            "{size} of {budget}"
        );
        assert_eq!(report["bytes"], size);
        assert_eq!(report["fit"].as_array().unwrap().len(), 36);
        let found = perplexity(&smidgen, &shared, "fit.gguf");
        assert!(found <= at_most, "{budget}: {found}");
    }
    let line = ["quantize", "f32.gguf", "small.gguf", "--fit", "100000"];
    smidgen
        .run(line)
        .expect_error(&["100000 bytes are too few, the least is 175"]);
    assert!(!smidgen.path("small.gguf").exists());
}

#[test]
fn padding_changes_no_bit_of_the_logits() {
    let Some(shared) = shared() else { return };
    let smidgen = with_model(&shared);
    smidgen
        .run(["quantize", "f32.gguf", "padded.gguf", "F32", "--pad"])
        .expect_success();
    let logits = |model: &str| {
        let ids = "1,403,407,261,378,9,400,31,298";
        let done = smidgen.run(["logits", "-m", model, "--ids", ids, "--all"]);
        done.expect_success();
        done.stdout_bytes().to_vec()
    };
    let (plain, padded) = (logits("f32.gguf"), logits("padded.gguf"));
    assert_eq!(plain.len(), 9 * 512 * 4);
    assert!(plain == padded);
    assert!(size(&smidgen, "padded.gguf") > size(&smidgen, "f32.gguf"));
}

#[test]
fn an_importance_matrix_is_measured_and_used() {
    let Some(shared) = shared() else { return };
    let smidgen = with_model(&shared);
    smidgen.run(["imatrix", "-m", "f32.gguf"]).expect_success();
    let file = FileBytes::open(smidgen.path("imatrix.gguf")).unwrap();
    let gguf = file.gguf().unwrap();
    assert_eq!(gguf.get_str("general.type").unwrap(), Some("imatrix"));
    assert_eq!(gguf.tensor_count(), 5 * 7 * 2);
    let sums = gguf.tensor("blk.4.ffn_down.weight.in_sum2").unwrap();
    assert_eq!((sums.dims(), sums.ty()), (&[172, 1][..], GgmlType::F32));
    // The inputs of queries and keys are the same.
    let data = |name: &str| gguf.data(&gguf.tensor(name).unwrap()).unwrap();
    let [q, k] = ["blk.1.attn_q.weight.in_sum2", "blk.1.attn_k.weight.in_sum2"].map(data);
    assert!(q == k);
    let counts = data("blk.1.attn_q.weight.counts");
    let count = f32::from_le_bytes(counts.try_into().unwrap());
    assert!(count >= 96.0 * 200.0, "{count}");

    smidgen
        .run(["quantize", "f32.gguf", "plain.gguf", "Q4_0"])
        .expect_success();
    let line = [
        "quantize",
        "f32.gguf",
        "weighted.gguf",
        "Q4_0",
        "--imatrix",
        "imatrix.gguf",
    ];
    smidgen.run(line).expect_success();
    let plain = perplexity(&smidgen, &shared, "plain.gguf");
    let weighted = perplexity(&smidgen, &shared, "weighted.gguf");
    assert!(weighted < plain, "{weighted} and {plain}");
    let line = [
        "quantize",
        "f32.gguf",
        "x.gguf",
        "Q4_0",
        "--imatrix",
        "plain.gguf",
    ];
    smidgen
        .run(line)
        .expect_error(&["plain.gguf", "no importance matrix"]);
}

#[test]
fn compare_agrees_with_perplexity_and_finds_a_model_equal_to_itself() {
    let Some(shared) = shared() else { return };
    let smidgen = with_model(&shared);
    smidgen
        .run(["quantize", "f32.gguf", "q4_0.gguf", "Q4_0"])
        .expect_success();
    let text = text(&shared);
    let compare = |a: &str, b: &str| {
        let done = smidgen.run(["compare", a, b, "-f", &text, "--json"]);
        done.expect_success();
        done.json()
    };
    let same = compare("q4_0.gguf", "q4_0.gguf");
    assert_eq!(same["divergence"], 0.0);
    assert_eq!(same["agreement"], 1.0);
    let other = compare("f32.gguf", "q4_0.gguf");
    for (side, model) in [("a", "f32.gguf"), ("b", "q4_0.gguf")] {
        let found = other[side]["perplexity"].as_f64().unwrap();
        let expected = perplexity(&smidgen, &shared, model);
        assert!(
            (found - expected).abs() < 1e-6,
            "{model}: {found} and {expected}"
        );
    }
    let divergence = other["divergence"].as_f64().unwrap();
    // The perplexities are 6.34 and 6.98: on average, what is lost is their logarithms' difference.
    assert!((0.07..0.13).contains(&divergence), "{divergence}");
    let done = smidgen.run(["compare", "f32.gguf", "q4_0.gguf"]);
    done.expect_success();
    done.expect_stdout(&["perplexity", "divergence 0.", "same likeliest token"]);
}

#[test]
fn tensors_are_extracted_as_bytes_numbers_and_arrays() {
    let Some(shared) = shared() else { return };
    let smidgen = with_model(&shared);
    smidgen
        .run(["quantize", "f32.gguf", "q8_0.gguf", "Q8_0"])
        .expect_success();
    let file = FileBytes::open(smidgen.path("q8_0.gguf")).unwrap();
    let gguf: Gguf<'_> = file.gguf().unwrap();
    let name = "blk.0.ffn_down.weight";
    let bytes = gguf.data(&gguf.tensor(name).unwrap()).unwrap();
    let mut numbers = vec![0.0; 192 * 64];
    dequantize_row(GgmlType::Q8_0, bytes, &mut numbers).unwrap();
    let numbers: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();

    let done = smidgen.run(["tensors", "extract", "q8_0.gguf", name]);
    assert!(done.expect_success().stdout_bytes() == bytes);
    let line = [
        "tensors",
        "extract",
        "q8_0.gguf",
        name,
        "-o",
        "x.f32",
        "--f32",
    ];
    smidgen.run(line).expect_success();
    assert!(std::fs::read(smidgen.path("x.f32")).unwrap() == numbers);
    let done = smidgen.run(["tensors", "extract", "q8_0.gguf", name, "--npy"]);
    let npy = done.expect_success().stdout_bytes();
    assert!(npy.starts_with(b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'"));
    let header = String::from_utf8_lossy(&npy[10..128]);
    assert!(header.contains("'shape': (64, 192)"), "{header}");
    assert!(npy[128..] == numbers);
    smidgen.run(line).expect_error(&["x.f32", "exists"]);
    let line = ["tensors", "extract", "q8_0.gguf", "blk.9.ffn_down.weight"];
    smidgen.run(line).expect_error(&["blk.9.ffn_down.weight"]);
}
