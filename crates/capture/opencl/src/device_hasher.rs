//! Code on the device that computes hashes and statistics of memory in place (`tensortap-device-kernels`).
//! The device computes the leaves of the hash tree in the queue of a command. The host computes the root from
//! them.

use std::{
    ffi::{CStr, CString, c_char, c_void},
    ptr,
    sync::{Mutex, PoisonError},
};

use tensortap_device_kernels::{
    BUFFERS, Build, HASH_LEAVES, MEASURE_LEAVES, Part, Plan, Range, RangeResult, SOURCE,
};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::{
    ffi::{self, Context, Device, Event, Kernel, Mem, Program, Queue, SUCCESS, Status},
    layer::Layer,
    raw::{self, info},
};

/// At most this many result buffers exist at a time.
const MAX_POOL: usize = 4096;
/// Result buffers have room for at least this many bundles.
const MIN_BUNDLES: u64 = 16;
/// Result buffers have room for at least this many ranges.
const MIN_RANGES: usize = 16;

/// The code, built for one device of a context.
pub struct DeviceHasher {
    context: Context,
    program: Program,
    build: Build,
    /// The kernel without and the kernel with statistics. Locked while arguments are set and a launch enters
    /// a queue.
    kernels: Mutex<[Kernel; 2]>,
    pool: Mutex<BufferPool>,
}

#[derive(Default)]
struct BufferPool {
    free: Vec<ResultBuffers>,
    count: usize,
}

/// Where one launch writes its results: buffers for ranges, leaf hashes, sums and parts.
#[derive(Clone, Copy)]
struct ResultBuffers {
    memory: [Mem; 4],
    bundles: u64,
    ranges: usize,
}

/// A launch of the code that is in its queue.
pub struct HashLaunch {
    /// What it hashes. The device reads the ranges of the plan until the launch has run.
    pub plan: Plan,
    result: ResultBuffers,
}

// SAFETY: any thread may use the handles, and the mutex lets one thread at a time use the kernels.
unsafe impl Send for DeviceHasher {}
// SAFETY: as above.
unsafe impl Sync for DeviceHasher {}
// SAFETY: any thread may use the handles.
unsafe impl Send for HashLaunch {}

impl std::fmt::Debug for DeviceHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceHasher").field("build", &self.build).finish_non_exhaustive()
    }
}

impl DeviceHasher {
    /// Builds the code.
    ///
    /// # Errors
    /// The driver's status, if the code cannot be built.
    pub fn new(layer: &Layer, context: Context, device: Device) -> Result<DeviceHasher, Status> {
        let build = build_for(layer, device).ok_or(ffi::INVALID_OPERATION)?;
        let target = &layer.target;
        let (Some(create), Some(compile), Some(kernel)) =
            (target.clCreateProgramWithSource, target.clBuildProgram, target.clCreateKernel)
        else {
            return Err(ffi::INVALID_OPERATION);
        };
        // Compiler warnings about this code do not concern the program.
        let options = CString::new(build.opencl_options() + " -w").unwrap_or_default();
        let (text, bytes, mut status) = (SOURCE.as_ptr().cast::<c_char>(), SOURCE.len(), SUCCESS);
        // SAFETY: one text with its length. Context and device are those of a queue of the program.
        let program = unsafe { create(context, 1, &raw const text, &raw const bytes, &raw mut status) };
        if program.is_null() {
            return Err(status);
        }
        let none = [ptr::null_mut(); 2];
        let (kernels, pool) = (Mutex::new(none), Mutex::default());
        let hasher = DeviceHasher { context, program, build, kernels, pool };
        // SAFETY: as above. There is no callback.
        status = unsafe { compile(program, 1, &raw const device, options.as_ptr(), None, ptr::null_mut()) };
        let named = |name: &str| {
            let (name, mut status) = (CString::new(name).unwrap_or_default(), SUCCESS);
            // SAFETY: the program was built above, and the name ends with a zero byte.
            let made = unsafe { kernel(program, CStr::as_ptr(&name), &raw mut status) };
            if status == SUCCESS { Ok(made) } else { Err(status) }
        };
        if status != SUCCESS {
            return Err(status);
        }
        *hasher.kernels.lock().unwrap_or_else(PoisonError::into_inner) =
            [named(HASH_LEAVES)?, named(MEASURE_LEAVES)?];
        Ok(hasher)
    }

