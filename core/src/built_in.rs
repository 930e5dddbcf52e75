//! Which types of weights and of KV caches a program can run, and with which instructions, chosen
//! when it is compiled.
//!
//! A board runs one model, and code for types that it does not have is flash for nothing.
//! Environment variables of the build say what is built in; without them it is everything. Names
//! stand one after the other with commas in between, in upper or lower case; an unknown one fails
//! the build.
//!
//! | variable | names |
//! |---|---|
//! | `SMIDGEN_TYPES` | types of matrices as ggml names them: `F32`, `F16`, `BF16`, `Q8_0`, `Q4_0`, `Q4_1`, `Q5_0`, `Q5_1`, `IQ4_NL`, `Q2_K`, `Q3_K`, `Q4_K`, `Q5_K`, `Q6_K` |
//! | `SMIDGEN_KV_TYPES` | `f32`, `f16`, `q8`, `q8row` |
//! | `SMIDGEN_BACKEND` | the only [back end](crate::kernels::Backend), of those that every processor of the target has; without effect where there is an operating system |
//!
//! ```sh
//! SMIDGEN_TYPES=Q8_0 SMIDGEN_KV_TYPES=q8 cargo build --release --target thumbv7em-none-eabihf
//! ```
//!
//! Vectors such as the weights of normalizations are always f32 and need no entry. A model with
//! another type is refused when it is [loaded](crate::model::Model::load), another cache when it is
//! [made](crate::kv_cache::KvCache::new). What encodes weights, and looking at files, does not
//! depend on it. With one back end nothing is left that it could be compared with: the
//! [self-test](crate::kernels::self_test()) then says that it cannot.

use crate::gguf::GgmlType;
use crate::kv_cache::KvType;

/// What `SMIDGEN_TYPES` was; `None` if everything is built in.
pub const TYPES: Option<&str> = given(option_env!("SMIDGEN_TYPES"));

/// What `SMIDGEN_KV_TYPES` was; `None` if everything is built in.
pub const KV_TYPES: Option<&str> = given(option_env!("SMIDGEN_KV_TYPES"));

/// What `SMIDGEN_BACKEND` was; `None` if every back end of the target is built in.
pub const BACKEND: Option<&str> = given(option_env!("SMIDGEN_BACKEND"));

/// Types that there are kernels for: a bit of a set, and the name.
const NAMES: [&str; 14] = [
    "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "Q2_K", "Q3_K", "Q4_K",
    "Q5_K", "Q6_K",
];

const KV_NAMES: [&str; 4] = ["f32", "f16", "q8", "q8row"];

const SET: u32 = match TYPES {
    None => u32::MAX,
    Some(list) => match parse(list, &NAMES) {
        Some(set) => set,
        None => panic!("SMIDGEN_TYPES names a type of weights that there are no kernels for"),
    },
};

const KV_SET: u32 = match KV_TYPES {
    None => u32::MAX,
    Some(list) => match parse(list, &KV_NAMES) {
        Some(set) => set,
        None => panic!("SMIDGEN_KV_TYPES may name f32, f16, q8 and q8row"),
    },
};

/// Whether matrices of this type can be multiplied with, and their rows decoded.
#[must_use]
pub const fn has_type(ty: GgmlType) -> bool {
    let index = match ty {
        GgmlType::F32 => 0,
        GgmlType::F16 => 1,
        GgmlType::BF16 => 2,
        GgmlType::Q8_0 => 3,
        GgmlType::Q4_0 => 4,
        GgmlType::Q4_1 => 5,
        GgmlType::Q5_0 => 6,
        GgmlType::Q5_1 => 7,
        GgmlType::IQ4_NL => 8,
        GgmlType::Q2_K => 9,
        GgmlType::Q3_K => 10,
        GgmlType::Q4_K => 11,
        GgmlType::Q5_K => 12,
        GgmlType::Q6_K => 13,
        _ => return false,
    };
    SET >> index & 1 != 0
}

/// Whether keys and values can be stored so.
#[must_use]
pub const fn has_kv_type(ty: KvType) -> bool {
    let index = match ty {
        KvType::F32 => 0,
        KvType::F16 => 1,
        KvType::Q8 => 2,
        KvType::Q8Row => 3,
    };
    KV_SET >> index & 1 != 0
}

