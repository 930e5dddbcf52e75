//! The memory map, and the model.

fn main() {
    let board = linked_model::board("aarch64-virt");
    linked_model::link(board);
    let (origin, len) = (board.memory.ram.origin, board.memory.ram.len);
    linked_model::script(
        "memory.x",
        &format!("MEMORY\n{{\n  image : ORIGIN = {origin:#x}, LENGTH = {len:#x}\n}}\n"),
    );
    linked_model::place_model("image");
    for script in ["image.ld", "memory.x"] {
        println!("cargo::rustc-link-arg-bins=-T{script}");
    }
}