    /// Puts a launch into a queue that hashes the ranges of a plan. Its first command waits for `waits`. The
    /// caller releases the events.
    ///
    /// # Errors
    /// The driver's status, or [`ffi::INVALID_OPERATION`] if there is no room for results.
    pub fn enqueue(
        &self,
        layer: &Layer,
        queue: Queue,
        plan: Plan,
        waits: &[Event],
    ) -> Result<(HashLaunch, [Event; 2]), Status> {
        let write = layer.target.clEnqueueWriteBuffer.ok_or(ffi::INVALID_OPERATION)?;
        let result = self.allocate(layer, &plan).ok_or(ffi::INVALID_OPERATION)?;
        let launch = HashLaunch { plan, result };
        let ranges = launch.plan.ranges().as_bytes();
        let (count, list) = raw::wait_list(waits);
        let mut written = ptr::null_mut();
        // SAFETY: the ranges live as long as the launch, which is kept until the command has run. The buffer
        // has room for them.
        let status = unsafe {
            let from = ranges.as_ptr().cast();
            write(queue, result.memory[0], 0, 0, ranges.len(), from, count, list, &raw mut written)
        };
        if status != SUCCESS {
            self.free(launch);
            return Err(status);
        }
        match self.launch_kernel(layer, queue, &launch, written) {
            Ok(event) => Ok((launch, [written, event])),
            Err(status) => {
                // The write is in the queue and reads the ranges when it runs.
                std::mem::forget(launch);
                layer.release(written);
                Err(status)
            }
        }
    }

    fn launch_kernel(
        &self,
        layer: &Layer,
        queue: Queue,
        launch: &HashLaunch,
        waits: Event,
    ) -> Result<Event, Status> {
        let (Some(set), Some(enqueue)) = (layer.target.clSetKernelArg, layer.target.clEnqueueNDRangeKernel)
        else {
            return Err(ffi::INVALID_OPERATION);
        };
        let plan = &launch.plan;
        let kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let kernel = kernels[usize::from(plan.measures())];
        let count = u32::try_from(plan.ranges().len()).unwrap_or(u32::MAX);
        let buffers = plan.buffers().iter().map(|&buffer| mem_of(buffer));
        // Unused arguments get null.
        let buffers = buffers.chain(std::iter::repeat(ptr::null_mut())).take(BUFFERS);
        let mut event = ptr::null_mut();
        // SAFETY: the arguments have the sizes that the kernel declares, and the mutex lets one thread at a
        // time set them.
        unsafe {
            let mut status = set(kernel, 0, size_of::<u32>(), (&raw const count).cast());
            for (at, mem) in (1..).zip(launch.result.memory.into_iter().chain(buffers)) {
                let value = if mem.is_null() { ptr::null() } else { (&raw const mem).cast::<c_void>() };
                let result = set(kernel, at, size_of::<Mem>(), value);
                status = if status == SUCCESS { result } else { status };
            }
            if status != SUCCESS {
                return Err(status);
            }
            let group = self.build.group as usize;
            let items = plan.bundles() as usize * group;
            let (items, group, waits) = (&raw const items, &raw const group, &raw const waits);
            match enqueue(queue, kernel, 1, ptr::null(), items, group, 1, waits, &raw mut event) {
                SUCCESS => Ok(event),
                status => Err(status),
            }
        }
    }

    /// The results of a launch that has run, for each range of its plan. `own` is the layer's queue, which
    /// reads them. None if the driver refuses.
    pub fn results(
        &self,
        layer: &Layer,
        own: Queue,
        launch: &HashLaunch,
    ) -> Option<Vec<Option<RangeResult>>> {
        let scratch = launch.plan.scratch();
        let [_, hashes, _, parts] = launch.result.memory;
        let hashes = read::<[u64; 2]>(layer, own, hashes, scratch.leaf_hashes)?;
        let parts = match launch.plan.measures() {
            true => read::<Part>(layer, own, parts, scratch.parts)?,
            false => Vec::new(),
        };
        Some(launch.plan.finish(&hashes, &parts))
    }

    /// Frees a launch whose results were read or are not needed.
    pub fn free(&self, launch: HashLaunch) {
        let HashLaunch { plan, result } = launch;
        // The device has read its ranges.
        drop(plan);
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).free.push(result);
    }

    /// The smallest free result buffers that are large enough, or new ones.
    fn allocate(&self, layer: &Layer, plan: &Plan) -> Option<ResultBuffers> {
        let (bundles, ranges) = (u64::from(plan.bundles()), plan.ranges().len());
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |result: &ResultBuffers| result.bundles >= bundles && result.ranges >= ranges;
        let fitting = pool.free.iter().enumerate().filter(|(_, result)| fits(result));
        if let Some((at, _)) = fitting.min_by_key(|(_, result)| result.bundles) {
            return Some(pool.free.swap_remove(at));
        }
        if pool.count == MAX_POOL {
            // The pool is full. Replace buffers that are too small.
            let small = pool.free.pop()?;
            pool.count -= 1;
            small.release(layer);
        }
        pool.count += 1;
        drop(pool);
        let room = (bundles.max(MIN_BUNDLES).next_power_of_two(), ranges.max(MIN_RANGES).next_power_of_two());
        let made = ResultBuffers::new(layer, self.context, plan, room);
        if made.is_none() {
            self.pool.lock().unwrap_or_else(PoisonError::into_inner).count -= 1;
        }
        made
    }
}

