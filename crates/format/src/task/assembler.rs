//! Puts tasks together from records that come one by one, in any order.

use std::collections::HashMap;
use std::sync::Arc;

use tensortap_abi::{
    AllocationRecord, DType, DumpStage, FinishedRecord, MemorySpace, NO_KERNEL, RecordKind, Role,
    SLOTS_PER_TASK, ScalarRecord, TensorRecord,
};

use super::{
    ArgumentFacts, Captured, Dims, DispatchFacts, DispatchTimes, Entry, NO_NAME, RecordingThread, Renewed,
    TaskFacts, TaskKey, Tasks,
};
use crate::{ArgumentKind, Edge, IndexRecord, KernelInfo, PayloadState, Record, Uncaptured};

/// Argument records of one task that are held before repeated ones are set aside. A task has at most 65,536 arguments at two
/// stages, so one that is sent on and on takes no more memory than this.
const MAX_HELD: usize = 1 << 18;

/// Something that a dump says of a task.
#[derive(Clone, Debug)]
pub enum TaskPart<'r> {
    /// The task itself. Of several records, the first of a task that completed counts; of none that completed, the last.
    Task(TaskFacts),
    /// An argument at one stage.
    Argument(ArgumentRecord<'r>),
    /// A dispatch that was handed over, and when.
    Dispatch(TaskKey, DispatchFacts, DispatchTimes),
    /// When one ran.
    Finished(TaskKey, Finished),
    /// A dependency.
    Edge(Edge),
    /// An argument that could not be captured.
    Uncaptured(Uncaptured),
    /// Memory that tasks may use.
    Renewed(Renewed),
}

impl<'r> TaskPart<'r> {
    /// Kinds of records that a task is put together from.
    pub(crate) const KINDS: [RecordKind; 8] = [
        RecordKind::Task,
        RecordKind::Tensor,
        RecordKind::Scalar,
        RecordKind::Dispatch,
        RecordKind::Finished,
        RecordKind::Edge,
        RecordKind::Uncaptured,
        RecordKind::Allocation,
    ];

    /// What a record of an index says; `None` when it is about no task. `number` is given to an argument, and `thread` is who
    /// recorded it. Only the record of a task says a step; `step_of` says it for the others, by the id of a task.
    #[must_use]
    pub fn of(
        number: u64,
        thread: Option<u32>,
        record: &'r IndexRecord,
        step_of: impl Fn(u64) -> u32,
    ) -> Option<TaskPart<'r>> {
        match record.kind() {
            RecordKind::Task => {
                record.as_task().map(|task| TaskPart::Task(TaskFacts { thread, ..TaskFacts::from(task) }))
            }
            RecordKind::Tensor | RecordKind::Scalar => {
                ArgumentRecord::of(number, record, step_of(record.task_id())).map(TaskPart::Argument)
            }
            RecordKind::Dispatch => {
                let numbers = record.sound_dispatch()?;
                let facts = DispatchFacts {
                    subtask_id: numbers.subtask_id,
                    block_idx: numbers.block_idx,
                    func_id: numbers.func_id,
                    core_id: numbers.core_id,
                };
                let (handed_ns, completed_ns) = (numbers.started_ns, numbers.completed_ns);
                let times = DispatchTimes { handed_ns, completed_ns, thread, ..DispatchTimes::default() };
                let task_id = record.task_id();
                Some(TaskPart::Dispatch(TaskKey { step: step_of(task_id), task_id }, facts, times))
            }
            RecordKind::Finished => {
                let &FinishedRecord { subtask_id, block_idx, started_ns, completed_ns, .. } =
                    record.as_finished()?;
                let task_id = record.task_id();
                let finished = Finished { subtask_id, block_idx, started_ns, completed_ns };
                Some(TaskPart::Finished(TaskKey { step: step_of(task_id), task_id }, finished))
            }
            RecordKind::Edge => Edge::new(record, step_of).map(TaskPart::Edge),
            RecordKind::Uncaptured => {
                Uncaptured::new(record, step_of(record.task_id())).map(TaskPart::Uncaptured)
            }
            RecordKind::Allocation => {
                let &AllocationRecord { address, bytes, at_ns, space, freed, .. } = record.get()?;
                let host_writable = MemorySpace::from_tag(space)?.is_host_writable();
                Some(TaskPart::Renewed(Renewed { at_ns, address, bytes, freed: freed != 0, host_writable }))
            }
            _ => None,
        }
    }
}

