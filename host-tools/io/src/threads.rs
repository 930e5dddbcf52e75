//! Threads for the products of a session.

use std::{io, num::NonZeroUsize};

use rayon::prelude::*;
use smidgen_core::ops::Parallel;

/// A number of threads, among which a session's large products are spread. However many there are,
/// the results have the same bits.
#[derive(Debug)]
pub struct Threads {
    pool: rayon::ThreadPool,
}

impl Threads {
    /// Starts `count` threads.
    ///
    /// # Errors
    /// The system gives no more threads.
    pub fn new(count: NonZeroUsize) -> io::Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(count.get());
        let pool = pool.build().map_err(io::Error::other)?;
        Ok(Self { pool })
    }
}

impl Parallel for Threads {
    fn for_parts(&self, out: &mut [f32], unit: usize, job: &(dyn Fn(usize, &mut [f32]) + Sync)) {
        let unit = unit.max(1);
        let units = out.len().div_ceil(unit);
        let part = units.div_ceil(self.pool.current_num_threads()).max(1) * unit;
        self.pool.install(|| {
            let parts = out.par_chunks_mut(part).enumerate();
            parts.for_each(|(number, out)| job(number * part, out));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_in_one_part_that_begins_at_a_unit() {
        for (threads, len, unit) in [(1, 10, 3), (3, 10, 3), (3, 64, 8), (4, 3, 8), (2, 0, 8)] {
            let threads = Threads::new(NonZeroUsize::new(threads).unwrap()).unwrap();
            let mut out = vec![0.0; len];
            threads.for_parts(&mut out, unit, &|start, part| {
                assert_eq!(start % unit, 0);
                for (at, x) in (start..).zip(part) {
                    *x += 1.0 + at as f32;
                }
            });
            let expected: Vec<f32> = (0..len).map(|at| 1.0 + at as f32).collect();
            assert_eq!(out, expected);
        }
    }
}
