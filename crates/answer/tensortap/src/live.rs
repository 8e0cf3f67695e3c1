//! `--live`: compares a run with a golden dump while it runs, and keeps only the payloads of tasks that
//! differ.
//!
//! A payload is written to the payload file when it arrives, and its record waits in memory until its task
//! is judged. Nothing waits for a verdict, because the file serves as scratch space. A task that agrees is
//! stored without payloads and its space is freed, usually before the payloads have reached the disk. A
//! task that differs is stored completely, including its inputs. If the waiting payloads exceed a limit,
//! the oldest waiting tasks are stored completely without a verdict.
//!
//! Equal payloads are stored once, as in any dump, so a payload is freed only when no record needs it
//! anymore. Between two calls of [`LiveComparison::free_idle`], the collector may find an unused
//! payload and refer to it again.
//!
//! Waiting records are not in the index, so they are lost if the host is killed. A device's death does not
//! affect them.

mod golden;
mod judge;
mod payload_references;

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tensortap_abi::RecordKind;
use tensortap_format::{
    Assembler, DumpWriter, FormatError, IndexRecord, RunInfo, Task, TaskKey, TaskPart, Tasks,
};
use tensortap_sync::Flag;

use crate::Error;
use golden::GoldenTasks;
use judge::{Agreement, Judge};
use payload_references::{FreeSpace, PayloadReferences};

/// Maximum number of differing tasks that a report lists. It counts all of them.
const MAX_NAMED: usize = 100;
/// The step of a scene run, which has no steps.
const STEP: u32 = 0;

/// Options of a live comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveConfig {
    /// A dump of the same scene, parameters and runtime, at level `full` or `hash`.
    pub golden: PathBuf,
    /// Whether to end the run at the first wrong task.
    pub stop_at_first: bool,
    /// Maximum number of payload bytes that wait for a verdict.
    pub scratch_bytes: u64,
}

impl LiveConfig {
    /// Compares with a golden until the end of the run.
    pub fn new(golden: impl Into<PathBuf>) -> LiveConfig {
        LiveConfig { golden: golden.into(), stop_at_first: false, scratch_bytes: 4 << 30 }
    }
}

/// The result of a live comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveReport {
    /// The golden's folder.
    pub golden: PathBuf,
    /// Number of compared tasks.
    pub judged: u64,
    /// Number of tasks in the golden.
    pub of: u64,
    /// Number of tasks whose inputs or outputs differ.
    pub differing: u64,
    /// Tasks whose outputs differ although their inputs agree, in the order of judgment; at most the first
    /// 100.
    pub wrong_here: Vec<WrongTask>,
    /// Number of such tasks.
    pub wrong_here_count: u64,
    /// Number of tasks that the golden does not have.
    pub unmatched: u64,
    /// Number of tasks stored without a verdict, because too many payloads were waiting or because they
    /// never completed.
    pub unjudged: u64,
    /// Payload bytes of tasks that agree, which were not kept for them.
    pub released_bytes: u64,
    /// Payload bytes that were kept, each payload counted once.
    pub kept_bytes: u64,
    /// Payload bytes of kept records whose payload an earlier record stores.
    pub shared_bytes: u64,
    /// Whether a wrong task was found that should end the run.
    pub stop_found: bool,
    /// Whether the run was ended there. A run whose tasks were all complete by then was not.
    pub stopped: bool,
}

/// A task with wrong outputs although its inputs agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrongTask {
    /// Task.
    pub task_id: u64,
    /// Names of its kernels.
    pub kernels: Vec<String>,
    /// Path of its scope, if it has one.
    pub scope: Option<String>,
    /// Its name in the orchestration.
    pub task_name: Option<String>,
}

impl LiveReport {
    /// Whether every task was compared and none differs.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.judged == self.of && self.differing == 0 && self.unmatched == 0 && self.unjudged == 0
    }
}

