//! Any bytes through the GGUF parser, and through all that it gives out where it accepts them.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = smidgen_tests::feed(bytes);
});
