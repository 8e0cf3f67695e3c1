//! Assembles tasks from single records, in any order.

use std::collections::HashMap;
use std::sync::Arc;

use tensortap_abi::{
    AllocationRecord, CollectiveKind, CollectiveRecord, DType, DumpStage, FinishedRecord, MemorySpace,
    NO_KERNEL, RecordKind, Role, SLOTS_PER_TASK, ScalarRecord, TensorRecord,
};

use super::{
    AllocationEvent, ArgumentFacts, ArgumentSnapshot, CollectiveFacts, Dims, DispatchFacts, DispatchTimes,
    Entry, NO_NAME, RecordingThread, TaskFacts, TaskKey, Tasks,
};
use crate::{ArgumentKind, Edge, IndexRecord, KernelInfo, PayloadState, Record, UncapturedArgument};

/// Maximum number of argument records of one task before repeated ones are removed. A task has at most
/// 65,536 arguments at two stages, so endlessly repeated records use no more memory than this.
const MAX_HELD: usize = 1 << 18;

/// One piece of information about a task.
#[derive(Clone, Debug)]
pub enum TaskPart<'r> {
    /// The task itself. If there are several records: the first one of a completed task counts, otherwise
    /// the last one.
    Task(TaskFacts),
    /// An argument at one stage.
    Argument(ArgumentRecord<'r>),
    /// A dispatch, with its times.
    Dispatch(TaskKey, DispatchFacts, DispatchTimes),
    /// Start and end of a dispatch.
    Finished(TaskKey, DispatchFinish),
    /// A dependency.
    Edge(Edge),
    /// An argument that could not be captured.
    Uncaptured(UncapturedArgument),
    /// An allocation or release of memory.
    AllocationEvent(AllocationEvent),
    /// What the task is in a collective operation.
    Collective(TaskKey, CollectiveFacts),
}

impl<'r> TaskPart<'r> {
    /// Kinds of records from which tasks are assembled.
    pub(crate) const KINDS: [RecordKind; 9] = [
        RecordKind::Task,
        RecordKind::Tensor,
        RecordKind::Scalar,
        RecordKind::Dispatch,
        RecordKind::Finished,
        RecordKind::Edge,
        RecordKind::Uncaptured,
        RecordKind::Allocation,
        RecordKind::Collective,
    ];

    /// The information in a record of an index; `None` if it is not about a task. An argument gets
    /// `number`, and `thread` is the recording thread. Only task records contain a step; `step_of` returns
    /// it for other records, by task id.
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
                let finished = DispatchFinish { subtask_id, block_idx, started_ns, completed_ns };
                Some(TaskPart::Finished(TaskKey { step: step_of(task_id), task_id }, finished))
            }
            RecordKind::Edge => Edge::new(record, step_of).map(TaskPart::Edge),
            RecordKind::Uncaptured => {
                UncapturedArgument::new(record, step_of(record.task_id())).map(TaskPart::Uncaptured)
            }
            RecordKind::Allocation => {
                let &AllocationRecord {
                    address,
                    bytes,
                    at_ns,
                    space,
                    freed,
                    storage,
                    pool,
                    queue,
                    after_task,
                    ..
                } = record.get()?;
                let host_writable = MemorySpace::from_tag(space)?.is_host_writable();
                Some(TaskPart::AllocationEvent(AllocationEvent {
                    at_ns,
                    address,
                    bytes,
                    freed: freed != 0,
                    host_writable,
                    storage,
                    pool,
                    queue,
                    after_task,
                }))
            }
            RecordKind::Collective => {
                let &CollectiveRecord { task_id, sequence, group, collective, .. } = record.get()?;
                let kind = CollectiveKind::from_tag(collective)?;
                let key = TaskKey { step: step_of(task_id), task_id };
                Some(TaskPart::Collective(key, CollectiveFacts { sequence, group, kind }))
            }
            _ => None,
        }
    }
}

