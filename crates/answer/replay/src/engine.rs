//! Runs many tasks on several devices at once, and continues after a task crashes its device.

use std::collections::VecDeque;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tensortap_abi::TaskId;
use tensortap_platform::{Confinement, PLATFORMS, Platform};
use tensortap_runtime::RunFailure;
use tensortap_sync::Flag;

use crate::batch::{Batch, Work};
use crate::launch::{LaunchEnd, OpenDevice, round};
use crate::{OnOutput, Outcome, ReplayConfig, ReplayError, ReplayProgress, TaskReport};

/// Interval between calls of the observer.
const LOOK: Duration = Duration::from_millis(50);

/// The report of a task with its position among all reports.
type IndexedReport = (usize, TaskReport);

/// State shared by the workers.
struct EngineState<'c, 's> {
    config: &'c ReplayConfig,
    on_output: OnOutput<'c>,
    queue: Mutex<VecDeque<Batch<'s>>>,
    confinement: Mutex<Option<Confinement>>,
    /// Number of failed devices.
    failures: Mutex<u64>,
    stop: Flag,
}

/// Results of all batches.
pub struct EngineReport {
    /// The finished tasks.
    pub finished: Vec<IndexedReport>,
    /// Whether the observer canceled the replay.
    pub interrupted: bool,
    /// Confinement in force on every device; `None` if no device was opened.
    pub confinement: Option<Confinement>,
}

