//! The plan for people.

use std::fmt::Write as _;

use smidgen_edit::printable;
use smidgen_plan::{PartKind, Place};

use super::Planned;
use crate::output::{self, Align, BAD, GOOD, HEADING, Table, human_bytes};

pub(super) fn of(planned: &Planned<'_>) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{HEADING}{}{HEADING:#} on {}",
        printable(planned.model.as_bytes()),
        on(planned)
    );
    let options = planned.options;
    let ring = match options.ring {
        true => "the last of them are kept",
        false => "then the story ends",
    };
    let _ = writeln!(
        text,
        "{} of keys and values as {}: {ring}",
        output::counted(options.window as u64, "position"),
        options.kv.name()
    );
    for place in &planned.placement.places {
        text.push('\n');
        write_place(&mut text, place);
    }
    text.push('\n');
    write_verdict(&mut text, planned);
    text
}

fn on(planned: &Planned<'_>) -> String {
    match planned.board {
        Some(board) => format!("{} ({}, {})", board.name, board.about, board.core),
        None => {
            let memory = planned.memory;
            let (flash, ram) = (memory.code.len, memory.ram.len);
            let (flash, ram) = (human_bytes(flash), human_bytes(ram));
            format!("a Cortex-M with {flash} of flash and {ram} of RAM")
        }
    }
}

/// Its letter in the picture, and what it is.
const fn legend(kind: PartKind) -> (char, &'static str) {
    match kind {
        PartKind::Code => ('C', "code, at most"),
        PartKind::Model => ('M', "model"),
        PartKind::Kv => ('K', "keys and values"),
        PartKind::Activations => ('A', "activations"),
        PartKind::Text => ('T', "vocabulary and prompt"),
        PartKind::Variables => ('V', "other variables, at most"),
        PartKind::Stack => ('S', "stack"),
        _ => ('?', "other"),
    }
}

fn write_place(text: &mut String, place: &Place) {
    let region = place.region;
    let (len, used) = (region.len, place.used());
    let _ = writeln!(
        text,
        "{HEADING}{}{HEADING:#} at {:#010x}, {len} bytes ({})",
        region.name,
        region.origin,
        human_bytes(len)
    );
    let percent = used as f64 * 100.0 / len.max(1) as f64;
    let _ = writeln!(
        text,
        "[{}] {percent:.1} %",
        bar(place, output::width() - 20)
    );
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Right]);
    for part in &place.parts {
        let (letter, what) = legend(part.kind);
        table.row([letter.into(), what.to_owned(), part.bytes.to_string()]);
    }
    match place.free() {
        Some(free) => table.row([".".to_owned(), "free".to_owned(), free.to_string()]),
        None => table.row([
            String::new(),
            "too much".to_owned(),
            (used - len).to_string(),
        ]),
    }
    table.write(text, 2);
}

/// The parts as a row of their letters. Each that has bytes has a letter. Where there is too much, a
/// bar shows where memory ends.
fn bar(place: &Place, width: usize) -> String {
    let (len, used) = (place.region.len, place.used());
    let all = len.max(used).max(1);
    let cells = |bytes: u64| (bytes as f64 / all as f64 * width as f64).round() as usize;
    let mut bar = String::new();
    let mut end = 0;
    for part in &place.parts {
        end += part.bytes;
        let letter = legend(part.kind).0;
        let until = cells(end).max(bar.len() + usize::from(part.bytes > 0));
        while bar.len() < until {
            bar.push(letter);
        }
    }
    while bar.len() < width {
        bar.push('.');
    }
    if used > len {
        bar.insert(cells(len).min(bar.len()), '|');
    }
    bar
}

fn write_verdict(text: &mut String, planned: &Planned<'_>) {
    if planned.placement.fits() {
        let _ = write!(text, "{GOOD}It fits.{GOOD:#}");
    } else {
        let lacking = planned.placement.places.iter().filter_map(|place| {
            let missing = place.used().checked_sub(place.region.len)?;
            (missing > 0).then(|| format!("{} lacks {missing} bytes", place.region.name))
        });
        let lacking = lacking.collect::<Vec<_>>().join(", ");
        let _ = write!(text, "{BAD}It does not fit:{BAD:#} {lacking}.");
    }
    let kv = planned.options.kv.name();
    let _ = match planned.largest_window {
        Some(window) if window >= planned.n_ctx => writeln!(
            text,
            " RAM has room for the model's context of {} positions with {kv}.",
            planned.n_ctx
        ),
        Some(window) => writeln!(
            text,
            " RAM has room for {window} positions with {kv}; the model's context has {}.",
            planned.n_ctx
        ),
        None => writeln!(text, " RAM has no room for a single position with {kv}."),
    };
    for advice in &planned.advice {
        let _ = writeln!(text, "  {}: {}", advice.change, advice.words);
    }
}

#[cfg(test)]
mod tests {
    use smidgen_plan::{Part, Region};

    use super::*;

    fn place(len: u64, bytes: &[(PartKind, u64)]) -> Place {
        let region = Region {
            name: "RAM",
            origin: 0,
            len,
        };
        let part = |&(kind, bytes)| Part { kind, bytes };
        let parts = bytes.iter().map(part).collect();
        Place { region, parts }
    }

    #[test]
    fn pictures_are_to_scale() {
        let parts = [(PartKind::Code, 25), (PartKind::Model, 50)];
        assert_eq!(bar(&place(100, &parts), 8), "CCMMMM..");
        assert_eq!(bar(&place(50, &parts), 6), "CCMM|MM");
        // What is small is seen, what is not there is not.
        let parts = [(PartKind::Kv, 1), (PartKind::Text, 0), (PartKind::Stack, 1)];
        assert_eq!(bar(&place(1000, &parts), 8), "KS......");
        assert_eq!(bar(&place(0, &[]), 4), "....");
    }
}