/// Start and end of one dispatch of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DispatchFinish {
    /// Subtask slot.
    pub subtask_id: u32,
    /// Block.
    pub block_idx: u32,
    /// When its kernel was called.
    pub started_ns: u64,
    /// When the kernel returned.
    pub completed_ns: u64,
}

/// One argument at one stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArgumentRecord<'r> {
    /// Number of the record, assigned by the owner of the records.
    pub number: u64,
    /// Its task.
    pub task: TaskKey,
    /// Kernel of each subtask slot, as far as this record states it. For tasks without a record of their
    /// own.
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
    /// Whether the element type is certain.
    pub dtype_known: bool,
    /// Whether the role is certain.
    pub role_known: bool,
    /// Whether its extent is known.
    pub extent_known: bool,
    /// Whether the host may change its memory at any time.
    pub host_writable: bool,
    /// Size of each dimension.
    pub shape: &'r [u64],
    /// Strides in elements, one per dimension.
    pub strides: &'r [i64],
    /// First element of the view.
    pub start_offset: u64,
    /// Device address of the buffer.
    pub address: u64,
    /// Raw bits of a scalar.
    pub scalar_bits: Option<u64>,
    /// Hash of the content.
    pub hash: Option<u128>,
    /// State of the payload.
    pub payload: PayloadState,
    /// Number of stored bytes.
    pub bytes: u64,
    /// Whether the task had not completed.
    pub in_flight: bool,
    /// String id of its name; 0 means that the kernel declares the name.
    pub name: u32,
}

impl<'r> ArgumentRecord<'r> {
    /// Returns `None` if the record is not an argument, or is damaged.
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

/// Accepts single records and builds [`Tasks`]. The order of records of different tasks only affects the
/// order of the tasks. Memory grows with the accepted and not removed records; repeated arguments need no
/// additional memory.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    parts: HashMap<TaskKey, Box<TaskParts>>,
    edges: Vec<Edge>,
    uncaptured: Vec<UncapturedArgument>,
    renewed: Vec<AllocationEvent>,
    collectives: HashMap<TaskKey, CollectiveFacts>,
    threads: Vec<RecordingThread>,
    /// Number of accepted records.
    taken: u64,
}

/// The records of one task so far.
#[derive(Clone, Debug)]
struct TaskParts {
    facts: TaskFacts,
    /// When the first record of the task itself arrived.
    recorded_at: Option<u64>,
    /// When the first record about it arrived.
    mentioned_at: u64,
    /// Number of records of its completion. More than one means several tasks with one id.
    completions: u32,
    /// One per record, so each has one stage only.
    arguments: Vec<ArgumentFacts>,
    dims: Dims,
    dispatches: Vec<(DispatchFacts, DispatchTimes)>,
    finished: Vec<DispatchFinish>,
}

/// The records of one task so far.
#[derive(Clone, Copy, Debug)]
pub struct PendingTask<'a>(&'a TaskParts);

