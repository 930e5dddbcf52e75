//! The table of tensor types that ggml defines: numbers, names, block geometry.

/// A tensor's element type, as ggml numbers them.
///
/// A number that this table does not know is kept as [`GgmlType::Unknown`], so that a file can be
/// shown; its [`geometry`](GgmlType::geometry) is not known and its bytes cannot be addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(non_camel_case_types, missing_docs)] // The variants carry ggml's own names.
#[non_exhaustive]
pub enum GgmlType {
    F32,
    F16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    Q8_K,
    IQ2_XXS,
    IQ2_XS,
    IQ3_XXS,
    IQ1_S,
    IQ4_NL,
    IQ3_S,
    IQ2_S,
    IQ4_XS,
    I8,
    I16,
    I32,
    I64,
    F64,
    IQ1_M,
    BF16,
    TQ1_0,
    TQ2_0,
    MXFP4,
    NVFP4,
    Q1_0,
    Q2_0,
    /// A number that ggml has not given away, or has withdrawn (4, 5, 31 to 33, 36 to 38).
    Unknown(u32),
}

/// How elements are packed: `block_len` elements of a row take `block_bytes` bytes. All known blocks
/// have a power of two of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Geometry {
    /// Elements in a block; a row's length is a multiple of it.
    pub block_len: u32,
    /// Bytes that a block takes.
    pub block_bytes: u32,
}

impl Geometry {
    /// Blocks of a row of `row_len` elements; `None` if it is no whole number of them.
    #[must_use]
    pub fn blocks(&self, row_len: u64) -> Option<u64> {
        // Without a division, which takes a kilobyte of flash on 32-bit chips.
        let shift = self.block_len.trailing_zeros();
        let blocks = row_len.checked_shr(shift)?;
        (blocks.checked_shl(shift)? == row_len).then_some(blocks)
    }
}

/// Every known type: number, type, name, block length in elements, block size in bytes.
const TABLE: [(u8, GgmlType, &str, u16, u16); 35] = [
    (0, GgmlType::F32, "F32", 1, 4),
    (1, GgmlType::F16, "F16", 1, 2),
    (2, GgmlType::Q4_0, "Q4_0", 32, 18),
    (3, GgmlType::Q4_1, "Q4_1", 32, 20),
    (6, GgmlType::Q5_0, "Q5_0", 32, 22),
    (7, GgmlType::Q5_1, "Q5_1", 32, 24),
    (8, GgmlType::Q8_0, "Q8_0", 32, 34),
    (9, GgmlType::Q8_1, "Q8_1", 32, 36),
    (10, GgmlType::Q2_K, "Q2_K", 256, 84),
    (11, GgmlType::Q3_K, "Q3_K", 256, 110),
    (12, GgmlType::Q4_K, "Q4_K", 256, 144),
    (13, GgmlType::Q5_K, "Q5_K", 256, 176),
    (14, GgmlType::Q6_K, "Q6_K", 256, 210),
    (15, GgmlType::Q8_K, "Q8_K", 256, 292),
    (16, GgmlType::IQ2_XXS, "IQ2_XXS", 256, 66),
    (17, GgmlType::IQ2_XS, "IQ2_XS", 256, 74),
    (18, GgmlType::IQ3_XXS, "IQ3_XXS", 256, 98),
    (19, GgmlType::IQ1_S, "IQ1_S", 256, 50),
    (20, GgmlType::IQ4_NL, "IQ4_NL", 32, 18),
    (21, GgmlType::IQ3_S, "IQ3_S", 256, 110),
    (22, GgmlType::IQ2_S, "IQ2_S", 256, 82),
    (23, GgmlType::IQ4_XS, "IQ4_XS", 256, 136),
    (24, GgmlType::I8, "I8", 1, 1),
    (25, GgmlType::I16, "I16", 1, 2),
    (26, GgmlType::I32, "I32", 1, 4),
    (27, GgmlType::I64, "I64", 1, 8),
    (28, GgmlType::F64, "F64", 1, 8),
    (29, GgmlType::IQ1_M, "IQ1_M", 256, 56),
    (30, GgmlType::BF16, "BF16", 1, 2),
    (34, GgmlType::TQ1_0, "TQ1_0", 256, 54),
    (35, GgmlType::TQ2_0, "TQ2_0", 256, 66),
    (39, GgmlType::MXFP4, "MXFP4", 32, 17),
    (40, GgmlType::NVFP4, "NVFP4", 64, 36),
    (41, GgmlType::Q1_0, "Q1_0", 128, 18),
    (42, GgmlType::Q2_0, "Q2_0", 64, 18),
];

impl GgmlType {
    /// The type with ggml's number `id`; one that is not in the table is [`GgmlType::Unknown`].
    #[must_use]
    pub fn from_id(id: u32) -> Self {
        let found = TABLE.iter().find(|entry| u32::from(entry.0) == id);
        found.map_or(Self::Unknown(id), |entry| entry.1)
    }

    /// The type with ggml's name `name` (upper or lower case), if the table has it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let mut entries = TABLE.iter();
        entries
            .find(|entry| entry.2.eq_ignore_ascii_case(name))
            .map(|entry| entry.1)
    }

    /// ggml's number of this type.
    #[must_use]
    pub fn id(self) -> u32 {
        match self {
            Self::Unknown(id) => id,
            known => known.entry().map_or(u32::MAX, |entry| entry.0.into()),
        }
    }

    /// ggml's name of this type, `None` for an unknown one ([`core::fmt::Display`] prints `Unknown(n)`).
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.entry().map(|entry| entry.2)
    }

    /// Block length and block size, `None` for an unknown type.
    #[must_use]
    pub fn geometry(self) -> Option<Geometry> {
        self.entry().map(|entry| Geometry {
            block_len: entry.3.into(),
            block_bytes: entry.4.into(),
        })
    }

    /// All types in the table, in the order of their numbers.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        TABLE.iter().map(|entry| entry.1)
    }

    fn entry(self) -> Option<&'static (u8, Self, &'static str, u16, u16)> {
        TABLE.iter().find(|entry| entry.1 == self)
    }
}

impl core::fmt::Display for GgmlType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match (self.name(), self) {
            (Some(name), _) => f.pad(name),
            (None, other) => write!(f, "Unknown({})", other.id()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back_to_the_type() {
        for ty in GgmlType::all() {
            assert_eq!(GgmlType::from_id(ty.id()), ty);
            assert_eq!(GgmlType::from_name(ty.name().unwrap()), Some(ty));
        }
        for id in [4, 5, 31, 32, 33, 36, 37, 38, 43, 999, u32::MAX] {
            assert_eq!(GgmlType::from_id(id), GgmlType::Unknown(id));
            assert_eq!(GgmlType::from_id(id).geometry(), None);
        }
    }

    #[test]
    fn table_is_sorted_by_number() {
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn blocks_are_counted_whole() {
        for geometry in GgmlType::all().filter_map(GgmlType::geometry) {
            assert!(geometry.block_len.is_power_of_two());
            let len = u64::from(geometry.block_len);
            for row in [0, 1, 31, 32, 96, 256, 4000, 4096, u64::MAX, u64::MAX - 255] {
                let expected = (row % len == 0).then_some(row / len);
                assert_eq!(geometry.blocks(row), expected);
            }
        }
    }
}
