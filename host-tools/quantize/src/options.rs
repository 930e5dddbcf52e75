//! What a user can ask for.

use std::num::NonZeroUsize;

use regex_lite::Regex;
use smidgen_core::gguf::GgmlType;

use crate::{FileType, Imatrix, OverrideKv};

/// How to quantize.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kind of file.
    pub file_type: FileType,
    /// Give all matrices the same type.
    pub pure: bool,
    /// Quantize tensors that are quantized already.
    pub allow_requantize: bool,
    /// Leave `output.weight` as it is.
    pub leave_output_tensor: bool,
    /// Type of `output.weight`, or of the embeddings where they are it too.
    pub output_tensor_type: Option<GgmlType>,
    /// Type of `token_embd.weight`.
    pub token_embedding_type: Option<GgmlType>,
    /// Types of tensors by name; the first that matches counts.
    pub tensor_types: Vec<TensorType>,
    /// Metadata to set.
    pub overrides: Vec<OverrideKv>,
    /// Whether to pad the feed-forward network.
    pub padding: Padding,
    /// Keep an `output.weight` that is the embeddings once more.
    pub keep_tied_output: bool,
    /// Write a shard for each shard of a split model, not one file.
    pub keep_split: bool,
    /// Fail where a tensor cannot have the type that it should.
    pub strict: bool,
    /// An importance matrix and the name of its file: the rules look whether there is one, and the
    /// file says which it was.
    pub imatrix: Option<(String, Imatrix)>,
    /// Threads; one for each processor if not given.
    pub threads: Option<NonZeroUsize>,
}

impl Options {
    /// As llama-quantize does it, but padded and with a tied output stored once.
    #[must_use]
    pub fn new(file_type: FileType) -> Self {
        Self {
            file_type,
            pure: false,
            allow_requantize: false,
            leave_output_tensor: false,
            output_tensor_type: None,
            token_embedding_type: None,
            tensor_types: Vec::new(),
            overrides: Vec::new(),
            padding: Padding::Needed,
            keep_tied_output: false,
            keep_split: false,
            strict: false,
            imatrix: None,
            threads: None,
        }
    }
}

/// Whether to pad the hidden size of a feed-forward network with zeros to a multiple of 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Never; rows that are no whole blocks become F16.
    Off,
    /// Where a tensor could not have its type otherwise.
    Needed,
    /// Also where no type asks for it.
    Always,
}

/// A type for the tensors whose names match a pattern.
#[derive(Clone, Debug)]
pub struct TensorType {
    pattern: Regex,
    /// The type.
    pub ty: GgmlType,
}

impl TensorType {
    /// A regular expression that is looked for anywhere in a name, and the type.
    ///
    /// # Errors
    /// The pattern is no regular expression.
    pub fn new(pattern: &str, ty: GgmlType) -> Result<Self, regex_lite::Error> {
        let pattern = Regex::new(pattern)?;
        Ok(Self { pattern, ty })
    }

    /// For the tensor of exactly this name.
    ///
    /// # Errors
    /// The name makes no pattern.
    pub fn exact(name: &str, ty: GgmlType) -> Result<Self, regex_lite::Error> {
        Self::new(&format!("^{}$", regex_lite::escape(name)), ty)
    }

    /// Whether it is for this tensor.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.pattern.is_match(name)
    }
}
