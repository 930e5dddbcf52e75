//! Second moments of what goes into matrices.

use std::collections::HashMap;

use rayon::prelude::*;
use smidgen_core::{
    model::Model,
    session::{Session, Tap},
};

use super::{
    Importance,
    runs::{CalibrateError, memory},
};

/// Sequences are put together in this many groups, however many threads there are, so that sums do
/// not depend on them.
const GROUPS: usize = 8;

/// Sums of the products of inputs with each other, of one place.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    /// Elements of an input.
    pub(super) len: usize,
    /// How many inputs were added up.
    pub(super) count: u64,
    /// Row `i`, from column `i` on: of a symmetric matrix the upper half counts.
    pub(super) sums: Vec<f64>,
}

impl Moment {
    pub(super) fn new(len: usize) -> Self {
        Self {
            len,
            count: 0,
            sums: vec![0.0; len * len],
        }
    }

    pub(super) fn take(&mut self, x: &[f32]) {
        self.count += 1;
        for ((i, &a), sums) in x
            .iter()
            .enumerate()
            .zip(self.sums.chunks_exact_mut(self.len))
        {
            let a = f64::from(a);
            for (sum, &b) in sums[i..].iter_mut().zip(&x[i..]) {
                *sum += a * f64::from(b);
            }
        }
    }

    /// The diagonal.
    pub(super) fn importance(&self) -> Importance {
        #[allow(clippy::cast_possible_truncation)] // To the nearest.
        let sums = (0..self.len).map(|i| self.sums[i * self.len + i] as f32);
        Importance {
            sums: sums.collect(),
            count: self.count,
        }
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        for (sum, other) in self.sums.iter_mut().zip(&other.sums) {
            *sum += other;
        }
    }
}

/// The moments of all places.
#[derive(Clone, Debug, Default)]
pub(super) struct Moments(HashMap<Tap, Moment>);

impl Moments {
    /// Runs over sequences of tokens.
    pub(super) fn measure(
        model: &Model<'_>,
        sequences: &[Vec<u32>],
    ) -> Result<Self, CalibrateError> {
        let group = sequences.len().div_ceil(GROUPS).max(1);
        let groups: Result<Vec<_>, _> = sequences
            .par_chunks(group)
            .map(|sequences| Self::of_group(model, sequences))
            .collect();
        let mut all = Self::default();
        for group in groups? {
            for (tap, moment) in group.0 {
                let sum = all.0.entry(tap);
                sum.or_insert_with(|| Moment::new(moment.len)).add(&moment);
            }
        }
        Ok(all)
    }

    fn of_group(model: &Model<'_>, sequences: &[Vec<u32>]) -> Result<Self, CalibrateError> {
        let mut moments = Self::default();
        let hp = &model.hyperparameters;
        let width = |tap| match tap {
            Tap::Attention(_) | Tap::FeedForward(_) | Tap::Classifier => hp.n_embd,
            Tap::AttentionOutput(_) => hp.q_dim(),
            Tap::FeedForwardDown(_) => hp.n_ff,
        };
        let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
        let (options, mut memory) = memory(model, longest);
        let mut probe = |tap: Tap, rows: &[f32]| {
            let len = width(tap);
            let moment = moments.0.entry(tap).or_insert_with(|| Moment::new(len));
            rows.chunks_exact(len).for_each(|row| moment.take(row));
        };
        let session = Session::new(model, options, memory.buffers());
        let session = session.map_err(|error| CalibrateError::new(&error))?;
        let mut session = session.with_probe(&mut probe);
        for sequence in sequences {
            session.reset();
            session
                .prompt_each(sequence, |_, _| {})
                .map_err(|error| CalibrateError::new(&error))?;
        }
        Ok(moments)
    }

    /// Each place with its moment.
    pub(super) fn into_taps(self) -> Vec<(Tap, Moment)> {
        self.0.into_iter().collect()
    }
}
