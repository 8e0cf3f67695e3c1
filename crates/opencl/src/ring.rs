//! Memory of a context to which content is copied on its way from a device, and the queue by which it is read from there.

use std::{ffi::c_void, ptr};

use tensortap_queue::{Room, Rooms};
use tensortap_record::UncapturedReason;

use crate::{
    ffi::{self, Context, Device, Event, Mem, Queue, SUCCESS},
    layer::Layer,
    probe::Source,
    raw,
};

/// Bytes of the memory, where nothing says otherwise and the device has eight times as much.
const BYTES: u64 = 256 << 20;
/// Names another size.
const BYTES_VARIABLE: &str = "TENSORTAP_OPENCL_RING";

/// The memory. It is there as long as queues of its context, and what is on its way.
#[derive(Debug)]
pub struct Ring {
    context: Context,
    queue: Queue,
    memory: Mem,
    rooms: Rooms,
}

// SAFETY: handles, which any thread may use.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

/// Content that a device copies, or has copied.
#[derive(Debug)]
pub enum Copy {
    /// To a piece of the memory: so many bytes of it.
    Buffer(Room, u64),
    /// Of shared memory, to some that was allocated for it: address and bytes.
    Shared(usize, u64),
}

impl Ring {
    /// Memory in a context, for one of its devices; none where it is not to be had.
    pub fn new(layer: &Layer, context: Context, device: Device) -> Option<Ring> {
        let ask = |what| {
            raw::value::<u64>(|room, value, size| match layer.target.clGetDeviceInfo {
                // SAFETY: a device of the program's, and what is written to is this call's.
                Some(ask) => unsafe { ask(device, what, room, value, size) },
                None => ffi::INVALID_OPERATION,
            })
        };
        let said = std::env::var(BYTES_VARIABLE).ok().and_then(|said| said.parse().ok());
        let bytes = match said {
            Some(bytes) => bytes,
            None => BYTES.min(ask(ffi::DEVICE_GLOBAL_MEM_SIZE)? / 8),
        };
        let bytes = bytes.min(ask(ffi::DEVICE_MAX_MEM_ALLOC_SIZE)?);
        let size = usize::try_from(bytes).ok()?;
        let (mut status, target) = (SUCCESS, &layer.target);
        // SAFETY: context and device are the program's queue's, which lives.
        let queue = unsafe { own_queue(layer, context, device) }?;
        // SAFETY: as above; nothing is handed over.
        let memory = unsafe {
            let (flags, nothing) = (ffi::MEM_READ_WRITE, ptr::null_mut());
            target.clCreateBuffer?(context, flags, size, nothing, &raw mut status)
        };
        let ring = Ring { context, queue, memory, rooms: Rooms::new(bytes) };
        (status == SUCCESS && !memory.is_null()).then_some(ring)
    }

    /// Puts a copy of some bytes into a queue: from how many on in their memory, and how many. The event is the caller's.
    ///
    /// # Errors
    /// When there is no room, or the driver refuses.
    pub fn copy(
        &self,
        layer: &Layer,
        queue: Queue,
        (source, (at, bytes)): (Source, (u64, u64)),
        waits: &[Event],
    ) -> Result<(Copy, Event), UncapturedReason> {
        let refused = UncapturedReason::NoAccess;
        let size = usize::try_from(bytes).map_err(|_| refused)?;
        let at = usize::try_from(at).map_err(|_| refused)?;
        let (count, list) = raw::wait_list(waits);
        let mut event = ptr::null_mut();
        match source {
            Source::Buffer(buffer) => {
                let flush = || {
                    // SAFETY: the program's queue, which lives.
                    layer.target.clFlush.map(|flush| unsafe { flush(queue) });
                };
                let room = self.rooms.take(bytes, flush).ok_or(UncapturedReason::NoRoom)?;
                let copy = layer.target.clEnqueueCopyBuffer.ok_or(refused)?;
                let to = usize::try_from(room.at).map_err(|_| refused)?;
                // SAFETY: objects that live; the room is this copy's until it was read.
                let status =
                    unsafe { copy(queue, buffer, self.memory, at, to, size, count, list, &raw mut event) };
                if status != SUCCESS {
                    self.rooms.give([room]);
                    return Err(refused);
                }
                Ok((Copy::Buffer(room, bytes), event))
            }
            Source::Address(start) => {
                let (allocate, copy) =
                    layer.target.clSVMAlloc.zip(layer.target.clEnqueueSVMMemcpy).ok_or(refused)?;
                // SAFETY: the context lives with its queues.
                let to = unsafe { allocate(self.context, ffi::MEM_READ_WRITE, size, 0) };
                if to.is_null() {
                    return Err(UncapturedReason::NoRoom);
                }
                let from = ptr::with_exposed_provenance::<c_void>(start).wrapping_byte_add(at);
                // SAFETY: as many bytes lie at both places, until the copy is made.
                let status = unsafe { copy(queue, 0, to, from, size, count, list, &raw mut event) };
                let copy = Copy::Shared(to.expose_provenance(), bytes);
                if status != SUCCESS {
                    self.free(layer, vec![copy]);
                    return Err(refused);
                }
                Ok((copy, event))
            }
        }
    }

