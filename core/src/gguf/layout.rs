//! Arithmetic of where things lie; every overflow is an answer.

/// The alignment of tensor data where `general.alignment` is not there, in bytes.
pub const DEFAULT_ALIGNMENT: u32 = 32;

/// The largest alignment that is accepted, in bytes.
pub const MAX_ALIGNMENT: u32 = 1 << 30;

/// `offset` rounded up to a multiple of `alignment`, which must be a power of two.
///
/// ```
/// use smidgen_core::gguf::align_up;
/// assert_eq!(align_up(33, 32), Some(64));
/// assert_eq!(align_up(64, 32), Some(64));
/// assert_eq!(align_up(u64::MAX, 32), None);
/// ```
#[must_use]
pub fn align_up(offset: u64, alignment: u32) -> Option<u64> {
    let mask = u64::from(alignment).checked_sub(1)?;
    Some(offset.checked_add(mask)? & !mask)
}
