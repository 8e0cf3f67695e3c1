//! Shared virtual memory.

use std::{ffi::c_void, sync::Arc};

use tensortap_queue::{Memory, Range};
use tensortap_record::{MemorySpace, Operation, Role};

use super::{
    driver_fn, enqueue_functions,
    memory::record_event,
    transfers::{add_mapping, next_unmapped, remove_mapping},
};
use crate::{
    enqueue::{CommandSpec, QueueTarget, enqueue},
    ffi::{self, Bits, Context, Event, FreeCallback, Queue, Status},
    layer::Layer,
    objects::{HostMapping, Objects, QueueState},
    queue_state::queue_state,
    raw,
    snapshot::Source,
};

pub unsafe extern "C" fn alloc(context: Context, flags: Bits, size: usize, alignment: u32) -> *mut c_void {
    // SAFETY: the program's guarantees.
    let start = unsafe { driver_fn!(clSVMAlloc)(context, flags, size, alignment) };
    if !start.is_null() {
        // The host may write fine-grained memory at any time.
        let is_fine = flags & ffi::MEM_SVM_FINE_GRAIN != 0;
        let space = if is_fine { MemorySpace::Managed } else { MemorySpace::Device };
        let memory = Memory { address: start.addr() as u64, bytes: size as u64, space };
        let layer = Layer::get();
        let gone = layer.objects().memories.add(memory);
        gone.into_iter().for_each(|gone| record_event(layer, gone, true, None, None));
        record_event(layer, memory, false, None, Some(POOL));
    }
    start
}

/// The pool of shared virtual memory.
const POOL: &str = "shared virtual memory";

fn record_free(start: *mut c_void, queue: Option<&QueueState>) {
    let layer = Layer::get();
    let gone = {
        let mut objects = layer.objects();
        let gone = objects.memories.remove(start.addr() as u64);
        if let Some(gone) = gone {
            objects.mapped.retain(|&(mem, at), _| mem != 0 || !gone.contains(at as u64));
        }
        gone
    };
    if let Some(memory) = gone {
        record_event(layer, memory, true, queue, None);
    }
}

pub unsafe extern "C" fn free(context: Context, start: *mut c_void) {
    if !start.is_null() {
        record_free(start, None);
    }
    // SAFETY: the program's guarantees.
    unsafe { driver_fn!(clSVMFree)(context, start) }
}

/// Memory that a queue frees lives until the command runs. No later command of the program may use it, so the layer
/// treats it as freed when the command is submitted.
pub unsafe extern "C" fn enqueue_free(
    queue: Queue,
    start_count: u32,
    starts: *mut *mut c_void,
    callback: FreeCallback,
    data: *mut c_void,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's guarantees.
    unsafe {
        let target = QueueTarget::new(queue, 0, (count, waits), event);
        let gone = raw::list(start_count, starts.cast_const()).to_vec();
        // Some drivers (PoCL 3.0) read the list when the command runs, which is later if it is recorded. They get a
        // list that lives until then.
        let list: Arc<[usize]> = gone.iter().map(|start| start.expose_provenance()).collect();
        let kept_alive = Some(Arc::clone(&list));
        let spec = |_: &mut Objects, _: &mut _| {
            let spec = CommandSpec::transfer(Operation::Barrier, "clEnqueueSVMFree");
            Ok(CommandSpec { kept_alive, ..spec })
        };
        let status = enqueue(&target, spec, |count, waits, event| {
            let starts = if starts.is_null() { starts } else { list.as_ptr().cast_mut().cast() };
            driver_fn!(clEnqueueSVMFree)(queue, start_count, starts, callback, data, count, waits, event)
        });
        if status == ffi::SUCCESS {
            let queue = queue_state(Layer::get(), queue);
            gone.into_iter().for_each(|start| record_free(start, queue.as_deref()));
        }
        status
    }
}

