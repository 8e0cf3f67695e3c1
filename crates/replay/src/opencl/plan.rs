//! What a captured launch is given: its arguments, and the memory that they share.

use std::collections::HashMap;

use tensortap_abi::{DumpStage, MemorySpace, ModuleKind};
use tensortap_format::{Argument, Dump, Module, Task};
use tensortap_geometry::is_contiguous;
use tensortap_opencl_host::{Arg, Launch, Memory};

use crate::capture::{Blob, Capture, Content};
use crate::{ArgReport, Grade, ReplayError};

/// Arguments that a launch may have; OpenCL promises no device of more.
const MOST_ARGS: u32 = 4096;
/// Memory of a launch of which the dump need not hold every byte.
const MOST_UNKNOWN_BYTES: u64 = 1 << 32;

/// Where content is stored, also of records that have its hash alone.
pub struct Contents<'c> {
    capture: &'c dyn Capture,
    by_hash: HashMap<u128, Blob>,
}

impl<'c> Contents<'c> {
    /// Goes over all that was captured.
    pub fn new(capture: &'c dyn Capture, dump: &Dump) -> Contents<'c> {
        let mut by_hash = HashMap::new();
        // Only where some have a hash and no content.
        let totals = dump.totals();
        if totals.stored_bytes > 0 {
            let arguments = capture.tasks().iter().flat_map(|task| task.arguments());
            for captured in arguments.flat_map(|argument| [argument.before, argument.after]).flatten() {
                if let Some(hash) = captured.hash().filter(|_| captured.is_stored()) {
                    let blob = Blob { id: captured.record, bytes: captured.bytes, hash: Some(hash) };
                    by_hash.entry(hash).or_insert(blob);
                }
            }
        }
        Contents { capture, by_hash }
    }

    /// What an argument held at a stage.
    pub fn of(&self, task: Task<'_>, argument: Argument<'_>, stage: DumpStage) -> Content {
        let content = self.capture.content(task, argument, stage);
        let hash = argument.captured(stage).and_then(|captured| captured.hash());
        let same = || hash.and_then(|hash| self.by_hash.get(&hash));
        let fits = |blob: &&Blob| Some(blob.bytes) == argument.content_bytes();
        match content {
            Content::Missing(_) => same().filter(fits).map_or(content, |blob| Content::Whole(*blob)),
            content => content,
        }
    }
}

/// An argument's place in the memories of its launch.
pub struct Range {
    /// The argument.
    pub arg_index: u16,
    part: Memory,
}

impl Range {
    /// Its bytes.
    pub fn of<'m>(&self, memories: &'m [Vec<u8>]) -> &'m [u8] {
        let Memory { memory, offset, bytes } = self.part;
        let (from, bytes) = (usize::try_from(offset).unwrap_or(0), usize::try_from(bytes).unwrap_or(0));
        memories.get(memory).and_then(|all| all.get(from..from.checked_add(bytes)?)).unwrap_or(&[])
    }
}

/// A launch with all it is given.
pub struct Plan {
    kernel: String,
    work_dims: u32,
    global_size: [u64; 3],
    global_offset: [u64; 3],
    group: Option<[u64; 3]>,
    args: Vec<Arg>,
    /// What lies in each memory before the launch.
    pub memories: Vec<Vec<u8>>,
    /// Arguments that are memory.
    pub ranges: Vec<Range>,
}

/// Memory that an argument was given.
struct Given<'t> {
    arg_index: u16,
    argument: Argument<'t>,
    address: u64,
    bytes: u64,
}

