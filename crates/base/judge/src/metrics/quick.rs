//! Computes whether a tensor is within its rule and its greatest error, at memory speed.

use std::marker::PhantomData;

use tensortap_abi::DType;

use super::block::{Block, Bytes, may_exceed};
use super::comparison::Comparison;
use super::distance::SumDistances;
use super::full::{greatest_error, with_rounded_golden};
use super::peak::{Peak, WorstElement, greater};
use super::rule::Test;
use super::stream::{Pass, sealed};
use tensortap_values::vector::{Level, Work};
use tensortap_values::{Bf16, F16, F32, HotFloat};

/// Whether a tensor is within its rule, and its greatest error. The fields have the same meaning as in
/// [`Metrics`](super::Metrics).
#[derive(Clone, Debug, PartialEq)]
pub struct QuickResult {
    /// Number of elements of each side.
    pub elements: u64,
    /// Number of elements outside the rule, including mismatched ones.
    pub failing: u64,
    /// Number of positions where one side is NaN, +Inf, -Inf or finite and the other is not.
    pub mismatched: u64,
    /// Number of positions with an unmatched NaN.
    pub unmatched_nan: u64,
    /// The first mismatched position or unmatched NaN.
    pub first_mismatch: Option<WorstElement>,
    /// Greatest magnitude of a difference between finite values.
    pub max_abs: f64,
    /// The first element with that difference, unless it is 0.
    pub worst: Option<WorstElement>,
}

impl QuickResult {
    /// Whether every element is within the rule.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.failing == 0
    }

    /// Greatest magnitude of a difference: NaN if there is an unmatched NaN, else infinite if there is a
    /// mismatched infinity.
    #[must_use]
    pub fn max_abs_err(&self) -> f64 {
        greatest_error(self.unmatched_nan, self.mismatched, self.max_abs)
    }

    /// The first failing element without an error value, else the first with the greatest error; `None` if
    /// all are equal.
    #[must_use]
    pub fn worst_element(&self) -> Option<&WorstElement> {
        self.first_mismatch.as_ref().or(self.worst.as_ref())
    }
}

/// The pass that computes [`QuickResult`].
pub struct QuickPass {
    level: Level,
    block: Box<Block>,
    test: Test,
    elements: u64,
    failing: u64,
    mismatched: u64,
    unmatched_nan: u64,
    first_mismatch: Option<Peak>,
    peak: Option<Peak>,
    /// The golden in the dump's dtype, if the rule judges that.
    rounded: Option<Vec<u8>>,
}

impl sealed::State for QuickPass {
    type Output = QuickResult;

    fn new(comparison: &Comparison, _first_block: u64) -> Self {
        QuickPass {
            level: comparison.level(),
            block: Block::new(comparison.level()),
            test: comparison.test(),
            elements: 0,
            failing: 0,
            mismatched: 0,
            unmatched_nan: 0,
            first_mismatch: None,
            peak: None,
            rounded: comparison.judges_rounded().then(Vec::new),
        }
    }

    fn block(&mut self, bytes: &Bytes<'_>) {
        self.elements += bytes.count as u64;
        let mut rounded = self.rounded.take();
        self.take(&with_rounded_golden(bytes, rounded.as_mut()));
        self.rounded = rounded;
    }

    fn join(&mut self, next: Self) {
        self.elements += next.elements;
        self.failing += next.failing;
        self.mismatched += next.mismatched;
        self.unmatched_nan += next.unmatched_nan;
        self.first_mismatch = self.first_mismatch.or(next.first_mismatch);
        self.peak = greater(self.peak, next.peak);
    }

    fn finish(self, comparison: &Comparison) -> QuickResult {
        let dump = comparison.dump_dtype();
        let golden = if comparison.judges_rounded() { dump } else { comparison.golden_dtype() };
        let worst = |peak: Peak| peak.worst(comparison, dump, golden);
        QuickResult {
            elements: self.elements,
            failing: self.failing,
            mismatched: self.mismatched,
            unmatched_nan: self.unmatched_nan,
            first_mismatch: self.first_mismatch.map(worst),
            max_abs: self.max_abs(),
            worst: self.peak.map(worst),
        }
    }
}

impl Pass for QuickPass {}

impl QuickPass {
    fn max_abs(&self) -> f64 {
        self.peak.and_then(|peak| peak.error).unwrap_or(0.0)
    }

