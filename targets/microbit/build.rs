//! The memory map, and the model.

fn main() {
    let board = linked_model::board("microbit");
    linked_model::link(board);
    linked_model::cortex_m_memory(board);
    linked_model::no_interrupts();
}
