//! The memory map, and the model.

/// What must be left for the stack.
const STACK: usize = 64 << 10;

/// What QEMU is given with `-m 128`, without the first MiB, where it puts the device tree.
const RAM: usize = 127 << 20;

fn main() {
    linked_model::link(RAM, STACK);
    linked_model::script(
        "memory.x",
        &format!("MEMORY\n{{\n  image : ORIGIN = 0x40100000, LENGTH = {RAM:#x}\n}}\n"),
    );
    linked_model::place_model("image");
    for script in ["image.ld", "memory.x"] {
        println!("cargo::rustc-link-arg-bins=-T{script}");
    }
}
