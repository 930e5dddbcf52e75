//! `smidgen run`: a story.

use std::{
    ffi::OsString,
    hash::{BuildHasher, RandomState},
    io::{self, BufWriter, IsTerminal, StdoutLock, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use serde_json::{Value as Json, json};
use smidgen_core::{
    LogitsHash,
    sampler::{Sampler, SamplerSettings},
    session::{
        GenerateError, GenerateOptions, Generated, Generator, GeneratorBuffers, Plan, Prompt,
        StopReason, held_len,
    },
};
use smidgen_io::FileBytes;

use crate::{
    engine::{self, EngineArgs, Kv, ModelArg, ModelFiles},
    output::{self, Align, Table, counted, human_bytes},
    sampling::SamplingArgs,
};

/// Words below the options.
const HELP: &str = "\
Standard output gets the prompt and its continuation, as they come, and a newline at the end.
Everything else goes to standard error. Text is taken as it is: no escapes are looked for in -p.

The story ends where the model ends it (EOS or BOS), after -n tokens, at a --stop text, or when the
context is full. With the same seed and settings it is always the same.

Where no option says otherwise, a model may bring defaults for the sampling: the metadata keys
smidgen.run.temp, .top_k, .top_p, .min_p and .repeat_penalty.

With --json standard output gets an object instead, when the story has ended:

  {\"schema\": 1, \"model\", \"prompt\", \"text\" (behind the prompt), \"stop\" (\"eos\", \"bos\", \"length\",
   \"stop_text\", \"context_full\"), \"seed\", \"prompt_tokens\", \"new_tokens\", \"prompt_seconds\",
   \"new_seconds\", \"backend\", \"threads\", \"kv\", \"memory_bytes\", \"logits_hash\" and
   \"hashed_positions\" (if asked for)}

The stories of llama2.c: --temp 1 --top-p 0.9 --top-k 0 --min-p 0 --repeat-penalty 1 -s SEED";

/// Tell a story: continue a text.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArg,

    /// How the story begins.
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<OsString>,

    /// A file with the beginning; `-` is standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with = "prompt")]
    file: Option<PathBuf>,

    /// Read the beginning from standard input.
    #[arg(value_name = "-", value_parser = ["-"], conflicts_with_all = ["prompt", "file"])]
    stdin: Option<String>,

    /// Tokens to add at most; -1 is no limit [default: until the story
    /// or the context ends].
    #[arg(short, long, visible_alias = "predict", value_name = "N")]
    #[arg(allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..))]
    n_predict: Option<i64>,

    /// Positions of the context, prompt included [default: the model's context length].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ctx_size: Option<u32>,

    /// Keep only the last N positions and go on when they are full.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    window: Option<u32>,

    /// A text that ends the story; it is not printed. May be given several times.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,

    /// Never end the story at EOS or BOS.
    #[arg(long)]
    ignore_eos: bool,

    /// Do not print the prompt.
    #[arg(long)]
    no_display_prompt: bool,

    #[command(flatten)]
    sampling: SamplingArgs,

    /// Tokens that the repeat penalty looks back on.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 64,
        help_heading = "Sampling"
    )]
    repeat_last_n: u16,

    /// Seed of the random numbers, from 1 on [default: drawn, and printed to standard error].
    #[arg(short, long, value_name = "SEED", help_heading = "Sampling")]
    seed: Option<u64>,

    #[command(flatten)]
    engine: EngineArgs,

    /// Print a hash of the logits that each token was chosen from: equal hashes, equal bits.
    #[arg(long)]
    logits_hash: bool,

    /// Say in detail where time and memory went.
    #[arg(long)]
    stats: bool,

    /// Print the story and what there is to say about it as JSON.
    #[arg(long, conflicts_with_all = ["stats", "no_display_prompt"])]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let files = ModelFiles::of(&args.model)?;
    let prompt = prompt(&args)?;
    let ggufs = files.parse()?;
    let mut layers = Vec::new();
    let model = files.load(&ggufs, &mut layers)?;
    let mut index = Vec::new();
    let vocabulary = files.vocabulary(&ggufs, &mut index)?;
    let defaults = SamplerSettings::from_metadata(&ggufs[0])
        .with_context(|| args.model.path().display().to_string())?;
    let seed = args.seed.unwrap_or_else(draw_seed);
    let mut sampler = Sampler::new(args.sampling.settings(&defaults), seed)?;

    let context = args.ctx_size.map(|n| n as usize);
    if let Some(context) = context {
        engine::warn_if_long(&model, context);
    }
    let mut options = args.engine.options(match (args.window, context) {
        (Some(window), context) => context.unwrap_or(usize::MAX).min(window as usize),
        (None, context) => context.unwrap_or(model.hyperparameters.n_ctx),
    });
    // A ring that is as long as the context would never wrap around.
    options.ring = args.window.is_some() && context.is_none_or(|n| options.window < n);
    let plan = Plan::new(&model, &options);
    let mut memory = engine::memory(&plan, &options)?;
    let threads = args.engine.start_threads()?;
    let backend = args.engine.find_backend()?;
    let mut session = engine::session(&model, options, &mut memory, backend, threads.as_ref())?;

    let ids = engine::encode(&vocabulary, &prompt, vocabulary.prompt_options())?;
    let n_predict = args.n_predict.and_then(|n| usize::try_from(n).ok());
    let mut max_new_tokens = n_predict.unwrap_or(usize::MAX);
    if let Some(context) = context.filter(|_| options.ring) {
        // The session itself knows of no end.
        let room = context.checked_sub(ids.len());
        let room = room.ok_or(GenerateError::PromptTooLong {
            tokens: ids.len(),
            room: context,
            window: context,
        });
        max_new_tokens = max_new_tokens.min(room.map_err(too_long)? + 1);
    }

    let stop_texts: Vec<&str> = args.stop.iter().map(String::as_str).collect();
    let mut held = vec![0; held_len(&stop_texts)];
    let mut recent = vec![0; args.repeat_last_n.into()];
    let mut scratch = vec![0; vocabulary.len() as usize];
    let buffers = GeneratorBuffers {
        ids: &mut [],
        scratch: &mut scratch,
        recent: &mut recent,
        held: &mut held,
    };
    let mut hash = LogitsHash::new();
    let mut hashed = 0_usize;
    let mut first_choice = None;
    let mut mask = |logits: &mut [f32]| {
        if first_choice.is_none() {
            first_choice = Some(Instant::now());
            if args.seed.is_none() && !args.json {
                output::say(format_args!("seed: {seed}"));
            }
        }
        if args.logits_hash {
            hash.update(logits);
            hashed += 1;
        }
    };
    let options = GenerateOptions {
        max_new_tokens,
        stop_texts: &stop_texts,
        ignore_eos: args.ignore_eos,
        echo: !args.no_display_prompt && !args.json,
    };
    let loaded = Instant::now();
    let mut out = Out::new(args.json);
    let generated = Generator::new(&vocabulary, &mut sampler, buffers)
        .with_mask(&mut mask)
        .generate(&mut session, Prompt::Ids(&ids), &options, &mut |bytes| {
            out.write(bytes)
        });
    let ended = Instant::now();
    let text = out.finish(generated.is_ok())?;
    let generated = generated.map_err(too_long)?;

    let first_choice = first_choice.unwrap_or(ended);
    let report = Report {
        generated,
        bounded: n_predict.is_none_or(|n| n > max_new_tokens),
        position: session.position(),
        load: loaded - started,
        prompt: first_choice - loaded,
        rest: ended - first_choice,
        file_bytes: files.bytes(),
        plan,
        backend: backend.name(),
        threads: args.engine.thread_count().get(),
        kv: args.engine.kv,
        settings: *sampler.settings(),
    };
    if args.json {
        let mut json = report.json();
        json["model"] = args.model.path().display().to_string().into();
        json["prompt"] = String::from_utf8_lossy(&prompt).into();
        json["text"] = String::from_utf8_lossy(&text).into();
        json["seed"] = seed.into();
        if args.logits_hash {
            json["logits_hash"] = format!("{:016x}", hash.value()).into();
            json["hashed_positions"] = hashed.into();
        }
        output::print_json(&json)?;
        return Ok(ExitCode::SUCCESS);
    }
    report.note_if_full();
    if args.logits_hash {
        let positions = counted(hashed as u64, "position");
        output::say(format_args!(
            "logits hash: {:016x} ({positions})",
            hash.value()
        ));
    }
    if args.stats {
        report.print();
    } else {
        output::say(report.line());
    }
    Ok(ExitCode::SUCCESS)
}

