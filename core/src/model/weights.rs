//! Weights where they lie, found by their names.

use super::{Hyperparameters, ModelError};
use crate::built_in;
use crate::gguf::{GgmlType, Gguf, TensorInfo, keys};
use crate::quant::activation_kind;

/// A weight matrix where it lies: rows of `cols` elements, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// Element type.
    pub ty: GgmlType,
    /// Elements of a row.
    pub cols: usize,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// The bytes of all rows.
    pub bytes: &'a [u8],
}

impl<'a> Matrix<'a> {
    const EMPTY: Self = Self {
        ty: GgmlType::F32,
        cols: 0,
        row_bytes: 0,
        bytes: &[],
    };

    /// The bytes of row `at`.
    #[must_use]
    pub fn row(&self, at: usize) -> Option<&'a [u8]> {
        let start = at.checked_mul(self.row_bytes)?;
        self.bytes.get(start..start.checked_add(self.row_bytes)?)
    }

    fn is_missing(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// The weights of a layer. Norms are little-endian f32.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // Named as their tensors are.
pub struct Layer<'a> {
    pub attn_norm: &'a [u8],
    pub attn_q: Matrix<'a>,
    pub attn_k: Matrix<'a>,
    pub attn_v: Matrix<'a>,
    pub attn_output: Matrix<'a>,
    pub ffn_norm: &'a [u8],
    pub ffn_gate: Matrix<'a>,
    pub ffn_up: Matrix<'a>,
    pub ffn_down: Matrix<'a>,
}

impl Layer<'_> {
    /// A layer that is yet to be found.
    pub const EMPTY: Self = Self {
        attn_norm: &[],
        attn_q: Matrix::EMPTY,
        attn_k: Matrix::EMPTY,
        attn_v: Matrix::EMPTY,
        attn_output: Matrix::EMPTY,
        ffn_norm: &[],
        ffn_gate: Matrix::EMPTY,
        ffn_up: Matrix::EMPTY,
        ffn_down: Matrix::EMPTY,
    };
}

impl<'a> Layer<'a> {
    /// All of its matrices.
    #[must_use]
    pub fn matrices(&self) -> [&Matrix<'a>; 7] {
        [
            &self.attn_q,
            &self.attn_k,
            &self.attn_v,
            &self.attn_output,
            &self.ffn_gate,
            &self.ffn_up,
            &self.ffn_down,
        ]
    }
}

/// A llama model whose weights stay where they are.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    /// Its numbers.
    pub hyperparameters: Hyperparameters,
    /// The embedding, a row a token.
    pub token_embd: Matrix<'a>,
    /// The last normalization, little-endian f32.
    pub output_norm: &'a [u8],
    /// The classifier; the embedding once more if the file has none of its own.
    pub output: Matrix<'a>,
    /// The layers in order.
    pub layers: &'a [Layer<'a>],
}

impl<'m> Model<'m> {
    /// How many [`Layer`]s [`load`](Self::load) needs room for; 0 if the file does not say.
    #[must_use]
    pub fn layers_len(gguf: &Gguf<'_>) -> usize {
        let count = gguf.get_u32(keys::LLAMA_BLOCK_COUNT).ok().flatten();
        count.and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
    }

    /// Finds and checks all weights. `shards` are the files of a split model in their order, or
    /// the one file; metadata is that of the first.
    ///
    /// # Errors
    /// What the metadata lacks or asks for too much; a tensor that is missing, misshapen, of a
    /// type that cannot be run or is not [built in](crate::built_in), or that a llama model does not
    /// have.
    #[inline(never)] // A frame of its own: boards have little stack.
    pub fn load<'a: 'm>(
        shards: &[Gguf<'a>],
        layers: &'m mut [Layer<'a>],
    ) -> Result<Self, ModelError> {
        let mut embeddings = shards.iter().filter_map(|gguf| gguf.tensor(TOKEN_EMBD));
        let n_vocab = embeddings.next().and_then(|info| info.rows());
        let (Some(first), Some(n_vocab)) = (shards.first(), n_vocab) else {
            return Err(ModelError::MissingTensor {
                layer: None,
                name: TOKEN_EMBD,
            });
        };
        let n_vocab = usize::try_from(n_vocab).ok();
        let n_vocab = n_vocab.filter(|n| (1..=1 << 24).contains(n));
        let n_vocab = n_vocab.ok_or(ModelError::Contradiction {
            what: "token_embd.weight must have from 1 to 16777216 rows",
        })?;
        let hp = Hyperparameters::from_metadata(first, n_vocab)?;
        Self::find(hp, shards, layers)
    }

