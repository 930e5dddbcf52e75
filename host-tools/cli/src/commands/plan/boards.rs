//! The list of boards.

use anyhow::anyhow;
use serde_json::{Value as Json, json};
use smidgen_plan::{BOARDS, Board, Region, find};

use crate::output::{Align, Table, hinted, human_bytes};

/// The board of this name.
pub(crate) fn board_named(name: &str) -> anyhow::Result<&'static Board> {
    find(name).ok_or_else(|| {
        let names: Vec<_> = BOARDS.iter().map(|board| board.name).collect();
        hinted(
            anyhow!("no board {name}"),
            format!("there are {}", names.join(", ")),
        )
    })
}

pub(super) fn text(boards: &[Board]) -> String {
    let aligns = [Align::Left; 6];
    let head = ["board", "core", "model in", "variables in", "QEMU", ""];
    let mut table = Table::new(&aligns).head(&head);
    let size = |region: Region| format!("{} {}", human_bytes(region.len), region.name);
    for board in boards {
        table.row([
            board.name.to_owned(),
            board.core.to_owned(),
            size(board.memory.model),
            size(board.memory.ram),
            machine(board).unwrap_or("-").to_owned(),
            board.about.to_owned(),
        ]);
    }
    let mut text = String::new();
    table.write(&mut text, 0);
    text
}

/// What QEMU calls it.
fn machine(board: &Board) -> Option<&'static str> {
    let words = board.qemu?.machine;
    let at = words.iter().position(|&word| word == "-M")?;
    words.get(at + 1).copied()
}

pub(super) fn json(boards: &[Board]) -> Json {
    let region =
        |region: Region| json!({"name": region.name, "origin": region.origin, "bytes": region.len});
    let board = |board: &Board| {
        let Board {
            memory, options, ..
        } = board;
        json!({
            "name": board.name,
            "about": board.about,
            "core": board.core,
            "code": region(memory.code),
            "model": region(memory.model),
            "ram": region(memory.ram),
            "code_bytes": memory.code_bytes,
            "variable_bytes": memory.variable_bytes,
            "stack_bytes": memory.stack_bytes,
            "kv": options.kv.name(),
            "window": options.window,
            "ring": options.ring,
            "qemu": machine(board),
        })
    };
    json!({"schema": 1, "boards": boards.iter().map(board).collect::<Vec<_>>()})
}
