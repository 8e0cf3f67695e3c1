//! Recording, by one thread.

mod define;

use std::{collections::HashMap, time::Duration};

use tensortap_abi::{
    AllocationRecord, ArgKind, DType, DumpStage, EdgeCause, KernelArg, MAX_IMAGE_BYTES, MAX_RECORD_ARGS,
    MemorySpace, ModuleKind, ModuleRecord, Operation, QueueRecord, RECORD_EXTENDED, RECORD_HAS_PAYLOAD, Role,
    SLOTS_PER_TASK, StepRecord, UncapturedReason,
};
use tensortap_recorder::{
    Counters, EdgeCapture, KernelDefinition, Outcome, ScalarCapture, TaskHead, TensorCapture, UncapturedArg,
};
use tensortap_values::content_hash;

use crate::{
    KernelId, ModuleId, QueueId, RecordError, ScopeId, Session, StepId, StringId, Task, TaskInfo, Tensor,
    core::{CoreRef, Lane},
    later::Later,
    link::now_ns,
    names::Key,
    task::kernels_of,
    tensor::{NUMBER_LIMIT, check_position},
};

/// Texts whose numbers a handle keeps for itself; with more it begins anew.
const CACHED_TEXTS: usize = 4096;

/// Records for one thread, in a lane of its own, which is returned when this is dropped. It may be moved to another thread, and is
/// used by one at a time.
///
/// Every call is an error in a process that was forked, and once the session was closed.
pub struct ThreadRecorder {
    pub(crate) lane: Lane,
    /// Where content goes that comes later; leased when first needed.
    pub(crate) later: Option<Later>,
    pub(crate) core: CoreRef,
    pub(crate) name: Box<str>,
    pub(crate) max_wait: Option<Duration>,
    /// Numbers of texts that this handle has used.
    texts: HashMap<Box<str>, u32>,
}

/// What a kernel declares, for [`ThreadRecorder::define_kernel`].
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelInfo<'a> {
    /// What it is called.
    pub name: &'a str,
    /// The code it comes from.
    pub module: ModuleId,
    /// Name and kind of each argument, in order; an empty name is none.
    pub args: &'a [(&'a str, Option<ArgKind>)],
}

/// Code that kernels come from, for [`ThreadRecorder::module_image`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ModuleImage<'a> {
    /// What it is called.
    pub name: &'a str,
    /// What the image is.
    pub kind: ModuleKind,
    /// Options that it was built with, as its program wrote them.
    pub options: &'a str,
    /// Device that it was built for.
    pub device: &'a str,
    /// The image.
    pub image: &'a [u8],
}

impl ThreadRecorder {
    pub(crate) fn new(core: CoreRef, name: &str) -> Result<ThreadRecorder, RecordError> {
        let lane = core.lease(name)?;
        Ok(ThreadRecorder {
            lane,
            later: None,
            core,
            name: name.into(),
            max_wait: None,
            texts: HashMap::new(),
        })
    }

    /// The number of a task that is yet to begin, for [`TaskInfo::id`].
    pub fn next_task_id(&self) -> u64 {
        self.core.next_task()
    }

    /// The time, in nanoseconds of `CLOCK_MONOTONIC`, as tasks have it.
    pub fn now(&self) -> u64 {
        now_ns()
    }

    /// The number of a task that is yet to begin, for [`TaskInfo::id`], if a filter may let it pass; none where none does, and so many records count as filtered.
    /// For tasks that take effort to describe: what is refused here needs none.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    #[inline]
    pub fn claim(&mut self, kernel: KernelId, records: u32) -> Result<Option<u64>, RecordError> {
        self.core.check()?;
        let task_id = self.core.next_task();
        let func_ids = self.filtered_as(kernels_of([kernel, KernelId::NONE, KernelId::NONE]));
        Ok(self.lane.may_want_task(&TaskHead { task_id, func_ids, records }).then_some(task_id))
    }

    /// The kernels of a task as the filter is to see them.
    #[inline]
    fn filtered_as(&self, kernels: [u32; SLOTS_PER_TASK]) -> [u32; SLOTS_PER_TASK] {
        self.core.kernels.as_ref().map_or(kernels, |meant| meant.as_filtered(kernels))
    }

