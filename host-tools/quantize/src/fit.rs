//! The best types for a number of bytes.

use std::fmt;

use rayon::prelude::*;
use smidgen_core::{gguf::GgmlType, quant::row_bytes};

use crate::{Baseline, CalibrateError, Calibration, Encoded, PlannedTensor, QuantizeError};

/// The types that a matrix can be given, small ones first.
const TYPES: [GgmlType; 12] = [
    GgmlType::Q2_K,
    GgmlType::Q3_K,
    GgmlType::Q4_0,
    GgmlType::IQ4_NL,
    GgmlType::Q4_K,
    GgmlType::Q4_1,
    GgmlType::Q5_0,
    GgmlType::Q5_K,
    GgmlType::Q5_1,
    GgmlType::Q6_K,
    GgmlType::Q8_0,
    GgmlType::F16,
];

/// Budgets are counted in this many units at most.
const UNITS: u64 = 1 << 14;

/// A type that a tensor could have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The type.
    pub ty: GgmlType,
    /// Bytes of the tensor with it.
    pub bytes: u64,
    /// Mean divergence of a model in which only this tensor is of this type, in nats a token.
    pub divergence: f64,
}

/// A tensor, the types that it could have, and the one it is to have.
#[derive(Clone, Debug)]
pub struct FitTensor {
    /// Its name.
    pub name: String,
    /// All candidates.
    pub candidates: Vec<Candidate>,
    /// Which of them.
    pub chosen: usize,
    encoded: Vec<Vec<u8>>,
}

impl FitTensor {
    /// The candidate that was chosen.
    #[must_use]
    pub fn choice(&self) -> Candidate {
        self.candidates[self.chosen]
    }

    /// Puts the chosen type's blocks where [`quantize_with`](crate::quantize_with) finds them.
    pub fn put_into(&self, encoded: &mut Encoded) {
        let bytes = self.encoded[self.chosen].clone();
        // Those of F16 are made when the file is written.
        if !bytes.is_empty() {
            encoded.insert(self.name.clone(), (self.choice().ty, bytes));
        }
    }
}

/// Why no types were found.
#[derive(Debug)]
#[non_exhaustive]
pub enum FitError {
    /// Even with the smallest types the file is larger.
    TooSmall {
        /// The budget in bytes.
        budget: u64,
        /// Bytes of the smallest file.
        least: u64,
    },
    /// The model cannot be run.
    Calibrate {
        /// Why.
        source: CalibrateError,
    },
    /// The file cannot be planned.
    Quantize {
        /// Why.
        source: QuantizeError,
    },
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { budget, least } => {
                write!(f, "{budget} bytes are too few, the least is {least}")
            }
            Self::Calibrate { source } => source.fmt(f),
            Self::Quantize { source } => source.fmt(f),
        }
    }
}

impl std::error::Error for FitError {}

impl From<CalibrateError> for FitError {
    fn from(source: CalibrateError) -> Self {
        Self::Calibrate { source }
    }
}

/// Chooses a type for every matrix that `calibration` can encode, so that all together take at most
/// `budget` bytes with `alignment`, and the sum of the divergences that each causes alone is least.
///
/// # Errors
/// The budget is too small, or the model cannot be run.
pub fn fit(
    calibration: &Calibration,
    baseline: &Baseline,
    tensors: &[PlannedTensor],
    alignment: u64,
    budget: u64,
) -> Result<Vec<FitTensor>, FitError> {
    let candidates = tensors
        .iter()
        .flat_map(|tensor| TYPES.map(|ty| (tensor, ty)));
    let measured: Result<Vec<_>, CalibrateError> = candidates
        .collect::<Vec<_>>()
        .into_par_iter()
        .map(|(tensor, ty)| measure(calibration, baseline, tensor, ty))
        .collect();
    let mut found: Vec<FitTensor> = Vec::new();
    for (name, candidate, encoded) in measured?.into_iter().flatten() {
        match found.last_mut().filter(|last| last.name == name) {
            Some(last) => {
                last.candidates.push(candidate);
                last.encoded.push(encoded);
            }
            None => found.push(FitTensor {
                name: name.to_owned(),
                candidates: vec![candidate],
                chosen: 0,
                encoded: vec![encoded],
            }),
        }
    }
    choose(&mut found, alignment, budget)?;
    Ok(found)
}

type Measured<'t> = (&'t str, Candidate, Vec<u8>);

