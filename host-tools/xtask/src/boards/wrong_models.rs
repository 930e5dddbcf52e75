//! Firmware whose model is wrong says so in words and ends with a status; none is a fault.
//!
//! The model is changed where it is linked. What flash can do to it, the firmware finds by the
//! checksum of its build; where that is changed as well, it is as if the model had been linked so.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use object::{Object as _, ObjectSection as _};
use smidgen_core::gguf::{GgmlType, keys};

use super::firmware::Firmware;
use crate::process::root;

/// What they say, on every board.
const EXPECTED: &str = "targets/expected/wrong-models.txt";

/// A way to be wrong.
struct Case {
    name: &'static str,
    change: fn(&mut [u8]) -> Result<()>,
    /// Linked so: with the checksum that the bytes have.
    linked: bool,
}

const CASES: &[Case] = &[
    Case {
        name: "erased",
        change: |model| {
            model.fill(0xff);
            Ok(())
        },
        linked: false,
    },
    Case {
        name: "zeros",
        change: |model| {
            model.fill(0);
            Ok(())
        },
        linked: false,
    },
    Case {
        name: "foreign",
        change: |model| put(model, 0, b"\x7fELF"),
        linked: false,
    },
    Case {
        name: "cut",
        change: |model| {
            let half = model.len() / 2;
            model[half..].fill(0xff);
            Ok(())
        },
        linked: false,
    },
    Case {
        name: "damaged",
        change: |model| {
            let at = model.len() / 2;
            model[at] ^= 0x40;
            Ok(())
        },
        linked: false,
    },
    Case {
        name: "foreign, linked so",
        change: |model| put(model, 0, b"\x7fELF"),
        linked: true,
    },
    Case {
        name: "more tensors than there are, linked so",
        change: |model| put(model, 8, &[0x7f]),
        linked: true,
    },
    Case {
        name: "another architecture, linked so",
        change: |model| {
            let key = find(model, keys::GENERAL_ARCHITECTURE.as_bytes())?;
            let value = key + find(&model[key..], b"llama")?;
            put(model, value, b"gemma")
        },
        linked: true,
    },
    Case {
        name: "a type that is not built in, linked so",
        change: |model| {
            // Behind the name there are the count of dimensions, two of them, and the type.
            let name = b"blk.0.attn_q.weight";
            let ty = find(model, name)? + name.len() + 4 + 2 * 8;
            put(model, ty, &GgmlType::IQ4_NL.id().to_le_bytes())
        },
        linked: true,
    },
];

/// The place of bytes that are there.
fn find(bytes: &[u8], what: &[u8]) -> Result<usize> {
    let place = bytes.windows(what.len()).position(|window| window == what);
    place.with_context(|| format!("no `{}` in the model", what.escape_ascii()))
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) -> Result<()> {
    let place = bytes
        .get_mut(at..at + what.len())
        .context("a short model")?;
    place.copy_from_slice(what);
    Ok(())
}

/// FNV-1a, as it stands in the firmware.
fn checksum(bytes: &[u8]) -> [u8; 8] {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    hash.to_le_bytes()
}

/// Runs a firmware with each of the wrong models in place of its own.
pub(super) fn check(firmware: &Firmware, model: &Path, overwrite: bool) -> Result<()> {
    let elf = fs::read(&firmware.elf)?;
    let model = fs::read(model)?;
    let mut told = String::new();
    for Case {
        name,
        change,
        linked,
    } in CASES
    {
        let mut wrong = model.clone();
        change(&mut wrong).context(*name)?;
        let bytes = with_model(&elf, &model, &wrong, *linked).context(*name)?;
        let (status, words) = firmware
            .with_bytes("wrong", &bytes)?
            .ends()
            .context(*name)?;
        writeln!(told, "{name}: {status}, {}", words.trim_end())?;
    }
    let path = root().join(EXPECTED);
    if overwrite {
        return fs::write(&path, told).context(EXPECTED);
    }
    let expected = fs::read_to_string(&path).context(EXPECTED)?;
    ensure!(
        told == expected,
        "{EXPECTED} has other words\n--- expected\n{expected}\n--- found\n{told}"
    );
    Ok(())
}

/// An ELF file with another model, and with the checksum of that if it is to be `linked` so.
fn with_model(elf: &[u8], model: &[u8], wrong: &[u8], linked: bool) -> Result<Vec<u8>> {
    let file = object::File::parse(elf)?;
    let section = file.section_by_name(".model").context("no .model")?;
    let (at, _) = section.file_range().context("an empty .model")?;
    let at = usize::try_from(at)?;
    let mut bytes = elf.to_vec();
    ensure!(
        elf.get(at..at + model.len()) == Some(model),
        "another model is linked"
    );
    put(&mut bytes, at, wrong)?;
    if linked {
        let own = checksum(model);
        let mut places = (0..elf.len()).filter(|&at| elf[at..].starts_with(&own));
        let (Some(place), None) = (places.next(), places.next()) else {
            anyhow::bail!("the checksum is not there once");
        };
        put(&mut bytes, place, &checksum(wrong))?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_one() {
        let path = root().join("examples/models/smidgen-260k-Q8_0.gguf");
        let model = fs::read(path).unwrap();
        for case in CASES {
            let mut wrong = model.clone();
            (case.change)(&mut wrong).unwrap();
            assert_ne!(wrong, model, "{}", case.name);
        }
    }
}