/// When one dispatch of a task ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finished {
    /// Subtask slot.
    pub subtask_id: u32,
    /// Block.
    pub block_idx: u32,
    /// When its kernel was called.
    pub started_ns: u64,
    /// When it returned.
    pub completed_ns: u64,
}

/// One argument at one stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArgumentRecord<'r> {
    /// Number by which the owner of the records knows it.
    pub number: u64,
    /// Its task.
    pub task: TaskKey,
    /// Kernel of each subtask slot as far as this record says, for a task that has no record of its own.
    pub func_id: [u32; SLOTS_PER_TASK],
    /// When it was captured.
    pub stage: DumpStage,
    /// Position among the task's arguments.
    pub arg_index: u16,
    /// Tensor or scalar.
    pub kind: ArgumentKind,
    /// Direction.
    pub role: Role,
    /// Element type.
    pub dtype: DType,
    /// Whether that is what the elements are.
    pub dtype_known: bool,
    /// Whether the role is what the task does.
    pub role_known: bool,
    /// Whether it is known how far it reaches.
    pub extent_known: bool,
    /// Whether the host may change it at any time.
    pub host_writable: bool,
    /// Size of each dimension.
    pub shape: &'r [u64],
    /// Strides in elements, as many.
    pub strides: &'r [i64],
    /// First element of the view.
    pub start_offset: u64,
    /// Device address of the buffer.
    pub address: u64,
    /// Raw bits of a scalar.
    pub scalar_bits: Option<u64>,
    /// Hash of the content.
    pub hash: Option<u128>,
    /// What became of the payload.
    pub payload: PayloadState,
    /// Bytes of it that are stored.
    pub bytes: u64,
    /// The task had not completed.
    pub in_flight: bool,
    /// String id of its own name; 0: as its kernel declares it.
    pub name: u32,
}

impl<'r> ArgumentRecord<'r> {
    /// `None` when the record is no argument, or damaged.
    fn of(number: u64, record: &'r IndexRecord, step: u32) -> Option<ArgumentRecord<'r>> {
        let tensor: Option<&TensorRecord> = record.get();
        let scalar: Option<&ScalarRecord> = record.get();
        let ndims = tensor.map_or(0, |tensor| usize::from(tensor.ndims).min(tensor.shape.len()));
        Some(ArgumentRecord {
            number,
            task: TaskKey { step, task_id: record.task_id() },
            func_id: [NO_KERNEL; SLOTS_PER_TASK],
            stage: record.stage()?,
            arg_index: record.arg_index(),
            kind: if tensor.is_some() { ArgumentKind::Tensor } else { ArgumentKind::Scalar },
            role: record.role()?,
            dtype: record.dtype()?,
            dtype_known: record.is_dtype_known(),
            role_known: record.is_role_known(),
            extent_known: record.is_extent_known(),
            host_writable: record.is_host_writable(),
            shape: tensor.map_or(&[], |tensor| &tensor.shape[..ndims]),
            strides: tensor.map_or(&[], |tensor| &tensor.strides[..ndims]),
            start_offset: tensor.map_or(0, |tensor| tensor.start_offset),
            address: tensor.map_or(0, |tensor| tensor.address),
            scalar_bits: scalar.map(|scalar| scalar.bits),
            hash: record.hash(),
            payload: record.payload_state(),
            bytes: record.stored_range().map_or(0, |(_, bytes)| bytes),
            in_flight: record.is_in_flight(),
            name: tensor.map(|tensor| tensor.name).or(scalar.map(|scalar| scalar.name)).unwrap_or(0),
        })
    }
}

impl<'r> From<&'r Record> for ArgumentRecord<'r> {
    fn from(record: &'r Record) -> ArgumentRecord<'r> {
        ArgumentRecord {
            number: record.index,
            task: record.task_key(),
            func_id: record.func_id,
            stage: record.stage,
            arg_index: record.arg_index,
            kind: record.kind,
            role: record.role,
            dtype: record.dtype,
            dtype_known: record.dtype_known,
            role_known: record.role_known,
            extent_known: record.extent_known,
            host_writable: record.host_writable,
            shape: record.shape(),
            strides: record.strides(),
            start_offset: record.start_offset,
            address: record.address,
            scalar_bits: record.scalar_bits,
            hash: record.hash,
            payload: record.payload,
            bytes: record.bin_size,
            in_flight: record.in_flight,
            name: record.name,
        }
    }
}

/// Takes records one by one and makes [`Tasks`] of them; the order in which records of different tasks come leaves no trace
/// but the order of the tasks. Memory is that of what was taken and not removed, except that repeated arguments cost nothing.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    parts: HashMap<TaskKey, Box<Parts>>,
    edges: Vec<Edge>,
    uncaptured: Vec<Uncaptured>,
    renewed: Vec<Renewed>,
    threads: Vec<RecordingThread>,
    /// Records taken so far.
    taken: u64,
}

