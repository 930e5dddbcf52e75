//! The table of boards. A board is a row here and a package under `targets/`.

use smidgen_core::kv_cache::KvType;
use smidgen_core::session::SessionOptions;

use crate::{Board, Firmware, Image, Memory, Qemu, Region};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Every board.
pub const BOARDS: &[Board] = &[
    AARCH64_VIRT,
    MPS2_AN386,
    MPS2_AN500,
    MPS2_AN505,
    MPS3_AN547,
    STM32F405,
    MICROBIT,
    RASPI3,
    NRF52833,
    RP2350,
];

/// The board of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Board> {
    BOARDS.iter().find(|board| board.name == name)
}

/// A chip that is not in the table, with so many bytes of flash and of RAM: what firmware for any
/// Cortex-M takes at most.
#[must_use]
pub const fn generic(flash: u64, ram: u64) -> (Memory, SessionOptions) {
    let flash = region("flash", 0, flash);
    let memory = Memory {
        code: flash,
        model: flash,
        ram: region("RAM", 0, ram),
        stack_bytes: 4 * KIB,
        ..MPS2_AN386.memory
    };
    (memory, OPTIONS)
}

/// Bytes as keys and values, 256 positions.
const OPTIONS: SessionOptions = SessionOptions {
    kv: KvType::Q8,
    window: 256,
    ring: false,
    batch: 1,
};

const fn region(name: &'static str, origin: u64, len: u64) -> Region {
    Region { name, origin, len }
}

/// What QEMU is given with `-m 128`, without the first MiB, where it puts the device tree.
const VIRT_RAM: Region = region("RAM", 0x4010_0000, 127 * MIB);

const AARCH64_VIRT: Board = Board {
    name: "aarch64-virt",
    about: "QEMU virt",
    core: "Cortex-A53",
    memory: Memory {
        code: VIRT_RAM,
        model: VIRT_RAM,
        ram: VIRT_RAM,
        code_bytes: 320 * KIB,
        variable_bytes: 16 * KIB,
        stack_bytes: 64 * KIB,
        prompt_bytes: 128,
        has_logits: true,
        wide_activations: false,
        pointer_bytes: 8,
    },
    options: OPTIONS,
    firmware: Firmware {
        package: "aarch64-virt",
        target: "aarch64-unknown-none",
        features: &[],
        backend: None,
        has_console: false,
        has_serial: false,
        image: Image::Elf,
        probe: None,
    },
    qemu: Some(Qemu {
        program: "qemu-system-aarch64",
        // The network card would want a file that is not always installed.
        machine: &["-M", "virt", "-m", "128", "-nic", "none"],
        cpu: Some("cortex-a53"),
    }),
};

const MPS2_CODE: Region = region("code SRAM", 0, 4 * MIB);

const MPS2_AN386: Board = Board {
    name: "mps2-an386",
    about: "Arm MPS2 with AN386",
    core: "Cortex-M4",
    memory: Memory {
        code: MPS2_CODE,
        model: MPS2_CODE,
        ram: region("SRAM", 0x2000_0000, 4 * MIB),
        code_bytes: 60 * KIB,
        variable_bytes: 2 * KIB,
        stack_bytes: 16 * KIB,
        prompt_bytes: 128,
        has_logits: true,
        wide_activations: true,
        pointer_bytes: 4,
    },
    options: OPTIONS,
    firmware: Firmware {
        package: "mps2",
        target: "thumbv7em-none-eabihf",
        features: &["an386"],
        backend: Some("dsp"),
        has_console: false,
        has_serial: false,
        image: Image::Elf,
        probe: None,
    },
    qemu: Some(Qemu {
        program: "qemu-system-arm",
        machine: &["-M", "mps2-an386"],
        cpu: None,
    }),
};

const MPS2_AN500: Board = Board {
    name: "mps2-an500",
    about: "Arm MPS2 with AN500",
    core: "Cortex-M7",
    firmware: Firmware {
        features: &["an500"],
        ..MPS2_AN386.firmware
    },
    qemu: Some(Qemu {
        program: "qemu-system-arm",
        machine: &["-M", "mps2-an500"],
        cpu: None,
    }),
    ..MPS2_AN386
};

/// The secure alias.
const AN505_CODE: Region = region("code SRAM", 0x1000_0000, 4 * MIB);

const MPS2_AN505: Board = Board {
    name: "mps2-an505",
    about: "Arm MPS2 with AN505",
    core: "Cortex-M33",
    memory: Memory {
        code: AN505_CODE,
        model: AN505_CODE,
        // The secure alias.
        ram: region("SRAM", 0x3800_0000, 4 * MIB),
        ..MPS2_AN386.memory
    },
    firmware: Firmware {
        target: "thumbv8m.main-none-eabihf",
        features: &["an505"],
        ..MPS2_AN386.firmware
    },
    qemu: Some(Qemu {
        program: "qemu-system-arm",
        machine: &["-M", "mps2-an505"],
        cpu: None,
    }),
    ..MPS2_AN386
};

const MPS3_AN547: Board = Board {
    name: "mps3-an547",
    about: "Arm MPS3 with AN547",
    core: "Cortex-M55",
    memory: Memory {
        // Where the core starts.
        code: region("ITCM", 0, 512 * KIB),
        // Secure aliases.
        model: region("code SRAM", 0x1100_0000, 2 * MIB),
        ram: region("SRAM", 0x3100_0000, 4 * MIB),
        wide_activations: false,
        ..MPS2_AN386.memory
    },
    firmware: Firmware {
        package: "mps3-an547",
        target: "thumbv8m.main-none-eabihf",
        features: &[],
        backend: Some("mve"),
        has_console: false,
        has_serial: false,
        image: Image::Elf,
        probe: None,
    },
    qemu: Some(Qemu {
        program: "qemu-system-arm",
        machine: &["-M", "mps3-an547"],
        cpu: None,
    }),
    ..MPS2_AN386
};

