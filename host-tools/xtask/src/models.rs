//! `cargo xtask models`: what is made from the checkpoint of the model that ships with the project.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::build;
use crate::process::{command, output, root, shown, target_dir};

/// The checkpoint and its vocabulary, from which all else is made.
const CHECKPOINT: &str = "smidgen-260k.bin";
const TOKENIZER: &str = "smidgen-260k-tokenizer.bin";

/// What the checkpoint is converted to; it does not ship.
const F32: &str = "smidgen-260k-F32.gguf";

/// The files that ship, and what `smidgen quantize` is told to make each from [`F32`].
const QUANTIZED: [(&str, &[&str]); 2] = [
    ("smidgen-260k-Q8_0.gguf", &["Q8_0"]),
    ("smidgen-260k-Q5_0.gguf", &["--fit", "200000"]),
];

/// What the models say: the numbers and stories that tests expect on every machine.
const GOLDEN: &str = "golden.json";

/// The text that they are measured with, in pieces of so many tokens.
const TEXT: &str = "stories.txt";
const CTX_SIZE: u32 = 256;

/// How the story begins of which every token is the likeliest, and how many tokens it has.
const GREEDY_PROMPT: &str = "Once upon a time";
const GREEDY_TOKENS: u32 = 200;

/// The seed of the story that is told with llama2.c's settings, from nothing to its end.
const SEED: u64 = 260;

/// Arguments of `cargo xtask models`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Replace what differs, and write what is missing.
    #[arg(long)]
    overwrite: bool,
    /// The folder with the checkpoint, its vocabulary and what is made from them.
    #[arg(long, value_name = "DIR", default_value = "examples/models")]
    folder: PathBuf,
    /// Threads of `smidgen` [default: one for each processor]. They change no byte.
    #[arg(long, value_name = "N")]
    threads: Option<u16>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let smidgen = match std::env::var_os("SMIDGEN_BIN") {
        Some(path) => PathBuf::from(path),
        None => build::smidgen()?,
    };
    let parent = target_dir();
    fs::create_dir_all(&parent)?;
    let made = tempfile::tempdir_in(&parent).context("no folder to work in")?;
    let maker = Maker {
        smidgen: smidgen.to_string_lossy().into_owned(),
        from: root().join(&args.folder),
        to: made.path().to_owned(),
        threads: args.threads,
    };
    maker.models()?;
    maker.golden()?;

    let mut differ = 0;
    for name in QUANTIZED.map(|(name, _)| name).into_iter().chain([GOLDEN]) {
        let bytes = fs::read(made.path().join(name))?;
        let shipped = maker.from.join(name);
        let shown = args.folder.join(name);
        let shown = shown.display();
        let is = fs::read(&shipped).ok();
        if is.as_ref() == Some(&bytes) {
            println!(
                "{shown}: {} bytes, as made from the checkpoint",
                bytes.len()
            );
        } else if args.overwrite {
            fs::write(&shipped, &bytes).with_context(|| format!("cannot write {shown}"))?;
            println!("{shown}: {} bytes, written", bytes.len());
        } else {
            let what = is.map_or("is missing", |_| "is not what the checkpoint gives");
            println!("{shown}: {what}");
            differ += 1;
        }
    }
    if differ > 0 {
        eprintln!("xtask: `cargo xtask models --overwrite` writes what is made");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes files in a folder from those of another.
struct Maker {
    smidgen: String,
    from: PathBuf,
    to: PathBuf,
    threads: Option<u16>,
}

impl Maker {
    /// The GGUFs.
    fn models(&self) -> Result<()> {
        let f32 = self.to.join(F32);
        let mut convert = command(&self.smidgen, ["convert", "--quiet"]);
        convert.arg(self.from.join(CHECKPOINT));
        convert.arg("--vocab").arg(self.from.join(TOKENIZER));
        convert.args([
            "--name",
            "smidgen-260k",
            "--author",
            "The Smidgen maintainers",
        ]);
        convert.args(["--license", "MIT OR Apache-2.0"]);
        output(convert.arg("--output").arg(&f32))?;
        for (name, how) in QUANTIZED {
            let mut quantize = command(&self.smidgen, ["quantize", "--quiet"]);
            quantize.arg(&f32).arg(self.to.join(name)).args(how);
            output(self.with_threads(&mut quantize))?;
        }
        Ok(())
    }

    /// What they say.
    fn golden(&self) -> Result<()> {
        let mut models = serde_json::Map::new();
        for name in [F32].into_iter().chain(QUANTIZED.map(|(name, _)| name)) {
            let file = self.to.join(name);
            models.insert(name.to_owned(), self.golden_of(&file)?);
        }
        let golden = json!({
            "greedy": {"prompt": GREEDY_PROMPT, "tokens": GREEDY_TOKENS},
            "seeded": {"seed": SEED, "temperature": 1.0, "top_p": 0.9},
            "perplexity": {"text": TEXT, "ctx_size": CTX_SIZE},
            "models": models,
        });
        let text = serde_json::to_string_pretty(&golden)? + "\n";
        fs::write(self.to.join(GOLDEN), text).context("cannot write what was measured")
    }

    fn golden_of(&self, file: &Path) -> Result<Value> {
        let tokens = GREEDY_TOKENS.to_string();
        let greedy = ["--temp", "0", "-p", GREEDY_PROMPT, "-n", &tokens];
        let (greedy_text, greedy_hash) = self.story(file, &greedy)?;
        let seed = SEED.to_string();
        let llama2c = "--temp 1 --top-p 0.9 --top-k 0 --min-p 0 --repeat-penalty 1 --seed";
        let seeded: Vec<_> = llama2c.split(' ').chain([seed.as_str()]).collect();
        let (seeded_text, seeded_hash) = self.story(file, &seeded)?;

        let mut perplexity = command(&self.smidgen, ["perplexity", "--json", "-m"]);
        perplexity.arg(file).arg("-f").arg(self.from.join(TEXT));
        perplexity.args(["-c", &CTX_SIZE.to_string()]);
        let report = output(self.with_threads(&mut perplexity))?;
        let report: Value = serde_json::from_str(&report)?;
        let perplexity = report.get("perplexity").context("no perplexity")?;

        Ok(json!({
            "greedy": {"text": greedy_text, "logits_hash": greedy_hash},
            "seeded": {"text": seeded_text, "logits_hash": seeded_hash},
            "perplexity": perplexity,
        }))
    }

    /// What `smidgen run` tells, and the hash of the logits.
    fn story(&self, file: &Path, how: &[&str]) -> Result<(String, String)> {
        let mut run = command(&self.smidgen, ["run", "--logits-hash", "-m"]);
        run.arg(file).args(how);
        let output = self.with_threads(&mut run).output()?;
        let words = String::from_utf8(output.stderr)?;
        let hash = words
            .lines()
            .find_map(|line| line.strip_prefix("logits hash: "));
        let hash = hash.and_then(|hash| hash.split(' ').next());
        let hash = hash.with_context(|| format!("`{}`: no hash\n{words}", shown(&run)))?;
        Ok((String::from_utf8(output.stdout)?, hash.to_owned()))
    }

    fn with_threads<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        if let Some(threads) = self.threads {
            command.args(["--threads", &threads.to_string()]);
        }
        command
    }
}
