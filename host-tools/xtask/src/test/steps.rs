//! The steps of `cargo xtask test`, in the order in which they run: what is quick and fails often
//! comes first.

use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::{Outcome, Step, no_alloc};
use crate::needs::{has_toolchain, survey};
use crate::process::{cargo, cargo_of, command, output, root, run};
use crate::{boards, build, picture, readme};

pub(super) const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        about: "the layout of the code",
        run: fmt,
    },
    Step {
        name: "clippy",
        about: "lints, and core with each of its features",
        run: clippy,
    },
    Step {
        name: "host",
        about: "all tests on this machine",
        run: host,
    },
    Step {
        name: "doc",
        about: "the documentation",
        run: doc,
    },
    Step {
        name: "no-alloc",
        about: "core for the boards, without std and without alloc",
        run: no_alloc::check,
    },
    Step {
        name: "msrv",
        about: "the oldest Rust that Cargo.toml promises",
        run: msrv,
    },
    Step {
        name: "i686",
        about: "core and the case files with a usize of 32 bits",
        run: i686,
    },
    Step {
        name: "aarch64",
        about: "core on 64-bit ARM, three CPUs under QEMU; the case files on one",
        run: aarch64,
    },
    Step {
        name: "miri",
        about: "core's tests of bytes and blocks in Miri",
        run: miri,
    },
    Step {
        name: "firmware",
        about: "every board's firmware in QEMU, with the same bits as on this machine",
        run: boards::check_all,
    },
    Step {
        name: "readme",
        about: "the commands in README.md and examples/README.md",
        run: readme::check,
    },
    Step {
        name: "picture",
        about: "the terminal that README.md shows",
        run: picture::check,
    },
];

/// Test files of the tests package that need nothing but core, so that they run on any target.
const PORTABLE_TESTS: &[&str] = &[
    "logits_hash",
    "parser_cases",
    "sampler_cases",
    "shipped_model",
    "tokenizer_golden",
];

/// Tests, or modules of tests, that would take Miri many minutes.
const TOO_LONG_FOR_MIRI: &[&str] = &[
    // A thousand names, each compared with each.
    "gguf::parse::tests::scratch_is_asked_for_by_name",
    // Looks for names with equal hashes among some hundred thousand.
    "gguf::parse::tests::equal_hashes_are_no_duplicates",
    // All numbers of 16 bits, and a million of 32. There is no pointer in them.
    "quant::bf16::tests",
    "quant::f16::tests",
];

fn fmt() -> Result<Outcome> {
    run(&mut cargo(["fmt", "--all", "--check"]))?;
    for manifest in other_workspaces()? {
        run(&mut cargo(["fmt", "--check", "--manifest-path", &manifest]))?;
    }
    Ok(Outcome::Passed)
}

/// Manifests of packages that are not members of the host workspace, relative to the root.
fn other_workspaces() -> Result<Vec<String>> {
    let tracked = output(&mut command("git", ["ls-files", "*Cargo.toml"]));
    // Without git (an unpacked archive) only the host workspace is looked at.
    let tracked = tracked.unwrap_or_default();
    let is_other = |path: &&str| path.starts_with("core/fuzz/") || path.starts_with("targets/");
    Ok(tracked
        .lines()
        .filter(is_other)
        .map(str::to_owned)
        .collect())
}

fn clippy() -> Result<Outcome> {
    let deny = ["--", "-D", "warnings"];
    let mut whole = cargo(["clippy", "--workspace", "--all-targets", "--locked"]);
    run(whole.args(deny))?;
    // In the workspace, features are unified: core alone may lack what another crate turns on.
    let mut alone = cargo(["clippy", "--package", "smidgen-core", "--all-targets"]);
    run(alone.args(deny))?;
    for feature in core_features()? {
        let mut with = cargo([
            "clippy",
            "--package",
            "smidgen-core",
            "--features",
            &feature,
        ]);
        run(with.args(deny))?;
    }
    Ok(Outcome::Passed)
}

