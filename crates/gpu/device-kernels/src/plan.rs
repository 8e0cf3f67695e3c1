//! Plans a launch: assigns ranges to work groups and computes the sizes of scratch memory.

use tensortap_abi::DType;
use tensortap_values::LEAF_BYTES;

use crate::layout::{FEW_RANGES, MANY_RANGES, Part, Range, RangeResult};

/// Leaves per bundle. Their hashes are one block of the root.
const BUNDLE_LEAVES: u64 = 64;
/// Bytes per bundle, which one work group processes.
pub const BUNDLE_BYTES: u64 = BUNDLE_LEAVES * LEAF_BYTES as u64;
/// Groups per bundle in a CUDA launch with little content.
pub const SPREAD: u32 = 4;
/// Limit on bundles for sharing. A launch with more bundles fills every device and is faster with one group
/// per bundle.
const SPREAD_BUNDLES: u32 = 128;
/// Limit on bundles in a launch of many ranges: 4 GiB of content.
const MANY_BUNDLES: u32 = 1 << 14;
/// Buffers per OpenCL launch. A kernel cannot read buffer addresses from a table, so each buffer is an
/// argument. Most launches have fewer than eight, and each costs a call.
pub const BUFFERS: usize = 8;
/// Limit on the size of a range: the device counts the bytes of leaf hashes in 32 bits.
pub const MAX_RANGE_BYTES: u64 = ((1 << 28) - 1) * LEAF_BYTES as u64;
/// Limit on groups that every driver supports.
const MAX_BUNDLES: u64 = i32::MAX as u64;

/// A range to hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The driver's number of its buffer; not used for ranges by address.
    pub buffer: u64,
    /// Its address, or its offset in the buffer.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Statistics to compute, if any.
    pub measured: Option<RangeElements>,
}

/// Element type and count of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeElements {
    /// Type of its elements, one that [the device measures](measured_as).
    pub dtype: DType,
    /// Number of elements: all that fit, or one less for 4-bit elements.
    pub elements: u64,
}

impl RangeElements {
    /// All elements of this dtype that fit into this many bytes; `None` if the device cannot measure the dtype.
    #[must_use]
    pub fn whole(dtype: DType, bytes: u64) -> Option<RangeElements> {
        let dtype = measured_as(dtype)?;
        Some(RangeElements { dtype, elements: fitting(dtype, bytes) })
    }
}

/// The dtype as which the device measures elements: complex numbers are measured as their parts. `None` for the
/// 8-bit floats that the device code does not decode: their ranges are hashed without statistics.
#[must_use]
pub fn measured_as(dtype: DType) -> Option<DType> {
    Some(dtype.part()).filter(|part| part.tag() <= DType::Bool.tag())
}

/// Why ranges cannot be planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A range is too large.
    #[error("range {place} has {bytes} bytes, more than the limit of {MAX_RANGE_BYTES}; split it")]
    TooLarge {
        /// Index of the range.
        place: usize,
        /// Its size.
        bytes: u64,
    },
    /// The ranges together are too large for one launch.
    #[error("the ranges are too large for one launch; use several launches")]
    TooMany,
    /// The number of elements does not fit the size.
    #[error("range {place} of {bytes} bytes cannot have {elements} elements of {dtype}")]
    Elements {
        /// Index of the range.
        place: usize,
        /// Its size.
        bytes: u64,
        /// The requested number of elements.
        elements: u64,
        /// Their type.
        dtype: DType,
    },
}

/// Sizes of a launch's scratch memory in bytes. Concurrent launches must not share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scratch {
    /// Hashes of leaves.
    pub leaf_hashes: u64,
    /// Contributions of bundles to their root.
    pub sums: u64,
    /// Statistics of bundles.
    pub parts: u64,
    /// Counters for builds that [chain roots](crate::Build::chains_roots): zero before the first launch and
    /// after each launch. Other scratch memory need not be cleared.
    pub gates: u64,
}

/// The hashing kernels of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashKernel {
    /// [`HASH_LEAVES`](crate::HASH_LEAVES).
    Bundles,
    /// [`HASH_SPREAD`](crate::HASH_SPREAD).
    Spread,
    /// [`HASH_MANY`](crate::HASH_MANY).
    Many,
    /// [`MEASURE_LEAVES`](crate::MEASURE_LEAVES).
    Measured,
}

/// The plan of one launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    ranges: Vec<Range>,
    buffers: Vec<u64>,
    bundles: u32,
    measures: bool,
}

