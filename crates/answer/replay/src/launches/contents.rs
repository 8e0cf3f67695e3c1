//! Inputs of a captured launch: values and memory, by argument.

use std::collections::HashMap;

use tensortap_abi::{DumpStage, MemorySpace, UncapturedReason};
use tensortap_format::{Argument, Dump, Task};
use tensortap_geometry::is_contiguous;
use tensortap_values::content_hash;

use crate::capture::{Blob, Capture, Content, hash_mismatch};
use crate::{ArgReport, Grade, ReplayError};

/// Limit on arguments of a launch; no kernel has more.
const MAX_ARGS: u32 = 8192;
/// Limit on memory per launch that is not stored in the dump.
const MAX_UNKNOWN_BYTES: u64 = 1 << 32;

/// Finds stored content, also for records that have only its hash.
pub struct Contents<'c> {
    pub capture: &'c dyn Capture,
    pub dump: &'c Dump,
    by_hash: HashMap<u128, Blob>,
}

impl<'c> Contents<'c> {
    /// Indexes all stored content by hash.
    pub fn new(capture: &'c dyn Capture, dump: &'c Dump) -> Contents<'c> {
        let mut by_hash = HashMap::new();
        // Only if records may have a hash without content.
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
        Contents { capture, dump, by_hash }
    }

    /// Number of the program of a launch; 0 if the dump does not name it.
    pub fn module_of(&self, task: Task<'_>) -> u32 {
        let of_kernel =
            || task.func_ids().find_map(|id| self.capture.run().kernel(id)).map_or(0, |k| k.module);
        if task.module == 0 { of_kernel() } else { task.module }
    }

    /// Content of an argument at a stage.
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

    /// Reads a blob. The inner error says that its hash does not match.
    pub fn read(&self, blob: &Blob) -> Result<Result<Vec<u8>, String>, ReplayError> {
        let mut bytes = Vec::new();
        self.capture.read(blob, &mut bytes)?;
        let is_captured = blob.hash.is_none_or(|hash| content_hash(&bytes) == hash);
        Ok(if is_captured { Ok(bytes) } else { Err(hash_mismatch(&self.capture.name())) })
    }

    /// Describes the first corrupt payload of a task, if there is one.
    pub fn damaged(&self, task: Task<'_>) -> Result<Option<String>, ReplayError> {
        for argument in task.arguments() {
            for stage in DumpStage::ALL {
                if let Content::Whole(blob) = self.of(task, argument, stage)
                    && let Err(why) = self.read(&blob)?
                {
                    return Ok(Some(format!("argument {}: {why}", argument.arg_index)));
                }
            }
        }
        Ok(None)
    }
}

/// Part of one of the memories of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index of the memory.
    pub memory: usize,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The memory of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The argument.
    pub arg_index: u16,
    /// Its place in a memory.
    pub part: Part,
}

impl Range {
    /// Its content.
    pub fn of<'m>(&self, memories: &'m [Vec<u8>]) -> &'m [u8] {
        let Part { memory, offset, bytes } = self.part;
        let (from, bytes) = (usize::try_from(offset).unwrap_or(0), usize::try_from(bytes).unwrap_or(0));
        memories.get(memory).and_then(|all| all.get(from..from.checked_add(bytes)?)).unwrap_or(&[])
    }
}

/// One argument of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchArg {
    /// A value of these bytes.
    Value(Vec<u8>),
    /// This many bytes of local memory per work group.
    Local(u64),
    /// Memory, with its captured address.
    Memory(u64, Part),
    /// Unknown.
    Unknown,
}

/// Memory of a launch. No two overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Its captured address.
    pub address: u64,
    /// Its content before the launch.
    pub content: Vec<u8>,
}

/// All inputs of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchInputs {
    /// Every argument, by index.
    pub args: Vec<LaunchArg>,
    /// Memory that arguments may share, followed by separate memory such as variables.
    pub memories: Vec<Memory>,
    /// Number of memories that arguments may share.
    pub shared: usize,
    /// The arguments that are memory.
    pub ranges: Vec<Range>,
}

/// Captured memory of an argument.
struct CapturedMemory<'t> {
    argument: Argument<'t>,
    address: u64,
    bytes: u64,
    is_separate: bool,
}

