//! The search for the scale of a block.

use smidgen_core::quant::Grid;

/// The grid of least cost among that of plain rounding and others near it.
pub(super) fn best(first: &Grid, x: &[f32], cost: impl Fn(&Grid) -> f64) -> Grid {
    let mut best = (*first, cost(first));
    let mut try_scale = |d: f32, m: f32| {
        if let Some(grid) = first.with_scale(d, m) {
            let cost = cost(&grid);
            if cost < best.1 {
                best = (grid, cost);
            }
        }
    };
    let (low, high) = first.range();
    if first.has_min() {
        let min = x.iter().copied().fold(f32::INFINITY, f32::min);
        let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let steps = f32::from(high);
        for from_low in 0..8_u8 {
            for from_high in 0..8_u8 {
                let cut = |step: u8| 0.04 * f32::from(step) - 0.04;
                let range = max - min;
                let (low, high) = (min + cut(from_low) * range, max - cut(from_high) * range);
                try_scale((high - low) / steps, low);
            }
        }
    } else {
        let amax = x.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
        let end = f32::from(low).abs().max(f32::from(high));
        for step in 0..=28_u8 {
            // The largest number lies between a little inside the range and well beyond it.
            let d = amax / end * (0.60 + 0.02 * f32::from(step));
            try_scale(d, 0.0);
            try_scale(-d, 0.0);
        }
    }
    best.0
}
