//! A back end against the scalar one, on the chip itself and without a heap.

use super::backend::Kind;
use super::{AttentionScratch, Backend, Q8Rows, Queries, ints_len, scores_len_q8};
use crate::built_in;
use crate::gguf::GgmlType;
use crate::message::{Message, display_message};
use crate::quant::{ActivationKind, Activations, Q8Act, Q8KAct, activation_kind};

/// Why a back end did not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SelfTestError {
    /// It gave other bits than the scalar one: the chip, or the build for it, is wrong.
    Differs {
        /// The back end.
        backend: Backend,
        /// The operation.
        operation: &'static str,
        /// For products, the type of the weights.
        ty: Option<GgmlType>,
        /// The number of the case.
        case: u32,
    },
    /// There is no scalar one to compare it with: `SMIDGEN_BACKEND` named another.
    NothingToCompare,
}

impl SelfTestError {
    fn describe(&self, message: &mut Message<'_>) {
        let Self::Differs {
            backend,
            operation,
            ty,
            case,
        } = *self
        else {
            message.say("the scalar back end is not built in");
            return;
        };
        let text = match ty {
            Some(_) => "back end $: $ of type $ differs from the scalar one in case #",
            None => "back end $: $$ differs from the scalar one in case #",
        };
        let ty = ty.and_then(GgmlType::name).unwrap_or_default();
        message
            .say(text)
            .words([backend.name(), operation, ty])
            .numbers([case.into()]);
    }
}

display_message!(SelfTestError);

/// Rows and tokens of the products, and the most blocks of a row.
const ROWS: usize = 5;
const TOKENS: usize = 2;
const BLOCKS: usize = 3;

/// Room for `ROWS` rows of the largest type's blocks, and a start at any alignment.
const BYTES: usize = ROWS * BLOCKS * 210 + 16;

/// Positions and the largest head of attention.
const POSITIONS: usize = 37;
const HEAD: usize = 36;

/// Compares `backend` with the scalar one, bit for bit, over fixed data: products of every type that
/// is [built in](crate::built_in) with rows in all alignments, quantizing, attention over bytes. The
/// answer is how many cases there were.
///
/// Takes about 8 KiB of stack.
///
/// # Errors
/// The first difference; or that the scalar one is not built in.
pub fn self_test(backend: Backend) -> Result<u32, SelfTestError> {
    if Backend::SCALAR.kind() != Kind::Scalar {
        return Err(SelfTestError::NothingToCompare);
    }
    let mut test = SelfTest {
        backend,
        random: 0x2545_f491,
        case: 0,
    };
    for ty in GgmlType::all().filter(|&ty| built_in::has_type(ty)) {
        match activation_kind(ty) {
            Some(ActivationKind::F32) => test.products_f32(ty)?,
            Some(ActivationKind::Q8) if built_in::ANY_OF_32 => test.products_q8(ty)?,
            Some(ActivationKind::Q8K) if built_in::ANY_OF_256 => test.products_q8k(ty)?,
            _ => {}
        }
    }
    if built_in::KV_BYTES {
        test.attention()?;
    }
    Ok(test.case)
}

/// A case's number, and the state of the generator of its numbers.
struct SelfTest {
    backend: Backend,
    random: u32,
    case: u32,
}

impl SelfTest {
    /// xorshift32.
    fn next(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random
    }

    fn byte(&mut self) -> u8 {
        let [byte, ..] = self.next().to_be_bytes();
        byte
    }

    /// A number of -1..1.
    fn unit(&mut self) -> f32 {
        let [a, b, ..] = self.next().to_be_bytes();
        f32::from(i16::from_be_bytes([a, b])) / 32_768.0
    }

    fn fill(&mut self, numbers: &mut [f32]) {
        for x in numbers {
            *x = self.unit();
        }
    }

