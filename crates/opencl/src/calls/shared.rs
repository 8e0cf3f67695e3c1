//! Shared virtual memory.

use std::{ffi::c_void, sync::Arc};

use tensortap_queue::{Memory, Range};
use tensortap_record::{MemorySpace, Operation, Role};

use super::{
    behind,
    transfers::{end_map, last_map, place},
};
use crate::{
    enqueue::{Work, enqueue},
    ffi::{self, Bits, Context, Event, FreeCallback, Queue, Status},
    layer::Layer,
    objects::{Mapped, Objects},
    probe::Source,
    raw,
};

pub unsafe extern "C" fn alloc(context: Context, flags: Bits, size: usize, alignment: u32) -> *mut c_void {
    // SAFETY: the program's promises.
    let start = unsafe { behind!(clSVMAlloc)(context, flags, size, alignment) };
    if !start.is_null() {
        // The host writes fine-grained memory whenever it likes.
        let is_fine = flags & ffi::MEM_SVM_FINE_GRAIN != 0;
        let space = if is_fine { MemorySpace::Managed } else { MemorySpace::Device };
        let memory = Memory { address: start.addr() as u64, bytes: size as u64, space };
        let layer = Layer::get();
        layer.objects().memories.add(memory);
        layer.record(|recorder| recorder.allocation(memory.address, memory.bytes, space, false));
    }
    start
}

fn freed(start: *mut c_void) {
    let layer = Layer::get();
    let gone = {
        let mut objects = layer.objects();
        let gone = objects.memories.remove(start.addr() as u64);
        if let Some(gone) = gone {
            objects.mapped.retain(|&(mem, at), _| mem != 0 || !gone.holds(at as u64));
        }
        gone
    };
    if let Some(memory) = gone {
        layer.record(|recorder| recorder.allocation(memory.address, memory.bytes, memory.space, true));
    }
}

pub unsafe extern "C" fn free(context: Context, start: *mut c_void) {
    if !start.is_null() {
        freed(start);
    }
    // SAFETY: the program's promises.
    unsafe { behind!(clSVMFree)(context, start) }
}

/// What is freed in a queue lives until then, and is not given to commands behind: it is taken for gone when they are told.
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
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, 0, (count, waits), event);
        let gone = raw::list(start_count, starts.cast_const()).to_vec();
        // There are drivers (PoCL 3.0) that read the list when the command runs, which is later where it is recorded: they are given one that lives as long.
        let list: Arc<[usize]> = gone.iter().map(|start| start.expose_provenance()).collect();
        let kept = Arc::clone(&list);
        let work = |_: &mut Objects, _: &mut _| {
            Ok(Work { kept: Some(kept), ..Work::moving(Operation::Barrier, "clEnqueueSVMFree") })
        };
        let status = enqueue(&place, work, |waits, event| {
            let (count, waits) = raw::wait_list(waits);
            let given = if starts.is_null() { starts } else { list.as_ptr().cast_mut().cast() };
            behind!(clEnqueueSVMFree)(queue, start_count, given, callback, data, count, waits, event)
        });
        if status == ffi::SUCCESS {
            gone.into_iter().for_each(freed);
        }
        status
    }
}

/// Bytes of shared memory; none when it is not shared memory, or not all of it.
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
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, blocks, (count, waits), event);
        let work = |objects: &mut Objects, _: &mut _| {
            // One side may be memory of the host.
            let (source, target) = (part(objects, from, size), part(objects, to, size));
            let operation = match (&source, &target) {
                (Some(_), None) => Operation::HostRead,
                (None, Some(_)) => Operation::HostWrite,
                _ => Operation::Copy,
            };
            let mut work = Work::moving(operation, "clEnqueueSVMMemcpy");
            if source.is_some() || operation == Operation::Copy {
                work = work.with(source, Role::Input);
            }
            if target.is_some() || operation == Operation::Copy {
                work = work.with(target, Role::Output);
            }
            Ok(work)
        };
        enqueue(&place, work, |waits, event| {
            let (count, waits) = raw::wait_list(waits);
            behind!(clEnqueueSVMMemcpy)(queue, 0, to, from, size, count, waits, event)
        })
    }
}

pub unsafe extern "C" fn fill(
    queue: Queue,
    to: *mut c_void,
    pattern: *const c_void,
    pattern_size: usize,
    size: usize,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, 0, (count, waits), event);
        let work = Work::moving(Operation::Fill, "clEnqueueSVMMemFill");
        enqueue(
            &place,
            |objects, _| Ok(work.with(part(objects, to, size), Role::Output)),
            |waits, event| {
                let (count, waits) = raw::wait_list(waits);
                behind!(clEnqueueSVMMemFill)(queue, to, pattern, pattern_size, size, count, waits, event)
            },
        )
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
    // SAFETY: the program's promises.
    let status = unsafe {
        let place = place(queue, blocks, (count, waits), event);
        let work = Work::moving(Operation::HostRead, "clEnqueueSVMMap");
        enqueue(
            &place,
            |objects, _| Ok(work.with(part(objects, start, size), Role::Input)),
            |waits, event| {
                let (count, waits) = raw::wait_list(waits);
                behind!(clEnqueueSVMMap)(queue, 0, flags, start, size, count, waits, event)
            },
        )
    };
    if status == ffi::SUCCESS {
        let mapped = Mapped { flags, part: Some((0, size as u64)) };
        Layer::get().objects().mapped.entry((0, start.addr())).or_default().push(mapped);
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
    let written = last_map(map).filter(Mapped::is_written).and_then(|known| known.part);
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, 0, (count, waits), event);
        let work = |objects: &mut Objects, _: &mut _| {
            let name = "clEnqueueSVMUnmap";
            Ok(match written {
                Some((_, size)) => {
                    let bytes = part(objects, start, usize::try_from(size).unwrap_or(0));
                    Work::moving(Operation::HostWrite, name).with(bytes, Role::Output)
                }
                None => Work::moving(Operation::Barrier, name),
            })
        };
        let status = enqueue(&place, work, |waits, event| {
            let (count, waits) = raw::wait_list(waits);
            behind!(clEnqueueSVMUnmap)(queue, start, count, waits, event)
        });
        if status == ffi::SUCCESS {
            end_map(map);
        }
        status
    }
}

pub unsafe extern "C" fn migrate(
    queue: Queue,
    start_count: u32,
    starts: *const *const c_void,
    sizes: *const usize,
    flags: Bits,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, 0, (count, waits), event);
        let work =
            |_: &mut Objects, _: &mut _| Ok(Work::moving(Operation::Barrier, "clEnqueueSVMMigrateMem"));
        enqueue(&place, work, |waits, event| {
            let (count, waits) = raw::wait_list(waits);
            behind!(clEnqueueSVMMigrateMem)(queue, start_count, starts, sizes, flags, count, waits, event)
        })
    }
}
