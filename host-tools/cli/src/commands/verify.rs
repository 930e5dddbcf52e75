//! `smidgen verify FILE…`.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::{Value as Json, json};
use smidgen_edit::{Contents, Finding, Verdict, json as value, printable, verify};
use smidgen_io::FileBytes;
use smidgen_shards::{Fault, ShardSet};

use crate::output::{self, BAD, GOOD, ODD, counted};

/// The form of the JSON.
const JSON: &str = "\
With --json:

{\"schema\": 1, \"files\": [{\"file\", \"valid\", \"contents\", \"faults\", \"warnings\"}],
\"sets\": [{\"first\", \"valid\", \"shards\", \"tensors\", \"faults\": [{\"file\", \"code\", \"message\"}]}]}

\"contents\" is \"model\", \"shard\", \"vocabulary\", \"metadata\" or null. A fault or warning is
{\"code\", \"offset\", \"message\"}, its offset null where it has no single place. A file that cannot
be read has \"error\" instead of all that.";

/// Check GGUF files for everything that is wrong with them.
///
/// Faults are what makes a reader refuse a file or misread it; the exit status is 1 when there is
/// one. Warnings are what others may stumble over. The container, the types of known keys, the
/// tokenizer's arrays and the keys of split models are checked; the numbers in the tensors are not
/// looked at. A shard alone and a file without tensors are valid, and are called what they are.
///
/// With the first shard of a set, or a folder that holds one set, all its shards are checked against
/// each other: that none is missing, that names, numbers and counts agree, that no tensor comes
/// twice.
#[derive(Debug, clap::Args)]
#[command(after_long_help = JSON)]
pub(crate) struct Args {
    /// The files, or folders with one set of shards each; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut code = 0;
    let mut files = Vec::new();
    let mut sets = Vec::new();
    for path in &args.files {
        let path = match ShardSet::first_in(path) {
            Ok(path) => path,
            Err(error) => {
                code = 2;
                if args.json {
                    let file = path.display().to_string();
                    files.push(json!({ "file": file, "error": error.to_string() }));
                }
                output::error(&error.into());
                continue;
            }
        };
        let path = &path;
        let shown = path.display().to_string();
        if ShardSet::is_at(path) {
            sets.push(path.clone());
        }
        match FileBytes::open(path) {
            Ok(file) => {
                let verdict = verify(&file, file_name(path));
                code = code.max(u8::from(!verdict.is_valid()));
                if args.json {
                    files.push(file_json(&shown, &verdict));
                } else {
                    output::print(&file_text(&shown, &verdict))?;
                }
            }
            Err(error) => {
                code = 2;
                let error = anyhow::Error::from(error);
                if args.json {
                    files.push(json!({ "file": shown, "error": format!("{error:#}") }));
                }
                output::error(&error);
            }
        }
    }
    let sets: Vec<_> = sets.into_iter().map(Set::check).collect();
    if sets.iter().any(|set| !set.faults.is_empty()) {
        code = code.max(1);
    }
    if args.json {
        let sets: Vec<_> = sets.iter().map(Set::json).collect();
        output::print_json(&json!({ "schema": 1, "files": files, "sets": sets }))?;
    } else {
        for set in &sets {
            output::print(&set.text())?;
        }
    }
    Ok(ExitCode::from(code))
}

/// The shards of a model, checked against each other.
struct Set {
    first: PathBuf,
    shards: usize,
    tensors: usize,
    faults: Vec<Fault>,
}

impl Set {
    fn check(first: PathBuf) -> Self {
        let mut faults = Vec::new();
        let set = ShardSet::check(&first, &mut |fault| faults.push(fault));
        Self {
            first,
            shards: set.as_ref().map_or(0, |set| set.shards().len()),
            tensors: set.as_ref().map_or(0, ShardSet::tensor_count),
            faults,
        }
    }

    fn text(&self) -> String {
        let shown = |path: &Path| printable(path.display().to_string().as_bytes());
        let mut text = String::new();
        // Writing to a string cannot fail.
        for Fault { path, kind } in &self.faults {
            let _ = writeln!(text, "{}: {BAD}fault{BAD:#}: {kind}", shown(path));
        }
        if self.faults.is_empty() {
            let (first, shards) = (shown(&self.first), counted(self.shards as u64, "shard"));
            let tensors = counted(self.tensors as u64, "tensor");
            let words = format!("whole set of {shards}, {tensors}");
            let _ = writeln!(text, "{first}: {GOOD}ok{GOOD:#}: {words}");
        }
        text
    }

    fn json(&self) -> Json {
        let faults = self.faults.iter().map(|fault| {
            json!({
                "file": fault.path.display().to_string(),
                "code": fault.kind.code(),
                "message": fault.kind.to_string(),
            })
        });
        json!({
            "first": self.first.display().to_string(),
            "valid": self.faults.is_empty(),
            "shards": self.shards,
            "tensors": self.tensors,
            "faults": faults.collect::<Vec<_>>(),
        })
    }
}

/// The last part of a path, if it names a file.
pub(super) fn file_name(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    (name != "-").then_some(name)
}

fn file_text(file: &str, verdict: &Verdict<'_>) -> String {
    let file = printable(file.as_bytes());
    let mut text = String::new();
    // Writing to a string cannot fail.
    let mut line = |style: anstyle::Style, kind: &str, words: &str| {
        let _ = writeln!(text, "{file}: {style}{kind}{style:#}: {words}");
    };
    for finding in &verdict.faults {
        line(BAD, "fault", &finding.to_string());
    }
    for finding in &verdict.warnings {
        line(ODD, "warning", &finding.to_string());
    }
    if verdict.is_valid() {
        line(GOOD, "ok", &verdict.contents_words());
    }
    text
}

fn file_json(file: &str, verdict: &Verdict<'_>) -> Json {
    json!({
        "file": file,
        "valid": verdict.is_valid(),
        "contents": verdict.contents().map(|contents| match contents {
            Contents::Model => "model",
            Contents::Shard(_) => "shard",
            Contents::Vocabulary(_) => "vocabulary",
            Contents::Metadata => "metadata",
        }),
        "faults": findings_json(&verdict.faults),
        "warnings": findings_json(&verdict.warnings),
    })
}

/// Findings in the form that is described above.
pub(super) fn findings_json<'f>(findings: impl IntoIterator<Item = &'f Finding>) -> Json {
    let finding = |finding: &Finding| {
        json!({
            "code": finding.code,
            "offset": finding.offset.map(value::count),
            "message": finding.message,
        })
    };
    findings.into_iter().map(finding).collect()
}
