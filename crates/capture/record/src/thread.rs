//! Recording by one thread.

mod arguments;
mod define;

use std::{collections::HashMap, time::Duration};

use tensortap_abi::{
    ArgKind, CollectiveKind, CollectiveRecord, DumpStage, EdgeCause, KernelArg, MAX_IMAGE_BYTES,
    MAX_RECORD_ARGS, ModuleKind, ModuleRecord, Operation, QueueRecord, RECORD_EXTENDED, RECORD_HAS_PAYLOAD,
    Role, SLOTS_PER_TASK, StepRecord,
};
use tensortap_recorder::{Counters, EdgeCapture, KernelDefinition, Outcome, TaskHead};
use tensortap_values::content_hash;

use crate::{
    KernelId, ModuleId, QueueId, RecordError, ScopeId, Session, StepId, StringId, Task, TaskInfo, Tensor,
    core::{CoreRef, Lane},
    deferred::DeferredLane,
    link::now_ns,
    names::Key,
    task::kernels_of,
};

pub(crate) use arguments::{capture, worse};

/// Limit on cached numbers of texts per handle. When it is reached, the cache is cleared.
const CACHED_TEXTS: usize = 4096;

/// Records for one thread in its own lane, which is returned when dropped. It can move to another thread; one
/// thread uses it at a time.
///
/// Every call is an error in a forked process, and after the session was closed.
pub struct ThreadRecorder {
    pub(crate) lane: Lane,
    /// The lane for deferred content, leased on first use.
    pub(crate) deferred: Option<DeferredLane>,
    pub(crate) core: CoreRef,
    pub(crate) name: Box<str>,
    pub(crate) max_wait: Option<Duration>,
    /// Cached numbers of texts.
    texts: HashMap<Box<str>, u32>,
}

/// Declaration of a kernel, for [`ThreadRecorder::define_kernel`].
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its module.
    pub module: ModuleId,
    /// Name and kind of each argument, in order. An empty name means no name.
    pub args: &'a [(&'a str, Option<ArgKind>)],
}

/// A module with its image, for [`ThreadRecorder::module_image`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ModuleImage<'a> {
    /// Its name.
    pub name: &'a str,
    /// Kind of the image.
    pub kind: ModuleKind,
    /// Build options, as the program passed them.
    pub options: &'a str,
    /// Device of the build.
    pub device: &'a str,
    /// The image.
    pub image: &'a [u8],
}

impl ThreadRecorder {
    pub(crate) fn new(core: CoreRef, name: &str) -> Result<ThreadRecorder, RecordError> {
        let lane = core.lease(name)?;
        Ok(ThreadRecorder {
            lane,
            deferred: None,
            core,
            name: name.into(),
            max_wait: None,
            texts: HashMap::new(),
        })
    }

    /// Reserves the id of a future task, for [`TaskInfo::id`].
    pub fn next_task_id(&self) -> u64 {
        self.core.next_task()
    }

    /// The current time in nanoseconds of `CLOCK_MONOTONIC`, as in tasks.
    pub fn now(&self) -> u64 {
        now_ns()
    }

    /// Reserves the id of a future task if a filter may accept it. Otherwise returns `None` and counts
    /// `records` as filtered. For tasks that are expensive to describe: refused tasks need no description.
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

    /// The kernel numbers of a task for the filter.
    #[inline]
    fn filtered_as(&self, kernels: [u32; SLOTS_PER_TASK]) -> [u32; SLOTS_PER_TASK] {
        self.core.kernels.as_ref().map_or(kernels, |meant| meant.as_filtered(kernels))
    }

