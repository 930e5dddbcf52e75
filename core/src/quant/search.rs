//! Searches for the scales of K types, step by step as ggml's reference does them: each product and
//! sum in its order, since another order rounds otherwise and can choose another scale.

use super::block::largest;

/// ggml takes a group of numbers none of which is as large as this for zeros.
pub(super) const ALL_ZERO: f32 = 1e-15;

/// The nearest integer, ties to even, of a number within ±2^22; beyond, the low 23 bits of
/// whatever the sum has, as in ggml.
#[inline(always)]
pub(super) fn nearest(x: f32) -> i32 {
    let bits = (x + 12_582_912.0).to_bits() & 0x007f_ffff;
    bits.cast_signed() - 0x0040_0000
}

/// The nearest integer in a range, as f32 and as integer.
#[inline(always)]
pub(super) fn nearest_in(x: f32, low: i32, high: i32) -> i8 {
    #[allow(clippy::cast_possible_truncation)] // The ranges are within i8.
    let q = nearest(x).max(low).min(high) as i8;
    q
}

/// Scale and negated minimum of `N` numbers that become `0..=max`: element `i` is
/// `scale * q - minimum`.
///
/// Starts from the range of the numbers, and tries `steps + 1` other scales, for each of which the
/// weighted least squares fit is taken if its error is smaller. (ggml's `make_qkx2_quants`.)
pub(super) fn scale_and_min<const N: usize>(
    x: &[f32; N],
    weights: &[f32; N],
    max: i8,
    search: &Search,
) -> Fit<N> {
    let (mut low, mut high) = (x[0], x[0]);
    let mut sum_w = weights[0];
    let mut sum_x = sum_w * x[0];
    for (&x, &w) in x.iter().zip(weights).skip(1) {
        if x < low {
            low = x;
        }
        if x > high {
            high = x;
        }
        sum_w += w;
        sum_x += w * x;
    }
    if low > 0.0 {
        low = 0.0;
    }
    if high == low {
        return Fit {
            scale: 0.0,
            min: -low,
            qs: [0; N],
        };
    }
    let quants = |iscale: f32, min: f32| x.map(|x| nearest_in(iscale * (x - min), 0, max.into()));
    let error = |qs: &[i8; N], scale: f32, min: f32| {
        let each = qs.iter().zip(x).zip(weights);
        each.fold(0.0, |error, ((&q, &x), &w)| {
            let off = scale * f32::from(q) + min - x;
            error
                + w * if search.absolute {
                    off.abs()
                } else {
                    off * off
                }
        })
    };

    let iscale = f32::from(max) / (high - low);
    let mut best = Fit {
        scale: 1.0 / iscale,
        min: low,
        qs: quants(iscale, low),
    };
    let mut best_error = error(&best.qs, best.scale, best.min);
    for step in 0..=search.steps {
        // The minimum moves with each better fit.
        let numerator = search.first + search.delta * f32::from(step) + f32::from(max);
        let qs = quants(numerator / (high - best.min), best.min);
        let (mut sum_q, mut sum_q2, mut sum_xq) = (0.0, 0.0, 0.0);
        for ((&q, &x), &w) in qs.iter().zip(x).zip(weights) {
            let q = f32::from(q);
            sum_q += w * q;
            sum_q2 += w * q * q;
            sum_xq += w * q * x;
        }
        let determinant = sum_w * sum_q2 - sum_q * sum_q;
        if determinant > 0.0 {
            let mut scale = (sum_w * sum_xq - sum_x * sum_q) / determinant;
            let mut min = (sum_q2 * sum_x - sum_q * sum_xq) / determinant;
            if min > 0.0 {
                min = 0.0;
                scale = sum_xq / sum_q2;
            }
            let error = error(&qs, scale, min);
            if error < best_error {
                best_error = error;
                best = Fit { scale, min, qs };
            }
        }
    }
    best.min = -best.min;
    best
}

