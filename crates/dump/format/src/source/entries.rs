//! A table of record offsets. It is small, because there may be millions of records.

/// The offset of every record, in order: 4 bytes each, plus a [`Run`] wherever 4 bytes are not enough.
#[derive(Default)]
pub(super) struct Entries {
    /// Distance of each record from the first one of its run.
    distances: Vec<u32>,
    runs: Vec<Run>,
}

/// Consecutive records of one lane. Frames of a lane are long; a lane that records without others has one
/// run per 4 GiB.
struct Run {
    /// Position of its first record.
    first: usize,
    /// Offset of that record.
    at: u64,
    lane: u32,
}

/// Offset and lane of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) at: u64,
    pub(super) lane: u32,
}

impl Entries {
    pub(super) fn push(&mut self, at: u64, lane: u32) {
        let run = self.runs.last().filter(|run| run.lane == lane);
        let distance = run.and_then(|run| u32::try_from(at.checked_sub(run.at)?).ok());
        if distance.is_none() {
            self.runs.push(Run { first: self.distances.len(), at, lane });
        }
        self.distances.push(distance.unwrap_or(0));
    }

    pub(super) fn len(&self) -> usize {
        self.distances.len()
    }

    pub(super) fn get(&self, place: usize) -> Option<Entry> {
        let &distance = self.distances.get(place)?;
        let later = self.runs.partition_point(|run| run.first <= place);
        let run = self.runs.get(later.checked_sub(1)?)?;
        Some(Entry { at: run.at + u64::from(distance), lane: run.lane })
    }

    /// Releases unused capacity.
    pub(super) fn shrink(&mut self) {
        self.distances.shrink_to_fit();
        self.runs.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_found_for_any_lane_and_any_offset() {
        const FAR: u64 = u32::MAX as u64;
        // The second run ends at the largest distance that fits into 4 bytes. The last record is before its
        // run.
        let pushed =
            [(64, 0), (256, 0), (448, 7), (448 + FAR, 7), (449 + FAR, 7), (5 * FAR, 7), (6 * FAR, 0), (1, 0)];
        let mut entries = Entries::default();
        pushed.iter().for_each(|&(at, lane)| entries.push(at, lane));
        entries.shrink();
        let found: Vec<Entry> = (0..).map_while(|place| entries.get(place)).collect();
        assert_eq!(found, pushed.map(|(at, lane)| Entry { at, lane }));
        assert_eq!((entries.len(), entries.runs.len()), (8, 6));
    }
}
