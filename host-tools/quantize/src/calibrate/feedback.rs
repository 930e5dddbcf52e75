//! Rounding with error feedback.
//!
//! With inputs x of second moment H, an error e of a row costs eᵀ H e. Columns are rounded in
//! order; the error of one is made good as well as can be by the columns behind it, by a rule that
//! is a row of the Cholesky factor U of the inverse, H⁻¹ = Uᵀ U (Frantar et al., GPTQ, 2022).

use rayon::prelude::*;
use smidgen_core::{
    gguf::GgmlType,
    quant::{Grid, quantize_row, row_bytes},
};

use super::{moments::Moment, scales};

/// How much of the mean of its diagonal is added to the diagonal of H, so that it can be inverted
/// however few inputs there were.
const DAMPING: f64 = 0.01;

/// The rule by which the error of one column changes those behind it.
#[derive(Clone, Debug)]
pub(super) struct Feedback {
    len: usize,
    /// U, row by row.
    upper: Vec<f64>,
}

impl Feedback {
    pub(super) fn new(moment: &Moment) -> Self {
        let len = moment.len;
        let mut h = moment.sums.clone();
        let trace: f64 = (0..len).map(|i| h[i * len + i]).sum();
        let damping = (DAMPING * trace / len.max(1) as f64).max(f64::MIN_POSITIVE);
        for i in 0..len {
            h[i * len + i] += damping;
        }
        // H = R Rᵀ with R upper triangular, from the last column to the first: then H⁻¹ is
        // (R⁻¹)ᵀ R⁻¹, and R⁻¹ is upper triangular too.
        let mut r = vec![0.0; len * len];
        for j in (0..len).rev() {
            for i in (0..=j).rev() {
                let sum: f64 = (j + 1..len).map(|k| r[i * len + k] * r[j * len + k]).sum();
                let rest = h[i * len + j] - sum;
                r[i * len + j] = if i == j {
                    rest.max(damping * 1e-3).sqrt()
                } else {
                    rest / r[j * len + j]
                };
            }
        }
        let mut upper = vec![0.0; len * len];
        for j in 0..len {
            upper[j * len + j] = 1.0 / r[j * len + j];
            for i in (0..j).rev() {
                let sum: f64 = (i + 1..=j)
                    .map(|k| r[i * len + k] * upper[k * len + j])
                    .sum();
                upper[i * len + j] = -sum / r[i * len + i];
            }
        }
        Self { len, upper }
    }

    /// The elements of U's row `i` from column `i` on.
    fn row(&self, i: usize) -> &[f64] {
        &self.upper[i * self.len + i..(i + 1) * self.len]
    }

    /// Encodes rows of `row_len` numbers; `None` if that is not what was measured, or the type has
    /// no blocks or cannot hold the numbers.
    pub(super) fn encode(&self, ty: GgmlType, numbers: &[f32], row_len: usize) -> Option<Vec<u8>> {
        if row_len != self.len || row_len == 0 {
            return None;
        }
        let bytes = row_bytes(ty, row_len)?;
        let rows: Option<Vec<_>> = numbers
            .par_chunks_exact(row_len)
            .map(|row| {
                let mut out = vec![0; bytes];
                self.encode_row(ty, row, &mut out)?;
                Some(out)
            })
            .collect();
        Some(rows?.concat())
    }

    fn encode_row(&self, ty: GgmlType, row: &[f32], out: &mut [u8]) -> Option<()> {
        let geometry = ty.geometry()?;
        let block_len = geometry.block_len as usize;
        let mut row: Vec<f64> = row.iter().copied().map(f64::from).collect();
        let blocks = out.chunks_exact_mut(geometry.block_bytes as usize);
        for (start, block) in (0..).step_by(block_len).zip(blocks) {
            let given = row.get(start..start + block_len)?.to_vec();
            #[allow(clippy::cast_possible_truncation)] // To the nearest.
            let single: Vec<f32> = given.iter().map(|&x| x as f32).collect();
            quantize_row(ty, &single, block).ok()?;
            let first = Grid::of(ty, block)?;
            let grid = scales::best(&first, &single, |grid| {
                self.try_block(grid, start, &given).1
            });
            let (qs, _) = self.try_block(&grid, start, &given);
            self.carry(&grid, start, &qs, &mut row);
            grid.pack(&qs, block);
        }
        Some(())
    }

    /// Rounds a block with feedback inside of it: the quants, and what they cost.
    fn try_block(&self, grid: &Grid, start: usize, given: &[f64]) -> (Vec<i8>, f64) {
        let mut x = given.to_vec();
        let mut qs = Vec::with_capacity(x.len());
        let mut cost = 0.0;
        for i in 0..x.len() {
            let rule = self.row(start + i);
            #[allow(clippy::cast_possible_truncation)] // To the nearest.
            let q = grid.nearest(i, x[i] as f32);
            let error = (x[i] - f64::from(grid.value(i, q))) / rule[0];
            cost += error * error;
            for (x, u) in x[i + 1..].iter_mut().zip(&rule[1..]) {
                *x -= error * u;
            }
            qs.push(q);
        }
        (qs, cost)
    }

    /// Carries the errors of a block on to all columns behind it.
    fn carry(&self, grid: &Grid, start: usize, qs: &[i8], row: &mut [f64]) {
        for (i, &q) in qs.iter().enumerate() {
            let rule = self.row(start + i);
            let error = (row[start + i] - f64::from(grid.value(i, q))) / rule[0];
            for (x, u) in row[start + i + 1..].iter_mut().zip(&rule[1..]) {
                *x -= error * u;
            }
        }
    }
}
