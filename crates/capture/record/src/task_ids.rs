//! Ids of tasks that are unique in a dump, whichever library records them and whether the program sets them.
//!
//! The libraries of a process draw the ids that they assign from one counter. A program that sets ids through
//! one library does not know that counter. Its first id therefore moves the counter far up. If other libraries
//! had drawn ids before, the program's ids up to the last of those are moved as well. All others stay as the
//! program set them.

use std::sync::OnceLock;

use tensortap_abi::NumberKind;
use tensortap_recorder::Region;
use tensortap_sync::Flag;

/// Ids that a library assigns are above this one, once a program has set ids.
const LAST_SET_ID: u64 = 1 << 62;
/// Added to ids of a program that another library has assigned.
const MOVED: u64 = 1 << 61;

/// The ids of one library.
#[derive(Debug, Default)]
pub(crate) struct TaskIds {
    /// Raised when the library assigns ids.
    assigns: Flag,
    /// The last id that was in use when the program set its first one.
    taken: OnceLock<u64>,
}

impl TaskIds {
    /// A new id, from 1.
    #[inline]
    pub fn assign(&self, region: &Region<'_>) -> u64 {
        if !self.assigns.is_raised() {
            self.assigns.raise();
        }
        region.next_number(NumberKind::Task)
    }

    /// The id in the dump of a task whose id the program sets. `earlier` libraries attached before this one.
    /// An id that this function returned stays the same.
    #[inline]
    pub fn in_dump(&self, id: u64, region: &Region<'_>, earlier: u64) -> u64 {
        match self.taken.get() {
            Some(taken) => moved(id, *taken, earlier),
            // A library that assigns ids gets them back here.
            None if self.assigns.is_raised() => id,
            None => moved(id, self.taken_ids(region), earlier),
        }
    }

    #[cold]
    fn taken_ids(&self, region: &Region<'_>) -> u64 {
        *self.taken.get_or_init(|| region.skip_numbers(NumberKind::Task, LAST_SET_ID).min(LAST_SET_ID))
    }
}

/// The moved id has a part for the library, because several may set the same ids.
fn moved(id: u64, taken: u64, earlier: u64) -> u64 {
    if (1..=taken).contains(&id) && id & MOVED == 0 { (id | MOVED) ^ ((earlier & 0xfff) << 48) } else { id }
}
