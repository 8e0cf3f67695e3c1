//! What a captured launch was given: values and memory, by argument.

use std::collections::HashMap;

use tensortap_abi::{DumpStage, MemorySpace, UncapturedReason};
use tensortap_format::{Argument, Dump, Task};
use tensortap_geometry::is_contiguous;
use tensortap_values::content_hash;

use crate::capture::{Blob, Capture, Content};
use crate::{ArgReport, Grade, ReplayError};

/// Arguments that a launch may have; no kernel has more, nor points into more memory.
const MOST_ARGS: u32 = 8192;
/// Why a payload is not used.
const OTHER_HASH: &str =
    "its payload is not what was captured, the hash differs; `tensortap verify` tells more";
/// Memory of a launch of which the dump need not hold every byte.
const MOST_UNKNOWN_BYTES: u64 = 1 << 32;

/// Where content is stored, also of records that have its hash alone.
pub struct Contents<'c> {
    pub capture: &'c dyn Capture,
    pub dump: &'c Dump,
    by_hash: HashMap<u128, Blob>,
}

impl<'c> Contents<'c> {
    /// Goes over all that was captured.
    pub fn new(capture: &'c dyn Capture, dump: &'c Dump) -> Contents<'c> {
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
        Contents { capture, dump, by_hash }
    }

    /// Number of the program that a launch's kernel is of, 0 where the dump does not say it.
    pub fn module_of(&self, task: Task<'_>) -> u32 {
        let of_kernel =
            || task.func_ids().find_map(|id| self.capture.run().kernel(id)).map_or(0, |k| k.module);
        if task.module == 0 { of_kernel() } else { task.module }
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

    /// The bytes of a blob. The inner error is that they are not what was captured.
    pub fn read(&self, blob: &Blob) -> Result<Result<Vec<u8>, String>, ReplayError> {
        let mut bytes = Vec::new();
        self.capture.read(blob, &mut bytes)?;
        let is_captured = blob.hash.is_none_or(|hash| content_hash(&bytes) == hash);
        Ok(if is_captured { Ok(bytes) } else { Err(OTHER_HASH.into()) })
    }

    /// Why what was captured of a task is not to be used: the first payload that is not what was captured.
    pub fn damaged(&self, task: Task<'_>) -> Result<Option<String>, ReplayError> {
        for argument in task.arguments() {
            for stage in [DumpStage::BeforeDispatch, DumpStage::AfterCompletion] {
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
    /// Which.
    pub memory: usize,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// An argument's place in the memories of its launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The argument.
    pub arg_index: u16,
    /// Where.
    pub part: Part,
}

impl Range {
    /// Its bytes.
    pub fn of<'m>(&self, memories: &'m [Vec<u8>]) -> &'m [u8] {
        let Part { memory, offset, bytes } = self.part;
        let (from, bytes) = (usize::try_from(offset).unwrap_or(0), usize::try_from(bytes).unwrap_or(0));
        memories.get(memory).and_then(|all| all.get(from..from.checked_add(bytes)?)).unwrap_or(&[])
    }
}

/// One argument of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    /// These bytes.
    Value(Vec<u8>),
    /// So many bytes for each work group.
    Local(u64),
    /// Memory that lay at an address.
    Memory(u64, Part),
    /// Nothing is known of it.
    Nothing,
}

/// A memory of a launch, of which none overlaps another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Where it lay.
    pub address: u64,
    /// What it held.
    pub content: Vec<u8>,
}

/// All that a launch was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Every argument, by its index.
    pub passed: Vec<Passed>,
    /// Memory that arguments share, then that which stands alone.
    pub memories: Vec<Memory>,
    /// How many of them arguments share.
    pub shared: usize,
    /// Arguments that are memory.
    pub ranges: Vec<Range>,
}

/// Memory that an argument was given.
struct Given<'t> {
    argument: Argument<'t>,
    address: u64,
    bytes: u64,
    stands_alone: bool,
}

impl Gathered {
    /// Gathers what a launch was given, and grades its arguments. Memory of arguments that `stands_alone` names is shared with no other's; a launch may lack
    /// arguments where `may_lack` says so. The inner error is why it cannot be given again.
    pub fn of(
        contents: &Contents<'_>,
        task: Task<'_>,
        stands_alone: impl Fn(u16) -> bool,
        may_lack: bool,
        grades: &mut Vec<ArgReport>,
    ) -> Result<Result<Gathered, String>, ReplayError> {
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
                    passed.push(Passed::Nothing);
                    continue;
                }
                // The kernel is not called with it; it stands behind all else.
                if task.uncaptured(arg_index).is_some_and(UncapturedReason::is_hidden) {
                    continue;
                }
                return Ok(Err(format!("argument {arg_index} cannot be given: {why}")));
            };
            match one(contents, task, argument, grades)? {
                Ok(One::Passed(one)) => passed.push(one),
                Ok(One::Memory(memory)) => {
                    // Its place is known when all ranges are.
                    passed.push(Passed::Local(0));
                    given.push(Given { stands_alone: stands_alone(arg_index), ..memory });
                }
                Err(why) => return Ok(Err(format!("argument {arg_index}: {why}"))),
            }
        }
        // What stands behind all that was counted.
        for (arg_index, reason) in task.uncaptured_args().filter(|(at, _)| u32::from(*at) >= total) {
            if reason.is_hidden() {
                grades.push(graded(
                    arg_index,
                    Grade::Zero,
                    Some(contents.capture.why_missing(task, arg_index)),
                ));
            }
        }
        let mut gathered = match lay_out(&given) {
            Ok(laid) => Gathered { passed, ..laid },
            Err(why) => return Ok(Err(why)),
        };
        for (range, given) in gathered.ranges.iter().zip(&given) {
            if let Err(why) = fill(contents, task, range, given, &mut gathered.memories)? {
                return Ok(Err(format!("argument {}: {why}", range.arg_index)));
            }
            gathered.passed[usize::from(range.arg_index)] = Passed::Memory(given.address, range.part);
        }
        Ok(Ok(gathered))
    }
}