/// The bytes that the story begins with.
fn prompt(args: &Args) -> anyhow::Result<Vec<u8>> {
    if let Some(text) = &args.prompt {
        return Ok(text.clone().into_encoded_bytes());
    }
    let stdin = args.stdin.as_deref().map(Path::new);
    let Some(path) = args.file.as_deref().or(stdin) else {
        return Ok(Vec::new());
    };
    if path.as_os_str() == "-" && args.model.is_stdin() {
        bail!("model and prompt cannot both be read from standard input");
    }
    Ok(FileBytes::read(path)?.to_vec())
}

/// Any number but 0, of few enough digits to be typed.
fn draw_seed() -> u64 {
    let drawn = RandomState::new().hash_one(Instant::now());
    (drawn >> 32).max(1)
}

fn too_long(error: GenerateError) -> anyhow::Error {
    match error {
        GenerateError::PromptTooLong { tokens, .. } => output::hinted(
            error,
            format!("-c {tokens}, or --window for a context that moves along"),
        ),
        _ => error.into(),
    }
}

/// Where the text goes: to standard output, as it comes on a terminal and in blocks elsewhere; or
/// it is kept for what is printed in the end.
struct Out {
    out: BufWriter<StdoutLock<'static>>,
    flush: bool,
    kept: Option<Vec<u8>>,
    is_empty: bool,
    error: io::Result<()>,
}

