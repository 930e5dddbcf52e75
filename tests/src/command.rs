//! Runs the command `smidgen` as a user would, and looks at all that it leaves behind.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

use crate::shared::repository;

/// The command `smidgen` with a private folder to work in, which goes away with this value.
#[derive(Debug)]
pub struct Smidgen {
    dir: TempDir,
}

impl Smidgen {
    /// An empty folder to work in.
    ///
    /// # Panics
    /// The folder cannot be made.
    #[must_use]
    pub fn new() -> Self {
        Self {
            dir: TempDir::new().expect("a temporary folder"),
        }
    }

    /// An empty folder in memory where the system has such (`/dev/shm`), else as [`new`](Self::new):
    /// what is written there needs no time to reach a disk.
    ///
    /// # Panics
    /// The folder cannot be made.
    #[must_use]
    pub fn in_memory() -> Self {
        match TempDir::new_in("/dev/shm") {
            Ok(dir) => Self { dir },
            Err(_) => Self::new(),
        }
    }

    /// The folder in which the command runs.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The path of `name` in the folder.
    #[must_use]
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir().join(name)
    }

    /// Writes a file `name` into the folder.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
        path
    }

    /// The names of all files in the folder, in order: what the command has left there.
    ///
    /// # Panics
    /// The folder cannot be listed.
    #[must_use]
    pub fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir()).expect("the temporary folder");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name())
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Runs `smidgen args…` with nothing on stdin.
    #[must_use]
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Done {
        self.run_with_input(args, b"")
    }

    /// Runs `smidgen args…` with `input` on stdin.
    ///
    /// # Panics
    /// The command cannot be started.
    #[must_use]
    pub fn run_with_input<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        input: &[u8],
    ) -> Done {
        let mut command = self.command();
        command.args(args);
        Done::of(command, input)
    }

    /// Runs the program `name` of the folder `examples` in the folder, with nothing on stdin.
    #[must_use]
    pub fn example<S: AsRef<OsStr>>(&self, name: &str, args: impl IntoIterator<Item = S>) -> Done {
        let mut command = Command::new(example(name));
        command.current_dir(self.dir()).args(args);
        Done::of(command, b"")
    }

    /// The command, for what the other functions do not cover; it runs in the folder, and no
    /// variable of this environment changes how it prints.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(binary());
        command.current_dir(self.dir());
        for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
            command.env_remove(variable);
        }
        command
    }
}

impl Default for Smidgen {
    fn default() -> Self {
        Self::new()
    }
}

/// A command that has ended. The checks print all it wrote when they fail, and return `self`.
#[derive(Debug)]
pub struct Done {
    line: String,
    output: Output,
}

impl Done {
    /// Runs a command to its end with `input` on stdin.
    ///
    /// # Panics
    /// It cannot be started.
    #[must_use]
    pub fn of(mut command: Command, input: &[u8]) -> Self {
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let line = format!("{command:?}");
        let mut child = command
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {line}: {e}"));
        let mut stdin = child.stdin.take().expect("a pipe");
        let output = std::thread::scope(|scope| {
            // A command that does not read its input breaks the pipe; that is its right.
            scope.spawn(move || stdin.write_all(input));
            child.wait_with_output()
        });
        Self {
            line,
            output: output.expect("the end of the command"),
        }
    }

    /// The exit code.
    ///
    /// # Panics
    /// A signal ended the command.
    #[must_use]
    #[track_caller]
    pub fn code(&self) -> i32 {
        let code = self.output.status.code();
        code.unwrap_or_else(|| panic!("ended by a signal\n{}", self.report()))
    }

    /// What it wrote to stdout, as bytes.
    #[must_use]
    pub fn stdout_bytes(&self) -> &[u8] {
        &self.output.stdout
    }

    /// What it wrote to stdout.
    ///
    /// # Panics
    /// It is not UTF-8.
    #[must_use]
    #[track_caller]
    pub fn stdout(&self) -> &str {
        self.text(&self.output.stdout, "stdout")
    }

    /// What it wrote to stderr.
    ///
    /// # Panics
    /// It is not UTF-8.
    #[must_use]
    #[track_caller]
    pub fn stderr(&self) -> &str {
        self.text(&self.output.stderr, "stderr")
    }

