//! Staging memory of a context, to which snapshots copy content, and the queue by which the host reads it.

use std::{ffi::c_void, ptr, sync::OnceLock};

use tensortap_device_kernels::RangeResult;
use tensortap_queue::{RingAllocator, RingSlice, number_from_environment};
use tensortap_record::UncapturedReason;

use crate::{
    device_hasher::{DeviceHasher, HashLaunch, name_of},
    ffi::{self, Context, Device, Event, Mem, Queue, SUCCESS},
    layer::Layer,
    raw::{self, info},
    snapshot::Source,
};

/// Default size in bytes. A device with less than eight times as much memory gets an eighth of its memory.
const BYTES: u64 = 256 << 20;
/// Maximal size of the staging memory for shared virtual memory, in bytes.
const SHARED_BYTES: u64 = 64 << 20;
/// Overrides the default size.
const BYTES_VARIABLE: &str = "TENSORTAP_OPENCL_RING";

/// The staging memory. It lives as long as the program holds its context, a queue of it lives, or a snapshot uses it.
#[derive(Debug)]
pub struct Ring {
    context: Context,
    queue: Queue,
    memory: Mem,
    allocator: RingAllocator,
    /// Start address and allocator of the staging memory for shared virtual memory. The first copy allocates it.
    shared: OnceLock<Option<(usize, RingAllocator)>>,
    /// Code on the device, if it could be built.
    hasher: Option<DeviceHasher>,
}

// SAFETY: any thread may use the handles.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

/// Content that the device copies, or has copied: the staging memory, and its size in bytes.
#[derive(Clone, Copy, Debug)]
pub enum RingCopy {
    /// A copy of a buffer.
    Buffer(RingSlice, u64),
    /// A copy of shared virtual memory.
    Shared(RingSlice, u64),
}

impl Ring {
    /// Allocates staging memory in a context, for one of its devices. None if there is no memory. If `hashes` is true,
    /// also builds the code that hashes on the device.
    pub fn new(layer: &Layer, (context, device): (Context, Device), hashes: bool) -> Option<Ring> {
        let ask = |what| raw::value::<u64>(info!(layer.target, clGetDeviceInfo(device, what)));
        let bytes = match number_from_environment(BYTES_VARIABLE) {
            Some(bytes) => bytes,
            None => BYTES.min(ask(ffi::DEVICE_GLOBAL_MEM_SIZE)? / 8),
        };
        let bytes = bytes.min(ask(ffi::DEVICE_MAX_MEM_ALLOC_SIZE)?);
        let size = usize::try_from(bytes).ok()?;
        let (mut status, target) = (SUCCESS, &layer.target);
        // SAFETY: context and device are those of a queue of the program, which lives.
        let queue = unsafe { create_queue(layer, context, device) }?;
        // SAFETY: as above. The driver gets no host memory.
        let memory = unsafe {
            let (flags, nothing) = (ffi::MEM_READ_WRITE, ptr::null_mut());
            target.clCreateBuffer?(context, flags, size, nothing, &raw mut status)
        };
        let hasher = hashes.then(|| DeviceHasher::new(layer, context, device)).and_then(|built| {
            built
                .inspect_err(|status| {
                    layer.note_once(&format!(
                        "the host hashes the content of OpenCL launches, because the device code could not be built: \
                         status {status}"
                    ));
                })
                .ok()
        });
        let (allocator, shared) = (RingAllocator::new(bytes), OnceLock::new());
        let ring = Ring { context, queue, memory, allocator, shared, hasher };
        (status == SUCCESS && !memory.is_null()).then_some(ring)
    }

    /// Code on the device, if it could be built.
    pub fn hasher(&self) -> Option<&DeviceHasher> {
        self.hasher.as_ref()
    }

    /// The results of a launch of device code. It must have run.
    pub fn results(&self, layer: &Layer, launch: &HashLaunch) -> Option<Vec<Option<RangeResult>>> {
        self.hasher.as_ref()?.results(layer, self.queue, launch)
    }

    /// Whether a buffer is the staging memory.
    pub fn is_memory(&self, mem: Mem) -> bool {
        mem == self.memory
    }

    /// Where a copy is, as a hash plan names it: the buffer and the offset. None for shared virtual memory.
    pub fn place_of(&self, copy: &RingCopy) -> Option<(u64, u64)> {
        match copy {
            RingCopy::Buffer(slice, _) => Some((name_of(self.memory), slice.offset)),
            RingCopy::Shared(..) => None,
        }
    }

