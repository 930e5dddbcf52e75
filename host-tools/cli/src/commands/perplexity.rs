//! `smidgen perplexity`: how well a model foretells a text.

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::{anyhow, bail};
use serde_json::json;
use smidgen_core::{
    kernels::Backend,
    model::Model,
    session::{Plan, Session, SessionOptions},
};
use smidgen_io::FileBytes;

use crate::{
    engine::{self, EngineArgs, ModelArg, ModelFiles},
    output::{self, counted, hinted},
};

/// Measure how well a model foretells a text.
///
/// The method is that of llama-perplexity: the text is tokenized once and cut into chunks of -c
/// tokens, the first token of each is replaced by BOS, and what counts are the predictions in the
/// second half of each chunk. Tokens at the end that make no whole chunk are left out.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
With --json:

{\"schema\": 1, \"perplexity\", \"error\", \"nll\", \"predictions\", \"chunks\", \"n_ctx\", \"tokens\",
 \"kv\", \"seconds\"}

\"error\" is the standard error of the perplexity, \"nll\" the mean negative logarithm of the
probability of a prediction.")]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArg,

    /// The text; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,

    /// Tokens of a chunk.
    #[arg(short, long, value_name = "N", default_value_t = 512)]
    #[arg(value_parser = clap::value_parser!(u32).range(4..))]
    ctx_size: u32,

    /// Measure the first N chunks only.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,

    #[command(flatten)]
    engine: EngineArgs,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    if args.file.as_os_str() == "-" && args.model.is_stdin() {
        bail!("model and text cannot both be read from standard input");
    }
    let files = ModelFiles::of(&args.model)?;
    let ggufs = files.parse()?;
    let mut layers = Vec::new();
    let model = files.load(&ggufs, &mut layers)?;
    let mut index = Vec::new();
    let vocabulary = files.vocabulary(&ggufs, &mut index)?;
    let text = FileBytes::read(&args.file)?;
    let options = vocabulary.prompt_options();
    let ids = engine::encode(&vocabulary, &text, options)?;

    let n_ctx = args.ctx_size as usize;
    let mut chunks: Vec<&[u32]> = ids.chunks_exact(n_ctx).collect();
    if chunks.is_empty() {
        return Err(hinted(
            anyhow!(
                "{}: the text has {}, a chunk takes {n_ctx}",
                args.file.display(),
                counted(ids.len() as u64, "token")
            ),
            "a longer text, or a smaller -c",
        ));
    }
    engine::warn_if_long(&model, n_ctx);
    if let Some(count) = args.chunks {
        chunks.truncate(count as usize);
    }
    let work = Work {
        model: &model,
        options: args.engine.options(n_ctx),
        backend: args.engine.find_backend()?,
        bos: options.add_bos.then(|| vocabulary.bos()).flatten(),
        chunks: &chunks,
        next: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
        done: Mutex::new((0, Sum::default())),
    };
    let sums = work.run(args.engine.thread_count().get())?;
    let mut sum = Sum::default();
    // In the order of chunks, so that the number of threads changes no digit.
    sums.iter().for_each(|of_chunk| sum.add(of_chunk));

    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        output::print_json(&json!({
            "schema": 1,
            "perplexity": sum.perplexity(),
            "error": sum.error(),
            "nll": sum.mean(),
            "predictions": sum.count,
            "chunks": chunks.len(),
            "n_ctx": n_ctx,
            "tokens": ids.len(),
            "kv": args.engine.kv.name(),
            "seconds": seconds,
        }))?;
    } else {
        output::print(&format!(
            "perplexity: {:.4} +/- {:.4} ({} of {n_ctx} tokens)\n",
            sum.perplexity(),
            sum.error(),
            counted(chunks.len() as u64, "chunk"),
        ))?;
        let speed = (chunks.len() * n_ctx) as f64 / seconds;
        output::say(format_args!("{seconds:.2} s, {speed:.0} tokens/s"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Negative logarithms of probabilities.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    nll: f64,
    squares: f64,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.nll += other.nll;
        self.squares += other.squares;
    }

    /// Takes a prediction: the logits and the token that came.
    fn take(&mut self, logits: &[f32], id: u32) {
        let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights = logits.iter().map(|&x| libm::exp(f64::from(x - highest)));
        let sum: f64 = weights.sum();
        let logit = logits.get(id as usize).copied().unwrap_or(f32::NAN);
        let nll = libm::log(sum) - f64::from(logit - highest);
        self.count += 1;
        self.nll += nll;
        self.squares += nll * nll;
    }

    fn mean(&self) -> f64 {
        self.nll / self.count as f64
    }

    fn perplexity(&self) -> f64 {
        libm::exp(self.mean())
    }

    /// The standard error of the perplexity, as llama-perplexity has it.
    fn error(&self) -> f64 {
        let variance = self.squares / self.count as f64 - self.mean() * self.mean();
        let others = (self.count.max(2) - 1) as f64;
        libm::sqrt(variance.max(0.0) / others) * self.perplexity()
    }
}

/// Chunks that threads take one after the other, each thread with a session of its own: they have
/// nothing to wait for, and the numbers are the same.
struct Work<'w> {
    model: &'w Model<'w>,
    options: SessionOptions,
    backend: Backend,
    bos: Option<u32>,
    chunks: &'w [&'w [u32]],
    next: AtomicUsize,
    failed: AtomicBool,
    /// Chunks done and what they came to, for the progress.
    done: Mutex<(usize, Sum)>,
}

