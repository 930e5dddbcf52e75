//! `smidgen bench`: how fast a model runs.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::bail;
use serde_json::{Value as Json, json};
use smidgen_core::{
    model::Model,
    session::{Plan, Session},
};

use crate::{
    engine::{self, EngineArgs, ModelFiles},
    output::{self, human_bytes},
};

/// Measure how fast models read prompts and make tokens.
///
/// pp128 is a prompt of 128 tokens, tg128 are 128 tokens one by one; each is done once to warm up
/// and then -r times from an empty context. The rows are those of llama-bench.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
With --json:

{\"schema\": 1, \"tests\": [{\"model\", \"model_size\", \"model_n_params\", \"backend\", \"n_threads\",
 \"n_batch\", \"kv\", \"test\", \"n_prompt\", \"n_gen\", \"avg_ts\", \"stddev_ts\", \"samples_ns\"}]}

avg_ts and stddev_ts are tokens per second, samples_ns the time of each repetition. --csv has the
same columns without the samples.")]
pub(crate) struct Args {
    /// The model: a GGUF, or the first shard of a split one. May be given several times.
    #[arg(short, long = "model", value_name = "GGUF", required = true)]
    models: Vec<PathBuf>,

    /// Tokens of the prompt; 0 leaves the test out.
    #[arg(short = 'p', long, value_name = "N", default_value_t = 128)]
    n_prompt: u32,

    /// Tokens to make; 0 leaves the test out.
    #[arg(short, long, value_name = "N", default_value_t = 128)]
    n_gen: u32,

    /// Repetitions.
    #[arg(short, long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,

    #[command(flatten)]
    engine: EngineArgs,

    /// Print JSON.
    #[arg(long, group = "form")]
    json: bool,

    /// Print comma-separated values.
    #[arg(long, group = "form")]
    csv: bool,

    /// Print a Markdown table, which is the default.
    #[arg(long, group = "form")]
    md: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.n_prompt == 0 && args.n_gen == 0 {
        bail!("-p 0 and -n 0 leave nothing to measure");
    }
    let mut rows = Vec::new();
    for path in &args.models {
        measure(args, path, &mut rows)?;
    }
    if args.json {
        let tests: Vec<_> = rows.iter().map(Row::json).collect();
        output::print_json(&json!({ "schema": 1, "tests": tests }))?;
    } else if args.csv {
        output::print(&csv(&rows))?;
    } else {
        output::print(&markdown(&rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A test and what came out.
struct Row {
    model: String,
    size: u64,
    params: u64,
    backend: &'static str,
    threads: usize,
    batch: usize,
    kv: String,
    n_prompt: u32,
    n_gen: u32,
    samples_ns: Vec<u64>,
}

fn measure(args: &Args, path: &Path, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let files = ModelFiles::open(path)?;
    let ggufs = files.parse()?;
    let mut layers = Vec::new();
    let model = files.load(&ggufs, &mut layers)?;
    let options = args.engine.options(args.n_prompt.max(args.n_gen) as usize);
    let mut memory = engine::memory(&Plan::new(&model, &options), &options)?;
    let threads = args.engine.start_threads()?;
    let backend = args.engine.find_backend()?;
    let mut session = engine::session(&model, options, &mut memory, backend, threads.as_ref())?;
    let tensors = || ggufs.iter().flat_map(|gguf| gguf.tensors());
    let name = path.file_stem().unwrap_or(path.as_os_str());
    for (n_prompt, n_gen) in [(args.n_prompt, 0), (0, args.n_gen)] {
        let ids = ids(&model, n_prompt + n_gen);
        if ids.is_empty() {
            continue;
        }
        let sample = |session: &mut Session<'_>| -> anyhow::Result<u64> {
            session.reset();
            let started = Instant::now();
            if n_gen == 0 {
                session.prompt(&ids)?;
            } else {
                for &id in &ids {
                    session.step(id)?;
                }
            }
            Ok(u64::try_from(started.elapsed().as_nanos())?.max(1))
        };
        sample(&mut session)?;
        let samples_ns = (0..args.repetitions).map(|_| sample(&mut session));
        rows.push(Row {
            model: name.to_string_lossy().into_owned(),
            size: tensors().filter_map(|info| info.byte_len()).sum(),
            params: tensors().filter_map(|info| info.elements()).sum(),
            backend: backend.name(),
            threads: args.engine.thread_count().get(),
            batch: options.batch,
            kv: args.engine.kv.name(),
            n_prompt,
            n_gen,
            samples_ns: samples_ns.collect::<Result<_, _>>()?,
        });
    }
    Ok(())
}

/// Tokens from all over the vocabulary, always the same.
fn ids(model: &Model<'_>, count: u32) -> Vec<u32> {
    let n_vocab = model.hyperparameters.n_vocab as u64;
    let id = |n: u32| u64::from(n.wrapping_mul(0x9E37_79B9) >> 8) % n_vocab;
    (1..=count).filter_map(|n| id(n).try_into().ok()).collect()
}

impl Row {
    /// As llama-bench calls it.
    fn test(&self) -> String {
        match self.n_gen {
            0 => format!("pp{}", self.n_prompt),
            n => format!("tg{n}"),
        }
    }

    /// Mean and standard deviation of tokens per second.
    fn speed(&self) -> (f64, f64) {
        let tokens = f64::from(self.n_prompt + self.n_gen);
        let speeds = self.samples_ns.iter().map(|&ns| tokens * 1e9 / ns as f64);
        let count = self.samples_ns.len() as f64;
        let mean = speeds.clone().sum::<f64>() / count;
        let squares: f64 = speeds.map(|speed| (speed - mean) * (speed - mean)).sum();
        (mean, libm::sqrt(squares / (count - 1.0).max(1.0)))
    }

    fn json(&self) -> Json {
        let (avg_ts, stddev_ts) = self.speed();
        json!({
            "model": self.model,
            "model_size": self.size,
            "model_n_params": self.params,
            "backend": self.backend,
            "n_threads": self.threads,
            "n_batch": self.batch,
            "kv": self.kv,
            "test": self.test(),
            "n_prompt": self.n_prompt,
            "n_gen": self.n_gen,
            "avg_ts": avg_ts,
            "stddev_ts": stddev_ts,
            "samples_ns": self.samples_ns,
        })
    }
}

fn csv(rows: &[Row]) -> String {
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let Json::Object(mut fields) = row.json() else {
            continue;
        };
        fields.shift_remove("samples_ns");
        if number == 0 {
            let keys: Vec<_> = fields.keys().map(String::as_str).collect();
            text.push_str(&keys.join(","));
            text.push('\n');
        }
        let cells: Vec<_> = fields.values().map(csv_cell).collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

/// Texts in quotes, as RFC 4180 has them.
fn csv_cell(value: &Json) -> String {
    match value {
        Json::String(text) => format!("\"{}\"", text.replace('"', "\"\"")),
        other => other.to_string(),
    }
}

fn markdown(rows: &[Row]) -> String {
    let head = [
        "model", "size", "params", "backend", "threads", "test", "t/s",
    ];
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        let (mean, deviation) = row.speed();
        [
            row.model.replace('|', "\\|"),
            human_bytes(row.size),
            millions(row.params),
            row.backend.to_owned(),
            row.threads.to_string(),
            row.test(),
            format!("{mean:.2} ± {deviation:.2}"),
        ]
    }));
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: [usize; 7] = std::array::from_fn(width);
    let is_left = |column: usize| matches!(column, 0 | 3);
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            // Writing to a string cannot fail.
            let _ = match is_left(column) {
                true => write!(text, "| {cell:<width$} "),
                false => write!(text, "| {cell:>width$} "),
            };
        }
        text.push_str("|\n");
        if number == 0 {
            for (column, width) in widths.iter().enumerate() {
                let dashes = "-".repeat(width - 1);
                let _ = match is_left(column) {
                    true => write!(text, "| :{dashes} "),
                    false => write!(text, "| {dashes}: "),
                };
            }
            text.push_str("|\n");
        }
    }
    text
}

