//! Memory of a context to which content is copied on its way from a device, and the queue by which it is read from there.

use std::{ffi::c_void, ptr, sync::OnceLock};

use tensortap_device_kernels::RangeResult;
use tensortap_queue::{Room, Rooms};
use tensortap_record::UncapturedReason;

use crate::{
    ffi::{self, Context, Device, Event, Mem, Queue, SUCCESS},
    finder::{Finder, Finding, name_of},
    layer::Layer,
    probe::Source,
    raw,
};

/// Bytes of the memory, where nothing says otherwise and the device has eight times as much.
const BYTES: u64 = 256 << 20;
/// Bytes of shared memory, at most.
const SHARED_BYTES: u64 = 64 << 20;
/// Names another size.
const BYTES_VARIABLE: &str = "TENSORTAP_OPENCL_RING";

/// The memory. It is there as long as the program holds its context, queues of it, and what is on its way.
#[derive(Debug)]
pub struct Ring {
    context: Context,
    queue: Queue,
    memory: Mem,
    rooms: Rooms,
    /// The same for shared memory, which is allocated when the first is copied: where it begins.
    shared: OnceLock<Option<(usize, Rooms)>>,
    /// Our code on the device, where it could be built.
    finder: Option<Finder>,
}

// SAFETY: handles, which any thread may use.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

/// Content that a device copies, or has copied.
#[derive(Clone, Copy, Debug)]
pub enum Copy {
    /// To a piece of the memory: so many bytes of it.
    Buffer(Room, u64),
    /// Of shared memory, to a piece of shared memory: so many bytes of it.
    Shared(Room, u64),
}

impl Ring {
    /// Memory in a context, for one of its devices; none where it is not to be had. With `finds`, our code is built for the device.
    pub fn new(layer: &Layer, (context, device): (Context, Device), finds: bool) -> Option<Ring> {
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
        let finder = finds.then(|| Finder::new(layer, context, device)).and_then(|built| {
            built
                .inspect_err(|status| {
                    layer.tell_once(&format!(
                        "content of OpenCL launches is hashed by the host, for our code could not be built for a device: status {status}"
                    ));
                })
                .ok()
        });
        let ring = Ring { context, queue, memory, rooms: Rooms::new(bytes), shared: OnceLock::new(), finder };
        (status == SUCCESS && !memory.is_null()).then_some(ring)
    }

    /// Our code on the device, where it could be built.
    pub fn finder(&self) -> Option<&Finder> {
        self.finder.as_ref()
    }

    /// What a launch of our code has found, read by the queue of our own.
    pub fn results(&self, layer: &Layer, finding: &Finding) -> Option<Vec<Option<RangeResult>>> {
        self.finder.as_ref()?.results(layer, self.queue, finding)
    }

    /// Whether a buffer is its memory.
    pub fn is_memory(&self, mem: Mem) -> bool {
        mem == self.memory
    }

    /// Where a copy of a buffer lies, as a plan names it: the memory, and bytes before it.
    pub fn place_of(&self, copy: &Copy) -> Option<(u64, u64)> {
        match copy {
            Copy::Buffer(room, _) => Some((name_of(self.memory), room.at)),
            Copy::Shared(..) => None,
        }
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
        let flush = || {
            // SAFETY: the program's queue, which lives.
            layer.target.clFlush.map(|flush| unsafe { flush(queue) });
        };
        match source {
            Source::Buffer(buffer) => {
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
                let copy = layer.target.clEnqueueSVMMemcpy.ok_or(refused)?;
                let (memory, rooms) = self.shared(layer).ok_or(UncapturedReason::NoRoom)?;
                let room = rooms.take(bytes, flush).ok_or(UncapturedReason::NoRoom)?;
                let to = ptr::with_exposed_provenance_mut::<c_void>(*memory + offset(room));
                let from = ptr::with_exposed_provenance::<c_void>(start).wrapping_byte_add(at);
                // SAFETY: as many bytes lie at both places, until the copy is made.
                let status = unsafe { copy(queue, 0, to, from, size, count, list, &raw mut event) };
                if status != SUCCESS {
                    rooms.give([room]);
                    return Err(refused);
                }
                Ok((Copy::Shared(room, bytes), event))
            }
        }
    }

