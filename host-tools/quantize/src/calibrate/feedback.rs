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

use super::{Importance, moments::Moment, scales};

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

    /// The rule where only the sums of the squares of columns are known: none of feedback. Columns
    /// beyond those that are known are not used.
    pub(super) fn of_columns(importance: &Importance, len: usize) -> Self {
        let trace: f64 = importance.sums.iter().copied().map(f64::from).sum();
        let damping = (DAMPING * trace / len.max(1) as f64).max(f64::MIN_POSITIVE);
        let mut upper = vec![0.0; len * len];
        for i in 0..len {
            let sum = importance.sums.get(i).copied().unwrap_or(0.0);
            upper[i * len + i] = 1.0 / (f64::from(sum) + damping).sqrt();
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
            let cost = |grid: &Grid| self.try_block(grid, start, &given).1;
            let grid = scales::best(ty, &first, &single, cost);
            let (qs, _) = self.try_block(&grid, start, &given);
            self.carry(&grid, start, &qs, &mut row);
            if !grid.pack(&qs, block) {
                return None;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use smidgen_core::quant::dequantize_row;

    /// Inputs that go together, and rows of weights.
    fn example(len: usize, rows: usize) -> (Moment, Vec<f32>) {
        let mut state = 7_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        let mut moment = Moment::new(len);
        for _ in 0..4 * len {
            let shared = [random(), random(), random()];
            let x: Vec<f32> = (0..len)
                .map(|i| shared[i % 3] * 2.0 + 0.5 * random())
                .collect();
            moment.take(&x);
        }
        (moment, (0..len * rows).map(|_| random()).collect())
    }

    /// What the errors of encoded rows cost.
    fn cost(moment: &Moment, ty: GgmlType, numbers: &[f32], encoded: &[u8]) -> f64 {
        let len = moment.len;
        let mut decoded = vec![0.0; numbers.len()];
        dequantize_row(ty, encoded, &mut decoded).unwrap();
        let pairs = numbers.chunks(len).zip(decoded.chunks(len));
        let of_row = |(a, b): (&[f32], &[f32])| {
            let error: Vec<f64> = a.iter().zip(b).map(|(a, b)| f64::from(a - b)).collect();
            let mut sum = 0.0;
            for i in 0..len {
                for j in i..len {
                    let twice = if i == j { 1.0 } else { 2.0 };
                    sum += twice * error[i] * error[j] * moment.sums[i * len + j];
                }
            }
            sum
        };
        pairs.map(of_row).sum()
    }

    #[test]
    fn feedback_costs_less_than_plain_rounding_in_every_type() {
        for ty in [
            GgmlType::Q8_0,
            GgmlType::Q4_0,
            GgmlType::Q4_1,
            GgmlType::Q5_0,
            GgmlType::Q5_1,
            GgmlType::IQ4_NL,
            GgmlType::Q2_K,
            GgmlType::Q3_K,
            GgmlType::Q4_K,
            GgmlType::Q5_K,
            GgmlType::Q6_K,
        ] {
            let len = if ty.geometry().unwrap().block_len == 256 {
                256
            } else {
                96
            };
            let (moment, numbers) = example(len, 4);
            let mut plain = vec![0; row_bytes(ty, len).unwrap() * 4];
            quantize_row(ty, &numbers, &mut plain).unwrap();
            let rule = Feedback::new(&moment);
            let encoded = rule.encode(ty, &numbers, len).unwrap();
            let plain = cost(&moment, ty, &numbers, &plain);
            let ours = cost(&moment, ty, &numbers, &encoded);
            assert!(ours < plain * 0.6, "{ty}: {ours} and {plain}");

            // Without knowing how inputs go together the gain is small, but there.
            let rule = Feedback::of_columns(&moment.importance(), len);
            let encoded = rule.encode(ty, &numbers, len).unwrap();
            assert_eq!(encoded.len(), row_bytes(ty, len).unwrap() * 4);
        }
    }

    #[test]
    fn u_is_the_factor_of_the_inverse() {
        let (mut moment, _) = example(12, 1);
        let rule = Feedback::new(&moment);
        let len = moment.len;
        let trace: f64 = (0..len).map(|i| moment.sums[i * len + i]).sum();
        for i in 0..len {
            moment.sums[i * len + i] += DAMPING * trace / len as f64;
        }
        let h = |i: usize, j: usize| moment.sums[i.min(j) * len + i.max(j)];
        for i in 0..len {
            for j in 0..len {
                // H (Uᵀ U) is the identity.
                let inverse = |k: usize| -> f64 {
                    let u = |row: usize, column: usize| rule.upper[row * len + column];
                    (0..len).map(|row| u(row, k) * u(row, j)).sum()
                };
                let product: f64 = (0..len).map(|k| h(i, k) * inverse(k)).sum();
                let expected = if i == j { 1.0 } else { 0.0 };
                assert!((product - expected).abs() < 1e-8, "{i} {j}: {product}");
            }
        }
    }
}