/// What a search found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit<const N: usize> {
    pub(super) scale: f32,
    /// What is subtracted; 0 where there is no minimum.
    pub(super) min: f32,
    /// The quants that belong to them, which stay in the file where the scale becomes 0.
    pub(super) qs: [i8; N],
}

/// Which scales [`scale_and_min`] tries: `(first + delta * step + max) / range`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    pub(super) first: f32,
    pub(super) delta: f32,
    pub(super) steps: u8,
    /// Whether errors count as they are, not squared.
    pub(super) absolute: bool,
}

/// Scale of 16 numbers that become `-max..max`, weighted by their squares: of the scale that puts the
/// largest number on `-max` and eighteen near it the one whose least squares fit is best. (ggml's
/// `make_qx_quants` with `rmse_type` 1.)
pub(super) fn scale(x: &[f32; 16], max: i8) -> Fit<16> {
    let nothing = Fit {
        scale: 0.0,
        min: 0.0,
        qs: [0; 16],
    };
    let largest = largest(x);
    if largest.abs() < ALL_ZERO {
        // ggml has 0 here where the offset is still on: the least quant.
        let qs = [-max; 16];
        return Fit { qs, ..nothing };
    }
    let (low, high) = (-i32::from(max), i32::from(max) - 1);
    let fit = |iscale: f32| {
        let qs = x.map(|x| nearest_in(iscale * x, low, high));
        let (mut xq, mut q2) = (0.0, 0.0);
        for (&q, &x) in qs.iter().zip(x) {
            let (q, w) = (f32::from(q), x * x);
            xq += w * x * q;
            q2 += w * q * q;
        }
        (qs, xq, q2)
    };
    let (qs, xq, q2) = fit(-f32::from(max) / largest);
    let scale = if q2 == 0.0 { 0.0 } else { xq / q2 };
    let mut found = Fit {
        scale,
        qs,
        ..nothing
    };
    let mut best = scale * xq;
    for step in (-9..=9_i8).filter(|&step| step != 0) {
        let (qs, xq, q2) = fit(-(f32::from(max) + 0.1 * f32::from(step)) / largest);
        if q2 > 0.0 && xq * xq > best * q2 {
            let scale = xq / q2;
            best = scale * xq;
            found = Fit {
                scale,
                qs,
                ..nothing
            };
        }
    }
    found
}

/// Scale of 16 numbers that become -4..=3, weighted by their squares: up to five rounds in which
/// each quant is moved if the fit of all becomes better. (ggml's `make_q3_quants`.)
pub(super) fn scale_of_three_bits(x: &[f32; 16]) -> Fit<16> {
    let largest = largest(x);
    if largest.abs() < ALL_ZERO {
        return Fit {
            scale: 0.0,
            min: 0.0,
            qs: [-4; 16],
        };
    }
    let iscale = -4.0 / largest;
    let mut qs = x.map(|x| nearest_in(iscale * x, -4, 3));
    let (mut xq, mut q2) = (0.0, 0.0);
    for (&q, &x) in qs.iter().zip(x) {
        let (q, w) = (f32::from(q), x * x);
        xq += w * x * q;
        q2 += w * q * q;
    }
    for _ in 0..5 {
        let mut changed = false;
        for (q, &x) in qs.iter_mut().zip(x) {
            let (old, w) = (f32::from(*q), x * x);
            // Without this number, and then with its new quant.
            let mut without_xq = xq - w * x * old;
            if without_xq > 0.0 {
                let mut without_q2 = q2 - w * old * old;
                let better = nearest_in(x * without_q2 / without_xq, -4, 3);
                if better != *q {
                    let new = f32::from(better);
                    without_xq += w * x * new;
                    without_q2 += w * new * new;
                    if without_q2 > 0.0 && without_xq * without_xq * q2 > xq * xq * without_q2 {
                        (xq, q2) = (without_xq, without_q2);
                        *q = better;
                        changed = true;
                    }
                }
            }
        }
        if !changed {
            break;
        }
    }
    Fit {
        scale: if q2 > 0.0 { xq / q2 } else { 0.0 },
        min: 0.0,
        qs,
    }
}
