//! A table of where records lie: small, because there may be millions.

use std::collections::HashMap;

use tensortap_abi::SLOTS_PER_TASK;

use crate::{IndexRecord, Record};

/// Where a record lies, and what its own bytes do not say.
pub(super) struct Entry {
    pub(super) at: u64,
    thread: u32,
    /// Position in `Entries::kernels`.
    kernels: u32,
}

/// Every record of a dump, in order.
#[derive(Default)]
pub(super) struct Entries {
    entries: Vec<Entry>,
    kernels: KernelSets,
}

impl Entries {
    pub(super) fn push(&mut self, at: u64, thread: u32, kernels: [u32; SLOTS_PER_TASK]) {
        let kernels = self.kernels.number(kernels);
        self.entries.push(Entry { at, thread, kernels });
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, place: usize) -> Option<&Entry> {
        self.entries.get(place)
    }

    /// The record that the bytes at an entry hold.
    pub(super) fn decode(&self, place: usize, entry: &Entry, bytes: &[u8]) -> Result<Record, &'static str> {
        let mut record = IndexRecord::scratch();
        record.decode_from(bytes)?;
        let kernels = self.kernels.sets[entry.kernels as usize];
        Record::new(place as u64, entry.thread, kernels, &record).ok_or("the record became another")
    }

    /// Gives back what growing took beyond need.
    pub(super) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
        self.kernels.numbers = HashMap::new();
    }
}

/// Numbers for sets of kernels; there are few, however many tasks there are.
#[derive(Default)]
struct KernelSets {
    sets: Vec<[u32; SLOTS_PER_TASK]>,
    numbers: HashMap<[u32; SLOTS_PER_TASK], u32>,
    /// Records of one task follow one another.
    last: Option<([u32; SLOTS_PER_TASK], u32)>,
}

impl KernelSets {
    fn number(&mut self, set: [u32; SLOTS_PER_TASK]) -> u32 {
        if let Some((last, number)) = self.last
            && last == set
        {
            return number;
        }
        let number = *self.numbers.entry(set).or_insert_with(|| {
            self.sets.push(set);
            u32::try_from(self.sets.len() - 1).expect("an index of 2^32 tasks does not fit in memory")
        });
        self.last = Some((set, number));
        number
    }
}
