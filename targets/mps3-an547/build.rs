//! The memory map, and the model.

fn main() {
    let board = linked_model::board("mps3-an547");
    linked_model::link(board);
    linked_model::cortex_m_memory(board);
    linked_model::no_interrupts();
}
