//! Computes every metric in one pass.

use tensortap_abi::DType;
use tensortap_values::{decode_block, encode_block};

use super::block::{BLOCK, Block, Bytes, may_exceed};
use super::comparison::Comparison;
use super::distance::{DistanceSums, SumDistances};
use super::peak::{Peak, WorstElement, greater};
use super::rule::Test;
use super::stream::{Pass, sealed};
use super::sums::{ErrorSums, SumErrors};
use super::tree::{Merge, Tree};
use tensortap_values::vector::Level;

/// Counts of special values on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct SpecialCounts {
    pub nan: u64,
    pub positive_infinity: u64,
    pub negative_infinity: u64,
    pub zeros: u64,
}

impl SpecialCounts {
    /// Counts a value that is not finite.
    pub(super) fn count(&mut self, value: f64) {
        self.nan += u64::from(value.is_nan());
        self.positive_infinity += u64::from(value == f64::INFINITY);
        self.negative_infinity += u64::from(value == f64::NEG_INFINITY);
    }

    fn add(&mut self, other: &SpecialCounts) {
        let SpecialCounts { nan, positive_infinity, negative_infinity, zeros } = *other;
        self.nan += nan;
        self.positive_infinity += positive_infinity;
        self.negative_infinity += negative_infinity;
        self.zeros += zeros;
    }
}

/// The distance of a tensor from its golden. Without measured pairs, means are `None` and errors are 0.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_judge::{Comparison, Rule, TensorType};
///
/// let bytes = |values: [f32; 4]| values.map(f32::to_le_bytes).concat();
/// let (dump, golden) = (bytes([1.0, 2.5, 0.0, f32::INFINITY]), bytes([1.0, 2.0, 0.0, f32::INFINITY]));
/// let tensor = TensorType::new(DType::Float32, &[2, 2]);
/// let comparison = Comparison::new(&tensor, &tensor, Rule::for_dtype(DType::Float32))?;
/// let metrics = comparison.full(&dump, &golden, 1)?;
/// assert_eq!((metrics.elements, metrics.measured, metrics.failing, metrics.mismatched), (4, 3, 1, 0));
/// assert_eq!((metrics.max_abs, metrics.max_relative, metrics.max_ulps), (0.5, 0.25, Some(1 << 21)));
/// assert_eq!(metrics.worst.unwrap().coordinate, [0, 1]);
/// # Ok::<(), tensortap_judge::CompareError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// Number of elements of each side.
    pub elements: u64,
    /// Number of pairs of finite values. Errors, norms and distances are computed over these.
    pub measured: u64,
    /// Special values of the dump.
    pub dump: SpecialCounts,
    /// Special values of the golden.
    pub golden: SpecialCounts,
    /// Number of positions where one side is NaN, +Inf, -Inf or finite and the other is not.
    pub mismatched: u64,
    /// Number of positions with an unmatched NaN: the other side has a number, or the rule treats NaN as
    /// unequal to NaN.
    pub unmatched_nan: u64,
    /// The first mismatched position or unmatched NaN.
    pub first_mismatch: Option<WorstElement>,
    /// Number of elements outside the rule, including mismatched ones.
    pub failing: u64,
    /// Greatest magnitude of a difference between finite values; see [`max_abs_err`](Self::max_abs_err).
    pub max_abs: f64,
    /// The first element with that difference, unless it is 0; see [`worst_element`](Self::worst_element).
    pub worst: Option<WorstElement>,
    /// Mean magnitude of the differences.
    pub mean_abs: Option<f64>,
    /// Root of the mean square of the differences.
    pub rmse: Option<f64>,
    /// Number of pairs whose golden is large enough for a relative error.
    pub relative_count: u64,
    /// Greatest relative error.
    pub max_relative: f64,
    /// Mean relative error.
    pub mean_relative: Option<f64>,
    /// Euclidean norm of the dump.
    pub dump_norm: f64,
    /// Euclidean norm of the golden.
    pub golden_norm: f64,
    /// Cosine of the angle between the two; `None` if a norm is zero or infinite.
    pub cosine: Option<f64>,
    /// Greatest distance of a pair in representable values; `None` between dtypes.
    pub max_ulps: Option<u64>,
    /// Mean distance.
    pub mean_ulps: Option<f64>,
    /// Number of elements with different bits; `None` between dtypes.
    pub differing: Option<u64>,
    /// For a golden of another dtype: the metrics after rounding it to the dump's dtype.
    pub rounded: Option<Box<Metrics>>,
}

