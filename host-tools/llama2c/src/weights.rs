//! The numbers of a tensor, where they lie in the checkpoint.

/// The numbers of one tensor, borrowed from the checkpoint.
#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// Little-endian f32.
    F32(&'a [[u8; 4]]),
    /// Signed bytes, each to be multiplied by the scale of its group.
    #[non_exhaustive] // That the three fit together is for the checkpoint to see to.
    Int8 {
        /// One byte an element.
        quants: &'a [u8],
        /// One little-endian f32 a group.
        scales: &'a [[u8; 4]],
        /// Elements of a group; groups run on across the ends of rows.
        group_size: usize,
    },
}

impl Weights<'_> {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::Int8 { quants, .. } => quants.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements from `start` on, as many as `out` has room for, and returns that part of `out`
    /// that they fill. An int8 element is exactly what llama2.c makes of it: one product in f32.
    pub fn read<'o>(&self, start: usize, out: &'o mut [f32]) -> &'o mut [f32] {
        let left = self.len().saturating_sub(start);
        let len = out.len().min(left);
        let out = &mut out[..len];
        match self {
            Self::F32(values) => {
                for (out, value) in out.iter_mut().zip(values.iter().skip(start)) {
                    *out = f32::from_le_bytes(*value);
                }
            }
            Self::Int8 {
                quants,
                scales,
                group_size,
            } => {
                let mut filled = 0;
                while filled < len {
                    let at = start + filled;
                    let group = at / group_size;
                    let end = ((group + 1) * group_size).min(start + len);
                    let scale = f32::from_le_bytes(scales[group]);
                    for &quant in &quants[at..end] {
                        out[filled] = f32::from(quant.cast_signed()) * scale;
                        filled += 1;
                    }
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_from_any_start() {
        let quants = [1, 2, 0x80, 255, 5, 6];
        let scales = [0.5_f32, 2.0, -1.0].map(f32::to_le_bytes);
        let weights = Weights::Int8 {
            quants: &quants,
            scales: &scales,
            group_size: 2,
        };
        let all = [0.5, 1.0, -256.0, -2.0, -5.0, -6.0];
        for start in 0..=6 {
            for room in 0..8 {
                let mut out = [f32::NAN; 8];
                let end = (start + room).min(6);
                assert_eq!(weights.read(start, &mut out[..room]), &all[start..end]);
            }
        }
        assert!(weights.read(9, &mut [0.0]).is_empty());
    }
}
