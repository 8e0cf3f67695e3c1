//! Kernel launches.

use std::{borrow::Cow, ffi::c_void, ptr, sync::Arc};

use tensortap_queue::{Range, RangeRole, Value};
use tensortap_record::{
    ArgKind, KernelId, KernelInfo, ModuleId, ModuleImage, RecordError, StringId, TaskInfo, ThreadRecorder,
};

use super::driver_fn;
use crate::{
    enqueue::{CommandSpec, QueueTarget, enqueue},
    ffi::{Event, Kernel, Mem, NativeFunction, Queue, Status},
    objects::{Arg, ArgFacts, KernelFacts, Objects, key},
    raw,
    snapshot::Source,
};

pub unsafe extern "C" fn nd_range(
    queue: Queue,
    kernel: Kernel,
    dimensions: u32,
    offset: *const usize,
    global: *const usize,
    local: *const usize,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's guarantees.
    unsafe {
        let target = QueueTarget::new(queue, 0, (count, waits), event);
        let sizes = LaunchSizes {
            dimensions: u8::try_from(dimensions).unwrap_or(0),
            offset: raw::sizes(dimensions, offset, 0),
            global: raw::sizes(dimensions, global, 1),
            local: raw::sizes(dimensions, local, 1),
        };
        let spec =
            |objects: &mut Objects, recorder: &mut ThreadRecorder| launch(objects, recorder, kernel, sizes);
        enqueue(&target, spec, |count, waits, event| {
            driver_fn!(clEnqueueNDRangeKernel)(
                queue, kernel, dimensions, offset, global, local, count, waits, event,
            )
        })
    }
}

pub unsafe extern "C" fn task(
    queue: Queue,
    kernel: Kernel,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's guarantees.
    unsafe {
        let target = QueueTarget::new(queue, 0, (count, waits), event);
        let sizes = LaunchSizes { dimensions: 1, offset: None, global: Some([1; 3]), local: Some([1; 3]) };
        let spec =
            |objects: &mut Objects, recorder: &mut ThreadRecorder| launch(objects, recorder, kernel, sizes);
        enqueue(&target, spec, |count, waits, event| {
            driver_fn!(clEnqueueTask)(queue, kernel, count, waits, event)
        })
    }
}

pub unsafe extern "C" fn native(
    queue: Queue,
    function: NativeFunction,
    args: *mut c_void,
    bytes: usize,
    mem_count: u32,
    mems: *const Mem,
    slots: *const *const c_void,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's guarantees.
    unsafe {
        let target = QueueTarget::new(queue, 0, (count, waits), event);
        let objects_given = raw::list(mem_count, mems);
        let spec = |objects: &mut Objects, recorder: &mut ThreadRecorder| {
            let (name, info) = ("native kernel", TaskInfo::of(recorder.kernel("native kernel")?));
            let mut spec = CommandSpec { info, name, ..CommandSpec::default() };
            for (arg, &mem) in (0..).zip(objects_given) {
                spec.add_memory(objects, arg, mem, None);
            }
            Ok(spec)
        };
        enqueue(&target, spec, |count, waits, event| {
            driver_fn!(clEnqueueNativeKernel)(
                queue, function, args, bytes, mem_count, mems, slots, count, waits, event,
            )
        })
    }
}

/// The sizes of a launch.
#[derive(Clone, Copy)]
struct LaunchSizes {
    dimensions: u8,
    offset: Option<[u64; 3]>,
    global: Option<[u64; 3]>,
    local: Option<[u64; 3]>,
}

impl LaunchSizes {
    /// The task of a launch. If the driver chooses the size of the groups, their size and number are unknown.
    fn task_info(&self, kernel: KernelId) -> TaskInfo {
        let word = |size: u64| u32::try_from(size).unwrap_or(u32::MAX);
        let global = self.global.unwrap_or([0; 3]);
        let group = self.local.map_or([0; 3], |local| local.map(word));
        let groups = |at: usize| self.local.map_or(0, |local| word(global[at].div_ceil(local[at].max(1))));
        let grid = std::array::from_fn(groups);
        // Whether grid and group sizes determine the global size.
        let is_implied = (0..3).all(|at| u64::from(grid[at]) * u64::from(group[at]) == global[at]);
        TaskInfo {
            grid,
            group,
            work_dims: self.dimensions,
            global_size: if is_implied { [0; 3] } else { global },
            global_offset: self.offset.unwrap_or([0; 3]),
            ..TaskInfo::of(kernel)
        }
    }
}

