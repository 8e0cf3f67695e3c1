//! Buffers are made and go.

use std::{collections::HashMap, ffi::c_void, ptr};

use tensortap_queue::{Range, Roles};
use tensortap_record::{DType, DumpStage, MemorySpace, Operation, Role, TaskInfo, Tensor};

use super::behind;
use crate::{
    enqueue,
    ffi::{self, Bits, BufferRegion, Context, Mem, Status},
    layer::Layer,
    objects::{HOST, Key, Region, Root, is_host_writable, key},
    raw,
};

pub unsafe extern "C" fn create_buffer(
    context: Context,
    flags: Bits,
    size: usize,
    content: *mut c_void,
    status: *mut Status,
) -> Mem {
    // SAFETY: the program's promises.
    unsafe {
        let mem = behind!(clCreateBuffer)(context, flags, size, content, status);
        meet_buffer(mem, flags, size, content);
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
    // SAFETY: the program's promises.
    unsafe {
        let mem = behind!(clCreateBufferWithProperties)(context, properties, flags, size, content, status);
        meet_buffer(mem, flags, size, content);
        mem
    }
}

/// A buffer that is new.
///
/// # Safety
/// As a driver has accepted it: what it was made with can be read.
unsafe fn meet_buffer(mem: Mem, flags: Bits, size: usize, content: *mut c_void) {
    if mem.is_null() {
        return;
    }
    let layer = Layer::get();
    let space = if is_host_writable(flags) { MemorySpace::Pinned } else { MemorySpace::Device };
    let memory = {
        let mut objects = layer.objects();
        let memory = objects.memories.place(size as u64, space);
        let region = Region { root: Root(mem), memory, offset: 0, bytes: memory.bytes };
        objects.regions.insert(key(mem), region);
        memory
    };
    watch_end(layer, mem);
    layer.record(|recorder| recorder.allocation(memory.address, memory.bytes, space, false));
    if flags & (ffi::MEM_COPY_HOST_PTR | ffi::MEM_USE_HOST_PTR) != 0 && !content.is_null() {
        let range = Range { space, ..Range::dense((memory.address, memory.bytes), 0, memory.bytes, None) };
        // SAFETY: the driver has read it just now.
        unsafe { host_wrote(layer, "clCreateBuffer", range, content.cast()) };
    }
}

/// The host has written memory by itself: a task of its own, behind which everything stands that is submitted from now on.
///
/// # Safety
/// The range's bytes can be read at `content`.
pub unsafe fn host_wrote(layer: &Layer, name: &str, range: Range, content: *const u8) {
    let range = Range { roles: Roles::Known(Role::Output), ..range };
    layer.record(|recorder| {
        let name = recorder.string(name)?;
        let info = TaskInfo { operation: Operation::HostWrite, name, records: 1, ..TaskInfo::default() };
        let mut task = recorder.begin(&info)?;
        // SAFETY: the caller's promise.
        let tensor = unsafe { Tensor::at(content, range.bytes, DType::UInt8) };
        let tensor = tensor.shape(&[range.bytes])?.role(Role::Output).space(range.space);
        let tensor = tensor.known_at(range.base).guessed(true, false, false);
        recorder.tensor(&mut task, DumpStage::AfterCompletion, &tensor)?;
        recorder.end(&mut task)?;
        let mut objects = layer.objects();
        let submission = objects.orders.submit(HOST, task.id(), &[], &mut || recorder.next_task_id());
        objects.orders.host_waited(&[submission.mark]);
        drop(objects);
        enqueue::record_order(recorder, &submission)
    });
}

pub unsafe extern "C" fn create_sub_buffer(
    mem: Mem,
    flags: Bits,
    kind: u32,
    region: *const c_void,
    status: *mut Status,
) -> Mem {
    // SAFETY: the program's promises.
    let made = unsafe { behind!(clCreateSubBuffer)(mem, flags, kind, region, status) };
    if !made.is_null() && !region.is_null() {
        // SAFETY: the driver has taken it for one: there is no other kind.
        let BufferRegion { origin, size } = unsafe { region.cast::<BufferRegion>().read_unaligned() };
        let layer = Layer::get();
        let mut objects = layer.objects();
        if let Some(&of) = objects.regions.get(&key(mem)) {
            let part = Region { offset: of.offset + origin as u64, bytes: size as u64, ..of };
            objects.regions.insert(key(made), part);
        }
        drop(objects);
        watch_end(layer, made);
    }
    made
}

pub unsafe extern "C" fn create_pipe(
    context: Context,
    flags: Bits,
    packet: u32,
    packets: u32,
    properties: *const c_void,
    status: *mut Status,
) -> Mem {
    // SAFETY: the program's promises.
    let mem = unsafe { behind!(clCreatePipe)(context, flags, packet, packets, properties, status) };
    meet_opaque(mem)
}

pub unsafe extern "C" fn retain(mem: Mem) -> Status {
    // SAFETY: the program's promises.
    let status = unsafe { behind!(clRetainMemObject)(mem) };
    if status == ffi::SUCCESS
        && let Some(holds) = Layer::get().objects().holds.get_mut(&key(mem))
    {
        *holds += 1;
    }
    status
}

pub unsafe extern "C" fn release(mem: Mem) -> Status {
    // Before the driver knows: with the last hold the object goes, and its handle may be another's.
    if let Some(holds) = Layer::get().objects().holds.get_mut(&key(mem)) {
        *holds = holds.saturating_sub(1);
    }
    // SAFETY: the program's promises.
    unsafe { behind!(clReleaseMemObject)(mem) }
}

/// Who holds an object is told without commands of ours that a driver counts, and with the program's own holds in any case.
pub unsafe extern "C" fn info(
    mem: Mem,
    what: u32,
    room: usize,
    value: *mut c_void,
    size: *mut usize,
) -> Status {
    let ask = behind!(clGetMemObjectInfo);
    // SAFETY: the program's promises.
    unsafe {
        if what != ffi::MEM_REFERENCE_COUNT {
            return ask(mem, what, room, value, size);
        }
        let counted = raw::value::<u32>(|room, value, size| ask(mem, what, room, value, size));
        let (ours, holds) = {
            let objects = Layer::get().objects();
            let of = |counts: &HashMap<Key, u32>| counts.get(&key(mem)).copied().unwrap_or(0);
            (of(&objects.borrowed), of(&objects.holds))
        };
        match counted {
            Some(counted) => {
                let without = counted.saturating_sub(ours).max(holds.min(counted));
                raw::answer(&without.to_ne_bytes(), room, value, size)
            }
            None => ask(mem, what, room, value, size),
        }
    }
}

/// A memory object without bytes that could be read.
pub fn meet_opaque(mem: Mem) -> Mem {
    if !mem.is_null() {
        let layer = Layer::get();
        layer.objects().opaque.insert(key(mem));
        watch_end(layer, mem);
    }
    mem
}

/// A memory object is the program's. Lets the driver say when the last holder of a memory object has let it go: its handle may then be that of another.
pub fn watch_end(layer: &Layer, mem: Mem) {
    layer.objects().holds.insert(key(mem), 1);
    if let Some(watch) = layer.target.clSetMemObjectDestructorCallback {
        // SAFETY: an object that was just made; the callback needs nothing that could go.
        unsafe { watch(mem, Some(ended), ptr::null_mut()) };
    }
}

/// A memory object goes.
unsafe extern "C" fn ended(mem: Mem, _: *mut c_void) {
    let layer = Layer::get();
    let gone = {
        let mut objects = layer.objects();
        objects.opaque.remove(&key(mem));
        objects.holds.remove(&key(mem));
        objects.mapped.retain(|(mapped, _), _| *mapped != key(mem));
        let region = objects.regions.remove(&key(mem));
        region
            .filter(|region| region.root.0 == mem)
            .and_then(|region| objects.memories.remove(region.memory.address))
    };
    if let Some(memory) = gone {
        layer.record(|recorder| recorder.allocation(memory.address, memory.bytes, memory.space, true));
    }
}