/// What has come of one task.
#[derive(Clone, Debug)]
struct Parts {
    facts: TaskFacts,
    /// When the first record of the task itself came.
    recorded_at: Option<u64>,
    /// When anything of it came.
    mentioned_at: u64,
    /// Records that say it completed; more than one are of several tasks with one id.
    completions: u32,
    /// One for each record, so each has one stage only.
    arguments: Vec<ArgumentFacts>,
    dims: Dims,
    dispatches: Vec<(DispatchFacts, DispatchTimes)>,
    finished: Vec<Finished>,
}

/// What has come of a task so far.
#[derive(Clone, Copy, Debug)]
pub struct Pending<'a>(&'a Parts);

impl<'a> Pending<'a> {
    /// What the records of the task itself say, when one has come.
    #[must_use]
    pub fn facts(&self) -> Option<&'a TaskFacts> {
        self.0.recorded_at.map(|_| &self.0.facts)
    }

    /// Argument records that have come, repeated ones too.
    #[must_use]
    pub fn argument_count(&self) -> usize {
        self.0.arguments.len()
    }

    /// Each argument record that has come: stage and what it says.
    pub fn arguments(&self) -> impl Iterator<Item = (DumpStage, &'a ArgumentFacts)> + use<'a> {
        self.0.arguments.iter().map(|facts| (stage_of(facts), facts))
    }

    /// Whether the task has completed, and nothing of it was captured before that.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        let is_in_flight = |facts: &ArgumentFacts| captured_of(facts).is_some_and(|c| c.in_flight);
        self.facts().is_some_and(|facts| facts.completed_ns.is_some())
            && !self.0.arguments.iter().any(is_in_flight)
    }
}

impl Assembler {
    /// Records that were taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Takes what a record says.
    pub fn take(&mut self, part: TaskPart<'_>) {
        self.taken += 1;
        match part {
            TaskPart::Task(facts) => {
                let at = self.taken;
                self.parts(facts.key()).take_task(at, facts);
            }
            TaskPart::Argument(record) => self.parts(record.task).take_argument(&record),
            TaskPart::Dispatch(task, facts, times) => self.parts(task).dispatches.push((facts, times)),
            TaskPart::Finished(task, finished) => self.parts(task).finished.push(finished),
            TaskPart::Edge(edge) => self.edges.push(edge),
            TaskPart::Uncaptured(uncaptured) => self.uncaptured.push(uncaptured),
            TaskPart::Renewed(renewed) => self.renewed.push(renewed),
        }
    }