// What the arms of a `match` are guarded with, so that the code of others is dead: constants, since
// then nothing is left to the optimizer.
pub(crate) const F32: bool = has_type(GgmlType::F32);
pub(crate) const F16: bool = has_type(GgmlType::F16);
pub(crate) const BF16: bool = has_type(GgmlType::BF16);
pub(crate) const Q8_0: bool = has_type(GgmlType::Q8_0);
pub(crate) const Q4_0: bool = has_type(GgmlType::Q4_0);
pub(crate) const Q4_1: bool = has_type(GgmlType::Q4_1);
pub(crate) const Q5_0: bool = has_type(GgmlType::Q5_0);
pub(crate) const Q5_1: bool = has_type(GgmlType::Q5_1);
pub(crate) const IQ4_NL: bool = has_type(GgmlType::IQ4_NL);
pub(crate) const Q2_K: bool = has_type(GgmlType::Q2_K);
pub(crate) const Q3_K: bool = has_type(GgmlType::Q3_K);
pub(crate) const Q4_K: bool = has_type(GgmlType::Q4_K);
pub(crate) const Q5_K: bool = has_type(GgmlType::Q5_K);
pub(crate) const Q6_K: bool = has_type(GgmlType::Q6_K);

/// A type that takes activations in blocks of 32.
pub(crate) const ANY_OF_32: bool = Q8_0 || Q4_0 || Q4_1 || Q5_0 || Q5_1 || IQ4_NL;

/// A type that takes activations in blocks of 256.
pub(crate) const ANY_OF_256: bool = Q2_K || Q3_K || Q4_K || Q5_K || Q6_K;

pub(crate) const KV_F32: bool = has_kv_type(KvType::F32);
pub(crate) const KV_F16: bool = has_kv_type(KvType::F16);
/// A cache of bytes.
pub(crate) const KV_BYTES: bool = has_kv_type(KvType::Q8) || has_kv_type(KvType::Q8Row);

/// An empty variable is one that is not set.
const fn given(variable: Option<&'static str>) -> Option<&'static str> {
    match variable {
        Some(list) if !list.is_empty() => Some(list),
        _ => None,
    }
}

/// The set of the names in a list, a bit for each of `names`; `None` if another one is in it.
const fn parse(list: &str, names: &[&str]) -> Option<u32> {
    let list = list.as_bytes();
    let mut set = 0;
    let mut start = 0;
    while start <= list.len() {
        let mut end = start;
        while end < list.len() && list[end] != b',' {
            end += 1;
        }
        let mut index = 0;
        while !is_name(list, start, end, names[index].as_bytes()) {
            index += 1;
            if index == names.len() {
                return None;
            }
        }
        set |= 1 << index;
        start = end + 1;
    }
    Some(set)
}

/// Whether a name that was given is `name`.
pub(crate) const fn is(given: &str, name: &str) -> bool {
    is_name(given.as_bytes(), 0, given.len(), name.as_bytes())
}

/// Whether `list[start..end]` is `name` but for spaces around it and the case of letters.
const fn is_name(list: &[u8], mut start: usize, mut end: usize, name: &[u8]) -> bool {
    while start < end && list[start] == b' ' {
        start += 1;
    }
    while start < end && list[end - 1] == b' ' {
        end -= 1;
    }
    if end - start != name.len() {
        return false;
    }
    let mut at = 0;
    while at < name.len() {
        if !list[start + at].eq_ignore_ascii_case(&name[at]) {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::activation_kind;

    #[test]
    fn lists_are_sets_of_names() {
        let set = |list| parse(list, &NAMES);
        assert_eq!(set("F32"), Some(1));
        assert_eq!(set("Q8_0,F32"), Some(0b1001));
        assert_eq!(set(" q6_k , f32,F32"), Some(0b10_0000_0000_0001));
        assert_eq!(parse("q8row,f16", &KV_NAMES), Some(0b1010));
        for wrong in [
            "", ",", "F32,", "Q8", "Q8_0;F32", "F32 F16", "Q8_1", "q8row",
        ] {
            assert_eq!(set(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_are_those_of_the_types_with_kernels() {
        let runnable = |ty: &GgmlType| activation_kind(*ty).is_some();
        assert_eq!(GgmlType::all().filter(runnable).count(), NAMES.len());
        for name in NAMES {
            let ty = GgmlType::from_name(name).unwrap();
            assert_eq!(ty.name(), Some(name));
            assert!(runnable(&ty) && has_type(ty), "{name}");
        }
    }

    #[test]
    fn without_a_choice_everything_is_built_in() {
        assert_eq!((given(None), given(Some(""))), (None, None));
        assert_eq!(given(Some("F32")), Some("F32"));
        for ty in GgmlType::all() {
            assert_eq!(has_type(ty), activation_kind(ty).is_some(), "{ty}");
        }
    }
}
