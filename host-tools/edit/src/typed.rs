//! Values from text: what a person types, and JSON in the form of [`json`](crate::json).

use std::str::FromStr;

use serde_json::Value as Json;
use smidgen_core::gguf::{Value, ValueType};
use smidgen_io::OwnedValue;

use crate::EditError;

/// The type of a value, an array's with that of its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeSpec {
    /// A scalar or a string.
    One(ValueType),
    /// An array of scalars or strings.
    Array(ValueType),
}

impl TypeSpec {
    /// The type of a value.
    #[must_use]
    pub fn of(value: &Value<'_>) -> Self {
        match value {
            Value::Array(array) => Self::Array(array.element_type()),
            other => Self::One(other.value_type()),
        }
    }

    /// Reads a value of this type: a string is the text as it is, an array is JSON, all else is
    /// what its name says.
    ///
    /// # Errors
    /// The text is no such value.
    pub fn parse(self, text: &str) -> Result<OwnedValue, EditError> {
        match self {
            Self::One(ValueType::String) => Ok(text.into()),
            Self::One(ValueType::Bool) => match text {
                "true" => Ok(true.into()),
                "false" => Ok(false.into()),
                other => Err(wrong(format!("`{other}` is no bool: true or false"))),
            },
            Self::One(ty) => {
                // Only a NaN that carries something is written as an object.
                let json = if text.starts_with('{') {
                    read_json(text)?
                } else {
                    Json::String(text.trim().to_owned())
                };
                scalar(ty, &json).map(|value| value.into())
            }
            Self::Array(element) => {
                let json = read_json(text)?;
                let Json::Array(elements) = &json else {
                    return Err(wrong(format!("an array of {element} is needed, as JSON")));
                };
                if element == ValueType::String {
                    let strings: Result<Vec<_>, _> = elements.iter().map(string).collect();
                    return Ok(OwnedValue::strings(strings?));
                }
                let values: Result<Vec<_>, _> = elements
                    .iter()
                    .map(|element_json| scalar(element, element_json))
                    .collect();
                OwnedValue::array(element, values?)
                    .ok_or_else(|| wrong(format!("no array of {element}")))
            }
        }
    }
}

impl FromStr for TypeSpec {
    type Err = EditError;

    /// `u32`, `str`, … as `inspect` shows them; arrays are `arr:u32` or `[u32]`.
    fn from_str(text: &str) -> Result<Self, EditError> {
        let bracketed = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        let (name, array) = match text.strip_prefix("arr:").or(bracketed) {
            Some(name) => (name, true),
            None => (text, false),
        };
        match ValueType::from_name(name) {
            Some(ValueType::Array) | None => Err(wrong(format!(
                "`{text}` is no type: u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, bool and str \
                 are, and arr:TYPE is an array"
            ))),
            Some(ty) if array => Ok(Self::Array(ty)),
            Some(ty) => Ok(Self::One(ty)),
        }
    }
}

fn wrong(message: String) -> EditError {
    EditError::Syntax { message }
}

fn read_json(text: &str) -> Result<Json, EditError> {
    serde_json::from_str(text).map_err(|error| wrong(format!("no JSON: {error}")))
}

fn scalar(ty: ValueType, json: &Json) -> Result<Value<'static>, EditError> {
    let not = || wrong(format!("{json} is no {ty}"));
    let range = |n: i128| wrong(format!("{n} does not fit {ty}"));
    macro_rules! integer {
        ($variant:ident) => {{
            let n = integer(json).ok_or_else(not)?;
            Value::$variant(n.try_into().map_err(|_| range(n))?)
        }};
    }
    Ok(match ty {
        ValueType::U8 => integer!(U8),
        ValueType::I8 => integer!(I8),
        ValueType::U16 => integer!(U16),
        ValueType::I16 => integer!(I16),
        ValueType::U32 => integer!(U32),
        ValueType::I32 => integer!(I32),
        ValueType::U64 => integer!(U64),
        ValueType::I64 => integer!(I64),
        ValueType::F32 => {
            let bits = bits(json).and_then(|bits| u32::try_from(bits).ok());
            let value = bits
                .map(f32::from_bits)
                .or_else(|| number(json)?.parse().ok());
            let value: f32 = value.ok_or_else(not)?;
            if value.is_infinite() && !is_infinity(json) {
                return Err(wrong(format!("{json} does not fit f32")));
            }
            Value::F32(value)
        }
        ValueType::F64 => {
            let value = bits(json).map(f64::from_bits);
            let value = value.or_else(|| number(json)?.parse().ok());
            let value: f64 = value.ok_or_else(not)?;
            if value.is_infinite() && !is_infinity(json) {
                return Err(wrong(format!("{json} does not fit f64")));
            }
            Value::F64(value)
        }
        ValueType::Bool => Value::Bool(json.as_bool().ok_or_else(not)?),
        ValueType::String | ValueType::Array => return Err(not()),
    })
}

