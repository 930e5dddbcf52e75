//! The metadata keys that the GGUF specification defines: of which type their values are.

use smidgen_core::gguf::{Value, ValueType, keys};

use crate::TypeSpec;

/// What a known key's value must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    String,
    Integer,
    /// An integer that is not 0.
    Count,
    Float,
    Bool,
    /// One integer for all layers, or one a layer.
    IntegerPerLayer,
    Strings,
    Floats,
    Integers,
    /// An array of `u16` or `u32`.
    Index,
}

impl Expected {
    /// What the value of `key` must be in a model of this architecture; `None` for a key that is
    /// not known.
    pub(crate) fn of(key: &str, architecture: Option<&str>) -> Option<Self> {
        if let Some(general) = key.strip_prefix("general.") {
            return Self::general(general);
        }
        match key {
            keys::SPLIT_NO | keys::SPLIT_COUNT | keys::SPLIT_TENSORS_COUNT => {
                return Some(Self::Integer);
            }
            keys::SMIDGEN_TOKENIZER_OFFSETS | keys::SMIDGEN_TOKENIZER_SORTED => {
                return Some(Self::Index);
            }
            _ => {}
        }
        if let Some(tokenizer) = key.strip_prefix("tokenizer.ggml.") {
            return Self::tokenizer(tokenizer);
        }
        let of_model = key.strip_prefix(architecture?)?.strip_prefix('.')?;
        Self::model(of_model)
    }

    fn general(key: &str) -> Option<Self> {
        Some(match key {
            "architecture" | "author" | "basename" | "description" | "doi" | "finetune"
            | "license" | "license.link" | "license.name" | "name" | "organization"
            | "quantized_by" | "repo_url" | "size_label" | "source.url" | "type" | "url"
            | "uuid" | "version" => Self::String,
            "alignment" | "file_type" | "quantization_version" => Self::Integer,
            "tags" | "languages" => Self::Strings,
            _ => return None,
        })
    }

    fn tokenizer(key: &str) -> Option<Self> {
        Some(match key {
            "model" | "pre" => Self::String,
            "tokens" | "merges" => Self::Strings,
            "scores" => Self::Floats,
            "token_type" => Self::Integers,
            key if key.ends_with("_token_id") => Self::Integer,
            key if key.starts_with("add_") => Self::Bool,
            _ => return None,
        })
    }

    fn model(key: &str) -> Option<Self> {
        Some(match key {
            "block_count" | "context_length" | "embedding_length" => Self::Count,
            "attention.key_length"
            | "attention.value_length"
            | "expert_count"
            | "expert_used_count"
            | "rope.dimension_count"
            | "vocab_size" => Self::Integer,
            "attention.head_count" | "attention.head_count_kv" | "feed_forward_length" => {
                Self::IntegerPerLayer
            }
            "attention.layer_norm_epsilon"
            | "attention.layer_norm_rms_epsilon"
            | "rope.freq_base"
            | "rope.scale_linear"
            | "rope.scaling.factor" => Self::Float,
            "rope.scaling.type" => Self::String,
            _ => return None,
        })
    }

    /// The type that writers give such a value; `None` where they differ.
    pub(crate) fn usual_type(self) -> Option<TypeSpec> {
        Some(match self {
            Self::String => TypeSpec::One(ValueType::String),
            Self::Integer | Self::Count | Self::IntegerPerLayer => TypeSpec::One(ValueType::U32),
            Self::Float => TypeSpec::One(ValueType::F32),
            Self::Bool => TypeSpec::One(ValueType::Bool),
            Self::Strings => TypeSpec::Array(ValueType::String),
            Self::Floats => TypeSpec::Array(ValueType::F32),
            Self::Integers => TypeSpec::Array(ValueType::I32),
            Self::Index => return None,
        })
    }

    /// Whether the value is as it must be.
    pub(crate) fn fits(self, value: &Value<'_>) -> bool {
        let elements = match value {
            Value::Array(array) => Some(array.element_type()),
            _ => None,
        };
        let integers = elements.is_some_and(is_integer);
        match self {
            Self::String => matches!(value, Value::String(_)),
            Self::Integer => value.as_integer().is_some_and(|n| n >= 0),
            Self::Count => value.as_integer().is_some_and(|n| n > 0),
            Self::Float => matches!(value, Value::F32(_) | Value::F64(_)),
            Self::Bool => matches!(value, Value::Bool(_)),
            Self::IntegerPerLayer => value.as_integer().is_some_and(|n| n >= 0) || integers,
            Self::Strings => elements == Some(ValueType::String),
            Self::Floats => matches!(elements, Some(ValueType::F32 | ValueType::F64)),
            Self::Integers => integers,
            Self::Index => matches!(elements, Some(ValueType::U16 | ValueType::U32)),
        }
    }

    /// What the value must be, in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Integer => "an integer that is not negative",
            Self::Count => "an integer above 0",
            Self::Float => "a float",
            Self::Bool => "a bool",
            Self::IntegerPerLayer => "an integer that is not negative, or an array of integers",
            Self::Strings => "an array of strings",
            Self::Floats => "an array of floats",
            Self::Integers => "an array of integers",
            Self::Index => "an array of u16 or u32",
        }
    }
}

fn is_integer(ty: ValueType) -> bool {
    use ValueType::{I8, I16, I32, I64, U8, U16, U32, U64};
    matches!(ty, U8 | I8 | U16 | I16 | U32 | I32 | U64 | I64)
}

/// A value's type in words: `u32`, `arr of str`.
pub(crate) fn type_words(value: &Value<'_>) -> String {
    match value {
        Value::Array(array) => format!("an array of {}", array.element_type()),
        Value::String(_) => String::from("a string"),
        other => match other.as_integer() {
            Some(n) if n <= 0 => n.to_string(),
            _ => format!("a {}", other.value_type()),
        },
    }
}
