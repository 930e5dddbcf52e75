//! What a tensor is for, as far as types depend on it.

/// What a tensor is for, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    TokenEmbd,
    Output,
    AttnV,
    AttnOutput,
    FfnGate,
    FfnUp,
    FfnDown,
    /// Another matrix that can be quantized.
    Matrix,
    /// A norm, a bias, or what else stays as it is.
    Kept,
}

impl Role {
    /// The role of a tensor of this name and shape, and its layer.
    ///
    /// As in llama.cpp, what has one row only, however many dimensions the file writes, is a vector.
    pub(crate) fn of(name: &str, dims: &[u64]) -> (Self, Option<u64>) {
        let is_matrix = dims.iter().skip(1).any(|&dim| dim > 1);
        let (layer, base) = match layer_name(name) {
            Some((layer, base)) => (Some(layer), base),
            None => (None, name),
        };
        let role = match base {
            _ if !is_matrix || !name.ends_with("weight") => Self::Kept,
            _ if base.ends_with("_norm.weight") || base.contains("ffn_gate_inp") => Self::Kept,
            "token_embd.weight" => Self::TokenEmbd,
            "output.weight" => Self::Output,
            "attn_v.weight" => Self::AttnV,
            "attn_output.weight" => Self::AttnOutput,
            "ffn_gate.weight" => Self::FfnGate,
            "ffn_up.weight" => Self::FfnUp,
            "ffn_down.weight" => Self::FfnDown,
            _ => Self::Matrix,
        };
        (role, layer)
    }
}

/// `blk.3.attn_q.weight` is layer 3 and `attn_q.weight`.
fn layer_name(name: &str) -> Option<(u64, &str)> {
    let (layer, base) = name.strip_prefix("blk.")?.split_once('.')?;
    Some((layer.parse().ok()?, base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_shapes_tell_roles() {
        let of = Role::of;
        assert_eq!(
            of("blk.12.ffn_down.weight", &[64, 2]),
            (Role::FfnDown, Some(12))
        );
        assert_eq!(of("blk.0.ffn_up.weight", &[64, 1]), (Role::Kept, Some(0)));
        assert_eq!(of("blk.0.ffn_norm.weight", &[64, 2]), (Role::Kept, Some(0)));
        assert_eq!(of("blk.0.attn_q.bias", &[64, 2]), (Role::Kept, Some(0)));
        assert_eq!(of("output.weight", &[64, 2]), (Role::Output, None));
        assert_eq!(of("blk.x.attn_v.weight", &[64, 2]), (Role::Matrix, None));
    }
}
