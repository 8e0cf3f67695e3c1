//! Memory comes and goes.

use tensortap_queue::Memory;
use tensortap_record::MemorySpace;

use crate::{door::Door, raw, table::Space};

/// Memory is there, of a context.
pub fn comes(door: &Door, context: usize, (address, bytes): (u64, u64), space: Space) {
    let space = match space {
        Space::Device => MemorySpace::Device,
        Space::Managed => MemorySpace::Managed,
        Space::Pinned => MemorySpace::Pinned,
    };
    comes_as(door, Memory { address, bytes, space }, Some(context));
}

/// Memory is there, and goes with its context if it has one.
pub fn comes_as(door: &Door, memory: Memory, context: Option<usize>) {
    let Memory { address, bytes, space } = memory;
    if address == 0 {
        return;
    }
    door.state().allocations.add(memory, context);
    door.record(|recorder| recorder.allocation(address, bytes, space, false));
}

/// A program has asked where a variable of a module or library lies.
pub fn variable(door: &Door, module: usize, (address, bytes): (u64, u64), space: Space) {
    let space = if space == Space::Managed { MemorySpace::Managed } else { MemorySpace::Device };
    if address != 0 && bytes != 0 && !door.state().allocations.holds(address) {
        super::modules::place(door, module, Memory { address, bytes, space });
    }
}

/// A context goes, and with it all memory that it has had.
pub fn context_goes(door: &Door, context: usize) {
    let gone = door.state().allocations.forget_context(context);
    freed(door, gone);
}

/// Memory goes: nothing may read it from now on.
pub fn goes(door: &Door, address: u64) {
    let gone = door.state().allocations.remove(address);
    freed(door, gone);
}

/// Virtual memory is mapped.
pub fn mapped(door: &Door, address: u64, bytes: u64, handle: u64) {
    let memory = door.state().allocations.map(address, bytes, handle);
    door.record(|recorder| recorder.allocation(memory.address, memory.bytes, memory.space, false));
}

/// Memory of another process is there. It may change and go without a word, so it is known and never read.
pub fn opened(door: &Door, address: u64) {
    if let Some((start, bytes)) = door.driver.range_of(address) {
        mapped(door, start, bytes, 0);
    }
}

/// Virtual memory is mapped no more.
pub fn unmapped(door: &Door, address: u64, bytes: u64) {
    let gone = door.state().allocations.unmap(address, bytes);
    freed(door, gone);
}

fn freed(door: &Door, gone: impl IntoIterator<Item = Memory>) {
    for Memory { address, bytes, space } in gone {
        door.record(|recorder| recorder.allocation(address, bytes, space, true));
    }
}

/// An allocator of the program's has given out a block.
pub fn block_comes(door: &Door, address: u64, bytes: u64) {
    let space = {
        let mut state = door.state();
        state.allocations.add_block(address, bytes);
        state.allocations.space(address)
    };
    door.record(|recorder| recorder.allocation(address, bytes, space, false));
}

/// And has it back: what is there next has nothing to do with it.
pub fn block_goes(door: &Door, address: u64) {
    let gone = {
        let mut state = door.state();
        let space = state.allocations.space(address);
        state.allocations.free_block(address).map(|bytes| (bytes, space))
    };
    if let Some((bytes, space)) = gone {
        door.record(|recorder| recorder.allocation(address, bytes, space, true));
    }
}

/// Who may touch memory: kind of place, its number, and what may be done.
#[repr(C)]
#[derive(Clone, Copy)]
struct Access {
    kind: i32,
    number: i32,
    may: i32,
}
const _: () = assert!(size_of::<Access>() == 12);

const DEVICE: i32 = 1;
/// More descriptions than a call has in earnest.
const MOST: u64 = 1024;

/// Devices may touch virtual memory, or may not any more.
///
/// # Safety
/// As many descriptions lie there.
pub unsafe fn access(door: &Door, address: u64, bytes: u64, (descriptions, count): (u64, u64)) {
    for at in 0..count.min(MOST) {
        // SAFETY: the caller's promise.
        let access: Access = unsafe { raw::at(descriptions + at * size_of::<Access>() as u64) };
        if access.kind == DEVICE {
            let may_read = access.may & 1 != 0;
            door.state().allocations.set_access(address, bytes, access.number, may_read);
        }
    }
}
