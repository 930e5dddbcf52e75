//! What every tensor becomes, decided before anything is read.

use smidgen_core::gguf::{GgmlType, Gguf, TensorInfo, keys};

use crate::{
    Options, Padding, QuantizeError,
    padding::{FeedForward, padded_dims},
    role::Role,
    rules::{Rules, divides, smaller_blocks},
};

/// A tensor of the input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) info: TensorInfo<'a>,
    pub(crate) bytes: &'a [u8],
    pub(crate) role: Role,
    pub(crate) layer: Option<u64>,
    /// Which of the files it is in.
    pub(crate) part: usize,
}

/// What a tensor becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedTensor {
    /// Its name.
    pub name: String,
    /// Its shape in the input, row length first.
    pub dims_before: Vec<u64>,
    /// Its shape in the output; another where it is padded.
    pub dims: Vec<u64>,
    /// Its type in the input.
    pub from: GgmlType,
    /// Its type in the output.
    pub to: GgmlType,
    /// The type that it should have, where its rows are no whole blocks of that.
    pub instead_of: Option<GgmlType>,
    /// Its bytes in the input.
    pub bytes_before: u64,
    /// Its bytes in the output.
    pub bytes: u64,
    /// Which of the input's files it is in.
    pub part: usize,
}

impl PlannedTensor {
    /// Whether it is padded.
    #[must_use]
    pub fn is_padded(&self) -> bool {
        self.dims != self.dims_before
    }

    /// How many elements it has in the output.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }
}

/// What the whole file becomes.
#[derive(Debug)]
pub(crate) struct FilePlan<'a> {
    pub(crate) tensors: Vec<(Source<'a>, PlannedTensor)>,
    /// The key of the hidden size, that size before and after, if it is padded.
    pub(crate) padded: Option<(FeedForward, u64)>,
    /// An output matrix that is left out because it is the embeddings.
    pub(crate) tied: bool,
    /// Why what needs padding has not got it.
    pub(crate) not_padded: Option<&'static str>,
}

/// All tensors of the files.
pub(crate) fn sources<'a>(parts: &[Gguf<'a>]) -> Result<Vec<Source<'a>>, QuantizeError> {
    let mut sources = Vec::new();
    for (part, gguf) in parts.iter().enumerate() {
        for info in gguf.tensors() {
            let bytes = gguf.data(&info).ok_or_else(|| QuantizeError::Unsupported {
                tensor: info.name().to_owned(),
                ty: info.ty(),
            })?;
            let (role, layer) = Role::of(info.name(), info.dims());
            sources.push(Source {
                info,
                bytes,
                role,
                layer,
                part,
            });
        }
    }
    Ok(sources)
}

pub(crate) fn plan<'a>(
    parts: &[Gguf<'a>],
    options: &Options,
) -> Result<FilePlan<'a>, QuantizeError> {
    let first = parts.first().ok_or(QuantizeError::NoInput)?;
    let mut sources = sources(parts)?;
    let tied = !options.keep_tied_output && drop_tied_output(&mut sources);
    let rules = rules(first, &sources, options);

    // Types for the network as it is, and whether one of them asks for another size.
    let types: Vec<_> = sources.iter().map(|s| wanted(s, &rules, options)).collect();
    let fits = |(source, &wanted): (&Source<'_>, &GgmlType)| {
        let row_len = source.info.row_len();
        divides(smaller_blocks(wanted, row_len), row_len)
    };
    let needed = sources
        .iter()
        .zip(&types)
        .any(|pair| pair.0.role == Role::FfnDown && !fits(pair));
    let network = match options.padding {
        Padding::Off => None,
        Padding::Needed if !needed => None,
        Padding::Needed | Padding::Always => Some(FeedForward::of(first, &sources)),
    };
    let (network, not_padded) = match network {
        None => (None, None),
        Some(Ok(network)) => (Some(network), None),
        Some(Err(cause)) if options.padding == Padding::Always => {
            return Err(QuantizeError::Padding { cause });
        }
        Some(Err(cause)) => (None, Some(cause)),
    };
    let padded = network.and_then(|network| {
        let size = network.padded().filter(|&size| size != network.size)?;
        Some((network, size))
    });

    let mut tensors = Vec::with_capacity(sources.len());
    for (source, wanted) in sources.into_iter().zip(types) {
        let dims_before = source.info.dims().to_vec();
        let dims = match &padded {
            Some((_, size)) => padded_dims(source.role, &dims_before, *size),
            None => dims_before.clone(),
        };
        // Of K types the stand-in is chosen by the row as it was: padding is never to 256.
        let mut to = smaller_blocks(wanted, source.info.row_len());
        let row_len = dims.first().copied().unwrap_or(1);
        if !divides(to, row_len) {
            to = GgmlType::F16;
        }
        let planned = planned(&source, dims_before, dims, to, wanted)?;
        check(&source, &planned, options)?;
        tensors.push((source, planned));
    }
    Ok(FilePlan {
        tensors,
        padded,
        tied,
        not_padded,
    })
}

