//! `cargo xtask test-boards`: every board tells the same stories as this machine, bit by bit.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};
use object::{Object as _, ObjectSection as _};
use serde_json::Value;
use smidgen_core::kv_cache::KvType;
use smidgen_core::session::SessionOptions;

use super::firmware::{Firmware, Program, Source};
use super::size::Sizes;
use super::talk::Talk;
use super::{Board, choose, models, test_console, test_files, wrong_models};
use crate::build;
use crate::process::{root, shown};
use crate::test::Outcome;

/// Arguments of `cargo xtask test-boards`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// These boards only (may be given several times).
    #[arg(long = "board", value_name = "BOARD")]
    boards: Vec<String>,
    /// Renew the expected stories from those that this machine tells.
    #[arg(long)]
    overwrite: bool,
}

/// How a story is chosen.
struct Settings {
    name: &'static str,
    words: &'static [&'static str],
}

const SETTINGS: &[Settings] = &[
    Settings {
        name: "greedy",
        words: &["-n", "256", "--temp", "0"],
    },
    Settings {
        name: "seeded",
        words: &["-n", "256", "--temp", "1", "--top-p", "0.9", "--seed", "7"],
    },
];

/// The settings of the story on a serial port, which are compiled in.
const SERIAL: &str = "seeded";

/// How the models of the expected stories are run: as most boards do it.
const EXPECTED: SessionOptions = SessionOptions {
    kv: KvType::Q8,
    window: 256,
    ring: false,
    batch: 1,
};

/// What the self-test takes, with something to spare.
const SELF_TEST_STACK: u64 = 10 << 10;

const PROMPT: &str = "Once upon a time";

/// A story with the hash of its logits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Story(String);

