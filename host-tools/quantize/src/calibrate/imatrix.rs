//! Importance matrices in llama.cpp's GGUF form.

use std::{collections::BTreeMap, fmt, path::Path};

use smidgen_core::gguf::{GgmlType, Gguf, Value, keys};
use smidgen_io::{BuildError, GgufBuilder, Overwrite, OwnedValue};

/// Names of the tensors behind a weight's.
const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";
const DATASETS: &str = "imatrix.datasets";
const CHUNK_COUNT: &str = "imatrix.chunk_count";
const CHUNK_SIZE: &str = "imatrix.chunk_size";

/// How large what went into a matrix was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Importance {
    /// The sum of squares of each column's inputs.
    pub sums: Vec<f32>,
    /// How many inputs there were.
    pub count: u64,
}

/// How large what went into each matrix was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imatrix {
    /// By the names of the matrices.
    pub entries: BTreeMap<String, Importance>,
    /// Sequences that were run.
    pub chunks: usize,
    /// Tokens of a sequence.
    pub chunk_len: usize,
    /// Names of the texts.
    pub datasets: Vec<String>,
}

/// What is wrong with an importance matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImatrixError {
    /// The file is no importance matrix.
    NotAnImatrix,
    /// A tensor is not as it should be.
    Tensor {
        /// Its name.
        name: String,
        /// What is wrong.
        cause: &'static str,
    },
}

impl fmt::Display for ImatrixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnImatrix => write!(
                f,
                "no importance matrix: general.type is not imatrix, or there are no tensors \
                 {SUMS} and {COUNTS}"
            ),
            Self::Tensor { name, cause } => write!(f, "{name}: {cause}"),
        }
    }
}

impl std::error::Error for ImatrixError {}

impl Imatrix {
    /// Reads a file that llama-imatrix or this crate has written.
    ///
    /// # Errors
    /// It is none, or one of experts, or holds numbers that are none.
    pub fn read(gguf: &Gguf<'_>) -> Result<Self, ImatrixError> {
        if gguf.get_str(keys::GENERAL_TYPE).ok().flatten() != Some("imatrix") {
            return Err(ImatrixError::NotAnImatrix);
        }
        let number = |key| gguf.get_u64(key).ok().flatten().unwrap_or(0);
        let count = |key| usize::try_from(number(key)).unwrap_or(usize::MAX);
        let mut imatrix = Self {
            chunks: count(CHUNK_COUNT),
            chunk_len: count(CHUNK_SIZE),
            ..Self::default()
        };
        if let Some(Value::Array(names)) = gguf.get(DATASETS) {
            let names = names.strings();
            imatrix.datasets = names
                .map(|n| String::from_utf8_lossy(n).into_owned())
                .collect();
        }
        for info in gguf.tensors() {
            let Some(name) = info.name().strip_suffix(SUMS) else {
                continue;
            };
            let sums = numbers(gguf, info.name())?;
            let counts = numbers(gguf, &format!("{name}{COUNTS}"))?;
            let [count] = counts[..] else {
                let name = name.to_owned();
                let cause = "it is one of several experts, which are not supported";
                return Err(ImatrixError::Tensor { name, cause });
            };
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Counts are whole.
            let count = count as u64;
            let entry = Importance { sums, count };
            imatrix.entries.insert(name.to_owned(), entry);
        }
        if imatrix.entries.is_empty() {
            return Err(ImatrixError::NotAnImatrix);
        }
        Ok(imatrix)
    }

    /// Writes the file whole or not at all.
    ///
    /// # Errors
    /// As [`GgufBuilder::write_file`].
    pub fn write_file(
        &self,
        path: impl AsRef<Path>,
        overwrite: Overwrite,
    ) -> Result<u64, smidgen_io::Error> {
        self.builder()?.write_file(path, overwrite)
    }

    fn builder(&self) -> Result<GgufBuilder<'static>, BuildError> {
        let whole = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let mut builder = GgufBuilder::new();
        builder
            .set(keys::GENERAL_TYPE, "imatrix")
            .set(DATASETS, OwnedValue::strings(&self.datasets))
            .set(CHUNK_COUNT, whole(self.chunks))
            .set(CHUNK_SIZE, whole(self.chunk_len));
        for (name, entry) in &self.entries {
            let sums: Vec<u8> = entry.sums.iter().flat_map(|x| x.to_le_bytes()).collect();
            let dims = [entry.sums.len() as u64, 1];
            builder.tensor(&format!("{name}{SUMS}"), &dims, GgmlType::F32, sums)?;
            let count = (entry.count as f32).to_le_bytes().to_vec();
            builder.tensor(&format!("{name}{COUNTS}"), &[1, 1], GgmlType::F32, count)?;
        }
        Ok(builder)
    }
}

/// The numbers of a tensor of f32, none of which is negative or no number.
fn numbers(gguf: &Gguf<'_>, name: &str) -> Result<Vec<f32>, ImatrixError> {
    let fail = |cause| ImatrixError::Tensor {
        name: name.to_owned(),
        cause,
    };
    let info = gguf.tensor(name).ok_or_else(|| fail("it is missing"))?;
    if info.ty() != GgmlType::F32 {
        return Err(fail("it is not F32"));
    }
    let bytes = gguf.data(&info).ok_or_else(|| fail("it has no bytes"))?;
    let numbers = super::floats(bytes);
    if numbers.iter().any(|x| !(x.is_finite() && *x >= 0.0)) {
        return Err(fail("a sum or a count is negative or no number"));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut imatrix = Imatrix {
            chunks: 3,
            chunk_len: 256,
            datasets: vec!["stories.txt".to_owned()],
            ..Imatrix::default()
        };
        let entry = Importance {
            sums: vec![1.5, 0.0, 7.25],
            count: 768,
        };
        imatrix
            .entries
            .insert("blk.0.attn_q.weight".to_owned(), entry);
        let mut bytes = Vec::new();
        imatrix.builder().unwrap().write_to(&mut bytes).unwrap();
        let gguf = Gguf::parse_small(&bytes).unwrap();
        assert_eq!(Imatrix::read(&gguf), Ok(imatrix));
        let sums = gguf.tensor("blk.0.attn_q.weight.in_sum2").unwrap();
        assert_eq!(sums.dims(), [3, 1]);
    }

    #[test]
    fn what_is_no_imatrix_is_refused() {
        let read = |builder: &mut GgufBuilder<'_>| {
            let mut bytes = Vec::new();
            builder.write_to(&mut bytes).unwrap();
            Imatrix::read(&Gguf::parse_small(&bytes).unwrap()).unwrap_err()
        };
        let mut builder = GgufBuilder::new();
        assert_eq!(read(&mut builder), ImatrixError::NotAnImatrix);
        builder.set(keys::GENERAL_TYPE, "imatrix");
        assert_eq!(read(&mut builder), ImatrixError::NotAnImatrix);
        let nan = f32::NAN.to_le_bytes().to_vec();
        builder
            .tensor("a.in_sum2", &[1], GgmlType::F32, nan)
            .unwrap();
        assert!(matches!(read(&mut builder), ImatrixError::Tensor { .. }));
    }
}
