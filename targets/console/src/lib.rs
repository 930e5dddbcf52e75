//! A console on a serial port: what is typed is continued as a story.
//!
//! [`run`] needs a port, a model in flash and some RAM, and nothing of a particular chip, so that it
//! is tested on the PC. A line that begins with `/` is a command; all else is told on.
#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

mod byte_queue;
mod chip;
mod command;
mod line;
mod load;
#[cfg(target_arch = "arm")]
mod memory_functions;
mod number;
mod port;
mod prompt;
mod report;
mod self_test;
mod stack;
mod watch;

pub use byte_queue::ByteQueue;
pub use chip::Chip;
pub use command::{Command, CommandError, Settings};
pub use line::{Input, LINE, LineEditor, LineError};
pub use load::{LoadError, Memory};
pub use number::Number;
pub use port::Port;
pub use prompt::run;
pub use report::report;
pub use self_test::logits_hash;
#[cfg(target_arch = "arm")]
pub use stack::painted_stack;
pub use stack::{PAINT, Stack};
pub use watch::Watch;
