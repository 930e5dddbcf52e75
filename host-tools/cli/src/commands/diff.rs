//! `smidgen diff A B`.

use std::{fmt::Write as _, path::PathBuf, process::ExitCode};

use serde_json::{Value as Json, json};
use smidgen_core::gguf::{TensorInfo, Value};
use smidgen_edit::{Difference, Distance, TensorDifference, diff, json as value, printable};
use smidgen_io::FileBytes;

use super::meta::entry_json;
use crate::output::{self, BAD, GOOD, HEADING, ODD, counted, cut};

/// Compare two GGUF files.
///
/// Metadata and tensors that were added, removed or changed; of tensors of one shape, how far their
/// decoded values are apart. Order, padding and the format's version make no difference. The exit
/// status is 0 when the files are equal, 1 when they differ.
#[derive(Debug, clap::Args)]
#[command(after_long_help = JSON)]
pub(crate) struct Args {
    /// The first file; `-` is standard input.
    a: PathBuf,
    /// The second file.
    b: PathBuf,
    /// Do not read the tensors: those of one type and shape count as equal.
    #[arg(long)]
    no_data: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The form of the JSON.
const JSON: &str = "\
With --json:

{\"schema\": 1, \"a\", \"b\", \"equal\",
 \"metadata\": [{\"key\", \"change\", \"a\", \"b\"}],
 \"tensors\": [{\"name\", \"change\", \"a\": {\"type\", \"dims\"}, \"b\", \"distance\": {\"elements\",
              \"different\", \"not_finite\", \"max\", \"rms\"}}]}

\"change\" is \"added\", \"removed\" or \"changed\". Metadata values are as in `meta get --json`. A
distance is null unless both tensors have one shape and types that can be decoded; \"not_finite\"
counts values that differ where one is no finite number, and which are in neither max nor rms.";

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (file_a, file_b) = (FileBytes::open(&args.a)?, FileBytes::open(&args.b)?);
    let (a, b) = (file_a.gguf()?, file_b.gguf()?);
    let difference = diff((&file_a, &a), (&file_b, &b), !args.no_data)?;
    if args.json {
        let json = json!({
            "schema": 1,
            "a": args.a.display().to_string(),
            "b": args.b.display().to_string(),
            "equal": difference.is_empty(),
            "metadata": difference.metadata.iter().map(|found| json!({
                "key": found.key,
                "change": change(found.a.is_some(), found.b.is_some()),
                "a": found.a.map(|value| entry_json(found.key.as_bytes(), &value)),
                "b": found.b.map(|value| entry_json(found.key.as_bytes(), &value)),
            })).collect::<Json>(),
            "tensors": difference.tensors.iter().map(tensor_json).collect::<Json>(),
        });
        output::print_json(&json)?;
    } else {
        output::print(&text(&difference))?;
    }
    Ok(ExitCode::from(u8::from(!difference.is_empty())))
}

fn change(in_a: bool, in_b: bool) -> &'static str {
    match (in_a, in_b) {
        (false, _) => "added",
        (true, false) => "removed",
        (true, true) => "changed",
    }
}

fn tensor_json(found: &TensorDifference<'_>) -> Json {
    let info = |info: TensorInfo<'_>| {
        let dims: Json = info.dims().iter().map(|&dim| value::count(dim)).collect();
        json!({ "type": info.ty().to_string(), "dims": dims })
    };
    json!({
        "name": found.name,
        "change": change(found.a.is_some(), found.b.is_some()),
        "a": found.a.map(info),
        "b": found.b.map(info),
        "distance": found.distance.map(|distance| json!({
            "elements": value::count(distance.elements),
            "different": value::count(distance.different),
            "not_finite": value::count(distance.not_finite),
            "max": distance.max,
            "rms": distance.rms,
        })),
    })
}

fn text(difference: &Difference<'_>) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let mut line = |words: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, "{words}");
    };
    let room = output::width().saturating_sub(8);
    if !difference.metadata.is_empty() {
        let count = counted(difference.metadata.len() as u64, "difference");
        line(format_args!("{HEADING}Metadata{HEADING:#}: {count}"));
    }
    for found in &difference.metadata {
        let key = printable(found.key.as_bytes());
        match (found.a, found.b) {
            (Some(a), Some(b)) => {
                line(format_args!("  {ODD}~ {key}{ODD:#}"));
                line(format_args!(
                    "      {BAD}-{BAD:#} {}",
                    cut(&words(&a), room)
                ));
                line(format_args!(
                    "      {GOOD}+{GOOD:#} {}",
                    cut(&words(&b), room)
                ));
            }
            (Some(a), None) => line(format_args!(
                "  {BAD}- {key}{BAD:#} {}",
                cut(&words(&a), room)
            )),
            (None, Some(b)) => line(format_args!(
                "  {GOOD}+ {key}{GOOD:#} {}",
                cut(&words(&b), room)
            )),
            (None, None) => {}
        }
    }
    if !difference.tensors.is_empty() {
        let count = counted(difference.tensors.len() as u64, "difference");
        line(format_args!("{HEADING}Tensors{HEADING:#}: {count}"));
    }
    for found in &difference.tensors {
        let name = printable(found.name.as_bytes());
        match (found.a, found.b) {
            (Some(a), Some(b)) => {
                let (a, b) = (shape(&a), shape(&b));
                let types = if a == b { a } else { format!("{a} -> {b}") };
                let distance = found.distance.map(|distance| apart(&distance));
                let distance = distance.unwrap_or_default();
                line(format_args!("  {ODD}~ {name}{ODD:#} {types}{distance}"));
            }
            (Some(a), None) => line(format_args!("  {BAD}- {name}{BAD:#} {}", shape(&a))),
            (None, Some(b)) => line(format_args!("  {GOOD}+ {name}{GOOD:#} {}", shape(&b))),
            (None, None) => {}
        }
    }
    text
}

/// A value with its type, on one line.
fn words(found: &Value<'_>) -> String {
    match found {
        Value::String(bytes) => format!("str {}", printable(bytes)),
        Value::Array(array) => {
            let ty = format!("[{}; {}]", array.element_type(), array.len());
            // More than fits a line is not looked at.
            let head: Json = array.iter().take(100).map(|e| value::value(&e)).collect();
            let head = head.to_string();
            let head = if array.len() > 100 {
                head.replace(']', ", …")
            } else {
                head
            };
            format!("{ty} {}", printable(head.as_bytes()))
        }
        scalar => {
            let shown = match value::value(scalar) {
                Json::String(text) => text,
                other => other.to_string(),
            };
            format!("{} {shown}", scalar.value_type())
        }
    }
}

fn shape(info: &TensorInfo<'_>) -> String {
    let dims: Vec<_> = info.dims().iter().map(u64::to_string).collect();
    format!("{} {}", info.ty(), dims.join(" x "))
}

fn apart(distance: &Distance) -> String {
    let Distance {
        elements,
        different,
        not_finite,
        max,
        rms,
    } = distance;
    let odd = match not_finite {
        0 => String::new(),
        n => format!(", {n} not finite"),
    };
    format!(": {different} of {elements} values differ, max {max:.3e}, RMS {rms:.3e}{odd}")
}