    /// Any bytes, in every other case mostly the ends of the range, where integer sums are largest.
    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        let end = [0x80, 0x7f, 0xff, 0x00][usize::from(self.byte() & 3)];
        let is_extreme = self.case % 2 == 1;
        for byte in bytes {
            let random = self.byte();
            *byte = if is_extreme && random & 15 != 0 {
                end
            } else {
                random
            };
        }
    }

    fn differs(&self, operation: &'static str, ty: Option<GgmlType>) -> SelfTestError {
        SelfTestError::Differs {
            backend: self.backend,
            operation,
            ty,
            case: self.case,
        }
    }

    fn products_f32(&mut self, ty: GgmlType) -> Result<(), SelfTestError> {
        for cols in 1..=20 {
            let mut x = [0.0; 20 * TOKENS];
            self.fill(&mut x);
            let x = x.get(..cols * TOKENS).unwrap_or_default();
            self.product(ty, cols, Activations::F32(x))?;
        }
        Ok(())
    }

    fn products_q8(&mut self, ty: GgmlType) -> Result<(), SelfTestError> {
        for case in 0..8 * BLOCKS {
            let blocks = 1 + case % BLOCKS;
            let mut numbers = [0.0; 32 * BLOCKS * TOKENS];
            self.fill(&mut numbers);
            let mut expected = [Q8Act::ZERO; BLOCKS * TOKENS];
            let mut found = expected;
            Backend::SCALAR.quantize_q8(&numbers, &mut expected);
            self.backend.quantize_q8(&numbers, &mut found);
            if found != expected {
                return Err(self.differs("quantizing", None));
            }
            if case % 2 == 1 {
                found = [Q8Act::new(0.5, [[127, -127][case / 2 % 2]; 32]); BLOCKS * TOKENS];
            }
            let x = found.get(..blocks * TOKENS).unwrap_or_default();
            self.product(ty, 32 * blocks, Activations::Q8(x))?;
        }
        Ok(())
    }

    fn products_q8k(&mut self, ty: GgmlType) -> Result<(), SelfTestError> {
        for case in 0..4 {
            let mut numbers = [0.0; 256 * TOKENS];
            self.fill(&mut numbers);
            let mut expected = [Q8KAct::ZERO; TOKENS];
            let mut found = expected;
            Backend::SCALAR.quantize_q8k(&numbers, &mut expected);
            self.backend.quantize_q8k(&numbers, &mut found);
            if found != expected {
                return Err(self.differs("quantizing", None));
            }
            if case % 2 == 1 {
                found = [Q8KAct::new(0.5, [[127, -127][case / 2]; 256]); TOKENS];
            }
            self.product(ty, 256, Activations::Q8K(&found))?;
        }
        Ok(())
    }

    /// Random weights, at an address that moves by two bytes from case to case.
    fn product(
        &mut self,
        ty: GgmlType,
        cols: usize,
        x: Activations<'_>,
    ) -> Result<(), SelfTestError> {
        self.case += 1;
        let row = crate::quant::row_bytes(ty, cols).unwrap_or(0);
        let start = usize::try_from(self.case % 8).unwrap_or(0) * 2;
        let mut bytes = [0; BYTES];
        let rows = 1 + usize::from(self.byte()) % ROWS;
        let weights = bytes.get_mut(start..start + rows * row);
        let weights = weights.unwrap_or_default();
        self.fill_bytes(weights);
        let (mut expected, mut found) = ([0.0; ROWS * TOKENS], [1.0; ROWS * TOKENS]);
        let outs = rows * TOKENS;
        let (expected, found) = (expected.split_at_mut(outs).0, found.split_at_mut(outs).0);
        Backend::SCALAR.matmul(ty, weights, cols, x, TOKENS, expected);
        self.backend.matmul(ty, weights, cols, x, TOKENS, found);
        if same(expected, found) {
            Ok(())
        } else {
            Err(self.differs("a product", Some(ty)))
        }
    }

    fn attention(&mut self) -> Result<(), SelfTestError> {
        for head_dim in [2, 4, 6, 8, 12, 16, 20, 32, HEAD] {
            for positions in [1, 2, 3, 4, 7, 8, 16, POSITIONS] {
                self.case += 1;
                self.attend(head_dim, positions)?;
            }
        }
        Ok(())
    }

    fn attend(&mut self, head_dim: usize, positions: usize) -> Result<(), SelfTestError> {
        let mut qs = [[0; POSITIONS * HEAD]; 2];
        let mut scales = [[0; POSITIONS]; 2];
        for q in qs.as_flattened_mut() {
            *q = i8::from_ne_bytes([self.byte()]).max(-127);
        }
        for scale in scales.as_flattened_mut() {
            let byte = u16::from(self.byte());
            *scale = match byte % 16 {
                0 => 0,
                1 => byte,               // Subnormal.
                _ => 0x1400 + byte * 24, // From 2^-10 to 2^-4.
            };
        }
        let mut q = [0.0; 2 * HEAD];
        self.fill(&mut q);
        let [keys, values] = [0, 1].map(|i| Q8Rows {
            qs: &qs[i][..positions * head_dim],
            scales: &scales[i][..positions],
        });
        let queries = Queries {
            q: &q[..2 * head_dim],
            head_dim,
            positions,
            // In every other case some scores are far below the largest.
            scale: [0.25, 8.0][positions % 2],
        };
        let run = |backend: Backend| {
            let mut out = [0.0; 2 * HEAD];
            let mut scores = [0.0; scores_len_q8(POSITIONS)];
            let mut ints = [0; ints_len(HEAD)];
            let scratch = AttentionScratch {
                scores: &mut scores,
                ints: &mut ints,
            };
            backend.attend_q8(queries, keys, values, scratch, &mut out[..2 * head_dim]);
            out
        };
        if same(&run(Backend::SCALAR), &run(self.backend)) {
            Ok(())
        } else {
            Err(self.differs("attention", None))
        }
    }
}

/// Whether all bits are the same, but for those of a NaN.
fn same(a: &[f32], b: &[f32]) -> bool {
    let both = a.iter().zip(b);
    let equal = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    a.len() == b.len() && both.into_iter().all(equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_passes() {
        for backend in Backend::available() {
            let cases = self_test(backend).unwrap();
            assert!(cases > 200, "{cases}");
        }
    }
}
