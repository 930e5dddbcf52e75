//! The model that is part of the command, so that it has something to say wherever it is installed.

use smidgen_io::FileBytes;

/// Its name, where another model has a path.
pub(crate) const NAME: &str = "smidgen-260k-Q8_0.gguf";

/// The start of a GGUF must be aligned for what is in it to be.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

static MODEL: &Aligned<[u8]> = &Aligned(*include_bytes!(
    "../../../examples/models/smidgen-260k-Q8_0.gguf"
));

/// As if it had been opened.
pub(crate) fn file() -> FileBytes {
    FileBytes::built_in(NAME, &MODEL.0)
}
