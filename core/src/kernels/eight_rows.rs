//! The way through a matrix: eight rows at a time, one or more tokens with them.
//!
//! The lanes of one or two registers hold the accumulators of eight rows. The last rows of a matrix
//! are done again together with those before them if they are fewer than eight; a matrix of fewer
//! rows is done with one row in all lanes.
#![allow(unsafe_code)]

use super::backend::Shape;

/// Rows done at a time.
const GROUP: usize = 8;

/// How eight rows are multiplied.
///
/// # Safety
///
/// [`Sums`](Self::Sums) consists of eight f32 and nothing else.
pub(super) unsafe trait EightRows {
    /// A block of activations.
    type X;
    /// Eight f32 numbers in order, in one register or two.
    type Sums: Copy;

    /// Whether rows of two blocks, such as those of stories260K, are worth code without a loop over
    /// blocks.
    const TWO_BLOCKS: bool;

    /// The products of eight rows of `blocks` blocks, `stride` bytes apart from `w` on, with the
    /// rows of `T` tokens, which lie one after the other from `x` on.
    ///
    /// # Safety
    ///
    /// The instruction set is there, `blocks` blocks of weights can be read at `w + r * stride` for
    /// each `r` of 0..8, and `T * blocks` blocks at `x`.
    unsafe fn multiply<const T: usize>(
        w: *const u8,
        stride: usize,
        blocks: usize,
        x: *const Self::X,
    ) -> [Self::Sums; T];
}

/// `out[t * rows + r]` becomes the product of weight row `r` and activation row `t`; `T` tokens are
/// done at a time where there are as many.
///
/// # Safety
///
/// The instruction set is there, and the lengths of the slices are those of `shape`.
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
        } else if M::TWO_BLOCKS && shape.blocks == 2 {
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
/// The instruction set is there, `w` points to the matrix, `first` comes from [`groups`], `T` rows of
/// activations can be read at `x` and `T` rows of results written at `out`.
#[inline(always)]
unsafe fn group<M: EightRows, const T: usize>(
    w: *const u8,
    shape: Shape,
    first: usize,
    x: *const M::X,
    out: *mut f32,
) {
    // SAFETY: a group is eight rows of the matrix or, if it has fewer, one row eight times over;
    // sums are eight f32, which may be read singly and written to where eight f32 are.
    unsafe {
        let w = w.add(first * shape.row_bytes);
        if shape.rows < GROUP {
            let sums: [M::Sums; T] = M::multiply(w, 0, shape.blocks, x);
            for (t, sums) in sums.iter().enumerate() {
                *out.add(t * shape.rows + first) = *(&raw const *sums).cast::<f32>();
            }
        } else {
            let sums: [M::Sums; T] = M::multiply(w, shape.row_bytes, shape.blocks, x);
            for (t, &sums) in sums.iter().enumerate() {
                let out = out.add(t * shape.rows + first);
                out.cast::<M::Sums>().write_unaligned(sums);
            }
        }
    }
}