impl<'a> PendingTask<'a> {
    /// The facts from the records of the task itself, if one has arrived.
    #[must_use]
    pub fn facts(&self) -> Option<&'a TaskFacts> {
        self.0.recorded_at.map(|_| &self.0.facts)
    }

    /// Number of argument records, including repeated ones.
    #[must_use]
    pub fn argument_count(&self) -> usize {
        self.0.arguments.len()
    }

    /// Each argument record: its stage and facts.
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
    /// Number of accepted records.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Accepts one part.
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
            TaskPart::AllocationEvent(renewed) => self.renewed.push(renewed),
            // If there are several records, the first one counts.
            TaskPart::Collective(task, facts) => {
                self.collectives.entry(task).or_insert(facts);
            }
        }
    }

    fn parts(&mut self, key: TaskKey) -> &mut TaskParts {
        let mentioned_at = self.taken;
        self.parts.entry(key).or_insert_with(|| {
            Box::new(TaskParts {
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

    /// Sets the recording threads. Parts refer to them by position.
    pub fn know_threads(&mut self, threads: Vec<RecordingThread>) {
        self.threads = threads;
    }

    /// The records of a task so far.
    #[must_use]
    pub fn pending(&self, key: TaskKey) -> Option<PendingTask<'_>> {
        self.parts.get(&key).map(|parts| PendingTask(parts))
    }

    /// Removes one task with everything that has arrived for it. Its edges stay.
    pub fn remove(&mut self, key: TaskKey, kernels: &Arc<[KernelInfo]>) -> Option<Tasks> {
        let parts = self.parts.remove(&key)?;
        let mut tasks = Tasks { kernels: Arc::clone(kernels), ..Tasks::default() };
        tasks.add(*parts);
        Some(tasks)
    }

    /// All tasks. `kernels` provides the names of their kernels.
    #[must_use]
    pub fn finish(self, kernels: &[KernelInfo]) -> Tasks {
        let Assembler { parts, edges, mut uncaptured, mut renewed, collectives, threads, taken: _ } = self;
        let mut parts: Vec<Box<TaskParts>> = parts.into_values().collect();
        parts.sort_unstable_by_key(|parts| {
            (parts.recorded_at.is_none(), parts.recorded_at, parts.mentioned_at)
        });
        renewed.sort_unstable();
        let mut tasks =
            Tasks { edges, renewed, collectives, threads, kernels: kernels.into(), ..Tasks::default() };
        tasks.entries.reserve_exact(parts.len());
        tasks.arguments.reserve_exact(parts.iter().map(|parts| parts.arguments.len()).sum());
        for parts in parts {
            tasks.add(*parts);
        }
        tasks.arguments.shrink_to_fit();
        // If there are several reasons, the first one counts.
        uncaptured.sort_by_key(|u| (u.task_key(), u.arg_index));
        tasks.uncaptured = uncaptured.iter().map(|u| (u.task_key(), u.arg_index, u.reason)).collect();
        tasks
    }
}

impl TaskParts {
    fn take_task(&mut self, at: u64, mut facts: TaskFacts) {
        self.completions = self.completions.saturating_add(facts.completed_ns.is_some().into());
        // The later stage has more information. A completion may arrive before its dispatch.
        if self.recorded_at.is_none() || self.facts.completed_ns.is_none() {
            // The thread that records that a task never completed did not run it.
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
        let captured = ArgumentSnapshot {
            record: record.number,
            bytes: record.bytes,
            hash: [0; 16],
            has_hash: false,
            payload: record.payload,
            in_flight: record.in_flight,
        };
        let captured = Some(captured.with_hash(record.hash));
        // Most tasks have few arguments, and there may be millions of tasks, so no capacity is wasted.
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
            is_const: !record.role_known && record.role == Role::Input,
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

    /// Keeps one record of each argument and stage, in their order.
    fn set_repeated_aside(&mut self) {
        // A stable sort, because sorted data then takes one pass.
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
    /// Appends a task.
    fn add(&mut self, mut parts: TaskParts) {
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
        // A `const` argument with an observation after the task is judged by it.
        for facts in
            self.arguments[first..].iter_mut().filter(|facts| facts.is_const && facts.after.is_some())
        {
            facts.role = Role::InOut;
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

/// A position in a list of arguments or dispatches. Each entry has more than a hundred bytes, so there are
/// fewer than 2^32.
fn small(place: usize) -> u32 {
    u32::try_from(place).expect("2^32 arguments do not fit in memory")
}

/// The stage of an argument that was captured at exactly one stage.
fn stage_of(facts: &ArgumentFacts) -> DumpStage {
    if facts.before.is_some() { DumpStage::BeforeDispatch } else { DumpStage::AfterCompletion }
}

/// The captured data of that stage.
fn captured_of(facts: &ArgumentFacts) -> Option<&ArgumentSnapshot> {
    facts.before.as_ref().or(facts.after.as_ref())
}
