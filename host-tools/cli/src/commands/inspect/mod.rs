//! `smidgen inspect FILE`.

mod facts;
mod json;
mod set;
mod text;

pub(super) use json::name_json;

use std::{path::PathBuf, process::ExitCode};

use anyhow::anyhow;
use smidgen_edit::printable;

use crate::output;

/// The form of the JSON.
const JSON: &str = "\
With --json nothing is cut:

{\"schema\": 1, \"file\", \"bytes\", \"version\", \"alignment\",
 \"offsets\": {\"metadata\", \"tensor_infos\", \"tensor_infos_end\", \"data\"},
 \"metadata\": [{\"key\", \"type\", \"element\", \"count\", \"value\", \"offset\"}],
 \"tensors\": [{\"name\", \"type\", \"type_id\", \"dims\", \"elements\", \"bytes\", \"offset\",
              \"file_offset\", \"shard\"}],
 \"totals\": {\"metadata\", \"tensors\", \"parameters\", \"tensor_bytes\", \"bits_per_weight\",
            \"types\": [{\"type\", \"tensors\", \"elements\", \"bytes\"}],
            \"padding\", \"gaps\", \"trailing\"},
 \"layout\": [{\"part\", \"group\", \"type\", \"bytes\"}],
 \"file_name\": {\"sidecar\", \"base_name\", \"size_label\", \"fine_tune\", \"version\", \"encoding\",
               \"type\", \"shard\": [number, count], \"conforms\", \"problems\"},
 \"shards\": [{\"number\", \"file\", \"missing\", \"error\", \"bytes\", \"tensors\", \"faults\",
             \"warnings\"}],
 \"faults\": [{\"code\", \"offset\", \"message\"}], \"warnings\": [...]}

What is not there or not known is null. Integers beyond 2^53 - 1 are strings of digits. Floats that
are no numbers are \"NaN\", \"inf\", \"-inf\" or {\"bits\": \"7fc00001\"}. Strings that are not UTF-8
are {\"hex\": \"ff00\"}.";

/// Show what is in a GGUF file.
///
/// Shows the header, every metadata entry, every tensor, what fills the file, and the parts of the
/// file's name by the GGUF naming convention. For the first shard of a split model it shows the
/// whole set. In a file with faults it shows what can be shown and warns; `smidgen verify` is the
/// judge.
#[derive(Debug, clap::Args)]
#[command(after_long_help = JSON)]
pub(crate) struct Args {
    /// The file; `-` is standard input.
    file: PathBuf,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// Leave the list of tensors out.
    #[arg(long)]
    no_tensors: bool,

    /// Show long arrays and strings whole.
    #[arg(long)]
    full: bool,
}

/// The most faults that are printed; `verify` prints all.
const MAX_FAULTS: usize = 10;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let files = set::open(&args.file)?;
    let members = set::verify(&files);
    let shown = printable(args.file.display().to_string().as_bytes());
    let first = &members[0];
    let Some(gguf) = first.verdict.as_ref().and_then(|verdict| verdict.gguf) else {
        let fault = first.faults().next();
        let words = fault.map(ToString::to_string).unwrap_or_default();
        let error = anyhow!("{shown}: {words}");
        return Err(match fault.map(|fault| fault.code) {
            Some("bad_magic") => {
                let hint = "`smidgen convert` makes a GGUF file of a llama2.c checkpoint";
                output::hinted(error, hint)
            }
            _ => error,
        });
    };
    let facts = facts::Facts::of(&members);
    for member in &members {
        let count = member.faults().count();
        for fault in member.faults().take(MAX_FAULTS) {
            output::warn(format!("{}: {fault}", printable(member.name.as_bytes())));
        }
        if count > MAX_FAULTS {
            let more = count - MAX_FAULTS;
            output::warn(format!(
                "{more} more faults; `smidgen verify {shown}` lists them all"
            ));
        }
    }
    if args.json {
        let json = json::inspect(&args.file, &gguf, &members, &facts, args.no_tensors);
        output::print_json(&json)?;
    } else {
        let page = text::Page {
            path: &args.file,
            gguf: &gguf,
            members: &members,
            facts: &facts,
            no_tensors: args.no_tensors,
            full: args.full,
        };
        output::print(&page.to_text())?;
    }
    Ok(ExitCode::SUCCESS)
}