    fn parts(&mut self, key: TaskKey) -> &mut Parts {
        let mentioned_at = self.taken;
        self.parts.entry(key).or_insert_with(|| {
            Box::new(Parts {
                facts: TaskFacts::unknown(key),
                recorded_at: None,
                mentioned_at,
                completions: 0,
                arguments: Vec::new(),
                dims: Dims::default(),
                dispatches: Vec::new(),
                finished: Vec::new(),
            })
        })
    }

    /// Says who recorded: parts refer to them by their place.
    pub fn know_threads(&mut self, threads: Vec<RecordingThread>) {
        self.threads = threads;
    }

    /// What has come of a task so far.
    #[must_use]
    pub fn pending(&self, key: TaskKey) -> Option<Pending<'_>> {
        self.parts.get(&key).map(|parts| Pending(parts))
    }

    /// Takes one task out, as far as it has come; its edges stay.
    pub fn remove(&mut self, key: TaskKey, kernels: &Arc<[KernelInfo]>) -> Option<Tasks> {
        let parts = self.parts.remove(&key)?;
        let mut tasks = Tasks { kernels: Arc::clone(kernels), ..Tasks::default() };
        tasks.add(*parts);
        Some(tasks)
    }

    /// All tasks that have come. `kernels` give their kernels names.
    #[must_use]
    pub fn finish(self, kernels: &[KernelInfo]) -> Tasks {
        let Assembler { parts, edges, mut uncaptured, mut renewed, threads, taken: _ } = self;
        let mut parts: Vec<Box<Parts>> = parts.into_values().collect();
        parts.sort_unstable_by_key(|parts| {
            (parts.recorded_at.is_none(), parts.recorded_at, parts.mentioned_at)
        });
        renewed.sort_unstable();
        let mut tasks = Tasks { edges, renewed, threads, kernels: kernels.into(), ..Tasks::default() };
        tasks.entries.reserve_exact(parts.len());
        tasks.arguments.reserve_exact(parts.iter().map(|parts| parts.arguments.len()).sum());
        for parts in parts {
            tasks.add(*parts);
        }
        tasks.arguments.shrink_to_fit();
        // Of several reasons the first stays.
        uncaptured.sort_by_key(|u| (u.task_key(), u.arg_index));
        tasks.uncaptured = uncaptured.iter().map(|u| (u.task_key(), u.arg_index, u.reason)).collect();
        tasks
    }
}

impl Parts {
    fn take_task(&mut self, at: u64, mut facts: TaskFacts) {
        self.completions = self.completions.saturating_add(facts.completed_ns.is_some().into());
        // The later stage knows more; a completion may come before its dispatch.
        if self.recorded_at.is_none() || self.facts.completed_ns.is_none() {
            // Who says that it never completed did not run it.
            facts.thread = self.facts.thread.filter(|_| facts.in_flight).or(facts.thread);
            self.facts = facts;
        }
        self.recorded_at.get_or_insert(at);
    }

    fn take_argument(&mut self, record: &ArgumentRecord<'_>) {
        if self.recorded_at.is_none() && self.facts.func_id == [NO_KERNEL; SLOTS_PER_TASK] {
            self.facts.func_id = record.func_id;
        }
        if self.arguments.len() >= MAX_HELD {
            self.set_repeated_aside();
        }
        let (dims_at, ndims) = self.dims.keep(record.shape, record.strides);
        let captured = Captured {
            record: record.number,
            bytes: record.bytes,
            hash: [0; 16],
            has_hash: false,
            payload: record.payload,
            in_flight: record.in_flight,
        };
        let captured = Some(captured.with_hash(record.hash));
        // Most tasks have few, and there may be millions of tasks: no room for more than there are.
        if self.arguments.len() == self.arguments.capacity() {
            self.arguments.reserve_exact((self.arguments.len() / 2).max(1));
        }
        let is_before = record.stage == DumpStage::BeforeDispatch;
        self.arguments.push(ArgumentFacts {
            arg_index: record.arg_index,
            kind: record.kind,
            role: record.role,
            dtype: record.dtype,
            dtype_known: record.dtype_known,
            role_known: record.role_known,
            extent_known: record.extent_known,
            host_writable: record.host_writable,
            is_consistent: true,
            is_repeated: false,
            start_offset: record.start_offset,
            address: record.address,
            scalar_bits: record.scalar_bits,
            before: captured.filter(|_| is_before),
            after: captured.filter(|_| !is_before),
            name: record.name,
            dims_at,
            ndims,
        });
    }

