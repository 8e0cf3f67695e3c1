use tensortap_abi::{NO_SLOT, TensorDesc};

/// Names a buffer of one orchestration. Holding it past its scope is an error that is found when it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferId {
    index: u32,
    /// Serial number of the scope it was made in, to tell a reused index.
    stamp: u32,
}

/// Where a buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Device address.
    pub addr: u64,
    /// Task whose submission allocated it, [`TensorDesc::NO_OWNER`] for memory of the host.
    pub owner_task: u64,
    /// Slot of that task, [`NO_SLOT`] for memory that is never reused.
    pub owner_slot: u32,
    /// Reuse count of that slot.
    pub version: u32,
}

impl Location {
    /// Memory that belongs to no task and is not reused during the run.
    pub const fn permanent(addr: u64) -> Location {
        Location { addr, owner_task: TensorDesc::NO_OWNER, owner_slot: NO_SLOT, version: 0 }
    }
}

/// A piece of memory that tensors view. It gets its location when a task first writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Size.
    pub bytes: u64,
    /// Where it lies; `None` until the first task that writes it is submitted.
    pub location: Option<Location>,
    /// Scopes that were open when it was made; it lives until the innermost of them ends.
    pub depth: usize,
    stamp: u32,
}

/// The buffers of one orchestration, by scope: a stack.
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

    /// The buffer, `None` when its scope has ended.
    pub fn get(&self, id: BufferId) -> Option<&Buffer> {
        self.buffers.get(id.index as usize).filter(|b| b.stamp == id.stamp)
    }

    /// The buffer, to be placed; `None` when its scope has ended.
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
    fn a_buffer_of_an_ended_scope_is_not_mistaken_for_its_successor() {
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
