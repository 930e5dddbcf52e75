//! A llama model: its hyperparameters and its weights, borrowed from the bytes of a file.

mod error;
mod hyperparameters;
mod name;
mod weights;

pub use error::ModelError;
pub use hyperparameters::Hyperparameters;
pub use name::Name;
pub use weights::{Layer, Matrix, Model};