/// An integer, as a number or as a string of digits.
fn integer(json: &Json) -> Option<i128> {
    match json {
        Json::String(text) => text.parse().ok(),
        Json::Number(number) => number
            .as_i64()
            .map(i128::from)
            .or(number.as_u64().map(i128::from)),
        _ => None,
    }
}

/// The text of a number, or of what stands for one.
fn number(json: &Json) -> Option<String> {
    match json {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn is_infinity(json: &Json) -> bool {
    matches!(json, Json::String(text) if text.to_ascii_lowercase().contains("inf"))
}

/// The bits of `{"bits": "7fc00001"}`.
fn bits(json: &Json) -> Option<u64> {
    u64::from_str_radix(json.get("bits")?.as_str()?, 16).ok()
}

/// A string, or `{"hex": "ff00"}`.
fn string(json: &Json) -> Result<Vec<u8>, EditError> {
    let not = || wrong(format!("{json} is no string"));
    if let Some(text) = json.as_str() {
        return Ok(text.as_bytes().to_vec());
    }
    let hex = json.get("hex").and_then(Json::as_str).ok_or_else(not)?;
    if !hex.is_ascii() || hex.len() % 2 != 0 {
        return Err(not());
    }
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).map_err(|_| not());
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(ty: &str, text: &str) -> Result<OwnedValue, String> {
        let ty: TypeSpec = ty.parse().map_err(|error: EditError| error.to_string())?;
        ty.parse(text).map_err(|error| error.to_string())
    }

    #[test]
    fn scalars_are_exact_or_refused() {
        assert_eq!(parsed("u8", "255"), Ok(255_u8.into()));
        assert_eq!(parsed("u8", "256"), Err("256 does not fit u8".into()));
        assert_eq!(parsed("i8", "-129"), Err("-129 does not fit i8".into()));
        assert_eq!(parsed("u64", "18446744073709551615"), Ok(u64::MAX.into()));
        assert_eq!(parsed("i64", "-9223372036854775808"), Ok(i64::MIN.into()));
        assert_eq!(parsed("u32", "1.0"), Err("\"1.0\" is no u32".into()));
        assert_eq!(parsed("u32", ""), Err("\"\" is no u32".into()));
        assert_eq!(parsed("f32", "0.1"), Ok(0.1_f32.into()));
        assert_eq!(parsed("f32", "-inf"), Ok(f32::NEG_INFINITY.into()));
        assert_eq!(
            parsed("f32", "1e39"),
            Err("\"1e39\" does not fit f32".into())
        );
        assert_eq!(parsed("f64", "1e39"), Ok(1e39_f64.into()));
        assert_eq!(parsed("bool", "true"), Ok(true.into()));
        assert!(parsed("bool", "1").is_err());
        assert_eq!(parsed("str", " [1] "), Ok(" [1] ".into()));
        assert!(parsed("q4", "1").is_err());
        assert!(parsed("arr", "[]").is_err());
    }

    #[test]
    fn arrays_are_json() {
        assert_eq!(
            parsed("arr:u16", "[1, \"2\"]"),
            Ok((&[1_u16, 2][..]).into())
        );
        assert_eq!(parsed("[u16]", "[]"), Ok((&[0_u16; 0][..]).into()));
        assert!(parsed("arr:u16", "[70000]").is_err());
        assert!(parsed("arr:u16", "1").is_err());
        assert!(parsed("arr:u16", "[1").is_err());
        assert!(parsed("arr:bool", "[1]").is_err());
        let strings = OwnedValue::strings([&b"a"[..], b"\xff\x00", b""]);
        assert_eq!(
            parsed("arr:str", r#"["a", {"hex": "ff00"}, ""]"#),
            Ok(strings)
        );
        assert!(parsed("arr:str", r#"[{"hex": "f"}]"#).is_err());
        assert!(parsed("arr:str", r#"[{"hex": "é"}]"#).is_err());
    }

    /// What is shown as JSON reads back as the same bits.
    #[test]
    fn the_form_of_json_is_lossless() {
        let nan = f32::from_bits(0xffc0_0001);
        for value in [
            OwnedValue::from(&[f32::NAN, nan, -0.0, 1e-45, f32::MAX, f32::INFINITY][..]),
            OwnedValue::from(&[f64::NAN, 0.1, f64::MIN_POSITIVE, f64::MAX][..]),
            OwnedValue::from(&[u64::MAX, 1 << 53, 0][..]),
            OwnedValue::from(&[i64::MIN, -1][..]),
            OwnedValue::from(&[true, false][..]),
            OwnedValue::strings([&b"\xc3\x28"[..], "é\0\n".as_bytes()]),
        ] {
            let shown = crate::json::value(&value.as_value()).to_string();
            let again = TypeSpec::of(&value.as_value()).parse(&shown).unwrap();
            // Compared as bytes, since no NaN equals another.
            let bytes = |value: &OwnedValue| match value.as_value() {
                Value::Array(array) => array.bytes().to_vec(),
                _ => unreachable!(),
            };
            assert_eq!(bytes(&again), bytes(&value), "{shown}");
        }
    }
}
