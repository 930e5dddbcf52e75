//! Quantizing a file: the plan carried out.

use std::{
    io::{self, Write},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use smidgen_core::gguf::{Gguf, ShardName, keys};
use smidgen_core::quant::row_bytes;
use smidgen_io::{AtomicFile, GgufBuilder, Overwrite, TensorSource};

use crate::{
    Encoded, FileType, Options, Padding, PlannedTensor, QuantizeError,
    plan::{self, FilePlan},
    rows::Rows,
};

/// What llama.cpp writes into `general.quantization_version`.
const QUANTIZATION_VERSION: u32 = 2;

/// A model that is ready to be written; its numbers are read and encoded on the way.
#[derive(Debug)]
pub struct Quantization<'a> {
    /// One, or one for each file of a set that stays split.
    builders: Vec<GgufBuilder<'a>>,
    tensors: Vec<PlannedTensor>,
    padded: Option<(u64, u64)>,
    not_padded: Option<&'static str>,
    tied: bool,
    file_type: FileType,
}

/// Decides what every tensor becomes. `parts` are the files of a split model in their order, or
/// the one file; metadata is that of the first, and the output is one file unless
/// [`Options::keep_split`] says otherwise.
///
/// # Errors
/// A tensor is quantized already, cannot be read, or under [`Options::strict`] cannot have its
/// type; threads cannot be started. Numbers are looked at only when the file is written.
pub fn quantize<'a>(
    parts: &[Gguf<'a>],
    options: &Options,
) -> Result<Quantization<'a>, QuantizeError> {
    quantize_with(parts, options, &Encoded::new())
}

/// As [`quantize`], with tensors that have been encoded before; one whose type or length is not
/// that which is planned is encoded anew.
///
/// # Errors
/// As [`quantize`].
pub fn quantize_with<'a>(
    parts: &[Gguf<'a>],
    options: &Options,
    encoded: &Encoded,
) -> Result<Quantization<'a>, QuantizeError> {
    let FilePlan {
        tensors: planned,
        padded,
        tied,
        not_padded,
    } = plan::plan(parts, options)?;
    let kept = match options.keep_split {
        true => parts,
        false => parts.get(..1).unwrap_or_default(),
    };
    let mut builders: Vec<_> = kept.iter().map(builder_of).collect();
    let builder = builders.first_mut().ok_or(QuantizeError::NoInput)?;
    builder
        .set(keys::GENERAL_QUANTIZATION_VERSION, QUANTIZATION_VERSION)
        .set(keys::GENERAL_FILE_TYPE, options.file_type.number());
    if let Some((network, size)) = &padded {
        // The type that the key has; a size that does not fit it cannot be.
        match u32::try_from(*size) {
            Ok(size) => builder.set(&network.key, size),
            Err(_) => builder.set(&network.key, *size),
        };
    }
    if let Some((file, imatrix)) = &options.imatrix {
        let whole = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        builder
            .set("quantize.imatrix.file", file.as_str())
            .set("quantize.imatrix.dataset", imatrix.datasets.join(", "))
            .set(
                "quantize.imatrix.entries_count",
                whole(imatrix.entries.len()),
            )
            .set("quantize.imatrix.chunks_count", whole(imatrix.chunks));
    }
    for given in &options.overrides {
        given.apply(builder);
    }
    let is_set = builders.len() > 1;
    for builder in &mut builders {
        if is_set {
            let count = i32::try_from(planned.len()).unwrap_or(i32::MAX);
            builder.set(keys::SPLIT_TENSORS_COUNT, count);
        } else {
            for key in [keys::SPLIT_NO, keys::SPLIT_COUNT, keys::SPLIT_TENSORS_COUNT] {
                builder.remove(key);
            }
        }
    }
    let threads = options.threads.map_or(0, NonZeroUsize::get);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    let pool = Arc::new(pool.build().map_err(io::Error::other)?);
    let mut tensors = Vec::with_capacity(planned.len());
    for (source, tensor) in planned {
        let part = if is_set { tensor.part } else { 0 };
        let builder = builders.get_mut(part).ok_or(QuantizeError::NoInput)?;
        let ready = encoded.get(&tensor.name);
        let ready =
            ready.filter(|(ty, bytes)| *ty == tensor.to && bytes.len() as u64 == tensor.bytes);
        match ready {
            Some((ty, bytes)) => {
                builder.tensor(&tensor.name, &tensor.dims, *ty, bytes.clone())?;
            }
            None => add(builder, source.bytes, &tensor, &pool)?,
        }
        tensors.push(tensor);
    }
    Ok(Quantization {
        builders,
        tensors,
        padded: padded.map(|(network, size)| (network.size, size)),
        not_padded,
        tied,
        file_type: options.file_type,
    })
}

/// All metadata of a file.
fn builder_of<'a>(gguf: &Gguf<'_>) -> GgufBuilder<'a> {
    let mut builder = GgufBuilder::new();
    for entry in gguf.metadata() {
        builder.set(entry.key(), entry.value);
    }
    builder
}

