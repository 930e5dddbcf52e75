//! Files for Smidgen: map or read, write whole or not at all, build GGUF; and the memory and
//! threads of sessions.
//!
//! ```
//! use smidgen_core::gguf::GgmlType;
//! use smidgen_io::{FileBytes, GgufBuilder, Overwrite};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("tiny.gguf");
//! let mut builder = GgufBuilder::new();
//! builder.set("general.name", "tiny");
//! builder.tensor("scale", &[2], GgmlType::F32, &[0; 8][..])?;
//! builder.write_file(&path, Overwrite::Refuse)?;
//!
//! let file = FileBytes::open(&path)?;
//! let gguf = file.gguf()?;
//! assert_eq!(gguf.get_str("general.name").unwrap(), Some("tiny"));
//! # Ok::<(), smidgen_io::Error>(())
//! ```

mod atomic_file;
mod builder;
mod copy_range;
mod error;
mod file_bytes;
mod owned_value;
mod session_memory;
mod threads;
mod vocab_index;

pub use atomic_file::{AtomicFile, Overwrite, folder_of, output_path, same_file, sync_folder_of};
pub use builder::{GgufBuilder, Layout, Placed, TensorSource};
pub use error::{BuildError, Error};
pub use file_bytes::FileBytes;
pub use owned_value::OwnedValue;
pub use session_memory::SessionMemory;
pub use threads::Threads;
pub use vocab_index::vocab_index;