impl Metrics {
    /// Whether every element is within the rule. True for no elements, so callers must count what was
    /// compared.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.failing == 0
    }

    /// Whether all bits are equal; `None` between dtypes.
    #[must_use]
    pub fn bit_exact(&self) -> Option<bool> {
        self.differing.map(|differing| differing == 0)
    }

    /// Greatest magnitude of a difference: NaN if there is an unmatched NaN, else infinite if there is a
    /// mismatched infinity, else [`max_abs`](Self::max_abs).
    #[must_use]
    pub fn max_abs_err(&self) -> f64 {
        greatest_error(self.unmatched_nan, self.mismatched, self.max_abs)
    }

    /// Greatest magnitude of a difference between finite values; `None` if no pair is finite.
    #[must_use]
    pub fn max_finite_err(&self) -> Option<f64> {
        (self.measured > 0).then_some(self.max_abs)
    }

    /// Greatest relative error; NaN or infinite like [`max_abs_err`](Self::max_abs_err).
    #[must_use]
    pub fn max_rel_err(&self) -> f64 {
        greatest_error(self.unmatched_nan, self.mismatched, self.max_relative)
    }

    /// The first failing element without an error value, else the first with the greatest error; `None` if
    /// all are equal.
    #[must_use]
    pub fn worst_element(&self) -> Option<&WorstElement> {
        self.first_mismatch.as_ref().or(self.worst.as_ref())
    }

    /// Share of elements outside the rule; 0 without elements.
    #[must_use]
    pub fn failing_share(&self) -> f64 {
        ratio_of(self.failing, self.elements).unwrap_or(0.0)
    }
}

/// The greatest error, which may be NaN or infinite.
pub(super) fn greatest_error(unmatched_nan: u64, mismatched: u64, finite: f64) -> f64 {
    if unmatched_nan > 0 {
        f64::NAN
    } else if mismatched > 0 {
        f64::INFINITY
    } else {
        finite
    }
}

/// Sums over consecutive blocks.
#[derive(Clone, Debug, Default)]
struct Sums {
    elements: u64,
    excluded: u64,
    dump: SpecialCounts,
    golden: SpecialCounts,
    mismatched: u64,
    unmatched_nan: u64,
    failing: u64,
    errors: ErrorSums,
    distances: DistanceSums,
    differing: u64,
}

impl Merge for Sums {
    fn merge(&mut self, next: &Self) {
        self.elements += next.elements;
        self.excluded += next.excluded;
        self.dump.add(&next.dump);
        self.golden.add(&next.golden);
        self.mismatched += next.mismatched;
        self.unmatched_nan += next.unmatched_nan;
        self.failing += next.failing;
        self.errors.merge(&next.errors);
        self.distances.merge(&next.distances);
        self.differing += next.differing;
    }
}

impl Merge for ErrorSums {
    fn merge(&mut self, next: &Self) {
        self.abs += next.abs;
        self.squares += next.squares;
        self.dump_squares += next.dump_squares;
        self.golden_squares += next.golden_squares;
        self.product += next.product;
        self.relative += next.relative;
        self.relative_count += next.relative_count;
        self.max_abs = self.max_abs.max(next.max_abs);
        self.max_relative = self.max_relative.max(next.max_relative);
        self.outside += next.outside;
    }
}

impl Merge for DistanceSums {
    fn merge(&mut self, next: &Self) {
        self.max = self.max.max(next.max);
        self.sum += next.sum;
        self.over += next.over;
    }
}

/// The metrics with one golden: sums and peaks. Peaks do not depend on the order, so they need no tree and
/// are only searched where they can change.
struct Findings {
    test: Test,
    sums: Tree<Sums>,
    first_mismatch: Option<Peak>,
    peak: Option<Peak>,
}

impl Findings {
    fn new(test: Test, first_block: u64) -> Findings {
        Findings { test, sums: Tree::starting_at(first_block), first_mismatch: None, peak: None }
    }

    fn join(&mut self, next: Findings) {
        self.sums.join(next.sums);
        self.first_mismatch = self.first_mismatch.or(next.first_mismatch);
        self.peak = greater(self.peak, next.peak);
    }

    fn take(&mut self, bytes: &Bytes<'_>, block: &mut Block, level: Level) {
        block.load(bytes);
        let sums = sums(bytes, block, level, &self.test);
        self.first_mismatch = self.first_mismatch.or_else(|| block.first_unmeasured(bytes, &self.test));
        if may_exceed(self.peak, sums.errors.max_abs, bytes) {
            let peak = block.peak(bytes, sums.errors.max_abs);
            self.peak = greater(self.peak, peak.map(|peak| block.judged(peak, bytes, &self.test)));
        }
        self.sums.push(sums);
    }
}

/// The pass that computes [`Metrics`].
pub struct MetricsPass {
    level: Level,
    block: Box<Block>,
    direct: Findings,
    /// The findings with the golden rounded to the dump's dtype, if that differs, and a buffer for it.
    rounded: Option<(Findings, Vec<u8>)>,
}

impl sealed::State for MetricsPass {
    type Output = Metrics;

    fn new(comparison: &Comparison, first_block: u64) -> Self {
        MetricsPass {
            level: comparison.level(),
            block: Block::new(comparison.level()),
            direct: Findings::new(comparison.direct_test(), first_block),
            rounded: comparison
                .is_mixed()
                .then(|| (Findings::new(comparison.test(), first_block), Vec::new())),
        }
    }

