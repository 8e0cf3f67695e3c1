//! Buffers are read, written, copied, filled and mapped.

use std::ffi::c_void;

use tensortap_queue::Range;
use tensortap_record::{Operation, Role};

use super::behind;
use crate::{
    enqueue::{Place, Work, enqueue},
    ffi::{self, Bits, Event, Mem, Queue, Status},
    layer::Layer,
    objects::{Key, Mapped, Objects, Region, key},
    probe::Source,
    raw,
};

/// Where a program's call puts a command.
///
/// # Safety
/// As the program's call: the list's events live.
pub unsafe fn place<'a>(
    queue: Queue,
    blocks: u32,
    (count, waits): (u32, *const Event),
    event: *mut Event,
) -> Place<'a> {
    // SAFETY: the caller's promise.
    let list = unsafe { raw::list(count, waits) };
    let is_valid = (count == 0) == waits.is_null();
    Place { queue, waits: list, is_valid, event, blocks: blocks != 0 }
}

/// Part of a memory object.
pub fn part(objects: &Objects, mem: Mem, at: usize, size: usize) -> Option<(Range, Source)> {
    range(objects, mem, |region| region.part(at as u64, size as u64, None))
}

fn range(objects: &Objects, mem: Mem, of: impl FnOnce(&Region) -> Option<Range>) -> Option<(Range, Source)> {
    let region = objects.regions.get(&key(mem))?;
    Some((of(region)?, Source::Buffer(region.root.0)))
}

pub unsafe extern "C" fn read(
    queue: Queue,
    mem: Mem,
    blocks: u32,
    at: usize,
    size: usize,
    to: *mut c_void,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, blocks, (count, waits), event);
        let work = Work::moving(Operation::HostRead, "clEnqueueReadBuffer");
        enqueue(
            &place,
            |objects, _| Ok(work.with(part(objects, mem, at, size), Role::Input)),
            |waits, event| {
                let (count, waits) = raw::wait_list(waits);
                behind!(clEnqueueReadBuffer)(queue, mem, 0, at, size, to, count, waits, event)
            },
        )
    }
}

pub unsafe extern "C" fn write(
    queue: Queue,
    mem: Mem,
    blocks: u32,
    at: usize,
    size: usize,
    from: *const c_void,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, blocks, (count, waits), event);
        let work = Work::moving(Operation::HostWrite, "clEnqueueWriteBuffer");
        enqueue(
            &place,
            |objects, _| Ok(work.with(part(objects, mem, at, size), Role::Output)),
            |waits, event| {
                let (count, waits) = raw::wait_list(waits);
                behind!(clEnqueueWriteBuffer)(queue, mem, 0, at, size, from, count, waits, event)
            },
        )
    }
}

pub unsafe extern "C" fn copy(
    queue: Queue,
    from: Mem,
    to: Mem,
    from_at: usize,
    to_at: usize,
    size: usize,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, 0, (count, waits), event);
        let work = Work::moving(Operation::Copy, "clEnqueueCopyBuffer");
        let work = |objects: &mut Objects, _: &mut _| {
            let work = work.with(part(objects, from, from_at, size), Role::Input);
            Ok(work.with(part(objects, to, to_at, size), Role::Output))
        };
        enqueue(&place, work, |waits, event| {
            let (count, waits) = raw::wait_list(waits);
            behind!(clEnqueueCopyBuffer)(queue, from, to, from_at, to_at, size, count, waits, event)
        })
    }
}

pub unsafe extern "C" fn fill(
    queue: Queue,
    mem: Mem,
    pattern: *const c_void,
    pattern_size: usize,
    at: usize,
    size: usize,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, 0, (count, waits), event);
        let work = Work::moving(Operation::Fill, "clEnqueueFillBuffer");
        enqueue(
            &place,
            |objects, _| Ok(work.with(part(objects, mem, at, size), Role::Output)),
            |waits, event| {
                let (count, waits) = raw::wait_list(waits);
                behind!(clEnqueueFillBuffer)(queue, mem, pattern, pattern_size, at, size, count, waits, event)
            },
        )
    }
}

/// A box of a memory object.
///
/// # Safety
/// Three sizes lie at each pointer that is not null.
unsafe fn boxed(
    objects: &Objects,
    mem: Mem,
    (origin, region): (*const usize, *const usize),
    (row, slice): (usize, usize),
) -> Option<(Range, Source)> {
    // SAFETY: the caller's promise.
    let (origin, size) = unsafe { (raw::triple(origin)?, raw::triple(region)?) };
    range(objects, mem, |of| of.boxed(origin, size, [row as u64, slice as u64]))
}

pub unsafe extern "C" fn read_rect(
    queue: Queue,
    mem: Mem,
    blocks: u32,
    origin: *const usize,
    host_origin: *const usize,
    region: *const usize,
    row: usize,
    slice: usize,
    host_row: usize,
    host_slice: usize,
    to: *mut c_void,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, blocks, (count, waits), event);
        let work = Work::moving(Operation::HostRead, "clEnqueueReadBufferRect");
        let work = |objects: &mut Objects, _: &mut _| {
            Ok(work.with(boxed(objects, mem, (origin, region), (row, slice)), Role::Input))
        };
        enqueue(&place, work, |waits, event| {
            let (count, waits) = raw::wait_list(waits);
            behind!(clEnqueueReadBufferRect)(
                queue,
                mem,
                0,
                origin,
                host_origin,
                region,
                row,
                slice,
                host_row,
                host_slice,
                to,
                count,
                waits,
                event,
            )
        })
    }
}

