//! Rounding with a view to what a model does with its weights.
//!
//! What goes into each matrix is measured while the model runs over a text, or over samples of its
//! own; then weights are rounded one column after the other, and what a rounding did wrong is made
//! good, as far as inputs go together, in the columns that are yet to come. The blocks stay plain
//! ones. The model is held in memory as f32: this is for small models.

mod feedback;
mod imatrix;
mod measure;
mod moments;
mod runs;
mod samples;
mod scales;

use std::{collections::HashMap, sync::Arc};

use rayon::prelude::*;
use smidgen_core::{
    gguf::{GgmlType, Gguf},
    model::Matrix,
    session::Tap,
};

pub use imatrix::{Imatrix, ImatrixError, Importance};
pub use measure::{Baseline, Comparison, compare};
pub use runs::CalibrateError;
pub use samples::{OWN_SAMPLES, cut_text, own as own_samples};

use crate::PlannedTensor;
use feedback::Feedback;
use moments::Moments;
use runs::with_model;

/// Tensors that have been encoded, by their names.
pub type Encoded = HashMap<String, (GgmlType, Vec<u8>)>;

/// A model that has been watched at work.
#[derive(Debug)]
pub struct Calibration {
    /// The model as f32, padded.
    file: Vec<u8>,
    sequences: Vec<Vec<u32>>,
    /// The rule for each tensor; those with the same inputs share it.
    feedback: HashMap<String, Arc<Feedback>>,
    imatrix: Imatrix,
}

/// What to watch it do.
#[derive(Clone, Debug)]
pub enum Material {
    /// Continue the beginning of a text, this many times, for [`OWN_SAMPLES`]' tokens.
    Own {
        /// Seed of the samples.
        seed: u64,
    },
    /// Read these token sequences.
    Text(Vec<Vec<u32>>),
}

impl Calibration {
    /// Runs the model of a file, all of whose tensors are f32.
    ///
    /// # Errors
    /// It is no model that can be run, or it runs into numbers that are not finite.
    pub fn new(
        file: Vec<u8>,
        bos: Option<u32>,
        material: Material,
    ) -> Result<Self, CalibrateError> {
        let (sequences, moments) = with_model(&file, |model| {
            let sequences = match material {
                Material::Own { seed } => samples::own(model, bos, seed)?,
                Material::Text(sequences) => sequences,
            };
            let moments = Moments::measure(model, &sequences)?;
            Ok((sequences, moments))
        })?;
        let taps: HashMap<Tap, (Arc<Feedback>, Importance)> = moments
            .into_taps()
            .into_par_iter()
            .map(|(tap, moment)| {
                let rule = Arc::new(Feedback::new(&moment));
                (tap, (rule, moment.importance()))
            })
            .collect();
        let mut feedback = HashMap::new();
        let mut imatrix = Imatrix {
            chunks: sequences.len(),
            chunk_len: sequences.iter().map(Vec::len).max().unwrap_or(0),
            ..Imatrix::default()
        };
        for info in parse(&file)?.tensors() {
            let name = info.name();
            if let Some((rule, importance)) = tap(name).and_then(|tap| taps.get(&tap)) {
                feedback.insert(name.to_owned(), Arc::clone(rule));
                imatrix.entries.insert(name.to_owned(), importance.clone());
            }
        }
        Ok(Self {
            file,
            sequences,
            feedback,
            imatrix,
        })
    }

    /// Of a model that was watched elsewhere: weights are rounded with regard to how large the
    /// inputs of each column are, but without feedback, since how they go together is not known.
    ///
    /// # Errors
    /// An importance has another length than the rows of its tensor, and no padding is why.
    pub fn with_imatrix(file: Vec<u8>, imatrix: Imatrix) -> Result<Self, CalibrateError> {
        let mut feedback = HashMap::new();
        for info in parse(&file)?.tensors() {
            let Some(importance) = imatrix.entries.get(info.name()) else {
                continue;
            };
            let row_len = usize::try_from(info.row_len()).unwrap_or(0);
            let given = importance.sums.len();
            let padded = given < row_len && info.name().contains("ffn_down");
            if given != row_len && !padded {
                let cause = format!(
                    "{}: the imatrix has {given} columns, the tensor {row_len}",
                    info.name()
                );
                return Err(CalibrateError::new(&cause));
            }
            let rule = Feedback::of_columns(importance, row_len);
            feedback.insert(info.name().to_owned(), Arc::new(rule));
        }
        Ok(Self {
            file,
            sequences: Vec::new(),
            feedback,
            imatrix,
        })
    }

    /// How large what went into each column was.
    #[must_use]
    pub fn imatrix(&self) -> &Imatrix {
        &self.imatrix
    }