    /// Leaves one record of each argument and stage, in their order.
    fn set_repeated_aside(&mut self) {
        // Stable, because what was in order is sorted in one pass.
        self.arguments.sort_by_key(|facts| {
            let captured = captured_of(facts);
            (
                facts.arg_index,
                stage_of(facts) == DumpStage::AfterCompletion,
                captured.is_some_and(|c| c.in_flight),
                captured.map_or(0, |c| c.record),
            )
        });
        self.arguments.dedup_by(|later, first| {
            let same = (later.arg_index, stage_of(later)) == (first.arg_index, stage_of(first));
            first.is_repeated |= same;
            same
        });
        let old = std::mem::take(&mut self.dims);
        for facts in &mut self.arguments {
            (facts.dims_at, facts.ndims) = self.dims.keep(old.shape(facts), old.strides(facts));
        }
    }
}

impl Tasks {
    /// Adds a task behind the others.
    fn add(&mut self, mut parts: Parts) {
        parts.set_repeated_aside();
        let first = self.arguments.len();
        for record in parts.arguments {
            let (shape, strides) = (parts.dims.shape(&record), parts.dims.strides(&record));
            match self.arguments[first..].last_mut() {
                Some(before) if before.arg_index == record.arg_index => {
                    let same_dims = self.dims.shape(before) == shape && self.dims.strides(before) == strides;
                    let view = |f: &ArgumentFacts| {
                        (f.kind, f.dtype, f.dtype_known, f.role, f.role_known, f.address, f.start_offset)
                    };
                    before.is_consistent = same_dims && view(before) == view(&record);
                    before.is_repeated |= record.is_repeated;
                    before.after = record.after;
                }
                _ => {
                    let (dims_at, ndims) = self.dims.keep(shape, strides);
                    self.arguments.push(ArgumentFacts { dims_at, ndims, ..record });
                }
            }
        }
        parts.dispatches.sort_by_key(|(facts, _)| *facts);
        parts.finished.sort_unstable();
        let first_dispatch = self.dispatches.len();
        for (facts, times) in parts.dispatches {
            let place = (facts.subtask_id, facts.block_idx);
            let ran = parts.finished.binary_search_by_key(&place, |ran| (ran.subtask_id, ran.block_idx));
            let times = ran.map_or(times, |at| DispatchTimes {
                started_ns: parts.finished[at].started_ns,
                completed_ns: parts.finished[at].completed_ns,
                ..times
            });
            self.dispatches.push(facts);
            self.dispatch_times.push(times);
        }
        self.entries.push(Entry {
            facts: parts.facts,
            is_recorded: parts.recorded_at.is_some(),
            is_repeated: parts.completions > 1,
            name: NO_NAME,
            scope: NO_NAME,
            arguments: small(first)..small(self.arguments.len()),
            dispatches: small(first_dispatch)..small(self.dispatches.len()),
        });
    }
}

/// A place in a list of arguments or dispatches, which has fewer: each takes a hundred bytes and more.
fn small(place: usize) -> u32 {
    u32::try_from(place).expect("2^32 arguments do not fit in memory")
}

/// The stage of an argument that has one.
fn stage_of(facts: &ArgumentFacts) -> DumpStage {
    if facts.before.is_some() { DumpStage::BeforeDispatch } else { DumpStage::AfterCompletion }
}

/// What was captured at that stage.
fn captured_of(facts: &ArgumentFacts) -> Option<&Captured> {
    facts.before.as_ref().or(facts.after.as_ref())
}
