//! A table of where records lie: small, because there may be millions.

/// Bits of an entry that say where the record lies; the others say which of the lanes recorded it.
const PLACE_BITS: u32 = 48;

/// Every record of a dump, in order: 8 bytes each.
#[derive(Default)]
pub(super) struct Entries {
    packed: Vec<u64>,
    lanes: Vec<u32>,
}

/// Where a record lies, and which lane recorded it.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) at: u64,
    pub(super) lane: u32,
}

impl Entries {
    /// Whether there was room: neither does an index have 2^48 bytes, nor a dump more than 65,536 lanes.
    #[must_use]
    pub(super) fn push(&mut self, at: u64, lane: u32) -> bool {
        // Frames are long: the lane is almost always that of the record before.
        let last = self.packed.last().map(|&packed| number(packed));
        let same = last.filter(|&last| self.lanes.get(last) == Some(&lane));
        let place =
            same.or_else(|| self.lanes.iter().position(|&known| known == lane)).unwrap_or_else(|| {
                self.lanes.push(lane);
                self.lanes.len() - 1
            });
        let fits = place < 1 << (u64::BITS - PLACE_BITS) && at < 1 << PLACE_BITS;
        if fits {
            self.packed.push((place as u64) << PLACE_BITS | at);
        }
        fits
    }

    pub(super) fn len(&self) -> usize {
        self.packed.len()
    }

    pub(super) fn get(&self, place: usize) -> Option<Entry> {
        let &packed = self.packed.get(place)?;
        let lane = *self.lanes.get(number(packed))?;
        Some(Entry { at: packed & ((1 << PLACE_BITS) - 1), lane })
    }

    /// Gives back what growing took beyond need.
    pub(super) fn shrink(&mut self) {
        self.packed.shrink_to_fit();
    }
}

/// The place of an entry's lane.
fn number(packed: u64) -> usize {
    usize::try_from(packed >> PLACE_BITS).unwrap_or(usize::MAX)
}