    /// Begins a task, whether or not there is room to [say so](Task::is_dropped). Record what it is given, let it run, record what it made, and [end](ThreadRecorder::end) it.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn begin(&mut self, info: &TaskInfo) -> Result<Task, RecordError> {
        self.core.check()?;
        let id = if info.id == 0 { self.core.next_task() } else { info.id };
        let now = self.lane.begin();
        let mut task = Task::new(id, info, now);
        let func_ids = self.filtered_as(task.kernels());
        let head = TaskHead { task_id: id, func_ids, records: info.records };
        if self.lane.wants_task(&head) {
            let outcome = self.lane.task(&task.record());
            task.began(outcome);
        } else {
            task.refuse();
        }
        task.captured_for(self.lane.end());
        Ok(task)
    }

    /// Records several things of a task, under one reading of the clock.
    pub fn together<T>(
        &mut self,
        task: &mut Task,
        call: impl FnOnce(&mut ThreadRecorder, &mut Task) -> T,
    ) -> T {
        self.lane.begin();
        let told = call(self, task);
        task.captured_for(self.lane.end());
        told
    }

    /// Begins a task and says at once what is known of it, under one reading of the clock.
    ///
    /// # Errors
    /// Those of [`ThreadRecorder::begin`], and of `then`.
    pub fn begin_with<T>(
        &mut self,
        info: &TaskInfo,
        then: impl FnOnce(&mut ThreadRecorder, &mut Task) -> Result<T, RecordError>,
    ) -> Result<(Task, T), RecordError> {
        self.core.check()?;
        let submitted_ns = self.lane.begin();
        let info = TaskInfo {
            submitted_ns: if info.submitted_ns == 0 { submitted_ns } else { info.submitted_ns },
            ..*info
        };
        let begun = self.begin(&info).and_then(|mut task| Ok((then(self, &mut task)?, task)));
        let took_ns = self.lane.end();
        let (told, mut task) = begun?;
        task.captured_for(took_ns);
        Ok((task, told))
    }

    /// Records a tensor before or after its task has run. With the first that is recorded after, the task has run.
    ///
    /// # Errors
    /// When the task has ended, the tensor cannot be read here, its view leaves its memory (which is recorded), and see [`ThreadRecorder`].
    pub fn tensor(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        tensor: &Tensor<'_>,
    ) -> Result<Outcome, RecordError> {
        self.tensors(task, stage, std::slice::from_ref(tensor))
    }

    /// Records several tensors, under one reading of the clock. The worst of what became of them is told.
    ///
    /// # Errors
    /// As [`ThreadRecorder::tensor`]: the first error. All others are recorded.
    pub fn tensors(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        tensors: &[Tensor<'_>],
    ) -> Result<Outcome, RecordError> {
        self.tensors_of(task, stage, tensors.len(), |at| Ok(tensors[at]))
    }

    /// The same, of tensors that are described one after the other.
    ///
    /// # Errors
    /// As [`ThreadRecorder::tensors`], and those of `describe`.
    #[inline]
    pub fn tensors_of<'t>(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        count: usize,
        mut describe: impl FnMut(usize) -> Result<Tensor<'t>, RecordError>,
    ) -> Result<Outcome, RecordError> {
        self.core.check()?;
        if !task.check()? {
            return Ok(Outcome::Filtered);
        }
        let now = self.lane.begin();
        let (mut worst, mut first_error) = (Outcome::Recorded, None);
        for at in 0..count {
            match describe(at).and_then(|tensor| self.one_tensor(task, stage, &tensor)) {
                Ok(outcome) => worst = worse(worst, outcome),
                Err(error) => _ = first_error.get_or_insert(error),
            }
        }
        if stage == DumpStage::AfterCompletion {
            task.completed(now);
        }
        task.captured_for(self.lane.end());
        first_error.map_or(Ok(worst), Err)
    }

    #[inline]
    fn one_tensor(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        tensor: &Tensor<'_>,
    ) -> Result<Outcome, RecordError> {
        if !tensor.is_here {
            let remedy = "its memory cannot be read here: reserve space for its content, and fill it";
            return Err(RecordError::BadArgument { what: "argument", value: tensor.arg.into(), remedy });
        }
        check_position(tensor.arg)?;
        task.has_tensor(tensor.arg);
        if !tensor.is_recordable() {
            return Err(self.not_recordable(task, stage, tensor));
        }
        match self.lane.tensor(&capture(task, stage, tensor)) {
            Outcome::Uncaptured => Err(self.uncaptured(tensor)),
            outcome => Ok(outcome),
        }
    }

    /// Records that an argument is larger than any, and says so.
    #[cold]
    pub(crate) fn not_recordable(
        &mut self,
        task: &Task,
        stage: DumpStage,
        tensor: &Tensor<'_>,
    ) -> RecordError {
        self.lane.uncaptured(&UncapturedArg {
            task_id: task.id(),
            stage,
            role: tensor.role,
            arg_index: tensor.arg,
            reason: UncapturedReason::BadDescriptor,
            marked: tensor.marked || task.is_marked(),
            name: tensor.known.name,
        });
        self.uncaptured(tensor)
    }

    /// Counts a view that could not be captured, and says why.
    pub(crate) fn uncaptured(&self, tensor: &Tensor<'_>) -> RecordError {
        self.core.uncaptured.next();
        tensor.fault()
    }

    /// Records a scalar argument, by its bits.
    ///
    /// # Errors
    /// As [`ThreadRecorder::tensor`].
    pub fn scalar(
        &mut self,
        task: &mut Task,
        arg: u16,
        dtype: DType,
        bits: u64,
        name: StringId,
    ) -> Result<Outcome, RecordError> {
        let capture = ScalarCapture { dtype, bits, ..no_scalar(arg, name) };
        self.scalar_argument(task, capture)
    }

    /// Records an argument that is memory which each work group has for itself: so many bytes.
    ///
    /// # Errors
    /// As [`ThreadRecorder::tensor`].
    pub fn local_memory(
        &mut self,
        task: &mut Task,
        arg: u16,
        bytes: u64,
        name: StringId,
    ) -> Result<Outcome, RecordError> {
        let capture = ScalarCapture { bits: bytes, is_local: true, ..no_scalar(arg, name) };
        self.scalar_argument(task, capture)
    }

    fn scalar_argument(&mut self, task: &mut Task, capture: ScalarCapture) -> Result<Outcome, RecordError> {
        self.core.check()?;
        if !task.check()? {
            return Ok(Outcome::Filtered);
        }
        check_position(capture.arg_index)?;
        task.has_scalar(capture.arg_index);
        let (task_id, marked) = (task.id(), task.is_marked());
        Ok(self.lane.scalar(&ScalarCapture { task_id, marked, ..capture }))
    }

    /// Says that a task which was begun when it was submitted starts now.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn starts(&mut self, task: &mut Task) -> Result<(), RecordError> {
        self.core.check()?;
        if task.check()? {
            task.starts(now_ns());
        }
        Ok(())
    }

    /// Ends a task that was begun and then refused by whoever was to run it: it has done nothing. The name says why.
    ///
    /// # Errors
    /// As [`ThreadRecorder::end`].
    pub fn refused(&mut self, task: &mut Task, name: StringId) -> Result<Outcome, RecordError> {
        task.becomes_nothing(name.0);
        self.end(task)
    }

    /// Records that an argument is there and its content is not captured.
    ///
    /// # Errors
    /// As [`ThreadRecorder::tensor`].
    pub fn not_captured(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        (arg, role, name): (u16, Role, StringId),
        reason: UncapturedReason,
    ) -> Result<Outcome, RecordError> {
        self.core.check()?;
        if !task.check()? {
            return Ok(Outcome::Filtered);
        }
        check_position(arg)?;
        task.has_tensor(arg);
        let (task_id, marked) = (task.id(), task.is_marked());
        Ok(self.lane.uncaptured(&UncapturedArg {
            task_id,
            stage,
            role,
            arg_index: arg,
            reason,
            marked,
            name: name.0,
        }))
    }

    /// Ends a task.
    ///
    /// # Errors
    /// When it has ended before, and see [`ThreadRecorder`].
    pub fn end(&mut self, task: &mut Task) -> Result<Outcome, RecordError> {
        self.core.check()?;
        if !task.check()? {
            task.end();
            return Ok(Outcome::Filtered);
        }
        task.completed(self.lane.begin());
        let outcome = self.lane.task(&task.record());
        self.lane.end();
        task.end();
        Ok(outcome)
    }

    /// Records that one task waits for another, at one of its arguments where that is why.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn edge(
        &mut self,
        producer: u64,
        consumer: u64,
        cause: EdgeCause,
        arg: u16,
    ) -> Result<Outcome, RecordError> {
        self.core.check()?;
        Ok(self.lane.edge(&EdgeCapture { consumer, producer, cause, arg_index: arg }))
    }

    /// Says that code which is not recorded has written this memory by now: a task of its own, which writes it. What readers find there comes from this
    /// and not from whatever was recorded before.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn wrote(&mut self, tensor: &Tensor<'_>, name: StringId) -> Result<Outcome, RecordError> {
        let info = TaskInfo { operation: Operation::HostWrite, name, records: 1, ..TaskInfo::default() };
        let mut task = self.begin(&info)?;
        let outcome = self.tensor(&mut task, DumpStage::AfterCompletion, &tensor.arg(0).role(Role::Output));
        let ended = self.end(&mut task)?;
        Ok(worse(outcome?, ended))
    }

    /// Says that memory was allocated, or freed: what was there before has nothing to do with what will be.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn allocation(
        &mut self,
        address: u64,
        bytes: u64,
        space: MemorySpace,
        freed: bool,
    ) -> Result<Outcome, RecordError> {
        self.core.check()?;
        if bytes >= NUMBER_LIMIT {
            let remedy = "give less than 2^53";
            return Err(RecordError::BadArgument { what: "memory of bytes", value: bytes, remedy });
        }
        let (space, freed, at_ns) = (space as u8, freed.into(), now_ns());
        Ok(self.lane.define(AllocationRecord {
            address,
            bytes,
            at_ns,
            space,
            freed,
            ..AllocationRecord::default()
        }))
    }

    /// Waits until everything that this handle has recorded is in files; whether it is. Not so when the recorder is gone, its files are
    /// full, or a wait may not take as long.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn flush(&mut self) -> Result<bool, RecordError> {
        self.core.check()?;
        let later = self.later.as_mut().is_none_or(Later::settle);
        Ok(self.lane.settle() && later)
    }

    /// Lets no call of this handle wait longer than this for the recorder: what has no room by then is dropped, and counted. None: as
    /// long as the recorder lives.
    pub fn set_max_wait(&mut self, most: Option<Duration>) {
        self.max_wait = most;
        self.lane.set_max_wait(most);
        if let Some(later) = &mut self.later {
            later.set_max_wait(most);
        }
    }

    /// Counts a call of this handle that failed, if it did for what it was given: the recorder's summary tells how many did, and why the
    /// first. For callers who tell nobody themselves.
    pub fn count_refusal(&self, error: &RecordError) {
        self.core.refuse(error);
    }

    /// Whether the recorder was found gone, in this thread or another: nothing more is recorded.
    pub fn is_recorder_gone(&self) -> bool {
        self.core.gone.is_raised()
    }

    /// Whether it records for this session, and still can.
    pub fn is_of(&self, session: &Session) -> bool {
        session.is_core(&self.core) && self.core.check().is_ok()
    }

    /// What was recorded and lost in its lane, also by those who had it before.
    pub fn counters(&self) -> Counters {
        self.lane.counters()
    }
}

