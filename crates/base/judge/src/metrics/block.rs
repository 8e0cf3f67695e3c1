//! Decodes and measures one block of elements of both sides.

use tensortap_abi::DType;
use tensortap_values::{decode_block_at, element_bits};

use super::distance::distances;
use super::full::SpecialCounts;
use super::peak::Peak;
use super::rule::Test;
use super::sums::{AbsDifferences, CountSpecials, LANES};
use tensortap_values::vector::Level;

/// Elements that are summed together. Parts of a tensor begin at multiples of this.
pub const BLOCK: usize = 1024;

/// The bytes of a block on both sides.
#[derive(Clone, Copy)]
pub struct Bytes<'a> {
    pub(super) dump: &'a [u8],
    pub(super) dump_dtype: DType,
    pub(super) golden: &'a [u8],
    pub(super) golden_dtype: DType,
    /// Number of the first element.
    pub(super) first: u64,
    /// At most [`BLOCK`].
    pub(super) count: usize,
}

impl Bytes<'_> {
    pub(super) fn same_dtype(&self) -> bool {
        self.dump_dtype == self.golden_dtype
    }

    /// Whether equal bytes are enough to prove that every element passes.
    pub(super) fn pass_by_bytes(&self, test: &Test) -> bool {
        let nan_passes = test.nan_equal || test.same_bits || !self.dump_dtype.is_float();
        self.same_dtype() && nan_passes && self.dump == self.golden
    }

    pub(super) fn bits(&self, position: usize) -> (u64, u64) {
        let of = |dtype, bytes| {
            // Both sides hold `count` elements of at most 64 bits, and `position` is below that.
            let bits = element_bits(dtype, bytes, position).unwrap_or_default();
            u64::try_from(bits).unwrap_or_default()
        };
        (of(self.dump_dtype, self.dump), of(self.golden_dtype, self.golden))
    }
}

/// Why a pair of values is not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExclusionReason {
    /// One is infinite and the other is a different value.
    Mismatched,
    /// One is NaN and the other is not.
    UnmatchedNan,
    EqualInfinities,
    BothNan,
}

/// A reusable buffer for a decoded block.
pub(super) struct Block {
    level: Level,
    /// Values, padded with zeros to a multiple of [`LANES`]. Pairs that are not measured are zero, too.
    dump: [f64; BLOCK],
    golden: [f64; BLOCK],
    error: [f64; BLOCK],
    distance: [u64; BLOCK],
    /// Positions that are not measured, in order, with reasons.
    excluded: Vec<(usize, ExclusionReason)>,
    count: usize,
    /// Special values on each side.
    pub dump_specials: SpecialCounts,
    pub golden_specials: SpecialCounts,
    /// Number of elements with different bits; valid after [`load_distances`](Self::load_distances).
    pub differing: u64,
}

impl Block {
    pub fn new(level: Level) -> Box<Block> {
        Box::new(Block {
            level,
            dump: [0.0; BLOCK],
            golden: [0.0; BLOCK],
            error: [0.0; BLOCK],
            distance: [0; BLOCK],
            excluded: Vec::new(),
            count: 0,
            dump_specials: SpecialCounts::default(),
            golden_specials: SpecialCounts::default(),
            differing: 0,
        })
    }

    /// Decodes values, excludes pairs that are not measured, and computes the errors.
    pub fn load(&mut self, bytes: &Bytes<'_>) {
        let Bytes { count, dump_dtype, golden_dtype, .. } = *bytes;
        (self.count, self.differing) = (count, 0);
        self.excluded.clear();
        decode_block_at(self.level, dump_dtype, bytes.dump, &mut self.dump[..count]);
        decode_block_at(self.level, golden_dtype, bytes.golden, &mut self.golden[..count]);
        let (dump_zeros, dump_special) = self.level.run(CountSpecials(&self.dump[..count]));
        let (golden_zeros, golden_special) = self.level.run(CountSpecials(&self.golden[..count]));
        self.dump_specials = SpecialCounts { zeros: dump_zeros, ..SpecialCounts::default() };
        self.golden_specials = SpecialCounts { zeros: golden_zeros, ..SpecialCounts::default() };
        if dump_special + golden_special > 0 {
            self.set_specials_aside();
        }
        self.take_errors(bytes);
        let padding = count..self.padded();
        for values in [&mut self.dump, &mut self.golden, &mut self.error] {
            values[padding.clone()].fill(0.0);
        }
    }

    /// Computes the distances and counts elements with different bits. Both sides must have the same dtype.
    pub fn load_distances(&mut self, bytes: &Bytes<'_>) {
        debug_assert!(bytes.same_dtype(), "distances are between elements of one dtype");
        let distance = &mut self.distance[..bytes.count];
        if bytes.dump == bytes.golden {
            distance.fill(0);
            self.differing = 0;
            return;
        }
        self.differing = distances(self.level, bytes.dump_dtype, bytes.dump, bytes.golden, distance);
        for (position, _) in &self.excluded {
            distance[*position] = 0;
        }
    }

    fn set_specials_aside(&mut self) {
        for position in 0..self.count {
            let (dump, golden) = (self.dump[position], self.golden[position]);
            if dump.is_finite() && golden.is_finite() {
                continue;
            }
            self.dump_specials.count(dump);
            self.golden_specials.count(golden);
            self.excluded.push((position, why(dump, golden)));
            (self.dump[position], self.golden[position]) = (0.0, 0.0);
        }
    }

