//! What is known of a board.

use smidgen_core::session::SessionOptions;

/// A board that there is firmware for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Board {
    /// What `--board` takes.
    pub name: &'static str,
    /// The real boards and chips that it stands for.
    pub about: &'static str,
    /// Its processor.
    pub core: &'static str,
    /// Its memory, and what the firmware takes of it.
    pub memory: Memory,
    /// How a model is run if nothing else is asked for. The window is also bounded by the model's
    /// context.
    pub options: SessionOptions,
    /// How its firmware is built.
    pub firmware: Firmware,
    /// How QEMU is started for it; `None` if QEMU has no such board.
    pub qemu: Option<Qemu>,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// What people call it.
    pub name: &'static str,
    /// Its first address.
    pub origin: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// The memory of a board, and what the firmware takes of it whatever the model is. The same region
/// may serve for several things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Where code and constants go.
    pub code: Region,
    /// Where the GGUF goes.
    pub model: Region,
    /// Where variables and the stack go.
    pub ram: Region,
    /// The most bytes of code, constants and first values of variables.
    pub code_bytes: u64,
    /// The most bytes of variables beside the buffers that [`Footprint`](crate::Footprint) has.
    pub variable_bytes: u64,
    /// Bytes that are left for the stack.
    pub stack_bytes: u64,
    /// Bytes of the longest prompt.
    pub prompt_bytes: usize,
    /// Whether there is a buffer for all logits; without, tokens are chosen from chunks of them.
    pub has_logits: bool,
    /// Whether the kernels keep quantized activations as halfwords: those for the DSP instructions
    /// do.
    pub wide_activations: bool,
    /// Bytes of an address.
    pub pointer_bytes: usize,
}

/// How the firmware of a board is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Firmware {
    /// The folder under `targets/`.
    pub package: &'static str,
    /// What it is compiled for.
    pub target: &'static str,
    /// The features that choose the board among those of the package.
    pub features: &'static [&'static str],
    /// The only back end of a story, by name; `None` if all of the target are built in.
    pub backend: Option<&'static str>,
    /// Whether there is a console on a serial port, to which the model is flashed apart; else the
    /// model is linked in.
    pub has_console: bool,
    /// Whether there is a program that tells a story on a serial port, with the model linked in.
    pub has_serial: bool,
    /// What is put onto the board.
    pub image: Image,
    /// What probe-rs calls the chip.
    pub probe: Option<&'static str>,
}

/// A form of firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// An ELF file and the model's image, by a debugger.
    Elf,
    /// The bytes of memory, as `kernel8.img` on the boot partition, and the model's image.
    Kernel8,
    /// A UF2 file with both, copied to a drive, for chips of this family.
    Uf2(u32),
    /// An Intel HEX file with both, copied to a drive.
    Hex,
}

/// How QEMU is started for a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qemu {
    /// The program.
    pub program: &'static str,
    /// The arguments that name the board.
    pub machine: &'static [&'static str],
    /// The processor, if QEMU is to be told.
    pub cpu: Option<&'static str>,
}
