//! Decoded values, a block at a time.

use super::{F16_OVERFLOW, Statistics};

/// Elements decoded at a time: 4 KiB of `f64`.
pub(super) const BLOCK: usize = 512;
/// Running values side by side, so that no step waits for the one before.
const LANES: usize = 4;

/// What one pass over finite values finds.
struct Pass {
    sum: f64,
    min: f64,
    max: f64,
    zeros: u64,
}

impl Statistics {
    pub(super) fn take_block(&mut self, values: &mut [f64]) {
        let pass = Pass::over(values);
        // NaN and infinity stay in a sum. Huge values may add up to infinity as well; the longer way is right for them.
        if pass.sum.is_finite() || values.is_empty() {
            return self.take_finite(values, &pass);
        }
        let finite = self.set_specials_aside(values);
        let values = &mut values[..finite];
        let pass = Pass::over(values);
        self.take_finite(values, &pass);
    }

    fn take_finite(&mut self, values: &mut [f64], pass: &Pass) {
        let &Pass { mut sum, min, max, zeros } = pass;
        if values.is_empty() {
            return;
        }
        self.zeros += zeros;
        if max >= F16_OVERFLOW || min <= -F16_OVERFLOW {
            self.f16_overflow +=
                values.iter().map(|value| u64::from(value.abs() >= F16_OVERFLOW)).sum::<u64>();
        }
        let scale = self.moments.widen(min, max);
        if scale != 1.0 {
            values.iter_mut().for_each(|value| *value *= scale);
            sum = values.iter().sum();
        }
        #[expect(clippy::cast_precision_loss, reason = "a divisor")]
        let mean = sum / values.len() as f64;
        self.moments.add(values.len() as u64, mean, squared_distances(values, mean));
    }

    /// Moves finite values to the front and counts the others; how many are finite.
    fn set_specials_aside(&mut self, values: &mut [f64]) -> usize {
        let mut kept = 0;
        for at in 0..values.len() {
            let value = values[at];
            if value.is_finite() {
                values[kept] = value;
                kept += 1;
            }
            self.nan += u64::from(value.is_nan());
            self.positive_inf += u64::from(value == f64::INFINITY);
            self.negative_inf += u64::from(value == f64::NEG_INFINITY);
        }
        kept
    }
}

impl Pass {
    fn over(values: &[f64]) -> Pass {
        let (mut sum, mut min, mut max) = ([0.0; LANES], [f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
        let mut zeros = [0_u64; LANES];
        let (groups, rest) = values.as_chunks::<LANES>();
        for group in groups {
            for lane in 0..LANES {
                let value = group[lane];
                sum[lane] += value;
                min[lane] = if value < min[lane] { value } else { min[lane] };
                max[lane] = if value > max[lane] { value } else { max[lane] };
                zeros[lane] += u64::from(value == 0.0);
            }
        }
        for (lane, &value) in rest.iter().enumerate() {
            sum[lane] += value;
            min[lane] = if value < min[lane] { value } else { min[lane] };
            max[lane] = if value > max[lane] { value } else { max[lane] };
            zeros[lane] += u64::from(value == 0.0);
        }
        Pass {
            sum: sum.iter().sum(),
            min: min.iter().fold(f64::INFINITY, |a, b| a.min(*b)),
            max: max.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b)),
            zeros: zeros.iter().sum(),
        }
    }
}

fn squared_distances(values: &[f64], mean: f64) -> f64 {
    let mut lanes = [0.0; 2 * LANES];
    let (groups, rest) = values.as_chunks::<{ 2 * LANES }>();
    for group in groups {
        for (lane, value) in lanes.iter_mut().zip(group) {
            *lane += (value - mean) * (value - mean);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane += (value - mean) * (value - mean);
    }
    lanes.iter().sum()
}
