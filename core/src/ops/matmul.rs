//! A weight matrix times one or more vectors, in the form that its type takes.

use super::{How, Spread};
use crate::built_in;
use crate::kernels::Backend;
use crate::model::Matrix;
use crate::quant::{ActivationKind, Activations, Q8Act, Q8KAct, activation_kind};

/// Spreads the rows of a product over threads, where there are threads.
///
/// Every element of a result is computed alone, so the bits do not depend on how it is spread.
pub trait Parallel: Sync {
    /// Calls `job(start, part)` for parts that together are `out`, each a multiple of `unit`
    /// elements long but the last; `start` is the index of a part's first element. Returns when all
    /// are done.
    fn for_parts(&self, out: &mut [f32], unit: usize, job: &(dyn Fn(usize, &mut [f32]) + Sync));
}

/// Below this many multiplications a product is not worth spreading.
const WORTH_SPREADING: usize = 1 << 18;

/// Vectors in every form that the matrices they are multiplied with need.
#[derive(Debug)]
pub(crate) struct Inputs<'a> {
    /// As computed: `tokens` rows.
    pub(crate) x: &'a [f32],
    /// Blocks of 32, if [`quantized`](Self::quantize) for them.
    pub(crate) q8: &'a mut [Q8Act],
    /// Blocks of 256, if quantized for them.
    pub(crate) q8k: &'a mut [Q8KAct],
    /// Vectors.
    pub(crate) tokens: usize,
}

impl Inputs<'_> {
    /// Quantizes the vectors for all of `matrices`.
    pub(crate) fn quantize(&mut self, backend: Backend, matrices: &[&Matrix<'_>]) {
        let takes = |kind| {
            let mut kinds = matrices.iter().map(|m| activation_kind(m.ty));
            kinds.any(|k| k == Some(kind))
        };
        if built_in::ANY_OF_32 && takes(ActivationKind::Q8) {
            backend.quantize_q8(self.x, self.q8);
        }
        if built_in::ANY_OF_256 && takes(ActivationKind::Q8K) {
            backend.quantize_q8k(self.x, self.q8k);
        }
    }

    /// `out[t * rows + r] = matrix[r] · x[t]`. The vectors have been quantized for this matrix.
    pub(crate) fn multiply(
        &self,
        backend: Backend,
        spread: &mut Spread<'_>,
        matrix: &Matrix<'_>,
        out: &mut [f32],
    ) {
        self.multiply_from(0, backend, spread, matrix, out);
    }

    /// As [`multiply`](Self::multiply), for the vectors from `skipped` on.
    pub(crate) fn multiply_from(
        &self,
        skipped: usize,
        backend: Backend,
        spread: &mut Spread<'_>,
        matrix: &Matrix<'_>,
        out: &mut [f32],
    ) {
        let Matrix {
            ty, cols, bytes, ..
        } = *matrix;
        let tokens = self.tokens.saturating_sub(skipped);
        match spread {
            Spread::AtOnce => {
                let x = self.rows(ty, cols, skipped, tokens);
                backend.matmul(ty, bytes, cols, x, tokens, out);
            }
            Spread::Otherwise(how, multiply) => {
                multiply(self, skipped, backend, how, matrix, out);
            }
        }
    }

    /// `tokens` vectors from `first` on in the form for `ty`.
    fn rows(
        &self,
        ty: crate::gguf::GgmlType,
        cols: usize,
        first: usize,
        tokens: usize,
    ) -> Activations<'_> {
        let range = |len: usize| first * len..(first + tokens) * len;
        match activation_kind(ty) {
            Some(ActivationKind::Q8) if built_in::ANY_OF_32 => {
                let blocks = range(cols / Q8Act::LEN);
                Activations::Q8(self.q8.get(blocks).unwrap_or_default())
            }
            Some(ActivationKind::Q8K) if built_in::ANY_OF_256 => {
                let blocks = range(cols / Q8KAct::LEN);
                Activations::Q8K(self.q8k.get(blocks).unwrap_or_default())
            }
            _ => Activations::F32(self.x.get(range(cols)).unwrap_or_default()),
        }
    }
}

/// As [`Inputs::multiply_from`], over threads or in pieces.
pub(super) fn multiply_spread(
    inputs: &Inputs<'_>,
    skipped: usize,
    backend: Backend,
    how: &mut How<'_>,
    matrix: &Matrix<'_>,
    out: &mut [f32],
) {
    let Matrix {
        ty,
        cols,
        row_bytes,
        bytes,
    } = *matrix;
    let tokens = inputs.tokens.saturating_sub(skipped);
    let rows = out.len() / tokens.max(1);
    let one = |tokens: usize, first: usize, bytes: &[u8], out: &mut [f32]| {
        let x = inputs.rows(ty, cols, skipped + first, tokens);
        backend.matmul(ty, bytes, cols, x, tokens, out);
    };
    match how {
        How::Pieces(pause) => {
            let piece = Spread::rows(cols);
            for (token, out) in out.chunks_exact_mut(rows.max(1)).enumerate() {
                for (part, out) in out.chunks_mut(piece).enumerate() {
                    one(1, token, part_of(bytes, part * piece, row_bytes, out), out);
                    pause();
                }
            }
        }
        How::Threads(parallel) if rows * cols * tokens >= WORTH_SPREADING => {
            if tokens == 1 {
                parallel.for_parts(out, 8, &|start, out| {
                    one(1, 0, part_of(bytes, start, row_bytes, out), out);
                });
            } else {
                parallel.for_parts(out, rows, &|start, out| {
                    one(out.len() / rows, start / rows, bytes, out);
                });
            }
        }
        How::Threads(_) => one(tokens, 0, bytes, out),
    }
}

/// The rows of a matrix from `start` on, as many as results are wanted.
fn part_of<'m>(bytes: &'m [u8], start: usize, row_bytes: usize, out: &[f32]) -> &'m [u8] {
    let rows = bytes.get(start * row_bytes..(start + out.len()) * row_bytes);
    rows.unwrap_or_default()
}
