//! What the commands that run a model have in common: its files, and how it is run.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use smidgen_core::{
    gguf::Gguf,
    kernels::Backend,
    kv_cache::KvType,
    model::{Layer, Model},
    ops::Parallel,
    session::{Plan, Session, SessionOptions},
    tokenizer::{EncodeOptions, Vocabulary},
};
use smidgen_edit::Split;
use smidgen_io::{FileBytes, SessionMemory, Threads};
use smidgen_shards::ShardSet;

use crate::{
    built_in_model,
    output::{self, hinted},
};

/// Tokens of a prompt that go through a layer together: enough that weights are not read again
/// for each, few enough that their activations stay in the processor's cache.
pub(crate) const BATCH: usize = 32;

/// The model to run.
#[derive(Debug, clap::Args)]
pub(crate) struct ModelArg {
    /// The model: a GGUF, or the first shard of a split one; `-` is standard input
    /// [default: smidgen-260k, which is built in].
    #[arg(short, long, value_name = "GGUF")]
    model: Option<PathBuf>,
}

impl ModelArg {
    /// The path for messages, or the name of what is built in.
    pub(crate) fn path(&self) -> &Path {
        self.model
            .as_deref()
            .unwrap_or_else(|| Path::new(built_in_model::NAME))
    }

    /// The file, if it is not the one that is built in.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.model.as_deref()
    }

    /// Whether the model comes from standard input.
    pub(crate) fn is_stdin(&self) -> bool {
        self.file() == Some(Path::new("-"))
    }
}

/// How it is run. None of this but the type of the KV cache changes a bit of the logits.
#[derive(Debug, clap::Args)]
pub(crate) struct EngineArgs {
    /// How keys and values are stored: q8 has a scale for each head, q8row one for all heads.
    #[arg(long, value_name = "TYPE", default_value = "f32", ignore_case = true)]
    pub(crate) kv: Kv,

    /// Threads [default: one for each processor].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) threads: Option<u16>,

    /// Instructions to use, by name [default: the fastest there are].
    #[arg(long, value_name = "NAME")]
    pub(crate) backend: Option<String>,
}

/// The types of KV caches.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Kv {
    F32,
    F16,
    #[value(alias = "q8_0")]
    Q8,
    #[value(name = "q8row")]
    Q8Row,
}

impl Kv {
    /// As it is written on the command line.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl From<Kv> for KvType {
    fn from(kv: Kv) -> Self {
        match kv {
            Kv::F32 => Self::F32,
            Kv::F16 => Self::F16,
            Kv::Q8 => Self::Q8,
            Kv::Q8Row => Self::Q8Row,
        }
    }
}

impl EngineArgs {
    /// How many threads there are to be.
    pub(crate) fn thread_count(&self) -> NonZeroUsize {
        let asked = self.threads.and_then(|n| NonZeroUsize::new(n.into()));
        let all = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        asked.unwrap_or_else(all)
    }

    /// The threads, if there is to be more than one.
    pub(crate) fn start_threads(&self) -> anyhow::Result<Option<Threads>> {
        let count = self.thread_count();
        if count == NonZeroUsize::MIN {
            return Ok(None);
        }
        let threads = Threads::new(count);
        let threads = threads.with_context(|| format!("cannot start {count} threads"))?;
        Ok(Some(threads))
    }

    /// The back end of this name, or the fastest.
    pub(crate) fn find_backend(&self) -> anyhow::Result<Backend> {
        let Some(name) = &self.backend else {
            return Ok(Backend::best());
        };
        Backend::from_name(name).ok_or_else(|| {
            let names: Vec<_> = Backend::available().map(Backend::name).collect();
            let names = names.join(", ");
            hinted(
                anyhow!("no back end {name} on this processor"),
                format!("there are {names}"),
            )
        })
    }

    /// What a session is to be like.
    pub(crate) fn options(&self, window: usize) -> SessionOptions {
        SessionOptions {
            kv: self.kv.into(),
            window,
            ring: false,
            batch: BATCH.min(window),
        }
    }
}

/// The open files of a model: one, or the shards of a set in order.
#[derive(Debug)]
pub(crate) struct ModelFiles {
    path: PathBuf,
    files: Vec<FileBytes>,
}

