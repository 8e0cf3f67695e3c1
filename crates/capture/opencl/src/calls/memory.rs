//! Buffers are created and released.

use std::{collections::HashMap, ffi::c_void, ptr};

use tensortap_queue::{Memory, MemoryEvent, Range, RangeRole};
use tensortap_record::{DType, DumpStage, MemorySpace, Operation, QueueId, Role, TaskInfo, Tensor};

use super::driver_fn;
use crate::{
    ffi::{self, Bits, BufferRegion, Context, Mem, Status},
    layer::Layer,
    objects::{HOST, Key, QueueState, Region, RootBuffer, is_host_writable, key},
    raw,
};

pub unsafe extern "C" fn create_buffer(
    context: Context,
    flags: Bits,
    size: usize,
    content: *mut c_void,
    status: *mut Status,
) -> Mem {
    // SAFETY: the program's guarantees.
    unsafe {
        let mem = driver_fn!(clCreateBuffer)(context, flags, size, content, status);
        add_buffer(mem, flags, size, content);
        mem
    }
}

pub unsafe extern "C" fn create_buffer_with_properties(
    context: Context,
    properties: *const u64,
    flags: Bits,
    size: usize,
    content: *mut c_void,
    status: *mut Status,
) -> Mem {
    // SAFETY: the program's guarantees.
    unsafe {
        let create = driver_fn!(clCreateBufferWithProperties);
        let mem = create(context, properties, flags, size, content, status);
        add_buffer(mem, flags, size, content);
        mem
    }
}

/// Adds a new buffer, and records its initial content.
///
/// # Safety
/// If `mem` is not null, the driver has accepted `content`: it can be read if the flags say that it is used.
unsafe fn add_buffer(mem: Mem, flags: Bits, size: usize, content: *mut c_void) {
    if mem.is_null() {
        return;
    }
    let layer = Layer::get();
    let space = if is_host_writable(flags) { MemorySpace::Pinned } else { MemorySpace::Device };
    let memory = {
        let mut objects = layer.objects();
        let memory = objects.memories.add_at_new_address(size as u64, space);
        let region = Region { root: RootBuffer(mem), memory, offset: 0, bytes: memory.bytes };
        objects.regions.insert(key(mem), region);
        memory
    };
    watch_destruction(layer, mem);
    record_event(layer, memory, false, None, None);
    if flags & (ffi::MEM_COPY_HOST_PTR | ffi::MEM_USE_HOST_PTR) != 0 && !content.is_null() {
        let range = Range { space, ..Range::dense((memory.address, memory.bytes), 0, memory.bytes, None) };
        // SAFETY: the driver has just read it.
        unsafe { record_host_write(layer, "clCreateBuffer", range, content.cast()) };
    }
}

/// Records that memory was allocated from a pool, or freed: in the order of a queue, or in that of the program.
pub fn record_event(
    layer: &Layer,
    memory: Memory,
    freed: bool,
    queue: Option<&QueueState>,
    pool: Option<&str>,
) {
    let event = {
        let mut objects = layer.objects();
        let storages = &mut objects.storages.0;
        let storage = match freed {
            true => storages.end(memory.address),
            false => storages.begin(memory.address, pool.map(Into::into)),
        };
        let after_task = objects.orders.last_task(queue.map(|queue| queue.number));
        MemoryEvent {
            memory,
            storage,
            freed,
            queue: queue.map_or(QueueId::NONE, |queue| queue.id),
            after_task,
        }
    };
    layer.record(|recorder| event.record(recorder));
}

/// Records that the host wrote memory outside of any queue. This is a task of its own. All later commands are ordered
/// after it.
///
/// # Safety
/// `content` has the bytes of the range.
pub unsafe fn record_host_write(layer: &Layer, name: &str, range: Range, content: *const u8) {
    let range = Range { role: RangeRole::Known(Role::Output), ..range };
    layer.record(|recorder| {
        let name = recorder.string(name)?;
        let info = TaskInfo { operation: Operation::HostWrite, name, records: 1, ..TaskInfo::default() };
        let mut task = recorder.begin(&info)?;
        // SAFETY: the caller's guarantee.
        let tensor = unsafe { Tensor::at(content, range.bytes, DType::UInt8) };
        let tensor = tensor.shape(&[range.bytes])?.role(Role::Output).space(range.space);
        let tensor = tensor.known_at(range.base).guessed(true, false, false);
        recorder.tensor(&mut task, DumpStage::AfterCompletion, &tensor)?;
        recorder.end(&mut task)?;
        let mut objects = layer.objects();
        let submission = objects.orders.submit(HOST, task.id(), &[], &mut || recorder.next_task_id());
        objects.orders.host_waited(&[submission.token]);
        drop(objects);
        submission.record(recorder)
    });
}

