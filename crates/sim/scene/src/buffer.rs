use tensortap_abi::{NO_SLOT, TensorDesc};

/// Identifies a buffer of one orchestration. Using it after its scope has ended is detected as an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferId {
    index: u32,
    /// Serial number of the scope that created it, to detect a reused index.
    stamp: u32,
}

/// The location of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Device address.
    pub addr: u64,
    /// The task whose submission allocated it, or [`TensorDesc::NO_OWNER`] for memory of the host.
    pub owner_task: u64,
    /// The slot of that task, or [`NO_SLOT`] for memory that is never reused.
    pub owner_slot: u32,
    /// How often that slot has been reused.
    pub version: u32,
}

impl Location {
    /// Memory that belongs to no task and is not reused during the run.
    pub const fn permanent(addr: u64) -> Location {
        Location { addr, owner_task: TensorDesc::NO_OWNER, owner_slot: NO_SLOT, version: 0 }
    }
}

/// Memory that tensors view. It gets its location when the first task that writes it is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Size in bytes.
    pub bytes: u64,
    /// `None` until the first task that writes it is submitted.
    pub location: Option<Location>,
    /// Number of open scopes when it was created. It lives until the innermost of them ends.
    pub depth: usize,
    stamp: u32,
}

/// The buffers of one orchestration, as a stack of scopes.
#[derive(Debug, Default)]
pub struct BufferTable {
    buffers: Vec<Buffer>,
    scopes: Vec<ScopeMark>,
    next_stamp: u32,
    stamp: u32,
}

#[derive(Debug)]
struct ScopeMark {
    first_buffer: usize,
    outer_stamp: u32,
}

impl BufferTable {
    /// Adds a buffer to the current scope.
    pub fn add(&mut self, bytes: u64, location: Option<Location>) -> BufferId {
        let index = u32::try_from(self.buffers.len()).expect("fewer than 2^32 buffers live at once");
        self.buffers.push(Buffer { bytes, location, depth: self.scopes.len(), stamp: self.stamp });
        BufferId { index, stamp: self.stamp }
    }

    /// The buffer, or `None` if its scope has ended.
    pub fn get(&self, id: BufferId) -> Option<&Buffer> {
        self.buffers.get(id.index as usize).filter(|b| b.stamp == id.stamp)
    }

    /// The buffer for changes, or `None` if its scope has ended.
    pub fn get_mut(&mut self, id: BufferId) -> Option<&mut Buffer> {
        self.buffers.get_mut(id.index as usize).filter(|b| b.stamp == id.stamp)
    }

    pub(crate) fn begin_scope(&mut self) {
        self.scopes.push(ScopeMark { first_buffer: self.buffers.len(), outer_stamp: self.stamp });
        self.next_stamp = self.next_stamp.wrapping_add(1);
        self.stamp = self.next_stamp;
    }

    pub(crate) fn end_scope(&mut self) {
        if let Some(mark) = self.scopes.pop() {
            self.buffers.truncate(mark.first_buffer);
            self.stamp = mark.outer_stamp;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_buffer_in_an_ended_scope_does_not_match_a_new_buffer() {
        let mut table = BufferTable::default();
        let outer = table.add(1, None);
        table.begin_scope();
        let inner = table.add(2, None);
        table.end_scope();
        table.begin_scope();
        let reused = table.add(3, None);
        assert_eq!(table.get(inner), None);
        assert_eq!(table.get(reused).unwrap().bytes, 3);
        assert_eq!(table.get(outer).unwrap().bytes, 1);
    }
}
