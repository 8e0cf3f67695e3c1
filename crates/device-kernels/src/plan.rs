//! The ranges of one launch: which work group has what, and how much memory they leave their findings in.

use tensortap_abi::DType;
use tensortap_values::LEAF_BYTES;

use crate::layout::{FEW, MANY, Part, Range, RangeResult};

/// Leaves of a bundle: their hashes are one block of the root.
const BUNDLE_LEAVES: u64 = 64;
/// Content of a work group.
pub const BUNDLE_BYTES: u64 = BUNDLE_LEAVES * LEAF_BYTES as u64;
/// Groups that share a bundle where a launch of CUDA has little content.
pub const SPREAD: u32 = 4;
/// A launch of more bundles fills every device by itself, and is faster with a bundle for each group.
const SPREAD_BUNDLES: u32 = 128;
/// A launch of many ranges has no more: 4 GiB of content.
const MANY_BUNDLES: u32 = 1 << 14;
/// Buffers of an OpenCL launch. A kernel cannot take addresses of buffers from a table, so each is an argument; eight are
/// more than most launches are given, and cost eight calls to set.
pub const BUFFERS: usize = 8;
/// The greatest range: the device counts the bytes of leaf hashes in 32 bits.
pub const MAX_RANGE_BYTES: u64 = ((1 << 28) - 1) * LEAF_BYTES as u64;
/// As many groups as every driver launches.
const MAX_BUNDLES: u64 = i32::MAX as u64;

/// A range to be hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The buffer it lies in, by any number of the driver's; not used where ranges go by address.
    pub buffer: u64,
    /// Its address, or its offset in the buffer.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Statistics to be taken as well.
    pub measured: Option<Measured>,
}

/// What the bytes of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Type of its elements.
    pub dtype: DType,
    /// How many there are: all that fit, or one less if elements have four bits.
    pub elements: u64,
}

impl Measured {
    /// All elements of this dtype that fit into so many bytes.
    #[must_use]
    pub fn whole(dtype: DType, bytes: u64) -> Measured {
        Measured { dtype, elements: fitting(dtype, bytes) }
    }
}

/// Why ranges cannot be planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// One is larger than a kernel can count.
    #[error("range {place} has {bytes} bytes, more than {MAX_RANGE_BYTES}; hash less of it")]
    TooLarge {
        /// Its place among the ranges.
        place: usize,
        /// Its size.
        bytes: u64,
    },
    /// Together they are more than one launch can have.
    #[error("the ranges are more than one launch can have; use several")]
    TooMany,
    /// The number of elements does not fit the size.
    #[error("range {place} of {bytes} bytes cannot have {elements} elements of {dtype}")]
    Elements {
        /// Its place among the ranges.
        place: usize,
        /// Its size.
        bytes: u64,
        /// Elements it should have.
        elements: u64,
        /// Their type.
        dtype: DType,
    },
}

/// Bytes of device memory that one launch leaves its findings in. Two launches at a time must not share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scratch {
    /// Hashes of leaves.
    pub leaf_hashes: u64,
    /// What bundles add to their root.
    pub sums: u64,
    /// Statistics of bundles.
    pub parts: u64,
    /// Who has arrived where, for builds that [chain roots](crate::Build::chains_roots): zeros before the first launch, and again after
    /// each. All else need not be cleared.
    pub gates: u64,
}

/// The kernels that hash, of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashing {
    /// [`HASH_LEAVES`](crate::HASH_LEAVES).
    Bundles,
    /// [`HASH_SPREAD`](crate::HASH_SPREAD).
    Spread,
    /// [`HASH_MANY`](crate::HASH_MANY).
    Many,
    /// [`MEASURE_LEAVES`](crate::MEASURE_LEAVES).
    Measured,
}

/// One launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    ranges: Vec<Range>,
    buffers: Vec<u64>,
    bundles: u32,
    measures: bool,
}

impl Plan {
    /// One launch for all ranges, which go by address. Results stand in the order of `sources`.
    pub fn by_address(sources: &[Source]) -> Result<Plan, PlanError> {
        let mut plan = Plan::empty();
        for (place, source) in sources.iter().enumerate() {
            plan.push(place, source, 0)?;
        }
        Ok(plan)
    }

