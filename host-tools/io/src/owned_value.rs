//! A metadata value that owns its bytes.

use smidgen_core::gguf::{Array, Value, ValueType};

/// A metadata value that owns its bytes; arrays are kept as the file has them.
#[derive(Clone, Debug)]
pub struct OwnedValue(Repr);

#[derive(Clone, Debug)]
enum Repr {
    Scalar(Value<'static>),
    String(Vec<u8>),
    Array {
        element: ValueType,
        len: usize,
        payload: Vec<u8>,
    },
}

impl OwnedValue {
    /// The value, borrowed.
    #[must_use]
    pub fn as_value(&self) -> Value<'_> {
        match &self.0 {
            Repr::Scalar(value) => *value,
            Repr::String(bytes) => Value::String(bytes),
            Repr::Array {
                element,
                len,
                payload,
            } => {
                let array = Array::new(*element, *len, payload);
                Value::Array(array.expect("the payload was made from elements"))
            }
        }
    }

    /// An array of strings.
    pub fn strings<T: AsRef<[u8]>>(strings: impl IntoIterator<Item = T>) -> Self {
        let mut payload = Vec::new();
        let mut len = 0;
        for string in strings {
            let bytes = string.as_ref();
            payload.extend((bytes.len() as u64).to_le_bytes());
            payload.extend(bytes);
            len += 1;
        }
        Self(Repr::Array {
            element: ValueType::String,
            len,
            payload,
        })
    }

    /// An array of any element type from values of that type; `None` when one is of another type
    /// or an array.
    pub fn array<'a>(
        element: ValueType,
        values: impl IntoIterator<Item = Value<'a>>,
    ) -> Option<Self> {
        let mut payload = Vec::new();
        let mut len = 0;
        for value in values {
            if value.value_type() != element {
                return None;
            }
            match value {
                Value::U8(v) => payload.extend(v.to_le_bytes()),
                Value::I8(v) => payload.extend(v.to_le_bytes()),
                Value::U16(v) => payload.extend(v.to_le_bytes()),
                Value::I16(v) => payload.extend(v.to_le_bytes()),
                Value::U32(v) => payload.extend(v.to_le_bytes()),
                Value::I32(v) => payload.extend(v.to_le_bytes()),
                Value::F32(v) => payload.extend(v.to_le_bytes()),
                Value::Bool(v) => payload.push(v.into()),
                Value::U64(v) => payload.extend(v.to_le_bytes()),
                Value::I64(v) => payload.extend(v.to_le_bytes()),
                Value::F64(v) => payload.extend(v.to_le_bytes()),
                Value::String(v) => {
                    payload.extend((v.len() as u64).to_le_bytes());
                    payload.extend(v);
                }
                Value::Array(_) => return None,
            }
            len += 1;
        }
        Some(Self(Repr::Array {
            element,
            len,
            payload,
        }))
    }
}

impl PartialEq for OwnedValue {
    fn eq(&self, other: &Self) -> bool {
        self.as_value() == other.as_value()
    }
}

impl From<Value<'_>> for OwnedValue {
    fn from(value: Value<'_>) -> Self {
        Self(match value {
            Value::String(bytes) => Repr::String(bytes.to_vec()),
            // Version 1 has shorter string lengths.
            Value::Array(array) if array.length_width() != 8 => {
                let again = Self::array(array.element_type(), array.iter());
                return again.expect("an array's elements have its type");
            }
            Value::Array(array) => Repr::Array {
                element: array.element_type(),
                len: array.len(),
                payload: array.bytes().to_vec(),
            },
            Value::U8(v) => Repr::Scalar(Value::U8(v)),
            Value::I8(v) => Repr::Scalar(Value::I8(v)),
            Value::U16(v) => Repr::Scalar(Value::U16(v)),
            Value::I16(v) => Repr::Scalar(Value::I16(v)),
            Value::U32(v) => Repr::Scalar(Value::U32(v)),
            Value::I32(v) => Repr::Scalar(Value::I32(v)),
            Value::F32(v) => Repr::Scalar(Value::F32(v)),
            Value::Bool(v) => Repr::Scalar(Value::Bool(v)),
            Value::U64(v) => Repr::Scalar(Value::U64(v)),
            Value::I64(v) => Repr::Scalar(Value::I64(v)),
            Value::F64(v) => Repr::Scalar(Value::F64(v)),
        })
    }
}

impl From<&str> for OwnedValue {
    fn from(text: &str) -> Self {
        Self(Repr::String(text.into()))
    }
}

impl From<String> for OwnedValue {
    fn from(text: String) -> Self {
        Self(Repr::String(text.into_bytes()))
    }
}

macro_rules! from_numbers {
    ($($number:ty => $variant:ident),*) => { $(
        impl From<$number> for OwnedValue {
            fn from(number: $number) -> Self {
                Self(Repr::Scalar(Value::$variant(number)))
            }
        }

        impl From<&[$number]> for OwnedValue {
            fn from(numbers: &[$number]) -> Self {
                let values = numbers.iter().map(|&number| Value::$variant(number));
                Self::array(ValueType::$variant, values).expect("one type")
            }
        }
    )* };
}

from_numbers!(
    u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64,
    f32 => F32, f64 => F64, bool => Bool
);
