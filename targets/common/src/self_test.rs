//! The program that looks whether this chip computes as it should.

use smidgen_core::kernels::{Backend, self_test as kernels};

use crate::program::say;
use crate::{Board, Failure, Linked, Memory, Request};

/// Compares the linked model with its checksum, and every back end with the scalar one.
///
/// # Errors
/// The first difference.
pub fn self_test<B: Board>(
    board: &mut B,
    linked: &Linked,
    _: &'static mut Memory,
    _: &Request<'static>,
) -> Result<(), &'static Failure> {
    linked.check()?;
    say(
        board.console(),
        format_args!("model: {:016x}\n", linked.checksum),
    );
    for backend in Backend::available() {
        let cases = kernels(backend)?;
        say(
            board.console(),
            format_args!("{}: {cases} cases\n", backend.name()),
        );
    }
    Ok(())
}