    /// Launches of at most [`BUFFERS`] buffers each. Results of all of them stand in the order of `sources`.
    pub fn by_buffer(sources: &[Source]) -> Result<Vec<Plan>, PlanError> {
        let mut plans: Vec<Plan> = Vec::new();
        for (place, source) in sources.iter().enumerate() {
            let fits = |plan: &Plan| plan.buffers.len() < BUFFERS || plan.buffers.contains(&source.buffer);
            let plan = match plans.iter().position(fits) {
                Some(at) => &mut plans[at],
                None => plans.push_mut(Plan::empty()),
            };
            let buffer = plan.argument_of(source.buffer);
            plan.push(place, source, buffer)?;
        }
        Ok(plans)
    }

    fn empty() -> Plan {
        Plan { ranges: Vec::new(), buffers: Vec::new(), bundles: 0, measures: false }
    }

    fn argument_of(&mut self, buffer: u64) -> u32 {
        let known = self.buffers.iter().position(|known| *known == buffer);
        let place = known.unwrap_or_else(|| {
            self.buffers.push(buffer);
            self.buffers.len() - 1
        });
        u32::try_from(place).unwrap_or_else(|_| unreachable!("at most {BUFFERS} buffers"))
    }

    fn push(&mut self, place: usize, source: &Source, buffer: u32) -> Result<(), PlanError> {
        let &Source { buffer: _, address, bytes, measured } = source;
        if bytes > MAX_RANGE_BYTES {
            return Err(PlanError::TooLarge { place, bytes });
        }
        let (dtype, missing) = match measured {
            Some(Measured { dtype, elements }) => {
                let missing = missing_of(dtype, bytes, elements);
                let missing = missing.ok_or(PlanError::Elements { place, bytes, elements, dtype })?;
                (dtype.tag().into(), missing)
            }
            None => (0, 0),
        };
        let slot = u32::try_from(place).map_err(|_| PlanError::TooMany)?;
        let bundles = u64::from(self.bundles) + bundles_of(bytes);
        let bundles = u32::try_from(bundles).ok().filter(|count| u64::from(*count) <= MAX_BUNDLES);
        let first_bundle = std::mem::replace(&mut self.bundles, bundles.ok_or(PlanError::TooMany)?);
        self.ranges.push(Range { address, bytes, buffer, first_bundle, dtype, missing, slot, decided: 0 });
        self.measures |= dtype != 0;
        Ok(())
    }

    /// The table of ranges.
    #[must_use]
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// Buffers of the launch, in the order of its arguments. Those that are left take none.
    #[must_use]
    pub fn buffers(&self) -> &[u64] {
        &self.buffers
    }

    /// Work groups for the leaves.
    #[must_use]
    pub fn bundles(&self) -> u32 {
        self.bundles
    }

    /// The kernel that a launch of CUDA has, and its work groups. Of more than [`FEW`] ranges all but [`Hashing::Many`] need a table.
    #[must_use]
    pub fn hashing(&self) -> (Hashing, u32) {
        match self.ranges.len() {
            _ if self.measures => (Hashing::Measured, self.bundles),
            ..=FEW if self.bundles <= SPREAD_BUNDLES => (Hashing::Spread, self.bundles * SPREAD),
            ..=FEW => (Hashing::Bundles, self.bundles),
            // One launch of many ranges is faster than several of few, also where those would have much content.
            ..=MANY if self.bundles <= MANY_BUNDLES => (Hashing::Many, self.bundles * SPREAD),
            _ => (Hashing::Bundles, self.bundles),
        }
    }

    /// Work groups for the decisions.
    #[must_use]
    pub fn decide_groups(&self, build: &crate::Build) -> usize {
        self.ranges.len().div_ceil(build.group as usize)
    }

    /// Whether statistics are taken of any range.
    #[must_use]
    pub fn measures(&self) -> bool {
        self.measures
    }

    /// Device memory that the launch needs.
    #[must_use]
    pub fn scratch(&self) -> Scratch {
        let bundles = u64::from(self.bundles);
        Scratch {
            leaf_hashes: bundles * BUNDLE_LEAVES * size_of::<[u64; 2]>() as u64,
            sums: bundles * size_of::<[u64; 8]>() as u64 * u64::from(SPREAD),
            parts: bundles * size_of::<Part>() as u64,
            gates: bundles * size_of::<u32>() as u64,
        }
    }

    /// The results from what the leaves left, on the host: hashes of leaves, low half first, and parts of bundles if the plan
    /// [`measures`](Plan::measures). In the order of [`ranges`](Plan::ranges), `None` where what is given ends too early.
    #[must_use]
    pub fn finish(&self, leaf_hashes: &[[u64; 2]], parts: &[Part]) -> Vec<Option<RangeResult>> {
        self.ranges.iter().map(|range| finish_range(range, leaf_hashes, parts)).collect()
    }
}

