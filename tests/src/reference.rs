//! A llama in float64, plain and slow: what any engine's logits are measured against.

use smidgen_core::gguf::{Gguf, keys};
use smidgen_core::quant::dequantize_row;

/// A model with all its weights as float64.
#[derive(Debug)]
pub struct Reference {
    heads: usize,
    kv_heads: usize,
    eps: f64,
    rope_base: f64,
    token_embd: Matrix,
    layers: Vec<Layer>,
    output_norm: Vec<f64>,
    output: Option<Matrix>,
}

#[derive(Debug)]
struct Layer {
    attn_norm: Vec<f64>,
    attn_q: Matrix,
    attn_k: Matrix,
    attn_v: Matrix,
    attn_output: Matrix,
    ffn_norm: Vec<f64>,
    ffn_gate: Matrix,
    ffn_up: Matrix,
    ffn_down: Matrix,
}

/// Rows one after the other.
#[derive(Debug)]
struct Matrix {
    row_len: usize,
    values: Vec<f64>,
}

impl Matrix {
    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks_exact(self.row_len)
    }

    fn times(&self, x: &[f64]) -> Vec<f64> {
        assert_eq!(self.row_len, x.len());
        self.rows().map(|row| dot(row, x)).collect()
    }
}

impl Reference {
    /// Takes the model out of a file.
    ///
    /// # Panics
    /// An entry or a tensor is missing.
    #[must_use]
    pub fn load(gguf: &Gguf<'_>) -> Self {
        let int = |key| gguf.get_u32(key).unwrap().expect(key) as usize;
        let float = |key| f64::from(gguf.get_f32(key).unwrap().expect(key));
        let matrix = |name: &str| tensor(gguf, name).unwrap_or_else(|| panic!("no {name}"));
        let layer = |layer| {
            let matrix = |name: &str| matrix(&format!("blk.{layer}.{name}.weight"));
            Layer {
                attn_norm: matrix("attn_norm").values,
                attn_q: matrix("attn_q"),
                attn_k: matrix("attn_k"),
                attn_v: matrix("attn_v"),
                attn_output: matrix("attn_output"),
                ffn_norm: matrix("ffn_norm").values,
                ffn_gate: matrix("ffn_gate"),
                ffn_up: matrix("ffn_up"),
                ffn_down: matrix("ffn_down"),
            }
        };
        Self {
            heads: int(keys::LLAMA_ATTENTION_HEAD_COUNT),
            kv_heads: int(keys::LLAMA_ATTENTION_HEAD_COUNT_KV),
            eps: float(keys::LLAMA_ATTENTION_LAYER_NORM_RMS_EPSILON),
            rope_base: float(keys::LLAMA_ROPE_FREQ_BASE),
            token_embd: matrix("token_embd.weight"),
            layers: (0..int(keys::LLAMA_BLOCK_COUNT)).map(layer).collect(),
            output_norm: matrix("output_norm.weight").values,
            output: tensor(gguf, "output.weight"),
        }
    }

    /// The logits behind each token of `ids`.
    #[must_use]
    pub fn logits(&self, ids: &[u32]) -> Vec<Vec<f64>> {
        let mut keys = vec![Vec::new(); self.layers.len()];
        let mut values = vec![Vec::new(); self.layers.len()];
        let mut logits = Vec::new();
        for (position, &id) in ids.iter().enumerate() {
            let row = self.token_embd.rows().nth(id as usize);
            let mut x = row.expect("a token of the vocabulary").to_vec();
            for (at, layer) in self.layers.iter().enumerate() {
                let normed = self.norm(&x, &layer.attn_norm);
                let mut q = layer.attn_q.times(&normed);
                let mut k = layer.attn_k.times(&normed);
                let head = q.len() / self.heads;
                self.rope(&mut q, head, position);
                self.rope(&mut k, head, position);
                keys[at].push(k);
                values[at].push(layer.attn_v.times(&normed));
                let attended = self.attend(&q, &keys[at], &values[at]);
                add(&mut x, &layer.attn_output.times(&attended));

                let normed = self.norm(&x, &layer.ffn_norm);
                let up = layer.ffn_up.times(&normed);
                let gate = layer.ffn_gate.times(&normed);
                let swiglu = |(gate, up): (f64, f64)| gate / (1.0 + (-gate).exp()) * up;
                let gated: Vec<_> = gate.into_iter().zip(up).map(swiglu).collect();
                add(&mut x, &layer.ffn_down.times(&gated));
            }
            let normed = self.norm(&x, &self.output_norm);
            logits.push(
                self.output
                    .as_ref()
                    .unwrap_or(&self.token_embd)
                    .times(&normed),
            );
        }
        logits
    }

    fn norm(&self, x: &[f64], weight: &[f64]) -> Vec<f64> {
        let scale = 1.0 / (dot(x, x) / x.len() as f64 + self.eps).sqrt();
        x.iter().zip(weight).map(|(x, w)| x * scale * w).collect()
    }

    /// Turns each pair of neighbours, as llama.cpp does for `llama` and llama2.c for its own.
    fn rope(&self, x: &mut [f64], head: usize, position: usize) {
        for (at, pair) in x.chunks_exact_mut(2).enumerate() {
            let exponent = (2 * at % head) as f64 / head as f64;
            let angle = position as f64 / self.rope_base.powf(exponent);
            let (sin, cos) = angle.sin_cos();
            (pair[0], pair[1]) = (pair[0] * cos - pair[1] * sin, pair[0] * sin + pair[1] * cos);
        }
    }

    fn attend(&self, q: &[f64], keys: &[Vec<f64>], values: &[Vec<f64>]) -> Vec<f64> {
        let head = q.len() / self.heads;
        let shared_by = self.heads / self.kv_heads;
        let mut out = vec![0.0; q.len()];
        for ((at, q), out) in q.chunks(head).enumerate().zip(out.chunks_mut(head)) {
            let part = at / shared_by * head..(at / shared_by + 1) * head;
            let scores = keys
                .iter()
                .map(|k| dot(q, &k[part.clone()]) / (head as f64).sqrt());
            let scores: Vec<_> = scores.collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<_> = scores.iter().map(|score| (score - max).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for (weight, value) in weights.iter().zip(values) {
                for (out, value) in out.iter_mut().zip(&value[part.clone()]) {
                    *out += weight / sum * value;
                }
            }
        }
        out
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(x: &mut [f64], y: &[f64]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

/// A tensor's values; a vector is a matrix of one row.
fn tensor(gguf: &Gguf<'_>, name: &str) -> Option<Matrix> {
    let info = gguf.tensor(name)?;
    let bytes = gguf.data(&info)?;
    let mut row = vec![0.0; usize::try_from(info.elements()?).ok()?];
    dequantize_row(info.ty(), bytes, &mut row).ok()?;
    Some(Matrix {
        row_len: usize::try_from(info.row_len()).ok()?,
        values: row.into_iter().map(f64::from).collect(),
    })
}
