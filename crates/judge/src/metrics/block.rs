//! One block of both sides, decoded.

use tensortap_abi::DType;
use tensortap_values::{decode_block_at, element_bits};

use super::distance::distances;
use super::full::Specials;
use super::peak::Peak;
use super::rule::Test;
use super::sums::{Census, Differences, LANES};
use tensortap_values::vector::Level;

/// Elements that are summed up together. Parts of a tensor begin at multiples of it.
pub const BLOCK: usize = 1024;

/// The bytes of a block.
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

    /// Whether the bytes alone say that every element passes.
    pub(super) fn pass_unseen(&self, test: &Test) -> bool {
        let nan_passes = test.nan_equal || test.same_bits || !self.dump_dtype.is_float();
        self.same_dtype() && nan_passes && self.dump == self.golden
    }

    pub(super) fn bits(&self, position: usize) -> (u64, u64) {
        // Both sides hold `count` elements, and a position is below that.
        let dump = element_bits(self.dump_dtype, self.dump, position).unwrap_or_default();
        (dump, element_bits(self.golden_dtype, self.golden, position).unwrap_or_default())
    }
}

/// Why a pair is not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excluded {
    /// One is infinite and the other is another number.
    Mismatched,
    /// One is NaN and the other is not.
    UnmatchedNan,
    EqualInfinities,
    BothNan,
}

/// Room for a decoded block, used again and again.
pub(super) struct Block {
    level: Level,
    /// Values, padded with zeros to a multiple of [`LANES`]. Pairs that are not measured are zeros too.
    dump: [f64; BLOCK],
    golden: [f64; BLOCK],
    error: [f64; BLOCK],
    distance: [u64; BLOCK],
    /// Positions that are not measured, in order.
    excluded: Vec<(usize, Excluded)>,
    count: usize,
    /// What the block holds on each side.
    pub dump_specials: Specials,
    pub golden_specials: Specials,
    /// Elements whose bits differ, once [`load_distances`](Self::load_distances) was called.
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
            dump_specials: Specials::default(),
            golden_specials: Specials::default(),
            differing: 0,
        })
    }

    /// Decodes values, sets aside what is not measured and takes the errors.
    pub fn load(&mut self, bytes: &Bytes<'_>) {
        let Bytes { count, dump_dtype, golden_dtype, .. } = *bytes;
        (self.count, self.differing) = (count, 0);
        self.excluded.clear();
        decode_block_at(self.level, dump_dtype, bytes.dump, &mut self.dump[..count]);
        decode_block_at(self.level, golden_dtype, bytes.golden, &mut self.golden[..count]);
        let (dump_zeros, dump_special) = self.level.run(Census(&self.dump[..count]));
        let (golden_zeros, golden_special) = self.level.run(Census(&self.golden[..count]));
        self.dump_specials = Specials { zeros: dump_zeros, ..Specials::default() };
        self.golden_specials = Specials { zeros: golden_zeros, ..Specials::default() };
        if dump_special + golden_special > 0 {
            self.set_specials_aside();
        }
        self.take_errors(bytes);
        let padding = count..self.padded();
        for values in [&mut self.dump, &mut self.golden, &mut self.error] {
            values[padding.clone()].fill(0.0);
        }
    }

    /// Takes the distances, and counts the elements whose bits differ. Needs equal dtypes.
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
            self.level.run(Differences { dump, golden, error: &mut self.error[..count] });
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

    pub fn excluded(&self) -> &[(usize, Excluded)] {
        &self.excluded
    }

    /// Pairs set aside for a reason.
    fn count_excluded(&self, reason: Excluded) -> u64 {
        self.excluded.iter().filter(|(_, why)| *why == reason).count() as u64
    }

    /// Pairs set aside that fail.
    pub fn failing_excluded(&self, test: &Test) -> u64 {
        self.mismatched() + self.refused_nan(test)
    }

    /// Pairs where one side is NaN, +Inf, -Inf or finite and the other is not.
    pub fn mismatched(&self) -> u64 {
        self.count_excluded(Excluded::Mismatched) + self.count_excluded(Excluded::UnmatchedNan)
    }

    /// Pairs with a NaN that nothing matches: the other side has none there, or the rule takes no NaN as equal.
    pub fn unmatched_nan(&self, test: &Test) -> u64 {
        self.count_excluded(Excluded::UnmatchedNan) + self.refused_nan(test)
    }

    fn refused_nan(&self, test: &Test) -> u64 {
        if test.nan_equal || test.same_bits { 0 } else { self.count_excluded(Excluded::BothNan) }
    }

    /// The first pair that no number measures although it fails: mismatched, or NaN that the rule takes as equal to nothing.
    pub fn first_unmeasured(&self, bytes: &Bytes<'_>, test: &Test) -> Option<Peak> {
        let refuses_nan = !test.nan_equal && !test.same_bits;
        let (position, _) = self.excluded.iter().find(|(_, why)| match why {
            Excluded::Mismatched | Excluded::UnmatchedNan => true,
            Excluded::BothNan => refuses_nan,
            Excluded::EqualInfinities => false,
        })?;
        let (dump_bits, golden_bits) = bytes.bits(*position);
        let index = bytes.first + *position as u64;
        Some(Peak { index, dump_bits, golden_bits, error: None, exact: 0, fails: true })
    }

    /// The first element with the greatest error, if that is more than nothing. Its verdict is left open.
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

    /// Of 64-bit integers the exact difference, otherwise 0.
    pub fn exact(&self, position: usize, bytes: &Bytes<'_>) -> u64 {
        if is_wide(bytes.dump_dtype) { self.distance[position] } else { 0 }
    }

    /// A peak of this block with its verdict. Distances must be loaded unless only the tolerance decides.
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

/// Whether a later block with this greatest error can hold a greater peak. Of equal errors the first counts, but those of
/// wide integers are equal only as rounded numbers.
pub(super) fn may_exceed(peak: Option<Peak>, max_abs: f64, bytes: &Bytes<'_>) -> bool {
    let error = peak.and_then(|peak| peak.error).unwrap_or(0.0);
    max_abs > error || max_abs == error && is_wide(bytes.dump_dtype)
}

/// Integers that `f64` cannot hold.
pub(super) fn is_wide(dtype: DType) -> bool {
    matches!(dtype, DType::Int64 | DType::UInt64)
}

fn why(dump: f64, golden: f64) -> Excluded {
    if dump.is_nan() && golden.is_nan() {
        Excluded::BothNan
    } else if dump.is_nan() || golden.is_nan() {
        Excluded::UnmatchedNan
    } else if dump == golden {
        Excluded::EqualInfinities
    } else {
        Excluded::Mismatched
    }
}
