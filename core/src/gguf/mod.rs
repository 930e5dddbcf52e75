//! The GGUF container: bytes only, nothing of models.
//!
//! [`Gguf::parse`] is the only door. It checks in one pass whatever the accessors rely on, so that
//! they cannot fail later: counts against the bytes that are left, names, types, shapes, and where
//! each tensor lies. Nothing is copied, nothing is allocated, and no input makes it panic.
//!
//! ```
//! use smidgen_core::gguf::{GgmlType, Gguf, TensorInfo, Value, Writer};
//!
//! // A file of one entry and one tensor of two floats.
//! let mut bytes = std::vec::Vec::new();
//! let tensor = TensorInfo::new("scale", &[2], GgmlType::F32, 0).unwrap();
//! let mut writer = Writer::new(|part: &[u8]| -> Result<(), ()> { bytes.extend(part); Ok(()) }, 1, 1)?;
//! writer.metadata("general.name", &Value::String(b"example"))?;
//! writer.tensor(&tensor)?;
//! writer.finish(32)?;
//! bytes.extend(1.5_f32.to_le_bytes());
//! bytes.extend(2.5_f32.to_le_bytes());
//!
//! let mut scratch = [0; 1];
//! assert_eq!(Gguf::scratch_len(&bytes), 1);
//! let gguf = Gguf::parse(&bytes, &mut scratch).unwrap();
//! assert_eq!(gguf.get_str("general.name").unwrap(), Some("example"));
//! assert_eq!(gguf.get_u32("general.alignment").unwrap(), None);
//! let tensor = gguf.tensor("scale").unwrap();
//! assert_eq!(gguf.data(&tensor).unwrap(), [0, 0, 0xc0, 0x3f, 0, 0, 0x20, 0x40]);
//! # Ok::<(), smidgen_core::gguf::WriteError<()>>(())
//! ```

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod container;
mod error;
mod file_name;
mod ggml_type;
pub mod keys;
mod layout;
mod names;
mod parse;
mod places;
mod reader;
mod shard_name;
mod tensor_info;
mod value;
mod writer;

pub use container::{Entry, Gguf};
pub use error::{Error, ErrorKind, KeyError};
pub use file_name::{FileName, FileNameProblem};
pub use ggml_type::{Geometry, GgmlType};
pub use layout::{DEFAULT_ALIGNMENT, MAX_ALIGNMENT, align_up};
pub use parse::{MAGIC, MAX_WITHOUT_SCRATCH};
pub use shard_name::ShardName;
pub use tensor_info::{MAX_DIMS, MAX_NAME_LEN, TensorInfo};
pub use value::{Array, Value, ValueType};
pub use writer::{WriteError, Writer};
