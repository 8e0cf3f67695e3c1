//! Our code on a device: hash and statistics of memory where it is (`tensortap-device-kernels`). Leaves are taken in the queue of a command; roots on the host, from what leaves have left.

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
    raw,
};

/// Places for findings that there are at most.
const MOST_TABLES: usize = 4096;
/// The fewest bundles that a place has room for.
const FEWEST_BUNDLES: u64 = 16;
/// The fewest ranges.
const FEWEST_RANGES: usize = 16;

/// The code, built for a device of a context.
pub struct Finder {
    context: Context,
    program: Program,
    build: Build,
    /// Without statistics, and with. Held while arguments are set and a launch goes in.
    kernels: Mutex<[Kernel; 2]>,
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    free: Vec<Table>,
    count: usize,
}

/// Where one launch leaves its findings: memory for ranges, hashes of leaves, sums and parts.
#[derive(Clone, Copy)]
struct Table {
    memory: [Mem; 4],
    bundles: u64,
    ranges: usize,
}

/// What a launch finds, or has found.
pub struct Finding {
    /// What it was asked. Its ranges are read by the device until it has run.
    pub plan: Plan,
    table: Table,
}

// SAFETY: handles, which any thread may use; kernels are used by one at a time.
unsafe impl Send for Finder {}
// SAFETY: as above.
unsafe impl Sync for Finder {}
// SAFETY: handles, which any thread may use.
unsafe impl Send for Finding {}

impl std::fmt::Debug for Finder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Finder").field("build", &self.build).finish_non_exhaustive()
    }
}