pub unsafe extern "C" fn write_rect(
    queue: Queue,
    mem: Mem,
    blocks: u32,
    origin: *const usize,
    host_origin: *const usize,
    region: *const usize,
    row: usize,
    slice: usize,
    host_row: usize,
    host_slice: usize,
    from: *const c_void,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, blocks, (count, waits), event);
        let work = Work::moving(Operation::HostWrite, "clEnqueueWriteBufferRect");
        let work = |objects: &mut Objects, _: &mut _| {
            Ok(work.with(boxed(objects, mem, (origin, region), (row, slice)), Role::Output))
        };
        enqueue(&place, work, |waits, event| {
            let (count, waits) = raw::wait_list(waits);
            behind!(clEnqueueWriteBufferRect)(
                queue,
                mem,
                0,
                origin,
                host_origin,
                region,
                row,
                slice,
                host_row,
                host_slice,
                from,
                count,
                waits,
                event,
            )
        })
    }
}

pub unsafe extern "C" fn copy_rect(
    queue: Queue,
    from: Mem,
    to: Mem,
    from_origin: *const usize,
    to_origin: *const usize,
    region: *const usize,
    from_row: usize,
    from_slice: usize,
    to_row: usize,
    to_slice: usize,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, 0, (count, waits), event);
        let work = Work::moving(Operation::Copy, "clEnqueueCopyBufferRect");
        let work = |objects: &mut Objects, _: &mut _| {
            let source = boxed(objects, from, (from_origin, region), (from_row, from_slice));
            let target = boxed(objects, to, (to_origin, region), (to_row, to_slice));
            Ok(work.with(source, Role::Input).with(target, Role::Output))
        };
        enqueue(&place, work, |waits, event| {
            let (count, waits) = raw::wait_list(waits);
            behind!(clEnqueueCopyBufferRect)(
                queue,
                from,
                to,
                from_origin,
                to_origin,
                region,
                from_row,
                from_slice,
                to_row,
                to_slice,
                count,
                waits,
                event,
            )
        })
    }
}

/// A map: the host reads what is there.
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
    let mut mapped = std::ptr::null_mut();
    // SAFETY: the program's promises.
    let told = unsafe {
        let place = place(queue, blocks, (count, waits), event);
        let work = Work::moving(Operation::HostRead, "clEnqueueMapBuffer");
        enqueue(
            &place,
            |objects, _| Ok(work.with(part(objects, mem, at, size), Role::Input)),
            |waits, event| {
                let (count, waits) = raw::wait_list(waits);
                let mut told = ffi::SUCCESS;
                let told_at = &raw mut told;
                mapped =
                    behind!(clEnqueueMapBuffer)(queue, mem, 0, flags, at, size, count, waits, event, told_at);
                told
            },
        )
    };
    if !mapped.is_null() {
        let part = Some((at as u64, size as u64));
        note_map(mem, mapped, Mapped { flags, part });
    }
    if !status.is_null() {
        // SAFETY: the program's promise.
        unsafe { status.write(told) };
    }
    mapped
}

/// Remembers what was mapped where.
pub fn note_map(mem: Mem, at: *mut c_void, mapped: Mapped) {
    Layer::get().objects().mapped.entry((key(mem), at.addr())).or_default().push(mapped);
}

/// An unmap: what the host may have written is there from now on.
pub unsafe extern "C" fn unmap(
    queue: Queue,
    mem: Mem,
    mapped: *mut c_void,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    let map = (key(mem), mapped.addr());
    let written = last_map(map).filter(Mapped::is_written).map(|known| known.part);
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, 0, (count, waits), event);
        let work = |objects: &mut Objects, _: &mut _| {
            let name = "clEnqueueUnmapMemObject";
            let bytes = |(at, size)| range(objects, mem, |region: &Region| region.part(at, size, None));
            Ok(match written {
                Some(part) => {
                    Work::moving(Operation::HostWrite, name).with(part.and_then(bytes), Role::Output)
                }
                None => Work::moving(Operation::Barrier, name),
            })
        };
        let status = enqueue(&place, work, |waits, event| {
            let (count, waits) = raw::wait_list(waits);
            behind!(clEnqueueUnmapMemObject)(queue, mem, mapped, count, waits, event)
        });
        if status == ffi::SUCCESS {
            end_map(map);
        }
        status
    }
}

/// What was mapped at an address and is to be unmapped next: a map that writes before one that reads, for what was written is there by then.
pub fn last_map(map: (Key, usize)) -> Option<Mapped> {
    let objects = Layer::get().objects();
    let maps = objects.mapped.get(&map)?;
    maps.iter().rev().find(|map| map.is_written()).or(maps.last()).copied()
}

/// It was unmapped.
pub fn end_map(map: (Key, usize)) {
    let mut objects = Layer::get().objects();
    if let Some(maps) = objects.mapped.get_mut(&map) {
        let at = maps.iter().rposition(Mapped::is_written).or(maps.len().checked_sub(1));
        at.map(|at| maps.remove(at));
        if maps.is_empty() {
            objects.mapped.remove(&map);
        }
    }
}

/// Memory moves between devices, and stays what it is.
pub unsafe extern "C" fn migrate(
    queue: Queue,
    mem_count: u32,
    mems: *const Mem,
    flags: Bits,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, 0, (count, waits), event);
        let work =
            |_: &mut Objects, _: &mut _| Ok(Work::moving(Operation::Barrier, "clEnqueueMigrateMemObjects"));
        enqueue(&place, work, |waits, event| {
            let (count, waits) = raw::wait_list(waits);
            behind!(clEnqueueMigrateMemObjects)(queue, mem_count, mems, flags, count, waits, event)
        })
    }
}
