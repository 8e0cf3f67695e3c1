use std::cmp::Ordering;

use tensortap_abi::DType;
use tensortap_values::{Value, ulp_distance};

use super::comparison::Comparison;

/// An element with a large error or a mismatch, with its position and both values.
#[derive(Clone, Debug, PartialEq)]
pub struct WorstElement {
    /// Number of the element in logical order; both parts of a complex number have its number.
    pub index: u64,
    /// Its coordinate along each axis.
    pub coordinate: Vec<u64>,
    /// The captured value.
    pub dump: Value,
    /// The expected value.
    pub golden: Value,
    /// Magnitude of the difference; `None` if the pair is not measured.
    pub error: Option<f64>,
    /// Distance in representable values; `None` if the pair is not measured or the dtypes differ.
    pub ulps: Option<u64>,
    /// Whether it is outside the rule.
    pub fails: bool,
}

/// The coordinate of an element in logical order.
///
/// ```
/// use tensortap_judge::coordinate;
/// assert_eq!(coordinate(&[2, 3, 4], 23), [1, 2, 3]);
/// assert_eq!(coordinate(&[], 0), [0_u64; 0]);
/// ```
#[must_use]
pub fn coordinate(shape: &[u64], index: u64) -> Vec<u64> {
    let mut rest = index;
    let mut coordinate = vec![0; shape.len()];
    for (place, extent) in coordinate.iter_mut().zip(shape).rev() {
        let extent = (*extent).max(1);
        *place = rest % extent;
        rest /= extent;
    }
    coordinate
}

/// A [`WorstElement`] candidate during a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peak {
    pub index: u64,
    pub dump_bits: u64,
    pub golden_bits: u64,
    /// `None` if the pair is not measured.
    pub error: Option<f64>,
    /// The exact difference of 64-bit integers, which `error` rounds; otherwise 0.
    pub exact: u64,
    pub fails: bool,
}

impl Peak {
    /// Compares measured pairs by error. Of equal errors, the first element is the greater one.
    pub fn exceeds(&self, other: &Peak) -> bool {
        self.order(other).is_gt()
    }

    fn order(&self, other: &Peak) -> Ordering {
        let [error, other_error] = [self, other].map(|peak| peak.error.unwrap_or(0.0));
        let by_error = error.total_cmp(&other_error).then(self.exact.cmp(&other.exact));
        by_error.then(other.index.cmp(&self.index))
    }

    /// Compares any pairs: failing ones are greater, and of those, the ones that are not measured.
    pub fn severity(&self, other: &Peak) -> Ordering {
        let key = |peak: &Peak| (peak.fails, peak.error.is_none());
        key(self).cmp(&key(other)).then_with(|| self.order(other))
    }

    pub fn worst(&self, comparison: &Comparison, dump: DType, golden: DType) -> WorstElement {
        WorstElement {
            index: self.index / comparison.parts_per_element(),
            coordinate: coordinate(comparison.shape(), self.index),
            dump: Value::decode(dump, self.dump_bits.into()),
            golden: Value::decode(golden, self.golden_bits.into()),
            error: self.error,
            ulps: self.error.and_then(|_| ulps(dump, golden, self)),
            fails: self.fails,
        }
    }
}

fn ulps(dump: DType, golden: DType, peak: &Peak) -> Option<u64> {
    if dump == golden { ulp_distance(dump, peak.dump_bits, peak.golden_bits) } else { None }
}

/// The greater of two optional peaks.
pub(super) fn greater(one: Option<Peak>, other: Option<Peak>) -> Option<Peak> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other.exceeds(&one) { other } else { one }),
        (one, other) => one.or(other),
    }
}
