//! Memory is allocated and freed.

use std::sync::Arc;

use tensortap_queue::{Memory, MemoryEvent, Storage};
use tensortap_record::{MemorySpace, QueueId};

use crate::{backend::CudaBackend, raw, streams::Stream, table::Space};

/// The pool or allocator of memory that is not allocated from the driver one by one.
const VIRTUAL: &str = "virtual memory";
const PYTORCH: &str = "PyTorch";

/// In whose order an allocation or a release takes effect: that of a stream, or that of the program.
pub type InOrderOf = Option<Stream>;

/// Memory of a context was allocated, from a pool if it is in stream order.
pub fn allocated(
    backend: &CudaBackend,
    context: usize,
    (address, bytes): (u64, u64),
    space: Space,
    from: Option<(Stream, Arc<str>)>,
) {
    let space = match space {
        Space::Device => MemorySpace::Device,
        Space::Managed => MemorySpace::Managed,
        Space::Pinned => MemorySpace::Pinned,
    };
    add(backend, Memory { address, bytes, space }, Some(context), from);
}

/// Adds memory. If it has a context, it is freed with it.
pub fn add(backend: &CudaBackend, memory: Memory, context: Option<usize>, from: Option<(Stream, Arc<str>)>) {
    if memory.address == 0 {
        return;
    }
    let (stream, pool) = from.unzip();
    let gone = backend.state().allocations.add(memory, context);
    begin(backend, memory, stream, (pool, gone));
}

/// Records the releases of older memory, and then an allocation.
fn begin(
    backend: &CudaBackend,
    memory: Memory,
    stream: InOrderOf,
    (pool, gone): (Option<Arc<str>>, Vec<Memory>),
) {
    record_frees(backend, gone, None);
    let storage = backend.state().allocations.storages.begin(memory.address, pool);
    record(backend, memory, storage, false, stream);
}

fn record(backend: &CudaBackend, memory: Memory, storage: Storage, freed: bool, stream: InOrderOf) {
    let (queue, after_task) = {
        let state = backend.state();
        let known = stream.filter(|stream| state.stream_states.contains_key(stream));
        let queue = known.and_then(|stream| state.stream_states.get(&stream)).map(|stream| stream.id);
        (queue.unwrap_or(QueueId::NONE), state.streams.last_task(known))
    };
    let event = MemoryEvent { memory, storage, freed, queue, after_task };
    backend.record(|recorder| event.record(recorder));
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
    record_frees(backend, gone, None);
}

/// Memory is freed. From now on, no snapshot may read it.
pub fn freed(backend: &CudaBackend, address: u64, stream: InOrderOf) {
    let gone = backend.state().allocations.remove(address);
    record_frees(backend, gone, stream);
}

/// Virtual memory was mapped.
pub fn mapped(backend: &CudaBackend, address: u64, bytes: u64, handle: u64) {
    let (memory, gone) = backend.state().allocations.map(address, bytes, handle);
    begin(backend, memory, None, (Some(VIRTUAL.into()), gone));
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
    record_frees(backend, gone, None);
}

fn record_frees(backend: &CudaBackend, gone: impl IntoIterator<Item = Memory>, stream: InOrderOf) {
    for memory in gone {
        let storage = backend.state().allocations.storages.end(memory.address);
        record(backend, memory, storage, true, stream);
    }
}

/// The program's own allocator has allocated a block.
pub fn block_allocated(backend: &CudaBackend, address: u64, bytes: u64) {
    let (space, storage) = {
        let allocations = &mut backend.state().allocations;
        allocations.add_block(address, bytes);
        (allocations.space(address), allocations.block_storages.begin(address, Some(PYTORCH.into())))
    };
    record(backend, Memory { address, bytes, space }, storage, false, None);
}

/// The program's own allocator has freed a block. A later block at this address is unrelated.
pub fn block_freed(backend: &CudaBackend, address: u64) {
    let gone = {
        let allocations = &mut backend.state().allocations;
        let space = allocations.space(address);
        let bytes = allocations.free_block(address);
        bytes.map(|bytes| (Memory { address, bytes, space }, allocations.block_storages.end(address)))
    };
    if let Some((memory, storage)) = gone {
        record(backend, memory, storage, true, None);
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