fn planned(
    source: &Source<'_>,
    dims_before: Vec<u64>,
    dims: Vec<u64>,
    to: GgmlType,
    wanted: GgmlType,
) -> Result<PlannedTensor, QuantizeError> {
    let name = source.info.name();
    let shape = TensorInfo::new(name, &dims, to, 0).and_then(|info| info.byte_len());
    let bytes = shape.ok_or_else(|| QuantizeError::Unsupported {
        tensor: name.to_owned(),
        ty: to,
    })?;
    Ok(PlannedTensor {
        name: name.to_owned(),
        dims_before,
        dims,
        from: source.info.ty(),
        to,
        instead_of: (wanted != to).then_some(wanted),
        bytes_before: source.bytes.len() as u64,
        bytes,
        part: source.part,
    })
}

/// What is against it.
fn check(
    source: &Source<'_>,
    planned: &PlannedTensor,
    options: &Options,
) -> Result<(), QuantizeError> {
    let tensor = || planned.name.clone();
    let (from, to) = (planned.from, planned.to);
    if let (true, Some(wanted)) = (options.strict, planned.instead_of) {
        return Err(QuantizeError::Fallback {
            tensor: tensor(),
            row_len: source.info.row_len(),
            wanted,
            instead: to,
        });
    }
    let is_float = matches!(from, GgmlType::F32 | GgmlType::F16 | GgmlType::BF16);
    if from != to && !is_float && !options.allow_requantize {
        return Err(QuantizeError::Requantize {
            tensor: tensor(),
            ty: from,
        });
    }
    Ok(())
}

/// The type that a tensor should have, whatever its rows.
fn wanted(source: &Source<'_>, rules: &Rules, options: &Options) -> GgmlType {
    let from = source.info.ty();
    let is_output = match source.role {
        Role::Kept => return from,
        Role::Output => true,
        Role::TokenEmbd => !rules.has_output,
        _ => false,
    };
    if source.role == Role::Output && options.leave_output_tensor {
        return from;
    }
    let name = source.info.name();
    let own = match source.role {
        Role::TokenEmbd => options.token_embedding_type,
        _ => None,
    };
    let output = options.output_tensor_type.filter(|_| is_output);
    let mut by_name = options.tensor_types.iter();
    let by_name = by_name.find(|given| given.matches(name));
    let given = own.or(output).or(by_name.map(|given| given.ty));
    given.unwrap_or_else(|| rules.wanted(source.role, source.layer, source.info.row_len()))
}

fn rules(first: &Gguf<'_>, sources: &[Source<'_>], options: &Options) -> Rules {
    let number = |key| first.get_u64(key).ok().flatten();
    let layers = sources.iter().filter_map(|source| source.layer).max();
    let heads = number(keys::LLAMA_ATTENTION_HEAD_COUNT);
    let kv_heads = number(keys::LLAMA_ATTENTION_HEAD_COUNT_KV);
    let group = heads.zip(kv_heads).and_then(|(h, kv)| h.checked_div(kv));
    Rules {
        file_type: options.file_type,
        pure: options.pure,
        has_output: sources.iter().any(|source| source.role == Role::Output),
        layers: layers.map_or(0, |last| last.saturating_add(1)),
        group: group.unwrap_or(1),
        has_imatrix: options.imatrix.is_some(),
    }
}

/// Takes an output matrix away that is the embeddings once more, and tells whether there was one.
fn drop_tied_output(sources: &mut Vec<Source<'_>>) -> bool {
    let place = |role| sources.iter().position(|source| source.role == role);
    let (Some(embd), Some(output)) = (place(Role::TokenEmbd), place(Role::Output)) else {
        return false;
    };
    let (a, b) = (&sources[embd], &sources[output]);
    let same = a.info.ty() == b.info.ty() && a.info.dims() == b.info.dims() && a.bytes == b.bytes;
    if same {
        sources.remove(output);
    }
    same
}
