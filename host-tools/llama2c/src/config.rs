//! Hyperparameters, and what must hold between them.

use std::fmt;

/// The hyperparameters of a checkpoint. Whoever has one knows that all are positive and fit
/// together: [`Config::new`] checks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    dim: u32,
    hidden_dim: u32,
    n_layers: u32,
    n_heads: u32,
    n_kv_heads: u32,
    vocab_size: u32,
    seq_len: u32,
}

/// The largest number of elements that a matrix may have: llama2.c counts them with an `int`.
const MAX_ELEMENTS: u64 = i32::MAX as u64;

impl Config {
    /// Checks hyperparameters in the order of the header: `dim`, `hidden_dim`, `n_layers`,
    /// `n_heads`, `n_kv_heads`, `vocab_size`, `seq_len`.
    ///
    /// # Errors
    /// The first one that is wrong.
    pub fn new(header: [i32; 7]) -> Result<Self, ConfigError> {
        const FIELDS: [&str; 7] = [
            "dim",
            "hidden_dim",
            "n_layers",
            "n_heads",
            "n_kv_heads",
            "vocab_size",
            "seq_len",
        ];
        let mut checked = [0; 7];
        for ((field, found), checked) in FIELDS.into_iter().zip(header).zip(&mut checked) {
            match u32::try_from(found) {
                Ok(value) if value > 0 => *checked = value,
                _ => return Err(ConfigError::NotPositive { field, found }),
            }
        }
        let [
            dim,
            hidden_dim,
            n_layers,
            n_heads,
            n_kv_heads,
            vocab_size,
            seq_len,
        ] = checked;
        let config = Self {
            dim,
            hidden_dim,
            n_layers,
            n_heads,
            n_kv_heads,
            vocab_size,
            seq_len,
        };
        if n_kv_heads > n_heads {
            return Err(ConfigError::MoreKvHeads {
                n_heads,
                n_kv_heads,
            });
        }
        if !dim.is_multiple_of(n_heads) {
            return Err(ConfigError::Heads { dim, n_heads });
        }
        if !n_heads.is_multiple_of(n_kv_heads) {
            return Err(ConfigError::KvHeads {
                n_heads,
                n_kv_heads,
            });
        }
        if !config.head_size().is_multiple_of(2) {
            return Err(ConfigError::OddHeadSize {
                head_size: config.head_size(),
            });
        }
        let products = [
            ("vocab_size * dim", vocab_size, dim),
            ("hidden_dim * dim", hidden_dim, dim),
            ("dim * dim", dim, dim),
        ];
        for (what, a, b) in products {
            let elements = u64::from(a) * u64::from(b);
            if elements > MAX_ELEMENTS {
                return Err(ConfigError::TooLarge { what, elements });
            }
        }
        Ok(config)
    }

    /// Length of the residual stream.
    #[must_use]
    pub fn dim(&self) -> u32 {
        self.dim
    }

    /// Length of the feed-forward network's inner vector.
    #[must_use]
    pub fn hidden_dim(&self) -> u32 {
        self.hidden_dim
    }

    /// Number of layers.
    #[must_use]
    pub fn n_layers(&self) -> u32 {
        self.n_layers
    }

    /// Query heads.
    #[must_use]
    pub fn n_heads(&self) -> u32 {
        self.n_heads
    }

    /// Key and value heads; divides the number of query heads.
    #[must_use]
    pub fn n_kv_heads(&self) -> u32 {
        self.n_kv_heads
    }

    /// Number of tokens.
    #[must_use]
    pub fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    /// Positions that the model was trained on.
    #[must_use]
    pub fn seq_len(&self) -> u32 {
        self.seq_len
    }

    /// Length of one head, an even number.
    #[must_use]
    pub fn head_size(&self) -> u32 {
        self.dim / self.n_heads
    }

    /// Length of a position's keys, and of its values.
    #[must_use]
    pub fn kv_dim(&self) -> u32 {
        self.head_size() * self.n_kv_heads
    }
}

