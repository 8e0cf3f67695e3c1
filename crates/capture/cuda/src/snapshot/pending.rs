//! Snapshots in their streams, until they are recorded.

use std::sync::Arc;

use tensortap_device_kernels::{Decision, RangeResult};
use tensortap_queue::{NumberMap, Range, RingSlice};
use tensortap_record::{ContentDigest, DType, DumpStage};
use tensortap_sync::SharedU64;

use super::{Snapshots, context::ContextResources, enqueue::SnapshotPlan, scratch::ScratchHold};
use crate::host_snapshot::SharedCommand;

/// Size of the ticket word before the results, with padding, in bytes.
pub const WORD_BYTES: u64 = 64;
/// Size of one result in bytes.
pub const RESULT_BYTES: u64 = size_of::<RangeResult>() as u64;

/// A snapshot in its stream: the device hashes the ranges of a command before or after it.
pub struct PendingSnapshot {
    /// The command.
    pub shared: Arc<SharedCommand>,
    /// Before or after the command.
    pub stage: DumpStage,
    /// The context.
    pub device: Arc<ContextResources>,
    /// Number of the stream.
    pub stream: u64,
    /// How the ranges are hashed.
    pub plan: Arc<SnapshotPlan>,
    /// By result slot, where new content is in the ring. None if it is not kept.
    pub kept: Vec<Option<RingSlot>>,
    /// Where the results are.
    pub room: RingSlice,
    /// The value of the ticket word when the results are complete.
    pub ticket: u64,
    /// The working memory.
    pub working: ScratchHold,
}

/// Result slots of ranges. Ranges with equal memory share a slot.
#[derive(Default)]
pub struct ResultSlots {
    /// For each range: its slot, its position among the arguments, and its type if known.
    of: Vec<(usize, u16, Option<DType>)>,
    /// For each slot, its first range.
    firsts: Vec<usize>,
}

impl ResultSlots {
    /// Assigns slots. If `are_shared` is true, ranges with equal memory share a slot.
    pub fn new(ranges: &[Range], are_shared: bool) -> ResultSlots {
        let mut slots =
            ResultSlots { of: Vec::with_capacity(ranges.len()), firsts: Vec::with_capacity(ranges.len()) };
        let mut known = MemoryIndex::new(are_shared, ranges.len());
        for (place, range) in ranges.iter().enumerate() {
            let new = slots.firsts.len();
            let slot = known.meet((range.base, range.bytes), new);
            // If the same memory has several types, only the first type shares a slot.
            let is_alike = slots.firsts.get(slot).is_none_or(|&first| ranges[first].dtype == range.dtype);
            let slot = if is_alike { slot } else { new };
            slots.of.push((slot, range.arg, range.dtype));
            if slot == new {
                slots.firsts.push(place);
            }
        }
        slots
    }

    /// For each slot, its first range.
    pub fn firsts(&self) -> &[usize] {
        &self.firsts
    }

    /// Positions of the arguments that share a slot.
    pub fn args(&self, slot: usize) -> impl Iterator<Item = u16> {
        let first = self.firsts[slot];
        self.of[first..].iter().filter(move |(own, ..)| *own == slot).map(|(_, arg, _)| *arg)
    }

    /// The slot of a range.
    pub fn of(&self, place: usize) -> usize {
        self.of[place].0
    }
}

/// Memory of ranges with the first slot of each. Few entries are compared one by one, which is faster than a
/// hash map.
enum MemoryIndex {
    Nothing,
    Few(Vec<((u64, u64), usize)>),
    Many(NumberMap<(u64, u64), usize>),
}

/// Up to this many ranges are few.
const FEW: usize = 32;

impl MemoryIndex {
    /// An index for this many ranges. If `are_shared` is false, it stays empty.
    fn new(are_shared: bool, count: usize) -> MemoryIndex {
        match count {
            _ if !are_shared => MemoryIndex::Nothing,
            ..=FEW => MemoryIndex::Few(Vec::with_capacity(count)),
            _ => MemoryIndex::Many(NumberMap::with_capacity_and_hasher(count, Default::default())),
        }
    }