impl Drop for ThreadRecorder {
    fn drop(&mut self) {
        // In a process that was forked the lanes are its parent's.
        if self.core.is_own_process() {
            if let Some(later) = &mut self.later {
                later.close(&self.core);
            }
            self.core.give_back(&mut self.lane);
        }
    }
}

impl std::fmt::Debug for ThreadRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadRecorder").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What the recorder of a lane is asked for.
#[inline]
pub(crate) fn capture<'t>(task: &Task, stage: DumpStage, tensor: &'t Tensor<'_>) -> TensorCapture<'t> {
    TensorCapture {
        task_id: task.id(),
        stage,
        role: tensor.role,
        arg_index: tensor.arg,
        desc: &tensor.desc,
        marked: tensor.marked || task.is_marked(),
        in_flight: false,
        known: tensor.known,
    }
}

/// A scalar of no value yet, of no task.
fn no_scalar(arg_index: u16, name: StringId) -> ScalarCapture {
    let (stage, dtype) = (DumpStage::BeforeDispatch, DType::UInt64);
    ScalarCapture {
        task_id: 0,
        stage,
        arg_index,
        dtype,
        bits: 0,
        is_local: false,
        marked: false,
        name: name.0,
    }
}

/// What is told of several.
#[inline]
fn worse(a: Outcome, b: Outcome) -> Outcome {
    let rank = |outcome: &Outcome| match outcome {
        Outcome::Recorded => 0,
        Outcome::NotWanted => 1,
        Outcome::Filtered => 2,
        Outcome::Uncaptured => 3,
        Outcome::Dropped(_) => 4,
    };
    if rank(&b) > rank(&a) { b } else { a }
}
