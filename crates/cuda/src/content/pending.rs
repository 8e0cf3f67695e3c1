//! What devices have been asked to look at, until it is recorded.

use std::sync::Arc;

use tensortap_device_kernels::{Decision, RangeResult};
use tensortap_queue::{ByNumber, Range, Room};
use tensortap_record::{DType, DumpStage, Found};
use tensortap_sync::SharedU64;

use super::{Contents, device::Device, scratch::Working, side::Sight};
use crate::probe::Shared;

/// Bytes before the findings: the word that says that they are there.
pub const WORD_BYTES: u64 = 64;
/// Bytes of one finding.
pub const RESULT_BYTES: u64 = size_of::<RangeResult>() as u64;

/// A side of a command that is in its stream: the device looks at what the command is given, or has left.
pub struct Pending {
    /// The command.
    pub shared: Arc<Shared>,
    /// Which side of it.
    pub stage: DumpStage,
    /// The device.
    pub device: Arc<Device>,
    /// The stream, by a number that no other has.
    pub line: u64,
    /// How it is looked at; not at all where there is none.
    pub sight: Arc<Sight>,
    /// By findings, where new content lies in the ring; none where it is not kept.
    pub kept: Vec<Option<InRing>>,
    /// Where its findings are; none where there are none.
    pub room: Option<Room>,
    /// The word that says so.
    pub ticket: u64,
    /// What it works in.
    pub working: Working,
}

/// Ranges by the memory they are: what is given by several pointers is looked at once.
#[derive(Default)]
pub struct Slots {
    /// Of each range, its finding, its position among the arguments, and its type as far as that is known.
    of: Vec<(usize, u16, Option<DType>)>,
    /// Of each finding, the first range that it is of.
    firsts: Vec<usize>,
}

impl Slots {
    /// All of them apart, or those together that are the same memory.
    pub fn new(ranges: &[Range], are_shared: bool) -> Slots {
        let mut slots =
            Slots { of: Vec::with_capacity(ranges.len()), firsts: Vec::with_capacity(ranges.len()) };
        let mut known = Met::new(are_shared, ranges.len());
        for (place, range) in ranges.iter().enumerate() {
            let new = slots.firsts.len();
            let slot = known.meet((range.base, range.bytes), new);
            // Of the same memory as different types, all but the first have findings of their own.
            let is_alike = slots.firsts.get(slot).is_none_or(|&first| ranges[first].dtype == range.dtype);
            let slot = if is_alike { slot } else { new };
            slots.of.push((slot, range.arg, range.dtype));
            if slot == new {
                slots.firsts.push(place);
            }
        }
        slots
    }

    /// Of each finding, the first range that it is of.
    pub fn firsts(&self) -> &[usize] {
        &self.firsts
    }

    /// Positions of the arguments that a finding is of.
    pub fn args(&self, slot: usize) -> impl Iterator<Item = u16> {
        let first = self.firsts[slot];
        self.of[first..].iter().filter(move |(own, ..)| *own == slot).map(|(_, arg, _)| *arg)
    }

    /// The finding of a range.
    pub fn of(&self, place: usize) -> usize {
        self.of[place].0
    }
}

/// Memory that ranges are, with the first finding of each. Few are compared one by one, which is faster than any table.
enum Met {
    Nothing,
    Few(Vec<((u64, u64), usize)>),
    Many(ByNumber<(u64, u64), usize>),
}

/// Ranges that are few.
const FEW: usize = 32;

impl Met {
    /// For so many ranges; `are_shared` where the same memory has one finding.
    fn new(are_shared: bool, count: usize) -> Met {
        match count {
            _ if !are_shared => Met::Nothing,
            ..=FEW => Met::Few(Vec::with_capacity(count)),
            _ => Met::Many(ByNumber::with_capacity_and_hasher(count, Default::default())),
        }
    }

    /// The first finding of a memory; `new` where it was not met.
    fn meet(&mut self, memory: (u64, u64), new: usize) -> usize {
        match self {
            Met::Nothing => new,
            Met::Few(met) => match met.iter().find(|(known, _)| *known == memory) {
                Some((_, first)) => *first,
                None => met.push_mut((memory, new)).1,
            },
            Met::Many(met) => *met.entry(memory).or_insert(new),
        }
    }
}

