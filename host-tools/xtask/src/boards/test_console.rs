//! The test of a board's console: it is as large as the table says, what is to be copied to a real
//! board is made of it, and someone types at it in QEMU.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use smidgen_core::ModelImage;

use super::Board;
use super::firmware::{Firmware, Program, Source};
use super::size::Sizes;
use super::talk::{Talk, write_image};
use super::test::{Planned, talks_to_a_debugger};
use super::{pack, test_files};
use crate::process::{shown, target_dir};

/// At most so many instructions lie between two pauses in a story: a piece of a product, attention
/// over all positions that fit, the choice of a token.
const LONGEST: u64 = 120_000;

/// Positions that must fit.
const POSITIONS: usize = 200;

/// What a console is tested with.
#[derive(Debug)]
pub(super) struct Models {
    pub(super) right: PathBuf,
    /// One that the console is not built for.
    pub(super) of_another_type: PathBuf,
}

/// Builds the console and types at it, with a model that is well and with several that are not.
pub(super) fn check(board: Board, smidgen: &Path, models: &Models) -> Result<()> {
    let name = board.name;
    let model = &models.right;
    let source = Source::new(board, model);
    let firmware = source.build(Program::Console)?;
    let elf = fs::read(&firmware.elf)?;
    let image = pack::image(model)?;
    takes_what_is_planned(board, &elf).with_context(|| format!("the console of {name}"))?;
    test_files::check(board, &elf, Some(&image))
        .with_context(|| format!("the files for {name}"))?;
    if board.row.firmware.probe.is_some() {
        talks_to_a_debugger(&source, Program::Console)?;
    }
    if board.row.qemu.is_none() {
        eprintln!("{name}: the console is built");
        return Ok(());
    }
    let folder = target_dir().join("models");
    let whole = write_image(&folder, &format!("{name}.img"), &image)?;
    Conversation {
        talk: Talk::start(&firmware, &whole)?,
        smidgen,
        model,
    }
    .hold(board, &image)
    .with_context(|| format!("the console of {name}"))?;
    let other = pack::image(&models.of_another_type)?;
    wrong_models(&firmware, &folder, board, &image, other)
}

/// Code and variables are not more than the table says, and the rest is enough for the stack.
fn takes_what_is_planned(board: Board, elf: &[u8]) -> Result<()> {
    let memory = &board.row.memory;
    let sizes = Sizes::of(elf)?;
    let left = memory.ram.len.saturating_sub(sizes.ram());
    for (what, bytes, most) in [
        ("code", sizes.code, memory.code_bytes),
        // A console has places for any model's layers.
        (
            "variables",
            sizes.other - sizes.layers,
            memory.variable_bytes,
        ),
        ("stack", memory.stack_bytes, left),
    ] {
        ensure!(
            bytes <= most,
            "{what}: {bytes} bytes, at most {most} are planned"
        );
    }
    let Sizes {
        code, activations, ..
    } = sizes;
    eprintln!(
        "{}: {code} bytes of code, {activations} of RAM for a model",
        board.name
    );
    Ok(())
}

struct Conversation<'a> {
    talk: Talk,
    smidgen: &'a Path,
    model: &'a Path,
}

