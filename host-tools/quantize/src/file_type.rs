//! Kinds of quantized files: the names that llama-quantize takes.

use smidgen_core::gguf::GgmlType;

/// A kind of file, such as `Q4_K_M`: which type most tensors get, and by which rules others get
/// more bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileType(&'static Entry);

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    name: &'static str,
    number: u32,
    base: GgmlType,
}

/// Name, number of `general.file_type` (llama.cpp's `LLAMA_FTYPE_…`), type of most tensors.
const TABLE: [Entry; 19] = [
    entry("F32", 0, GgmlType::F32),
    entry("F16", 1, GgmlType::F16),
    entry("BF16", 32, GgmlType::BF16),
    entry("Q8_0", 7, GgmlType::Q8_0),
    entry("Q4_0", 2, GgmlType::Q4_0),
    entry("Q4_1", 3, GgmlType::Q4_1),
    entry("Q5_0", 8, GgmlType::Q5_0),
    entry("Q5_1", 9, GgmlType::Q5_1),
    entry("IQ4_NL", 25, GgmlType::IQ4_NL),
    entry("Q2_K", 10, GgmlType::Q2_K),
    entry("Q2_K_S", 21, GgmlType::Q2_K),
    entry("Q3_K_S", 11, GgmlType::Q3_K),
    entry("Q3_K_M", 12, GgmlType::Q3_K),
    entry("Q3_K_L", 13, GgmlType::Q3_K),
    entry("Q4_K_S", 14, GgmlType::Q4_K),
    entry("Q4_K_M", 15, GgmlType::Q4_K),
    entry("Q5_K_S", 16, GgmlType::Q5_K),
    entry("Q5_K_M", 17, GgmlType::Q5_K),
    entry("Q6_K", 18, GgmlType::Q6_K),
];

const fn entry(name: &'static str, number: u32, base: GgmlType) -> Entry {
    Entry { name, number, base }
}

impl FileType {
    /// The kind with this name, in either case; `Q3_K`, `Q4_K` and `Q5_K` are the `_M` mixtures.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name = match name.to_ascii_uppercase() {
            name if matches!(&name[..], "Q3_K" | "Q4_K" | "Q5_K") => name + "_M",
            name => name,
        };
        Self::all().find(|ty| ty.name() == name)
    }

    /// All kinds that can be asked for.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(Self)
    }

    /// llama-quantize's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The number for `general.file_type`.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0.number
    }

    /// The type of most tensors, and of all with [`Options::pure`](crate::Options::pure).
    #[must_use]
    pub fn base(self) -> GgmlType {
        self.0.base
    }
}

impl std::fmt::Display for FileType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_their_kinds() {
        for ty in FileType::all() {
            assert_eq!(FileType::from_name(ty.name()), Some(ty));
            assert_eq!(FileType::from_name(&ty.name().to_lowercase()), Some(ty));
        }
        let name = |name| FileType::from_name(name).map(FileType::name);
        assert_eq!(name("q4_k"), Some("Q4_K_M"));
        assert_eq!(name("Q6_K"), Some("Q6_K"));
        assert_eq!(name("Q8_1"), None);
    }
}