    /// How many tokens were looked at.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.sequences.iter().map(Vec::len).sum()
    }

    /// Whether inputs of this tensor were seen.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.feedback.contains_key(name)
    }

    /// Encodes a tensor; `None` if it is no matrix whose inputs were seen, or the type has no
    /// blocks.
    #[must_use]
    pub fn encode(&self, name: &str, ty: GgmlType) -> Option<Vec<u8>> {
        let gguf = parse(&self.file).ok()?;
        let info = gguf.tensor(name)?;
        let feedback = self.feedback.get(name)?;
        let numbers = floats(gguf.data(&info)?);
        let row_len = usize::try_from(info.row_len()).ok()?;
        feedback.encode(ty, &numbers, row_len)
    }

    /// Encodes all tensors for which [`encode`](Self::encode) has a way, each in the type that is
    /// planned.
    #[must_use]
    pub fn encode_planned(&self, tensors: &[PlannedTensor]) -> Encoded {
        let encode = |tensor: &PlannedTensor| {
            let bytes = self.encode(&tensor.name, tensor.to)?;
            Some((tensor.name.clone(), (tensor.to, bytes)))
        };
        tensors.iter().filter_map(encode).collect()
    }

    /// What the original says of the first `tokens` tokens, to compare others with.
    ///
    /// # Errors
    /// The model runs into numbers that are not finite.
    pub fn baseline(&self, tokens: usize) -> Result<Baseline, CalibrateError> {
        let mut left = tokens;
        let mut sequences = Vec::new();
        for sequence in &self.sequences {
            let len = sequence.len().min(left);
            left -= len;
            sequences.extend(sequence.get(..len).filter(|part| part.len() > 1));
        }
        with_model(&self.file, |model| Baseline::new(model, &sequences))
    }

    /// How far a model with these tensors is from the original.
    ///
    /// # Errors
    /// The model runs into numbers that are not finite.
    pub fn measure(
        &self,
        encoded: &Encoded,
        baseline: &Baseline,
    ) -> Result<Comparison, CalibrateError> {
        with_model(&self.file, |original| {
            let mut layers = original.layers.to_vec();
            let mut model = *original;
            for (name, (ty, bytes)) in encoded {
                let matrix = match layer(name) {
                    None if name == "token_embd.weight" => {
                        let tied = model.output.bytes.as_ptr() == model.token_embd.bytes.as_ptr();
                        let new = replaced(&model.token_embd, *ty, bytes);
                        if tied {
                            model.output = new;
                        }
                        model.token_embd = new;
                        continue;
                    }
                    None if name == "output.weight" => &mut model.output,
                    None => continue,
                    Some((number, base)) => {
                        let layer = layers.get_mut(number);
                        match layer.and_then(|layer| matrix(layer, base)) {
                            Some(matrix) => matrix,
                            None => continue,
                        }
                    }
                };
                *matrix = replaced(matrix, *ty, bytes);
            }
            model.layers = &layers;
            baseline.compare(&model)
        })
    }
}

fn replaced<'a>(old: &Matrix<'a>, ty: GgmlType, bytes: &'a [u8]) -> Matrix<'a> {
    Matrix {
        ty,
        cols: old.cols,
        row_bytes: smidgen_core::quant::row_bytes(ty, old.cols).unwrap_or(0),
        bytes,
    }
}

/// Number and rest of `blk.3.attn_q.weight`.
fn layer(name: &str) -> Option<(usize, &str)> {
    let (number, base) = name.strip_prefix("blk.")?.split_once('.')?;
    Some((number.parse().ok()?, base))
}

/// Where the inputs of a matrix are seen.
fn tap(name: &str) -> Option<Tap> {
    let Some((number, base)) = layer(name) else {
        // The embeddings are the classifier as well, or as good as never multiplied with.
        let is_classifier = matches!(name, "token_embd.weight" | "output.weight");
        return is_classifier.then_some(Tap::Classifier);
    };
    Some(match base {
        "attn_q.weight" | "attn_k.weight" | "attn_v.weight" => Tap::Attention(number),
        "attn_output.weight" => Tap::AttentionOutput(number),
        "ffn_gate.weight" | "ffn_up.weight" => Tap::FeedForward(number),
        "ffn_down.weight" => Tap::FeedForwardDown(number),
        _ => return None,
    })
}

fn matrix<'l, 'a>(
    layer: &'l mut smidgen_core::model::Layer<'a>,
    base: &str,
) -> Option<&'l mut Matrix<'a>> {
    Some(match base {
        "attn_q.weight" => &mut layer.attn_q,
        "attn_k.weight" => &mut layer.attn_k,
        "attn_v.weight" => &mut layer.attn_v,
        "attn_output.weight" => &mut layer.attn_output,
        "ffn_gate.weight" => &mut layer.ffn_gate,
        "ffn_up.weight" => &mut layer.ffn_up,
        "ffn_down.weight" => &mut layer.ffn_down,
        _ => return None,
    })
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|&word| f32::from_le_bytes(word)).collect()
}

/// Parses bytes that were just written.
fn parse(file: &[u8]) -> Result<Gguf<'_>, CalibrateError> {
    let mut scratch = vec![0; Gguf::scratch_len(file)];
    Gguf::parse(file, &mut scratch).map_err(|error| CalibrateError::new(&error))
}