    /// Puts a copy of some bytes into a queue: `at` is their offset in their memory. The caller releases the event.
    ///
    /// # Errors
    /// If there is no room, or the driver refuses.
    pub fn copy(
        &self,
        layer: &Layer,
        queue: Queue,
        (source, (at, bytes)): (Source, (u64, u64)),
        waits: &[Event],
    ) -> Result<(RingCopy, Event), UncapturedReason> {
        let refused = UncapturedReason::NoAccess;
        let size = usize::try_from(bytes).map_err(|_| refused)?;
        let at = usize::try_from(at).map_err(|_| refused)?;
        let (count, list) = raw::wait_list(waits);
        let mut event = ptr::null_mut();
        let flush = || {
            // SAFETY: the program's queue lives.
            layer.target.clFlush.map(|flush| unsafe { flush(queue) });
        };
        match source {
            Source::Buffer(buffer) => {
                let copy = layer.target.clEnqueueCopyBuffer.ok_or(refused)?;
                let slice = self.allocator.allocate(bytes, flush).ok_or(UncapturedReason::NoRoom)?;
                // SAFETY: the objects live, and only this copy uses the slice until it is freed.
                let status = unsafe {
                    let to = offset(slice);
                    copy(queue, buffer, self.memory, at, to, size, count, list, &raw mut event)
                };
                if status != SUCCESS {
                    self.allocator.free([slice]);
                    return Err(refused);
                }
                Ok((RingCopy::Buffer(slice, bytes), event))
            }
            Source::Address(start) => {
                let copy = layer.target.clEnqueueSVMMemcpy.ok_or(refused)?;
                let (memory, allocator) = self.shared(layer).ok_or(UncapturedReason::NoRoom)?;
                let slice = allocator.allocate(bytes, flush).ok_or(UncapturedReason::NoRoom)?;
                let to = ptr::with_exposed_provenance_mut::<c_void>(*memory + offset(slice));
                let from = ptr::with_exposed_provenance::<c_void>(start).wrapping_byte_add(at);
                // SAFETY: both places have this many bytes until the copy is done.
                let status = unsafe { copy(queue, 0, to, from, size, count, list, &raw mut event) };
                if status != SUCCESS {
                    allocator.free([slice]);
                    return Err(refused);
                }
                Ok((RingCopy::Shared(slice, bytes), event))
            }
        }
    }

    /// The staging memory for shared virtual memory. None if there is no memory. It is allocated at once: drivers may
    /// fail if one thread allocates shared memory while another frees some.
    fn shared(&self, layer: &Layer) -> Option<&(usize, RingAllocator)> {
        let allocate = || {
            let bytes = self.allocator.bytes().min(SHARED_BYTES);
            // SAFETY: the context lives as long as its queues.
            let start = unsafe {
                layer.target.clSVMAlloc?(self.context, ffi::MEM_READ_WRITE, usize::try_from(bytes).ok()?, 0)
            };
            (!start.is_null()).then(|| (start.expose_provenance(), RingAllocator::new(bytes)))
        };
        self.shared.get_or_init(allocate).as_ref()
    }

    /// Reads a copy to the host, and waits for it. The copy must be done. None if the driver refuses.
    pub fn read(&self, layer: &Layer, copy: &RingCopy) -> Option<Vec<u8>> {
        let (&RingCopy::Buffer(_, bytes) | &RingCopy::Shared(_, bytes)) = copy;
        let size = usize::try_from(bytes).ok()?;
        let mut content = vec![0_u8; size];
        // SAFETY: the vector has this size.
        let is_read = unsafe { self.read_to(layer, copy, (0, size), content.as_mut_ptr()) };
        is_read.then_some(content)
    }

    /// Reads `size` bytes of a copy from offset `at` on, and waits for them. Returns whether they were read.
    ///
    /// # Safety
    /// `size` bytes can be written at `to`.
    pub unsafe fn read_to(
        &self,
        layer: &Layer,
        copy: &RingCopy,
        (at, size): (usize, usize),
        to: *mut u8,
    ) -> bool {
        let (target, to, none) = (&layer.target, to.cast::<c_void>(), ptr::null_mut());
        let (Some(read), copied) = (target.clEnqueueReadBuffer, target.clEnqueueSVMMemcpy) else {
            return false;
        };
        // SAFETY: both places have this many bytes, and the calls block until the bytes are copied.
        let status = unsafe {
            match (*copy, copied) {
                (RingCopy::Buffer(slice, _), _) => {
                    let at = offset(slice) + at;
                    read(self.queue, self.memory, 1, at, size, to, 0, ptr::null(), none)
                }
                (RingCopy::Shared(slice, _), Some(copy)) => {
                    let Some((memory, _)) = self.shared(layer) else { return false };
                    let from = ptr::with_exposed_provenance::<c_void>(*memory + offset(slice) + at);
                    copy(self.queue, 1, to, from, size, 0, ptr::null(), none)
                }
                (RingCopy::Shared(..), None) => ffi::INVALID_OPERATION,
            }
        };
        status == SUCCESS
    }

    /// Frees copies that were read or are not needed.
    pub fn free(&self, copies: Vec<RingCopy>) {
        let (mut buffers, mut shared) = (Vec::new(), Vec::new());
        for copy in copies {
            match copy {
                RingCopy::Buffer(slice, _) => buffers.push(slice),
                RingCopy::Shared(slice, _) => shared.push(slice),
            }
        }
        self.allocator.free(buffers);
        if let Some(Some((_, allocator))) = self.shared.get() {
            allocator.free(shared);
        }
    }
}

/// The offset of a slice. The memory is smaller than the address space.
fn offset(slice: RingSlice) -> usize {
    usize::try_from(slice.offset).unwrap_or(0)
}

/// Creates a queue for the layer.
///
/// # Safety
/// Context and device live.
unsafe fn create_queue(layer: &Layer, context: Context, device: Device) -> Option<Queue> {
    let (target, mut status) = (&layer.target, SUCCESS);
    // SAFETY: the caller's guarantee. There are no properties.
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
        // SAFETY: the ring created these objects, and nothing uses them any more.
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