impl LaunchInputs {
    /// Collects the inputs of a launch and grades its arguments. `is_separate` selects arguments whose
    /// memory is separate from all others. With `may_lack`, arguments may be missing. The inner error says
    /// why the inputs are unusable.
    pub fn of(
        contents: &Contents<'_>,
        task: Task<'_>,
        is_separate: impl Fn(u16) -> bool,
        may_lack: bool,
        grades: &mut Vec<ArgReport>,
    ) -> Result<Result<LaunchInputs, String>, ReplayError> {
        let total = argument_total(task);
        if let Some(why) = damage(task, total) {
            return Ok(Err(why));
        }
        let (mut passed, mut given) = (Vec::new(), Vec::new());
        for arg_index in (0..=u16::MAX).take_while(|&at| u32::from(at) < total) {
            let Some(argument) = task.argument(arg_index) else {
                let why = contents.capture.why_missing(task, arg_index);
                grades.push(graded(arg_index, Grade::Zero, Some(why.clone())));
                if may_lack {
                    passed.push(LaunchArg::Unknown);
                    continue;
                }
                // A hidden argument is not passed to the kernel and follows all others.
                if task.uncaptured(arg_index).is_some_and(UncapturedReason::is_hidden) {
                    continue;
                }
                return Ok(Err(format!("argument {arg_index} is missing: {why}")));
            };
            match one(contents, task, argument, grades)? {
                Ok(CapturedArg::Arg(one)) => passed.push(one),
                Ok(CapturedArg::Memory(memory)) => {
                    // Placeholder until all ranges are known.
                    passed.push(LaunchArg::Local(0));
                    given.push(CapturedMemory { is_separate: is_separate(arg_index), ..memory });
                }
                Err(why) => return Ok(Err(format!("argument {arg_index}: {why}"))),
            }
        }
        // Hidden arguments that follow the counted ones.
        for (arg_index, reason) in task.uncaptured_args().filter(|(at, _)| u32::from(*at) >= total) {
            if reason.is_hidden() {
                grades.push(graded(
                    arg_index,
                    Grade::Zero,
                    Some(contents.capture.why_missing(task, arg_index)),
                ));
            }
        }
        let mut inputs = match lay_out(&given) {
            Ok(laid) => LaunchInputs { args: passed, ..laid },
            Err(why) => return Ok(Err(why)),
        };
        for (range, given) in inputs.ranges.iter().zip(&given) {
            if let Err(why) = fill(contents, task, range, given, &mut inputs.memories)? {
                return Ok(Err(format!("argument {}: {why}", range.arg_index)));
            }
            inputs.args[usize::from(range.arg_index)] = LaunchArg::Memory(given.address, range.part);
        }
        Ok(Ok(inputs))
    }
}

/// Number of arguments: from the end record of the task, or else up to the last recorded argument.
fn argument_total(task: Task<'_>) -> u32 {
    let last = task.arguments().next_back().map_or(0, |argument| u32::from(argument.arg_index) + 1);
    task.tensor_count.saturating_add(task.scalar_count).max(last)
}

/// Why the records of a task are invalid, if they are.
fn damage(task: Task<'_>, total: u32) -> Option<String> {
    if total > MAX_ARGS {
        return Some(format!("its record has {total} arguments, more than any kernel"));
    }
    let repeated = task.arguments().find(|argument| argument.is_repeated);
    repeated.map(|a| format!("argument {} has two records for the same stage", a.arg_index))
}

/// Makes the report of an argument's grade.
pub fn graded(arg_index: u16, grade: Grade, reason: Option<String>) -> ArgReport {
    ArgReport { arg_index, role: None, grade, reason }
}

enum CapturedArg<'t> {
    Arg(LaunchArg),
    Memory(CapturedMemory<'t>),
}

