//! What the other commands need on this machine, and whether it is there.

use std::path::PathBuf;

use crate::process::{command, output, which};

/// One thing that must be on the machine.
#[derive(Debug)]
pub(crate) struct Need {
    pub(crate) name: &'static str,
    /// What for.
    pub(crate) purpose: &'static str,
    pub(crate) kind: Kind,
    /// The version, or where it lies; `None` if it is missing.
    pub(crate) found: Option<String>,
}

/// Where a thing comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A standard library for another target, by rustup.
    Target,
    /// A component of the active toolchain, by rustup.
    Component,
    /// The nightly toolchain or a component of it, by rustup. Without it, checks are left out.
    Nightly,
    /// A program from the system's package manager.
    Program,
}

impl Need {
    /// Whether `cargo xtask test` fails without it.
    pub(crate) fn is_required(&self) -> bool {
        self.kind != Kind::Nightly
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.found.is_none()
    }
}

const TARGETS: &[(&str, &str)] = &[
    ("aarch64-unknown-linux-musl", "core's tests on 64-bit ARM"),
    ("aarch64-unknown-none", "firmware for 64-bit ARM"),
    (
        "aarch64-unknown-none-softfloat",
        "firmware for 64-bit ARM before its FPU is on",
    ),
    ("thumbv6m-none-eabi", "firmware for Cortex-M0 and M0+"),
    ("thumbv7m-none-eabi", "firmware for Cortex-M3"),
    ("thumbv7em-none-eabihf", "firmware for Cortex-M4F and M7F"),
    (
        "thumbv8m.main-none-eabihf",
        "firmware for Cortex-M33 and M55",
    ),
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    ("i686-unknown-linux-musl", "core's tests on a 32-bit host"),
];

const PROGRAMS: &[(&str, &str)] = &[
    (
        "qemu-system-arm",
        "runs the firmware of the Cortex-M boards",
    ),
    (
        "qemu-system-aarch64",
        "runs the firmware of the 64-bit boards",
    ),
    // Emulation of a single program is there for Linux only.
    #[cfg(target_os = "linux")]
    ("qemu-aarch64", "runs core's tests as 64-bit ARM programs"),
];

/// Looks for everything. No network, and quick.
pub(crate) fn survey() -> Vec<Need> {
    let mut needs = Vec::new();
    let libraries = sysroot(None).map(|root| root.join("lib/rustlib"));
    for &(name, purpose) in TARGETS {
        let dir = libraries.as_ref().map(|dir| dir.join(name).join("lib"));
        needs.push(Need {
            name,
            purpose,
            kind: Kind::Target,
            found: dir
                .filter(|dir| dir.is_dir())
                .map(|_| "installed".to_owned()),
        });
    }
    for (name, purpose, subcommand) in [
        ("rustfmt", "checks the layout of the code", "fmt"),
        ("clippy", "checks the code", "clippy"),
    ] {
        needs.push(Need {
            name,
            purpose,
            kind: Kind::Component,
            found: first_line("cargo", &[subcommand, "--version"]),
        });
    }

    let nightly = has_toolchain("nightly");
    let in_nightly = |args: &[&str]| {
        let mut all = vec!["run", "nightly"];
        all.extend(args);
        nightly.then(|| first_line("rustup", &all)).flatten()
    };
    let rust_src = || {
        let dir = sysroot(Some("nightly"))?.join("lib/rustlib/src/rust/library");
        dir.is_dir().then(|| "installed".to_owned())
    };
    needs.push(Need {
        name: "nightly",
        purpose: "the toolchain that Miri and the fuzzer need",
        kind: Kind::Nightly,
        found: in_nightly(&["rustc", "--version"]),
    });
    needs.push(Need {
        name: "miri",
        purpose: "runs tests of core in an interpreter that sees undefined behaviour",
        kind: Kind::Nightly,
        found: in_nightly(&["cargo", "miri", "--version"]),
    });
    needs.push(Need {
        name: "rust-src",
        purpose: "the standard library's source, for Miri",
        kind: Kind::Nightly,
        found: if nightly { rust_src() } else { None },
    });

    for &(name, purpose) in PROGRAMS {
        needs.push(Need {
            name,
            purpose,
            kind: Kind::Program,
            found: which(name).and_then(|_| first_line(name, &["--version"])),
        });
    }
    needs
}

/// Whether rustup has `toolchain` (`nightly`, or a version such as `1.88`).
pub(crate) fn has_toolchain(toolchain: &str) -> bool {
    let list = output(&mut command("rustup", ["toolchain", "list"])).unwrap_or_default();
    list.lines().any(|line| {
        // `1.88` stands for `1.88-host` and `1.88.0-host`, not for `1.880-host`.
        line.strip_prefix(toolchain)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.', ' ']))
    })
}

fn sysroot(toolchain: Option<&str>) -> Option<PathBuf> {
    let mut rustc = match toolchain {
        None => command("rustc", ["--print", "sysroot"]),
        Some(name) => command("rustup", ["run", name, "rustc", "--print", "sysroot"]),
    };
    output(&mut rustc).ok().map(|dir| PathBuf::from(dir.trim()))
}

fn first_line(program: &str, args: &[&str]) -> Option<String> {
    let text = output(&mut command(program, args)).ok()?;
    text.lines().next().map(str::to_owned)
}
