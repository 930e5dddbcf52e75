//! A checked file: typed access to metadata, tensor infos and tensor bytes.

use super::{Array, KeyError, TensorInfo, Value, ValueType, reader::Reader, reader::to_u64};

/// A GGUF file whose bytes have been checked; a handful of numbers beside the borrowed bytes.
///
/// Everything is found by walking the bytes again: nothing is stored but where the parts begin.
#[derive(Clone, Copy)]
pub struct Gguf<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) version: u32,
    pub(super) metadata_count: usize,
    pub(super) tensor_count: usize,
    pub(super) metadata_at: usize,
    pub(super) infos_at: usize,
    pub(super) infos_end: usize,
    pub(super) data_at: u64,
    pub(super) alignment: u32,
}

/// A metadata entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<'a> {
    pub(super) key: &'a [u8],
    /// The value.
    pub value: Value<'a>,
    /// Where the entry begins, in bytes from the start of the file.
    pub offset: u64,
}

impl<'a> Entry<'a> {
    /// The key; one that is not UTF-8, which only [`Gguf::check`] lets pass, reads as empty.
    #[must_use]
    pub fn key(&self) -> &'a str {
        core::str::from_utf8(self.key).unwrap_or_default()
    }

    /// The key's bytes.
    #[must_use]
    pub fn key_bytes(&self) -> &'a [u8] {
        self.key
    }

    /// Reads an entry whose type number is known to be right.
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let offset = reader.offset();
        let key = reader.string("key").ok()?;
        let ty = ValueType::from_id(reader.u32("value type").ok()?)?;
        let value = Value::read(reader, ty).ok()?;
        Some(Self { key, value, offset })
    }
}

impl<'a> Gguf<'a> {
    /// The bytes of the whole file.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The version of the format, 1 to 3.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The alignment of tensor data in bytes: `general.alignment`, or 32.
    #[must_use]
    pub fn alignment(&self) -> u32 {
        self.alignment
    }

    /// How many metadata entries there are.
    #[must_use]
    pub fn metadata_count(&self) -> usize {
        self.metadata_count
    }

    /// How many tensors there are.
    #[must_use]
    pub fn tensor_count(&self) -> usize {
        self.tensor_count
    }

    /// Where the metadata begins, in bytes from the start of the file.
    #[must_use]
    pub fn metadata_offset(&self) -> u64 {
        to_u64(self.metadata_at)
    }

    /// Where the tensor infos begin, which is where the metadata ends.
    #[must_use]
    pub fn infos_offset(&self) -> u64 {
        to_u64(self.infos_at)
    }

    /// Where the tensor infos end; padding follows up to [`data_offset`](Self::data_offset).
    #[must_use]
    pub fn infos_end(&self) -> u64 {
        to_u64(self.infos_end)
    }

    /// Where the tensor data begins. In a file without tensors this may lie past its end; it is
    /// `u64::MAX` where [`check`](Self::check) did not get so far.
    #[must_use]
    pub fn data_offset(&self) -> u64 {
        self.data_at
    }

    /// Bytes of the file from where tensor data begins.
    #[must_use]
    pub fn data_len(&self) -> u64 {
        to_u64(self.bytes.len()).saturating_sub(self.data_at)
    }

    /// All metadata entries in the order of the file.
    pub fn metadata(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let mut reader = self.reader(self.metadata_at);
        (0..self.metadata_count).map_while(move |_| Entry::read(&mut reader))
    }

    /// All tensors in the order of the file.
    pub fn tensors(&self) -> impl Iterator<Item = TensorInfo<'a>> + use<'a> {
        let mut reader = self.reader(self.infos_at);
        (0..self.tensor_count).map_while(move |_| TensorInfo::read(&mut reader).ok())
    }