impl Plan {
    /// Puts a launch together, and grades its arguments. The inner error is why it cannot be.
    pub fn of(
        capture: &dyn Capture,
        dump: &Dump,
        contents: &Contents<'_>,
        task: Task<'_>,
        grades: &mut Vec<ArgReport>,
    ) -> Result<Result<Plan, String>, ReplayError> {
        if let Some(why) = damage(task) {
            return Ok(Err(why));
        }
        let (mut args, mut given) = (Vec::new(), Vec::new());
        let total = task.tensor_count.saturating_add(task.scalar_count);
        for arg_index in (0..=u16::MAX).take_while(|&at| u32::from(at) < total) {
            let Some(argument) = task.argument(arg_index) else {
                let why = capture.why_missing(task, arg_index);
                grades.push(graded(arg_index, Grade::Zero, Some(why.clone())));
                return Ok(Err(format!("argument {arg_index} cannot be given: {why}")));
            };
            match one(capture, dump, contents, task, argument, grades)? {
                Ok(Passed::Arg(arg)) => args.push(arg),
                Ok(Passed::Memory(memory)) => {
                    // Its place is known when all ranges are.
                    args.push(Arg::Local(0));
                    given.push(memory);
                }
                Err(why) => return Ok(Err(format!("argument {arg_index}: {why}"))),
            }
        }
        let (mut memories, ranges) = match lay_out(&given) {
            Ok(laid) => laid,
            Err(why) => return Ok(Err(why)),
        };
        for (range, memory) in ranges.iter().zip(&given) {
            fill(capture, contents, task, range, memory, &mut memories)?;
            args[usize::from(range.arg_index)] = Arg::Memory(range.part);
        }
        Ok(spread(task).map(|plan| Plan { args, memories, ranges, ..plan }))
    }

    /// What is asked of a worker.
    pub fn launch(&self, device: usize, module: &Module, allow_variables: bool) -> Launch {
        let image_kind = match module.kind {
            // A dump without an index does not tell one from the other.
            ModuleKind::Unknown => ModuleKind::OpenClC,
            kind => kind,
        };
        Launch {
            device,
            image_kind: image_kind as u8,
            options: module.options.clone(),
            kernel: self.kernel.clone(),
            work_dims: self.work_dims,
            global_size: self.global_size,
            global_offset: self.global_offset,
            group: self.group,
            args: self.args.clone(),
            allow_variables,
        }
    }
}

/// Why the records of a task make no launch.
fn damage(task: Task<'_>) -> Option<String> {
    let total = task.tensor_count.saturating_add(task.scalar_count);
    if total > MOST_ARGS {
        return Some(format!("its record says {total} arguments; no kernel has as many"));
    }
    let repeated = task.arguments().find(|argument| argument.is_repeated);
    repeated.map(|a| format!("argument {} is recorded twice for the same stage", a.arg_index))
}

/// How the work is spread, without arguments.
fn spread(task: Task<'_>) -> Result<Plan, String> {
    let [kernel] = &task.kernel_names()[..] else {
        return Err("it launches not one kernel but several".into());
    };
    let launch = task.launch.as_deref().copied().unwrap_or_default();
    let known = |sizes: [u64; 3]| sizes.iter().any(|&size| size != 0);
    let group = launch.group.map(u64::from);
    let global_size = if known(launch.global_size) {
        launch.global_size
    } else {
        let product = |at: usize| u64::from(launch.grid[at]) * group[at];
        [product(0), product(1), product(2)]
    };
    let last_used = (0..3).rev().find(|&at| global_size[at] > 1).map_or(1, |at| at + 1);
    let work_dims = match launch.work_dims {
        0 => u32::try_from(last_used).unwrap_or(3),
        dims => dims.into(),
    };
    if global_size[0] == 0 {
        return Err("the dump does not say how many work items it had".into());
    }
    Ok(Plan {
        kernel: kernel.clone(),
        work_dims,
        global_size,
        global_offset: launch.global_offset,
        group: known(group).then_some(group),
        args: Vec::new(),
        memories: Vec::new(),
        ranges: Vec::new(),
    })
}

fn graded(arg_index: u16, grade: Grade, reason: Option<String>) -> ArgReport {
    ArgReport { arg_index, role: None, grade, reason }
}

enum Passed<'t> {
    Arg(Arg),
    Memory(Given<'t>),
}

