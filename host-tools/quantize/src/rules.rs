//! Which type a tensor gets: llama-quantize's rules for dense llama models.

use smidgen_core::gguf::GgmlType;

use crate::{FileType, role::Role};

/// What the rules depend on beside a tensor's role.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) file_type: FileType,
    /// Whether all tensors get the base type.
    pub(crate) pure: bool,
    /// Whether the file has an output matrix; without one, the embeddings are it too.
    pub(crate) has_output: bool,
    pub(crate) layers: u64,
    /// Query heads for each KV head.
    pub(crate) group: u64,
    /// Whether there are importance weights.
    pub(crate) has_imatrix: bool,
}

impl Rules {
    /// The type by the rules alone, before fallbacks; `row_len` are the elements of a row.
    pub(crate) fn wanted(&self, role: Role, layer: Option<u64>, row_len: u64) -> GgmlType {
        let base = self.file_type.base();
        if self.pure || matches!(base, GgmlType::F32 | GgmlType::F16 | GgmlType::BF16) {
            return base;
        }
        let layer = layer.unwrap_or(0);
        let name = self.file_type.name();
        match role {
            Role::Output => output(base, row_len),
            Role::TokenEmbd if !self.has_output => output(base, row_len),
            Role::AttnV => match name {
                "Q2_K" if self.group >= 4 => GgmlType::Q4_K,
                "Q2_K" => GgmlType::Q3_K,
                "Q2_K_S" if self.group >= 4 => GgmlType::Q4_K,
                "Q3_K_M" if layer < 2 => GgmlType::Q5_K,
                "Q3_K_M" => GgmlType::Q4_K,
                "Q3_K_L" => GgmlType::Q5_K,
                "IQ4_NL" if self.group >= 4 => GgmlType::Q5_K,
                "Q4_K_M" | "Q5_K_M" if self.more_bits(layer) => GgmlType::Q6_K,
                "Q4_K_S" if layer < 4 => GgmlType::Q5_K,
                _ => base,
            },
            Role::FfnDown => match name {
                "Q2_K" => GgmlType::Q3_K,
                "Q2_K_S" if layer < self.layers / 8 => GgmlType::Q4_K,
                "Q3_K_M" if layer < self.layers / 16 => GgmlType::Q5_K,
                "Q3_K_M" => GgmlType::Q4_K,
                "Q3_K_L" => GgmlType::Q5_K,
                "Q4_K_M" | "Q5_K_M" if self.more_bits(layer) => GgmlType::Q6_K,
                "IQ4_NL" if layer < self.layers / 8 && !self.has_imatrix => GgmlType::Q5_K,
                "Q4_K_S" if layer < self.layers / 8 => GgmlType::Q5_K,
                "Q4_0" if layer < self.layers / 8 && self.has_imatrix => GgmlType::Q4_1,
                "Q5_0" if layer < self.layers / 8 && self.has_imatrix => GgmlType::Q5_1,
                _ => base,
            },
            Role::AttnOutput => match name {
                "Q2_K" => GgmlType::Q3_K,
                "Q3_K_M" => GgmlType::Q4_K,
                "Q3_K_L" => GgmlType::Q5_K,
                _ => base,
            },
            _ => base,
        }
    }

    /// Whether a layer is one of those that the `_M` mixtures give more bits: the first and the
    /// last eighth, and every third between.
    fn more_bits(&self, layer: u64) -> bool {
        let eighth = self.layers / 8;
        layer < eighth || layer >= 7 * self.layers / 8 || (layer - eighth) % 3 == 2
    }
}

/// The type of the output matrix.
fn output(base: GgmlType, row_len: u64) -> GgmlType {
    if base == GgmlType::Q8_0 || !divides(base, row_len) {
        GgmlType::Q8_0
    } else {
        GgmlType::Q6_K
    }
}

/// Whether a row is a whole number of blocks.
pub(crate) fn divides(ty: GgmlType, row_len: u64) -> bool {
    ty.geometry()
        .is_some_and(|geometry| row_len.is_multiple_of(geometry.block_len.into()))
}

/// What stands in for a K type where rows are no multiple of 256: a type of 32 that is as good.
pub(crate) fn smaller_blocks(ty: GgmlType, row_len: u64) -> GgmlType {
    match ty {
        _ if divides(ty, row_len) => ty,
        GgmlType::Q2_K | GgmlType::Q3_K => GgmlType::IQ4_NL,
        GgmlType::Q4_K => GgmlType::Q5_0,
        GgmlType::Q5_K => GgmlType::Q5_1,
        GgmlType::Q6_K => GgmlType::Q8_0,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_with_more_bits_are_those_of_llama_cpp() {
        let with = |layers| {
            let rules = Rules {
                file_type: FileType::from_name("Q4_K_M").unwrap(),
                pure: false,
                has_output: true,
                layers,
                group: 1,
                has_imatrix: false,
            };
            let more = |&layer: &u64| rules.more_bits(layer);
            (0..layers).filter(more).collect::<Vec<_>>()
        };
        // What a Q4_K_M of a model of 32 layers has as Q6_K.
        let of_32 = [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31];
        assert_eq!(with(32), of_32);
        assert_eq!(with(1), [0]);
        assert_eq!(with(5), [2, 4]);
    }
}
