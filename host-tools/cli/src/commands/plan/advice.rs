//! What to change if a model does not fit. Everything that is said has been tried.

use smidgen_core::{
    gguf::Gguf,
    kv_cache::{KvLayout, KvType},
    model::Model,
    session::SessionOptions,
};
use smidgen_plan::{Footprint, PartKind, largest_window, room_for_model};
use smidgen_quantize::{FileType, Options, quantize};

use super::Planned;

/// A change that helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Advice {
    /// Flags of `smidgen plan`, or a command.
    pub(super) change: String,
    /// What it does.
    pub(super) words: String,
}

fn advice(change: impl Into<String>, words: impl Into<String>) -> Advice {
    Advice {
        change: change.into(),
        words: words.into(),
    }
}

/// What would make the model fit; nothing if it does.
pub(super) fn of(
    planned: &Planned<'_>,
    model: &Model<'_>,
    gguf: &Gguf<'_>,
) -> anyhow::Result<Vec<Advice>> {
    let lacks = |kind| {
        let place = planned.placement.place_of(kind);
        place.is_some_and(|place| place.free().is_none())
    };
    let mut all = Vec::new();
    if lacks(PartKind::Code) && planned.memory.code_bytes > planned.memory.code.len {
        all.push(advice(
            "another board",
            format!("code takes up to {} bytes", planned.memory.code_bytes),
        ));
        return Ok(all);
    }
    if lacks(PartKind::Kv) {
        all.extend(for_ram(planned, model, gguf));
    }
    if lacks(PartKind::Model) {
        all.extend(for_flash(planned, model, gguf)?);
    }
    Ok(all)
}

/// What would make the variables fit.
fn for_ram(planned: &Planned<'_>, model: &Model<'_>, gguf: &Gguf<'_>) -> Vec<Advice> {
    let mut all = Vec::new();
    let options = planned.options;
    let most = options.window.max(planned.n_ctx);
    let largest = |options: SessionOptions| {
        let bytes = planned.model_bytes;
        largest_window(planned.memory, model, gguf, bytes, options, most)
    };
    let kv_bytes = |kv| KvLayout::new(&model.hyperparameters, kv, options.window).bytes();
    let smaller = |&kv: &KvType| kv_bytes(kv) < kv_bytes(options.kv);
    if let Some(window) = planned.largest_window {
        let words = format!("{} instead of {}", positions(window), options.window);
        match options.ring {
            true => all.push(advice(format!("--window {window}"), words)),
            false => {
                all.push(advice(
                    format!("-c {window}"),
                    format!("{words}, and no more"),
                ));
                let words = format!("the last {} are kept", positions(window));
                all.push(advice(format!("--window {window}"), words));
            }
        }
    }
    // The first that has room for what is asked for, else the one with the most room.
    let mut with_less = Vec::new();
    for kv in KvType::ALL.into_iter().filter(smaller) {
        if super::can_run(model, SessionOptions { kv, ..options }).is_err() {
            continue;
        }
        if let Some(window) = largest(SessionOptions { kv, ..options }) {
            with_less.push((kv, window));
        }
    }
    let enough = with_less.iter().find(|(_, most)| *most >= options.window);
    let best = with_less.iter().max_by_key(|(_, most)| *most);
    if let Some((kv, window)) = enough {
        let words = format!("room for {}", positions(*window));
        all.push(advice(format!("--kv {}", kv.name()), words));
    } else if let Some((kv, window)) = best.filter(|best| Some(best.1) > planned.largest_window) {
        let flag = if options.ring { "--window" } else { "-c" };
        let change = format!("--kv {} {flag} {window}", kv.name());
        let words = format!("{} instead of {}", positions(*window), options.window);
        all.push(advice(change, words));
    }
    let footprint = Footprint::new(model, gguf, planned.memory, options);
    if footprint.index > 0 {
        let words = format!(
            "its vocabulary has the index with it, which saves {} bytes of RAM",
            footprint.index * size_of::<u32>()
        );
        all.push(advice("a GGUF made by smidgen convert", words));
    }
    if all.is_empty() {
        let place = planned.placement.place_of(PartKind::Kv);
        let parts = place.map_or(&[][..], |place| &place.parts);
        let others = parts.iter().filter(|part| part.kind != PartKind::Kv);
        let words = format!(
            "without keys and values there are {} bytes already, of which activations take {}",
            others.map(|part| part.bytes).sum::<u64>(),
            footprint.activation_bytes(planned.memory),
        );
        all.push(advice("a smaller model", words));
    }
    all
}

/// What would make the model fit.
fn for_flash(
    planned: &Planned<'_>,
    model: &Model<'_>,
    gguf: &Gguf<'_>,
) -> anyhow::Result<Vec<Advice>> {
    let mut all = Vec::new();
    let footprint = Footprint::new(model, gguf, planned.memory, planned.options);
    let room = room_for_model(planned.memory, &footprint).unwrap_or(0);
    let mut sizes = Vec::new();
    for ty in FileType::all() {
        let mut options = Options::new(ty);
        options.allow_requantize = true;
        if let Ok(quantization) = quantize(std::slice::from_ref(gguf), &options) {
            let len = quantization.file_len()?;
            sizes.push((ty.name(), len));
        }
    }
    let fitting = sizes.iter().filter(|(_, len)| *len <= room);
    let least = sizes.iter().min_by_key(|(_, len)| *len);
    match fitting.max_by_key(|(_, len)| *len) {
        Some((ty, len)) => {
            let change = format!("smidgen quantize {} OUT {ty}", planned.model);
            all.push(advice(
                change,
                format!("{len} bytes, there is room for {room}"),
            ));
            if let Some(board) = planned.board {
                let change = format!(
                    "smidgen quantize {} OUT --board {}",
                    planned.model, board.name
                );
                all.push(advice(change, "the best type for each tensor"));
            }
        }
        None => {
            let least = least.map_or_else(String::new, |(ty, len)| {
                format!("even {ty} takes {len} bytes, and ")
            });
            let words = format!("{least}there is room for {room}");
            all.push(advice("a smaller model", words));
        }
    }
    Ok(all)
}

fn positions(count: usize) -> String {
    crate::output::counted(count as u64, "position")
}
