//! `cargo xtask picture`: what a terminal shows while Smidgen is used, as an SVG for README.md.
//!
//! The commands are run, so that the picture is what they print. No time and no speed is in it:
//! whoever runs them again gets the same file.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::build;
use crate::process::{output_within, root};
use crate::readme::Shell;
use crate::test::Outcome;

/// Arguments of `cargo xtask picture`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only say whether the picture is what the commands print.
    #[arg(long)]
    check: bool,
}

const PICTURE: &str = "examples/terminal.svg";

/// For a command that also builds firmware.
const LIMIT: Duration = Duration::from_secs(1200);

/// Columns of the terminal.
const COLUMNS: usize = 92;

const COMMANDS: &[&str] = &[
    "smidgen convert smidgen-260k.bin --vocab smidgen-260k-tokenizer.bin -o story.gguf",
    "smidgen quantize --quiet --pure story.gguf small.gguf Q4_0",
    "smidgen plan small.gguf --board microbit",
    "cargo xtask run --board microbit --model small.gguf -n 100 --temp 0.8 --seed 3 --logits-hash",
];

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let path = root().join(PICTURE);
    let drawn = draw(&record()?);
    if args.check {
        let there = fs::read_to_string(&path).unwrap_or_default();
        ensure!(
            there == drawn,
            "{PICTURE} is not what the commands print (`cargo xtask picture` draws it anew)"
        );
    } else {
        fs::write(&path, drawn).with_context(|| PICTURE)?;
        eprintln!("xtask: {PICTURE} drawn");
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the picture is what the commands print, as a step of `cargo xtask test`.
pub(crate) fn check() -> Result<Outcome> {
    run(&Args { check: true }).map(|_| Outcome::Passed)
}

/// A command and what it printed.
#[derive(Debug)]
struct Scene {
    command: &'static str,
    output: String,
}

/// Runs the commands where a user would: in a folder with the checkpoint and its vocabulary.
fn record() -> Result<Vec<Scene>> {
    let smidgen = build::smidgen()?;
    // Within the repository, so that `cargo xtask` works there.
    let parent = root().join("target");
    let shell = Shell::new(smidgen.parent().context("no folder")?, &parent)?;
    let models = root().join("examples/models");
    for name in ["smidgen-260k.bin", "smidgen-260k-tokenizer.bin"] {
        fs::copy(models.join(name), shell.dir().join(name)).with_context(|| name.to_owned())?;
    }
    let mut scenes = Vec::new();
    for &command in COMMANDS {
        eprintln!("$ {command}");
        let mut run = shell.command(&format!("exec 2>&1\n{command}"));
        let output = output_within(&mut run, LIMIT).with_context(|| command.to_owned())?;
        scenes.push(Scene {
            command,
            output: printed(&output, shell.dir()),
        });
    }
    Ok(scenes)
}

/// Without what differs from run to run: the folder's name, and lines that xtask says for itself.
fn printed(output: &str, dir: &Path) -> String {
    let dir = format!("{}/", dir.display());
    let output = output.replace(&dir, "");
    let is_shown = |line: &&str| !line.starts_with("$ ");
    let lines: Vec<_> = output.lines().filter(is_shown).collect();
    lines.join("\n")
}

/// A line of the terminal.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Prompt(String),
    Output(String),
}

const LINE_HEIGHT: usize = 19;
const MARGIN: usize = 18;
const TITLE: usize = 34;
/// Of a character of 14 pixels.
const CHARACTER_TENTHS: usize = 84;
/// Between two lines that a command prints, in milliseconds.
const BEAT: usize = 120;
/// Before a command is typed.
const PAUSE: usize = 900;

fn draw(scenes: &[Scene]) -> String {
    let lines = layout(scenes);
    let width = 2 * MARGIN + COLUMNS * CHARACTER_TENTHS / 10;
    let height = TITLE + lines.len() * LINE_HEIGHT + MARGIN;
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <title>Smidgen in a terminal</title>\n\
         <style>\n\
         text {{ font: 14px ui-monospace, Menlo, Consolas, \"DejaVu Sans Mono\", monospace; \
         white-space: pre; fill: #d8dee9; }}\n\
         .prompt {{ fill: #a3be8c; font-weight: bold; }}\n\
         @keyframes come {{ from {{ opacity: 0; }} }}\n\
         text {{ animation: come 1ms backwards; }}\n\
         @media (prefers-reduced-motion: reduce) {{ text {{ animation: none; }} }}\n\
         </style>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#1f2430\"/>"
    );
    for (at, color) in ["#bf616a", "#ebcb8b", "#a3be8c"].iter().enumerate() {
        let x = MARGIN + 4 + at * 18;
        let _ = writeln!(
            svg,
            "<circle cx=\"{x}\" cy=\"17\" r=\"5\" fill=\"{color}\"/>"
        );
    }
    let mut time = 0;
    for (at, line) in lines.iter().enumerate() {
        let y = TITLE + (at + 1) * LINE_HEIGHT - 5;
        let (class, text) = match line {
            Line::Prompt(text) => {
                time += PAUSE;
                (" class=\"prompt\"", text)
            }
            Line::Output(text) => {
                time += BEAT;
                ("", text)
            }
        };
        if !text.is_empty() {
            let text = escaped(text);
            let _ = writeln!(
                svg,
                "<text{class} x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\" \
                 style=\"animation-delay:{time}ms\">{text}</text>"
            );
        }
    }
    svg += "</svg>\n";
    svg
}

fn layout(scenes: &[Scene]) -> Vec<Line> {
    let mut lines = Vec::new();
    for scene in scenes {
        let command = format!("$ {}", scene.command);
        for part in wrapped(&command) {
            lines.push(Line::Prompt(part));
        }
        for line in scene.output.lines() {
            lines.extend(wrapped(line).into_iter().map(Line::Output));
        }
        lines.push(Line::Output(String::new()));
    }
    lines.pop();
    lines
}

/// A line cut where it would leave the terminal: at spaces, where there are some.
fn wrapped(line: &str) -> Vec<String> {
    let mut rest = line;
    let mut parts = Vec::new();
    loop {
        let Some((end, _)) = rest.char_indices().nth(COLUMNS) else {
            parts.push(rest.trim_end().to_owned());
            return parts;
        };
        let cut = match rest[..end].rfind(' ') {
            // Not within what a line begins with.
            Some(space) if !rest[..space].trim().is_empty() => space + 1,
            _ => end,
        };
        parts.push(rest[..cut].trim_end().to_owned());
        rest = &rest[cut..];
    }
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_spaces() {
        let word = "x".repeat(50);
        let line = format!("{word} {word} y");
        assert_eq!(wrapped(&line), [word.clone(), format!("{word} y")]);
        let long = "y".repeat(COLUMNS + 1);
        assert_eq!(wrapped(&long), ["y".repeat(COLUMNS), "y".to_owned()]);
        assert_eq!(wrapped(""), [""]);
    }

    #[test]
    fn a_picture_holds_what_was_printed_and_is_well_formed() {
        let scene = Scene {
            command: "a < b",
            output: "one & two\n\nthree".to_owned(),
        };
        let svg = draw(&[scene]);
        for part in [
            ">$ a &lt; b</text>",
            ">one &amp; two</text>",
            ">three</text>",
        ] {
            assert!(svg.contains(part), "{svg}");
        }
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert!(svg.ends_with("</svg>\n"));
    }
}
