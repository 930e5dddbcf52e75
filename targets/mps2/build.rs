//! The memory map, and the model.

use std::env;

fn main() {
    let has = |image: &&str| {
        let feature = format!("CARGO_FEATURE_{}", image.to_uppercase());
        env::var_os(feature).is_some()
    };
    let mut images = ["an386", "an500", "an505"].into_iter().filter(has);
    let (Some(image), None) = (images.next(), images.next()) else {
        println!("cargo::error=take one of the features an386, an500, an505");
        return;
    };
    let board = linked_model::board(&format!("mps2-{image}"));
    linked_model::link(board);
    linked_model::cortex_m_memory(board);
    linked_model::no_interrupts();
}
