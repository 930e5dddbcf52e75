//! `cargo xtask test`: every check there is, one after the other.

mod no_alloc;
mod steps;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::setup;
use steps::STEPS;

/// Arguments of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run this step only (may be given several times).
    #[arg(long = "step", value_name = "NAME")]
    steps: Vec<String>,
    /// List the steps and stop.
    #[arg(long)]
    list: bool,
}

/// One check.
#[derive(Debug)]
struct Step {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result<Outcome>,
}

/// How a step that did not fail ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// Nothing was checked, for the reason given.
    Skipped(String),
}

/// A finished step, for the table at the end.
struct Report {
    name: &'static str,
    time: Duration,
    result: Result<Outcome>,
}

impl Report {
    fn of(name: &'static str, run: impl FnOnce() -> Result<Outcome>) -> Self {
        let start = Instant::now();
        let result = run();
        let time = start.elapsed();
        if let Err(error) = &result {
            eprintln!("xtask: {name} failed: {error:#}");
        }
        Self { name, time, result }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.list {
        for step in STEPS {
            println!("{:<10} {}", step.name, step.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = choose(&args.steps)?;

    // A step that needs what could not be set up fails by itself; the others still say something.
    let mut reports = Vec::new();
    header("setup", "what the other steps need");
    reports.push(Report::of("setup", || {
        setup::setup().map(|()| Outcome::Passed)
    }));
    for step in chosen {
        header(step.name, step.about);
        reports.push(Report::of(step.name, step.run));
    }
    Ok(summarize(&reports))
}

fn choose(names: &[String]) -> Result<Vec<&'static Step>> {
    if names.is_empty() {
        return Ok(STEPS.iter().collect());
    }
    for name in names {
        if !STEPS.iter().any(|step| step.name == name) {
            bail!("no step `{name}`; `cargo xtask test --list` lists them");
        }
    }
    let is_named = |step: &&Step| names.iter().any(|name| name == step.name);
    Ok(STEPS.iter().filter(is_named).collect())
}

fn header(name: &str, about: &str) {
    eprintln!("\n=== {name}: {about}");
}

fn summarize(reports: &[Report]) -> ExitCode {
    println!("\n{:<10} {:>8}  result", "step", "seconds");
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for report in reports {
        let result = match &report.result {
            Ok(Outcome::Passed) => {
                passed += 1;
                "passed".to_owned()
            }
            Ok(Outcome::Skipped(reason)) => {
                skipped += 1;
                format!("skipped: {reason}")
            }
            Err(error) => {
                failed += 1;
                let text = format!("{error:#}");
                format!("FAILED: {}", text.lines().next().unwrap_or_default())
            }
        };
        let seconds = report.time.as_secs_f64();
        println!("{:<10} {seconds:>8.1}  {result}", report.name);
    }
    let rest = if skipped > 0 {
        format!(", {skipped} skipped")
    } else {
        String::new()
    };
    println!("xtask: {passed} passed, {failed} failed{rest}");
    if failed > 0 {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_chosen_by_name_and_run_in_their_order() {
        let named = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            choose(&names).map(|steps| steps.iter().map(|step| step.name).collect::<Vec<_>>())
        };
        assert_eq!(named(&["clippy", "fmt"]).unwrap(), ["fmt", "clippy"]);
        assert_eq!(named(&[]).unwrap().len(), STEPS.len());
        let error = named(&["fmt", "nothing"]).unwrap_err().to_string();
        assert!(error.contains("nothing"), "{error}");
    }

    #[test]
    fn one_failure_fails_the_run_and_a_skipped_step_does_not() {
        let report = |result| Report {
            name: "x",
            time: Duration::ZERO,
            result,
        };
        let fine = || report(Ok(Outcome::Passed));
        let skipped = report(Ok(Outcome::Skipped("why".to_owned())));
        assert_eq!(summarize(&[fine(), skipped]), ExitCode::SUCCESS);
        let failed = report(Err(anyhow::anyhow!("why")));
        assert_eq!(summarize(&[fine(), failed, fine()]), ExitCode::from(1));
    }
}