    /// Begins a task, even if its record is [dropped](Task::is_dropped). Record its inputs, run it, record
    /// its outputs, and [end](ThreadRecorder::end) it.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn begin(&mut self, info: &TaskInfo) -> Result<Task, RecordError> {
        self.begin_task(info, false)
    }

    /// Begins a region: a task that contains the tasks that begin on this thread until the region
    /// [ends](ThreadRecorder::end). Regions nest. A region may have arguments like any task. End it on the
    /// thread that began it; regions inside of it that are still open then end to contain tasks, too.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn begin_region(&mut self, info: &TaskInfo) -> Result<Task, RecordError> {
        let mut task = self.begin_task(info, true)?;
        self.enter(&mut task)?;
        Ok(task)
    }

    /// The innermost region of the session that is open on the calling thread.
    pub fn current_region(&self) -> Option<u64> {
        self.core.enclosing()
    }

    fn begin_task(&mut self, info: &TaskInfo, is_region: bool) -> Result<Task, RecordError> {
        self.core.check()?;
        let id = if info.id == 0 { self.core.next_task() } else { self.core.task_id(info.id) };
        let now = self.lane.begin();
        let mut task = Task::new(id, info, now);
        task.set_parent(match info.parent {
            Some(parent) => Some(self.core.task_id(parent)),
            None => self.core.enclosing(),
        });
        if is_region {
            task.becomes_region();
        }
        let func_ids = self.filtered_as(task.kernels());
        let head = TaskHead { task_id: id, func_ids, records: info.records };
        if self.lane.wants_task(&head) {
            let outcome = self.lane.task(&task.record());
            task.began(outcome);
        } else {
            task.refuse(info.records > 0);
        }
        task.captured_for(self.lane.end());
        Ok(task)
    }

    /// Makes several calls for a task with one reading of the clock.
    pub fn together<T>(
        &mut self,
        task: &mut Task,
        call: impl FnOnce(&mut ThreadRecorder, &mut Task) -> T,
    ) -> T {
        self.lane.begin();
        let result = call(self, task);
        task.captured_for(self.lane.end());
        result
    }

    /// Begins a task and records its first facts with one reading of the clock.
    ///
    /// # Errors
    /// Those of [`ThreadRecorder::begin`] and of `then`.
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
        let (result, mut task) = begun?;
        task.captured_for(took_ns);
        Ok((task, result))
    }

    /// Sets the start time of a task that was begun at its submission.
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

    /// Ends a task that was begun but then refused, so it had no effect. The name is the reason.
    ///
    /// # Errors
    /// As [`ThreadRecorder::end`].
    pub fn refused(&mut self, task: &mut Task, name: StringId) -> Result<Outcome, RecordError> {
        task.becomes_nothing(name.0);
        self.end(task)
    }

    /// Ends a task.
    ///
    /// # Errors
    /// If it has already ended. See also [`ThreadRecorder`].
    pub fn end(&mut self, task: &mut Task) -> Result<Outcome, RecordError> {
        self.leave(task)?;
        if !task.check()? {
            let outcome = self.filtered(task, 1);
            task.end();
            return Ok(outcome);
        }
        task.completed(self.lane.begin());
        let outcome = self.lane.task(&task.record());
        self.lane.end();
        task.end();
        Ok(outcome)
    }

    /// Records that one task waits for another, with the argument that causes it, if any.
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
        let [producer, consumer] = [producer, consumer].map(|task| self.core.task_id(task));
        Ok(self.lane.edge(&EdgeCapture { consumer, producer, cause, arg_index: arg }))
    }

    /// Records that unrecorded code has written this memory, as a task that writes it. Readers then depend on
    /// this task and not on earlier writers.
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

    /// Records that a task is this process's part of a collective operation. The parts on all ranks have the same
    /// group and the same number in the group.
    ///
    /// # Errors
    /// If the group is [`StringId::NONE`], or the task has ended. See also [`ThreadRecorder`].
    pub fn collective(
        &mut self,
        task: &Task,
        group: StringId,
        sequence: u64,
        kind: CollectiveKind,
    ) -> Result<Outcome, RecordError> {
        self.core.check()?;
        if !task.check()? {
            return Ok(Outcome::Filtered);
        }
        if group == StringId::NONE {
            let remedy = "name it with a string id";
            return Err(RecordError::BadArgument { what: "group of a collective", value: 0, remedy });
        }
        let (task_id, collective) = (task.id(), kind as u8);
        let record =
            CollectiveRecord { task_id, sequence, group: group.0, collective, ..CollectiveRecord::default() };
        Ok(self.lane.collective(&record))
    }

    /// Waits until all records of this handle are in files. Returns false if the recorder has exited, its
    /// files are full, or the wait limit was reached.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn flush(&mut self) -> Result<bool, RecordError> {
        self.core.check()?;
        let later = self.deferred.as_mut().is_none_or(DeferredLane::settle);
        Ok(self.lane.settle() && later)
    }

    /// Limits how long calls of this handle wait for the recorder. Records without space by then are dropped
    /// and counted. `None`: no limit while the recorder lives.
    pub fn set_max_wait(&mut self, most: Option<Duration>) {
        self.max_wait = most;
        self.lane.set_max_wait(most);
        if let Some(later) = &mut self.deferred {
            later.set_max_wait(most);
        }
    }

    /// Counts a call of this handle that was refused because of its arguments. The recorder's summary reports
    /// the number and the first reason. For callers that do not report errors themselves.
    pub fn count_refusal(&self, error: &RecordError) {
        self.core.refuse(error);
    }

    /// Whether any thread found that the recorder has exited, so that nothing is recorded anymore.
    pub fn is_recorder_gone(&self) -> bool {
        self.core.gone.is_raised()
    }

    /// Whether it belongs to this session and can still record.
    pub fn is_of(&self, session: &Session) -> bool {
        session.is_core(&self.core) && self.core.check().is_ok()
    }

    /// Counters of its lane, including its previous users.
    pub fn counters(&self) -> Counters {
        self.lane.counters()
    }
}

impl Drop for ThreadRecorder {
    fn drop(&mut self) {
        // In a forked process the lanes belong to the parent.
        if self.core.is_own_process() {
            if let Some(later) = &mut self.deferred {
                later.close(&self.core);
            }
            self.core.leave_all(Some(self.lane.lane()));
            self.core.give_back(&mut self.lane);
        }
    }
}

impl std::fmt::Debug for ThreadRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadRecorder").field("name", &self.name).finish_non_exhaustive()
    }
}
