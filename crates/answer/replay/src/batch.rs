//! Tasks that run in one launch, with the results of each so far.

use std::time::Duration;

use crate::image::FillError;
use crate::item::Item;
use crate::{Outcome, OutputReport, Placement, TaskReport, Timing};

/// Limit on argument bytes per launch, unless a single task has more. Small enough that the host's copies
/// stay in caches.
pub const BATCH_BYTES: u64 = 8 << 20;
/// Limit on tasks per launch.
pub const BATCH_TASKS: usize = 1024;

/// A task that is being replayed.
pub struct Work<'s> {
    /// The task.
    pub item: Item<'s>,
    /// Its report so far.
    pub report: TaskReport,
    /// The distinct results so far.
    results: Vec<Vec<u128>>,
    /// Set if it must not run again.
    pub dead: bool,
}

/// Result of one completed run.
pub struct RunResult {
    /// The outcome.
    pub outcome: Outcome,
    /// Comparison of each output.
    pub outputs: Vec<OutputReport>,
    /// Hashes of the outputs.
    pub result: Vec<u128>,
}

impl<'s> Work<'s> {
    /// A task that has not run yet.
    pub fn new(item: Item<'s>, report: TaskReport) -> Work<'s> {
        Work { item, report, results: Vec::new(), dead: false }
    }

    /// Adds the result of one run. The first failing outcome is kept. The error is about the expected
    /// content.
    pub fn conclude(&mut self, concluded: Result<RunResult, FillError>) {
        let RunResult { outcome, outputs, result } = match concluded {
            Ok(concluded) => concluded,
            Err(FillError::Refused(why)) => return self.end(Outcome::Refused(why)),
            Err(FillError::Read(error)) => return self.end(Outcome::Refused(error.to_string())),
        };
        self.report.runs += 1;
        if self.report.runs == 1 || self.report.outcome.passed() {
            self.report.outcome = outcome;
            self.report.outputs = outputs;
        }
        if !self.results.contains(&result) {
            self.results.push(result);
        }
        self.report.distinct_results = u32::try_from(self.results.len()).unwrap_or(u32::MAX);
    }

    /// Ends the task with an outcome: a run failed or did not start, and no further run follows.
    pub fn end(&mut self, outcome: Outcome) {
        self.report.outcome = outcome;
        self.dead = true;
    }

    /// Discards all results, so that the task can run again.
    pub fn reset(&mut self) {
        let blank = TaskReport::unknown(None, self.report.check);
        let TaskReport { case, check, step, task_id, kernels, scope, task_name, args, .. } =
            std::mem::replace(&mut self.report, blank);
        self.report =
            TaskReport { step, task_id, kernels, scope, task_name, args, ..TaskReport::unknown(case, check) };
        self.results.clear();
        self.dead = false;
    }

    /// Sets the placement of its arguments.
    pub fn placed(&mut self, placement: Placement) {
        self.report.placement = Some(placement);
    }

    /// Adds the times of one run.
    pub fn timed(&mut self, kernel: Duration, launch: Duration) {
        let timing = self.report.timing.get_or_insert_with(Timing::default);
        timing.kernel.push(kernel);
        timing.launch.push(launch);
    }
}

/// Tasks of one scene on one platform. Task ids are unique within a batch, so that a failure names one task.
#[derive(Default)]
pub struct Batch<'s> {
    /// Platform to run on.
    pub platform: &'static str,
    /// The tasks.
    pub works: Vec<Work<'s>>,
}

impl<'s> Batch<'s> {
    /// The tasks that still have to run.
    pub fn alive(&self) -> impl Iterator<Item = &Work<'s>> {
        self.works.iter().filter(|work| !work.dead)
    }

    fn takes(&self, platform: &str, item: &Item<'_>, limit_tasks: usize) -> bool {
        let bytes: u64 = self.works.iter().map(|w| w.item.bytes).sum();
        let Some(first) = self.works.first() else { return true };
        self.platform == platform
            && first.item.scene.name() == item.scene.name()
            && first.item.dispatch == item.dispatch
            && self.works.len() < limit_tasks
            && bytes.saturating_add(item.bytes) <= BATCH_BYTES
            && self.works.iter().all(|w| w.item.id() != item.id())
    }

    /// Splits the batch into parts of at most `tasks` tasks.
    pub fn split(self, tasks: usize) -> Vec<Batch<'s>> {
        let platform = self.platform;
        let mut parts = Vec::new();
        let mut works = self.works.into_iter().peekable();
        while works.peek().is_some() {
            parts.push(Batch { platform, works: works.by_ref().take(tasks.max(1)).collect() });
        }
        parts
    }
}

/// Groups tasks into batches, in order.
pub fn pack<'s>(works: Vec<(&'static str, Work<'s>)>, limit_tasks: usize) -> Vec<Batch<'s>> {
    let mut batches: Vec<Batch<'s>> = Vec::new();
    for (platform, work) in works {
        match batches.last_mut() {
            Some(last) if last.takes(platform, &work.item, limit_tasks) => last.works.push(work),
            _ => batches.push(Batch { platform, works: vec![work] }),
        }
    }
    batches
}
