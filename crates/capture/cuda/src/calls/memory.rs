//! Memory is allocated and freed.

use tensortap_queue::Memory;
use tensortap_record::MemorySpace;

use crate::{backend::CudaBackend, raw, table::Space};

/// Memory of a context was allocated.
pub fn allocated(backend: &CudaBackend, context: usize, (address, bytes): (u64, u64), space: Space) {
    let space = match space {
        Space::Device => MemorySpace::Device,
        Space::Managed => MemorySpace::Managed,
        Space::Pinned => MemorySpace::Pinned,
    };
    add(backend, Memory { address, bytes, space }, Some(context));
}

/// Adds memory. If it has a context, it is freed with it.
pub fn add(backend: &CudaBackend, memory: Memory, context: Option<usize>) {
    let Memory { address, bytes, space } = memory;
    if address == 0 {
        return;
    }
    backend.state().allocations.add(memory, context);
    backend.record(|recorder| recorder.allocation(address, bytes, space, false));
}

/// The program has asked for the address of a variable.
pub fn variable(backend: &CudaBackend, module: usize, (address, bytes): (u64, u64), space: Space) {
    let space = if space == Space::Managed { MemorySpace::Managed } else { MemorySpace::Device };
    if address != 0 && bytes != 0 && !backend.state().allocations.holds(address) {
        super::modules::place(backend, module, Memory { address, bytes, space });
    }
}

/// A context is destroyed with all its memory.
pub fn context_destroyed(backend: &CudaBackend, context: usize) {
    let gone = backend.state().allocations.forget_context(context);
    record_frees(backend, gone);
}

/// Memory is freed. From now on, no snapshot may read it.
pub fn freed(backend: &CudaBackend, address: u64) {
    let gone = backend.state().allocations.remove(address);
    record_frees(backend, gone);
}

/// Virtual memory was mapped.
pub fn mapped(backend: &CudaBackend, address: u64, bytes: u64, handle: u64) {
    let memory = backend.state().allocations.map(address, bytes, handle);
    backend.record(|recorder| recorder.allocation(memory.address, memory.bytes, memory.space, false));
}

/// Memory of another process was opened. The other process may change or free it without notice, so it is
/// known but never read.
pub fn opened(backend: &CudaBackend, address: u64) {
    if let Some((start, bytes)) = backend.driver.range_of(address) {
        mapped(backend, start, bytes, 0);
    }
}

/// Virtual memory was unmapped.
pub fn unmapped(backend: &CudaBackend, address: u64, bytes: u64) {
    let gone = backend.state().allocations.unmap(address, bytes);
    record_frees(backend, gone);
}

fn record_frees(backend: &CudaBackend, gone: impl IntoIterator<Item = Memory>) {
    for Memory { address, bytes, space } in gone {
        backend.record(|recorder| recorder.allocation(address, bytes, space, true));
    }
}

/// The program's own allocator has allocated a block.
pub fn block_allocated(backend: &CudaBackend, address: u64, bytes: u64) {
    let space = {
        let mut state = backend.state();
        state.allocations.add_block(address, bytes);
        state.allocations.space(address)
    };
    backend.record(|recorder| recorder.allocation(address, bytes, space, false));
}

/// The program's own allocator has freed a block. A later block at this address is unrelated.
pub fn block_freed(backend: &CudaBackend, address: u64) {
    let gone = {
        let mut state = backend.state();
        let space = state.allocations.space(address);
        state.allocations.free_block(address).map(|bytes| (bytes, space))
    };
    if let Some((bytes, space)) = gone {
        backend.record(|recorder| recorder.allocation(address, bytes, space, true));
    }
}

/// An access description: kind of location, its number, and the rights.
#[repr(C)]
#[derive(Clone, Copy)]
struct Access {
    kind: i32,
    number: i32,
    may: i32,
}
const _: () = assert!(size_of::<Access>() == 12);

const DEVICE: i32 = 1;
/// At most this many descriptions are read.
const MAX: u64 = 1024;

/// Devices may, or may no longer, access virtual memory.
///
/// # Safety
/// That many descriptions are there.
pub unsafe fn access(backend: &CudaBackend, address: u64, bytes: u64, (descriptions, count): (u64, u64)) {
    for at in 0..count.min(MAX) {
        // SAFETY: the caller's guarantee.
        let access: Access = unsafe { raw::at(descriptions + at * size_of::<Access>() as u64) };
        if access.kind == DEVICE {
            let may_read = access.may & 1 != 0;
            backend.state().allocations.set_access(address, bytes, access.number, may_read);
        }
    }
}
