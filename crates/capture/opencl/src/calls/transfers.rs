//! Buffers are read, written, copied, filled and mapped.

use std::ffi::c_void;

use tensortap_queue::Range;
use tensortap_record::{Operation, RecordError, Role, ThreadRecorder};

use super::{driver_fn, enqueue_functions};
use crate::{
    enqueue::{CommandSpec, QueueTarget, enqueue},
    ffi::{self, Bits, Event, Mem, Queue, Status},
    layer::Layer,
    objects::{HostMapping, Key, Objects, Region, key},
    raw,
    snapshot::Source,
};

/// A part of a memory object. None if its bytes are not known.
pub fn part(objects: &Objects, mem: Mem, at: usize, size: usize) -> Option<(Range, Source)> {
    range(objects, mem, |region| region.part(at as u64, size as u64, None))
}

fn range(objects: &Objects, mem: Mem, of: impl FnOnce(&Region) -> Option<Range>) -> Option<(Range, Source)> {
    let region = objects.regions.get(&key(mem))?;
    Some((of(region)?, Source::Buffer(region.root.0)))
}

/// A box of bytes of a memory object.
///
/// # Safety
/// Each pointer is null or points to three sizes.
unsafe fn boxed(
    objects: &Objects,
    mem: Mem,
    (origin, region): (*const usize, *const usize),
    (row, slice): (usize, usize),
) -> Option<(Range, Source)> {
    // SAFETY: the caller's guarantee.
    let (origin, size) = unsafe { (raw::triple(origin)?, raw::triple(region)?) };
    range(objects, mem, |of| of.boxed(origin, size, [row as u64, slice as u64]))
}

enqueue_functions! {
    fn read = clEnqueueReadBuffer(mem: Mem; blocks; at: usize, size: usize, to: *mut c_void)
        HostRead |objects| { part(objects, mem, at, size) => Input }

    fn write = clEnqueueWriteBuffer(mem: Mem; blocks; at: usize, size: usize, from: *const c_void)
        HostWrite |objects| { part(objects, mem, at, size) => Output }

    fn copy = clEnqueueCopyBuffer(from: Mem, to: Mem, from_at: usize, to_at: usize, size: usize)
        Copy |objects| { part(objects, from, from_at, size) => Input, part(objects, to, to_at, size) => Output }

    fn fill = clEnqueueFillBuffer(mem: Mem, pattern: *const c_void, pattern_size: usize, at: usize, size: usize)
        Fill |objects| { part(objects, mem, at, size) => Output }

    fn read_rect = clEnqueueReadBufferRect(
        mem: Mem; blocks; origin: *const usize, host_origin: *const usize, region: *const usize, row: usize,
        slice: usize, host_row: usize, host_slice: usize, to: *mut c_void
    ) HostRead |objects| { boxed(objects, mem, (origin, region), (row, slice)) => Input }

    fn write_rect = clEnqueueWriteBufferRect(
        mem: Mem; blocks; origin: *const usize, host_origin: *const usize, region: *const usize, row: usize,
        slice: usize, host_row: usize, host_slice: usize, from: *const c_void
    ) HostWrite |objects| { boxed(objects, mem, (origin, region), (row, slice)) => Output }

    fn copy_rect = clEnqueueCopyBufferRect(
        from: Mem, to: Mem, from_origin: *const usize, to_origin: *const usize, region: *const usize,
        from_row: usize, from_slice: usize, to_row: usize, to_slice: usize
    ) Copy |objects| {
        boxed(objects, from, (from_origin, region), (from_row, from_slice)) => Input,
        boxed(objects, to, (to_origin, region), (to_row, to_slice)) => Output,
    }

    /// Memory moves between devices. Its content stays the same.
    fn migrate = clEnqueueMigrateMemObjects(mem_count: u32, mems: *const Mem, flags: Bits) Barrier |_objects| {}
}

