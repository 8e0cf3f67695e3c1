//! Which content is new, as a device decides it.

/// Slots that a hash looks at before it gives up; `PROBES` in `source/decide.c`.
const PROBES: u32 = 64;

/// What a device says of the content of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Its hash was in the set already.
    Stored,
    /// It was not, and is now.
    New,
    /// It was not, and there is no room: whoever comes next with it is told the same.
    NewUnkept,
    /// That was not asked.
    Undecided,
}

impl Decision {
    /// From the device's word; `None` for one that it never writes.
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

/// A set of hashes in the layout of the device, to begin with: zeros are the empty set. Hashes are never taken out; a set in which
/// something stands that was lost after all is begun anew.
#[derive(Clone, Debug)]
pub struct StoredHashes {
    slots: Vec<[u32; 4]>,
}

impl StoredHashes {
    /// An empty set with room for at least so many hashes.
    #[must_use]
    pub fn with_room(hashes: u32) -> StoredHashes {
        // Half full at most, so that probes are few.
        let slots = hashes.max(1).saturating_mul(2).checked_next_power_of_two().unwrap_or(1 << 31);
        StoredHashes { slots: vec![[0; 4]; slots as usize] }
    }

    /// Its slots, as they lie in device memory.
    #[must_use]
    pub fn slots(&self) -> &[[u32; 4]] {
        &self.slots
    }

    /// The number that picks a slot out of a hash.
    #[must_use]
    pub fn mask(&self) -> u32 {
        u32::try_from(self.slots.len() - 1).unwrap_or_else(|_| unreachable!("2^31 slots at most"))
    }

    /// Puts a hash into the set, as the device would.
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

/// A hash as four words, none of which is zero.
fn words_of(hash: u128) -> [u32; 4] {
    #[expect(clippy::cast_possible_truncation, reason = "a word of it")]
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
    fn a_full_set_says_so() {
        let mut set = StoredHashes::with_room(1);
        assert_eq!(
            [1, 2, 3].map(|hash| set.insert(hash)),
            [Decision::New, Decision::New, Decision::NewUnkept]
        );
        assert_eq!(set.insert(2), Decision::Stored);
    }
}
