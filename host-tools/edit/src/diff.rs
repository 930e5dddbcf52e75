//! How two files differ: metadata, tensors, and how far the tensors' values are apart.

use std::collections::HashMap;

use smidgen_core::{
    gguf::{Gguf, TensorInfo, Value},
    quant::dequantize_row,
};
use smidgen_io::{Error, FileBytes};

/// A metadata entry that is in one file only, or has two values.
#[derive(Clone, Copy, Debug)]
pub struct KeyDifference<'a> {
    /// The key.
    pub key: &'a str,
    /// Its value in the first file.
    pub a: Option<Value<'a>>,
    /// Its value in the second file.
    pub b: Option<Value<'a>>,
}

/// A tensor that is in one file only, or differs.
#[derive(Clone, Copy, Debug)]
pub struct TensorDifference<'a> {
    /// Its name.
    pub name: &'a str,
    /// The tensor in the first file.
    pub a: Option<TensorInfo<'a>>,
    /// The tensor in the second file.
    pub b: Option<TensorInfo<'a>>,
    /// How far the values are apart; `None` unless both have the same shape and types that can be
    /// decoded.
    pub distance: Option<Distance>,
}

/// How far the values of two tensors are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distance {
    /// Values that are compared.
    pub elements: u64,
    /// Values that differ.
    pub different: u64,
    /// Values that differ and of which one is no finite number; they are in neither of the next.
    pub not_finite: u64,
    /// The largest difference.
    pub max: f64,
    /// The root of the mean of the squared differences.
    pub rms: f64,
}

/// All differences of two files.
#[derive(Clone, Debug, Default)]
pub struct Difference<'a> {
    /// Metadata, in the order of the first file, then what is only in the second.
    pub metadata: Vec<KeyDifference<'a>>,
    /// Tensors, likewise.
    pub tensors: Vec<TensorDifference<'a>>,
}

impl Difference<'_> {
    /// Whether there is none. Order, padding and the version of the format make none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.metadata.is_empty() && self.tensors.is_empty()
    }
}

/// Values that are compared at a time: whole blocks of every type. Rows are whole blocks too, so a
/// tensor is one long row.
const STEP: u64 = 1 << 18;

/// Compares two files. Where `data` is false, tensors of one type and shape count as equal.
///
/// # Errors
/// Reading fails.
pub fn diff<'a>(
    a: (&FileBytes, &Gguf<'a>),
    b: (&FileBytes, &Gguf<'a>),
    data: bool,
) -> Result<Difference<'a>, Error> {
    let mut difference = Difference {
        metadata: metadata(a.1, b.1),
        tensors: Vec::new(),
    };
    let in_b: HashMap<_, _> = b.1.tensors().map(|info| (info.name(), info)).collect();
    let in_a: HashMap<_, _> = a.1.tensors().map(|info| (info.name(), info)).collect();
    for info in a.1.tensors() {
        let name = info.name();
        let other = in_b.get(name).copied();
        let distance = match other {
            Some(other) if other.dims() != info.dims() => None,
            Some(other) if !data && other.ty() == info.ty() => continue,
            Some(_) if !data => None,
            Some(other) => match tensor((a.0, a.1, &info), (b.0, b.1, &other))? {
                Compared::Equal => continue,
                Compared::Different(distance) => distance,
            },
            None => None,
        };
        difference.tensors.push(TensorDifference {
            name,
            a: Some(info),
            b: other,
            distance,
        });
    }
    for info in b.1.tensors() {
        if !in_a.contains_key(info.name()) {
            difference.tensors.push(TensorDifference {
                name: info.name(),
                a: None,
                b: Some(info),
                distance: None,
            });
        }
    }
    Ok(difference)
}

fn metadata<'a>(a: &Gguf<'a>, b: &Gguf<'a>) -> Vec<KeyDifference<'a>> {
    let in_b: HashMap<_, _> = b
        .metadata()
        .map(|entry| (entry.key(), entry.value))
        .collect();
    let in_a: HashMap<_, _> = a
        .metadata()
        .map(|entry| (entry.key(), entry.value))
        .collect();
    let mut differences = Vec::new();
    for entry in a.metadata() {
        let (key, value) = (entry.key(), entry.value);
        let other = in_b.get(key).copied();
        if !other.is_some_and(|other| same(&value, &other)) {
            differences.push(KeyDifference {
                key,
                a: Some(value),
                b: other,
            });
        }
    }
    let only_in_b = b.metadata().filter(|entry| !in_a.contains_key(entry.key()));
    differences.extend(only_in_b.map(|entry| KeyDifference {
        key: entry.key(),
        a: None,
        b: Some(entry.value),
    }));
    differences
}

