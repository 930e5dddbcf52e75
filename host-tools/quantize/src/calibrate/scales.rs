//! The search for the scales of a block.

use smidgen_core::{
    gguf::GgmlType,
    quant::{Grid, quantize_row, row_bytes},
};

/// The grid of least cost among that of plain rounding and others near it.
pub(super) fn best(ty: GgmlType, first: &Grid, x: &[f32], cost: impl Fn(&Grid) -> f64) -> Grid {
    let mut best = (*first, cost(first));
    let mut offer = |grid: Option<Grid>| {
        if let Some(grid) = grid {
            let cost = cost(&grid);
            if cost < best.1 {
                best = (grid, cost);
            }
        }
    };
    let (low, high) = first.range();
    if first.block_len() > 32 {
        // K types have many scales: those of the same numbers, a little smaller or larger.
        for step in 0..=12_u8 {
            offer(of_scaled(ty, x, 0.82 + 0.02 * f32::from(step)));
        }
    } else if first.has_min() {
        let min = x.iter().copied().fold(f32::INFINITY, f32::min);
        let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let range = max - min;
        // From a range a little wider than that of the numbers to one that cuts both ends off.
        let cut = |step: u8| (0.04 * f32::from(step) - 0.04) * range;
        for (from_low, from_high) in (0..8).flat_map(|a| (0..8).map(move |b| (a, b))) {
            let (low, top) = (min + cut(from_low), max - cut(from_high));
            offer(first.with_scale((top - low) / f32::from(high), low));
        }
    } else {
        let amax = x.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
        let end = f32::from(low).abs().max(f32::from(high));
        for step in 0..=28_u8 {
            // From a scale that cuts the largest numbers off to one that leaves room above them.
            let d = amax / end * (0.60 + 0.02 * f32::from(step));
            offer(first.with_scale(d, 0.0));
            offer(first.with_scale(-d, 0.0));
        }
    }
    best.0
}

/// The grid that plain rounding gives to numbers `factor` times as large.
fn of_scaled(ty: GgmlType, x: &[f32], factor: f32) -> Option<Grid> {
    let scaled: Vec<f32> = x.iter().map(|x| x * factor).collect();
    let mut block = vec![0; row_bytes(ty, x.len())?];
    quantize_row(ty, &scaled, &mut block).ok()?;
    Grid::of(ty, &block)
}