impl ModelFiles {
    /// The files of the argument; without one, the model that is built in, and standard error says
    /// so.
    pub(crate) fn of(model: &ModelArg) -> anyhow::Result<Self> {
        if let Some(path) = model.file() {
            return Self::open(path);
        }
        let file = built_in_model::file();
        output::say(format_args!(
            "model: {} (built in; -m takes another)",
            file.path().display()
        ));
        Ok(Self {
            path: file.path().to_owned(),
            files: vec![file],
        })
    }

    /// Opens a file and, if it is the first of a split model, the others beside it.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let path = ShardSet::first_in(path)?;
        let file = FileBytes::open(&path)?;
        let is_shard = Split::of(&file.gguf()?).is_some_and(|split| split.is_shard());
        let files = match is_shard {
            true => ShardSet::open(&path)?.map()?,
            false => vec![file],
        };
        Ok(Self { path, files })
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len() as u64).sum()
    }

    /// The files parsed; the first holds the metadata.
    pub(crate) fn parse(&self) -> anyhow::Result<Vec<Gguf<'_>>> {
        let ggufs: Result<Vec<_>, _> = self.files.iter().map(FileBytes::gguf).collect();
        Ok(ggufs?)
    }

    /// The model, with its layers in a buffer of the caller.
    pub(crate) fn load<'a: 'm, 'm>(
        &self,
        ggufs: &[Gguf<'a>],
        layers: &'m mut Vec<Layer<'a>>,
    ) -> anyhow::Result<Model<'m>> {
        let count = ggufs.first().map_or(0, Model::layers_len);
        // A layer has tensors, so that their number bounds a count that is beyond all reason.
        let tensors: usize = ggufs.iter().map(Gguf::tensor_count).sum();
        *layers = vec![Layer::EMPTY; count.min(tensors + 1)];
        Model::load(ggufs, layers).map_err(|error| anyhow!("{}: {error}", self.path.display()))
    }

    /// The vocabulary, with its index in a buffer of the caller.
    pub(crate) fn vocabulary<'a>(
        &self,
        ggufs: &[Gguf<'a>],
        index: &'a mut Vec<u32>,
    ) -> anyhow::Result<Vocabulary<'a>> {
        let Some(first) = ggufs.first() else {
            return Err(anyhow!("{}: no file", self.path.display()));
        };
        *index = vec![0; Vocabulary::index_len(first)];
        let vocabulary = Vocabulary::load(first, index);
        let vocabulary = vocabulary.with_context(|| self.path.display().to_string())?;
        if let Some(fault) = vocabulary.index_fault() {
            output::warn(format_args!(
                "{}: the index of the vocabulary is not used: {fault}",
                self.path.display()
            ));
        }
        Ok(vocabulary)
    }
}

/// The ids of a text.
pub(crate) fn encode(
    vocabulary: &Vocabulary<'_>,
    text: &[u8],
    options: EncodeOptions,
) -> anyhow::Result<Vec<u32>> {
    let mut scratch = vec![0; vocabulary.scratch_len(text, options)];
    let mut ids = Vec::new();
    vocabulary.encode(text, options, &mut scratch, &mut |id| ids.push(id))?;
    Ok(ids)
}

/// Memory for a session.
pub(crate) fn memory(plan: &Plan, options: &SessionOptions) -> anyhow::Result<SessionMemory> {
    SessionMemory::try_new(plan, options).map_err(|_| {
        hinted(
            anyhow!(
                "a context of {} positions takes {} of memory, which cannot be had",
                options.window,
                output::human_bytes(plan.bytes() as u64),
            ),
            "a shorter context, or --kv q8",
        )
    })
}

/// A session as the arguments ask for it.
pub(crate) fn session<'s>(
    model: &'s Model<'s>,
    options: SessionOptions,
    memory: &'s mut SessionMemory,
    backend: Backend,
    threads: Option<&'s Threads>,
) -> anyhow::Result<Session<'s>> {
    let session = Session::new(model, options, memory.buffers())?.with_backend(backend);
    Ok(match threads {
        Some(threads) => session.with_parallel(threads as &dyn Parallel),
        None => session,
    })
}

/// A warning if the context is longer than the model was made for.
pub(crate) fn warn_if_long(model: &Model<'_>, positions: usize) {
    let made_for = model.hyperparameters.n_ctx;
    if positions > made_for {
        output::warn(format_args!(
            "{positions} positions are more than the {made_for} of the model's context length"
        ));
    }
}
