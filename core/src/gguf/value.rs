//! Metadata values: their types, the values themselves, arrays that stay where they are.

use super::{Error, ErrorKind, reader::Reader, reader::to_u64};

/// The type of a metadata value, numbered as in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(missing_docs)] // The names say it.
pub enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

/// Each type with its short name and the bytes of a value, 0 where they differ.
const TYPES: [(ValueType, &str, u8); 13] = [
    (ValueType::U8, "u8", 1),
    (ValueType::I8, "i8", 1),
    (ValueType::U16, "u16", 2),
    (ValueType::I16, "i16", 2),
    (ValueType::U32, "u32", 4),
    (ValueType::I32, "i32", 4),
    (ValueType::F32, "f32", 4),
    (ValueType::Bool, "bool", 1),
    (ValueType::String, "str", 0),
    (ValueType::Array, "arr", 0),
    (ValueType::U64, "u64", 8),
    (ValueType::I64, "i64", 8),
    (ValueType::F64, "f64", 8),
];

impl ValueType {
    /// The type with the number `id`, 0 to 12.
    #[must_use]
    pub fn from_id(id: u32) -> Option<Self> {
        let at = usize::try_from(id).ok()?;
        TYPES.get(at).map(|entry| entry.0)
    }

    /// The type's number in the file.
    #[must_use]
    pub fn id(self) -> u32 {
        let at = TYPES.iter().position(|entry| entry.0 == self);
        at.and_then(|at| u32::try_from(at).ok()).unwrap_or(u32::MAX)
    }

    /// The type's short name: `u8` … `f64`, `bool`, `str`, `arr`.
    #[must_use]
    pub fn name(self) -> &'static str {
        let entry = TYPES.iter().find(|entry| entry.0 == self);
        entry.map_or("", |entry| entry.1)
    }

    /// The type with the short name `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let mut entries = TYPES.iter();
        entries.find(|entry| entry.1 == name).map(|entry| entry.0)
    }

    /// Bytes of a value of this type; `None` for strings and arrays, which differ.
    #[must_use]
    pub fn width(self) -> Option<usize> {
        let entry = TYPES.iter().find(|entry| entry.0 == self);
        entry.map(|entry| entry.2.into()).filter(|&width| width > 0)
    }
}

impl core::fmt::Display for ValueType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.name())
    }
}

/// A metadata value, borrowed from the file. Strings are any bytes: the format says UTF-8, files
/// do not always keep to it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // The names say it.
pub enum Value<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(&'a [u8]),
    Array(Array<'a>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl<'a> Value<'a> {
    /// The type of this value.
    #[must_use]
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::U8(_) => ValueType::U8,
            Self::I8(_) => ValueType::I8,
            Self::U16(_) => ValueType::U16,
            Self::I16(_) => ValueType::I16,
            Self::U32(_) => ValueType::U32,
            Self::I32(_) => ValueType::I32,
            Self::F32(_) => ValueType::F32,
            Self::Bool(_) => ValueType::Bool,
            Self::String(_) => ValueType::String,
            Self::Array(_) => ValueType::Array,
            Self::U64(_) => ValueType::U64,
            Self::I64(_) => ValueType::I64,
            Self::F64(_) => ValueType::F64,
        }
    }

    /// The value as an integer, if it is one of any width.
    #[must_use]
    pub fn as_integer(&self) -> Option<i128> {
        Some(match *self {
            Self::U8(v) => v.into(),
            Self::I8(v) => v.into(),
            Self::U16(v) => v.into(),
            Self::I16(v) => v.into(),
            Self::U32(v) => v.into(),
            Self::I32(v) => v.into(),
            Self::U64(v) => v.into(),
            Self::I64(v) => v.into(),
            _ => return None,
        })
    }

    /// The value as text, if it is a string and UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&'a str> {
        match *self {
            Self::String(bytes) => core::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Reads a value of type `ty`; everything in it is checked but the content of bools, which
    /// [`Array::bad_bool`] and the parser look at.
    pub(super) fn read(reader: &mut Reader<'a>, ty: ValueType) -> Result<Self, Error> {
        const WHAT: &str = "metadata value";
        Ok(match ty {
            ValueType::String => Self::String(reader.string(WHAT)?),
            ValueType::Array => Self::Array(Array::read(reader)?),
            scalar => {
                let width = scalar.width().unwrap_or(0);
                Self::decode(scalar, reader.take(width, WHAT)?)
            }
        })
    }

    /// A scalar from its little-endian bytes; missing bytes read as zero.
    fn decode(ty: ValueType, bytes: &[u8]) -> Self {
        let mut le = [0_u8; 8];
        for (to, from) in le.iter_mut().zip(bytes) {
            *to = *from;
        }
        let [a, b, c, d, ..] = le;
        match ty {
            ValueType::U8 => Self::U8(a),
            ValueType::I8 => Self::I8(i8::from_le_bytes([a])),
            ValueType::U16 => Self::U16(u16::from_le_bytes([a, b])),
            ValueType::I16 => Self::I16(i16::from_le_bytes([a, b])),
            ValueType::U32 => Self::U32(u32::from_le_bytes([a, b, c, d])),
            ValueType::I32 => Self::I32(i32::from_le_bytes([a, b, c, d])),
            ValueType::F32 => Self::F32(f32::from_le_bytes([a, b, c, d])),
            ValueType::Bool => Self::Bool(a != 0),
            ValueType::U64 => Self::U64(u64::from_le_bytes(le)),
            ValueType::I64 => Self::I64(i64::from_le_bytes(le)),
            ValueType::F64 => Self::F64(f64::from_le_bytes(le)),
            ValueType::String | ValueType::Array => Self::String(&[]),
        }
    }
}