/// Content in the ring.
#[derive(Clone, Copy, Debug)]
pub struct InRing {
    /// What it has of the ring.
    pub room: Room,
    /// Its address.
    pub at: u64,
    /// Its size.
    pub bytes: u64,
}

/// What says that a side was seen.
#[derive(Clone, Copy)]
pub struct Seen {
    /// Where its findings are.
    pub start: usize,
    /// What stands there then.
    pub ticket: u64,
}

impl Seen {
    /// Whether it was, or whether its word is another's by now.
    pub fn is_over(&self) -> bool {
        word_at(self.start).see() == self.ticket
    }
}

/// The word that lies at the beginning of findings.
pub fn word_at(address: usize) -> &'static SharedU64 {
    let word = std::ptr::with_exposed_provenance::<SharedU64>(address);
    // SAFETY: memory of the findings' pool, which is there until the process ends; rooms begin at multiples of 256.
    unsafe { &*word }
}

impl Pending {
    /// The end of a command of which nothing is looked at behind it.
    pub fn end(device: &Arc<Device>, line: u64, shared: &Arc<Shared>) -> Pending {
        Pending {
            shared: Arc::clone(shared),
            stage: DumpStage::AfterCompletion,
            device: Arc::clone(device),
            line,
            sight: Arc::default(),
            kept: Vec::new(),
            room: None,
            ticket: 0,
            working: Working::default(),
        }
    }

    fn start(&self, contents: &Contents) -> Option<usize> {
        Some(contents.findings()?.start_of(self.room?))
    }

    /// Whether the stream has come so far.
    pub fn is_seen(&self, contents: &Contents) -> bool {
        self.start(contents).is_none_or(|start| word_at(start).see() == self.ticket)
    }

    /// What was found of each range, now that it was seen.
    pub fn findings(&self, contents: &Contents) -> Vec<(Found, Decision)> {
        let Some(start) = self.start(contents) else { return Vec::new() };
        let results = std::ptr::with_exposed_provenance::<RangeResult>(
            start + usize::try_from(WORD_BYTES).unwrap_or(0),
        );
        let of = |&(slot, _, dtype): &(usize, u16, Option<DType>)| {
            // SAFETY: the device has written as many behind the word, and writes them no more.
            let (result, told) = unsafe {
                let told = results.add(self.sight.slots.firsts.len()).cast::<u32>();
                (results.add(slot).read(), told.add(slot).read())
            };
            let outcome = result.outcome(dtype.filter(|_| self.sight.is_measured));
            let decision = match self.device.stored {
                Some(_) => Decision::from_word(told).unwrap_or(Decision::Undecided),
                None => Decision::NewUnkept,
            };
            (Found { hash: outcome.hash, stats: outcome.stats }, decision)
        };
        self.sight.slots.of.iter().map(of).collect()
    }

    /// The ranges that a finding is of.
    pub fn ranges_of(&self, slot: usize) -> impl Iterator<Item = usize> {
        let slots = &self.sight.slots;
        (slots.firsts[slot]..slots.of.len()).filter(move |&place| slots.of(place) == slot)
    }

    /// Gives back what it worked in. Not the ring: that has content yet.
    pub fn give_back(&self, contents: &Contents) {
        self.working.is_over();
        if let Some(pool) = contents.findings() {
            pool.give(self.room);
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
    fn the_same_memory_has_one_finding_and_what_only_overlaps_its_own() {
        let float = Some(DType::Float32);
        let ranges = [
            range(64, 8, None),
            range(64, 16, None),
            range(64, 8, float),
            range(64, 8, None),
            range(72, 8, None),
            range(64, 8, float),
        ];
        let slots = Slots::new(&ranges, true);
        assert_eq!((0..6).map(|place| slots.of(place)).collect::<Vec<_>>(), [0, 1, 2, 0, 3, 4]);
        assert_eq!(slots.firsts(), [0, 1, 2, 4, 5]);
        let apart = Slots::new(&ranges, false);
        assert_eq!((0..6).map(|place| apart.of(place)).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    }
}