    #[inline(never)] // As above.
    fn find<'a: 'm>(
        hp: Hyperparameters,
        shards: &[Gguf<'a>],
        layers: &'m mut [Layer<'a>],
    ) -> Result<Self, ModelError> {
        let given = layers.len();
        let Some(layers) = layers.get_mut(..hp.n_layers) else {
            return Err(ModelError::LayersTooSmall {
                needed: hp.n_layers,
                given,
            });
        };
        layers.fill(Layer::EMPTY);
        let mut token_embd = Matrix::EMPTY;
        let mut output = Matrix::EMPTY;
        let mut output_norm: &[u8] = &[];
        for gguf in shards {
            for info in gguf.tensors() {
                let slot = match info.name() {
                    TOKEN_EMBD => Some(Slot::Matrix(&mut token_embd, hp.n_embd, hp.n_vocab)),
                    "output.weight" => Some(Slot::Matrix(&mut output, hp.n_embd, hp.n_vocab)),
                    OUTPUT_NORM => Some(Slot::Vector(&mut output_norm, hp.n_embd)),
                    name => layer_name(name).and_then(|(number, name)| {
                        let at = OF_LAYER.iter().position(|known| *known == name)?;
                        layers.get_mut(number)?.slot(at, &hp)
                    }),
                };
                match slot {
                    Some(slot) => slot.fill(&Found { gguf, info })?,
                    None => {
                        let name = info.name().into();
                        return Err(ModelError::UnexpectedTensor { name });
                    }
                }
            }
        }
        if output_norm.is_empty() {
            return Err(ModelError::MissingTensor {
                layer: None,
                name: OUTPUT_NORM,
            });
        }
        if output.is_missing() {
            output = token_embd;
        }
        for (number, layer) in (0..).zip(layers.iter_mut()) {
            for (at, name) in OF_LAYER.iter().enumerate() {
                if layer.slot(at, &hp).is_none_or(|slot| slot.is_empty()) {
                    return Err(ModelError::MissingTensor {
                        layer: Some(number),
                        name,
                    });
                }
            }
        }
        Ok(Self {
            hyperparameters: hp,
            token_embd,
            output_norm,
            output,
            layers,
        })
    }

    /// All matrices; the classifier only if it is its own.
    pub fn matrices(&self) -> impl Iterator<Item = Matrix<'m>> + '_ {
        let own_output = !core::ptr::eq(self.output.bytes, self.token_embd.bytes);
        // References: an iterator over matrices would be large.
        let of_layers = self.layers.iter().flat_map(Layer::matrices);
        core::iter::once(&self.token_embd)
            .chain(own_output.then_some(&self.output))
            .chain(of_layers)
            .copied()
    }
}

const TOKEN_EMBD: &str = "token_embd.weight";
const OUTPUT_NORM: &str = "output_norm.weight";

/// `blk.N.rest` taken apart.
fn layer_name(name: &str) -> Option<(usize, &str)> {
    let name = name.strip_prefix("blk.")?;
    let (digits, rest) = name.split_at_checked(name.bytes().position(|byte| byte == b'.')?)?;
    let canonical = digits == "0" || !digits.starts_with('0');
    if digits.is_empty() || !canonical {
        return None;
    }
    let mut number = 0_usize;
    for digit in digits.bytes() {
        let digit = usize::from(digit.checked_sub(b'0').filter(|&digit| digit < 10)?);
        number = number.checked_mul(10)?.checked_add(digit)?;
    }
    Some((number, rest.get(1..)?))
}

