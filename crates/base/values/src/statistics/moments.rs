/// Squares of larger magnitudes could overflow, so such values are scaled down first.
pub(super) const HUGE: f64 = f64::from_bits((1023 + 500) << 52);
/// 2^-600. The largest finite value, scaled by this, can be squared and summed.
const DOWN: f64 = f64::from_bits((1023 - 600) << 52);

/// Range, mean and deviation of finite values.
#[derive(Clone, Debug)]
pub(super) struct Moments {
    pub count: u64,
    pub min: f64,
    pub max: f64,
    /// 1, or [`DOWN`] once there was a huge value: the factor of `mean` and `deviation`.
    scale: f64,
    mean: f64,
    /// Sum of squared distances from the mean.
    deviation: f64,
}

impl Default for Moments {
    fn default() -> Self {
        Moments {
            count: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            scale: 1.0,
            mean: 0.0,
            deviation: 0.0,
        }
    }
}

impl Moments {
    /// Extends the range by that of the next values and returns the factor for them.
    pub fn widen(&mut self, min: f64, max: f64) -> f64 {
        self.min = if min < self.min { min } else { self.min };
        self.max = if max > self.max { max } else { self.max };
        if self.max > HUGE || self.min < -HUGE {
            self.scale_down();
        }
        self.scale
    }

    /// A guess of the mean from the values so far.
    pub fn guess(&self) -> f64 {
        self.mean / self.scale
    }

    /// Whether there was a huge value.
    pub fn is_scaled(&self) -> bool {
        self.scale != 1.0
    }

    fn scale_down(&mut self) {
        if self.scale == 1.0 {
            self.scale = DOWN;
            self.mean *= DOWN;
            // One after the other, because the square of the factor underflows to zero.
            self.deviation = self.deviation * DOWN * DOWN;
        }
    }

    /// Adds the mean and squared deviations of further values, scaled.
    #[expect(clippy::cast_precision_loss, reason = "weights")]
    pub fn add(&mut self, count: u64, mean: f64, deviation: f64) {
        if count == 0 {
            return;
        }
        let (before, added) = (self.count as f64, count as f64);
        let total = before + added;
        let apart = mean - self.mean;
        self.mean += apart * (added / total);
        self.deviation += deviation + apart * apart * (before * added / total);
        self.count += count;
    }

    /// Adds the moments of other values.
    pub fn merge(&mut self, other: &Moments) {
        let mut other = other.clone();
        if self.widen(other.min, other.max) != 1.0 {
            other.scale_down();
        }
        self.add(other.count, other.mean, other.deviation);
    }

    pub fn mean(&self) -> f64 {
        (self.mean / self.scale).clamp(self.min, self.max)
    }

    /// Standard deviation of the population.
    pub fn std(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a divisor")]
        let variance = self.deviation / self.count as f64;
        libm::sqrt(variance) / self.scale
    }
}