impl Finder {
    /// Builds the code.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn new(layer: &Layer, context: Context, device: Device) -> Result<Finder, Status> {
        let build = build_for(layer, device).ok_or(ffi::INVALID_OPERATION)?;
        let target = &layer.target;
        let (Some(create), Some(compile), Some(kernel)) =
            (target.clCreateProgramWithSource, target.clBuildProgram, target.clCreateKernel)
        else {
            return Err(ffi::INVALID_OPERATION);
        };
        // What the compiler thinks of our code is nothing that the program should say.
        let options = CString::new(build.opencl_options() + " -w").unwrap_or_default();
        let (text, bytes, mut status) = (SOURCE.as_ptr().cast::<c_char>(), SOURCE.len(), SUCCESS);
        // SAFETY: one text of so many bytes; context and device are the program's queue's.
        let program = unsafe { create(context, 1, &raw const text, &raw const bytes, &raw mut status) };
        if program.is_null() {
            return Err(status);
        }
        let none = [ptr::null_mut(); 2];
        let (kernels, tables) = (Mutex::new(none), Mutex::default());
        let finder = Finder { context, program, build, kernels, tables };
        // SAFETY: as above; nobody is called.
        status = unsafe { compile(program, 1, &raw const device, options.as_ptr(), None, ptr::null_mut()) };
        let named = |name: &str| {
            let (name, mut status) = (CString::new(name).unwrap_or_default(), SUCCESS);
            // SAFETY: a program of ours, and a text.
            let made = unsafe { kernel(program, CStr::as_ptr(&name), &raw mut status) };
            if status == SUCCESS { Ok(made) } else { Err(status) }
        };
        if status != SUCCESS {
            return Err(status);
        }
        *finder.kernels.lock().unwrap_or_else(PoisonError::into_inner) =
            [named(HASH_LEAVES)?, named(MEASURE_LEAVES)?];
        Ok(finder)
    }

    /// Puts a launch into a queue that looks at the ranges of a plan, the first command of it behind `waits`. The events are the caller's.
    ///
    /// # Errors
    /// What the driver says, or that there is no room for findings.
    pub fn put(
        &self,
        layer: &Layer,
        queue: Queue,
        plan: Plan,
        waits: &[Event],
    ) -> Result<(Finding, [Event; 2]), Status> {
        let write = layer.target.clEnqueueWriteBuffer.ok_or(ffi::INVALID_OPERATION)?;
        let table = self.take(layer, &plan).ok_or(ffi::INVALID_OPERATION)?;
        let finding = Finding { plan, table };
        let ranges = finding.plan.ranges().as_bytes();
        let (count, list) = raw::wait_list(waits);
        let mut written = ptr::null_mut();
        // SAFETY: the ranges live as long as the finding, which is kept until the command has run; the memory has room for them.
        let status = unsafe {
            let from = ranges.as_ptr().cast();
            write(queue, table.memory[0], 0, 0, ranges.len(), from, count, list, &raw mut written)
        };
        if status != SUCCESS {
            self.give(finding);
            return Err(status);
        }
        match self.launch(layer, queue, &finding, written) {
            Ok(launched) => Ok((finding, [written, launched])),
            Err(status) => {
                // The write is in the queue, and reads the ranges when it runs.
                std::mem::forget(finding);
                layer.release(written);
                Err(status)
            }
        }
    }

    fn launch(&self, layer: &Layer, queue: Queue, finding: &Finding, behind: Event) -> Result<Event, Status> {
        let (Some(set), Some(enqueue)) = (layer.target.clSetKernelArg, layer.target.clEnqueueNDRangeKernel)
        else {
            return Err(ffi::INVALID_OPERATION);
        };
        let plan = &finding.plan;
        let kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let kernel = kernels[usize::from(plan.measures())];
        let count = u32::try_from(plan.ranges().len()).unwrap_or(u32::MAX);
        let buffers = plan.buffers().iter().map(|&buffer| mem_of(buffer));
        // Whatever has no buffer is none.
        let buffers = buffers.chain(std::iter::repeat(ptr::null_mut())).take(BUFFERS);
        let mut event = ptr::null_mut();
        // SAFETY: arguments have the sizes that the kernel declares; they are set by one thread at a time.
        unsafe {
            let mut status = set(kernel, 0, size_of::<u32>(), (&raw const count).cast());
            for (at, mem) in (1..).zip(finding.table.memory.into_iter().chain(buffers)) {
                let value = if mem.is_null() { ptr::null() } else { (&raw const mem).cast::<c_void>() };
                let told = set(kernel, at, size_of::<Mem>(), value);
                status = if status == SUCCESS { told } else { status };
            }
            if status != SUCCESS {
                return Err(status);
            }
            let group = self.build.group as usize;
            let items = plan.bundles() as usize * group;
            let (items, group, behind) = (&raw const items, &raw const group, &raw const behind);
            match enqueue(queue, kernel, 1, ptr::null(), items, group, 1, behind, &raw mut event) {
                SUCCESS => Ok(event),
                status => Err(status),
            }
        }
    }

    /// What a launch that has run has found of each range of its plan, read by a queue of our own. None when the driver does not give it.
    pub fn results(&self, layer: &Layer, own: Queue, finding: &Finding) -> Option<Vec<Option<RangeResult>>> {
        let scratch = finding.plan.scratch();
        let [_, hashes, _, parts] = finding.table.memory;
        let hashes = read::<[u64; 2]>(layer, own, hashes, scratch.leaf_hashes)?;
        let parts = match finding.plan.measures() {
            true => read::<Part>(layer, own, parts, scratch.parts)?,
            false => Vec::new(),
        };
        Some(finding.plan.finish(&hashes, &parts))
    }

    /// Findings were read, or are not wanted.
    pub fn give(&self, finding: Finding) {
        let Finding { plan, table } = finding;
        // The device has read its ranges.
        drop(plan);
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).free.push(table);
    }

    /// A place for findings, of the smallest that there are with room enough, or a new one.
    fn take(&self, layer: &Layer, plan: &Plan) -> Option<Table> {
        let (bundles, ranges) = (u64::from(plan.bundles()), plan.ranges().len());
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |table: &Table| table.bundles >= bundles && table.ranges >= ranges;
        let fitting = tables.free.iter().enumerate().filter(|(_, table)| fits(table));
        if let Some((at, _)) = fitting.min_by_key(|(_, table)| table.bundles) {
            return Some(tables.free.swap_remove(at));
        }
        if tables.count == MOST_TABLES {
            // One that is too small gives way.
            let small = tables.free.pop()?;
            tables.count -= 1;
            small.release(layer);
        }
        tables.count += 1;
        drop(tables);
        let room =
            (bundles.max(FEWEST_BUNDLES).next_power_of_two(), ranges.max(FEWEST_RANGES).next_power_of_two());
        let made = Table::new(layer, self.context, plan, room);
        if made.is_none() {
            self.tables.lock().unwrap_or_else(PoisonError::into_inner).count -= 1;
        }
        made
    }
}

