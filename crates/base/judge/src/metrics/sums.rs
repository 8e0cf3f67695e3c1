//! Sums over one block. Each sum has [`LANES`] lanes on every processor, so the order of additions is fixed.

use super::rule::Test;
use tensortap_values::vector::Work;

/// Number of parallel sums. Blocks are padded with zeros to a multiple of this.
pub(super) const LANES: usize = 8;

/// Sums over measured pairs; a pair of zeros changes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ErrorSums {
    pub abs: f64,
    pub squares: f64,
    pub dump_squares: f64,
    pub golden_squares: f64,
    pub product: f64,
    pub relative: f64,
    pub relative_count: u64,
    pub max_abs: f64,
    pub max_relative: f64,
    /// Number of pairs outside `atol + rtol * |golden|`.
    pub outside: u64,
}

/// Sums over a padded block of finite values.
pub(super) struct SumErrors<'a> {
    pub dump: &'a [f64],
    pub golden: &'a [f64],
    pub error: &'a [f64],
    pub test: Test,
}

type Lanes = [f64; LANES];

#[derive(Default)]
struct RunningSums {
    abs: Lanes,
    squares: Lanes,
    dump_squares: Lanes,
    golden_squares: Lanes,
    product: Lanes,
    relative: Lanes,
    /// Counts stay below 2^53, so they can share the registers of the sums.
    relative_count: Lanes,
    max_abs: Lanes,
    max_relative: Lanes,
    outside: Lanes,
}

impl Work for SumErrors<'_> {
    type Output = ErrorSums;

    #[inline(always)]
    fn run(self) -> ErrorSums {
        let Self { dump, golden, error, test } = self;
        let mut running = RunningSums::default();
        let chunks = dump.as_chunks().0.iter().zip(golden.as_chunks().0).zip(error.as_chunks().0);
        for ((dump, golden), error) in chunks {
            running.add(dump, golden, error, &test);
        }
        running.finish()
    }
}

impl RunningSums {
    #[inline(always)]
    fn add(&mut self, dump: &Lanes, golden: &Lanes, error: &Lanes, test: &Test) {
        for at in 0..LANES {
            let (value, wanted, error) = (dump[at], golden[at], error[at]);
            let magnitude = wanted.abs();
            self.abs[at] += error;
            self.squares[at] += error * error;
            self.dump_squares[at] += value * value;
            self.golden_squares[at] += wanted * wanted;
            self.product[at] += value * wanted;
            self.max_abs[at] = greater(error, self.max_abs[at]);
            self.outside[at] += kept(!test.within(error, wanted), 1.0);
            let counts = magnitude >= test.small;
            let relative = kept(counts, error / magnitude);
            self.relative[at] += relative;
            self.relative_count[at] += kept(counts, 1.0);
            self.max_relative[at] = greater(relative, self.max_relative[at]);
        }
    }

    #[inline(always)]
    fn finish(&self) -> ErrorSums {
        ErrorSums {
            abs: sum(&self.abs),
            squares: sum(&self.squares),
            dump_squares: sum(&self.dump_squares),
            golden_squares: sum(&self.golden_squares),
            product: sum(&self.product),
            relative: sum(&self.relative),
            relative_count: count(&self.relative_count),
            max_abs: self.max_abs.into_iter().fold(0.0, f64::max),
            max_relative: self.max_relative.into_iter().fold(0.0, f64::max),
            outside: count(&self.outside),
        }
    }
}

/// The value or zero. A mask, because a choice could become a branch or a store that waits for the previous
/// one.
#[inline(always)]
fn kept(keep: bool, value: f64) -> f64 {
    f64::from_bits(value.to_bits() & u64::from(keep).wrapping_neg())
}

#[inline(always)]
fn greater(value: f64, most: f64) -> f64 {
    if value > most { value } else { most }
}

#[inline(always)]
fn sum(lanes: &Lanes) -> f64 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of at most a block")]
fn count(lanes: &Lanes) -> u64 {
    sum(lanes) as u64
}

/// Counts zeros and values that are not finite.
pub(super) struct CountSpecials<'a>(pub &'a [f64]);

impl Work for CountSpecials<'_> {
    /// Number of zeros and of values that are not finite.
    type Output = (u64, u64);

    #[inline(always)]
    fn run(self) -> (u64, u64) {
        let (mut zeros, mut finite) = (0_u64, 0_u64);
        for value in self.0 {
            zeros += u64::from(*value == 0.0);
            finite += u64::from(value.abs() <= f64::MAX);
        }
        (zeros, self.0.len() as u64 - finite)
    }
}

/// Magnitudes of differences.
pub(super) struct AbsDifferences<'a> {
    pub dump: &'a [f64],
    pub golden: &'a [f64],
    pub error: &'a mut [f64],
}

impl Work for AbsDifferences<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for ((error, dump), golden) in self.error.iter_mut().zip(self.dump).zip(self.golden) {
            *error = (dump - golden).abs();
        }
    }
}
