//! An injected race: one task counts as complete before it has run.
//!
//! The first task of the damaged kernel that has successors releases them at once. When they are done, having read
//! what was there before, the task really runs. Its slot and memory are held until then.

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
    /// No task was found yet.
    Waiting,
    /// The successors of `task` were released; these are not done yet.
    Early { task: u32, successors: Vec<u32> },
    /// All of them are done; `task` runs.
    Late { task: u32 },
    /// Nothing more to do.
    Over,
}

/// How a task is to begin.
pub enum Start {
    /// As any other.
    Normal,
    /// It counts as complete now; these successors must be released.
    Early(Vec<u32>),
    /// Its successors have run; now it runs itself.
    Late,
    /// It may get successors yet; try again later.
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

    /// Decides how a task begins.
    pub fn start(&self, run: &Run<'_>, slot: u32) -> Start {
        let mut state = self.lock();
        match &*state {
            State::Late { task } if *task == slot => return Start::Late,
            State::Waiting if run.slots.func_id(slot).contains(&self.func_id) => {}
            _ => return Start::Normal,
        }
        let head = run.slots.fanout(slot);
        if head.see() == fanout::OPEN_EMPTY {
            return if more_may_come(run) { Start::NotYet } else { Start::Normal };
        }
        let successors: Vec<u32> =
            fanout::close(head, &run.edges).map(|node| run.edges.consumer(node)).collect();
        *state = State::Early { task: slot, successors: successors.clone() };
        Start::Early(successors)
    }

    /// Whether `slot` is the raced task, which has now really run: its successors were released long ago.
    pub fn finish_late(&self, slot: u32) -> bool {
        let mut state = self.lock();
        let is_raced = matches!(&*state, State::Late { task } if *task == slot);
        if is_raced {
            *state = State::Over;
        }
        is_raced
    }

    /// Notes that a task is done; gives the raced task when it was the last successor.
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

/// The orchestrator may still add a successor, unless it is done or waits for tasks to complete.
fn more_may_come(run: &Run<'_>) -> bool {
    let waiting = ThreadState::WaitingForRing as u32;
    !run.is_sealed() && run.control.thread(0).state().see() != waiting
}