const STM32F405: Board = Board {
    name: "stm32f405",
    about: "boards with an STM32F405",
    core: "Cortex-M4",
    memory: Memory {
        // The sectors of 16 and 64 KiB, and those of 128 KiB.
        code: region("flash", 0x0800_0000, 256 * KIB),
        model: region("flash", 0x0804_0000, 768 * KIB),
        // Without the 64 KiB of CCM, which are elsewhere.
        ram: region("SRAM", 0x2000_0000, 128 * KIB),
        code_bytes: 68 * KIB,
        stack_bytes: 10 * KIB,
        ..MPS2_AN386.memory
    },
    firmware: Firmware {
        package: "stm32f405",
        target: "thumbv7em-none-eabihf",
        features: &[],
        backend: Some("dsp"),
        has_console: true,
        has_serial: false,
        image: Image::Elf,
        probe: Some("STM32F405RGTx"),
    },
    qemu: Some(Qemu {
        program: "qemu-system-arm",
        machine: &["-M", "netduinoplus2"],
        cpu: None,
    }),
    ..MPS2_AN386
};

const MICROBIT_FLASH: Region = region("flash", 0, 256 * KIB);

const MICROBIT: Board = Board {
    name: "microbit",
    about: "BBC micro:bit v1 (nRF51822)",
    core: "Cortex-M0",
    memory: Memory {
        code: MICROBIT_FLASH,
        model: MICROBIT_FLASH,
        ram: region("RAM", 0x2000_0000, 16 * KIB),
        code_bytes: 72 * KIB,
        variable_bytes: 832,
        stack_bytes: 2560,
        prompt_bytes: 32,
        has_logits: false,
        wide_activations: true,
        pointer_bytes: 4,
    },
    options: SessionOptions {
        kv: KvType::Q8Row,
        window: 24,
        ring: true,
        batch: 1,
    },
    firmware: Firmware {
        package: "microbit",
        target: "thumbv6m-none-eabi",
        features: &[],
        backend: Some("armv6m"),
        has_console: false,
        has_serial: true,
        image: Image::Hex,
        probe: Some("nRF51822_xxAA"),
    },
    qemu: Some(Qemu {
        program: "qemu-system-arm",
        machine: &["-M", "microbit"],
        cpu: None,
    }),
};

const RASPI3_RAM: Region = region("RAM", 0x8_0000, 128 * MIB - 0x8_0000);

const RASPI3: Board = Board {
    name: "raspi3",
    about: "Raspberry Pi 3, Zero 2 W",
    core: "Cortex-A53",
    memory: Memory {
        code: RASPI3_RAM,
        // The boot loader puts it there.
        model: region("RAM", 0x0800_0000, 256 * MIB),
        ram: RASPI3_RAM,
        ..AARCH64_VIRT.memory
    },
    firmware: Firmware {
        package: "raspi3",
        has_console: true,
        image: Image::Kernel8,
        ..AARCH64_VIRT.firmware
    },
    qemu: Some(Qemu {
        program: "qemu-system-aarch64",
        machine: &["-M", "raspi3b"],
        cpu: None,
    }),
    ..AARCH64_VIRT
};

const NRF52833: Board = Board {
    name: "nrf52833",
    about: "BBC micro:bit v2",
    core: "Cortex-M4",
    memory: Memory {
        code: region("flash", 0, 192 * KIB),
        model: region("flash", 0x3_0000, 320 * KIB),
        ram: region("RAM", 0x2000_0000, 128 * KIB),
        ..STM32F405.memory
    },
    firmware: Firmware {
        package: "nrf52833",
        image: Image::Hex,
        probe: Some("nRF52833_xxAA"),
        ..STM32F405.firmware
    },
    qemu: None,
    ..STM32F405
};

const RP2350: Board = Board {
    name: "rp2350",
    about: "Raspberry Pi Pico 2",
    core: "Cortex-M33",
    memory: Memory {
        code: region("flash", 0x1000_0000, 256 * KIB),
        model: region("flash", 0x1004_0000, 3840 * KIB),
        // Ten banks, one behind the other.
        ram: region("SRAM", 0x2000_0000, 520 * KIB),
        ..STM32F405.memory
    },
    firmware: Firmware {
        package: "rp2350",
        target: "thumbv8m.main-none-eabihf",
        // What the boot ROM takes for a secure program of the Arm cores.
        image: Image::Uf2(0xe48b_ff59),
        probe: Some("RP235x"),
        ..STM32F405.firmware
    },
    qemu: None,
    ..STM32F405
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_make_sense() {
        for (at, board) in BOARDS.iter().enumerate() {
            let Board { name, memory, .. } = board;
            assert!(BOARDS[..at].iter().all(|other| other.name != *name));
            assert_eq!(find(name), Some(board));
            for region in [memory.code, memory.model, memory.ram] {
                assert!(region.len > 0 && region.origin.is_multiple_of(4), "{name}");
                assert!(region.origin.checked_add(region.len).is_some(), "{name}");
            }
            assert!(memory.code_bytes < memory.code.len, "{name}");
            let ram = memory.variable_bytes + memory.stack_bytes;
            assert!(ram < memory.ram.len, "{name}");
            assert!(board.options.window > 0 && board.options.batch > 0);
        }
        assert_eq!(find("mps2"), None);
    }
}