    /// The first slot of this memory. If the memory is new, its slot is `new`.
    fn meet(&mut self, memory: (u64, u64), new: usize) -> usize {
        match self {
            MemoryIndex::Nothing => new,
            MemoryIndex::Few(met) => match met.iter().find(|(known, _)| *known == memory) {
                Some((_, first)) => *first,
                None => met.push_mut((memory, new)).1,
            },
            MemoryIndex::Many(met) => *met.entry(memory).or_insert(new),
        }
    }
}

/// Content in the ring.
#[derive(Clone, Copy, Debug)]
pub struct RingSlot {
    /// Its slice of the ring.
    pub slice: RingSlice,
    /// Its device address.
    pub address: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Tells whether a snapshot is complete.
#[derive(Clone, Copy)]
pub struct SnapshotTicket {
    /// Address of the ticket word.
    pub start: usize,
    /// The value of the ticket word when the snapshot is complete.
    pub ticket: u64,
}

impl SnapshotTicket {
    /// Whether the snapshot is complete. The word may also belong to a later snapshot by now; then this
    /// returns false and the command is over.
    pub fn is_over(&self) -> bool {
        word_at(self.start).see() == self.ticket
    }
}

/// The ticket word at the start of results.
pub fn word_at(address: usize) -> &'static SharedU64 {
    let word = std::ptr::with_exposed_provenance::<SharedU64>(address);
    // SAFETY: the memory is in the result pool, which lives until the process ends. Slices start at multiples
    // of 256.
    unsafe { &*word }
}

impl PendingSnapshot {
    fn start(&self, snapshots: &Snapshots) -> Option<usize> {
        Some(snapshots.findings()?.start_of(self.room))
    }

    /// Whether the stream has come that far.
    pub fn is_complete(&self, snapshots: &Snapshots) -> bool {
        self.start(snapshots).is_none_or(|start| word_at(start).see() == self.ticket)
    }

    /// The result of each range. The snapshot must be complete.
    pub fn findings(&self, snapshots: &Snapshots) -> Vec<(ContentDigest, Decision)> {
        let Some(start) = self.start(snapshots) else { return Vec::new() };
        let results = std::ptr::with_exposed_provenance::<RangeResult>(
            start + usize::try_from(WORD_BYTES).unwrap_or(0),
        );
        let of = |&(slot, _, dtype): &(usize, u16, Option<DType>)| {
            // SAFETY: the device has written these results before the ticket word, and never writes them
            // again.
            let (result, decision_word) = unsafe {
                let decision_word = results.add(self.plan.slots.firsts.len()).cast::<u32>();
                (results.add(slot).read(), decision_word.add(slot).read())
            };
            let outcome = result.outcome(dtype.filter(|_| self.plan.is_measured));
            let decision = match self.device.stored {
                Some(_) => Decision::from_word(decision_word).unwrap_or(Decision::Undecided),
                None => Decision::NewUnkept,
            };
            (ContentDigest { hash: outcome.hash, stats: outcome.stats }, decision)
        };
        self.plan.slots.of.iter().map(of).collect()
    }

    /// The ranges that share a slot.
    pub fn ranges_of(&self, slot: usize) -> impl Iterator<Item = usize> {
        let slots = &self.plan.slots;
        (slots.firsts[slot]..slots.of.len()).filter(move |&place| slots.of(place) == slot)
    }

    /// Frees the working memory and the results. The ring still has content.
    pub fn give_back(&self, snapshots: &Snapshots) {
        self.working.is_over();
        if let Some(pool) = snapshots.findings() {
            pool.free([self.room]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(base: u64, bytes: u64, dtype: Option<DType>) -> Range {
        Range::dense((base, bytes), 0, bytes, dtype)
    }

    #[test]
    fn equal_memory_shares_a_slot_and_overlapping_memory_does_not() {
        let float = Some(DType::Float32);
        let ranges = [
            range(64, 8, None),
            range(64, 16, None),
            range(64, 8, float),
            range(64, 8, None),
            range(72, 8, None),
            range(64, 8, float),
        ];
        let slots = ResultSlots::new(&ranges, true);
        assert_eq!((0..6).map(|place| slots.of(place)).collect::<Vec<_>>(), [0, 1, 2, 0, 3, 4]);
        assert_eq!(slots.firsts(), [0, 1, 2, 4, 5]);
        let apart = ResultSlots::new(&ranges, false);
        assert_eq!((0..6).map(|place| apart.of(place)).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    }
}