/// Reads one argument. The inner error says why it cannot be passed.
fn one<'t>(
    contents: &Contents<'_>,
    task: Task<'_>,
    argument: Argument<'t>,
    grades: &mut Vec<ArgReport>,
) -> Result<Result<CapturedArg<'t>, String>, ReplayError> {
    let arg_index = argument.arg_index;
    let Some(captured) = argument.before.or(argument.after) else {
        return Ok(Err("it was not captured".into()));
    };
    let record = contents.dump.record(captured.record)?;
    if let Some(bits) = argument.scalar_bits {
        grades.push(graded(arg_index, Grade::Exact, None));
        let bytes = usize::try_from(argument.dtype.bits() / 8).unwrap_or(8).clamp(1, 8);
        let value = bits.to_le_bytes()[..bytes].to_vec();
        let passed = if record.is_local { LaunchArg::Local(bits) } else { LaunchArg::Value(value) };
        return Ok(Ok(CapturedArg::Arg(passed)));
    }
    let content = contents.of(task, argument, DumpStage::BeforeDispatch);
    let (grade, reason) = match &content {
        Content::Whole(_) => (Grade::Exact, None),
        Content::Part(_) | Content::Noise(_) => {
            (Grade::Partial, Some("only a part of it was stored".to_owned()))
        }
        Content::Missing(why) => {
            (Grade::Zero, Some(format!("its content before the launch is unknown: {why}")))
        }
    };
    grades.push(ArgReport { role: Some(argument.role), ..graded(arg_index, grade, reason) });
    if record.space == MemorySpace::Host {
        let value = match content {
            Content::Whole(blob) => contents.read(&blob)?,
            _ if argument.content_bytes() == Some(0) => Ok(Vec::new()),
            _ => Err("its value was not stored".into()),
        };
        return Ok(value.map(|value| CapturedArg::Arg(LaunchArg::Value(value))));
    }
    if !is_contiguous(argument.shape(), argument.strides()) || !argument.is_consistent {
        return Ok(Err("its records do not describe one contiguous range of memory".into()));
    }
    let start = argument.start_offset.checked_mul(u64::from(argument.dtype.bits())).map(|bits| bits / 8);
    let address = start.and_then(|start| argument.address.checked_add(start));
    let range = address.zip(argument.content_bytes());
    Ok(range
        .filter(|(address, bytes)| address.checked_add(*bytes).is_some())
        .map(|(address, bytes)| {
            CapturedArg::Memory(CapturedMemory { argument, address, bytes, is_separate: false })
        })
        .ok_or_else(|| "its range exceeds the address space".into()))
}

/// Lays out the memories, filled with zeros, and the place of each argument in them, in order.
fn lay_out(given: &[CapturedMemory<'_>]) -> Result<LaunchInputs, String> {
    let mut order: Vec<usize> = (0..given.len()).filter(|&at| !given[at].is_separate).collect();
    order.sort_by_key(|&at| (given[at].address, std::cmp::Reverse(given[at].bytes)));
    // Start and end address of each memory.
    let mut spans: Vec<(u64, u64)> = Vec::new();
    let mut places = vec![0; given.len()];
    for at in order {
        let CapturedMemory { address, bytes, .. } = given[at];
        match spans.last_mut() {
            Some((_, end)) if address < *end => *end = (*end).max(address + bytes),
            _ => spans.push((address, address + bytes)),
        }
        places[at] = spans.len() - 1;
    }
    let shared = spans.len();
    for (given, place) in given.iter().zip(&mut places).filter(|(given, _)| given.is_separate) {
        *place = spans.len();
        spans.push((given.address, given.address + given.bytes));
    }
    let total: u64 = spans.iter().map(|(start, end)| end - start).fold(0, u64::saturating_add);
    let stored: u64 =
        given.iter().filter_map(|g| g.argument.before).map(|c| c.bytes).fold(0, u64::saturating_add);
    if total > stored.max(MAX_UNKNOWN_BYTES) {
        return Err(format!("it has {total} bytes of memory, but only {stored} bytes were stored"));
    }
    let memory = |(start, end): &(u64, u64)| Memory {
        address: *start,
        content: vec![0; usize::try_from(end - start).unwrap_or(0)],
    };
    let ranges = given.iter().zip(&places).map(|(given, &memory)| Range {
        arg_index: given.argument.arg_index,
        part: Part { memory, offset: given.address - spans[memory].0, bytes: given.bytes },
    });
    let ranges = ranges.collect();
    Ok(LaunchInputs { args: Vec::new(), memories: spans.iter().map(memory).collect(), shared, ranges })
}

/// Copies the captured content of an argument to its place. The inner error says that it is corrupt.
fn fill(
    contents: &Contents<'_>,
    task: Task<'_>,
    range: &Range,
    given: &CapturedMemory<'_>,
    memories: &mut [Memory],
) -> Result<Result<(), String>, ReplayError> {
    let (Content::Whole(blob) | Content::Part(blob)) =
        contents.of(task, given.argument, DumpStage::BeforeDispatch)
    else {
        return Ok(Ok(()));
    };
    let bytes = match contents.read(&blob)? {
        Ok(bytes) => bytes,
        Err(why) => return Ok(Err(why)),
    };
    let from = usize::try_from(range.part.offset).unwrap_or(usize::MAX);
    let there = memories[range.part.memory].content.get_mut(from..).unwrap_or(&mut []);
    let count = bytes.len().min(there.len());
    there[..count].copy_from_slice(&bytes[..count]);
    Ok(Ok(()))
}
