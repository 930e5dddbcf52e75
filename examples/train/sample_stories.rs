//! Lets a model tell stories and writes down what it might have said at every place: the text that
//! `smidgen-260k` learns from.
//!
//! `cargo run --release -p smidgen-examples --example sample_stories -- MODEL.gguf SEED TOKENS OUT`
//!
//! Stories are drawn at temperature 1 from all tokens, one after the other, each until it ends or
//! the context is full, until there are TOKENS tokens. The same seed gives the same file.
//!
//! The file is an array of records, all numbers little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | u16 | the token |
//! | f32 | minus the natural logarithm of its probability |
//! | 24 u16 | the likeliest tokens, likeliest first |
//! | 24 u16 | their probabilities, times 65535 |
//!
//! A story begins with a record of BOS whose numbers are all 0, since nobody drew it. One that ends
//! by itself ends with a BOS that was drawn.

use std::error::Error;
use std::io::{BufWriter, Write};

use smidgen_core::kv_cache::KvType;
use smidgen_core::model::{Layer, Model};
use smidgen_core::sampler::Rng;
use smidgen_core::session::{Plan, Session, SessionOptions};
use smidgen_core::tokenizer::Vocabulary;
use smidgen_io::{AtomicFile, FileBytes, Overwrite, SessionMemory};

/// How many of the likeliest tokens are written.
const TOP: usize = 24;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, seed, tokens, out] = args.as_slice() else {
        return Err("usage: sample_stories MODEL.gguf SEED TOKENS OUT".into());
    };
    let mut rng = Rng::new(seed.parse()?).ok_or("the seed must not be 0")?;
    let tokens: usize = tokens.parse()?;

    let file = FileBytes::open(model)?;
    let gguf = file.gguf()?;
    let mut index = vec![0; Vocabulary::index_len(&gguf)];
    let vocabulary = Vocabulary::load(&gguf, &mut index)?;
    let bos = vocabulary.bos().ok_or("the model has no BOS")?;
    let mut layers = vec![Layer::EMPTY; Model::layers_len(&gguf)];
    let model = Model::load(&[gguf], &mut layers).map_err(|error| error.to_string())?;
    let options = SessionOptions {
        kv: KvType::F32,
        window: model.hyperparameters.n_ctx,
        ring: false,
        batch: 1,
    };
    let plan = Plan::new(&model, &options);
    let mut memory = SessionMemory::try_new(&plan, &options)?;
    let mut session = Session::new(&model, options, memory.buffers())?;

    let mut out = AtomicFile::create(out, Overwrite::Refuse)?;
    let mut records = BufWriter::new(out.file_mut()?);
    let mut distribution = Distribution::default();
    let mut written = 0;
    while written < tokens {
        session.reset();
        Record::start(bos)?.write(&mut records)?;
        let mut last = bos;
        while session.position() < options.window {
            distribution.of_logits(session.step(last)?);
            last = distribution.draw(rng.random_f32());
            distribution.record(last)?.write(&mut records)?;
            written += 1;
            if last == bos {
                break;
            }
        }
    }
    records.flush()?;
    drop(records);
    out.commit()?;
    Ok(())
}

/// The probabilities of all tokens, and room to sort them.
#[derive(Default)]
struct Distribution {
    weights: Vec<f64>,
    sum: f64,
    order: Vec<u32>,
}

impl Distribution {
    fn of_logits(&mut self, logits: &[f32]) {
        let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights = logits.iter().map(|&x| f64::from(x - highest).exp());
        self.weights.clear();
        self.weights.extend(weights);
        self.sum = self.weights.iter().sum();
    }

    /// The token in whose share of the interval from 0 to 1 the coin falls.
    fn draw(&self, coin: f32) -> u32 {
        let mut left = f64::from(coin) * self.sum;
        let mut drawn = 0;
        for (id, &weight) in (0..).zip(&self.weights) {
            if weight > 0.0 {
                drawn = id;
                left -= weight;
                if left < 0.0 {
                    break;
                }
            }
        }
        drawn
    }

    /// What is written of a token that was drawn.
    fn record(&mut self, token: u32) -> Result<Record, Box<dyn Error>> {
        let weights = &self.weights;
        let weight = |id: u32| weights.get(id as usize).copied().unwrap_or(0.0);
        let likeliest = |a: &u32, b: &u32| weight(*b).total_cmp(&weight(*a)).then(a.cmp(b));
        self.order.clear();
        self.order.extend((0..).take(weights.len()));
        if weights.len() > TOP {
            self.order.select_nth_unstable_by(TOP, likeliest);
            self.order.truncate(TOP);
        }
        self.order.sort_unstable_by(likeliest);
        let mut record = Record {
            token: token.try_into()?,
            nll: -(weight(token) / self.sum).ln() as f32,
            ..Record::default()
        };
        for (place, &id) in self.order.iter().enumerate() {
            record.top[place] = id.try_into()?;
            record.probabilities[place] = (weight(id) / self.sum * 65535.0).round() as u16;
        }
        Ok(record)
    }
}

/// A record of the file.
#[derive(Default)]
struct Record {
    token: u16,
    nll: f32,
    top: [u16; TOP],
    probabilities: [u16; TOP],
}

impl Record {
    /// The start of a story.
    fn start(bos: u32) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            token: bos.try_into()?,
            ..Self::default()
        })
    }

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        out.write_all(&self.token.to_le_bytes())?;
        out.write_all(&self.nll.to_le_bytes())?;
        for number in self.top.iter().chain(&self.probabilities) {
            out.write_all(&number.to_le_bytes())?;
        }
        Ok(())
    }
}
