//! The way through a matrix: eight rows at a time, one or more tokens with them.

use core::arch::x86_64::{__m256, _mm256_cvtss_f32, _mm256_storeu_ps};

use super::super::backend::Shape;

/// Rows done at a time.
const GROUP: usize = 8;

/// How eight rows are multiplied.
pub(super) trait EightRows {
    /// A block of activations.
    type X;

    /// The products of eight rows of `blocks` blocks, `stride` bytes apart from `w` on, with the
    /// rows of `T` tokens, which lie one after the other from `x` on.
    ///
    /// # Safety
    ///
    /// AVX2 and F16C are there, `blocks` blocks of weights can be read at `w + r * stride` for each
    /// `r` of 0..8, and `T * blocks` blocks at `x`.
    unsafe fn multiply<const T: usize>(
        w: *const u8,
        stride: usize,
        blocks: usize,
        x: *const Self::X,
    ) -> [__m256; T];
}

/// `out[t * rows + r]` becomes the product of weight row `r` and activation row `t`; `T` tokens are
/// done at a time where there are as many.
///
/// # Safety
///
/// AVX2 and F16C are there, and the lengths of the slices are those of `shape`.
#[inline(always)]
pub(super) unsafe fn matmul<M: EightRows, const T: usize>(
    weights: &[u8],
    shape: Shape,
    x: &[M::X],
    out: &mut [f32],
) {
    let tokens = x.len() / shape.blocks;
    let (w, x, out) = (weights.as_ptr(), x.as_ptr(), out.as_mut_ptr());
    // SAFETY: the slices have whole rows of weights, of activations and of results.
    unsafe {
        if tokens > 1 {
            for first in groups(shape.rows) {
                let mut token = 0;
                while token < tokens {
                    let x = x.add(token * shape.blocks);
                    let out = out.add(token * shape.rows);
                    if tokens - token >= T {
                        group::<M, T>(w, shape, first, x, out);
                        token += T;
                    } else {
                        group::<M, 1>(w, shape, first, x, out);
                        token += 1;
                    }
                }
            }
        } else if shape.blocks == 2 {
            // The rows of stories260K: with a constant there is no loop over blocks.
            let shape = Shape { blocks: 2, ..shape };
            for first in groups(shape.rows) {
                group::<M, 1>(w, shape, first, x, out);
            }
        } else {
            for first in groups(shape.rows) {
                group::<M, 1>(w, shape, first, x, out);
            }
        }
    }
}

/// The first row of each group: the last one begins where it ends with the last row. With fewer
/// than eight rows each is its own group.
#[inline(always)]
fn groups(rows: usize) -> impl Iterator<Item = usize> {
    let (step, last) = if rows < GROUP {
        (1, rows)
    } else {
        (GROUP, rows - GROUP)
    };
    (0..rows).step_by(step).map(move |row| row.min(last))
}

/// The products of one group with `T` rows of activations.
///
/// # Safety
///
/// AVX2 and F16C are there, `w` points to the matrix, `first` comes from [`groups`], `T` rows of
/// activations can be read at `x` and `T` rows of results written at `out`.
#[inline(always)]
unsafe fn group<M: EightRows, const T: usize>(
    w: *const u8,
    shape: Shape,
    first: usize,
    x: *const M::X,
    out: *mut f32,
) {
    // SAFETY: a group is eight rows of the matrix or, if it has fewer, one row eight times over.
    unsafe {
        let w = w.add(first * shape.row_bytes);
        if shape.rows < GROUP {
            let sums: [__m256; T] = M::multiply(w, 0, shape.blocks, x);
            for t in 0..T {
                *out.add(t * shape.rows + first) = _mm256_cvtss_f32(sums[t]);
            }
        } else {
            let sums: [__m256; T] = M::multiply(w, shape.row_bytes, shape.blocks, x);
            for t in 0..T {
                _mm256_storeu_ps(out.add(t * shape.rows + first), sums[t]);
            }
        }
    }
}