/// Arguments that a launch has: as its end says, or, where it has none, as far as any were recorded.
fn argument_total(task: Task<'_>) -> u32 {
    let last = task.arguments().next_back().map_or(0, |argument| u32::from(argument.arg_index) + 1);
    task.tensor_count.saturating_add(task.scalar_count).max(last)
}

/// Why the records of a task make no launch.
fn damage(task: Task<'_>, total: u32) -> Option<String> {
    if total > MOST_ARGS {
        return Some(format!("its record says {total} arguments; no kernel has as many"));
    }
    let repeated = task.arguments().find(|argument| argument.is_repeated);
    repeated.map(|a| format!("argument {} is recorded twice for the same stage", a.arg_index))
}

/// What is known of how true an argument is.
pub fn graded(arg_index: u16, grade: Grade, reason: Option<String>) -> ArgReport {
    ArgReport { arg_index, role: None, grade, reason }
}

enum One<'t> {
    Passed(Passed),
    Memory(Given<'t>),
}

/// One argument. The inner error is why it cannot be passed.
fn one<'t>(
    contents: &Contents<'_>,
    task: Task<'_>,
    argument: Argument<'t>,
    grades: &mut Vec<ArgReport>,
) -> Result<Result<One<'t>, String>, ReplayError> {
    let arg_index = argument.arg_index;
    let Some(captured) = argument.before.or(argument.after) else {
        return Ok(Err("nothing was captured of it".into()));
    };
    let record = contents.dump.record(captured.record)?;
    if let Some(bits) = argument.scalar_bits {
        grades.push(graded(arg_index, Grade::Exact, None));
        let bytes = usize::try_from(argument.dtype.bits() / 8).unwrap_or(8).clamp(1, 8);
        let value = bits.to_le_bytes()[..bytes].to_vec();
        let passed = if record.is_local { Passed::Local(bits) } else { Passed::Value(value) };
        return Ok(Ok(One::Passed(passed)));
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
        let value = match content {
            Content::Whole(blob) => contents.read(&blob)?,
            _ if argument.content_bytes() == Some(0) => Ok(Vec::new()),
            _ => Err("its value was not stored".into()),
        };
        return Ok(value.map(|value| One::Passed(Passed::Value(value))));
    }
    if !is_contiguous(argument.shape(), argument.strides()) || !argument.is_consistent {
        return Ok(Err("its records describe no one range of memory".into()));
    }
    let start = argument.start_offset.checked_mul(u64::from(argument.dtype.bits())).map(|bits| bits / 8);
    let address = start.and_then(|start| argument.address.checked_add(start));
    let range = address.zip(argument.content_bytes());
    Ok(range
        .filter(|(address, bytes)| address.checked_add(*bytes).is_some())
        .map(|(address, bytes)| One::Memory(Given { argument, address, bytes, stands_alone: false }))
        .ok_or_else(|| "its range leaves all memory".into()))
}

/// Memories, all zero, and where in them each argument lies, in the order given.
fn lay_out(given: &[Given<'_>]) -> Result<Gathered, String> {
    let mut order: Vec<usize> = (0..given.len()).filter(|&at| !given[at].stands_alone).collect();
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
    let shared = spans.len();
    for (given, place) in given.iter().zip(&mut places).filter(|(given, _)| given.stands_alone) {
        *place = spans.len();
        spans.push((given.address, given.address + given.bytes));
    }
    let total: u64 = spans.iter().map(|(start, end)| end - start).fold(0, u64::saturating_add);
    let stored: u64 =
        given.iter().filter_map(|g| g.argument.before).map(|c| c.bytes).fold(0, u64::saturating_add);
    if total > stored.max(MOST_UNKNOWN_BYTES) {
        return Err(format!("it was given {total} bytes of memory, of which {stored} were stored"));
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
    Ok(Gathered { passed: Vec::new(), memories: spans.iter().map(memory).collect(), shared, ranges })
}

/// Puts what was captured of an argument into its place. The inner error is that it is damaged.
fn fill(
    contents: &Contents<'_>,
    task: Task<'_>,
    range: &Range,
    given: &Given<'_>,
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