/// The whole model as f32 in memory, for [`Calibration`](crate::Calibration): padded if asked for,
/// without an output matrix that is the embeddings once more.
///
/// # Errors
/// As [`quantize`]; or it cannot be padded.
pub fn as_f32(
    parts: &[Gguf<'_>],
    padding: Padding,
    threads: Option<NonZeroUsize>,
) -> Result<Vec<u8>, QuantizeError> {
    let f32 = FileType::from_name("F32").ok_or(QuantizeError::NoInput)?;
    let mut options = Options::new(f32);
    options.allow_requantize = true;
    options.padding = padding;
    options.threads = threads;
    let mut bytes = Vec::new();
    quantize(parts, &options)?.write_to(&mut bytes)?;
    Ok(bytes)
}

/// Runs a job whose parallel parts have this many threads, one for each processor if not given.
///
/// # Errors
/// The system gives no more threads.
pub fn with_threads<R: Send>(
    threads: Option<NonZeroUsize>,
    job: impl FnOnce() -> R + Send,
) -> io::Result<R> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.map_or(0, NonZeroUsize::get));
    Ok(pool.build().map_err(io::Error::other)?.install(job))
}

fn add<'a>(
    builder: &mut GgufBuilder<'a>,
    bytes: &'a [u8],
    tensor: &PlannedTensor,
    pool: &Arc<rayon::ThreadPool>,
) -> Result<(), QuantizeError> {
    let unsupported = |ty| QuantizeError::Unsupported {
        tensor: tensor.name.clone(),
        ty,
    };
    for ty in [tensor.from, tensor.to] {
        let is_read = tensor.from != tensor.to || tensor.is_padded();
        if is_read && smidgen_core::quant::activation_kind(ty).is_none() {
            return Err(unsupported(ty));
        }
    }
    let sizes = usize::try_from(tensor.dims.first().copied().unwrap_or(1)).ok();
    if sizes.and_then(|len| row_bytes(tensor.to, len)).is_none() {
        return Err(unsupported(tensor.to));
    }
    let stream = {
        let (tensor, pool) = (tensor.clone(), Arc::clone(pool));
        TensorSource::Stream(Box::new(move |out: &mut dyn Write| {
            let rows = Rows::new(&tensor, bytes);
            let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
            rows.ok_or_else(too_large)?.write(&pool, out)
        }))
    };
    builder.tensor(&tensor.name, &tensor.dims, tensor.to, stream)?;
    Ok(())
}

impl Quantization<'_> {
    /// What every tensor becomes, in the order of the file.
    #[must_use]
    pub fn tensors(&self) -> &[PlannedTensor] {
        &self.tensors
    }

    /// The hidden size of the feed-forward network before and after padding.
    #[must_use]
    pub fn padded(&self) -> Option<(u64, u64)> {
        self.padded
    }

    /// Why the feed-forward network is not padded though types ask for it.
    #[must_use]
    pub fn not_padded(&self) -> Option<&'static str> {
        self.not_padded
    }

    /// Whether an output matrix was left out because it is the embeddings once more.
    #[must_use]
    pub fn tied(&self) -> bool {
        self.tied
    }

    /// The kind of file.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        self.file_type
    }

    /// How many files it makes.
    #[must_use]
    pub fn files(&self) -> usize {
        self.builders.len()
    }

    /// Bytes of all files that will be written.
    ///
    /// # Errors
    /// The alignment is wrong, or a file would be larger than can be counted.
    pub fn file_len(&self) -> Result<u64, QuantizeError> {
        let lens = self.builders.iter().map(|builder| builder.layout());
        lens.map(|layout| Ok(layout?.file_len)).sum()
    }

    /// Writes the file whole or not at all, and tells its length in bytes. A set that stays split
    /// goes to `PREFIX-00001-of-00003.gguf` and so on for `PREFIX.gguf`; the names are given when
    /// all shards are written, that of the first, by which a set is opened, last.
    ///
    /// # Errors
    /// A number is not finite or too large for its type, or writing fails.
    pub fn write_file(
        &mut self,
        path: impl AsRef<Path>,
        overwrite: Overwrite,
    ) -> Result<u64, QuantizeError> {
        let paths = shard_paths(path.as_ref(), self.builders.len());
        let files: Result<Vec<_>, _> = paths
            .iter()
            .map(|path| AtomicFile::create(path, overwrite))
            .collect();
        let mut files = files?;
        let mut written = 0;
        for ((builder, file), path) in self.builders.iter_mut().zip(&mut files).zip(&paths) {
            let result = builder.write_to(file);
            written += result.map_err(|source| smidgen_io::Error::Write {
                path: path.clone(),
                source,
            })?;
        }
        for file in files.into_iter().rev() {
            file.commit()?;
        }
        Ok(written)
    }

    /// Writes to any sink, and tells the length in bytes; the files of a set one after the other.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file); what has gone to the sink before stays there.
    pub fn write_to(&mut self, out: &mut dyn Write) -> Result<u64, QuantizeError> {
        let written = self
            .builders
            .iter_mut()
            .map(|builder| builder.write_to(out));
        written.map(|written| Ok(written?)).sum()
    }
}

/// The paths of all files of a set; that of a single file is the one given.
fn shard_paths(path: &Path, count: usize) -> Vec<PathBuf> {
    if count == 1 {
        return vec![path.to_owned()];
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let prefix = name.strip_suffix(".gguf").unwrap_or(&name);
    // Also the name of a shard is understood.
    let prefix = ShardName::parse(&name).map_or(prefix, |shard| shard.prefix);
    let shard = |number| {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let name = ShardName {
            prefix,
            number,
            count,
        };
        path.with_file_name(name.to_string())
    };
    (1..).map(shard).take(count).collect()
}
