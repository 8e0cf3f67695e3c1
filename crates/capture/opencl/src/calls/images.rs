//! Images. Their content is not captured, except for images that were created from a buffer: their content is the
//! buffer's.

use std::ffi::c_void;

use tensortap_queue::Range;
use tensortap_record::{Operation, Role};

use super::{
    driver_fn, enqueue_functions,
    memory::{add_opaque, watch_destruction},
    transfers::enqueue_map,
};
use crate::{
    enqueue::{CommandSpec, QueueTarget},
    ffi::{Bits, Context, Event, Mem, Queue, Status},
    layer::Layer,
    objects::{Objects, key},
    snapshot::Source,
};

/// Offset of the source object in `cl_image_desc`, in bytes.
const SOURCE_OFFSET: usize = 64;

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
    // SAFETY: the program's guarantees.
    add_opaque(unsafe {
        driver_fn!(clCreateImage2D)(context, flags, format, width, height, row, content, status)
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
    // SAFETY: the program's guarantees.
    add_opaque(unsafe {
        driver_fn!(clCreateImage3D)(context, flags, format, width, height, depth, row, slice, content, status)
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
    // SAFETY: the program's guarantees.
    unsafe {
        add(driver_fn!(clCreateImage)(context, flags, format, description, content, status), description)
    }
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
    // SAFETY: the program's guarantees.
    unsafe {
        let create = driver_fn!(clCreateImageWithProperties);
        add(create(context, properties, flags, format, description, content, status), description)
    }
}

/// Adds a new image.
///
/// # Safety
/// If the image is not null, the driver has read the description.
unsafe fn add(image: Mem, description: *const c_void) -> Mem {
    if image.is_null() || description.is_null() {
        return image;
    }
    // SAFETY: the driver has read the whole description.
    let source: Mem = unsafe { description.cast::<u8>().add(SOURCE_OFFSET).cast::<Mem>().read_unaligned() };
    let layer = Layer::get();
    let region = layer.objects().regions.get(&key(source)).copied();
    match region {
        Some(region) if !source.is_null() => {
            layer.objects().regions.insert(key(image), region);
            watch_destruction(layer, image);
            image
        }
        _ => add_opaque(image),
    }
}

/// The memory of an image that was created from a buffer: the whole buffer.
fn whole(objects: &Objects, image: Mem) -> Option<(Range, Source)> {
    let region = objects.regions.get(&key(image))?;
    Some((region.whole(None), Source::Buffer(region.root.0)))
}

enqueue_functions! {
    fn read = clEnqueueReadImage(
        image: Mem; blocks; origin: *const usize, region: *const usize, row: usize, slice: usize, to: *mut c_void
    ) HostRead |objects| { whole(objects, image) => Input }

    fn write = clEnqueueWriteImage(
        image: Mem; blocks; origin: *const usize, region: *const usize, row: usize, slice: usize, from: *const c_void
    ) HostWrite |objects| { whole(objects, image) => Output }

    fn copy = clEnqueueCopyImage(
        from: Mem, to: Mem, from_origin: *const usize, to_origin: *const usize, region: *const usize
    ) Copy |objects| { whole(objects, from) => Input, whole(objects, to) => Output }

    /// The size that it writes depends on the image's format. So the whole buffer is its output.
    fn copy_to_buffer = clEnqueueCopyImageToBuffer(
        from: Mem, to: Mem, origin: *const usize, region: *const usize, at: usize
    ) Copy |objects| { whole(objects, from) => Input, whole(objects, to) => Output }

    fn copy_from_buffer = clEnqueueCopyBufferToImage(
        from: Mem, to: Mem, at: usize, origin: *const usize, region: *const usize
    ) Copy |objects| { whole(objects, from) => Input, whole(objects, to) => Output }

    fn fill = clEnqueueFillImage(
        image: Mem, color: *const c_void, origin: *const usize, region: *const usize
    ) Fill |objects| { whole(objects, image) => Output }
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
    let part = Layer::get().objects().regions.get(&key(image)).map(|region| (0, region.bytes));
    // SAFETY: the program's guarantees.
    unsafe {
        let target = QueueTarget::new(queue, blocks, (count, waits), event);
        let spec = |objects: &mut Objects, _: &mut _| {
            let spec = CommandSpec::transfer(Operation::HostRead, "clEnqueueMapImage");
            Ok(spec.with(whole(objects, image), Role::Input))
        };
        enqueue_map(&target, spec, (image, flags, part), status, |count, waits, event, status| {
            driver_fn!(clEnqueueMapImage)(
                queue, image, 0, flags, origin, region, row, slice, count, waits, event, status,
            )
        })
    }
}
