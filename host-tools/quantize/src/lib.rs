//! Smaller models: from a GGUF of floats to one of blocks.
//!
//! [`quantize`] decides the type of every tensor as llama-quantize does, and three things better
//! where that is possible without a reader of the file noticing: a feed-forward network whose rows
//! are no whole blocks is padded with zeros, an output matrix that is the embeddings once more is
//! left out, and everything is streamed row by row, whatever a tensor's size.
//!
//! ```
//! use smidgen_core::gguf::GgmlType;
//! use smidgen_io::{FileBytes, GgufBuilder, Overwrite};
//! use smidgen_quantize::{FileType, Options, quantize};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let (input, output) = (folder.path().join("f32.gguf"), folder.path().join("q8_0.gguf"));
//! let mut builder = GgufBuilder::new();
//! builder.set("general.architecture", "llama");
//! builder.tensor("blk.0.attn_q.weight", &[32, 2], GgmlType::F32, vec![0; 256])?;
//! builder.write_file(&input, Overwrite::Refuse)?;
//!
//! let file = FileBytes::open(&input)?;
//! let gguf = file.gguf()?;
//! let options = Options::new(FileType::from_name("Q8_0").unwrap());
//! let mut quantized = quantize(&[gguf], &options).unwrap();
//! quantized.write_file(&output, Overwrite::Refuse).unwrap();
//! assert_eq!(quantized.tensors()[0].to, GgmlType::Q8_0);
//! # Ok::<(), smidgen_io::Error>(())
//! ```

mod calibrate;
mod error;
mod file_type;
mod fit;
mod options;
mod override_kv;
mod padding;
mod plan;
mod quantization;
mod role;
mod rows;
mod rules;

pub use calibrate::{
    Baseline, CalibrateError, Calibration, Comparison, Encoded, Imatrix, ImatrixError, Importance,
    Material, OWN_SAMPLES, compare, cut_text, own_samples,
};
pub use error::{NumberError, QuantizeError};
pub use file_type::FileType;
pub use fit::{Candidate, FitError, FitTensor, fit};
pub use options::{Options, Padding, TensorType};
pub use override_kv::{OverrideError, OverrideKv};
pub use plan::PlannedTensor;
pub use quantization::{Quantization, as_f32, quantize, quantize_with, with_threads};
