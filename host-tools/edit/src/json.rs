//! GGUF values as JSON.
//!
//! The form is the same in every command and loses nothing that can be told from the type beside:
//!
//! - integers are numbers; beyond ±(2^53 − 1), where many readers of JSON lose digits, strings of
//!   decimal digits;
//! - floats are the shortest numbers that read back as the same float; `"NaN"`, `"inf"`, `"-inf"`
//!   where they are no number, and `{"bits": "7fc00001"}` for a NaN that carries more;
//! - strings are strings; those that are not UTF-8 are `{"hex": "…"}` with two digits a byte;
//! - arrays are arrays of these.

use serde_json::{Number, Value as Json, json};
use smidgen_core::gguf::Value;

/// The largest integer that every reader of JSON keeps.
const MAX_EXACT: i128 = (1 << 53) - 1;

/// A value as JSON; its type is not in it.
#[must_use]
pub fn value(value: &Value<'_>) -> Json {
    match *value {
        Value::Bool(v) => v.into(),
        Value::F32(v) if v.is_nan() => nan(v.to_bits() == f32::NAN.to_bits(), || {
            format!("{:08x}", v.to_bits())
        }),
        Value::F64(v) if v.is_nan() => nan(v.to_bits() == f64::NAN.to_bits(), || {
            format!("{:016x}", v.to_bits())
        }),
        // By way of its shortest text: widened, 0.1 would become 0.10000000149011612.
        Value::F32(v) => finite(v.to_string().parse().unwrap_or(f64::from(v))),
        Value::F64(v) => finite(v),
        Value::String(bytes) => text(bytes),
        Value::Array(array) => array.iter().map(|element| self::value(&element)).collect(),
        ref integer => match integer.as_integer() {
            Some(n) if n.abs() > MAX_EXACT => n.to_string().into(),
            Some(n) => Number::from_i128(n).map_or(Json::Null, Json::Number),
            None => Json::Null,
        },
    }
}

/// A number of bytes, an offset or a count as JSON, in the same form as a value.
#[must_use]
pub fn count(n: u64) -> Json {
    value(&Value::U64(n))
}

/// A string as JSON, also one that is not UTF-8.
#[must_use]
pub fn text(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "hex": hex(bytes) }),
    }
}

/// Two lower-case hexadecimal digits a byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn nan(plain: bool, bits: impl FnOnce() -> String) -> Json {
    if plain {
        "NaN".into()
    } else {
        json!({ "bits": bits() })
    }
}

fn finite(v: f64) -> Json {
    Number::from_f64(v).map_or_else(|| v.to_string().into(), Json::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_has_its_form() {
        let shown = |v: Value<'_>| value(&v).to_string();
        assert_eq!(shown(Value::F32(0.1)), "0.1");
        assert_eq!(shown(Value::F32(f32::MIN_POSITIVE)), "1.1754944e-38");
        assert_eq!(shown(Value::F32(-0.0)), "-0.0");
        assert_eq!(shown(Value::F64(0.1)), "0.1");
        assert_eq!(shown(Value::F32(f32::NAN)), "\"NaN\"");
        assert_eq!(shown(Value::F64(f64::NEG_INFINITY)), "\"-inf\"");
        assert_eq!(shown(Value::F32(f32::INFINITY)), "\"inf\"");
        let carrying = f32::from_bits(0xffc0_0001);
        assert_eq!(shown(Value::F32(carrying)), r#"{"bits":"ffc00001"}"#);
        let edge = 9_007_199_254_740_991_i64;
        assert_eq!(shown(Value::I64(edge)), "9007199254740991");
        assert_eq!(shown(Value::I64(-edge)), "-9007199254740991");
        assert_eq!(shown(Value::I64(edge + 1)), "\"9007199254740992\"");
        assert_eq!(shown(Value::U64(u64::MAX)), "\"18446744073709551615\"");
        assert_eq!(shown(Value::I64(i64::MIN)), "\"-9223372036854775808\"");
        assert_eq!(shown(Value::Bool(true)), "true");
        assert_eq!(shown(Value::String("hé\0".as_bytes())), r#""hé\u0000""#);
        assert_eq!(shown(Value::String(b"\xff\x00")), r#"{"hex":"ff00"}"#);
    }

    #[test]
    fn floats_of_32_bits_read_back() {
        for bits in (0..0x7f80_0000_u32).step_by(104_729) {
            let v = f32::from_bits(bits);
            let shown = value(&Value::F32(v)).to_string();
            assert_eq!(shown.parse::<f32>().unwrap().to_bits(), bits, "{shown}");
            let again: f64 = serde_json::from_str(&shown).unwrap();
            assert_eq!((again as f32).to_bits(), bits, "{shown}");
        }
    }
}