/// A map: the host reads the part.
pub unsafe extern "C" fn map(
    queue: Queue,
    mem: Mem,
    blocks: u32,
    flags: Bits,
    at: usize,
    size: usize,
    count: u32,
    waits: *const Event,
    event: *mut Event,
    status: *mut Status,
) -> *mut c_void {
    // SAFETY: the program's guarantees.
    unsafe {
        let target = QueueTarget::new(queue, blocks, (count, waits), event);
        let spec = |objects: &mut Objects, _: &mut _| {
            let spec = CommandSpec::transfer(Operation::HostRead, "clEnqueueMapBuffer");
            Ok(spec.with(part(objects, mem, at, size), Role::Input))
        };
        let mapping = (mem, flags, Some((at as u64, size as u64)));
        enqueue_map(&target, spec, mapping, status, |count, waits, event, status| {
            driver_fn!(clEnqueueMapBuffer)(queue, mem, 0, flags, at, size, count, waits, event, status)
        })
    }
}

/// Enqueues a map of a memory object, and remembers what is mapped: `mapping` has the object, the flags, and the part
/// if its bytes are known. `call` calls the driver with a wait list, a place for the event and one for the status.
///
/// # Safety
/// As [`enqueue`]. `status` is null or can be written.
pub unsafe fn enqueue_map(
    target: &QueueTarget<'_>,
    spec: impl FnOnce(&mut Objects, &mut ThreadRecorder) -> Result<CommandSpec, RecordError>,
    (mem, flags, part): (Mem, Bits, Option<(u64, u64)>),
    status: *mut Status,
    call: impl FnOnce(u32, *const Event, *mut Event, *mut Status) -> *mut c_void,
) -> *mut c_void {
    let mut mapped = std::ptr::null_mut();
    // SAFETY: the caller's guarantee.
    let result = unsafe {
        enqueue(target, spec, |count, waits, event| {
            let mut result = ffi::SUCCESS;
            mapped = call(count, waits, event, &raw mut result);
            result
        })
    };
    if !mapped.is_null() {
        add_mapping((key(mem), mapped.addr()), HostMapping { flags, part });
    }
    if !status.is_null() {
        // SAFETY: the caller's guarantee.
        unsafe { status.write(result) };
    }
    mapped
}

/// An unmap: what the host may have written is in the buffer from now on.
pub unsafe extern "C" fn unmap(
    queue: Queue,
    mem: Mem,
    mapped: *mut c_void,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    let map = (key(mem), mapped.addr());
    let written = next_unmapped(map).filter(HostMapping::is_written).map(|known| known.part);
    // SAFETY: the program's guarantees.
    unsafe {
        let target = QueueTarget::new(queue, 0, (count, waits), event);
        let spec = |objects: &mut Objects, _: &mut _| {
            let name = "clEnqueueUnmapMemObject";
            let bytes = |(at, size)| range(objects, mem, |region: &Region| region.part(at, size, None));
            Ok(match written {
                Some(part) => {
                    let spec = CommandSpec::transfer(Operation::HostWrite, name);
                    spec.with(part.and_then(bytes), Role::Output)
                }
                None => CommandSpec::transfer(Operation::Barrier, name),
            })
        };
        let status = enqueue(&target, spec, |count, waits, event| {
            driver_fn!(clEnqueueUnmapMemObject)(queue, mem, mapped, count, waits, event)
        });
        if status == ffi::SUCCESS {
            remove_mapping(map);
        }
        status
    }
}

/// Remembers what is mapped at an address. The key of shared virtual memory has the memory object 0.
pub fn add_mapping(map: (Key, usize), mapping: HostMapping) {
    Layer::get().objects().mapped.entry(map).or_default().push(mapping);
}

/// The mapping at an address that the next unmap ends. Mappings for writing come first, so that the write is recorded
/// with the earliest unmap after it.
pub fn next_unmapped(map: (Key, usize)) -> Option<HostMapping> {
    let objects = Layer::get().objects();
    let maps = objects.mapped.get(&map)?;
    maps.iter().rev().find(|map| map.is_written()).or(maps.last()).copied()
}

/// Removes the mapping that [`next_unmapped`] returns.
pub fn remove_mapping(map: (Key, usize)) {
    let mut objects = Layer::get().objects();
    if let Some(maps) = objects.mapped.get_mut(&map) {
        let at = maps.iter().rposition(HostMapping::is_written).or(maps.len().checked_sub(1));
        at.map(|at| maps.remove(at));
        if maps.is_empty() {
            objects.mapped.remove(&map);
        }
    }
}