    /// What it wrote to stdout, read as one JSON value.
    ///
    /// # Panics
    /// It is not JSON.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(self.stdout())
            .unwrap_or_else(|e| panic!("stdout is not JSON: {e}\n{}", self.report()))
    }

    /// The exit code is `code`.
    ///
    /// # Panics
    /// It is not.
    #[track_caller]
    pub fn expect_code(&self, code: i32) -> &Self {
        let got = self.code();
        assert!(
            got == code,
            "exit {got}, expected {code}\n{}",
            self.report()
        );
        self
    }

    /// Exit code 0 and no error on stderr.
    ///
    /// # Panics
    /// Otherwise.
    #[track_caller]
    pub fn expect_success(&self) -> &Self {
        self.expect_code(0)
    }

    /// Exit code 2, nothing on stdout, and one line `smidgen: …` on stderr that holds each of
    /// `words`; lines after it are hints.
    ///
    /// # Panics
    /// Otherwise.
    #[track_caller]
    pub fn expect_error(&self, words: &[&str]) -> &Self {
        self.expect_code(2);
        assert!(
            self.output.stdout.is_empty(),
            "words on stdout beside an error\n{}",
            self.report()
        );
        let line = self.stderr().lines().next().unwrap_or_default();
        assert!(
            line.starts_with("smidgen: "),
            "no line `smidgen: …`\n{}",
            self.report()
        );
        self.expect_stderr(words)
    }

    /// stdout is exactly `text`.
    ///
    /// # Panics
    /// It is not; the message shows the first line that differs.
    #[track_caller]
    pub fn expect_stdout_is(&self, text: &str) -> &Self {
        let got = self.stdout();
        assert!(
            got == text,
            "stdout differs\n{}\n{}",
            difference(text, got),
            self.report()
        );
        self
    }

    /// stdout holds each of `words`.
    ///
    /// # Panics
    /// One is missing.
    #[track_caller]
    pub fn expect_stdout(&self, words: &[&str]) -> &Self {
        self.expect_words("stdout", self.stdout(), words)
    }

    /// stderr holds each of `words`.
    ///
    /// # Panics
    /// One is missing.
    #[track_caller]
    pub fn expect_stderr(&self, words: &[&str]) -> &Self {
        self.expect_words("stderr", self.stderr(), words)
    }

    #[track_caller]
    fn expect_words(&self, stream: &str, text: &str, words: &[&str]) -> &Self {
        for word in words {
            assert!(
                text.contains(word),
                "{stream} does not hold {word:?}\n{}",
                self.report()
            );
        }
        self
    }

    #[track_caller]
    fn text<'a>(&self, bytes: &'a [u8], stream: &str) -> &'a str {
        std::str::from_utf8(bytes)
            .unwrap_or_else(|e| panic!("{stream} is not UTF-8: {e}\n{}", self.report()))
    }

    fn report(&self) -> String {
        format!(
            "command: {}\n{}\n--- stdout\n{}\n--- stderr\n{}",
            self.line,
            self.output.status,
            String::from_utf8_lossy(&self.output.stdout),
            String::from_utf8_lossy(&self.output.stderr)
        )
    }
}

/// The first line in which two texts differ, with its number.
fn difference(expected: &str, got: &str) -> String {
    let mut lines = (1.., expected.split('\n'), got.split('\n'));
    loop {
        let number = lines.0.next().unwrap_or_default();
        match (lines.1.next(), lines.2.next()) {
            (Some(a), Some(b)) if a == b => {}
            (None, None) => return "no difference".to_owned(),
            (a, b) => {
                let show = |line: Option<&str>| {
                    line.map_or_else(|| "(the text has ended)".to_owned(), |s| format!("{s:?}"))
                };
                return format!(
                    "line {number}\n  expected {}\n  got      {}",
                    show(a),
                    show(b)
                );
            }
        }
    }
}

/// The built command: `cargo xtask test` names it in `SMIDGEN_BIN`; else it is built, once.
#[must_use]
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("SMIDGEN_BIN") {
        Some(path) => PathBuf::from(path),
        None => {
            let mut built = build(&["--package", "smidgen", "--bin", "smidgen"]);
            built.pop().expect("cargo names no executable")
        }
    })
}

/// A program of the folder `examples`; all are built, once.
///
/// # Panics
/// There is none of this name.
#[must_use]
pub fn example(name: &str) -> &'static Path {
    static EXAMPLES: OnceLock<Vec<PathBuf>> = OnceLock::new();
    let all = EXAMPLES.get_or_init(|| build(&["--package", "smidgen-examples", "--examples"]));
    let mut found = all.iter();
    let path = found.find(|path| path.file_stem().is_some_and(|stem| stem == name));
    path.unwrap_or_else(|| panic!("no example {name} among {all:?}"))
}

/// Builds what `what` names, and gives the paths of all executables.
fn build(what: &[&str]) -> Vec<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.arg("build").args(what);
    command.args(["--profile", &profile()]);
    command.arg("--message-format=json-render-diagnostics");
    command.current_dir(repository()).stderr(Stdio::inherit());
    let output = command.output().expect("cannot start cargo");
    assert!(output.status.success(), "{what:?} do not build");
    let messages = String::from_utf8_lossy(&output.stdout);
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|message| Some(PathBuf::from(message.get("executable")?.as_str()?)))
        .collect()
}

/// The cargo profile of this very test, so that nothing is built twice.
fn profile() -> String {
    let exe = std::env::current_exe().unwrap_or_default();
    // target/PROFILE/deps/TEST
    let name = exe.ancestors().nth(2).and_then(Path::file_name);
    match name.and_then(OsStr::to_str) {
        None | Some("debug") => "dev".to_owned(),
        Some(name) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_different_line_is_shown() {
        assert_eq!(
            difference("a\nb\nc", "a\nx\nc"),
            "line 2\n  expected \"b\"\n  got      \"x\""
        );
        assert_eq!(
            difference("a\n", "a"),
            "line 2\n  expected \"\"\n  got      (the text has ended)"
        );
    }

    #[test]
    fn runs_in_a_folder_of_its_own() {
        let first = Smidgen::new();
        first.write("x", "1");
        assert_eq!(first.files(), ["x"]);
        assert_eq!(Smidgen::new().files(), [""; 0]);
    }
}