/// A number of parameters as llama-bench has it: `0.26 M`, `1.10 B`.
fn millions(count: u64) -> String {
    let count = count as f64;
    if count < 1e9 {
        format!("{:.2} M", count / 1e6)
    } else {
        format!("{:.2} B", count / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(samples_ns: &[u64]) -> Row {
        Row {
            model: "a \"b\"".to_owned(),
            size: 2048,
            params: 260_032,
            backend: "scalar",
            threads: 1,
            batch: 32,
            kv: "f32".to_owned(),
            n_prompt: 0,
            n_gen: 10,
            samples_ns: samples_ns.to_vec(),
        }
    }

    #[test]
    fn mean_and_deviation_are_of_speeds() {
        let (mean, deviation) = row(&[1_000_000_000, 500_000_000]).speed();
        assert_eq!(mean, 15.0);
        assert!((deviation - 50_f64.sqrt()).abs() < 1e-12);
        assert_eq!(row(&[1_000_000_000]).speed(), (10.0, 0.0));
    }

    #[test]
    fn tables_have_a_row_a_test() {
        let rows = [row(&[1_000_000_000])];
        assert_eq!(
            markdown(&rows),
            "| model |    size | params | backend | threads | test |          t/s |\n\
             | :---- | ------: | -----: | :------ | ------: | ---: | -----------: |\n\
             | a \"b\" | 2.0 KiB | 0.26 M | scalar  |       1 | tg10 | 10.00 ± 0.00 |\n"
        );
        assert_eq!(
            csv(&rows),
            "model,model_size,model_n_params,backend,n_threads,n_batch,kv,test,n_prompt,n_gen,\
             avg_ts,stddev_ts\n\
             \"a \"\"b\"\"\",2048,260032,\"scalar\",1,32,\"f32\",\"tg10\",0,10,10.0,0.0\n"
        );
    }
}