impl ResultBuffers {
    /// Result buffers for this many bundles and ranges.
    fn new(
        layer: &Layer,
        context: Context,
        plan: &Plan,
        (bundles, ranges): (u64, usize),
    ) -> Option<ResultBuffers> {
        let create = layer.target.clCreateBuffer?;
        let of_plan = plan.scratch();
        let scaled = |bytes: u64| usize::try_from(bytes / u64::from(plan.bundles().max(1)) * bundles).ok();
        let sizes = [
            Some(ranges * size_of::<Range>()),
            scaled(of_plan.leaf_hashes),
            scaled(of_plan.sums),
            scaled(of_plan.parts),
        ];
        let mut result = ResultBuffers { memory: [ptr::null_mut(); 4], bundles, ranges };
        for (mem, size) in result.memory.iter_mut().zip(sizes) {
            // SAFETY: the context lives as long as its queues. The driver gets no host memory.
            *mem = unsafe { create(context, ffi::MEM_READ_WRITE, size?, ptr::null_mut(), ptr::null_mut()) };
        }
        if result.memory.iter().any(|mem| mem.is_null()) {
            result.release(layer);
            return None;
        }
        Some(result)
    }

    fn release(&self, layer: &Layer) {
        if let Some(release) = layer.target.clReleaseMemObject {
            for &mem in self.memory.iter().filter(|mem| !mem.is_null()) {
                // SAFETY: the buffer was created for this, and nothing uses it any more.
                unsafe { release(mem) };
            }
        }
    }
}

impl Drop for DeviceHasher {
    fn drop(&mut self) {
        let layer = Layer::get();
        for result in &self.pool.get_mut().unwrap_or_else(PoisonError::into_inner).free {
            result.release(layer);
        }
        let kernels = *self.kernels.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: these objects were created here, and nothing uses them any more.
        unsafe {
            if let Some(release) = layer.target.clReleaseKernel {
                for kernel in kernels.into_iter().filter(|kernel| !kernel.is_null()) {
                    release(kernel);
                }
            }
            if let Some(release) = layer.target.clReleaseProgram {
                release(self.program);
            }
        }
    }
}

/// The number of a buffer in a plan.
pub fn name_of(mem: Mem) -> u64 {
    mem.expose_provenance() as u64
}

/// The buffer of such a number.
pub fn mem_of(name: u64) -> Mem {
    ptr::with_exposed_provenance_mut(usize::try_from(name).unwrap_or(0))
}

/// How the code is built for a device.
fn build_for(layer: &Layer, device: Device) -> Option<Build> {
    let word = |what| raw::value::<u64>(info!(layer.target, clGetDeviceInfo(device, what)));
    let fp64 = word(ffi::DEVICE_DOUBLE_FP_CONFIG).is_some_and(|config| config != 0);
    if word(ffi::DEVICE_TYPE)? & ffi::DEVICE_TYPE_CPU != 0 {
        return Some(Build::processor(fp64));
    }
    Build::accelerator(usize::try_from(word(ffi::DEVICE_MAX_WORK_GROUP_SIZE)?).ok()?, fp64)
}

/// Reads the first bytes of a buffer, and waits for them.
fn read<T: FromZeros + FromBytes + IntoBytes + Clone>(
    layer: &Layer,
    own: Queue,
    mem: Mem,
    bytes: u64,
) -> Option<Vec<T>> {
    let count = usize::try_from(bytes).ok()? / size_of::<T>();
    let mut content = vec![T::new_zeroed(); count];
    let read = layer.target.clEnqueueReadBuffer?;
    let to = content.as_mut_bytes();
    // SAFETY: both places have this many bytes, and the call blocks until the bytes are copied.
    let status =
        unsafe { read(own, mem, 1, 0, to.len(), to.as_mut_ptr().cast(), 0, ptr::null(), ptr::null_mut()) };
    (status == SUCCESS).then_some(content)
}
