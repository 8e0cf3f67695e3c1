//! Images. Their content is not captured, save that of those which are made of a buffer: that is the buffer's.

use std::ffi::c_void;

use tensortap_record::{Operation, Role};

use super::{
    behind,
    memory::{meet_opaque, watch_end},
    transfers::{note_map, place},
};
use crate::{
    enqueue::{Work, enqueue},
    ffi::{self, Bits, Context, Event, Mem, Queue, Status},
    layer::Layer,
    objects::{Mapped, Objects, key},
    probe::Source,
    raw,
};

/// Bytes before the object that an image is made of, in `cl_image_desc`.
const MADE_OF: usize = 64;

pub unsafe extern "C" fn create_2d(
    context: Context,
    flags: Bits,
    format: *const c_void,
    width: usize,
    height: usize,
    row: usize,
    content: *mut c_void,
    status: *mut Status,
) -> Mem {
    // SAFETY: the program's promises.
    meet_opaque(unsafe {
        behind!(clCreateImage2D)(context, flags, format, width, height, row, content, status)
    })
}

pub unsafe extern "C" fn create_3d(
    context: Context,
    flags: Bits,
    format: *const c_void,
    width: usize,
    height: usize,
    depth: usize,
    row: usize,
    slice: usize,
    content: *mut c_void,
    status: *mut Status,
) -> Mem {
    // SAFETY: the program's promises.
    meet_opaque(unsafe {
        behind!(clCreateImage3D)(context, flags, format, width, height, depth, row, slice, content, status)
    })
}

pub unsafe extern "C" fn create(
    context: Context,
    flags: Bits,
    format: *const c_void,
    description: *const c_void,
    content: *mut c_void,
    status: *mut Status,
) -> Mem {
    // SAFETY: the program's promises.
    unsafe { meet(behind!(clCreateImage)(context, flags, format, description, content, status), description) }
}

pub unsafe extern "C" fn create_with_properties(
    context: Context,
    properties: *const u64,
    flags: Bits,
    format: *const c_void,
    description: *const c_void,
    content: *mut c_void,
    status: *mut Status,
) -> Mem {
    // SAFETY: the program's promises.
    unsafe {
        let create = behind!(clCreateImageWithProperties);
        meet(create(context, properties, flags, format, description, content, status), description)
    }
}

/// An image that is new.
///
/// # Safety
/// A driver has accepted the description.
unsafe fn meet(image: Mem, description: *const c_void) -> Mem {
    if image.is_null() || description.is_null() {
        return image;
    }
    // SAFETY: the driver has read it, and more.
    let made_of: Mem = unsafe { description.cast::<u8>().add(MADE_OF).cast::<Mem>().read_unaligned() };
    let layer = Layer::get();
    let region = layer.objects().regions.get(&key(made_of)).copied();
    match region {
        Some(region) if !made_of.is_null() => {
            layer.objects().regions.insert(key(image), region);
            watch_end(layer, image);
            image
        }
        _ => meet_opaque(image),
    }
}

/// What is known of an image as memory: all of the buffer it is made of.
fn whole(objects: &Objects, image: Mem) -> Option<(tensortap_queue::Range, Source)> {
    let region = objects.regions.get(&key(image))?;
    Some((region.whole(None), Source::Buffer(region.root.0)))
}

pub unsafe extern "C" fn read(
    queue: Queue,
    image: Mem,
    blocks: u32,
    origin: *const usize,
    region: *const usize,
    row: usize,
    slice: usize,
    to: *mut c_void,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, blocks, (count, waits), event);
        let work = Work::moving(Operation::HostRead, "clEnqueueReadImage");
        enqueue(
            &place,
            |objects, _| Ok(work.with(whole(objects, image), Role::Input)),
            |waits, event| {
                let (count, waits) = raw::wait_list(waits);
                behind!(clEnqueueReadImage)(
                    queue, image, 0, origin, region, row, slice, to, count, waits, event,
                )
            },
        )
    }
}

pub unsafe extern "C" fn write(
    queue: Queue,
    image: Mem,
    blocks: u32,
    origin: *const usize,
    region: *const usize,
    row: usize,
    slice: usize,
    from: *const c_void,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, blocks, (count, waits), event);
        let work = Work::moving(Operation::HostWrite, "clEnqueueWriteImage");
        enqueue(
            &place,
            |objects, _| Ok(work.with(whole(objects, image), Role::Output)),
            |waits, event| {
                let (count, waits) = raw::wait_list(waits);
                behind!(clEnqueueWriteImage)(
                    queue, image, 0, origin, region, row, slice, from, count, waits, event,
                )
            },
        )
    }
}

