//! Computes the distribution of errors in a tensor: a second pass, for tensors that fail.

use std::sync::LazyLock;

use super::block::{Block, Bytes, ExclusionReason};
use super::comparison::Comparison;
use super::full::with_rounded_golden;
use super::peak::{Peak, WorstElement};
use super::rule::Test;
use super::stream::{Pass, sealed};

/// Number of worst elements that are kept.
pub const WORST_ELEMENTS: usize = 10;

/// Maximum number of bins per axis.
pub const MAX_AXIS_BINS: u64 = 64;

/// Decades of the histogram. Smaller and larger errors count in the first and last one.
const DECADES: std::ops::RangeInclusive<i32> = -50..=50;

/// Lower ends of the decades.
static POWERS: LazyLock<Vec<f64>> = LazyLock::new(|| {
    // Parsing rounds to the nearest number; multiplying powers of ten would not.
    DECADES.map(|exponent| format!("1e{exponent}").parse().expect("a number")).collect()
});

/// The distribution of errors in a tensor.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_judge::{Comparison, Rule, TensorType};
///
/// // The last row is wrong.
/// let golden = [0_u8; 6];
/// let dump = [0, 0, 0, 0, 30, 5];
/// let tensor = TensorType::new(DType::UInt8, &[3, 2]);
/// let detail = Comparison::new(&tensor, &tensor, Rule::for_dtype(DType::UInt8))?.detail(&dump, &golden, 1)?;
/// assert_eq!(detail.axes[0].failing, [0, 0, 2]);
/// assert_eq!((detail.axes[0].first, detail.axes[0].last), (Some(2), Some(2)));
/// assert_eq!(detail.axes[1].failing, [1, 1]);
/// assert_eq!(detail.worst[0].coordinate, [2, 0]);
/// assert_eq!(detail.first_failing.unwrap().index, 4);
/// assert_eq!(detail.equal, 4);
/// assert_eq!(detail.decades.iter().map(|d| (d.exponent, d.count)).collect::<Vec<_>>(), [(0, 1), (1, 1)]);
/// # Ok::<(), tensortap_judge::CompareError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Detail {
    /// At most [`WORST_ELEMENTS`], in this order: mismatched elements, elements outside the rule by error,
    /// the others by error. Equal ones are in tensor order.
    pub worst: Vec<WorstElement>,
    /// The first element outside the rule.
    pub first_failing: Option<WorstElement>,
    /// Number of pairs without an error: equal values, equal infinities, and NaN pairs if the rule treats
    /// them as equal.
    pub equal: u64,
    /// Number of mismatched pairs, and of NaN pairs if the rule treats them as unequal.
    pub unmeasured: u64,
    /// Errors by size, from the smallest decade with errors to the largest.
    pub decades: Vec<Decade>,
    /// One per axis.
    pub axes: Vec<AxisProfile>,
}

/// Errors of one order of magnitude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decade {
    /// Errors from `10^exponent` to below `10^(exponent + 1)`. The first and last decade, -50 and 50, are
    /// open-ended.
    pub exponent: i32,
    /// Number of errors.
    pub count: u64,
}

/// Elements outside the rule along one axis.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisProfile {
    /// Size of the axis.
    pub extent: u64,
    /// Coordinates per bin, a power of two; the last bin may have fewer.
    pub bin_width: u64,
    /// Number of elements outside the rule, per bin.
    pub failing: Vec<u64>,
    /// Greatest error per bin; mismatched elements have none.
    pub max_error: Vec<f64>,
    /// Smallest coordinate of an element outside the rule.
    pub first: Option<u64>,
    /// Largest coordinate of an element outside the rule.
    pub last: Option<u64>,
}

impl AxisProfile {
    fn new(extent: u64) -> AxisProfile {
        let bin_width = extent.div_ceil(MAX_AXIS_BINS).max(1).next_power_of_two();
        #[expect(clippy::cast_possible_truncation, reason = "at most MAX_AXIS_BINS")]
        let bins = extent.div_ceil(bin_width) as usize;
        let (failing, max_error) = (vec![0; bins], vec![0.0; bins]);
        AxisProfile { extent, bin_width, failing, max_error, first: None, last: None }
    }

    fn count(&mut self, coordinate: u64, error: f64) {
        #[expect(clippy::cast_possible_truncation, reason = "at most MAX_AXIS_BINS")]
        let bin = (coordinate / self.bin_width) as usize;
        self.failing[bin] += 1;
        self.max_error[bin] = self.max_error[bin].max(error);
        self.first = least(self.first, Some(coordinate));
        self.last = self.last.max(Some(coordinate));
    }

    fn add(&mut self, other: &AxisProfile) {
        for (count, more) in self.failing.iter_mut().zip(&other.failing) {
            *count += more;
        }
        for (most, error) in self.max_error.iter_mut().zip(&other.max_error) {
            *most = most.max(*error);
        }
        self.first = least(self.first, other.first);
        self.last = self.last.max(other.last);
    }
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// The pass that computes [`Detail`].
pub struct DetailPass {
    block: Box<Block>,
    test: Test,
    /// The worst first.
    worst: Vec<Peak>,
    first_failing: Option<Peak>,
    equal: u64,
    unmeasured: u64,
    decades: Vec<u64>,
    axes: Vec<AxisProfile>,
    /// The golden in the dump's dtype, if the rule judges that.
    rounded: Option<Vec<u8>>,
}

impl sealed::State for DetailPass {
    type Output = Detail;