impl Conversation<'_> {
    fn hold(&mut self, board: Board, image: &[u8]) -> Result<()> {
        let banner = self.talk.wait("\n> ")?;
        let hash: [u8; 8] = image[32..40].try_into()?;
        let hash = format!("logits {:016x}\n", u64::from_le_bytes(hash));
        ensure!(banner.contains(&hash), "no {hash} in\n{banner}");
        let window = number(&banner, "RAM: ", " positions")?;
        ensure!(window >= POSITIONS, "only {window} positions\n{banner}");
        let context = window.to_string();
        let planned = Planned::of(self.smidgen, self.model, board, &["-c", &context])?;
        for (words, name) in [("KV cache ", "kv"), ("activations ", "activations")] {
            let found = u64::try_from(number(&banner, words, ",")?)?;
            // As a variable of its own, which the plan means, it has a flag beside it.
            let planned = planned.bytes[name];
            ensure!(
                (found..found + 8).contains(&planned),
                "{name}: {found} bytes, {planned} are planned"
            );
        }
        eprint!("{banner}");

        // A typing error, taken back.
        self.talk.keys(b"/n 2\x7f10\x0800\r/report on\r/temp 0\r")?;
        self.talk.wait("n 100, report on\r\n> ")?;
        self.talk
            .wait("temp 0, top_p 0.9, seed 1, n 100, report on\r\n> ")?;
        let report = self.tells("Once upon a time", &["--temp", "0", "-n", "100"])?;
        self.says("/temp 0.8", "temp 0.8, ")?;
        self.says("/seed 7", "seed 7, ")?;
        let seeded = ["--temp", "0.8", "--seed", "7", "-n", "100"];
        self.tells("The little dog", &seeded)?;
        self.says(
            "/top_p 2",
            "smidgen: /top_p takes a number from 0 to 1, not `2`\n",
        )?;
        self.says(
            "/nothing",
            "smidgen: no command /nothing: /help lists them\n",
        )?;

        // Characters of two bytes: one is taken back whole.
        self.says("/temp 0", "temp 0, ")?;
        self.talk.keys("Caf\u{e9}\u{e9}".as_bytes())?;
        self.talk.keys(b"\x7f was\r")?;
        self.talk.wait(" was\r\n")?;
        let told = self.talk.wait("logits hash: ")? + &self.talk.wait("\r\n")?;
        let expected = self.host("Caf\u{e9} was", &["--temp", "0", "-n", "100"])?;
        let told = told.replacen("seed 8\n", "", 1);
        ensure!(told == expected, "told\n{told}\n--- not\n{expected}");
        self.talk.wait("\r\n> ")?;

        let long = "x".repeat(300);
        self.talk.keys(long.as_bytes())?;
        self.talk.keys(b"\r")?;
        self.talk
            .wait("smidgen: the line is longer than 128 bytes\r\n> ")?;
        self.talk.keys(b"a\xff\xc3\r")?;
        self.talk.wait("smidgen: the line is not UTF-8\r\n> ")?;
        self.talk.keys(b"abc\x03")?;
        self.talk.wait("abc^C\r\n> ")?;

        // A break in the middle of a story leaves nothing behind.
        self.talk.keys(b"Once upon a time\r")?;
        self.talk.wait("little girl")?;
        self.talk.keys(b"\x03")?;
        let rest = self.talk.wait("\r\n> ")?;
        ensure!(rest.contains("^C\nseed "), "not ended by Ctrl-C:\n{rest}");
        self.tells("Once upon a time", &["--temp", "0", "-n", "100"])?;

        // With the cache full and beyond: the longest attention there is.
        let length = window + 50;
        self.says(&format!("/n {length}"), "temp 0, ")?;
        self.says("/temp 1", "temp 1, ")?;
        self.says("/seed 3", "temp 1, ")?;
        let long = self.talk.line("One day")?;
        for report in [&report, &long] {
            let apart = number(report, "at most ", " ticks apart")?;
            ensure!(apart > 1_000, "no time between pauses:\n{report}");
            let most = u64::try_from(apart)?;
            ensure!(most <= LONGEST, "{apart} ticks without a pause:\n{report}");
            let (used, size) = (
                number(report, "stack: ", " of ")?,
                number(report, " of ", " bytes")?,
            );
            ensure!(used < size, "the stack is full:\n{report}");
            let planned = board.row.memory.stack_bytes;
            ensure!(
                used as u64 <= planned,
                "{used} bytes of stack, {planned} are planned"
            );
        }
        if let Some((_, beats)) = report.split_once("beats: ") {
            let shortest = number(beats, ", ", " to ")?;
            let longest = number(beats, " to ", " ticks apart")?;
            ensure!(
                number(&report, "beats: ", ", ")? > 20,
                "few beats:\n{report}"
            );
            // QEMU looks for interrupts between blocks of code.
            ensure!(
                longest - shortest < longest / 10,
                "the timer is off its beat:\n{report}"
            );
        }
        let (_, report) = long.rsplit_once("logits hash").context("no report")?;
        eprint!("{}: logits hash{report}", board.name);
        Ok(())
    }

    /// Types a command.
    fn says(&mut self, command: &str, words: &str) -> Result<()> {
        let answer = self.talk.line(command)?;
        ensure!(answer.contains(words), "`{command}`: {answer}");
        Ok(())
    }

    /// Compares a story with the one that is told here; the answer is the report behind it.
    fn tells(&mut self, prompt: &str, settings: &[&str]) -> Result<String> {
        let expected = self.host(prompt, settings)?;
        let told = self.talk.line(prompt)?;
        let (story, rest) = told.rsplit_once("seed ").context("no seed")?;
        let (_, report) = rest.split_once('\n').context("no report")?;
        let told = format!("{story}{report}");
        ensure!(
            told.starts_with(&expected),
            "told\n{told}\n--- not\n{expected}"
        );
        Ok(report.to_owned())
    }

    /// A story with its hash, as `smidgen run` tells it here.
    fn host(&self, prompt: &str, settings: &[&str]) -> Result<String> {
        let mut command = Command::new(self.smidgen);
        command.arg("run").arg("-m").arg(self.model).args(settings);
        command.args([
            "--top-p", "0.9", "--top-k", "0", "--min-p", "0", "--kv", "q8",
        ]);
        if !settings.contains(&"--seed") {
            command.args(["--seed", "1"]);
        }
        command.args(["--ctx-size", "200", "--logits-hash", "--prompt", prompt]);
        let output = command.stdin(Stdio::null()).output();
        let output = output.with_context(|| shown(&command))?;
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{}: {words}", shown(&command));
        let hash = words.lines().find(|line| line.starts_with("logits hash: "));
        let hash = hash.with_context(|| format!("no hash in\n{words}"))?;
        Ok(format!("{}{hash}\n", String::from_utf8(output.stdout)?))
    }
}