    /// The tensor called `name`.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<TensorInfo<'a>> {
        self.tensors()
            .find(|info| info.name_bytes() == name.as_bytes())
    }

    /// The bytes of a tensor of this file. Always there after [`parse`](Self::parse); after
    /// [`check`](Self::check) found faults, `None` where they do not lie in the file or their
    /// number is not known.
    #[must_use]
    pub fn data(&self, info: &TensorInfo<'_>) -> Option<&'a [u8]> {
        let len = usize::try_from(info.byte_len()?).ok()?;
        if len == 0 {
            return Some(&[]);
        }
        let start = usize::try_from(self.data_at.checked_add(info.offset())?).ok()?;
        self.bytes.get(start..start.checked_add(len)?)
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        self.metadata()
            .find(|entry| entry.key == key.as_bytes())
            .map(|entry| entry.value)
    }

    /// The value of `key` as an unsigned integer: any integer type whose value fits.
    ///
    /// # Errors
    /// The key is there with a value of another type, or a negative one.
    pub fn get_u64<'k>(&self, key: &'k str) -> Result<Option<u64>, KeyError<'k>> {
        let expected = "an unsigned integer";
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let integer = value.as_integer().ok_or(KeyError::WrongType {
            key,
            expected,
            found: value.value_type(),
        })?;
        let fits = u64::try_from(integer);
        fits.map(Some)
            .map_err(|_| KeyError::OutOfRange { key, expected })
    }

    /// The value of `key` as a `u32`: any integer type whose value fits.
    ///
    /// # Errors
    /// The key is there with a value of another type, or out of range.
    pub fn get_u32<'k>(&self, key: &'k str) -> Result<Option<u32>, KeyError<'k>> {
        let expected = "an unsigned integer of 32 bits";
        let wide = self.get_u64(key)?;
        let fits = wide.map(u32::try_from).transpose();
        fits.map_err(|_| KeyError::OutOfRange { key, expected })
    }

    /// The value of `key` as an `f32`; an `f64` is rounded.
    ///
    /// # Errors
    /// The key is there with a value of another type.
    pub fn get_f32<'k>(&self, key: &'k str) -> Result<Option<f32>, KeyError<'k>> {
        self.typed(key, "a float", |value| match value {
            Value::F32(v) => Some(v),
            Value::F64(v) => Some(rounded_to_f32(v)),
            _ => None,
        })
    }

    /// The value of `key` as a bool.
    ///
    /// # Errors
    /// The key is there with a value of another type.
    pub fn get_bool<'k>(&self, key: &'k str) -> Result<Option<bool>, KeyError<'k>> {
        self.typed(key, "a bool", |value| match value {
            Value::Bool(v) => Some(v),
            _ => None,
        })
    }

    /// The bytes of the string value of `key`.
    ///
    /// # Errors
    /// The key is there with a value of another type.
    pub fn get_bytes<'k>(&self, key: &'k str) -> Result<Option<&'a [u8]>, KeyError<'k>> {
        self.typed(key, "a string", |value| match value {
            Value::String(v) => Some(v),
            _ => None,
        })
    }

    /// The value of `key` as text.
    ///
    /// # Errors
    /// The key is there with a value of another type, or one that is not UTF-8.
    pub fn get_str<'k>(&self, key: &'k str) -> Result<Option<&'a str>, KeyError<'k>> {
        self.typed(key, "a UTF-8 string", |value| value.as_str())
    }

    /// The value of `key` as an array of `element`.
    ///
    /// # Errors
    /// The key is there with a value of another type, or an array of other elements.
    pub fn get_array<'k>(
        &self,
        key: &'k str,
        element: ValueType,
    ) -> Result<Option<Array<'a>>, KeyError<'k>> {
        let expected = match element {
            ValueType::String => "an array of strings",
            ValueType::F32 => "an array of f32",
            ValueType::I32 => "an array of i32",
            ValueType::U16 => "an array of u16",
            ValueType::U32 => "an array of u32",
            _ => "an array of another element type",
        };
        self.typed(key, expected, |value| match value {
            Value::Array(array) if array.element_type() == element => Some(array),
            _ => None,
        })
    }

    fn typed<'k, T>(
        &self,
        key: &'k str,
        expected: &'static str,
        pick: impl FnOnce(Value<'a>) -> Option<T>,
    ) -> Result<Option<T>, KeyError<'k>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let found = value.value_type();
        pick(value).map(Some).ok_or(KeyError::WrongType {
            key,
            expected,
            found,
        })
    }

    fn reader(&self, at: usize) -> Reader<'a> {
        Reader::new(self.bytes, at, self.version >= 2)
    }
}

impl core::fmt::Debug for Gguf<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Gguf")
            .field("version", &self.version)
            .field("metadata_count", &self.metadata_count)
            .field("tensor_count", &self.tensor_count)
            .field("alignment", &self.alignment)
            .field("data_offset", &self.data_at)
            .field("len", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// The nearest f32, halves to even, as a cast gives it: for one, boards would link arithmetic with
/// f64.
#[allow(clippy::as_conversions, clippy::cast_possible_truncation)] // Cut to the bits that are left.
fn rounded_to_f32(x: f64) -> f32 {
    let bits = x.to_bits();
    let sign = (bits >> 32) as u32 & 1 << 31;
    let exponent = (bits >> 52) as u32 & 0x7ff;
    let fraction = bits & 0xf_ffff_ffff_ffff;
    if exponent == 0x7ff && fraction != 0 {
        return f32::NAN;
    }
    // Exponents of f32 are 896 less. Below, the number is subnormal.
    let (rest, shift, base) = match exponent.checked_sub(897) {
        Some(above) if above < 254 => (fraction, 29, above.wrapping_add(1) << 23),
        Some(_) => (0, 29, 255 << 23),
        None => {
            let shift = 926_u32.wrapping_sub(exponent);
            (fraction | 1 << 52, shift.min(63), 0)
        }
    };
    let kept = (rest >> shift) as u32;
    let half = 1_u64 << shift.wrapping_sub(1);
    let cut = rest & half.wrapping_mul(2).wrapping_sub(1);
    let up = cut > half || (cut == half && kept & 1 == 1);
    f32::from_bits(sign | base.wrapping_add(kept).wrapping_add(up.into()))
}

#[cfg(test)]
mod tests {
    use super::rounded_to_f32;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_f64_is_rounded_as_by_a_cast(bits: u64, exponent in 860_u64..1160, low in 0_u64..4) {
            // All numbers, those around the range of f32, and those in the middle of two.
            let near = bits & !(0x7ff << 52) | exponent << 52;
            let middle = near & !0x3fff_ffff | (0x1fff_fffe + low);
            for bits in [bits, near, middle] {
                let x = f64::from_bits(bits);
                let (found, expected) = (rounded_to_f32(x), x as f32);
                let same = found.to_bits() == expected.to_bits();
                prop_assert!(same || (found.is_nan() && expected.is_nan()), "{x:e}: {found:e}");
            }
        }
    }
}