/// A story that a board is to tell.
struct Case {
    firmware: Firmware,
    cpu: Option<&'static str>,
    backend: Option<&'static str>,
    settings: &'static Settings,
    expected: Story,
    /// The most bytes of stack.
    stack: u64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match check(&choose(&args.boards)?, args.overwrite)? {
        Outcome::Passed => eprintln!("xtask: the boards tell what they should"),
        Outcome::Skipped(why) => eprintln!("xtask: skipped: {why}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// All boards, as a step of `cargo xtask test`.
pub(crate) fn check_all() -> Result<Outcome> {
    check(&choose(&[])?, false)
}

fn check(boards: &[Board], overwrite: bool) -> Result<Outcome> {
    let smidgen = build::smidgen()?;
    let stories = models::stories()?;
    let checkpoints: Vec<_> = stories.into_iter().chain([models::shipped()]).collect();
    for checkpoint in &checkpoints {
        for ty in models::TYPES {
            let model = checkpoint.model(ty)?;
            for settings in SETTINGS {
                let told = host_story(&smidgen, &model, settings, EXPECTED)?;
                check_expected(&stem(&model), settings, &told, overwrite)?;
            }
        }
    }
    let console_models = test_console::Models {
        right: checkpoints[0].model(models::TYPES[0])?,
        of_another_type: checkpoints[0].model(models::TYPES[2])?,
    };
    for &board in boards {
        let has_console = board.row.firmware.has_console;
        if has_console {
            test_console::check(board, &smidgen, &console_models)?;
        }
        // A feature beside those of the row is one of the console.
        if !has_console || board.features.is_empty() {
            check_board(board, &smidgen, overwrite)?;
        }
    }
    Ok(Outcome::Passed)
}

/// One board with all models that fit it.
fn check_board(board: Board, smidgen: &Path, overwrite: bool) -> Result<()> {
    let name = board.name;
    let mut fitting = Vec::new();
    let mut models = models::fitting(board)?;
    if board.row.firmware.has_console {
        // These programs are not what such a board is for.
        models.truncate(1);
    }
    for model in models {
        let plan = Planned::of(smidgen, &model, board, &[])?;
        if plan.fits {
            fitting.push((model, plan));
        }
    }
    let (first, _) = fitting
        .first()
        .with_context(|| format!("{name}: no model fits"))?;
    // One after the other: cargo does not build twice at a time in one folder.
    refuses_too_much(board, first)?;
    let self_test = match board.row.memory.stack_bytes {
        ..SELF_TEST_STACK => None,
        _ => Some(Source::new(board, first).build(Program::SelfTest)?),
    };
    let of_wrong = models::shipped().model(models::TYPES[0])?;
    if board.row.firmware.probe.is_some() && !board.row.firmware.has_console {
        talks_to_a_debugger(&Source::new(board, first), Program::Story)?;
    }
    let mut cases = Vec::new();
    for (model, plan) in &fitting {
        let firmware = Source::new(board, model).build(Program::Story)?;
        let linked = plan.is_linked(&firmware);
        linked.with_context(|| firmware.elf.display().to_string())?;
        if board.row.qemu.is_none() {
            continue;
        }
        if *model == of_wrong {
            wrong_models::check(&firmware, model, overwrite).with_context(|| name)?;
        }
        let scalar = Source::new(board, model).with_backend(Some("scalar"));
        let scalar = scalar.build(Program::Story)?;
        for settings in SETTINGS {
            let expected = host_story(smidgen, model, settings, board.row.options)?;
            if board.row.options.ring {
                // Boards with a ring tell stories of their own, which are kept too.
                let what = format!("{}-{name}", stem(model));
                check_expected(&what, settings, &expected, overwrite)?;
            }
            let case = |firmware: &Firmware, cpu, backend| Case {
                firmware: firmware.clone(),
                cpu,
                backend,
                settings,
                expected: expected.clone(),
                stack: plan.bytes["stack"],
            };
            if board.row.firmware.has_serial && settings.name == SERIAL {
                tells_on_serial(board, model, &expected, plan)?;
            }
            cases.push(case(&firmware, None, None));
            if settings.name == "greedy" {
                cases.push(case(&scalar, None, Some("scalar")));
                let others = board.other_cpus.iter();
                cases.extend(others.map(|cpu| case(&firmware, Some(cpu), None)));
            }
        }
    }
    if board.row.qemu.is_none() {
        eprintln!("{name}: {} models take what is planned", fitting.len());
        return Ok(());
    }
    if let Some(self_test) = self_test {
        eprint!("{name}: {}", self_test.output(None, &[])?);
    }
    run_all(&cases)?;
    let count = cases.len();
    eprintln!("{name}: {count} stories with the expected logits");
    Ok(())
}

/// The program for a board without a debugger tells the same.
fn tells_on_serial(board: Board, model: &Path, expected: &Story, plan: &Planned) -> Result<()> {
    let firmware = Source::new(board, model).build(Program::Serial)?;
    plan.is_linked(&firmware)?;
    test_files::check(board, &fs::read(&firmware.elf)?, None)?;
    let mut talk = Talk::listen(&firmware)?;
    let told = talk.wait("stack: ")?;
    let story = told.strip_suffix("stack: ").unwrap_or(&told);
    ensure!(
        story == expected.0,
        "{}: on the serial port there is another story\n--- expected\n{}\n--- found\n{story}",
        board.name,
        expected.0
    );
    let stack = talk.wait(" of ")?;
    check_stack(&stack, plan.bytes["stack"])
}

/// The name of a file without what comes behind the dot.
fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// With the feature `rtt`, a program links and has words for defmt.
pub(super) fn talks_to_a_debugger(source: &Source<'_>, program: Program) -> Result<()> {
    let firmware = source.build_with(program, &["rtt"])?;
    let elf = fs::read(&firmware.elf)?;
    let words = object::File::parse(&*elf)?
        .section_by_name(".defmt")
        .map_or(0, |section| section.size());
    ensure!(
        words > 0,
        "no words for defmt in {}",
        firmware.elf.display()
    );
    Ok(())
}

/// A cache that does not fit is an error when the firmware is built, and says so.
fn refuses_too_much(board: Board, model: &Path) -> Result<()> {
    let source = Source {
        options: SessionOptions {
            kv: KvType::F32,
            window: 1 << 20,
            ..board.row.options
        },
        ..Source::new(board, model)
    };
    match source.build(Program::Story) {
        Ok(_) => bail!("{}: a cache of 2^20 positions was linked", board.name),
        Err(error) => {
            let text = format!("{error:#}");
            ensure!(text.contains("do not fit into"), "{}: {text}", board.name);
            Ok(())
        }
    }
}

/// Runs cases, as many at a time as there are processors.
fn run_all(cases: &[Case]) -> Result<()> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let next = Mutex::new(cases.iter());
    thread::scope(|scope| {
        let work = || -> Result<()> {
            loop {
                let case = next.lock().ok().and_then(|mut next| next.next());
                let Some(case) = case else { return Ok(()) };
                case.run()?;
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut done = workers.into_iter().map(|worker| worker.join());
        done.try_for_each(|joined| joined.unwrap_or_else(|_| bail!("a thread panicked")))
    })
}

impl Case {
    fn run(&self) -> Result<()> {
        let mut words = self.settings.words.to_vec();
        if let Some(backend) = self.backend {
            words.extend(["--backend", backend]);
        }
        words.extend(["--logits-hash", "-p", PROMPT]);
        let output = self.firmware.output(self.cpu, &words)?;
        let (story, stack) = output
            .rsplit_once("stack: ")
            .with_context(|| format!("no line about the stack in\n{output}"))?;
        ensure!(
            story == self.expected.0,
            "`{}` tells another story\n--- expected\n{}\n--- found\n{story}",
            shown(&self.firmware.command(self.cpu, &words)?),
            self.expected.0
        );
        check_stack(stack, self.stack)
    }
}

/// The number that `words` begin with is at most that of the plan.
fn check_stack(words: &str, most: u64) -> Result<()> {
    let used = words.split(' ').next().unwrap_or_default();
    let used: u64 = used.parse().with_context(|| format!("stack: {words}"))?;
    ensure!(used <= most, "{used} bytes of stack, {most} are planned");
    Ok(())
}

/// What `smidgen plan` says.
pub(super) struct Planned {
    fits: bool,
    /// Bytes of the parts by name.
    pub(super) bytes: HashMap<String, u64>,
}

impl Planned {
    pub(super) fn of(smidgen: &Path, model: &Path, board: Board, more: &[&str]) -> Result<Self> {
        let mut command = Command::new(smidgen);
        command.arg("plan").arg(model).args(more);
        command.args(["--json", "--board", board.row.name]);
        let output = command.output().with_context(|| shown(&command))?;
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.code() < Some(2),
            "{}: {words}",
            shown(&command)
        );
        let plan: Value = serde_json::from_slice(&output.stdout)?;
        let regions = plan["regions"].as_array().into_iter().flatten();
        let parts = regions.filter_map(|region| region["parts"].as_array());
        let bytes = parts.flatten().filter_map(|part| {
            let name = part["name"].as_str()?;
            Some((name.to_owned(), part["bytes"].as_u64()?))
        });
        Ok(Self {
            fits: plan["fits"] == true,
            bytes: bytes.collect(),
        })
    }

    /// The firmware takes as much, or where the plan has a limit, not more.
    fn is_linked(&self, firmware: &Firmware) -> Result<()> {
        let sizes = Sizes::of(&fs::read(&firmware.elf)?)?;
        let planned = |name: &str| self.bytes.get(name).copied().context("no such part");
        for (name, linked, planned) in [
            ("kv", sizes.kv, planned("kv")?),
            (
                "buffers",
                sizes.activations,
                planned("activations")? + planned("text")?,
            ),
            // It is padded to its alignment.
            ("model", sizes.model, planned("model")?.next_multiple_of(64)),
        ] {
            ensure!(
                linked == planned,
                "{name}: {linked} bytes, {planned} are planned"
            );
        }
        for (name, linked, most) in [
            ("code", sizes.code, planned("code")?),
            ("variables", sizes.other, planned("variables")?),
        ] {
            ensure!(
                linked <= most,
                "{name}: {linked} bytes, at most {most} are planned"
            );
        }
        Ok(())
    }
}

/// The story as `smidgen run` tells it here.
fn host_story(
    smidgen: &Path,
    model: &Path,
    settings: &Settings,
    options: SessionOptions,
) -> Result<Story> {
    let mut command = Command::new(smidgen);
    command.arg("run").arg("-m").arg(model).args(settings.words);
    command.args(["--top-k", "0", "--min-p", "0"]);
    let kept = if options.ring {
        "--window"
    } else {
        "--ctx-size"
    };
    let window = options.window.to_string();
    command.args(["--kv", options.kv.name(), kept, &window]);
    if !settings.words.contains(&"--seed") {
        command.args(["--seed", "1"]);
    }
    command
        .args(["--logits-hash", "--prompt", PROMPT])
        .stdin(Stdio::null());
    let output = command.output().with_context(|| shown(&command))?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{}: {words}", shown(&command));
    let hash = words.lines().find(|line| line.starts_with("logits hash: "));
    let hash = hash.with_context(|| format!("no hash in\n{words}"))?;
    let text = String::from_utf8(output.stdout)?;
    Ok(Story(format!("{text}{hash}\n")))
}

/// Compares with the file beside the firmware, or writes it.
fn check_expected(what: &str, settings: &Settings, told: &Story, overwrite: bool) -> Result<()> {
    let name = format!("targets/expected/{what}-{}.txt", settings.name);
    let path = root().join(&name);
    if overwrite {
        fs::create_dir_all(root().join("targets/expected"))?;
        return fs::write(&path, &told.0).with_context(|| name);
    }
    let expected = fs::read_to_string(&path).with_context(|| name.clone())?;
    ensure!(
        expected == told.0,
        "{name} is not what this machine tells (`cargo xtask test-boards --overwrite` renews it)\n\
         --- expected\n{expected}\n--- found\n{}",
        told.0
    );
    Ok(())
}
