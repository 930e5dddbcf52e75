//! Child processes: shown before they run, with errors that name them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    // host-tools/xtask is two folders below it.
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// `program args…` in the repository's root.
pub(crate) fn command<S: AsRef<OsStr>>(
    program: &str,
    args: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// `cargo args…` of the active toolchain.
pub(crate) fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    command("cargo", args)
}

/// `cargo args…` of another toolchain.
pub(crate) fn cargo_of<'a>(toolchain: &'a str, args: &[&'a str]) -> Command {
    let mut command = command("rustup", ["run", toolchain, "cargo"]);
    command.args(args);
    command
}

/// The command line as one would type it, without the environment that is inherited.
pub(crate) fn shown(command: &Command) -> String {
    let mut line = String::new();
    for (key, value) in command.get_envs() {
        if let Some(value) = value {
            line += &format!("{}={} ", key.display(), quoted(value));
        }
    }
    line += &quoted(command.get_program());
    for arg in command.get_args() {
        line += &format!(" {}", quoted(arg));
    }
    line
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_./:=+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Shows and runs `command`; its output goes where ours goes.
///
/// # Errors
/// It cannot be started, or it did not exit with 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", shown(command));
    let status = command
        .status()
        .with_context(|| format!("cannot start `{}`", command.get_program().display()))?;
    if !status.success() {
        bail!("`{}`: {status}", shown(command));
    }
    Ok(())
}

/// What `command` prints, to stdout and then to stderr. It is ended after `limit`.
///
/// # Errors
/// It cannot be started, did not end by itself, or not with 0; with what it printed.
pub(crate) fn output_within(command: &mut Command, limit: Duration) -> Result<String> {
    let (status, text) = end_within(command, limit)?;
    ensure!(status.success(), "{status}\n{text}");
    Ok(text)
}

/// How `command` ends, and what it prints, to stdout and then to stderr. It is ended after `limit`.
///
/// # Errors
/// It cannot be started, or did not end by itself; with what it printed.
pub(crate) fn end_within(command: &mut Command, limit: Duration) -> Result<(ExitStatus, String)> {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{}`", command.get_program().display()))?;
    let out = child.stdout.take().context("no stdout")?;
    let err = child.stderr.take().context("no stderr")?;
    std::thread::scope(|scope| {
        let out = scope.spawn(|| read_all(out));
        let err = scope.spawn(|| read_all(err));
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if start.elapsed() > limit {
                child.kill()?;
                child.wait()?;
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let text = out.join().unwrap_or_default() + &err.join().unwrap_or_default();
        match status {
            Some(status) => Ok((status, text)),
            None => bail!("still running after {} s\n{text}", limit.as_secs()),
        }
    })
}

/// Everything up to the end, or to an error.
fn read_all(mut from: impl std::io::Read) -> String {
    let mut bytes = Vec::new();
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What `command` prints to stdout, run without a word.
///
/// # Errors
/// It cannot be started, or it did not exit with 0.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{}`", command.get_program().display()))?;
    if !output.status.success() {
        bail!(
            "`{}`: {}\n{}",
            shown(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The full path of `program`, if it is on the `PATH`.
pub(crate) fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| is_executable(file))
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file() || file.with_extension("exe").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = command("qemu-aarch64", ["-cpu", "max", "a b", "it's", ""]);
        command.env("RUNNER", "x y");
        assert_eq!(
            shown(&command),
            r"RUNNER='x y' qemu-aarch64 -cpu max 'a b' 'it'\''s' ''"
        );
    }

    #[test]
    #[cfg(unix)]
    fn a_command_that_does_not_end_is_ended() {
        let mut sleep = command("sleep", ["60"]);
        let error = output_within(&mut sleep, Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("still running"), "{error}");
    }

    #[test]
    #[cfg(unix)]
    fn an_exit_status_other_than_0_is_an_error_with_the_words_of_the_command() {
        let error = output(&mut command("sh", ["-c", "echo why >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().ends_with("why"), "{error}");
        assert!(run(&mut command("false", [""; 0])).is_err());
    }
}