    fn take(&mut self, bytes: &Bytes<'_>) {
        if bytes.pass_by_bytes(&self.test) {
            return;
        }
        match hot_pass(self.level, bytes, &self.test) {
            Some(HotSums { max_abs, failing }) => {
                self.failing += failing;
                if max_abs > self.max_abs() {
                    self.block.load(bytes);
                    self.take_peak(bytes, max_abs);
                }
            }
            None => self.take_loaded(bytes),
        }
    }

    /// The general case, for every dtype, rule and value.
    fn take_loaded(&mut self, bytes: &Bytes<'_>) {
        let Self { level, block, test, .. } = self;
        block.load(bytes);
        let (_, golden, error) = block.values();
        let (max_abs, outside) = level.run(OutsideTolerance { golden, error, test: *test });
        let mut failing = outside + block.failing_excluded(test);
        if !test.is_close() {
            block.load_distances(bytes);
            let over =
                level.run(SumDistances { distances: block.distances(), allowed: test.max_distance }).over;
            failing = if test.same_bits { block.differing } else { failing + over };
        }
        self.failing += failing;
        self.mismatched += block.mismatched();
        self.unmatched_nan += block.unmatched_nan(test);
        self.first_mismatch = self.first_mismatch.or_else(|| block.first_unmeasured(bytes, test));
        self.take_peak(bytes, max_abs);
    }

    fn take_peak(&mut self, bytes: &Bytes<'_>, max_abs: f64) {
        if may_exceed(self.peak, max_abs, bytes) {
            let peak = self.block.peak(bytes, max_abs).map(|peak| self.block.judged(peak, bytes, &self.test));
            self.peak = greater(self.peak, peak);
        }
    }
}

/// Greatest error and number of elements outside the tolerance, for a block of finite values.
struct OutsideTolerance<'a> {
    golden: &'a [f64],
    error: &'a [f64],
    test: Test,
}

impl Work for OutsideTolerance<'_> {
    type Output = (f64, u64);

    #[inline(always)]
    fn run(self) -> (f64, u64) {
        let (mut most, mut outside) = (0_u64, 0);
        for (error, golden) in self.error.iter().zip(self.golden) {
            most = most.max(error.to_bits());
            outside += u64::from(!self.test.within(*error, *golden));
        }
        (f64::from_bits(most), outside)
    }
}

struct HotSums {
    max_abs: f64,
    failing: u64,
}

/// The fast case, if there is one for the dtype and rule; `None` also if a value is not finite.
fn hot_pass(level: Level, bytes: &Bytes<'_>, test: &Test) -> Option<HotSums> {
    if !bytes.same_dtype() || !test.is_close() {
        return None;
    }
    match bytes.dump_dtype {
        DType::Float32 => level.run(HotPass::<F32>::new(bytes, test)),
        DType::Float16 => level.run(HotPass::<F16>::new(bytes, test)),
        DType::BFloat16 => level.run(HotPass::<Bf16>::new(bytes, test)),
        _ => None,
    }
}

/// Computes both results directly from the bytes.
struct HotPass<'a, H> {
    dump: &'a [u8],
    golden: &'a [u8],
    test: Test,
    dtype: PhantomData<H>,
}

impl<'a, H> HotPass<'a, H> {
    fn new(bytes: &Bytes<'a>, test: &Test) -> Self {
        HotPass { dump: bytes.dump, golden: bytes.golden, test: *test, dtype: PhantomData }
    }
}

impl<H: HotFloat> Work for HotPass<'_, H> {
    type Output = Option<HotSums>;

    #[inline(always)]
    fn run(self) -> Option<HotSums> {
        // The bit patterns of magnitudes have the order of the magnitudes, and NaN comes last.
        let (mut most, mut failing) = (0_u64, 0_u64);
        for (dump, golden) in H::split(self.dump).iter().zip(H::split(self.golden)) {
            let golden = H::value(*golden);
            let error = (H::value(*dump) - golden).abs();
            most = most.max(error.to_bits());
            failing += u64::from(!self.test.within(error, golden));
        }
        let max_abs = f64::from_bits(most);
        // For these dtypes, finite values have finite differences.
        max_abs.is_finite().then_some(HotSums { max_abs, failing })
    }
}