/// State shared by the run and its dump: the results so far, and whether to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveState {
    report: Arc<Mutex<LiveReport>>,
    stop: Arc<Flag>,
}

impl LiveState {
    /// Whether the run should end.
    pub(crate) fn stop(&self) -> bool {
        self.stop.is_raised()
    }

    /// The results. A run that ended before it could be stopped does not count as stopped.
    pub(crate) fn report(&self, interrupted: bool) -> LiveReport {
        let report = self.report.lock().unwrap_or_else(PoisonError::into_inner).clone();
        LiveReport { stopped: report.stop_found && interrupted, ..report }
    }

    fn change(&self, change: impl FnOnce(&mut LiveReport)) {
        change(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The layer between the collector and the files.
pub(crate) struct LiveComparison {
    judge: Judge,
    config: LiveConfig,
    /// Thread number for judged records, after the device's threads.
    thread: u32,
    next_seq: u64,
    /// The tasks that are not judged yet.
    assembler: Assembler,
    /// Their records, which are not in the index yet.
    waiting: HashMap<u64, UnjudgedTask>,
    /// Task ids in the order of their first record. Judged tasks are skipped.
    arrivals: VecDeque<u64>,
    payloads: PayloadReferences,
    /// Tasks without a verdict: their later records are stored directly.
    passing: HashSet<u64>,
    free: FreeSpace,
    state: LiveState,
}

impl LiveComparison {
    /// Opens the golden and checks that its tasks match those of the run.
    pub(crate) fn open(
        config: &LiveConfig,
        run: &RunInfo,
        state: LiveState,
    ) -> Result<LiveComparison, Error> {
        let golden = GoldenTasks::open(&config.golden, run)?;
        state.change(|report| {
            report.golden.clone_from(&config.golden);
            report.of = golden.count();
        });
        Ok(LiveComparison {
            judge: Judge::new(golden),
            config: config.clone(),
            thread: u32::MAX,
            next_seq: 0,
            assembler: Assembler::default(),
            waiting: HashMap::new(),
            arrivals: VecDeque::new(),
            payloads: PayloadReferences::default(),
            passing: HashSet::new(),
            free: FreeSpace::default(),
            state,
        })
    }

    /// Sets the thread number for judged records.
    pub(crate) fn entering_as(self, thread: u32) -> LiveComparison {
        LiveComparison { thread, ..self }
    }

    /// Stores records that need not wait, and judges tasks that are now complete.
    pub(crate) fn append(
        &mut self,
        writer: &mut DumpWriter,
        thread: u32,
        seqs: Range<u64>,
        records: &[IndexRecord],
    ) -> Result<(), FormatError> {
        let mut at_once = Vec::with_capacity(records.len());
        let mut complete = Vec::new();
        for record in records {
            if !self.hold(record) {
                at_once.push(self.kept(record));
            }
            let task_id = record.task_id();
            if self.became_whole(task_id) {
                complete.push(task_id);
            }
        }
        writer.append(thread, seqs, &at_once)?;
        for task_id in complete {
            self.settle(writer, task_id)?;
        }
        self.make_room(writer)
    }

    /// Judges or stores everything that still waits.
    pub(crate) fn close(&mut self, writer: &mut DumpWriter) -> Result<(), FormatError> {
        while let Some(task_id) = self.arrivals.pop_front() {
            match self.assembler.pending(key(task_id)).map(|pending| pending.is_completed()) {
                Some(true) => self.settle(writer, task_id)?,
                Some(false) => self.keep_unjudged(writer, task_id)?,
                None => {}
            }
        }
        self.free_all_idle(writer).map(|_| ())
    }

    /// Frees the space of unused payloads once there is enough of it. Returns the freed ranges, sorted.
    /// Call it only when every record that refers to a payload was appended.
    pub(crate) fn free_idle(&mut self, writer: &mut DumpWriter) -> Result<Vec<Range<u64>>, FormatError> {
        if self.payloads.is_much_idle() { self.free_all_idle(writer) } else { Ok(Vec::new()) }
    }

    fn free_all_idle(&mut self, writer: &mut DumpWriter) -> Result<Vec<Range<u64>>, FormatError> {
        let idle = self.payloads.take_idle();
        for range in &idle {
            writer.cancel(range.start);
            self.free.add(range.clone());
        }
        self.free.give_back(writer)?;
        Ok(idle)
    }

    /// Adds a record to its task. Returns whether the record must wait.
    fn hold(&mut self, record: &IndexRecord) -> bool {
        let task_id = record.task_id();
        let kind = record.kind();
        if self.passing.contains(&task_id)
            || !matches!(kind, RecordKind::Task | RecordKind::Tensor | RecordKind::Scalar)
        {
            return false;
        }
        if self.judge.golden.find(key(task_id)).is_none() {
            // No later record will add information about it.
            self.passing.insert(task_id);
            self.state.change(|report| report.unmatched += 1);
            return false;
        }
        let arrivals = &mut self.arrivals;
        let task = self.waiting.entry(task_id).or_insert_with(|| {
            arrivals.push_back(task_id);
            UnjudgedTask::default()
        });
        let has_ended = |assembler: &Assembler| {
            let facts = assembler.pending(key(task_id)).and_then(|pending| pending.facts());
            facts.is_some_and(|facts| facts.completed_ns.is_some())
        };
        if kind == RecordKind::Task && !has_ended(&self.assembler) {
            task.task = Some(record.clone());
        }
        if let Some(part) = TaskPart::of(task.tensors.len() as u64, None, record, |_| STEP) {
            self.assembler.take(part);
        }
        if kind == RecordKind::Tensor {
            task.tensors.push(record.clone());
        }
        if let Some(range) = payload_range(record) {
            self.payloads.wait(range);
        }
        kind == RecordKind::Tensor
    }

    /// Whether the last record that the golden has for a task has now arrived.
    fn became_whole(&mut self, task_id: u64) -> bool {
        let Some(waiting) = self.waiting.get_mut(&task_id).filter(|waiting| !waiting.is_whole) else {
            return false;
        };
        let (golden, key) = (&self.judge.golden, key(task_id));
        let both = golden.find(key).zip(self.assembler.pending(key));
        waiting.is_whole = both.is_some_and(|(task, pending)| golden.is_whole(task, pending));
        waiting.is_whole
    }

    /// Removes a waiting task with its records.
    fn take_out(&mut self, task_id: u64) -> Option<(UnjudgedTask, Tasks)> {
        let waiting = self.waiting.remove(&task_id)?;
        let tasks = self.assembler.remove(key(task_id), self.judge.golden.kernels())?;
        Some((waiting, tasks))
    }

    /// Judges a task and stores it.
    fn settle(&mut self, writer: &mut DumpWriter, task_id: u64) -> Result<(), FormatError> {
        let Some((task, tasks)) = self.take_out(task_id) else { return Ok(()) };
        let verdict = self.judge.judge(writer, tasks.at(0), &task.tensors)?;
        self.note(tasks.at(0), verdict);
        if verdict == Agreement::Same { self.release(writer, &task) } else { self.enter_whole(writer, &task) }
    }

    fn note(&self, task: Task<'_>, verdict: Agreement) {
        let stop = self.config.stop_at_first && verdict == Agreement::WrongHere;
        // Definitions of scopes and names may arrive later. The golden, of the same scene, has all of them.
        let golden = self.judge.golden.find(task.key());
        let wrong = WrongTask {
            task_id: task.task_id,
            kernels: task.kernel_names(),
            scope: golden.and_then(|golden| golden.scope()).map(str::to_owned),
            task_name: golden.and_then(|golden| golden.task_name()).map(str::to_owned),
        };
        self.state.change(|report| {
            report.judged += 1;
            report.differing += u64::from(verdict != Agreement::Same);
            if verdict == Agreement::WrongHere {
                report.wrong_here_count += 1;
                if report.wrong_here.len() < MAX_NAMED {
                    report.wrong_here.push(wrong);
                }
            }
            report.stop_found |= stop;
        });
        if stop {
            self.state.stop.raise();
        }
    }

    /// Stores a task without its payloads and frees their space.
    fn release(&mut self, writer: &mut DumpWriter, task: &UnjudgedTask) -> Result<(), FormatError> {
        let records = task.tensors.iter().map(IndexRecord::without_payload).collect();
        self.enter(writer, task, records)?;
        for range in task.tensors.iter().filter_map(payload_range) {
            self.payloads.end_wait(range);
            self.state.change(|report| report.released_bytes += range.1);
        }
        Ok(())
    }

    /// Stores a task with its payloads.
    fn enter_whole(&mut self, writer: &mut DumpWriter, task: &UnjudgedTask) -> Result<(), FormatError> {
        let records = task.tensors.iter().map(|record| self.kept(record)).collect();
        task.tensors.iter().filter_map(payload_range).for_each(|range| self.payloads.end_wait(range));
        self.enter(writer, task, records)
    }

    /// A record in the form in which it is stored with its payload: the first kept one of several equal
    /// payloads owns it.
    fn kept(&mut self, record: &IndexRecord) -> IndexRecord {
        let Some(range) = payload_range(record) else { return record.clone() };
        let is_first = self.payloads.keep(range);
        self.state.change(|report| {
            *(if is_first { &mut report.kept_bytes } else { &mut report.shared_bytes }) += range.1;
        });
        record.with_payload_shared(!is_first)
    }

    fn keep_unjudged(&mut self, writer: &mut DumpWriter, task_id: u64) -> Result<(), FormatError> {
        let Some((task, _)) = self.take_out(task_id) else { return Ok(()) };
        self.passing.insert(task_id);
        self.state.change(|report| report.unjudged += 1);
        self.enter_whole(writer, &task)
    }

    fn make_room(&mut self, writer: &mut DumpWriter) -> Result<(), FormatError> {
        while self.payloads.waiting_bytes() > self.config.scratch_bytes {
            let Some(oldest) = self.arrivals.pop_front() else { break };
            self.keep_unjudged(writer, oldest)?;
        }
        // Judged tasks at the front are done.
        while self.arrivals.front().is_some_and(|task_id| !self.waiting.contains_key(task_id)) {
            self.arrivals.pop_front();
        }
        Ok(())
    }

    /// Stores tensors after their task record, which gives readers their kernels.
    fn enter(
        &mut self,
        writer: &mut DumpWriter,
        task: &UnjudgedTask,
        tensors: Vec<IndexRecord>,
    ) -> Result<(), FormatError> {
        if tensors.is_empty() {
            return Ok(());
        }
        let records: Vec<IndexRecord> = task.task.iter().cloned().chain(tensors).collect();
        let first = self.next_seq;
        self.next_seq += records.len() as u64;
        writer.append(self.thread, first..self.next_seq, &records)
    }
}

/// The records of a task that is not judged yet.
#[derive(Debug, Default)]
struct UnjudgedTask {
    /// The task's own record; after its completion, with the completion time.
    task: Option<IndexRecord>,
    /// The assembler identifies each by its position here.
    tensors: Vec<IndexRecord>,
    /// Whether every record that the golden has for it has arrived.
    is_whole: bool,
}

/// The key of a task. The run has one step.
fn key(task_id: u64) -> TaskKey {
    TaskKey { step: STEP, task_id }
}

/// Offset and size of a payload in the file; `None` for an empty payload.
fn payload_range(record: &IndexRecord) -> Option<(u64, u64)> {
    record.stored_range().filter(|(_, bytes)| *bytes > 0)
}

#[cfg(test)]
mod tests;