impl Work<'_> {
    fn run(&self, threads: usize) -> anyhow::Result<Vec<Sum>> {
        let threads = threads.min(self.chunks.len());
        let mut sums = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads)
                .map(|_| scope.spawn(|| self.take_chunks()))
                .collect();
            let mut sums = Vec::new();
            for thread in threads {
                match thread.join() {
                    Ok(of_thread) => sums.extend(of_thread?),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            anyhow::Ok(sums)
        })?;
        if io::stderr().is_terminal() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        sums.sort_by_key(|&(number, _)| number);
        Ok(sums.into_iter().map(|(_, sum)| sum).collect())
    }

    fn take_chunks(&self) -> anyhow::Result<Vec<(usize, Sum)>> {
        let plan = Plan::new(self.model, &self.options);
        let mut memory = engine::memory(&plan, &self.options)?;
        let mut session =
            engine::session(self.model, self.options, &mut memory, self.backend, None)?;
        let mut sums = Vec::new();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(chunk) = self.chunks.get(number) else {
                break;
            };
            if self.failed.load(Ordering::Relaxed) {
                break;
            }
            let sum = self.measure(&mut session, chunk).inspect_err(|_| {
                self.failed.store(true, Ordering::Relaxed);
            })?;
            self.show(&sum);
            sums.push((number, sum));
        }
        Ok(sums)
    }

    fn measure(&self, session: &mut Session<'_>, chunk: &[u32]) -> anyhow::Result<Sum> {
        let mut ids = chunk.to_vec();
        if let (Some(first), Some(bos)) = (ids.first_mut(), self.bos) {
            *first = bos;
        }
        let half = ids.len() / 2;
        let (first, second) = ids.split_at(half);
        // Nothing follows the last token.
        let (_, inputs) = second.split_last().unwrap_or((&0, &[]));
        session.reset();
        session.prompt(first)?;
        let mut sum = Sum::default();
        session.prompt_each(inputs, |at, logits| sum.take(logits, chunk[half + at + 1]))?;
        Ok(sum)
    }

    fn show(&self, sum: &Sum) {
        if !io::stderr().is_terminal() {
            return;
        }
        let mut done = self.done.lock().unwrap_or_else(|error| error.into_inner());
        done.0 += 1;
        done.1.add(sum);
        let (count, all) = (done.0, self.chunks.len());
        // A terminal that is gone is no reason to stop.
        let _ = write!(
            io::stderr(),
            "\r[{count}/{all}] {:.4}\x1b[K",
            done.1.perplexity()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_logits_are_as_perplexing_as_there_are_tokens() {
        let mut sum = Sum::default();
        for id in 0..8 {
            sum.take(&[0.5; 8], id);
        }
        assert!((sum.perplexity() - 8.0).abs() < 1e-12);
        assert!(sum.error() < 1e-6);
    }

    #[test]
    fn a_sure_prediction_costs_nothing_and_a_wrong_one_its_logit() {
        let mut sum = Sum::default();
        sum.take(&[1000.0, 0.0], 0);
        assert_eq!(sum.mean(), 0.0);
        sum.take(&[1000.0, 0.0], 1);
        assert_eq!(sum.mean(), 500.0);
    }
}
