//! The GGUF container: bytes only, nothing of models.

mod ggml_type;

pub use ggml_type::{Geometry, GgmlType};
