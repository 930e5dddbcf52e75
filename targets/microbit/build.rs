//! The memory map, and the model.

fn main() {
    let board = linked_model::board("microbit");
    linked_model::link(board);
    if std::env::var_os("CARGO_FEATURE_RTT").is_some() {
        println!("cargo::rustc-link-arg-bins=-Tdefmt.x");
    }
    linked_model::cortex_m_memory(board);
    linked_model::no_interrupts();
}