/// Runs every batch. An error ends the whole replay, such as a device that cannot be opened.
pub fn run(
    config: &ReplayConfig,
    batches: Vec<Batch<'_>>,
    total: u64,
    jobs: usize,
    observe: &mut dyn FnMut(ReplayProgress) -> bool,
    on_output: OnOutput<'_>,
) -> Result<EngineReport, ReplayError> {
    let jobs = jobs.clamp(1, batches.len().max(1));
    let (queue, confinement) = (Mutex::new(batches.into()), Mutex::new(None));
    let state =
        EngineState { config, on_output, queue, confinement, failures: Mutex::new(0), stop: Flag::new() };
    let (done, wait) = mpsc::channel::<Result<IndexedReport, ReplayError>>();
    let mut report = EngineReport { finished: Vec::new(), interrupted: false, confinement: None };
    let mut failure = None;
    thread::scope(|scope| {
        for job in 0..jobs {
            let (state, done) = (&state, done.clone());
            let spawned = thread::Builder::new()
                .name(format!("replay-{job}"))
                .spawn_scoped(scope, move || state.work(&done));
            // One worker is enough to run every batch.
            if let (Err(source), 0) = (spawned, job) {
                let action = "start a thread for";
                failure = Some(ReplayError::Io { action, path: config.source.clone(), source });
            }
        }
        drop(done);
        loop {
            match wait.recv_timeout(LOOK) {
                Ok(Ok(finished)) => report.finished.push(finished),
                Ok(Err(error)) => {
                    state.stop.raise();
                    failure.get_or_insert(error);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let device_failures = *state.failures.lock().unwrap_or_else(PoisonError::into_inner);
            let finished = report.finished.len() as u64;
            let progress = ReplayProgress { tasks: total, finished, device_failures };
            if !report.interrupted && !observe(progress) {
                report.interrupted = true;
                state.stop.raise();
            }
        }
    });
    report.confinement = state.confinement.into_inner().unwrap_or_else(PoisonError::into_inner);
    failure.map_or(Ok(report), Err)
}

impl<'s> EngineState<'_, 's> {
    fn work(&self, done: &Sender<Result<IndexedReport, ReplayError>>) {
        let mut device = None;
        while let Some(batch) = self.next() {
            if let Err(error) = self.batch(&mut device, batch, done) {
                let _ = done.send(Err(error));
                return;
            }
        }
    }

    fn next(&self) -> Option<Batch<'s>> {
        if self.stop.is_raised() {
            return None;
        }
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn open(&self, name: &str) -> Result<OpenDevice, ReplayError> {
        let open = OpenDevice::open(self.config, platform(name)?)?;
        let mut confinement = self.confinement.lock().unwrap_or_else(PoisonError::into_inner);
        *confinement = Some(confinement.map_or(open.confinement(), |before| before.and(open.confinement())));
        drop(confinement);
        Ok(open)
    }

    fn again(&self, batches: Vec<Batch<'s>>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        batches.into_iter().rev().for_each(|batch| queue.push_front(batch));
    }

    fn batch(
        &self,
        device: &mut Option<OpenDevice>,
        mut batch: Batch<'s>,
        done: &Sender<Result<IndexedReport, ReplayError>>,
    ) -> Result<(), ReplayError> {
        for number in 0..self.config.repeat.max(1) {
            if batch.alive().next().is_none() {
                break;
            }
            let mut open = match device.take().filter(|open| open.platform() == batch.platform) {
                Some(open) => open,
                None => self.open(batch.platform)?,
            };
            let mut observe = |_: u64| !self.stop.is_raised();
            match round(self.config, &mut open, &mut batch, number, &mut observe, self.on_output)? {
                LaunchEnd::Completed => *device = Some(open),
                LaunchEnd::Interrupted => return Ok(()),
                LaunchEnd::Failed(failure) => {
                    // Drop the device and everything that the launch left on it.
                    drop(open);
                    return self.after_failure(batch, &failure, done);
                }
                LaunchEnd::TooLarge(why) => {
                    *device = Some(open);
                    return self.after_refusal(batch, why, done);
                }
            }
        }
        let platform = batch.platform;
        let together = batch.works.len() > 1;
        let (doubtful, certain): (Vec<_>, Vec<_>) = batch
            .works
            .into_iter()
            .partition(|work| together && matches!(work.report.outcome, Outcome::Failed(_)));
        finish(certain, done);
        // Another task of the launch may have overwritten its memory, so it runs again by itself.
        let alone = doubtful.into_iter().map(|mut work| {
            work.reset();
            Batch { platform, works: vec![work] }
        });
        self.again(alone.collect());
        Ok(())
    }

    /// Fails the task at fault and runs the others again without it.
    fn after_failure(
        &self,
        mut batch: Batch<'s>,
        failure: &RunFailure,
        done: &Sender<Result<IndexedReport, ReplayError>>,
    ) -> Result<(), ReplayError> {
        let culprit = culprit(&batch, failure.task);
        if let Some(index) = culprit {
            let mut work = batch.works.remove(index);
            work.end(Outcome::Failed(failure.to_string()));
            work.report.sanitizer = failure.report.as_ref().map(|report| report.text().to_owned());
            finish([work], done);
        }
        if !self.may_fail_again() {
            self.cancel_rest(batch, done);
            return Ok(());
        }
        let left = batch.works.len();
        // A batch with one crashing task may have more, so smaller batches lose less work.
        let parts = if culprit.is_some() { 4 } else { 2 };
        self.again(batch.split(left.div_ceil(parts)));
        Ok(())
    }

    /// Counts a failed device. Returns whether another failure is allowed.
    fn may_fail_again(&self) -> bool {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        *failures += 1;
        self.config.max_device_failures.is_none_or(|most| *failures < most)
    }

    /// Cancels all remaining tasks.
    fn cancel_rest(&self, batch: Batch<'s>, done: &Sender<Result<IndexedReport, ReplayError>>) {
        let queued = std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner));
        let most = self.config.max_device_failures.unwrap_or_default();
        for mut work in std::iter::once(batch).chain(queued).flat_map(|batch| batch.works) {
            work.end(Outcome::Refused(format!(
                "it was not run: the limit of {most} device failures was reached; raise it with --max-device-failures"
            )));
            finish([work], done);
        }
    }

    /// Splits a batch that does not fit into memory; refuses a single task that does not fit.
    fn after_refusal(
        &self,
        mut batch: Batch<'s>,
        why: String,
        done: &Sender<Result<IndexedReport, ReplayError>>,
    ) -> Result<(), ReplayError> {
        if let [work] = batch.works.as_mut_slice() {
            work.end(Outcome::Refused(why));
            finish(batch.works, done);
        } else {
            let half = batch.works.len().div_ceil(2);
            self.again(batch.split(half));
        }
        Ok(())
    }
}

fn culprit(batch: &Batch<'_>, named: Option<TaskId>) -> Option<usize> {
    if batch.works.len() == 1 {
        return Some(0);
    }
    batch.works.iter().position(|work| Some(work.item.id()) == named)
}

fn finish<'s>(works: impl IntoIterator<Item = Work<'s>>, done: &Sender<Result<IndexedReport, ReplayError>>) {
    for work in works {
        let _ = done.send(Ok((work.item.place, work.report)));
    }
}

/// The platform with this name.
pub fn platform(name: &str) -> Result<&'static dyn Platform, ReplayError> {
    let valid = || PLATFORMS.iter().map(|p| p.name().to_string()).collect();
    let unknown = || ReplayError::Unknown { what: "platform", name: name.into(), valid: valid() };
    PLATFORMS.iter().copied().find(|p| p.name() == name).ok_or_else(unknown)
}
