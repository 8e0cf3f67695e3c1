//! A table of where records lie: small, because there may be millions.

/// Every record of a dump, in order: 4 bytes each, and a [`Run`] wherever they are not enough.
#[derive(Default)]
pub(super) struct Entries {
    /// How far each record lies behind the first of its run.
    behind: Vec<u32>,
    runs: Vec<Run>,
}

/// Records of one lane that follow one another. A lane's frames are long, and one that records alone has a run for every 4 GiB.
struct Run {
    /// Place of its first record.
    first: usize,
    /// Where that lies.
    at: u64,
    lane: u32,
}

/// Where a record lies, and which lane recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) at: u64,
    pub(super) lane: u32,
}

impl Entries {
    pub(super) fn push(&mut self, at: u64, lane: u32) {
        let run = self.runs.last().filter(|run| run.lane == lane);
        let behind = run.and_then(|run| u32::try_from(at.checked_sub(run.at)?).ok());
        if behind.is_none() {
            self.runs.push(Run { first: self.behind.len(), at, lane });
        }
        self.behind.push(behind.unwrap_or(0));
    }

    pub(super) fn len(&self) -> usize {
        self.behind.len()
    }

    pub(super) fn get(&self, place: usize) -> Option<Entry> {
        let &behind = self.behind.get(place)?;
        let later = self.runs.partition_point(|run| run.first <= place);
        let run = self.runs.get(later.checked_sub(1)?)?;
        Some(Entry { at: run.at + u64::from(behind), lane: run.lane })
    }

    /// Gives back what growing took beyond need.
    pub(super) fn shrink(&mut self) {
        self.behind.shrink_to_fit();
        self.runs.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_found_where_it_was_pushed_whoever_recorded_it_and_however_far_it_lies() {
        const FAR: u64 = u32::MAX as u64;
        // The second run ends at the last offset that 4 bytes can say; the last record lies before its run.
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
