//! Decisions of the device: which content is new.

/// Limit on probed slots per hash; `PROBES` in `source/decide.c`.
const PROBES: u32 = 64;

/// Decision on the content of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Its hash was in the set already.
    Stored,
    /// Its hash was added to the set.
    New,
    /// Its hash is not in the set, and the set is full. The same content gets the same decision again.
    NewUnkept,
    /// No decision was requested.
    Undecided,
}

impl Decision {
    /// Decodes the device's word; `None` if it is invalid.
    #[must_use]
    pub fn from_word(word: u32) -> Option<Decision> {
        match word {
            0 => Some(Decision::Stored),
            1 => Some(Decision::New),
            2 => Some(Decision::NewUnkept),
            3 => Some(Decision::Undecided),
            _ => None,
        }
    }
}

/// A set of hashes in the device's layout. Zeros are the empty set. Hashes are never removed: if stored
/// content is lost, use a new set.
#[derive(Clone, Debug)]
pub struct StoredHashes {
    slots: Vec<[u32; 4]>,
}

impl StoredHashes {
    /// An empty set with room for at least this many hashes.
    #[must_use]
    pub fn with_room(hashes: u32) -> StoredHashes {
        // At most half full, so that few probes are needed.
        let slots = hashes.max(1).saturating_mul(2).checked_next_power_of_two().unwrap_or(1 << 31);
        StoredHashes { slots: vec![[0; 4]; slots as usize] }
    }

    /// The slots, in the layout of device memory.
    #[must_use]
    pub fn slots(&self) -> &[[u32; 4]] {
        &self.slots
    }

    /// The mask that selects a slot from a hash.
    #[must_use]
    pub fn mask(&self) -> u32 {
        u32::try_from(self.slots.len() - 1).unwrap_or_else(|_| unreachable!("2^31 slots at most"))
    }

    /// Adds a hash to the set, as the device does.
    pub fn insert(&mut self, hash: u128) -> Decision {
        let (words, mask) = (words_of(hash), self.mask());
        for probe in 0..PROBES {
            let slot = &mut self.slots[(words[0].wrapping_add(probe) & mask) as usize];
            if *slot == words {
                return Decision::Stored;
            }
            if *slot == [0; 4] {
                *slot = words;
                return Decision::New;
            }
        }
        Decision::NewUnkept
    }
}

/// A hash as four nonzero words.
fn words_of(hash: u128) -> [u32; 4] {
    #[expect(clippy::cast_possible_truncation, reason = "one word of the hash")]
    [0, 32, 64, 96].map(|shift| ((hash >> shift) as u32).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_new_once() {
        let mut set = StoredHashes::with_room(3);
        assert_eq!(set.slots().len(), 8);
        let hashes = [0, 2 << 64, 5 << 96, 8];
        assert_eq!(hashes.map(|hash| set.insert(hash)), [Decision::New; 4]);
        assert_eq!(hashes.map(|hash| set.insert(hash)), [Decision::Stored; 4]);
    }

    #[test]
    fn reports_new_content_that_a_full_set_cannot_keep() {
        let mut set = StoredHashes::with_room(1);
        assert_eq!(
            [1, 2, 3].map(|hash| set.insert(hash)),
            [Decision::New, Decision::New, Decision::NewUnkept]
        );
        assert_eq!(set.insert(2), Decision::Stored);
    }
}