impl Out {
    fn new(is_kept: bool) -> Self {
        let out = io::stdout().lock();
        let flush = out.is_terminal();
        Self {
            out: BufWriter::new(out),
            flush,
            kept: is_kept.then(Vec::new),
            is_empty: true,
            error: Ok(()),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        if let Some(kept) = &mut self.kept {
            kept.extend(bytes);
            return ControlFlow::Continue(());
        }
        self.is_empty = false;
        self.error = self.out.write_all(bytes);
        if self.flush && self.error.is_ok() {
            self.error = self.out.flush();
        }
        match self.error {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// Ends the text with a newline; one that has failed before its first word stays empty. Returns
    /// what was kept.
    fn finish(mut self, is_ok: bool) -> io::Result<Vec<u8>> {
        if let Some(kept) = self.kept {
            return Ok(kept);
        }
        self.error?;
        if is_ok || !self.is_empty {
            self.out.write_all(b"\n")?;
        }
        self.out.flush()?;
        Ok(Vec::new())
    }
}

/// What there is to say about a run.
struct Report {
    generated: Generated,
    /// Whether the number of tokens was bounded by the context.
    bounded: bool,
    position: usize,
    load: Duration,
    prompt: Duration,
    rest: Duration,
    file_bytes: u64,
    plan: Plan,
    backend: &'static str,
    threads: usize,
    kv: Kv,
    settings: SamplerSettings,
}

impl Report {
    fn is_full(&self) -> bool {
        match self.generated.stop {
            StopReason::ContextFull => true,
            StopReason::Length => self.bounded,
            _ => false,
        }
    }

    fn note_if_full(&self) {
        if self.is_full() {
            output::say(format_args!(
                "the context is full: {} positions (-c and --window change it)",
                self.position
            ));
        }
    }

    /// Passes over the weights after the prompt: the last token is not taken.
    fn passes(&self) -> usize {
        self.position.saturating_sub(self.generated.prompt_tokens)
    }

    fn line(&self) -> String {
        format!(
            "prompt: {}, {}; new: {}, {}; memory: {}",
            counted(self.generated.prompt_tokens as u64, "token"),
            speed(self.generated.prompt_tokens, self.prompt),
            counted(self.generated.new_tokens as u64, "token"),
            speed(self.passes(), self.rest),
            human_bytes(self.plan.bytes() as u64),
        )
    }

    /// All but the texts, the seed and the hash.
    fn json(&self) -> Json {
        let stop = match self.generated.stop {
            _ if self.is_full() => "context_full",
            StopReason::Eos => "eos",
            StopReason::Bos => "bos",
            StopReason::Length => "length",
            StopReason::StopText { .. } => "stop_text",
            StopReason::ContextFull => "context_full",
            StopReason::Sink => "sink",
        };
        json!({
            "schema": 1,
            "model": null,
            "prompt": null,
            "text": null,
            "stop": stop,
            "seed": null,
            "prompt_tokens": self.generated.prompt_tokens,
            "new_tokens": self.generated.new_tokens,
            "prompt_seconds": self.prompt.as_secs_f64(),
            "new_seconds": self.rest.as_secs_f64(),
            "backend": self.backend,
            "threads": self.threads,
            "kv": self.kv.name(),
            "memory_bytes": self.plan.bytes(),
        })
    }

    fn print(&self) {
        let milliseconds = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
        let bytes = |bytes: usize| human_bytes(bytes as u64);
        let (tokens, settings) = (&self.generated, &self.settings);
        let stop = match tokens.stop {
            _ if self.is_full() => "the context is full",
            StopReason::Eos => "EOS",
            StopReason::Bos => "BOS",
            StopReason::Length => "as many tokens as asked for",
            StopReason::StopText { .. } => "a stop text",
            StopReason::ContextFull | StopReason::Sink => "no reader",
        };
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
        let mut row = |name: &str, value: String, note: String| {
            table.row([name.to_owned(), value, note]);
        };
        row("loading", milliseconds(self.load), String::new());
        row(
            "prompt",
            milliseconds(self.prompt),
            format!(
                "{}, {}",
                counted(tokens.prompt_tokens as u64, "token"),
                speed(tokens.prompt_tokens, self.prompt)
            ),
        );
        row(
            "new tokens",
            milliseconds(self.rest),
            format!(
                "{}, {}",
                counted(tokens.new_tokens as u64, "token"),
                speed(self.passes(), self.rest)
            ),
        );
        row("ended by", String::new(), stop.to_owned());
        row("model", human_bytes(self.file_bytes), "mapped".to_owned());
        row("KV cache", bytes(self.plan.kv_bytes), self.kv.name());
        row(
            "activations",
            bytes(self.plan.activation_bytes()),
            String::new(),
        );
        row("back end", String::new(), self.backend.to_owned());
        row("threads", self.threads.to_string(), String::new());
        row(
            "sampling",
            String::new(),
            format!(
                "temp {}, top-k {}, top-p {}, min-p {}, repeat penalty {}",
                settings.temperature,
                settings.top_k,
                settings.top_p,
                settings.min_p,
                settings.repeat_penalty
            ),
        );
        let mut text = String::new();
        table.write(&mut text, 0);
        output::say(text.trim_end());
    }
}

fn speed(tokens: usize, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if tokens == 0 || seconds == 0.0 {
        return "-".to_owned();
    }
    format!("{:.0} tokens/s", tokens as f64 / seconds)
}
