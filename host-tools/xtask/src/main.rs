//! Set-up, tests, benchmarks and boards of this repository: `cargo xtask`.

fn main() {}
