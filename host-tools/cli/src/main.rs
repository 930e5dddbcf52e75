//! The command `smidgen`.

fn main() {}
