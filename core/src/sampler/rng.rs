//! llama2.c's random numbers.

/// The generator of llama2.c (xorshift64*, 64 bits of state): the same seed gives the same draws
/// there and here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator that starts from `seed`; `None` for 0, from which every draw would be 0.
    #[must_use]
    pub const fn new(seed: u64) -> Option<Self> {
        match seed {
            0 => None,
            state => Some(Self { state }),
        }
    }

    /// What [`Rng::new`] takes to go on from here.
    #[must_use]
    pub const fn state(&self) -> u64 {
        self.state
    }

    /// The next 32 bits.
    pub const fn random_u32(&mut self) -> u32 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    }

    /// The next number in `[0, 1)`, a multiple of 2^-24.
    pub const fn random_f32(&mut self) -> f32 {
        (self.random_u32() >> 8) as f32 / 16_777_216.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_no_seed() {
        assert_eq!(Rng::new(0), None);
    }

    #[test]
    fn going_on_from_a_state() {
        let mut first = Rng::new(42).unwrap();
        first.random_u32();
        let mut second = Rng::new(first.state()).unwrap();
        assert_eq!(first.random_f32(), second.random_f32());
    }
}
