//! Metadata set from the command line: llama.cpp's `KEY=TYPE:VALUE`.

use std::{fmt, str::FromStr};

use smidgen_core::gguf::Value;
use smidgen_io::{GgufBuilder, OwnedValue};

/// A key and the value that it is to have.
#[derive(Clone, Debug, PartialEq)]
pub struct OverrideKv {
    key: String,
    value: Given,
}

#[derive(Clone, Debug, PartialEq)]
enum Given {
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(String),
}

/// What is wrong with an override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideError(&'static str);

impl fmt::Display for OverrideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for OverrideError {}

impl FromStr for OverrideKv {
    type Err = OverrideError;

    fn from_str(text: &str) -> Result<Self, OverrideError> {
        let form = OverrideError("expected KEY=TYPE:VALUE with TYPE one of int, float, bool, str");
        let (key, typed) = text.split_once('=').ok_or(form.clone())?;
        let (ty, value) = typed.split_once(':').ok_or(form.clone())?;
        if key.is_empty() {
            return Err(OverrideError("the key is empty"));
        }
        let value = match ty {
            "int" => Given::Int(value.parse().map_err(|_| OverrideError("no integer"))?),
            "float" => Given::Float(value.parse().map_err(|_| OverrideError("no number"))?),
            "bool" => match value {
                "true" => Given::Bool(true),
                "false" => Given::Bool(false),
                _ => return Err(OverrideError("expected true or false")),
            },
            "str" => Given::Str(value.to_owned()),
            _ => return Err(form),
        };
        Ok(Self {
            key: key.to_owned(),
            value,
        })
    }
}

impl OverrideKv {
    /// Sets the value. An integer keeps the type that the key has if it fits; a new one is u32 or
    /// i32, or 64 bits long if it must be. A number with a point is f32 unless it was f64.
    pub(crate) fn apply(&self, builder: &mut GgufBuilder<'_>) {
        let old = builder
            .get(&self.key)
            .map(|old| old.as_value().value_type());
        let value: OwnedValue = match &self.value {
            Given::Int(n) => {
                let same = integers(*n).find(|value| Some(value.value_type()) == old);
                let new = || integers(*n).next();
                same.or_else(new).unwrap_or(Value::I64(*n)).into()
            }
            &Given::Float(x) => match builder.get(&self.key).map(OwnedValue::as_value) {
                Some(Value::F64(_)) => x.into(),
                #[allow(clippy::cast_possible_truncation)] // To the nearest.
                _ => (x as f32).into(),
            },
            Given::Bool(value) => (*value).into(),
            Given::Str(text) => text.as_str().into(),
        };
        builder.set(&self.key, value);
    }
}

/// The types that hold this integer, those that a new key gets first.
fn integers(n: i64) -> impl Iterator<Item = Value<'static>> {
    [
        n.try_into().ok().map(Value::U32),
        n.try_into().ok().map(Value::I32),
        n.try_into().ok().map(Value::U64),
        Some(Value::I64(n)),
        n.try_into().ok().map(Value::U16),
        n.try_into().ok().map(Value::I16),
        n.try_into().ok().map(Value::U8),
        n.try_into().ok().map(Value::I8),
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_the_types_of_their_keys() {
        let mut builder = GgufBuilder::new();
        builder.set("a", 1_u16).set("b", 1_u8).set("c", 0.5_f64);
        for text in [
            "a=int:7",
            "b=int:300",
            "c=float:0.1",
            "d=int:-3",
            "e=float:1.5",
        ] {
            text.parse::<OverrideKv>().unwrap().apply(&mut builder);
        }
        "f=str:a=b:c"
            .parse::<OverrideKv>()
            .unwrap()
            .apply(&mut builder);
        "g=bool:true"
            .parse::<OverrideKv>()
            .unwrap()
            .apply(&mut builder);
        let value = |key| builder.get(key).unwrap().as_value();
        assert_eq!(value("a"), Value::U16(7));
        assert_eq!(value("b"), Value::U32(300));
        assert_eq!(value("c"), Value::F64(0.1));
        assert_eq!(value("d"), Value::I32(-3));
        assert_eq!(value("e"), Value::F32(1.5));
        assert_eq!(value("f"), Value::String(b"a=b:c"));
        assert_eq!(value("g"), Value::Bool(true));
    }

    #[test]
    fn what_is_no_override_is_refused() {
        for text in ["", "a", "a=1", "a=int:x", "a=bool:1", "=int:1", "a=u8:1"] {
            assert!(text.parse::<OverrideKv>().is_err(), "{text}");
        }
    }
}
