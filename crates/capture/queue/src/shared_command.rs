//! A command from its submission until nothing more of it is recorded.
#![expect(
    unsafe_code,
    reason = "only the backend knows what is at the addresses that snapshots are read from"
)]

use std::{
    ptr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tensortap_record::{DumpStage, Tensor, UncapturedReason};

use crate::{Command, ProcessSession, Range};

/// How long a call of the program waits for a device that makes no progress. The device may wait for something that only
/// the program can do, so a call must not wait forever.
pub const WAIT_LIMIT: Duration = Duration::from_millis(100);

/// Limits of the pause between two looks at the device's progress.
const SHORTEST: Duration = Duration::from_micros(2);
const LONGEST: Duration = Duration::from_micros(100);

/// Ranges that a snapshot misses: their positions among [those of the stage](Command::captured_at), and the reasons.
pub type MissedRanges = Vec<(usize, UncapturedReason)>;

/// What a backend keeps for a command until the command is over.
pub trait CommandState {
    /// The command is over. Frees what was kept for it.
    fn release(&mut self) {}
}

/// A command that the submitting thread shares with its queue and with the harvest thread.
///
/// The submitting thread puts a snapshot before and a snapshot after the command into the command's queue. Each snapshot
/// is recorded when the queue has come that far. The command is over when its last snapshot was recorded, when the driver
/// refused it, or when it failed. Nothing of it is recorded from then on.
pub struct SharedCommand<S> {
    running: Mutex<RunningCommand<S>>,
    over: Condvar,
}

/// The locked state of a [`SharedCommand`].
pub struct RunningCommand<S> {
    /// The command.
    pub command: Command,
    /// What the backend keeps for it.
    pub state: S,
    /// Snapshots in its queue that are not recorded.
    in_flight: u8,
    /// Whether the before-snapshot is the last one.
    has_no_after: bool,
    is_over: bool,
    /// Whether a thread waits until it is over. Otherwise the notification is skipped, which is a system call.
    is_waited_for: bool,
}

impl<S> RunningCommand<S> {
    /// Whether nothing more of the command is recorded.
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

impl<S: CommandState> SharedCommand<S> {
    /// A command that enters its queue.
    pub fn new(command: Command, state: S) -> Arc<SharedCommand<S>> {
        let (in_flight, has_no_after, is_over, is_waited_for) = (0, false, false, false);
        let running = RunningCommand { command, state, in_flight, has_no_after, is_over, is_waited_for };
        Arc::new(SharedCommand { running: Mutex::new(running), over: Condvar::new() })
    }

    /// Locks the command.
    pub fn running(&self) -> MutexGuard<'_, RunningCommand<S>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing more of the command is recorded.
    pub fn end(&self, mut running: MutexGuard<'_, RunningCommand<S>>) {
        running.is_over = true;
        running.state.release();
        let is_waited_for = running.is_waited_for;
        drop(running);
        if is_waited_for {
            self.over.notify_all();
        }
    }

    /// Takes the snapshot of a stage. `enqueue` puts it into the queue. If it fails, all ranges of the stage are recorded
    /// as missed, and nothing will report when the queue has come that far.
    pub fn snapshot<T>(
        &self,
        session: &ProcessSession,
        stage: DumpStage,
        enqueue: impl FnOnce() -> Result<(T, MissedRanges), UncapturedReason>,
    ) -> Option<T> {
        // The snapshot may be recorded before `enqueue` returns.
        self.running().in_flight += 1;
        match enqueue() {
            Ok((queued, missed)) => {
                if !missed.is_empty() {
                    let reason =
                        |place| missed.iter().find(|(at, _)| *at == place).map(|(_, reason)| *reason);
                    self.record_uncaptured(session, stage, reason);
                }
                Some(queued)
            }
            Err(reason) => {
                self.running().in_flight -= 1;
                self.record_uncaptured(session, stage, |_| Some(reason));
                None
            }
        }
    }

    /// As [`Command::record_uncaptured`], unless the command is over.
    pub fn record_uncaptured(
        &self,
        session: &ProcessSession,
        stage: DumpStage,
        reason: impl Fn(usize) -> Option<UncapturedReason>,
    ) {
        let mut running = self.running();
        if !running.is_over {
            running.command.record_uncaptured(session, stage, reason);
        }
    }

    /// Records the ranges of a stage without content, for levels that record none.
    pub fn record_without_content(&self, session: &ProcessSession, stage: DumpStage) {
        let command = &mut self.running().command;
        session.record(|recorder| command.record_without_content(recorder, stage));
    }

    /// Records content that a snapshot has brought into this process, or that the device reads there: for each range, its
    /// position among [those of the stage](Command::captured_at) and the address of its allocation. `is_last` is
    /// true if the snapshot brings nothing more. Does nothing if the driver refused the command.
    ///
    /// # Safety
    /// The bytes of each range can be read at the range's offset from that address.
    pub unsafe fn record_contents(
        &self,
        session: &ProcessSession,
        stage: DumpStage,
        contents: impl Iterator<Item = (usize, usize)>,
        is_last: bool,
    ) {
        let mut running = self.running();
        if running.is_over {
            return;
        }
        let command = &mut running.command;
        let of_stage: Vec<Range> = command.captured_at(stage).copied().collect();
        let contents = contents.map(|(place, start)| {
            let (range, start) = (&of_stage[place], ptr::with_exposed_provenance(start));
            // SAFETY: the caller's guarantee.
            (place, unsafe { Tensor::at(start, range.bytes, range.elements()) })
        });
        let contents: Vec<(usize, Tensor<'_>)> = contents.collect();
        session.record(|recorder| command.record_contents(recorder, stage, &contents));
        if is_last {
            self.finish_stage(session, running, stage);
        }
    }

    /// All ranges of the snapshot of a stage are recorded. Before the command this records that it starts, after it that
    /// it has ended.
    pub fn finish_stage(
        &self,
        session: &ProcessSession,
        mut running: MutexGuard<'_, RunningCommand<S>>,
        stage: DumpStage,
    ) {
        running.in_flight -= 1;
        session.record(|recorder| running.command.finish_stage(recorder, stage));
        if stage == DumpStage::AfterCompletion {
            self.end(running);
        } else if running.has_no_after {
            self.end_task(session, running);
        }
    }

    /// Nothing will report when the command ends. Its task ends with its submission, or when its before-snapshot is
    /// recorded.
    pub fn end_without_after(&self, session: &ProcessSession) {
        let mut running = self.running();
        running.has_no_after = true;
        if running.in_flight == 0 && !running.is_over {
            self.end_task(session, running);
        }
    }

    fn end_task(&self, session: &ProcessSession, mut running: MutexGuard<'_, RunningCommand<S>>) {
        session.record(|recorder| recorder.end(running.command.task()));
        self.end(running);
    }

    /// The snapshot of a stage will never be recorded, because the command failed. If it is the last one, the command is
    /// over.
    pub fn cancel_stage(&self, mut running: MutexGuard<'_, RunningCommand<S>>, stage: DumpStage) {
        running.in_flight -= 1;
        if stage == DumpStage::AfterCompletion || running.has_no_after {
            self.end(running);
        }
    }

    /// The driver refused the command: it did nothing.
    pub fn refuse(&self, session: &ProcessSession, name: &str, status: i32) {
        let mut running = self.running();
        session.record(|recorder| running.command.refuse(recorder, name, status));
        self.end(running);
    }

    /// Waits until the command is over, at most [`WAIT_LIMIT`]. Returns whether it is.
    pub fn wait(&self) -> bool {
        let mut running = self.running();
        running.is_waited_for = true;
        let waited = self.over.wait_timeout_while(running, WAIT_LIMIT, |running| !running.is_over);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }

    /// Waits until the after-snapshot is complete, at most [`WAIT_LIMIT`]. Returns whether it is. `is_complete` returns
    /// true when the device has written its results, which is before they are recorded.
    pub fn wait_for_snapshot(&self, is_complete: impl Fn() -> bool) -> bool {
        let (began, mut pause) = (Instant::now(), SHORTEST);
        // The device finishes soon what it has just begun.
        while !is_complete() && !self.running.try_lock().is_ok_and(|running| running.is_over) {
            if began.elapsed() > WAIT_LIMIT {
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST);
        }
        true
    }
}