/// The task and the arguments of a kernel launch.
fn launch(
    objects: &mut Objects,
    recorder: &mut ThreadRecorder,
    kernel: Kernel,
    sizes: LaunchSizes,
) -> Result<CommandSpec, RecordError> {
    let Some(state) = objects.kernels.get(&key(kernel)).cloned() else {
        let id = recorder.kernel("unknown kernel")?;
        return Ok(CommandSpec { info: TaskInfo::of(id), ..CommandSpec::default() });
    };
    let id = match state.id {
        Some(id) => id,
        None => define(recorder, &state.facts)?,
    };
    if let Some(known) = objects.kernels.get_mut(&key(kernel)) {
        known.id = Some(id);
    }
    let kernel = Some(state.facts.name.clone());
    let mut spec = CommandSpec { info: sizes.task_info(id), kernel, ..CommandSpec::default() };
    let facts = Arc::clone(&state.facts);
    for (at, (arg, facts)) in state.args.into_iter().zip(&facts.args).enumerate() {
        let arg_index = u16::try_from(at).unwrap_or(u16::MAX);
        // The name of the argument is in the definition of the kernel.
        if let Some(arg) = arg {
            spec.add_argument(objects, arg_index, arg, facts);
        }
    }
    // Memory and variables that are no arguments get the positions after the last argument.
    let next = u16::try_from(facts.args.len()).unwrap_or(u16::MAX);
    let shared = u16::try_from(state.shared.len()).unwrap_or(u16::MAX);
    for (at, address) in (next..).zip(state.shared) {
        spec.add_shared(objects, at, address, None);
    }
    if facts.program.as_ref().is_some_and(|program| program.has_variables) {
        spec.variables = Some(next.saturating_add(shared));
    }
    Ok(spec)
}

fn define(recorder: &mut ThreadRecorder, facts: &KernelFacts) -> Result<KernelId, RecordError> {
    let kind = |arg: &ArgFacts| match arg.is_pointer {
        Some(false) => Some(ArgKind::Scalar),
        _ => None,
    };
    let args: Vec<_> = facts.args.iter().map(|arg| (arg.name.as_str(), kind(arg))).collect();
    let module = match &facts.program {
        Some(image) => recorder.module_image(&ModuleImage {
            name: &image.name,
            kind: image.kind,
            options: &image.options,
            device: &image.device,
            image: &image.bytes,
        })?,
        None => ModuleId::default(),
    };
    recorder.define_kernel(&KernelInfo { name: &facts.name, module, args: &args })
}

/// How a launch uses the memory of an argument, as far as its kernel declares it.
fn role_of(facts: Option<&ArgFacts>) -> RangeRole {
    match facts.is_some_and(|facts| facts.is_const) {
        true => RangeRole::Const,
        false => RangeRole::Observed,
    }
}

impl CommandSpec {
    /// Adds an argument with the value that the program has set.
    fn add_argument(&mut self, objects: &Objects, at: u16, arg: Arg, facts: &ArgFacts) {
        match arg {
            Arg::Local(bytes) => self.local.push((at, bytes as u64)),
            Arg::Shared(address) => self.add_shared(objects, at, address, Some(facts)),
            Arg::Bytes(bytes) => self.add_bytes(objects, at, bytes, facts),
        }
    }

    fn add_bytes(&mut self, objects: &Objects, at: u16, bytes: Box<[u8]>, facts: &ArgFacts) {
        let handle = <[u8; 8]>::try_from(&bytes[..]).map(usize::from_ne_bytes).ok();
        let mem = handle.map(ptr::with_exposed_provenance_mut::<c_void>);
        let is_object = |mem: Mem| {
            let key = key(mem);
            objects.regions.contains_key(&key) || objects.opaque.contains(&key)
        };
        match (mem, facts.is_pointer) {
            // A null pointer.
            (Some(mem), Some(true)) if mem.is_null() => self.add_value(at, bytes, facts),
            (Some(mem), Some(true)) => self.add_memory(objects, at, mem, Some(facts)),
            // An argument that is not declared as a number is a memory object if it has the handle of one.
            (Some(mem), _) if facts.dtype.is_none() && is_object(mem) => {
                self.add_memory(objects, at, mem, None);
            }
            // A sampler, an event or a queue: the handle means nothing outside of this process.
            (Some(_), Some(false)) if facts.is_object => self.opaque.push((at, StringId::NONE)),
            _ => self.add_value(at, bytes, facts),
        }
    }

    fn add_value(&mut self, arg: u16, bytes: Box<[u8]>, facts: &ArgFacts) {
        let dtype = if facts.is_pointer == Some(true) { None } else { facts.dtype };
        let may_be_number = facts.is_pointer != Some(false) || facts.dtype.is_some();
        let (name, lanes, bytes) = (StringId::NONE, facts.lanes, Cow::Owned(bytes.into()));
        self.values.push(Value { arg, name, dtype, lanes, may_be_number, bytes });
    }

    /// Adds a whole memory object.
    fn add_memory(&mut self, objects: &Objects, arg: u16, mem: Mem, facts: Option<&ArgFacts>) {
        let (dtype, lanes) = ArgFacts::elements(facts);
        match objects.regions.get(&key(mem)) {
            Some(region) => {
                let range = Range { arg, role: role_of(facts), ..region.whole(dtype).of_vectors(lanes) };
                self.ranges.push((range, Source::Buffer(region.root.0)));
            }
            None => self.opaque.push((arg, StringId::NONE)),
        }
    }

    /// Adds shared memory: a pointer gives access to the whole allocation that it points into.
    fn add_shared(&mut self, objects: &Objects, arg: u16, address: usize, facts: Option<&ArgFacts>) {
        match objects.memories.find(address as u64) {
            Some(memory) => {
                let (dtype, lanes) = ArgFacts::elements(facts);
                let place = (memory.address, memory.bytes);
                let range = Range::dense(place, 0, memory.bytes, dtype).of_vectors(lanes);
                let range = Range { arg, space: memory.space, role: role_of(facts), ..range };
                self.ranges.push((range, Source::Address(usize::try_from(memory.address).unwrap_or(0))));
            }
            None => self.opaque.push((arg, StringId::NONE)),
        }
    }
}