/// Every wrong model has its words, when the board starts and behind every line; none is a fault.
fn wrong_models(
    firmware: &Firmware,
    folder: &Path,
    board: Board,
    image: &[u8],
    of_another_type: Vec<u8>,
) -> Result<()> {
    let changed = |at: usize| {
        let mut image = image.to_vec();
        image[at] ^= 0x40;
        image
    };
    let mut cut = image.to_vec();
    cut[100_000..].fill(0xff);
    let of_another_chip = [&ModelImage::header(&image[64..], 1)[..], &image[64..]].concat();
    let cases: [(&str, Vec<u8>, &str); 8] = [
        ("erased", vec![0xff; 4096], "no model: its flash is empty"),
        ("cut", cut, "the model is cut: 99936 of "),
        (
            "foreign",
            b"\x7fELF".repeat(64),
            "no model image: it begins with 7f454c46",
        ),
        (
            "unpacked",
            image[64..].to_vec(),
            "a GGUF file without the header",
        ),
        ("header", changed(17), "the model's header is damaged"),
        (
            "damaged",
            changed(image.len() / 2),
            "the model is damaged: checksum ",
        ),
        ("type", of_another_type, "tensor "),
        (
            "logits",
            of_another_chip,
            "this chip computes other logits: hash ",
        ),
    ];
    for (name, bytes, words) in cases {
        let path: PathBuf = write_image(folder, &format!("{}-{name}.img", board.name), &bytes)?;
        let mut talk = Talk::start(firmware, &path)?;
        let banner = talk.wait("\n> ")?;
        let answer = talk.line("Once")?;
        for text in [&banner, &answer] {
            ensure!(
                text.contains(&format!("smidgen: {words}")),
                "{name}: {text}"
            );
            let is_told = name != "type" || text.contains(", which is not built in");
            ensure!(is_told, "{name}: {text}");
        }
    }
    Ok(())
}

/// The number between two words.
fn number(text: &str, before: &str, behind: &str) -> Result<usize> {
    let (_, rest) = text
        .split_once(before)
        .with_context(|| format!("no `{before}` in\n{text}"))?;
    let (number, _) = rest
        .split_once(behind)
        .with_context(|| format!("no `{behind}` in\n{rest}"))?;
    number
        .parse()
        .with_context(|| format!("no number: {number}"))
}