    fn new(comparison: &Comparison, _first_block: u64) -> Self {
        DetailPass {
            block: Block::new(comparison.level()),
            test: comparison.test(),
            worst: Vec::new(),
            first_failing: None,
            equal: 0,
            unmeasured: 0,
            decades: vec![0; POWERS.len()],
            axes: comparison.shape().iter().map(|extent| AxisProfile::new(*extent)).collect(),
            rounded: comparison.judges_rounded().then(Vec::new),
        }
    }

    fn block(&mut self, bytes: &Bytes<'_>) {
        let mut rounded = self.rounded.take();
        self.take(&with_rounded_golden(bytes, rounded.as_mut()));
        self.rounded = rounded;
    }

    fn join(&mut self, next: Self) {
        next.worst.into_iter().for_each(|peak| self.offer(peak));
        self.first_failing = self.first_failing.or(next.first_failing);
        self.equal += next.equal;
        self.unmeasured += next.unmeasured;
        for (count, more) in self.decades.iter_mut().zip(next.decades) {
            *count += more;
        }
        for (axis, next) in self.axes.iter_mut().zip(&next.axes) {
            axis.add(next);
        }
    }

    fn finish(self, comparison: &Comparison) -> Detail {
        let dump = comparison.dump_dtype();
        let golden = if comparison.judges_rounded() { dump } else { comparison.golden_dtype() };
        let worst = |peak: &Peak| peak.worst(comparison, dump, golden);
        Detail {
            worst: self.worst.iter().map(worst).collect(),
            first_failing: self.first_failing.as_ref().map(worst),
            equal: self.equal,
            unmeasured: self.unmeasured,
            decades: decades(&self.decades),
            axes: self.axes,
        }
    }
}

impl Pass for DetailPass {}

impl DetailPass {
    fn take(&mut self, bytes: &Bytes<'_>) {
        if bytes.pass_by_bytes(&self.test) {
            self.equal += bytes.count as u64;
            return;
        }
        self.block.load(bytes);
        if bytes.same_dtype() {
            self.block.load_distances(bytes);
        }
        let mut excluded = self.block.excluded().to_vec().into_iter().peekable();
        for position in 0..bytes.count {
            match excluded.next_if(|(at, _)| *at == position) {
                Some((_, why)) => self.take_excluded(bytes, position, why),
                None => self.take_measured(bytes, position),
            }
        }
    }

    fn take_excluded(&mut self, bytes: &Bytes<'_>, position: usize, why: ExclusionReason) {
        let (dump_bits, golden_bits) = bytes.bits(position);
        let differs = match why {
            ExclusionReason::Mismatched | ExclusionReason::UnmatchedNan => true,
            ExclusionReason::BothNan => !self.test.nan_equal && !self.test.same_bits,
            ExclusionReason::EqualInfinities => false,
        };
        if !(differs || self.test.same_bits && dump_bits != golden_bits) {
            self.equal += 1;
            return;
        }
        self.unmeasured += 1;
        let index = bytes.first + position as u64;
        self.locate(index, 0.0);
        let peak = Peak { index, dump_bits, golden_bits, error: None, exact: 0, fails: true };
        self.first_failing.get_or_insert(peak);
        self.offer(peak);
    }

    fn take_measured(&mut self, bytes: &Bytes<'_>, position: usize) {
        let error = self.block.values().2[position];
        let fails = self.block.fails(position, bytes, &self.test);
        let index = bytes.first + position as u64;
        if error > 0.0 {
            self.decades[decade(error)] += 1;
        } else {
            self.equal += 1;
        }
        if fails {
            self.locate(index, error);
        }
        let exact = self.block.exact(position, bytes);
        let candidate = Peak { index, dump_bits: 0, golden_bits: 0, error: Some(error), exact, fails };
        // Few elements are first or among the worst, so only their bits are read.
        let is_first = fails && self.first_failing.is_none();
        if is_first || (fails || error > 0.0) && self.would_keep(&candidate) {
            let (dump_bits, golden_bits) = bytes.bits(position);
            let peak = Peak { dump_bits, golden_bits, ..candidate };
            if is_first {
                self.first_failing = Some(peak);
            }
            self.offer(peak);
        }
    }

    /// Counts an element outside the rule on every axis.
    fn locate(&mut self, index: u64, error: f64) {
        let mut rest = index;
        for axis in self.axes.iter_mut().rev() {
            // An element has coordinates, so no extent is zero.
            let extent = axis.extent;
            axis.count(rest % extent, error);
            rest /= extent;
        }
    }

    fn would_keep(&self, peak: &Peak) -> bool {
        let full = self.worst.len() == WORST_ELEMENTS;
        !full || self.worst.last().is_some_and(|last| peak.severity(last).is_gt())
    }

    /// Keeps the element if it is among the worst.
    fn offer(&mut self, peak: Peak) {
        if !self.would_keep(&peak) {
            return;
        }
        let place = self.worst.partition_point(|kept| kept.severity(&peak).is_gt());
        self.worst.insert(place, peak);
        self.worst.truncate(WORST_ELEMENTS);
    }
}

fn decade(error: f64) -> usize {
    POWERS.partition_point(|power| *power <= error).saturating_sub(1)
}

fn decades(counts: &[u64]) -> Vec<Decade> {
    let used = |count: &u64| *count > 0;
    let (Some(first), Some(last)) = (counts.iter().position(used), counts.iter().rposition(used)) else {
        return Vec::new();
    };
    let numbered = DECADES.zip(counts).map(|(exponent, count)| Decade { exponent, count: *count });
    numbered.skip(first).take(last + 1 - first).collect()
}
