//! Tasks that run in one launch, and what has come of each so far.

use std::time::Duration;

use crate::image::FillError;
use crate::item::Item;
use crate::{Outcome, OutputReport, Placement, TaskReport, Timing};

/// Bytes of arguments in one launch, unless a single task has more. Small enough that the host's copies stay in caches.
pub const BATCH_BYTES: u64 = 8 << 20;
/// Tasks in one launch.
pub const BATCH_TASKS: usize = 1024;

/// A task on its way.
pub struct Work<'s> {
    /// The task.
    pub item: Item<'s>,
    /// What is known of it.
    pub report: TaskReport,
    /// The different results so far.
    results: Vec<Vec<u128>>,
    /// It is not run any more.
    pub dead: bool,
}

/// What came of one run that came to its end.
pub struct Concluded {
    /// In a word.
    pub outcome: Outcome,
    /// Output by output.
    pub outputs: Vec<OutputReport>,
    /// Hashes of the outputs.
    pub result: Vec<u128>,
}

impl<'s> Work<'s> {
    /// A task that was not run yet.
    pub fn new(item: Item<'s>, report: TaskReport) -> Work<'s> {
        Work { item, report, results: Vec::new(), dead: false }
    }

    /// Notes what came of one run; the first outcome that is not good stays. The error is about what was expected.
    pub fn conclude(&mut self, concluded: Result<Concluded, FillError>) {
        let Concluded { outcome, outputs, result } = match concluded {
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

    /// Notes a run that did not come to its end, or never began: there will be no other.
    pub fn end(&mut self, outcome: Outcome) {
        self.report.outcome = outcome;
        self.dead = true;
    }

    /// Forgets what came of it, to be run again.
    pub fn reset(&mut self) {
        let blank = TaskReport::unknown(None, self.report.check);
        let TaskReport { case, check, step, task_id, kernels, scope, task_name, args, .. } =
            std::mem::replace(&mut self.report, blank);
        self.report =
            TaskReport { step, task_id, kernels, scope, task_name, args, ..TaskReport::unknown(case, check) };
        self.results.clear();
        self.dead = false;
    }

    /// Notes where its arguments lay.
    pub fn placed(&mut self, placement: Placement) {
        self.report.placement = Some(placement);
    }

    /// Notes how long a run took.
    pub fn timed(&mut self, kernel: Duration, launch: Duration) {
        let timing = self.report.timing.get_or_insert_with(Timing::default);
        timing.kernel.push(kernel);
        timing.launch.push(launch);
    }
}

/// Tasks of one scene on one platform; no two with the same id, so that a failure names one of them.
#[derive(Default)]
pub struct Batch<'s> {
    /// Platform to run on.
    pub platform: &'static str,
    /// The tasks.
    pub works: Vec<Work<'s>>,
}

impl<'s> Batch<'s> {
    /// The tasks that are still to be run.
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

    /// Parts of at most so many tasks.
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

/// Puts tasks together in their order.
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
