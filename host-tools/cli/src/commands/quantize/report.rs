//! What `smidgen quantize` says of its work.

use std::{fmt::Write as _, path::Path};

use serde_json::{Value as Json, json};
use smidgen_core::gguf::GgmlType;
use smidgen_edit::printable;
use smidgen_quantize::{Comparison, FitTensor, PlannedTensor, Quantization};

use super::{Args, Made};
use crate::output::{self, Align, Table};

/// What was done, to be printed.
pub(super) struct Report<'r> {
    pub(super) args: &'r Args,
    pub(super) made: &'r Made<'r>,
    pub(super) quantization: &'r Quantization<'r>,
    pub(super) bytes_before: u64,
    pub(super) bytes: u64,
}

impl Report<'_> {
    fn sums(&self) -> (u64, u64, u64) {
        let tensors = self.quantization.tensors().iter();
        tensors.fold((0, 0, 0), |(before, after, elements), tensor| {
            (
                before + tensor.bytes_before,
                after + tensor.bytes,
                elements + tensor.elements(),
            )
        })
    }

    fn bits_per_weight(&self) -> f64 {
        let (_, bytes, elements) = self.sums();
        bytes as f64 * 8.0 / elements.max(1) as f64
    }

    fn fallbacks(&self) -> impl Iterator<Item = &PlannedTensor> {
        let tensors = self.quantization.tensors().iter();
        tensors.filter(|tensor| tensor.instead_of.is_some())
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let aligns = [
            Align::Left,
            Align::Right,
            Align::Left,
            Align::Left,
            Align::Right,
            Align::Left,
        ];
        let mut table = Table::new(&aligns).head(&["tensor", "shape", "from", "to", "bytes", ""]);
        for tensor in self.quantization.tensors() {
            let mut notes = Vec::new();
            if tensor.is_padded() {
                notes.push(format!("padded from {}", shape(&tensor.dims_before)));
            }
            if let Some(wanted) = tensor.instead_of {
                notes.push(format!(
                    "instead of {wanted}: rows of {}",
                    tensor.dims_before[0]
                ));
            }
            table.row([
                printable(tensor.name.as_bytes()),
                shape(&tensor.dims),
                tensor.from.to_string(),
                tensor.to.to_string(),
                tensor.bytes.to_string(),
                notes.join(", "),
            ]);
        }
        table.write(&mut text, 0);
        if let Some((from, to)) = self.quantization.padded() {
            let _ = writeln!(
                text,
                "feed-forward size padded from {from} to {to} with zeros: no result changes"
            );
        }
        if self.quantization.tied() {
            let _ = writeln!(
                text,
                "output.weight left out: it is token_embd.weight once more"
            );
        }
        match self.fallbacks().count() {
            0 => {}
            count => {
                let count = output::counted(count as u64, "fallback");
                let _ = writeln!(text, "{count} because of the rows' lengths, see above");
            }
        }
        self.write_fitted(&mut text);
        if let Some(comparison) = &self.made.comparison {
            let _ = writeln!(
                text,
                "on what it was calibrated with: perplexity {:.4} from {:.4}, divergence {:.5}, same \
                 likeliest token {:.1} %",
                comparison.perplexity_b(),
                comparison.perplexity_a(),
                comparison.mean_divergence(),
                comparison.agreement() * 100.0,
            );
        }
        let (before, after, _) = self.sums();
        let verb = if self.args.dry_run { "would be " } else { "" };
        let _ = writeln!(
            text,
            "{}: {verb}{} bytes, {:.2} bits per weight; tensors {} from {}",
            self.args.output.display(),
            self.bytes,
            self.bits_per_weight(),
            output::human_bytes(after),
            output::human_bytes(before),
        );
        text
    }

    /// What each choice costs: a row a tensor, a column a type.
    fn write_fitted(&self, text: &mut String) {
        let fitted = &self.made.fitted;
        if fitted.is_empty() {
            return;
        }
        let mut types: Vec<GgmlType> = Vec::new();
        for candidate in fitted.iter().flat_map(|tensor| &tensor.candidates) {
            if !types.contains(&candidate.ty) {
                types.push(candidate.ty);
            }
        }
        let names: Vec<_> = types.iter().map(ToString::to_string).collect();
        let head: Vec<&str> = ["divergence by type"]
            .into_iter()
            .chain(names.iter().map(String::as_str))
            .collect();
        let mut aligns = vec![Align::Right; head.len()];
        aligns[0] = Align::Left;
        let mut table = Table::new(&aligns).head(&head);
        for tensor in fitted {
            let cell = |&ty: &GgmlType| {
                let mut candidates = tensor.candidates.iter();
                let found = candidates.find(|candidate| candidate.ty == ty);
                found.map_or_else(String::new, |candidate| {
                    let mark = if candidate.ty == tensor.choice().ty {
                        "*"
                    } else {
                        ""
                    };
                    format!("{mark}{:.5}", candidate.divergence)
                })
            };
            let name = printable(tensor.name.as_bytes());
            table.row([name].into_iter().chain(types.iter().map(cell)));
        }
        text.push('\n');
        table.write(text, 0);
        text.push_str("* is chosen\n\n");
    }

    pub(super) fn json(&self) -> Json {
        let quantization = self.quantization;
        let (_, _, elements) = self.sums();
        let tensors: Vec<_> = quantization
            .tensors()
            .iter()
            .map(|tensor| {
                json!({
                    "name": tensor.name,
                    "dims": tensor.dims,
                    "from": tensor.from.to_string(),
                    "to": tensor.to.to_string(),
                    "instead_of": tensor.instead_of.map(|ty| ty.to_string()),
                    "padded": tensor.is_padded(),
                    "bytes_before": tensor.bytes_before,
                    "bytes": tensor.bytes,
                })
            })
            .collect();
        json!({
            "schema": 1,
            "input": shown(&self.args.input),
            "output": shown(&self.args.output),
            "type": quantization.file_type().name(),
            "file_type": quantization.file_type().number(),
            "pure": self.args.pure,
            "board": self.args.board,
            "dry_run": self.args.dry_run,
            "bytes_before": self.bytes_before,
            "bytes": self.bytes,
            "elements": elements,
            "bits_per_weight": self.bits_per_weight(),
            "padded": quantization.padded().map(|(from, to)| json!({"from": from, "to": to})),
            "tied_output_left_out": quantization.tied(),
            "fallbacks": self.fallbacks().count(),
            "tensors": tensors,
            "calibrated": self.made.comparison.as_ref().map(comparison_json),
            "fit": self.made.fitted.iter().map(fitted_json).collect::<Vec<_>>(),
        })
    }
}

fn comparison_json(comparison: &Comparison) -> Json {
    json!({
        "predictions": comparison.predictions,
        "perplexity_before": comparison.perplexity_a(),
        "perplexity": comparison.perplexity_b(),
        "divergence": comparison.mean_divergence(),
        "agreement": comparison.agreement(),
    })
}

fn fitted_json(tensor: &FitTensor) -> Json {
    let candidates = tensor.candidates.iter().map(|candidate| {
        json!({
            "type": candidate.ty.to_string(),
            "bytes": candidate.bytes,
            "divergence": candidate.divergence,
        })
    });
    json!({
        "name": tensor.name,
        "type": tensor.choice().ty.to_string(),
        "candidates": candidates.collect::<Vec<_>>(),
    })
}

fn shape(dims: &[u64]) -> String {
    let dims: Vec<_> = dims.iter().map(ToString::to_string).collect();
    dims.join(" x ")
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
