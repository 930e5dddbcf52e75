//! The cases in which a file is quantized: verdicts, causes, blocks and facts.

use serde_json::Value as Json;
use smidgen_core::gguf::{GgmlType, Gguf};
use smidgen_core::quant::dequantize_row;
use smidgen_tests::Smidgen;
use smidgen_tests::cases::{self, Expectation};

#[test]
fn cases_have_their_verdicts_and_blocks() {
    for case in cases::of("quantize", "quantize") {
        let id = &case.id;
        let smidgen = Smidgen::new();
        let input = case.bytes();
        smidgen.write("in.gguf", &input);
        let text = |name: &str| case.args[name].as_str().unwrap();
        let output = text("output");
        let mut line = vec!["quantize", "--no-pad", "in.gguf", output, text("type")];
        if case.args["no_fallback"] == true {
            line.push("--strict");
        }
        let done = smidgen.run(&line);
        if case.expectation == Expectation::Reject {
            let word = match case.reason.as_deref().unwrap() {
                "nan" => "with which no model works",
                "f16_overflow" => "too large for",
                "row_size" => "no whole blocks",
                "output_exists" => "the same file",
                other => panic!("{id}: an unknown reason {other}"),
            };
            done.expect_error(&[word]);
            if let Some(tensor) = case.facts["tensor"].as_str() {
                done.expect_stderr(&[tensor]);
            }
            assert_eq!(smidgen.files(), ["in.gguf"], "{id}");
            let left = std::fs::read(smidgen.path("in.gguf")).unwrap();
            assert!(left == input, "{id}: the input changed");
            continue;
        }
        done.expect_success();
        let made = std::fs::read(smidgen.path(output)).unwrap();
        check(id, &input, &made, &case.facts);
    }
}

fn check(id: &str, input: &[u8], output: &[u8], facts: &Json) {
    let (before, after) = (
        Gguf::parse_small(input).unwrap(),
        Gguf::parse_small(output).unwrap(),
    );
    let name = facts["tensor"].as_str().unwrap();
    let info = after.tensor(name).unwrap();
    let bytes = after.data(&info).unwrap();
    let ty = info.ty();
    if let Some(expected) = facts["type"].as_str() {
        assert_eq!(ty.name(), Some(expected), "{id}");
    }
    if let Some(allowed) = facts["type_allowed"].as_array() {
        assert!(
            allowed.iter().any(|name| ty.name() == name.as_str()),
            "{id}: {ty}"
        );
    }
    if let Some(nbytes) = facts["nbytes"].as_object() {
        let expected = nbytes[ty.name().unwrap()].as_u64().unwrap();
        assert_eq!(bytes.len() as u64, expected, "{id}");
    }
    if facts["norm_stays"] == "F32" {
        let norm = after.tensor("blk.0.attn_norm.weight");
        let ty = norm.map(|norm| norm.ty());
        assert!(ty.is_none_or(|ty| ty == GgmlType::F32), "{id}: {ty:?}");
    }
    if let Some(hex) = facts["blocks_hex"].as_str() {
        let found: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        // What is given is the first row; one that was stored twice is there twice.
        let twice = facts["rows"]
            .as_str()
            .is_some_and(|rows| rows.contains("stored twice"));
        let expected = hex.repeat(if twice { 2 } else { 1 });
        assert!(found.starts_with(&expected), "{id}: {found}");
        assert_eq!(found.len(), hex.len() * 2, "{id}");
    }

    let numbers = |gguf: &Gguf<'_>| {
        let info = gguf.tensor(name).unwrap();
        let mut numbers = vec![0.0; usize::try_from(info.elements().unwrap()).unwrap()];
        dequantize_row(info.ty(), gguf.data(&info).unwrap(), &mut numbers).unwrap();
        numbers
    };
    let (given, found) = (numbers(&before), numbers(&after));
    let largest = |numbers: &[f32]| numbers.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    if facts["dequant_all_finite"] == true {
        assert!(found.iter().all(|x| x.is_finite()), "{id}");
    }
    if let Some(first) = facts["first_32_dequant"].as_array() {
        let first: Vec<_> = first.iter().map(|x| x.as_f64().unwrap() as f32).collect();
        assert_eq!(found[..32], first, "{id}");
    }
    if let Some(value) = facts["value_5"].as_f64() {
        assert_eq!(f64::from(found[5]), value, "{id}");
    }
    if let Some(max) = facts["dequant_max_abs"].as_f64() {
        assert!(f64::from(largest(&found)) <= max, "{id}");
    }
    if let Some(max) = facts["first_32_max_abs"].as_f64() {
        assert!(f64::from(largest(&found[..32])) <= max, "{id}");
    }
    let errors = || given.iter().zip(&found).map(|(a, b)| (a, (a - b).abs()));
    if let Some(max) = facts["max_abs_err"].as_f64() {
        assert!(errors().all(|(_, error)| f64::from(error) <= max), "{id}");
    }
    if let Some(max) = facts["max_rel_err"].as_f64() {
        let relative = |(x, error): (&f32, f32)| f64::from(error / x.abs());
        assert!(errors().map(relative).all(|error| error <= max), "{id}");
    }
}