    fn take_errors(&mut self, bytes: &Bytes<'_>) {
        let count = self.count;
        if is_wide(bytes.dump_dtype) {
            self.load_distances(bytes);
            for (error, distance) in self.error.iter_mut().zip(&self.distance[..count]) {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "rounded once, where a subtraction would cancel"
                )]
                let rounded = *distance as f64;
                *error = rounded;
            }
        } else {
            let (dump, golden) = (&self.dump[..count], &self.golden[..count]);
            self.level.run(AbsDifferences { dump, golden, error: &mut self.error[..count] });
        }
    }

    fn padded(&self) -> usize {
        self.count.next_multiple_of(LANES)
    }

    /// Values, goldens and errors, padded with zeros.
    pub fn values(&self) -> (&[f64], &[f64], &[f64]) {
        let padded = ..self.padded();
        (&self.dump[padded], &self.golden[padded], &self.error[padded])
    }

    pub fn distances(&self) -> &[u64] {
        &self.distance[..self.count]
    }

    pub fn excluded(&self) -> &[(usize, ExclusionReason)] {
        &self.excluded
    }

    /// Number of pairs excluded for a reason.
    fn count_excluded(&self, reason: ExclusionReason) -> u64 {
        self.excluded.iter().filter(|(_, why)| *why == reason).count() as u64
    }

    /// Number of excluded pairs that fail.
    pub fn failing_excluded(&self, test: &Test) -> u64 {
        self.mismatched() + self.refused_nan(test)
    }

    /// Pairs where one side is NaN, +Inf, -Inf or finite and the other is not.
    pub fn mismatched(&self) -> u64 {
        self.count_excluded(ExclusionReason::Mismatched) + self.count_excluded(ExclusionReason::UnmatchedNan)
    }

    /// Pairs with an unmatched NaN: the other side has a number, or the rule treats NaN as unequal to NaN.
    pub fn unmatched_nan(&self, test: &Test) -> u64 {
        self.count_excluded(ExclusionReason::UnmatchedNan) + self.refused_nan(test)
    }

    fn refused_nan(&self, test: &Test) -> u64 {
        if test.nan_equal || test.same_bits { 0 } else { self.count_excluded(ExclusionReason::BothNan) }
    }

    /// The first failing pair without an error value: mismatched, or an unmatched NaN.
    pub fn first_unmeasured(&self, bytes: &Bytes<'_>, test: &Test) -> Option<Peak> {
        let refuses_nan = !test.nan_equal && !test.same_bits;
        let (position, _) = self.excluded.iter().find(|(_, why)| match why {
            ExclusionReason::Mismatched | ExclusionReason::UnmatchedNan => true,
            ExclusionReason::BothNan => refuses_nan,
            ExclusionReason::EqualInfinities => false,
        })?;
        let (dump_bits, golden_bits) = bytes.bits(*position);
        let index = bytes.first + *position as u64;
        Some(Peak { index, dump_bits, golden_bits, error: None, exact: 0, fails: true })
    }

    /// The first element with the greatest error, if that is not zero. Its verdict is still open.
    pub fn peak(&self, bytes: &Bytes<'_>, max: f64) -> Option<Peak> {
        if max == 0.0 {
            return None;
        }
        let exact = if is_wide(bytes.dump_dtype) { self.distances().iter().max().copied()? } else { 0 };
        let is_peak = |position: &usize| {
            if exact > 0 { self.distance[*position] == exact } else { self.error[*position] == max }
        };
        let position = (0..self.count).find(is_peak)?;
        let (dump_bits, golden_bits) = bytes.bits(position);
        let index = bytes.first + position as u64;
        Some(Peak { index, dump_bits, golden_bits, error: Some(self.error[position]), exact, fails: false })
    }

    /// The exact difference of 64-bit integers, otherwise 0.
    pub fn exact(&self, position: usize, bytes: &Bytes<'_>) -> u64 {
        if is_wide(bytes.dump_dtype) { self.distance[position] } else { 0 }
    }

    /// Adds the verdict to a peak of this block. Distances must be loaded unless only the tolerance decides.
    pub fn judged(&self, peak: Peak, bytes: &Bytes<'_>, test: &Test) -> Peak {
        #[expect(clippy::cast_possible_truncation, reason = "within the block")]
        let position = (peak.index - bytes.first) as usize;
        Peak { fails: self.fails(position, bytes, test), ..peak }
    }

    /// Whether a measured pair fails. Distances must be loaded unless only the tolerance decides.
    pub fn fails(&self, position: usize, bytes: &Bytes<'_>, test: &Test) -> bool {
        if test.same_bits {
            let (dump, golden) = bytes.bits(position);
            return dump != golden;
        }
        let within = test.within(self.error[position], self.golden[position]);
        !within || !test.is_close() && self.distance[position] > test.max_distance
    }
}

/// Whether a block with this greatest error can contain a greater peak than the one so far. Of equal errors
/// the first counts, but wide integers may have equal rounded errors and different exact ones.
pub(super) fn may_exceed(peak: Option<Peak>, max_abs: f64, bytes: &Bytes<'_>) -> bool {
    let error = peak.and_then(|peak| peak.error).unwrap_or(0.0);
    max_abs > error || max_abs == error && is_wide(bytes.dump_dtype)
}

/// Whether a dtype has integers that `f64` cannot represent.
pub(super) fn is_wide(dtype: DType) -> bool {
    matches!(dtype, DType::Int64 | DType::UInt64)
}

fn why(dump: f64, golden: f64) -> ExclusionReason {
    if dump.is_nan() && golden.is_nan() {
        ExclusionReason::BothNan
    } else if dump.is_nan() || golden.is_nan() {
        ExclusionReason::UnmatchedNan
    } else if dump == golden {
        ExclusionReason::EqualInfinities
    } else {
        ExclusionReason::Mismatched
    }
}
