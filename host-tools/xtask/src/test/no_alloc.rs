//! Proves that core and what it depends on use neither std nor alloc.
//!
//! A library alone proves nothing: `extern crate alloc` compiles everywhere. A final artifact
//! without a global allocator does not, so this builds one around core for every kind of board.

use std::fs;

use anyhow::{Context as _, Result};

use super::Outcome;
use crate::process::{cargo, root, run, target_dir};

const BOARD_TARGETS: &[&str] = &[
    "thumbv6m-none-eabi",
    "thumbv7m-none-eabi",
    "thumbv7em-none-eabihf",
    "thumbv8m.main-none-eabihf",
    "aarch64-unknown-none",
    "aarch64-unknown-none-softfloat",
];

const LIBRARY: &str = "\
#![no_std]
use smidgen_core as _;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
";

pub(super) fn check() -> Result<Outcome> {
    let dir = target_dir().join("no-alloc");
    fs::create_dir_all(dir.join("src"))?;
    let core = root().join("core");
    let manifest = format!(
        "[package]\nname = \"no-alloc\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [lib]\ncrate-type = [\"staticlib\"]\n\
         [dependencies]\nsmidgen-core.path = {:?}\n\
         [profile.dev]\npanic = \"abort\"\nincremental = false\n\
         [workspace]\n",
        core.to_str().context("the path is not UTF-8")?
    );
    fs::write(dir.join("Cargo.toml"), manifest)?;
    fs::write(dir.join("src/lib.rs"), LIBRARY)?;
    // The same versions as everywhere else.
    fs::copy(root().join("Cargo.lock"), dir.join("Cargo.lock"))?;

    let mut build = cargo(["build", "--manifest-path"]);
    build.arg(dir.join("Cargo.toml"));
    build.arg("--target-dir").arg(target_dir());
    for target in BOARD_TARGETS {
        build.args(["--target", target]);
    }
    run(&mut build)?;
    Ok(Outcome::Passed)
}