/// The features of core's manifest, `default` left out.
fn core_features() -> Result<Vec<String>> {
    let metadata = output(&mut cargo([
        "metadata",
        "--no-deps",
        "--format-version",
        "1",
    ]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array();
    let core = packages
        .into_iter()
        .flatten()
        .find(|package| package["name"] == "smidgen-core")
        .context("cargo metadata lists no package smidgen-core")?;
    let features = core["features"].as_object().context("no features")?;
    let names = features.keys().filter(|name| *name != "default");
    Ok(names.cloned().collect())
}

fn host() -> Result<Outcome> {
    let smidgen = build::smidgen()?;
    let mut tests = cargo([
        "test",
        "--workspace",
        "--locked",
        "--profile",
        build::PROFILE,
    ]);
    run(tests.arg("--no-fail-fast").env("SMIDGEN_BIN", smidgen))?;
    Ok(Outcome::Passed)
}

fn doc() -> Result<Outcome> {
    let mut doc = cargo(["doc", "--workspace", "--no-deps", "--locked"]);
    run(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Outcome::Passed)
}

fn msrv() -> Result<Outcome> {
    let metadata = std::fs::read_to_string(root().join("Cargo.toml"))?;
    let version = metadata
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "))
        .context("Cargo.toml has no rust-version")?
        .trim_matches('"');
    if !has_toolchain(version) {
        return Ok(Outcome::Skipped(format!(
            "no toolchain {version} here; clippy's incompatible_msrv looked at std's functions"
        )));
    }
    let words = ["check", "--workspace", "--all-targets", "--locked"];
    run(&mut cargo_of(version, &words))?;
    Ok(Outcome::Passed)
}

fn i686() -> Result<Outcome> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Ok(Outcome::Skipped(
            "only Linux on x86-64 runs such programs".to_owned(),
        ));
    }
    let target = "i686-unknown-linux-musl";
    require(&[target])?;
    for mut tests in [core_tests(target), case_tests(target)] {
        run(tests.env("CARGO_TARGET_I686_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld"))?;
    }
    Ok(Outcome::Passed)
}

fn aarch64() -> Result<Outcome> {
    if !cfg!(target_os = "linux") {
        return Ok(Outcome::Skipped(
            "QEMU runs single programs on Linux only".to_owned(),
        ));
    }
    let target = "aarch64-unknown-linux-musl";
    require(&[target, "qemu-aarch64"])?;
    // Without dotprod; with it; and with all that QEMU knows. Only kernels differ between them.
    let runs = [
        ("cortex-a53", core_tests(target)),
        ("cortex-a76", core_tests(target)),
        ("max", core_tests(target)),
        ("max", case_tests(target)),
    ];
    for (cpu, mut tests) in runs {
        tests.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld");
        tests.env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER",
            format!("qemu-aarch64 -cpu {cpu}"),
        );
        run(&mut tests)?;
    }
    Ok(Outcome::Passed)
}

/// core's unit tests on `target`.
fn core_tests(target: &str) -> Command {
    let mut tests = tests_for(target);
    tests.args(["--package", "smidgen-core", "--lib"]);
    tests
}

/// [`PORTABLE_TESTS`] on `target`.
fn case_tests(target: &str) -> Command {
    let mut tests = tests_for(target);
    tests.args(["--package", "smidgen-tests"]);
    for name in PORTABLE_TESTS {
        tests.args(["--test", name]);
    }
    tests
}

fn tests_for(target: &str) -> Command {
    let mut tests = cargo(["test", "--locked", "--profile", build::PROFILE]);
    tests.args(["--no-fail-fast", "--target", target]);
    tests
}

fn miri() -> Result<Outcome> {
    if !has_toolchain("nightly") && !everything_is_required() {
        return Ok(Outcome::Skipped("no nightly toolchain".to_owned()));
    }
    require(&["nightly", "miri", "rust-src"])?;
    let mut tests = cargo_of("nightly", &["miri", "test", "--locked", "--lib"]);
    tests.args(["--package", "smidgen-core", "--", "gguf::", "quant::"]);
    for name in TOO_LONG_FOR_MIRI {
        tests.args(["--skip", name]);
    }
    // proptest looks for its file of earlier failures; Miri is some hundred times slower.
    tests.env("MIRIFLAGS", "-Zmiri-disable-isolation");
    tests.env("PROPTEST_CASES", "4");
    run(&mut tests)?;
    Ok(Outcome::Passed)
}

/// Whether a check that cannot run is a failure: so in CI.
fn everything_is_required() -> bool {
    std::env::var_os("SMIDGEN_REQUIRE_SHARED").is_some_and(|value| value == "1")
}

/// # Errors
/// One of `names` is not on this machine.
fn require(names: &[&str]) -> Result<()> {
    let missing: Vec<_> = survey()
        .into_iter()
        .filter(|need| names.contains(&need.name) && need.is_missing())
        .map(|need| need.name)
        .collect();
    if !missing.is_empty() {
        bail!("{} missing: run `cargo xtask setup`", missing.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_of_core_are_found() {
        let features = core_features().unwrap();
        assert!(features.iter().any(|name| name == "std"), "{features:?}");
        assert!(features.iter().any(|name| name == "defmt"), "{features:?}");
        assert!(features.iter().all(|name| name != "default"));
    }
}