pub unsafe extern "C" fn create_sub_buffer(
    mem: Mem,
    flags: Bits,
    kind: u32,
    region: *const c_void,
    status: *mut Status,
) -> Mem {
    // SAFETY: the program's guarantees.
    let created = unsafe { driver_fn!(clCreateSubBuffer)(mem, flags, kind, region, status) };
    if !created.is_null() && !region.is_null() {
        // SAFETY: the driver has accepted the region, and there is only one kind of region.
        let BufferRegion { origin, size } = unsafe { region.cast::<BufferRegion>().read_unaligned() };
        let layer = Layer::get();
        let mut objects = layer.objects();
        if let Some(&of) = objects.regions.get(&key(mem)) {
            let part = Region { offset: of.offset + origin as u64, bytes: size as u64, ..of };
            objects.regions.insert(key(created), part);
        }
        drop(objects);
        watch_destruction(layer, created);
    }
    created
}

pub unsafe extern "C" fn create_pipe(
    context: Context,
    flags: Bits,
    packet: u32,
    packets: u32,
    properties: *const c_void,
    status: *mut Status,
) -> Mem {
    // SAFETY: the program's guarantees.
    let mem = unsafe { driver_fn!(clCreatePipe)(context, flags, packet, packets, properties, status) };
    add_opaque(mem)
}

pub unsafe extern "C" fn retain(mem: Mem) -> Status {
    // SAFETY: the program's guarantees.
    let status = unsafe { driver_fn!(clRetainMemObject)(mem) };
    if status == ffi::SUCCESS
        && let Some(references) = Layer::get().objects().references.get_mut(&key(mem))
    {
        *references += 1;
    }
    status
}

pub unsafe extern "C" fn release(mem: Mem) -> Status {
    // Count first: with the last reference the driver destroys the object, and a new object may get its handle.
    if let Some(references) = Layer::get().objects().references.get_mut(&key(mem)) {
        *references = references.saturating_sub(1);
    }
    // SAFETY: the program's guarantees.
    unsafe { driver_fn!(clReleaseMemObject)(mem) }
}

/// Answers the reference count without the layer's own commands, which a driver may count as references. The answer is
/// never less than the program's own references.
pub unsafe extern "C" fn info(
    mem: Mem,
    what: u32,
    room: usize,
    value: *mut c_void,
    size: *mut usize,
) -> Status {
    let ask = driver_fn!(clGetMemObjectInfo);
    // SAFETY: the program's guarantees.
    unsafe {
        if what != ffi::MEM_REFERENCE_COUNT {
            return ask(mem, what, room, value, size);
        }
        let counted = raw::value::<u32>(|room, value, size| ask(mem, what, room, value, size));
        let (of_layer, of_program) = {
            let objects = Layer::get().objects();
            let of = |counts: &HashMap<Key, u32>| counts.get(&key(mem)).copied().unwrap_or(0);
            (of(&objects.layer_references), of(&objects.references))
        };
        match counted {
            Some(counted) => {
                let without = counted.saturating_sub(of_layer).max(of_program.min(counted));
                raw::answer(&without.to_ne_bytes(), room, value, size)
            }
            None => ask(mem, what, room, value, size),
        }
    }
}

/// Adds a memory object whose bytes cannot be read.
pub fn add_opaque(mem: Mem) -> Mem {
    if !mem.is_null() {
        let layer = Layer::get();
        layer.objects().opaque.insert(key(mem));
        watch_destruction(layer, mem);
    }
    mem
}

/// Counts the program's first reference to a new memory object, and asks the driver to report its destruction: then a
/// new object may get its handle.
pub fn watch_destruction(layer: &Layer, mem: Mem) {
    layer.objects().references.insert(key(mem), 1);
    if let Some(watch) = layer.target.clSetMemObjectDestructorCallback {
        // SAFETY: the object was just created, and the callback gets no data.
        unsafe { watch(mem, Some(destroyed), ptr::null_mut()) };
    }
}

/// The driver destroys a memory object.
unsafe extern "C" fn destroyed(mem: Mem, _: *mut c_void) {
    let layer = Layer::get();
    let gone = {
        let mut objects = layer.objects();
        objects.opaque.remove(&key(mem));
        objects.references.remove(&key(mem));
        objects.mapped.retain(|(mapped, _), _| *mapped != key(mem));
        let region = objects.regions.remove(&key(mem));
        region
            .filter(|region| region.root.0 == mem)
            .and_then(|region| objects.memories.remove(region.memory.address))
    };
    if let Some(memory) = gone {
        record_event(layer, memory, true, None, None);
    }
}