/// An array of scalars or strings, where it lies in the file.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    element: ValueType,
    len: usize,
    payload: &'a [u8],
    /// String lengths take 8 bytes, 4 in version 1.
    wide: bool,
}

impl<'a> Array<'a> {
    /// An array over `payload` in the form of version 2 and 3, as a writer needs it; `None` unless
    /// `payload` holds exactly `len` elements of the type.
    #[must_use]
    pub fn new(element: ValueType, len: usize, payload: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(payload, 0, true);
        let array = Self::read_elements(&mut reader, element, to_u64(len)).ok()?;
        (reader.left() == 0 && array.bad_bool().is_none()).then_some(array)
    }

    /// The type of the elements: a scalar or [`ValueType::String`].
    #[must_use]
    pub fn element_type(&self) -> ValueType {
        self.element
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of all elements, from the first byte after the element count on, as in the file.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.payload
    }

    /// Bytes of the length before each string: 8, or 4 in version 1.
    #[must_use]
    pub fn length_width(&self) -> usize {
        if self.wide { 8 } else { 4 }
    }

    /// All elements, in order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let mut reader = Reader::new(self.payload, 0, self.wide);
        let element = self.element;
        (0..self.len).map_while(move |_| Value::read(&mut reader, element).ok())
    }

    /// Element `at`: one step for scalars, a walk over all before it for strings.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<Value<'a>> {
        match self.element.width() {
            Some(width) => {
                if at >= self.len {
                    return None;
                }
                let start = at.checked_mul(width)?;
                let bytes = self.payload.get(start..start.checked_add(width)?)?;
                Some(Value::decode(self.element, bytes))
            }
            None => self.iter().nth(at),
        }
    }

    /// The strings of an array of strings, in order; nothing for other arrays.
    pub fn strings(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut reader = Reader::new(self.payload, 0, self.wide);
        let len = if self.element == ValueType::String {
            self.len
        } else {
            0
        };
        (0..len).map_while(move |_| reader.string("string").ok())
    }

    /// Element `at` of an array of `f32`.
    #[must_use]
    pub fn f32_at(&self, at: usize) -> Option<f32> {
        match self.get(at)? {
            Value::F32(v) => Some(v),
            _ => None,
        }
    }

    /// Element `at` of an array of integers of any width, where it fits.
    #[must_use]
    pub fn i32_at(&self, at: usize) -> Option<i32> {
        self.element.width()?;
        i32::try_from(self.get(at)?.as_integer()?).ok()
    }

    /// Element `at` of an array of integers of any width, where it fits.
    #[must_use]
    pub fn u32_at(&self, at: usize) -> Option<u32> {
        self.element.width()?;
        u32::try_from(self.get(at)?.as_integer()?).ok()
    }

    /// Index and value of the first bool that is neither 0 nor 1.
    pub(super) fn bad_bool(&self) -> Option<(usize, u8)> {
        if self.element != ValueType::Bool {
            return None;
        }
        let mut bytes = self.payload.iter().copied().enumerate();
        bytes.find(|&(_, byte)| byte > 1)
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let offset = reader.offset();
        let id = reader.u32("array element type")?;
        let kind = match ValueType::from_id(id) {
            Some(ValueType::Array) => ErrorKind::NestedArray,
            Some(element) => {
                let offset = reader.offset();
                let found = reader.count("array length")?;
                return Self::read_elements(reader, element, found).map_err(|error| {
                    match error.kind {
                        ErrorKind::ArrayLength { .. } => Error { offset, ..error },
                        _ => error,
                    }
                });
            }
            None => ErrorKind::ValueType { found: id },
        };
        Err(Error { kind, offset })
    }

    fn read_elements(
        reader: &mut Reader<'a>,
        element: ValueType,
        found: u64,
    ) -> Result<Self, Error> {
        let left = reader.left();
        let smallest = element.width().unwrap_or(reader.count_width());
        let len = usize::try_from(found).ok();
        let bytes = len.and_then(|len| len.checked_mul(smallest));
        let (Some(len), Some(bytes)) = (len, bytes.filter(|&bytes| bytes <= left)) else {
            let kind = ErrorKind::ArrayLength {
                found,
                left: to_u64(left),
            };
            let offset = reader.offset();
            return Err(Error { kind, offset });
        };
        let start = *reader;
        if element.width().is_some() {
            reader.take(bytes, "array")?;
        } else {
            for _ in 0..len {
                reader.string("array of strings")?;
            }
        }
        let size = reader.at().saturating_sub(start.at());
        Ok(Self {
            element,
            len,
            payload: { start }.take(size, "array")?,
            wide: reader.wide(),
        })
    }
}

impl PartialEq for Array<'_> {
    /// Element by element, floats by their bits, so that a NaN equals itself.
    fn eq(&self, other: &Self) -> bool {
        self.element == other.element
            && self.len == other.len
            && if self.element == ValueType::String && self.wide != other.wide {
                self.strings().eq(other.strings())
            } else {
                self.payload == other.payload
            }
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Array<'_> {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "[{}; {}]", self.element, self.len);
    }
}