/// Why hyperparameters make no model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// Zero or negative.
    NotPositive {
        /// The hyperparameter.
        field: &'static str,
        /// Its value.
        found: i32,
    },
    /// `dim` is no multiple of `n_heads`.
    Heads {
        /// Length of the residual stream.
        dim: u32,
        /// Query heads.
        n_heads: u32,
    },
    /// More KV heads than heads.
    MoreKvHeads {
        /// Query heads.
        n_heads: u32,
        /// KV heads.
        n_kv_heads: u32,
    },
    /// `n_heads` is no multiple of `n_kv_heads`.
    KvHeads {
        /// Query heads.
        n_heads: u32,
        /// KV heads.
        n_kv_heads: u32,
    },
    /// RoPE turns pairs: a head needs an even size.
    OddHeadSize {
        /// `dim / n_heads`.
        head_size: u32,
    },
    /// A matrix of more elements than llama2.c can count.
    TooLarge {
        /// The product.
        what: &'static str,
        /// Its value.
        elements: u64,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPositive { field, found } => {
                write!(f, "{field} is {found}, it must be positive")
            }
            Self::Heads { dim, n_heads } => {
                write!(f, "dim {dim} is not divisible by n_heads {n_heads}")
            }
            Self::MoreKvHeads {
                n_heads,
                n_kv_heads,
            } => write!(
                f,
                "n_kv_heads {n_kv_heads} is greater than n_heads {n_heads}"
            ),
            Self::KvHeads {
                n_heads,
                n_kv_heads,
            } => write!(
                f,
                "n_heads {n_heads} is not divisible by n_kv_heads {n_kv_heads}"
            ),
            Self::OddHeadSize { head_size } => write!(
                f,
                "the head size dim / n_heads is {head_size}, it must be even (RoPE turns pairs)"
            ),
            Self::TooLarge { what, elements } => write!(
                f,
                "{what} is {elements}, more elements than a matrix may have ({MAX_ELEMENTS})"
            ),
        }
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [i32; 7] = [64, 172, 5, 8, 4, 512, 512];

    fn with(at: usize, value: i32) -> Result<Config, ConfigError> {
        let mut header = GOOD;
        header[at] = value;
        Config::new(header)
    }

    #[test]
    fn derived_sizes() {
        let config = Config::new(GOOD).unwrap();
        assert_eq!((config.head_size(), config.kv_dim()), (8, 32));
    }

    #[test]
    fn each_fault_has_its_error() {
        for at in 0..7 {
            for value in [0, -1, i32::MIN] {
                let error = with(at, value).unwrap_err();
                let expected =
                    matches!(error, ConfigError::NotPositive { found, .. } if found == value);
                assert!(expected, "{at} {value} {error}");
            }
        }
        let (dim, n_heads) = (66, 8);
        assert_eq!(with(0, 66), Err(ConfigError::Heads { dim, n_heads }));
        let n_kv_heads = 16;
        let more = ConfigError::MoreKvHeads {
            n_heads,
            n_kv_heads,
        };
        assert_eq!(with(4, 16), Err(more));
        let n_kv_heads = 3;
        let ragged = ConfigError::KvHeads {
            n_heads,
            n_kv_heads,
        };
        assert_eq!(with(4, 3), Err(ragged));
        let odd = ConfigError::OddHeadSize { head_size: 3 };
        assert_eq!(with(0, 24), Err(odd));
        let too_large = |what, elements| Err(ConfigError::TooLarge { what, elements });
        // 2^31 - 1 elements at most: one row of 64 less than 2^25.
        assert!(with(5, (1 << 25) - 1).is_ok());
        assert_eq!(with(5, 1 << 25), too_large("vocab_size * dim", 1 << 31));
        assert_eq!(with(1, 1 << 25), too_large("hidden_dim * dim", 1 << 31));
        let header = [46_352, 1, 1, 8, 4, 1, 1];
        assert_eq!(Config::new(header), too_large("dim * dim", 46_352 * 46_352));
        assert!(Config::new([i32::MAX; 7]).is_err());
    }
}