impl Plan {
    /// Plans one launch for ranges by address. Results are in the order of `sources`.
    pub fn by_address(sources: &[Source]) -> Result<Plan, PlanError> {
        let mut plan = Plan::empty();
        for (place, source) in sources.iter().enumerate() {
            plan.push(place, source, 0)?;
        }
        Ok(plan)
    }

    /// Plans launches of at most [`BUFFERS`] buffers each. The results of all launches together are in the
    /// order of `sources`.
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
            Some(RangeElements { dtype, elements }) => {
                let missing = measured_as(dtype).filter(|part| *part == dtype);
                let missing = missing.and_then(|dtype| missing_of(dtype, bytes, elements));
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

    /// Buffers of the launch, in argument order. Remaining arguments get no buffer.
    #[must_use]
    pub fn buffers(&self) -> &[u64] {
        &self.buffers
    }

    /// Number of bundles, which is the number of work groups for leaves.
    #[must_use]
    pub fn bundles(&self) -> u32 {
        self.bundles
    }

    /// The kernel and the number of work groups of a CUDA launch. With more than [`FEW_RANGES`] ranges, all
    /// kernels except [`HashKernel::Many`] need a table.
    #[must_use]
    pub fn hash_kernel(&self) -> (HashKernel, u32) {
        match self.ranges.len() {
            _ if self.measures => (HashKernel::Measured, self.bundles),
            ..=FEW_RANGES if self.bundles <= SPREAD_BUNDLES => (HashKernel::Spread, self.bundles * SPREAD),
            ..=FEW_RANGES => (HashKernel::Bundles, self.bundles),
            // One launch of many ranges is faster than several launches of few ranges, even with much
            // content.
            ..=MANY_RANGES if self.bundles <= MANY_BUNDLES => (HashKernel::Many, self.bundles * SPREAD),
            _ => (HashKernel::Bundles, self.bundles),
        }
    }

    /// Number of work groups for decisions.
    #[must_use]
    pub fn decide_groups(&self, build: &crate::Build) -> usize {
        self.ranges.len().div_ceil(build.group as usize)
    }

    /// Whether it computes statistics of any range.
    #[must_use]
    pub fn measures(&self) -> bool {
        self.measures
    }

    /// Sizes of the scratch memory.
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

    /// Computes the results on the host from the results of leaves: their hashes, low half first, and the
    /// parts of bundles if the plan [`measures`](Plan::measures). Results are in the order of
    /// [`ranges`](Plan::ranges); `None` if the input is too short.
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

/// Number of leaves of a range. An empty range has one.
fn leaves_of(bytes: u64) -> u64 {
    bytes.div_ceil(LEAF_BYTES as u64).max(1)
}

fn bundles_of(bytes: u64) -> u64 {
    leaves_of(bytes).div_ceil(BUNDLE_LEAVES)
}

fn fitting(dtype: DType, bytes: u64) -> u64 {
    if dtype.bits() == 4 { bytes.saturating_mul(2) } else { bytes / u64::from(dtype.bits() / 8) }
}

/// Number of missing elements; `None` if the number is impossible.
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
    fn a_range_gets_one_group_per_bundle() {
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
    fn splits_ranges_of_too_many_buffers_into_launches() {
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
    fn refuses_ranges_that_are_too_large() {
        let too_large = Plan::by_address(&[source(0, 1), source(0, MAX_RANGE_BYTES + 1)]);
        assert_eq!(too_large, Err(PlanError::TooLarge { place: 1, bytes: MAX_RANGE_BYTES + 1 }));
        assert_eq!(Plan::by_address(&vec![source(0, MAX_RANGE_BYTES); 600]), Err(PlanError::TooMany));
    }

    #[test]
    fn refuses_element_counts_that_do_not_fit_the_size() {
        let elements = |dtype, bytes, elements| {
            let measured = Some(RangeElements { dtype, elements });
            Plan::by_address(&[Source { buffer: 0, address: 0, bytes, measured }])
                .map(|plan| plan.ranges()[0].missing)
        };
        assert_eq!(elements(DType::Int4, 3, 6), Ok(0));
        assert_eq!(elements(DType::Int4, 3, 5), Ok(1));
        assert_eq!(elements(DType::Float32, 7, 1), Ok(0), "trailing bytes are hashed without statistics");
        for (dtype, bytes, count) in [(DType::Int4, 3, 4), (DType::Int4, 3, 7), (DType::Float32, 8, 1)] {
            assert!(matches!(elements(dtype, bytes, count), Err(PlanError::Elements { .. })));
        }
    }
}