impl Table {
    /// Memory for so many bundles and ranges.
    fn new(layer: &Layer, context: Context, plan: &Plan, (bundles, ranges): (u64, usize)) -> Option<Table> {
        let create = layer.target.clCreateBuffer?;
        let of_plan = plan.scratch();
        let scaled = |bytes: u64| usize::try_from(bytes / u64::from(plan.bundles().max(1)) * bundles).ok();
        let sizes = [
            Some(ranges * size_of::<Range>()),
            scaled(of_plan.leaf_hashes),
            scaled(of_plan.sums),
            scaled(of_plan.parts),
        ];
        let mut table = Table { memory: [ptr::null_mut(); 4], bundles, ranges };
        for (mem, size) in table.memory.iter_mut().zip(sizes) {
            // SAFETY: the context lives with its queues; nothing is handed over.
            *mem = unsafe { create(context, ffi::MEM_READ_WRITE, size?, ptr::null_mut(), ptr::null_mut()) };
        }
        if table.memory.iter().any(|mem| mem.is_null()) {
            table.release(layer);
            return None;
        }
        Some(table)
    }

    fn release(&self, layer: &Layer) {
        if let Some(release) = layer.target.clReleaseMemObject {
            for &mem in self.memory.iter().filter(|mem| !mem.is_null()) {
                // SAFETY: made for this, and used by nobody any more.
                unsafe { release(mem) };
            }
        }
    }
}

impl Drop for Finder {
    fn drop(&mut self) {
        let layer = Layer::get();
        for table in &self.tables.get_mut().unwrap_or_else(PoisonError::into_inner).free {
            table.release(layer);
        }
        let kernels = *self.kernels.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: made here, and nobody uses them any more.
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

/// A buffer as a plan names it.
pub fn name_of(mem: Mem) -> u64 {
    mem.expose_provenance() as u64
}

/// And back.
pub fn mem_of(name: u64) -> Mem {
    ptr::with_exposed_provenance_mut(usize::try_from(name).unwrap_or(0))
}

/// How the code is built for a device.
fn build_for(layer: &Layer, device: Device) -> Option<Build> {
    let ask = layer.target.clGetDeviceInfo?;
    // SAFETY: a device of the program's, and what is written to is this call's.
    let word = |what| raw::value::<u64>(|room, value, size| unsafe { ask(device, what, room, value, size) });
    let fp64 = word(ffi::DEVICE_DOUBLE_FP_CONFIG).is_some_and(|config| config != 0);
    if word(ffi::DEVICE_TYPE)? & ffi::DEVICE_TYPE_CPU != 0 {
        return Some(Build::processor(fp64));
    }
    Build::accelerator(usize::try_from(word(ffi::DEVICE_MAX_WORK_GROUP_SIZE)?).ok()?, fp64)
}

/// The first bytes of a memory as what they are.
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
    // SAFETY: as many bytes lie at both places, and the call returns when they were moved.
    let status =
        unsafe { read(own, mem, 1, 0, to.len(), to.as_mut_ptr().cast(), 0, ptr::null(), ptr::null_mut()) };
    (status == SUCCESS).then_some(content)
}