/// Whether two values are the same, floats by their bits.
fn same(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::F32(a), Value::F32(b)) => a.to_bits() == b.to_bits(),
        (Value::F64(a), Value::F64(b)) => a.to_bits() == b.to_bits(),
        (a, b) => a == b,
    }
}

enum Compared {
    Equal,
    /// `None` when the values cannot be decoded.
    Different(Option<Distance>),
}

type Tensor<'t, 'a> = (&'t FileBytes, &'t Gguf<'a>, &'t TensorInfo<'a>);

/// Compares two tensors of one shape, part by part.
fn tensor(a: Tensor<'_, '_>, b: Tensor<'_, '_>) -> Result<Compared, Error> {
    let same_type = a.2.ty() == b.2.ty();
    let elements = a.2.elements().unwrap_or(0);
    let mut sum = Sum::default();
    let mut equal = same_type;
    let mut decoded = true;
    let mut at = 0;
    while at < elements {
        let count = STEP.min(elements - at);
        let bytes_a = part(a, at, count)?;
        let bytes_b = part(b, at, count)?;
        at += count;
        if same_type && bytes_a == bytes_b {
            continue;
        }
        equal = false;
        let count = usize::try_from(count).unwrap_or(0);
        let mut values = [vec![0.0; count], vec![0.0; count]];
        let [values_a, values_b] = &mut values;
        if dequantize_row(a.2.ty(), &bytes_a, values_a).is_err()
            || dequantize_row(b.2.ty(), &bytes_b, values_b).is_err()
        {
            decoded = false;
            break;
        }
        sum.add(values_a, values_b);
    }
    if equal {
        return Ok(Compared::Equal);
    }
    Ok(Compared::Different(decoded.then(|| sum.distance(elements))))
}

/// The bytes of `count` elements from element `at` on.
fn part((file, gguf, info): Tensor<'_, '_>, at: u64, count: u64) -> Result<Vec<u8>, Error> {
    let geometry = info.ty().geometry();
    let (len, bytes) = geometry.map_or((1, 0), |geometry| {
        (
            u64::from(geometry.block_len),
            u64::from(geometry.block_bytes),
        )
    });
    let start = gguf.data_offset() + info.offset() + at / len * bytes;
    let mut part = vec![0; usize::try_from(count / len * bytes).unwrap_or(0)];
    file.read_at(&mut part, start)?;
    Ok(part)
}

#[derive(Default)]
struct Sum {
    different: u64,
    not_finite: u64,
    max: f64,
    squares: f64,
}

impl Sum {
    fn add(&mut self, a: &[f32], b: &[f32]) {
        for (&a, &b) in a.iter().zip(b) {
            if a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) {
                continue;
            }
            let apart = (f64::from(a) - f64::from(b)).abs();
            self.different += 1;
            if apart.is_finite() {
                self.max = self.max.max(apart);
                self.squares += apart * apart;
            } else {
                self.not_finite += 1;
            }
        }
    }

    fn distance(&self, elements: u64) -> Distance {
        Distance {
            elements,
            different: self.different,
            not_finite: self.not_finite,
            max: self.max,
            rms: (self.squares / elements.max(1) as f64).sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_the_definition() {
        let mut sum = Sum::default();
        sum.add(
            &[1.0, 2.0, f32::NAN, 0.5],
            &[1.0, -1.0, f32::NAN, f32::INFINITY],
        );
        sum.add(&[0.0], &[4.0]);
        let distance = sum.distance(5);
        assert_eq!((distance.different, distance.not_finite), (3, 1));
        assert_eq!(distance.max, 4.0);
        assert_eq!(distance.rms, (25.0_f64 / 5.0).sqrt());
    }

    #[test]
    fn a_step_is_whole_blocks_of_every_type() {
        for ty in smidgen_core::gguf::GgmlType::all() {
            let block = u64::from(ty.geometry().unwrap().block_len);
            assert_eq!(STEP % block, 0, "{ty}");
        }
    }
}