    /// Shared memory to copy shared memory to; none where it is not to be had. All of it is allocated at once: drivers do not like to allocate it beside a thread that frees some.
    fn shared(&self, layer: &Layer) -> Option<&(usize, Rooms)> {
        let allocate = || {
            let bytes = self.rooms.bytes().min(SHARED_BYTES);
            // SAFETY: the context lives with its queues.
            let start = unsafe {
                layer.target.clSVMAlloc?(self.context, ffi::MEM_READ_WRITE, usize::try_from(bytes).ok()?, 0)
            };
            (!start.is_null()).then(|| (start.expose_provenance(), Rooms::new(bytes)))
        };
        self.shared.get_or_init(allocate).as_ref()
    }

    /// Waits for content that was copied, by a queue of its own; none when the driver does not give it.
    pub fn read(&self, layer: &Layer, copy: &Copy) -> Option<Vec<u8>> {
        let (&Copy::Buffer(_, bytes) | &Copy::Shared(_, bytes)) = copy;
        let size = usize::try_from(bytes).ok()?;
        let mut content = vec![0_u8; size];
        // SAFETY: the content has room for as many.
        let is_read = unsafe { self.read_to(layer, copy, (0, size), content.as_mut_ptr()) };
        is_read.then_some(content)
    }

    /// The same of some bytes of it: how many stand before them, and how many they are. Whether they were read.
    ///
    /// # Safety
    /// As many can be written there.
    pub unsafe fn read_to(
        &self,
        layer: &Layer,
        copy: &Copy,
        (at, size): (usize, usize),
        to: *mut u8,
    ) -> bool {
        let (target, to, none) = (&layer.target, to.cast::<c_void>(), ptr::null_mut());
        let (Some(read), copied) = (target.clEnqueueReadBuffer, target.clEnqueueSVMMemcpy) else {
            return false;
        };
        // SAFETY: as many bytes lie at both places, and the calls return when they were moved.
        let status = unsafe {
            match (*copy, copied) {
                (Copy::Buffer(room, _), _) => {
                    let at = offset(room) + at;
                    read(self.queue, self.memory, 1, at, size, to, 0, ptr::null(), none)
                }
                (Copy::Shared(room, _), Some(copy)) => {
                    let Some((memory, _)) = self.shared(layer) else { return false };
                    let from = ptr::with_exposed_provenance::<c_void>(*memory + offset(room) + at);
                    copy(self.queue, 1, to, from, size, 0, ptr::null(), none)
                }
                (Copy::Shared(..), None) => ffi::INVALID_OPERATION,
            }
        };
        status == SUCCESS
    }

    /// What was copied was read, or is not wanted.
    pub fn free(&self, copies: Vec<Copy>) {
        let (mut rooms, mut shared) = (Vec::new(), Vec::new());
        for copy in copies {
            match copy {
                Copy::Buffer(room, _) => rooms.push(room),
                Copy::Shared(room, _) => shared.push(room),
            }
        }
        self.rooms.give(rooms);
        if let Some(Some((_, rooms))) = self.shared.get() {
            rooms.give(shared);
        }
    }
}

/// Bytes before a piece. It lies in memory of this process, or of a size that it can say.
fn offset(room: Room) -> usize {
    usize::try_from(room.at).unwrap_or(0)
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
            if let (Some(free), Some(Some((start, _)))) = (target.clSVMFree, self.shared.get()) {
                free(self.context, ptr::with_exposed_provenance_mut(*start));
            }
            if let Some(release) = target.clReleaseCommandQueue {
                release(self.queue);
            }
        }
    }
}