/// The names of a layer's tensors.
const OF_LAYER: [&str; 9] = [
    "attn_norm.weight",
    "attn_q.weight",
    "attn_k.weight",
    "attn_v.weight",
    "attn_output.weight",
    "ffn_norm.weight",
    "ffn_gate.weight",
    "ffn_up.weight",
    "ffn_down.weight",
];

/// A place for a tensor.
enum Slot<'s, 'a> {
    /// With columns and rows.
    Matrix(&'s mut Matrix<'a>, usize, usize),
    /// With its length.
    Vector(&'s mut &'a [u8], usize),
}

impl<'a> Layer<'a> {
    /// The place for the tensor of [`OF_LAYER`] at this index.
    fn slot(&mut self, at: usize, hp: &Hyperparameters) -> Option<Slot<'_, 'a>> {
        let (n_embd, n_ff, q_dim, kv_dim) = (hp.n_embd, hp.n_ff, hp.q_dim(), hp.kv_dim());
        let (matrix, cols, rows) = match at {
            0 => return Some(Slot::Vector(&mut self.attn_norm, n_embd)),
            1 => (&mut self.attn_q, n_embd, q_dim),
            2 => (&mut self.attn_k, n_embd, kv_dim),
            3 => (&mut self.attn_v, n_embd, kv_dim),
            4 => (&mut self.attn_output, q_dim, n_embd),
            5 => return Some(Slot::Vector(&mut self.ffn_norm, n_embd)),
            6 => (&mut self.ffn_gate, n_embd, n_ff),
            7 => (&mut self.ffn_up, n_embd, n_ff),
            8 => (&mut self.ffn_down, n_ff, n_embd),
            _ => return None,
        };
        Some(Slot::Matrix(matrix, cols, rows))
    }
}

/// A tensor and the file it was found in.
struct Found<'g, 'a> {
    gguf: &'g Gguf<'a>,
    info: TensorInfo<'a>,
}

impl<'a> Slot<'_, 'a> {
    fn is_empty(&self) -> bool {
        match self {
            Self::Matrix(matrix, ..) => matrix.is_missing(),
            Self::Vector(bytes, _) => bytes.is_empty(),
        }
    }

    #[inline(never)] // A frame of its own: boards have little stack.
    fn fill(self, tensor: &Found<'_, 'a>) -> Result<(), ModelError> {
        let name = tensor.info.name().into();
        let found = tensor.info.ty();
        let can_be_run = match self {
            Self::Matrix(..) => activation_kind(found).is_some(),
            Self::Vector(..) => found == GgmlType::F32,
        };
        if !can_be_run {
            return Err(ModelError::TensorType { name, found });
        }
        if matches!(self, Self::Matrix(..)) && !built_in::has_type(found) {
            return Err(ModelError::NotBuiltIn { name, found });
        }
        if !self.is_empty() {
            return Err(ModelError::DuplicateTensor { name });
        }
        match self {
            Self::Matrix(matrix, cols, rows) => {
                let bytes = tensor.bytes(cols, rows)?;
                *matrix = Matrix {
                    ty: found,
                    cols,
                    row_bytes: bytes.len() / rows,
                    bytes,
                };
            }
            Self::Vector(vector, len) => *vector = tensor.bytes(len, 1)?,
        }
        Ok(())
    }
}

impl<'a> Found<'_, 'a> {
    fn bytes(&self, cols: usize, rows: usize) -> Result<&'a [u8], ModelError> {
        let size = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let expected = [size(cols), size(rows)];
        let found = [self.info.row_len(), self.info.rows().unwrap_or(u64::MAX)];
        if found != expected {
            let name = self.info.name().into();
            return Err(ModelError::TensorShape {
                name,
                expected,
                found,
            });
        }
        let bytes = self.gguf.data(&self.info).ok_or(ModelError::TooLarge)?;
        Ok(bytes)
    }
}
