//! The subcommands, one file each: its arguments and what it does.

use std::process::ExitCode;

use clap::Subcommand;

mod bench;
mod compare;
mod completions;
mod convert;
mod detokenize;
mod diff;
mod edit;
mod extract;
mod gguf_split;
mod hash;
mod imatrix;
mod inspect;
mod logits;
mod man;
mod merge;
mod meta;
mod name;
mod perplexity;
mod plan;
mod quantize;
mod run;
mod sample;
mod split;
mod tensors;
mod tokenize;
mod verify;
mod vocab;

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant)] // There is one of each.
pub(crate) enum Command {
    /// Make a GGUF of a llama2.c checkpoint.
    Convert(convert::Args),
    /// Make a model smaller: store its weights in blocks of few bits.
    Quantize(quantize::Args),
    /// Measure how large what goes into each matrix is, for `smidgen quantize --imatrix`.
    Imatrix(imatrix::Args),
    /// Measure how far a model is from another, such as a quantized one from its original.
    Compare(compare::Args),
    /// Show what is in a GGUF file.
    Inspect(inspect::Args),
    /// Check GGUF files for everything that is wrong with them.
    Verify(verify::Args),
    /// Tell a story: continue a text.
    Run(run::Args),
    /// Split a text into the tokens of a model's vocabulary.
    Tokenize(tokenize::Args),
    /// Print the text that token ids stand for.
    Detokenize(detokenize::Args),
    /// Write the logits behind token ids as raw f32.
    Logits(logits::Args),
    /// Choose a token from given logits.
    Sample(sample::Args),
    /// Measure how well a model foretells a text.
    Perplexity(perplexity::Args),
    /// Measure how fast models run.
    Bench(bench::Args),
    /// Read and change metadata.
    Meta(meta::Args),
    /// Rename, remove and extract tensors.
    Tensors(tensors::Args),
    /// Hash the tensors of a GGUF file.
    Hash(hash::Args),
    /// Compare two GGUF files.
    Diff(diff::Args),
    /// Show a vocabulary, or turn text into the form of one and back.
    Vocab(vocab::Args),
    /// Print the file name that a model should have.
    Name(name::Args),
    /// Show whether a model fits a board, and what goes where in its memory.
    Plan(plan::Args),
    /// Split a GGUF file into shards.
    Split(split::Args),
    /// Merge the shards of a split GGUF into one file.
    Merge(merge::Args),
    /// Split or merge, with the command line of llama-gguf-split.
    GgufSplit(gguf_split::Args),
    /// Print completions for a shell.
    Completions(completions::Args),
    /// Print a page of the manual.
    #[command(hide = true)]
    Man(man::Args),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Convert(args) => convert::run(&args),
            Self::Quantize(args) => quantize::run(&args),
            Self::Imatrix(args) => imatrix::run(&args),
            Self::Compare(args) => compare::run(&args),
            Self::Inspect(args) => inspect::run(&args),
            Self::Verify(args) => verify::run(&args),
            Self::Run(args) => run::run(args),
            Self::Tokenize(args) => tokenize::run(args),
            Self::Detokenize(args) => detokenize::run(&args),
            Self::Logits(args) => logits::run(&args),
            Self::Sample(args) => sample::run(&args),
            Self::Perplexity(args) => perplexity::run(&args),
            Self::Bench(args) => bench::run(&args),
            Self::Meta(args) => meta::run(&args),
            Self::Tensors(args) => tensors::run(&args),
            Self::Hash(args) => hash::run(&args),
            Self::Diff(args) => diff::run(&args),
            Self::Vocab(args) => vocab::run(&args),
            Self::Name(args) => name::run(&args),
            Self::Plan(args) => plan::run(&args),
            Self::Split(args) => split::run(&args),
            Self::Merge(args) => merge::run(&args),
            Self::GgufSplit(args) => gguf_split::run(&args),
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
        }
    }
}
