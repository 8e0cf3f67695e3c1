use std::collections::BTreeMap;
use std::ops::Range;

use tensortap_abi::SMALL_PAYLOAD_ALIGN;
use tensortap_format::{DumpWriter, FormatError};

/// Ranges of the payload file that nothing refers to. Neighbours become one, so that small payloads add up to pages.
#[derive(Debug, Default)]
pub(super) struct FreeSpace {
    /// End of each range by its start, and whether it has grown since it was given back.
    ranges: BTreeMap<u64, (u64, bool)>,
}

impl FreeSpace {
    /// Adds a range; no two ranges overlap.
    pub(super) fn add(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if let Some((&before, &(before_end, _))) = self.ranges.range(..start).next_back()
            && touch(before_end, start)
        {
            self.ranges.remove(&before);
            start = before;
        }
        if let Some((&after, &(after_end, _))) = self.ranges.range(end..).next()
            && touch(end, after)
        {
            self.ranges.remove(&after);
            end = after_end;
        }
        self.ranges.insert(start, (end, true));
    }

    /// Gives back all that was added.
    pub(super) fn give_back(&mut self, writer: &mut DumpWriter) -> Result<(), FormatError> {
        for (&start, (end, new)) in self.ranges.iter_mut().filter(|(_, (_, new))| *new) {
            writer.free(start..*end)?;
            *new = false;
        }
        Ok(())
    }
}

/// Whether nothing lies between: payloads start on multiples of the alignment.
fn touch(end: u64, start: u64) -> bool {
    end.next_multiple_of(SMALL_PAYLOAD_ALIGN) >= start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_become_one_range_and_a_payload_between_keeps_them_apart() {
        let mut free = FreeSpace::default();
        free.add(0..100);
        free.add(256..300);
        assert_eq!(free.ranges.len(), 2);
        free.add(128..200);
        assert_eq!(free.ranges.into_iter().collect::<Vec<_>>(), [(0, (300, true))]);
    }
}
