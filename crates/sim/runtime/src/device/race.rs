//! An injected race: one task counts as complete before it has run.
//!
//! The race affects the first task of the damaged kernel that has successors. Its successors are released
//! immediately and read old data. After they have completed, the task itself runs. Its slot and memory are
//! held until then.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tensortap_abi::ThreadState;
use tensortap_sync::fanout;

use super::run::Run;

/// The race of one run.
pub struct Race {
    func_id: u32,
    state: Mutex<State>,
}

enum State {
    /// No task was affected yet.
    Waiting,
    /// The successors of `task` were released. The listed ones have not completed yet.
    Early { task: u32, successors: Vec<u32> },
    /// All successors have completed, and `task` runs.
    Late { task: u32 },
    /// The race is over.
    Over,
}

/// How a task starts.
pub enum RaceStart {
    /// Like a task without a race.
    Normal,
    /// The task counts as complete now, and these successors must be released.
    Early(Vec<u32>),
    /// The successors have completed, and now the task itself runs.
    Late,
    /// The task may still get successors. Try again later.
    NotYet,
}

impl Race {
    /// A race on tasks of this kernel.
    pub fn new(func_id: u32) -> Race {
        Race { func_id, state: Mutex::new(State::Waiting) }
    }

    /// Whether a task may still be postponed.
    pub fn is_waiting(&self) -> bool {
        matches!(*self.lock(), State::Waiting)
    }

    /// Decides how a task starts.
    pub fn start(&self, run: &Run<'_>, slot: u32) -> RaceStart {
        let mut state = self.lock();
        match &*state {
            State::Late { task } if *task == slot => return RaceStart::Late,
            State::Waiting if run.slots.func_id(slot).contains(&self.func_id) => {}
            _ => return RaceStart::Normal,
        }
        let head = run.slots.fanout(slot);
        if head.see() == fanout::OPEN_EMPTY {
            return if more_may_come(run) { RaceStart::NotYet } else { RaceStart::Normal };
        }
        let successors: Vec<u32> =
            fanout::close(head, &run.edges).map(|node| run.edges.consumer(node)).collect();
        *state = State::Early { task: slot, successors: successors.clone() };
        RaceStart::Early(successors)
    }

    /// Whether `slot` is the affected task, which has now run. Its successors were released long before.
    pub fn finish_late(&self, slot: u32) -> bool {
        let mut state = self.lock();
        let is_raced = matches!(&*state, State::Late { task } if *task == slot);
        if is_raced {
            *state = State::Over;
        }
        is_raced
    }

    /// Notes that a task has completed. Returns the affected task if this was its last successor.
    pub fn successor_done(&self, slot: u32) -> Option<u32> {
        let mut state = self.lock();
        let State::Early { task, successors } = &mut *state else { return None };
        successors.retain(|&s| s != slot);
        if !successors.is_empty() {
            return None;
        }
        let task = *task;
        *state = State::Late { task };
        Some(task)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the orchestrator may still add a successor. It cannot if it has ended or waits for tasks to
/// complete.
fn more_may_come(run: &Run<'_>) -> bool {
    let waiting = ThreadState::WaitingForRing as u32;
    !run.is_sealed() && run.control.thread(0).state().see() != waiting
}