fn finish_range(range: &Range, leaf_hashes: &[[u64; 2]], parts: &[Part]) -> Option<RangeResult> {
    let first = range.first_bundle as usize;
    let leaves = usize::try_from(leaves_of(range.bytes)).ok()?;
    let first_leaf = usize::try_from(u64::from(range.first_bundle) * BUNDLE_LEAVES).ok()?;
    let hashes = leaf_hashes.get(first_leaf..)?.get(..leaves)?;
    let hash = crate::result::root(range.bytes, hashes);
    let mut part = Part::NOTHING;
    if range.dtype != 0 {
        let bundles = usize::try_from(bundles_of(range.bytes)).ok()?;
        parts.get(first..)?.get(..bundles)?.iter().for_each(|other| part.merge(other));
    }
    Some(RangeResult { hash, part })
}

/// Leaves of a range; one that is empty has one.
fn leaves_of(bytes: u64) -> u64 {
    bytes.div_ceil(LEAF_BYTES as u64).max(1)
}

fn bundles_of(bytes: u64) -> u64 {
    leaves_of(bytes).div_ceil(BUNDLE_LEAVES)
}

fn fitting(dtype: DType, bytes: u64) -> u64 {
    if dtype.bits() == 4 { bytes.saturating_mul(2) } else { bytes / u64::from(dtype.bits() / 8) }
}

/// Elements that fit and are none; `None` if that cannot be.
fn missing_of(dtype: DType, bytes: u64, elements: u64) -> Option<u32> {
    match fitting(dtype, bytes).checked_sub(elements)? {
        0 => Some(0),
        1 if dtype.bits() == 4 => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(buffer: u64, bytes: u64) -> Source {
        Source { buffer, address: 64, bytes, measured: None }
    }

    #[test]
    fn a_range_has_as_many_groups_as_bundles() {
        let sizes = [0, 1, BUNDLE_BYTES, BUNDLE_BYTES + 1, 4096];
        let plan = Plan::by_address(&sizes.map(|bytes| source(0, bytes))).unwrap();
        let first: Vec<u32> = plan.ranges().iter().map(|range| range.first_bundle).collect();
        assert_eq!((first.as_slice(), plan.bundles()), (&[0, 1, 2, 3, 5][..], 6));
        assert_eq!(
            plan.scratch(),
            Scratch { leaf_hashes: 6 * 1024, sums: 6 * 256, parts: 6 * 64, gates: 6 * 4 }
        );
        assert!(!plan.measures());
    }

    #[test]
    fn more_buffers_than_arguments_take_another_launch() {
        let sources: Vec<Source> =
            [0, 1, 2, 3, 0, 4, 5, 6, 7, 8, 3, 9].map(|buffer| source(buffer, 10)).into();
        let plans = Plan::by_buffer(&sources).unwrap();
        let slots = |plan: &Plan| plan.ranges().iter().map(|range| range.slot).collect::<Vec<_>>();
        assert_eq!(plans.len(), 2);
        assert_eq!(plans[0].buffers(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(
            (slots(&plans[0]), slots(&plans[1])),
            ([0, 1, 2, 3, 4, 5, 6, 7, 8, 10].into(), [9, 11].into())
        );
        assert_eq!(plans[1].ranges()[1].buffer, 1);
    }

    #[test]
    fn what_no_kernel_can_count_is_refused() {
        let too_large = Plan::by_address(&[source(0, 1), source(0, MAX_RANGE_BYTES + 1)]);
        assert_eq!(too_large, Err(PlanError::TooLarge { place: 1, bytes: MAX_RANGE_BYTES + 1 }));
        assert_eq!(Plan::by_address(&vec![source(0, MAX_RANGE_BYTES); 600]), Err(PlanError::TooMany));
    }

    #[test]
    fn elements_must_fit_the_bytes() {
        let elements = |dtype, bytes, elements| {
            let measured = Some(Measured { dtype, elements });
            Plan::by_address(&[Source { buffer: 0, address: 0, bytes, measured }])
                .map(|plan| plan.ranges()[0].missing)
        };
        assert_eq!(elements(DType::Int4, 3, 6), Ok(0));
        assert_eq!(elements(DType::Int4, 3, 5), Ok(1));
        assert_eq!(elements(DType::Float32, 7, 1), Ok(0), "bytes that are no element are hashed alone");
        for (dtype, bytes, count) in [(DType::Int4, 3, 4), (DType::Int4, 3, 7), (DType::Float32, 8, 1)] {
            assert!(matches!(elements(dtype, bytes, count), Err(PlanError::Elements { .. })));
        }
    }
}