/// One argument. The inner error is why it cannot be passed.
fn one<'t>(
    capture: &dyn Capture,
    dump: &Dump,
    contents: &Contents<'_>,
    task: Task<'_>,
    argument: Argument<'t>,
    grades: &mut Vec<ArgReport>,
) -> Result<Result<Passed<'t>, String>, ReplayError> {
    let arg_index = argument.arg_index;
    let Some(captured) = argument.before.or(argument.after) else {
        return Ok(Err("nothing was captured of it".into()));
    };
    let record = dump.record(captured.record)?;
    if let Some(bits) = argument.scalar_bits {
        grades.push(graded(arg_index, Grade::Exact, None));
        let bytes = usize::try_from(argument.dtype.bits() / 8).unwrap_or(8).clamp(1, 8);
        let value = bits.to_le_bytes()[..bytes].to_vec();
        return Ok(Ok(Passed::Arg(if record.is_local { Arg::Local(bits) } else { Arg::Value(value) })));
    }
    let content = contents.of(task, argument, DumpStage::BeforeDispatch);
    let (grade, reason) = match &content {
        Content::Whole(_) => (Grade::Exact, None),
        Content::Part(_) | Content::Noise(_) => {
            (Grade::Partial, Some("only a part of it was stored".to_owned()))
        }
        Content::Missing(why) => (Grade::Zero, Some(format!("what it held before the launch: {why}"))),
    };
    grades.push(ArgReport { role: Some(argument.role), ..graded(arg_index, grade, reason) });
    if record.space == MemorySpace::Host {
        let Content::Whole(blob) = content else { return Ok(Err("its value was not stored".into())) };
        let mut value = Vec::new();
        capture.read(&blob, &mut value)?;
        return Ok(Ok(Passed::Arg(Arg::Value(value))));
    }
    if !is_contiguous(argument.shape(), argument.strides()) || !argument.is_consistent {
        return Ok(Err("its records describe no one range of memory".into()));
    }
    let start = argument.start_offset.checked_mul(u64::from(argument.dtype.bits())).map(|bits| bits / 8);
    let address = start.and_then(|start| argument.address.checked_add(start));
    let range = address.zip(argument.content_bytes());
    Ok(range
        .filter(|(address, bytes)| address.checked_add(*bytes).is_some())
        .map(|(address, bytes)| Passed::Memory(Given { arg_index, argument, address, bytes }))
        .ok_or_else(|| "its range leaves all memory".into()))
}

/// Memories of which none overlaps another, all zero, and where in them each argument lies, in the order given.
fn lay_out(given: &[Given<'_>]) -> Result<(Vec<Vec<u8>>, Vec<Range>), String> {
    let mut order: Vec<usize> = (0..given.len()).collect();
    order.sort_by_key(|&at| (given[at].address, std::cmp::Reverse(given[at].bytes)));
    // First address and the one behind the last, of each memory.
    let mut spans: Vec<(u64, u64)> = Vec::new();
    let mut places = vec![0; given.len()];
    for at in order {
        let Given { address, bytes, .. } = given[at];
        match spans.last_mut() {
            Some((_, end)) if address < *end => *end = (*end).max(address + bytes),
            _ => spans.push((address, address + bytes)),
        }
        places[at] = spans.len() - 1;
    }
    let total: u64 = spans.iter().map(|(start, end)| end - start).fold(0, u64::saturating_add);
    let stored: u64 =
        given.iter().filter_map(|g| g.argument.before).map(|c| c.bytes).fold(0, u64::saturating_add);
    if total > stored.max(MOST_UNKNOWN_BYTES) {
        return Err(format!("it was given {total} bytes of memory, of which {stored} were stored"));
    }
    let memories = spans.iter().map(|(start, end)| vec![0; usize::try_from(end - start).unwrap_or(0)]);
    let ranges = given.iter().zip(&places).map(|(given, &memory)| Range {
        arg_index: given.arg_index,
        part: Memory { memory, offset: given.address - spans[memory].0, bytes: given.bytes },
    });
    Ok((memories.collect(), ranges.collect()))
}

/// Puts what was captured of an argument into its place.
fn fill(
    capture: &dyn Capture,
    contents: &Contents<'_>,
    task: Task<'_>,
    range: &Range,
    given: &Given<'_>,
    memories: &mut [Vec<u8>],
) -> Result<(), ReplayError> {
    let (Content::Whole(blob) | Content::Part(blob)) =
        contents.of(task, given.argument, DumpStage::BeforeDispatch)
    else {
        return Ok(());
    };
    let mut bytes = Vec::new();
    capture.read(&blob, &mut bytes)?;
    let from = usize::try_from(range.part.offset).unwrap_or(usize::MAX);
    let there = memories[range.part.memory].get_mut(from..).unwrap_or(&mut []);
    let count = bytes.len().min(there.len());
    there[..count].copy_from_slice(&bytes[..count]);
    Ok(())
}
