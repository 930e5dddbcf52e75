//! What all commands have in common: streams, exit codes, colors, help.

use std::{
    io::Read,
    process::{Command, Stdio},
};

use smidgen_tests::{Smidgen, cases};

fn with_model() -> Smidgen {
    let smidgen = Smidgen::new();
    smidgen.write("m.gguf", cases::named("emb_vocab").bytes());
    smidgen
}

/// Runs the command with a variable set and gives what it wrote to stdout and stderr.
fn output_of(mut command: Command) -> String {
    let output = command.output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn colors_only_where_they_are_wanted() {
    let smidgen = with_model();
    let colored = |args: &[&str], variable: Option<(&str, &str)>| {
        let mut command = smidgen.command();
        command.args(args).envs(variable);
        output_of(command).contains('\u{1b}')
    };
    for command in ["inspect", "verify"] {
        assert!(!colored(&[command, "m.gguf"], None));
        assert!(colored(&[command, "m.gguf", "--color", "always"], None));
        assert!(colored(&["--color=always", command, "m.gguf"], None));
        assert!(!colored(&[command, "m.gguf", "--color", "never"], None));
        assert!(colored(&[command, "m.gguf"], Some(("CLICOLOR_FORCE", "1"))));
        let no_color = Some(("NO_COLOR", "1"));
        assert!(!colored(&[command, "m.gguf"], no_color));
        // What is said on the command line counts.
        assert!(colored(&[command, "m.gguf", "--color", "always"], no_color));
    }
    assert!(!colored(
        &["inspect", "m.gguf", "--json", "--color=always"],
        None
    ));
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let smidgen = with_model();
    for args in [
        &["inspect", "m.gguf", "--full"][..],
        &["inspect", "m.gguf", "--json"],
        &["verify", "m.gguf"],
        &["verify", "m.gguf", "--json"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
    ] {
        // A pipe whose reader has gone before the first byte.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = smidgen.command();
        command.args(args).stdout(writer).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(command);
        let mut words = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut words)
            .unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{args:?}: {words}");
        assert_eq!(words, "", "{args:?}");
    }
}

#[test]
fn usage_errors_are_one_line_and_exit_2() {
    let smidgen = Smidgen::new();
    for (args, words) in [
        (
            &["inspect"][..],
            "smidgen: the following required arguments were not provided: <FILE>\n",
        ),
        (
            &["inspect", "a", "--frob"],
            "smidgen: unexpected argument '--frob' found\n",
        ),
        (&["inspekt"], "smidgen: unrecognized subcommand 'inspekt'\n"),
        (
            &["verify", "a", "--color", "pink"],
            "smidgen: invalid value 'pink' for '--color",
        ),
        (&["completions", "dosh"], "smidgen: invalid value 'dosh'"),
    ] {
        let done = smidgen.run(args);
        done.expect_error(&[words]);
        assert!(done.stderr().starts_with(words), "{}", done.stderr());
    }
    // No command at all: the help, where errors go.
    let done = smidgen.run([""; 0]);
    done.expect_code(2).expect_stderr(&["Usage: smidgen"]);
    assert_eq!(done.stdout(), "");
}

#[test]
fn failures_are_one_line_and_exit_2() {
    let smidgen = Smidgen::new();
    let done = smidgen.run(["inspect", "missing.gguf"]);
    done.expect_error(&["smidgen: cannot read missing.gguf: No such file"]);
    assert_eq!(done.stderr().lines().count(), 1);
    smidgen
        .run(["inspect", "."])
        .expect_error(&["smidgen: cannot read .: "]);
    assert_eq!(smidgen.files(), [""; 0]);
}

/// A full disk behind standard output is a failure that says where.
#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let smidgen = with_model();
    for args in [&["inspect", "m.gguf"][..], &["verify", "m.gguf", "--json"]] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let mut command = smidgen.command();
        let output = command.args(args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(
            words.starts_with("smidgen: cannot write to standard output: "),
            "{words}"
        );
    }
}

#[test]
fn help_and_version_go_to_stdout() {
    let smidgen = Smidgen::new();
    let done = smidgen.run(["--help"]);
    done.expect_success()
        .expect_stdout(&["inspect", "verify", "Usage: smidgen"]);
    let version = format!("smidgen {}\n", env!("CARGO_PKG_VERSION"));
    smidgen
        .run(["--version"])
        .expect_success()
        .expect_stdout_is(&version);
    for command in ["inspect", "verify"] {
        let done = smidgen.run([command, "--help"]);
        done.expect_success().expect_stdout(&["\"schema\": 1"]);
    }
}

#[test]
fn completions_and_manual_know_every_command() {
    let smidgen = Smidgen::new();
    let help = smidgen.run(["help"]);
    let commands: Vec<_> = help
        .stdout()
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|&name| name != "help")
        .collect();
    assert!(commands.contains(&"inspect") && commands.contains(&"completions"));
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let done = smidgen.run(["completions", shell]);
        done.expect_success().expect_stdout(&commands);
    }
    let man = smidgen.run(["man"]);
    man.expect_success().expect_stdout(&[".TH smidgen 1"]);
    // A page of the manual escapes hyphens.
    let page = man.stdout().replace(r"\-", "-");
    assert!(commands.iter().all(|name| page.contains(name)), "{page}");
    for command in commands {
        let done = smidgen.run(["man", command]);
        let title = format!(".TH smidgen-{command} 1");
        done.expect_success().expect_stdout(&[&title]);
    }
    smidgen
        .run(["man", "frob"])
        .expect_error(&["no command frob"]);
}

/// A file that is read from a stream gives the same as from its name.
#[test]
fn a_stream_is_as_good_as_a_file() {
    let smidgen = with_model();
    let bytes = cases::named("emb_vocab").bytes();
    let named = smidgen.run(["verify", "m.gguf"]);
    let streamed = smidgen.run_with_input(["verify", "-"], &bytes);
    streamed.expect_success();
    assert_eq!(streamed.stdout(), named.stdout().replace("m.gguf", "-"));
}
