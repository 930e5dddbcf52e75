//! Bits of page table entries.

/// A valid block that was accessed.
pub const BLOCK: usize = 1 | 1 << 10;

/// Never executed by lower levels: for devices.
pub const UXN: usize = 1 << 54;

/// Memory that is cached, `DEFAULT_MAIR`'s second kind, and shared with the other cores.
pub const CACHED: usize = 1 << 2 | 3 << 8;
