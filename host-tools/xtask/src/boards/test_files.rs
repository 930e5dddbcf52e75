//! The test of what `cargo xtask flash` writes: read back, it is the firmware and the model.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use ihex::{Reader, Record};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind};
use smidgen_plan::Image;

use super::{Board, flash};

/// Bytes by their address.
type Bytes = BTreeMap<u64, u8>;

/// Compares the files for a board with the sections of its firmware, and with a model's image where
/// that is flashed apart.
///
/// # Errors
/// They differ.
pub(super) fn check(board: Board, elf: &[u8], image: Option<&[u8]>) -> Result<()> {
    let mut there = Bytes::new();
    for (name, bytes, _) in flash::files(board, elf, image.map(<[u8]>::to_vec))? {
        match name {
            "kernel8.img" => place(&mut there, board.row.memory.code.origin, &bytes),
            "model.img" => place(&mut there, board.row.memory.model.origin, &bytes),
            "config.txt" => {}
            "smidgen.uf2" => there = from_uf2(&bytes).context(name)?,
            "smidgen.hex" => there = from_hex(std::str::from_utf8(&bytes)?).context(name)?,
            _ => bail!("an unknown file: {name}"),
        }
    }
    if there.is_empty() {
        return Ok(());
    }
    let same = |what: &str, address: u64, bytes: &[u8]| -> Result<()> {
        for (at, byte) in (address..).zip(bytes) {
            let found = there.get(&at);
            ensure!(
                found == Some(byte),
                "{what}: {found:?} at {at:#x}, not {byte}"
            );
        }
        Ok(())
    };
    let image = image.unwrap_or_default();
    same("model", board.row.memory.model.origin, image)?;
    if let Image::Uf2(_) = board.row.firmware.image {
        starts(board, &there)?;
    }
    let file = object::File::parse(elf)?;
    for section in file.sections() {
        let name = section.name()?;
        let address = match (section.kind(), name) {
            // Before start-up copies them.
            (SectionKind::Data, ".data") => match file.symbol_by_name("__sidata") {
                Some(symbol) => symbol.address(),
                None => section.address(),
            },
            (SectionKind::Text | SectionKind::Data | SectionKind::ReadOnlyData, _) => {
                section.address()
            }
            _ => continue,
        };
        same(name, address, section.data()?)?;
    }
    Ok(())
}

/// The boot ROM of RP2350 finds its block in the first 4 KiB, and the addresses of the stack and of
/// the start before it.
fn starts(board: Board, there: &Bytes) -> Result<()> {
    let memory = board.row.memory;
    let word = |address: u64| -> u32 {
        let byte = |at: u64| there.get(&(address + at)).copied().unwrap_or(0xff);
        u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])
    };
    let origin = memory.code.origin;
    let mut places = (0..4096).step_by(4).map(|at| origin + at);
    let begin = places.find(|&at| word(at) == 0xffff_ded3);
    let begin = begin.context("no block for the boot ROM")?;
    let type_of_image = word(begin + 4);
    ensure!(
        type_of_image == 0x1021_0142,
        "{type_of_image:#x} is no program for Arm"
    );
    ensure!(word(begin + 16) == 0xab12_3579, "a block without an end");
    let (stack, start) = (u64::from(word(origin)), u64::from(word(origin + 4)));
    let ram = memory.ram.origin..=memory.ram.origin + memory.ram.len;
    ensure!(ram.contains(&stack), "a stack at {stack:#x}");
    ensure!(there.contains_key(&(start & !1)), "a start at {start:#x}");
    Ok(())
}

fn place(there: &mut Bytes, address: u64, bytes: &[u8]) {
    there.extend((address..).zip(bytes.iter().copied()));
}

/// As the boot ROM reads it.
fn from_uf2(file: &[u8]) -> Result<Bytes> {
    let mut there = Bytes::new();
    ensure!(file.len().is_multiple_of(512), "no whole blocks");
    for (number, block) in file.chunks(512).enumerate() {
        let word = |at: usize| -> Result<u32> {
            let bytes = block.get(at..at + 4).context("a short block")?;
            Ok(u32::from_le_bytes(bytes.try_into()?))
        };
        ensure!(word(0)? == 0x0a32_4655, "block {number}: no UF2");
        ensure!(word(4)? == 0x9e5d_5157, "block {number}: no second magic");
        ensure!(word(508)? == 0x0ab1_6f30, "block {number}: no end");
        ensure!(word(16)? == 256, "block {number}: {} bytes", word(16)?);
        ensure!(
            word(20)? as usize == number,
            "block {number}: {}",
            word(20)?
        );
        ensure!(word(24)? as usize == file.len() / 512, "another count");
        place(&mut there, word(12)?.into(), &block[32..32 + 256]);
    }
    Ok(there)
}

fn from_hex(text: &str) -> Result<Bytes> {
    let mut there = Bytes::new();
    let mut upper = 0;
    for record in Reader::new(text) {
        match record? {
            Record::ExtendedLinearAddress(high) => upper = u64::from(high) << 16,
            Record::Data { offset, value } => place(&mut there, upper + u64::from(offset), &value),
            Record::EndOfFile => return Ok(there),
            other => bail!("an unknown record: {other:?}"),
        }
    }
    bail!("no end")
}