/// A part of shared memory. None if the bytes are not all in one allocation of shared memory.
fn part(objects: &Objects, start: *const c_void, size: usize) -> Option<(Range, Source)> {
    let address = start.addr() as u64;
    let memory = objects.memories.find(address)?;
    let at = address - memory.address;
    if size as u64 > memory.bytes - at.min(memory.bytes) {
        return None;
    }
    let range = Range::dense((memory.address, memory.bytes), at, size as u64, None);
    let source = Source::Address(usize::try_from(memory.address).ok()?);
    Some((Range { space: memory.space, ..range }, source))
}

enqueue_functions! {
    fn fill = clEnqueueSVMMemFill(to: *mut c_void, pattern: *const c_void, pattern_size: usize, size: usize)
        Fill |objects| { part(objects, to, size) => Output }

    fn migrate = clEnqueueSVMMigrateMem(
        start_count: u32, starts: *const *const c_void, sizes: *const usize, flags: Bits
    ) Barrier |_objects| {}
}

/// A copy. One of its ends may be host memory.
pub unsafe extern "C" fn copy(
    queue: Queue,
    blocks: u32,
    to: *mut c_void,
    from: *const c_void,
    size: usize,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's guarantees.
    unsafe {
        let target = QueueTarget::new(queue, blocks, (count, waits), event);
        let spec = |objects: &mut Objects, _: &mut _| {
            let (input, output) = (part(objects, from, size), part(objects, to, size));
            let operation = match (&input, &output) {
                (Some(_), None) => Operation::HostRead,
                (None, Some(_)) => Operation::HostWrite,
                _ => Operation::Copy,
            };
            let mut spec = CommandSpec::transfer(operation, "clEnqueueSVMMemcpy");
            if input.is_some() || operation == Operation::Copy {
                spec = spec.with(input, Role::Input);
            }
            if output.is_some() || operation == Operation::Copy {
                spec = spec.with(output, Role::Output);
            }
            Ok(spec)
        };
        enqueue(&target, spec, |count, waits, event| {
            driver_fn!(clEnqueueSVMMemcpy)(queue, 0, to, from, size, count, waits, event)
        })
    }
}

pub unsafe extern "C" fn map(
    queue: Queue,
    blocks: u32,
    flags: Bits,
    start: *mut c_void,
    size: usize,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's guarantees.
    let status = unsafe {
        let target = QueueTarget::new(queue, blocks, (count, waits), event);
        let spec = |objects: &mut Objects, _: &mut _| {
            let spec = CommandSpec::transfer(Operation::HostRead, "clEnqueueSVMMap");
            Ok(spec.with(part(objects, start, size), Role::Input))
        };
        enqueue(&target, spec, |count, waits, event| {
            driver_fn!(clEnqueueSVMMap)(queue, 0, flags, start, size, count, waits, event)
        })
    };
    if status == ffi::SUCCESS {
        add_mapping((0, start.addr()), HostMapping { flags, part: Some((0, size as u64)) });
    }
    status
}

pub unsafe extern "C" fn unmap(
    queue: Queue,
    start: *mut c_void,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    let map = (0, start.addr());
    let written = next_unmapped(map).filter(HostMapping::is_written).and_then(|known| known.part);
    // SAFETY: the program's guarantees.
    unsafe {
        let target = QueueTarget::new(queue, 0, (count, waits), event);
        let spec = |objects: &mut Objects, _: &mut _| {
            let name = "clEnqueueSVMUnmap";
            Ok(match written {
                Some((_, size)) => {
                    let bytes = part(objects, start, usize::try_from(size).unwrap_or(0));
                    CommandSpec::transfer(Operation::HostWrite, name).with(bytes, Role::Output)
                }
                None => CommandSpec::transfer(Operation::Barrier, name),
            })
        };
        let status = enqueue(&target, spec, |count, waits, event| {
            driver_fn!(clEnqueueSVMUnmap)(queue, start, count, waits, event)
        });
        if status == ffi::SUCCESS {
            remove_mapping(map);
        }
        status
    }
}