fn measure<'t>(
    calibration: &Calibration,
    baseline: &Baseline,
    tensor: &'t PlannedTensor,
    ty: GgmlType,
) -> Result<Option<Measured<'t>>, CalibrateError> {
    let row_len = tensor
        .dims
        .first()
        .and_then(|&len| usize::try_from(len).ok());
    let rows: u64 = tensor.dims.iter().skip(1).product();
    let Some(row) = row_len.and_then(|len| row_bytes(ty, len)) else {
        return Ok(None);
    };
    let bytes = rows * row as u64;
    if ty == GgmlType::F16 {
        // As good as exact.
        let is_known = calibration.encode(&tensor.name, GgmlType::Q8_0).is_some();
        let divergence = 0.0;
        let candidate = Candidate {
            ty,
            bytes,
            divergence,
        };
        return Ok(is_known.then(|| (&tensor.name[..], candidate, Vec::new())));
    }
    let Some(encoded) = calibration.encode(&tensor.name, ty) else {
        return Ok(None);
    };
    let with_it = Encoded::from([(tensor.name.clone(), (ty, encoded.clone()))]);
    let comparison = calibration.measure(&with_it, baseline)?;
    let candidate = Candidate {
        ty,
        bytes,
        // Chance can make a quantized model seem nearer than the original is to itself.
        divergence: comparison.mean_divergence().max(0.0),
    };
    Ok(Some((&tensor.name, candidate, encoded)))
}

/// The least sum of divergences within the budget, found for every number of units up to it.
fn choose(tensors: &mut [FitTensor], alignment: u64, budget: u64) -> Result<(), FitError> {
    let padded = |bytes: u64| bytes.next_multiple_of(alignment);
    let smallest = |tensor: &FitTensor| {
        let bytes = tensor.candidates.iter().map(|c| padded(c.bytes));
        bytes.min().unwrap_or(0)
    };
    let least = tensors.iter().map(smallest).sum();
    if least > budget {
        return Err(FitError::TooSmall { budget, least });
    }
    // What is above the least is counted in units, rounded up.
    let unit = ((budget - least) / UNITS).max(alignment);
    let units = usize::try_from((budget - least) / unit).unwrap_or(0);
    let cost = |tensor: &FitTensor, candidate: &Candidate| {
        let above = padded(candidate.bytes) - smallest(tensor);
        usize::try_from(above.div_ceil(unit)).unwrap_or(usize::MAX)
    };
    let mut best = vec![0.0; units + 1];
    let mut choices = Vec::with_capacity(tensors.len());
    for tensor in tensors.iter() {
        let mut next = vec![f64::INFINITY; units + 1];
        let mut chosen = vec![0; units + 1];
        for (at, candidate) in tensor.candidates.iter().enumerate() {
            let cost = cost(tensor, candidate);
            for room in cost..=units {
                let sum = best[room - cost] + candidate.divergence;
                if sum < next[room] {
                    (next[room], chosen[room]) = (sum, at);
                }
            }
        }
        best = next;
        choices.push(chosen);
    }
    let mut room = units;
    for (tensor, chosen) in tensors.iter_mut().zip(choices).rev() {
        tensor.chosen = chosen[room];
        room -= cost(tensor, &tensor.choice());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(candidates: &[(u64, f64)]) -> FitTensor {
        let candidate = |&(bytes, divergence): &(u64, f64)| Candidate {
            ty: GgmlType::Q8_0,
            bytes,
            divergence,
        };
        FitTensor {
            name: String::new(),
            candidates: candidates.iter().map(candidate).collect(),
            chosen: 0,
            encoded: vec![Vec::new(); candidates.len()],
        }
    }

    #[test]
    fn the_best_choice_of_all_is_found() {
        // By hand: of (16, 32, 64) bytes each, the second tensor gains more by more bytes.
        let of_both = [
            tensor(&[(32, 0.5), (64, 0.3), (128, 0.0)]),
            tensor(&[(32, 4.0), (64, 1.0), (128, 0.9)]),
        ];
        for (budget, expected) in [
            (64, [0, 0]),
            (96, [0, 1]),
            (128, [1, 1]),
            (191, [1, 1]),
            (192, [2, 1]),
            (256, [2, 2]),
        ] {
            let mut tensors = of_both.clone();
            choose(&mut tensors, 32, budget).unwrap();
            let chosen: Vec<_> = tensors.iter().map(|tensor| tensor.chosen).collect();
            assert_eq!(chosen, expected, "{budget}");
        }
        let mut tensors = of_both;
        let error = choose(&mut tensors, 32, 63).unwrap_err();
        assert!(
            matches!(error, FitError::TooSmall { least: 64, .. }),
            "{error}"
        );
    }
}
