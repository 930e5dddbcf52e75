//! The way of tokens through the layers, one layer at a time.

use super::{Session, SessionError, Tap};
use crate::kernels::{AttentionScratch, Backend};
use crate::model::{Hyperparameters, Layer};
use crate::ops::{Inputs, rotation};
use crate::quant::dequantize_row;

/// Whether a step is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Progress {
    /// There is more to do.
    Working,
    /// The logits are there.
    Done,
}

/// A pass of tokens through the layers that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    tokens: usize,
    layer: usize,
    /// The first token behind which logits are wanted: of those before it the last layer takes
    /// the keys and values and nothing else.
    wanted: usize,
}

impl Pass {
    /// Tokens of a layer for which nothing is computed but keys and values.
    fn skipped(&self, layers: usize) -> usize {
        if self.layer + 1 == layers {
            self.wanted
        } else {
            0
        }
    }
}

impl Session<'_> {
    /// Starts a pass of up to [`batch`](super::SessionOptions::batch) tokens: each
    /// [`advance`](Self::advance) then does a layer, so that a caller with other duties can see to
    /// them in between.
    ///
    /// # Errors
    /// As [`prompt`](Self::prompt), or more tokens than fit into a pass.
    #[inline(never)] // A frame of its own: boards have little stack.
    pub fn start(&mut self, tokens: &[u32]) -> Result<(), SessionError> {
        self.check(tokens)?;
        let (given, batch) = (tokens.len(), self.options.batch);
        if given > batch {
            return Err(SessionError::BatchTooLarge { given, batch });
        }
        let hp = &self.model.hyperparameters;
        let parts = self.plan.split(self.floats);
        let rows = parts.x.chunks_exact_mut(hp.n_embd);
        let rotations = parts.rotation.chunks_exact_mut(hp.rope_dim);
        for ((&id, (x, angles)), position) in
            tokens.iter().zip(rows.zip(rotations)).zip(self.position..)
        {
            let id = usize::try_from(id).unwrap_or(usize::MAX);
            let embedding = &self.model.token_embd;
            let row = embedding.row(id).unwrap_or_default();
            if dequantize_row(embedding.ty, row, x).is_err() {
                // Cannot be: the model was checked. It would show in the logits.
                x.fill(f32::NAN);
            }
            let position = u64::try_from(position).unwrap_or(u64::MAX);
            rotation(self.steps, position, angles);
        }
        self.pass = Some(Pass {
            tokens: given,
            layer: 0,
            wanted: given - 1,
        });
        self.has_logits = false;
        Ok(())
    }

    /// Does a layer, or behind the last one the classifier.
    ///
    /// # Errors
    /// Nothing was [started](Self::start).
    pub fn advance(&mut self) -> Result<Progress, SessionError> {
        let Some(pass) = self.pass else {
            return Err(SessionError::Idle);
        };
        if let Some(layer) = self.model.layers.get(pass.layer) {
            self.layer(pass, layer);
            let layer = pass.layer + 1;
            self.pass = Some(Pass { layer, ..pass });
            return Ok(Progress::Working);
        }
        self.classify(pass.tokens - 1);
        self.finish(pass);
        Ok(Progress::Done)
    }

    /// Takes up to a batch of tokens through all layers, without the classifier. Logits can be had
    /// behind tokens from index `wanted` on.
    pub(super) fn pass(&mut self, tokens: &[u32], wanted: usize) -> Result<(), SessionError> {
        self.start(tokens)?;
        let mut pass = Pass {
            tokens: tokens.len(),
            layer: 0,
            wanted,
        };
        for (number, layer) in self.model.layers.iter().enumerate() {
            pass.layer = number;
            self.layer(pass, layer);
        }
        self.finish(pass);
        Ok(())
    }

    fn layer(&mut self, pass: Pass, layer: &Layer<'_>) {
        let skipped = match &self.probe {
            None => pass.skipped(self.model.layers.len()),
            // It is to see everything.
            Some(_) => 0,
        };
        self.attention(pass, layer, skipped);
        if skipped < pass.tokens {
            self.feed_forward(pass, layer, skipped);
        }
    }

    fn finish(&mut self, pass: Pass) {
        self.position += pass.tokens;
        self.pass = None;
    }

    fn attention(&mut self, pass: Pass, layer: &Layer<'_>, skipped: usize) {
        self.project(pass, layer, skipped);
        self.attend(pass, skipped);
        if skipped < pass.tokens {
            self.add_attended(pass, layer, skipped);
        }
    }

    /// Queries, keys and values of all tokens.
    #[inline(never)] // A frame of its own: boards have little stack.
    fn project(&mut self, pass: Pass, layer: &Layer<'_>, skipped: usize) {
        let hp = &self.model.hyperparameters;
        let (backend, tokens) = (self.backend, pass.tokens);
        let spread = &mut self.spread;
        let (n_embd, q_dim, kv_dim) = (hp.n_embd, hp.q_dim(), hp.kv_dim());
        let parts = self.plan.split(self.floats);
        let x = cut(parts.x, tokens * n_embd);
        let (q, rest) = parts.middle.split_at_mut((tokens - skipped) * q_dim);
        let (k, rest) = rest.split_at_mut(tokens * kv_dim);
        let v = cut(rest, tokens * kv_dim);

        let normed = cut(parts.input, tokens * n_embd);
        norm_rows(backend, hp, layer.attn_norm, x, normed);
        if let Some(probe) = &mut self.probe {
            probe(Tap::Attention(pass.layer), normed);
        }
        let mut inputs = Inputs {
            x: normed,
            q8: self.q8,
            q8k: self.q8k,
            tokens,
        };
        inputs.quantize(backend, &[&layer.attn_q, &layer.attn_k, &layer.attn_v]);
        inputs.multiply_from(skipped, backend, spread, &layer.attn_q, q);
        inputs.multiply(backend, spread, &layer.attn_k, k);
        inputs.multiply(backend, spread, &layer.attn_v, v);
    }

    /// Turns queries and keys, keeps keys and values, and attends to all that are kept.
    #[inline(never)] // As above.
    fn attend(&mut self, pass: Pass, skipped: usize) {
        let hp = &self.model.hyperparameters;
        let (backend, tokens) = (self.backend, pass.tokens);
        let (q_dim, kv_dim) = (hp.q_dim(), hp.kv_dim());
        let wanted = tokens - skipped;
        let parts = self.plan.split(self.floats);
        let (q, rest) = parts.middle.split_at_mut(wanted * q_dim);
        let (k, v) = rest.split_at_mut(tokens * kv_dim);

        // Token by token: in a ring, a later token takes the place of a position that an earlier
        // one still sees.
        let window = self.options.window;
        for index in 0..tokens {
            let position = self.position + index;
            let angles = row(parts.rotation, hp.rope_dim, index);
            let (k, v) = (row(k, kv_dim, index), row(v, kv_dim, index));
            backend.rope(k, hp.head_dim, angles);
            self.cache
                .store(backend, pass.layer, position % window, k, v);
            let Some(index) = index.checked_sub(skipped) else {
                continue;
            };
            let q = row(q, q_dim, index);
            backend.rope(q, hp.head_dim, angles);
            let attended = row(parts.input, q_dim, index);
            let positions = window.min(position + 1);
            let group = q_dim / hp.n_kv_heads;
            let heads = q.chunks_exact(group).zip(attended.chunks_exact_mut(group));
            for (kv_head, (q, attended)) in heads.enumerate() {
                let scratch = AttentionScratch {
                    scores: &mut *parts.scores,
                    ints: self.ints,
                };
                let head = (pass.layer, kv_head);
                self.cache
                    .attend(backend, head, q, positions, scratch, attended);
                self.spread.pause();
            }
        }
    }

    /// Adds what attention found to the residual stream.
    #[inline(never)] // As above.
    fn add_attended(&mut self, pass: Pass, layer: &Layer<'_>, skipped: usize) {
        let hp = &self.model.hyperparameters;
        let (backend, n_embd) = (self.backend, hp.n_embd);
        let spread = &mut self.spread;
        let wanted = pass.tokens - skipped;
        let parts = self.plan.split(self.floats);
        let x = cut(parts.x, pass.tokens * n_embd);
        let attended = cut(parts.input, wanted * hp.q_dim());
        if let Some(probe) = &mut self.probe {
            probe(Tap::AttentionOutput(pass.layer), attended);
        }
        let mut inputs = Inputs {
            x: attended,
            q8: self.q8,
            q8k: self.q8k,
            tokens: wanted,
        };
        let added = cut(parts.middle, wanted * n_embd);
        inputs.quantize(backend, &[&layer.attn_output]);
        inputs.multiply(backend, spread, &layer.attn_output, added);
        backend.add(behind(x, skipped * n_embd), added);
    }

    #[inline(never)] // A frame of its own: boards have little stack.
    fn feed_forward(&mut self, pass: Pass, layer: &Layer<'_>, skipped: usize) {
        let hp = &self.model.hyperparameters;
        let (backend, tokens) = (self.backend, pass.tokens - skipped);
        let spread = &mut self.spread;
        let (n_embd, n_ff) = (hp.n_embd, hp.n_ff);
        let parts = self.plan.split(self.floats);
        let x = cut(parts.x, pass.tokens * n_embd);
        let x = behind(x, skipped * n_embd);
        let (gate, rest) = parts.middle.split_at_mut(tokens * n_ff);
        let up = cut(rest, tokens * n_ff);

        let normed = cut(parts.input, tokens * n_embd);
        norm_rows(backend, hp, layer.ffn_norm, x, normed);
        if let Some(probe) = &mut self.probe {
            probe(Tap::FeedForward(pass.layer), normed);
        }
        let mut inputs = Inputs {
            x: normed,
            q8: self.q8,
            q8k: self.q8k,
            tokens,
        };
        inputs.quantize(backend, &[&layer.ffn_gate, &layer.ffn_up]);
        inputs.multiply(backend, spread, &layer.ffn_gate, gate);
        inputs.multiply(backend, spread, &layer.ffn_up, up);
        backend.swiglu(gate, up);
        spread.pause();

        if let Some(probe) = &mut self.probe {
            probe(Tap::FeedForwardDown(pass.layer), gate);
        }
        let mut inputs = Inputs {
            x: gate,
            q8: self.q8,
            q8k: self.q8k,
            tokens,
        };
        let added = cut(parts.input, tokens * n_embd);
        inputs.quantize(backend, &[&layer.ffn_down]);
        inputs.multiply(backend, spread, &layer.ffn_down, added);
        backend.add(x, added);
    }

    /// Computes the logits behind one of the tokens of the pass that has just been done; without a
    /// buffer for them, what goes into the classifier.
    #[inline(never)] // A frame of its own: boards have little stack.
    pub(super) fn classify(&mut self, token: usize) {
        let hp = &self.model.hyperparameters;
        let (backend, n_embd) = (self.backend, hp.n_embd);
        let spread = &mut self.spread;
        let parts = self.plan.split(self.floats);
        let x = row(parts.x, n_embd, token);
        let normed = cut(parts.input, n_embd);
        norm_rows(backend, hp, self.model.output_norm, x, normed);
        if let Some(probe) = &mut self.probe {
            probe(Tap::Classifier, normed);
        }
        let mut inputs = Inputs {
            x: normed,
            q8: self.q8,
            q8k: self.q8k,
            tokens: 1,
        };
        inputs.quantize(backend, &[&self.model.output]);
        if !parts.logits.is_empty() {
            inputs.multiply(backend, spread, &self.model.output, parts.logits);
        }
        self.has_logits = true;
    }
}

/// Normalizes each row of `x`.
#[inline(never)] // Not at three places.
fn norm_rows(backend: Backend, hp: &Hyperparameters, weight: &[u8], x: &[f32], normed: &mut [f32]) {
    let rows = normed.chunks_exact_mut(hp.n_embd);
    for (x, normed) in x.chunks_exact(hp.n_embd).zip(rows) {
        backend.rms_norm(x, weight, hp.rms_eps, normed);
    }
}

/// What lies behind the first `len` elements.
fn behind(part: &mut [f32], len: usize) -> &mut [f32] {
    part.get_mut(len..).unwrap_or_default()
}

/// The first `len` elements; the plan has room for them.
fn cut(part: &mut [f32], len: usize) -> &mut [f32] {
    part.get_mut(..len).unwrap_or_default()
}

/// Row `index` of rows of `len` elements; the plan has room for it.
fn row(part: &mut [f32], len: usize, index: usize) -> &mut [f32] {
    let start = index * len;
    part.get_mut(start..start + len).unwrap_or_default()
}