    fn block(&mut self, bytes: &Bytes<'_>) {
        let Self { level, block, direct, rounded } = self;
        direct.take(bytes, block, *level);
        if let Some((rounded, golden)) = rounded {
            rounded.take(&with_rounded_golden(bytes, Some(golden)), block, *level);
        }
    }

    fn join(&mut self, next: Self) {
        self.direct.join(next.direct);
        if let (Some((rounded, _)), Some((next, _))) = (&mut self.rounded, next.rounded) {
            rounded.join(next);
        }
    }

    fn finish(self, comparison: &Comparison) -> Metrics {
        let mut direct = metrics(self.direct, comparison, comparison.golden_dtype());
        if let Some((rounded, _)) = self.rounded {
            let rounded = metrics(rounded, comparison, comparison.dump_dtype());
            if comparison.judges_rounded() {
                direct.failing = rounded.failing;
            }
            direct.rounded = Some(Box::new(rounded));
        }
        direct
    }
}

impl Pass for MetricsPass {}

/// The sums of a loaded block.
fn sums(bytes: &Bytes<'_>, block: &mut Block, level: Level, test: &Test) -> Sums {
    let (dump, golden, error) = block.values();
    let errors = level.run(SumErrors { dump, golden, error, test: *test });
    let mut distances = DistanceSums::default();
    if bytes.same_dtype() {
        block.load_distances(bytes);
        distances = level.run(SumDistances { distances: block.distances(), allowed: test.max_distance });
    }
    let failing = if test.same_bits {
        block.differing
    } else {
        errors.outside + distances.over + block.failing_excluded(test)
    };
    Sums {
        elements: bytes.count as u64,
        excluded: block.excluded().len() as u64,
        dump: block.dump_specials,
        golden: block.golden_specials,
        mismatched: block.mismatched(),
        unmatched_nan: block.unmatched_nan(test),
        failing,
        errors,
        distances,
        differing: block.differing,
    }
}

/// A block with its golden rounded to the dump's dtype. `rounded` is the room for it; without room, the block is unchanged.
pub(super) fn with_rounded_golden<'b>(bytes: &Bytes<'b>, rounded: Option<&'b mut Vec<u8>>) -> Bytes<'b> {
    let Some(rounded) = rounded else { return *bytes };
    let mut values = [0.0; BLOCK];
    let values = &mut values[..bytes.count];
    decode_block(bytes.golden_dtype, bytes.golden, values);
    rounded.clear();
    rounded.resize((bytes.count * bytes.dump_dtype.bits() as usize).div_ceil(8), 0);
    encode_block(bytes.dump_dtype, values, rounded);
    Bytes { golden: rounded, golden_dtype: bytes.dump_dtype, ..*bytes }
}

fn metrics(findings: Findings, comparison: &Comparison, golden_dtype: DType) -> Metrics {
    let Findings { sums, first_mismatch, peak, .. } = findings;
    let sums = sums.total().unwrap_or_default();
    let dump_dtype = comparison.dump_dtype();
    let worst = |peak: Peak| peak.worst(comparison, dump_dtype, golden_dtype);
    let same_dtype = dump_dtype == golden_dtype;
    let Sums { errors, distances, .. } = &sums;
    let measured = sums.elements - sums.excluded;
    let (dump_norm, golden_norm) = (errors.dump_squares.sqrt(), errors.golden_squares.sqrt());
    #[expect(clippy::cast_precision_loss, reason = "a dividend")]
    let distance_sum = distances.sum as f64;
    Metrics {
        elements: sums.elements,
        measured,
        dump: sums.dump,
        golden: sums.golden,
        mismatched: sums.mismatched,
        unmatched_nan: sums.unmatched_nan,
        first_mismatch: first_mismatch.map(worst),
        failing: sums.failing,
        max_abs: errors.max_abs,
        worst: peak.map(worst),
        mean_abs: mean(errors.abs, measured),
        rmse: mean(errors.squares, measured).map(f64::sqrt),
        relative_count: errors.relative_count,
        max_relative: errors.max_relative,
        mean_relative: mean(errors.relative, errors.relative_count),
        dump_norm,
        golden_norm,
        cosine: cosine(errors.product, dump_norm, golden_norm),
        max_ulps: same_dtype.then_some(distances.max),
        mean_ulps: if same_dtype { mean(distance_sum, measured) } else { None },
        differing: same_dtype.then_some(sums.differing),
        rounded: None,
    }
}

fn cosine(product: f64, dump_norm: f64, golden_norm: f64) -> Option<f64> {
    let cosine = product / dump_norm / golden_norm;
    let defined = dump_norm.is_normal() && golden_norm.is_normal() && cosine.is_finite();
    defined.then(|| cosine.clamp(-1.0, 1.0))
}

fn ratio_of(part: u64, whole: u64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a dividend")]
    let part = part as f64;
    mean(part, whole)
}

fn mean(sum: f64, count: u64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a divisor")]
    let divisor = count as f64;
    (count > 0).then(|| sum / divisor)
}
