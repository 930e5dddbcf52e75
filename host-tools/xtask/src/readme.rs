//! Runs the commands that README.md and the examples' README.md show, so that they cannot rot.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::build;
use crate::process::{command, root, run};
use crate::test::Outcome;

/// What every script starts with. `cargo` works on the repository, whose files can also be seen
/// from the temporary folder in which the script runs; `cargo xtask test` is what is running now.
const PRELUDE: &str = r#"set -eu
cargo() {
    if [ "${1-} ${2-}" = "xtask test" ]; then return; fi
    (cd "$SMIDGEN_ROOT" && command cargo "$@")
}
set -x
"#;

/// The files whose commands are run, relative to the root.
const FILES: &[&str] = &["README.md", "examples/README.md"];

/// Runs each block of commands in these files, in a folder of its own with `smidgen` on the `PATH`.
pub(crate) fn check() -> Result<Outcome> {
    let smidgen = build::smidgen()?;
    let bin = smidgen.parent().context("no folder")?;
    for file in FILES {
        let text = fs::read_to_string(root().join(file));
        let text = text.with_context(|| format!("cannot read {file}"))?;
        let blocks = commands(&text);
        if blocks.is_empty() {
            bail!("{file} shows no command");
        }
        for block in blocks {
            run_block(&block, bin).with_context(|| format!("{file}, line {}", block.line))?;
        }
    }
    Ok(Outcome::Passed)
}

fn run_block(block: &Block, bin: &Path) -> Result<()> {
    let shell = Shell::new(bin, &std::env::temp_dir())?;
    show_repository(shell.dir())?;
    let mut script = shell.command(&format!("{PRELUDE}{}", block.script));
    run(script.env("SMIDGEN_ROOT", root()))
}

/// Runs what a user would type: in an empty folder that goes away, with `smidgen` on the `PATH`.
#[derive(Debug)]
pub(crate) struct Shell {
    dir: tempfile::TempDir,
    path: OsString,
}

impl Shell {
    /// With a folder in `parent`; `smidgen` lies in `bin`.
    ///
    /// # Errors
    /// No folder can be made there.
    pub(crate) fn new(bin: &Path, parent: &Path) -> Result<Self> {
        let mut path = bin.as_os_str().to_owned();
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        let dir = tempfile::tempdir_in(parent)?;
        Ok(Self { dir, path })
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A command that runs the lines of `script`.
    pub(crate) fn command(&self, script: &str) -> Command {
        let mut shell = command("sh", ["-c", script]);
        shell.current_dir(self.dir()).env("PATH", &self.path);
        shell
    }
}

/// Links to everything in the repository, so that the files a command names are there, while those
/// that it writes go away with the folder.
#[cfg(unix)]
fn show_repository(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(root())? {
        let entry = entry?;
        std::os::unix::fs::symlink(entry.path(), dir.join(entry.file_name()))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn show_repository(_: &Path) -> Result<()> {
    bail!("the commands of README.md are for a Unix shell")
}

/// A fenced block of commands.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// Where its first command stands, counted from 1.
    line: usize,
    script: String,
}

/// The `sh` blocks of a Markdown text as they are, and of `console` blocks the lines after `$ `.
fn commands(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        let body = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| line.trim() != "```");
        let script: String = match language.trim() {
            "sh" => body.map(|line| format!("{line}\n")).collect(),
            "console" => body
                .filter_map(|line| line.strip_prefix("$ "))
                .map(|line| format!("{line}\n"))
                .collect(),
            // Run through it, so that its end is not taken for a start.
            _ => {
                body.for_each(drop);
                continue;
            }
        };
        blocks.push(Block {
            line: at + 2,
            script,
        });
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_are_taken() {
        let text = "\
# Title
```rust
let x = 1;
```
```sh
one \\
  two
```
words `sh` ```
```console
$ three
its output
$ four
```
";
        let block = |line, script: &str| Block {
            line,
            script: script.to_owned(),
        };
        assert_eq!(
            commands(text),
            [block(6, "one \\\n  two\n"), block(11, "three\nfour\n")]
        );
    }

    #[test]
    #[cfg(unix)]
    fn a_command_that_fails_fails_the_block() {
        let bin = root();
        let block = |script: &str| Block {
            line: 1,
            script: script.to_owned(),
        };
        let fine = "test -f README.md\necho x > new\ncargo xtask test\n";
        run_block(&block(fine), bin).unwrap();
        assert!(run_block(&block("false\ntrue\n"), bin).is_err());
        assert!(!root().join("new").exists());
    }
}