pub unsafe extern "C" fn copy(
    queue: Queue,
    from: Mem,
    to: Mem,
    from_origin: *const usize,
    to_origin: *const usize,
    region: *const usize,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, 0, (count, waits), event);
        let work = Work::moving(Operation::Copy, "clEnqueueCopyImage");
        let work = |objects: &mut Objects, _: &mut _| {
            Ok(work.with(whole(objects, from), Role::Input).with(whole(objects, to), Role::Output))
        };
        enqueue(&place, work, |waits, event| {
            let (count, waits) = raw::wait_list(waits);
            behind!(clEnqueueCopyImage)(queue, from, to, from_origin, to_origin, region, count, waits, event)
        })
    }
}

pub unsafe extern "C" fn copy_to_buffer(
    queue: Queue,
    from: Mem,
    to: Mem,
    origin: *const usize,
    region: *const usize,
    at: usize,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, 0, (count, waits), event);
        let work = Work::moving(Operation::Copy, "clEnqueueCopyImageToBuffer");
        let work = |objects: &mut Objects, _: &mut _| {
            // How far it writes follows from the image's format; all of the buffer holds it.
            Ok(work.with(whole(objects, from), Role::Input).with(whole(objects, to), Role::Output))
        };
        enqueue(&place, work, |waits, event| {
            let (count, waits) = raw::wait_list(waits);
            behind!(clEnqueueCopyImageToBuffer)(queue, from, to, origin, region, at, count, waits, event)
        })
    }
}

pub unsafe extern "C" fn copy_from_buffer(
    queue: Queue,
    from: Mem,
    to: Mem,
    at: usize,
    origin: *const usize,
    region: *const usize,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, 0, (count, waits), event);
        let work = Work::moving(Operation::Copy, "clEnqueueCopyBufferToImage");
        let work = |objects: &mut Objects, _: &mut _| {
            Ok(work.with(whole(objects, from), Role::Input).with(whole(objects, to), Role::Output))
        };
        enqueue(&place, work, |waits, event| {
            let (count, waits) = raw::wait_list(waits);
            behind!(clEnqueueCopyBufferToImage)(queue, from, to, at, origin, region, count, waits, event)
        })
    }
}

pub unsafe extern "C" fn fill(
    queue: Queue,
    image: Mem,
    colour: *const c_void,
    origin: *const usize,
    region: *const usize,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, 0, (count, waits), event);
        let work = Work::moving(Operation::Fill, "clEnqueueFillImage");
        enqueue(
            &place,
            |objects, _| Ok(work.with(whole(objects, image), Role::Output)),
            |waits, event| {
                let (count, waits) = raw::wait_list(waits);
                behind!(clEnqueueFillImage)(queue, image, colour, origin, region, count, waits, event)
            },
        )
    }
}

pub unsafe extern "C" fn map(
    queue: Queue,
    image: Mem,
    blocks: u32,
    flags: Bits,
    origin: *const usize,
    region: *const usize,
    row: *mut usize,
    slice: *mut usize,
    count: u32,
    waits: *const Event,
    event: *mut Event,
    status: *mut Status,
) -> *mut c_void {
    let mut mapped = std::ptr::null_mut();
    // SAFETY: the program's promises.
    let told = unsafe {
        let place = place(queue, blocks, (count, waits), event);
        let work = Work::moving(Operation::HostRead, "clEnqueueMapImage");
        enqueue(
            &place,
            |objects, _| Ok(work.with(whole(objects, image), Role::Input)),
            |waits, event| {
                let (count, waits) = raw::wait_list(waits);
                let mut told = ffi::SUCCESS;
                let told_at = &raw mut told;
                mapped = behind!(clEnqueueMapImage)(
                    queue, image, 0, flags, origin, region, row, slice, count, waits, event, told_at,
                );
                told
            },
        )
    };
    if !mapped.is_null() {
        let part = Layer::get().objects().regions.get(&key(image)).map(|region| (0, region.bytes));
        note_map(image, mapped, Mapped { flags, part });
    }
    if !status.is_null() {
        // SAFETY: the program's promise.
        unsafe { status.write(told) };
    }
    mapped
}