    /// Waits for content that was copied, by a queue of its own; none when the driver does not give it.
    pub fn read(&self, layer: &Layer, copy: &Copy) -> Option<Vec<u8>> {
        let (&Copy::Buffer(_, bytes) | &Copy::Shared(_, bytes)) = copy;
        let size = usize::try_from(bytes).ok()?;
        let mut content = vec![0_u8; size];
        let (to, none) = (content.as_mut_ptr().cast::<c_void>(), ptr::null_mut());
        // SAFETY: as many bytes lie at both places, and the call returns when they were moved.
        let status = unsafe {
            match *copy {
                Copy::Buffer(room, _) => {
                    let at = usize::try_from(room.at).ok()?;
                    let read = layer.target.clEnqueueReadBuffer?;
                    read(self.queue, self.memory, 1, at, size, to, 0, ptr::null(), none)
                }
                Copy::Shared(from, _) => {
                    let from = ptr::with_exposed_provenance(from);
                    let copy = layer.target.clEnqueueSVMMemcpy?;
                    copy(self.queue, 1, to, from, size, 0, ptr::null(), none)
                }
            }
        };
        (status == SUCCESS).then_some(content)
    }

    /// What was copied was read, or is not wanted.
    pub fn free(&self, layer: &Layer, copies: Vec<Copy>) {
        let mut rooms = Vec::new();
        for copy in copies {
            match copy {
                Copy::Buffer(room, _) => rooms.push(room),
                Copy::Shared(start, _) => {
                    if let Some(free) = layer.target.clSVMFree {
                        // SAFETY: allocated for this copy, which is over.
                        unsafe { free(self.context, ptr::with_exposed_provenance_mut(start)) };
                    }
                }
            }
        }
        self.rooms.give(rooms);
    }
}

/// A queue of our own.
///
/// # Safety
/// Context and device live.
unsafe fn own_queue(layer: &Layer, context: Context, device: Device) -> Option<Queue> {
    let (target, mut status) = (&layer.target, SUCCESS);
    // SAFETY: the caller's promise; no properties.
    let queue = unsafe {
        match (target.clCreateCommandQueueWithProperties, target.clCreateCommandQueue) {
            (Some(create), _) => create(context, device, ptr::null(), &raw mut status),
            (None, Some(create)) => create(context, device, 0, &raw mut status),
            (None, None) => return None,
        }
    };
    (status == SUCCESS && !queue.is_null()).then_some(queue)
}

impl Drop for Ring {
    fn drop(&mut self) {
        let target = &Layer::get().target;
        // SAFETY: made here, and nobody uses them any more.
        unsafe {
            if let Some(release) = target.clReleaseMemObject.filter(|_| !self.memory.is_null()) {
                release(self.memory);
            }
            if let Some(release) = target.clReleaseCommandQueue {
                release(self.queue);
            }
        }
    }
}
