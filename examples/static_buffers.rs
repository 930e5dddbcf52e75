//! Runs on the PC what firmware would run: `firmware_story.rs`, which has neither an operating
//! system nor a heap, with standard output as its console.
//!
//! `cargo run -p smidgen-examples --example static_buffers`

use std::process::ExitCode;

use embedded_io_adapters::std::FromStd;
use firmware_story::{PLAN, tell};

fn main() -> ExitCode {
    let mut console = FromStd::new(std::io::stdout());
    match tell(&mut console, 100) {
        Ok(generated) => {
            println!();
            eprintln!(
                "{} tokens in {} bytes of RAM, of which {} are keys and values",
                generated.new_tokens,
                PLAN.bytes(),
                PLAN.kv_bytes
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("static_buffers: {error}");
            ExitCode::FAILURE
        }
    }
}
