//! Kernels are launched.

use std::{ffi::c_void, ptr, sync::Arc};

use tensortap_queue::Range;
use tensortap_record::{
    ArgKind, KernelId, KernelInfo, ModuleId, ModuleImage, RecordError, StringId, TaskInfo, ThreadRecorder,
};

use super::{behind, transfers::place};
use crate::{
    enqueue::{Work, enqueue},
    ffi::{Event, Kernel, Mem, NativeFunction, Queue, Status},
    objects::{Arg, ArgFacts, KernelFacts, Objects, key},
    probe::Source,
    raw,
    values::Value,
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
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, 0, (count, waits), event);
        let sizes = Sizes {
            dimensions: u8::try_from(dimensions).unwrap_or(0),
            offset: raw::sizes(dimensions, offset, 0),
            global: raw::sizes(dimensions, global, 1),
            local: raw::sizes(dimensions, local, 1),
        };
        let work =
            |objects: &mut Objects, recorder: &mut ThreadRecorder| launch(objects, recorder, kernel, sizes);
        enqueue(&place, work, |waits, event| {
            let (count, waits) = raw::wait_list(waits);
            behind!(clEnqueueNDRangeKernel)(
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
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, 0, (count, waits), event);
        let sizes = Sizes { dimensions: 1, offset: None, global: Some([1; 3]), local: Some([1; 3]) };
        let work =
            |objects: &mut Objects, recorder: &mut ThreadRecorder| launch(objects, recorder, kernel, sizes);
        enqueue(&place, work, |waits, event| {
            let (count, waits) = raw::wait_list(waits);
            behind!(clEnqueueTask)(queue, kernel, count, waits, event)
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
    // SAFETY: the program's promises.
    unsafe {
        let place = place(queue, 0, (count, waits), event);
        let given = raw::list(mem_count, mems);
        let work = |objects: &mut Objects, recorder: &mut ThreadRecorder| {
            let kernel = recorder.kernel("native kernel")?;
            let mut work = Work { info: TaskInfo::of(kernel), name: "native kernel", ..Work::default() };
            for (arg, &mem) in (0..).zip(given) {
                work.memory(objects, arg, mem, None);
            }
            Ok(work)
        };
        enqueue(&place, work, |waits, event| {
            let (count, waits) = raw::wait_list(waits);
            behind!(clEnqueueNativeKernel)(
                queue, function, args, bytes, mem_count, mems, slots, count, waits, event,
            )
        })
    }
}

/// How large a launch is.
#[derive(Clone, Copy)]
struct Sizes {
    dimensions: u8,
    offset: Option<[u64; 3]>,
    global: Option<[u64; 3]>,
    local: Option<[u64; 3]>,
}

impl Sizes {
    /// A launch of a kernel that is so large. Where the driver chooses how large groups are, neither they nor their number is known.
    fn of(&self, kernel: KernelId) -> TaskInfo {
        let word = |size: u64| u32::try_from(size).unwrap_or(u32::MAX);
        let global = self.global.unwrap_or([0; 3]);
        let group = self.local.map_or([0; 3], |local| local.map(word));
        let groups = |at: usize| self.local.map_or(0, |local| word(global[at].div_ceil(local[at].max(1))));
        let grid = std::array::from_fn(groups);
        let is_said = (0..3).all(|at| u64::from(grid[at]) * u64::from(group[at]) == global[at]);
        TaskInfo {
            grid,
            group,
            work_dims: self.dimensions,
            global_size: if is_said { [0; 3] } else { global },
            global_offset: self.offset.unwrap_or([0; 3]),
            ..TaskInfo::of(kernel)
        }
    }
}

/// What a launch of a kernel is given.
fn launch(
    objects: &mut Objects,
    recorder: &mut ThreadRecorder,
    kernel: Kernel,
    sizes: Sizes,
) -> Result<Work, RecordError> {
    let Some(state) = objects.kernels.get(&key(kernel)).cloned() else {
        let id = recorder.kernel("unknown kernel")?;
        return Ok(Work { info: TaskInfo::of(id), ..Work::default() });
    };
    let id = match state.id {
        Some(id) => id,
        None => define(recorder, &state.facts)?,
    };
    if let Some(known) = objects.kernels.get_mut(&key(kernel)) {
        known.id = Some(id);
    }
    let kernel = Some(state.facts.name.clone());
    let mut work = Work { info: sizes.of(id), kernel, ..Work::default() };
    let facts = Arc::clone(&state.facts);
    for (at, (arg, facts)) in state.args.into_iter().zip(&facts.args).enumerate() {
        let arg_index = u16::try_from(at).unwrap_or(u16::MAX);
        // The kernel's declaration has the name.
        if let Some(arg) = arg {
            work.argument(objects, arg_index, arg, facts);
        }
    }
    let behind = u16::try_from(facts.args.len()).unwrap_or(u16::MAX);
    let shared = u16::try_from(state.shared.len()).unwrap_or(u16::MAX);
    for (at, address) in (behind..).zip(state.shared) {
        work.shared(objects, at, address, None);
    }
    if facts.program.as_ref().is_some_and(|program| program.has_variables) {
        work.variables = Some(behind.saturating_add(shared));
    }
    Ok(work)
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

impl Work {
    /// An argument as it is set now.
    fn argument(&mut self, objects: &Objects, at: u16, arg: Arg, facts: &ArgFacts) {
        match arg {
            Arg::Local(bytes) => self.local.push((at, bytes as u64)),
            Arg::Shared(address) => self.shared(objects, at, address, Some(facts)),
            Arg::Bytes(bytes) => self.bytes(objects, at, bytes, facts),
        }
    }

    fn bytes(&mut self, objects: &Objects, at: u16, bytes: Box<[u8]>, facts: &ArgFacts) {
        let handle = <[u8; 8]>::try_from(&bytes[..]).map(usize::from_ne_bytes).ok();
        let mem = handle.map(ptr::with_exposed_provenance_mut::<c_void>);
        let is_object = |mem: Mem| {
            let key = key(mem);
            objects.regions.contains_key(&key) || objects.opaque.contains(&key)
        };
        match (mem, facts.is_pointer) {
            // A pointer to nothing.
            (Some(mem), Some(true)) if mem.is_null() => self.value(at, bytes, facts),
            (Some(mem), Some(true)) => self.memory(objects, at, mem, Some(facts)),
            // What is not declared a number is an object, if there is one with that handle.
            (Some(mem), _) if facts.dtype.is_none() && is_object(mem) => {
                self.memory(objects, at, mem, None);
            }
            // A sampler, an event, a queue: a handle that says nothing.
            (Some(_), Some(false)) if facts.is_object => self.opaque.push((at, StringId::NONE)),
            _ => self.value(at, bytes, facts),
        }
    }

    fn value(&mut self, arg: u16, bytes: Box<[u8]>, facts: &ArgFacts) {
        let dtype = if facts.is_pointer == Some(true) { None } else { facts.dtype };
        let is_number = facts.is_pointer != Some(false) || facts.dtype.is_some();
        self.values.push(Value { arg, name: StringId::NONE, dtype, lanes: facts.lanes, is_number, bytes });
    }

    /// A memory object, all of it.
    fn memory(&mut self, objects: &Objects, arg: u16, mem: Mem, facts: Option<&ArgFacts>) {
        let (dtype, lanes) = ArgFacts::elements(facts);
        match objects.regions.get(&key(mem)) {
            Some(region) => {
                let range = Range { arg, ..region.whole(dtype).of_vectors(lanes) };
                self.ranges.push((range, Source::Buffer(region.root.0)));
            }
            None => self.opaque.push((arg, StringId::NONE)),
        }
    }

    /// Shared memory: a pointer reaches all of the allocation it points into.
    fn shared(&mut self, objects: &Objects, arg: u16, address: usize, facts: Option<&ArgFacts>) {
        match objects.memories.find(address as u64) {
            Some(memory) => {
                let (dtype, lanes) = ArgFacts::elements(facts);
                let place = (memory.address, memory.bytes);
                let range = Range::dense(place, 0, memory.bytes, dtype).of_vectors(lanes);
                let range = Range { arg, space: memory.space, ..range };
                self.ranges.push((range, Source::Address(usize::try_from(memory.address).unwrap_or(0))));
            }
            None => self.opaque.push((arg, StringId::NONE)),
        }
    }
}
