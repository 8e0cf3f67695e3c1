//! Lets one command at a time enter a stream, together with its snapshots.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{backend::StreamState, snapshot::StreamScratch};

/// The lock of a stream. A thread that waits too long passes it.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<GateState>,
    opens: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_taken: bool,
    /// Commands that entered the stream although another command was entering it, so far.
    passed: u64,
    /// Those of them that are entering the stream now.
    passing: u64,
    /// Threads that wait. Without waiters the notification is skipped, which is a system call.
    waiting: u64,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a command waits for another thread's command. That one may depend on something that this thread
/// must do first, so the wait must end.
const GATE_TIMEOUT: Duration = Duration::from_millis(100);

/// Exclusive access to a stream, until this is dropped.
#[derive(Debug)]
pub struct StreamGuard {
    /// The stream.
    pub stream: Arc<StreamState>,
    is_own: bool,
    /// `GateState::passed` when the guard was created.
    passed: u64,
    /// [`StreamScratch::lets_next`] of the stream when the guard was created. The command that enters now is
    /// the next one.
    pub lets_next: Option<u64>,
}

impl StreamGuard {
    /// Device memory in which snapshots of the stream work.
    pub fn scratch(&self) -> MutexGuard<'_, StreamScratch> {
        self.stream.scratch()
    }

    /// Waits for exclusive access to a stream, at most [`GATE_TIMEOUT`]. After that it continues without.
    pub fn new(stream: Arc<StreamState>) -> StreamGuard {
        let gate = &stream.gate;
        let is_held = |state: &mut GateState| state.is_taken || state.passing > 0;
        let mut state = gate.state();
        if is_held(&mut state) {
            state.waiting += 1;
            let waited = gate.opens.wait_timeout_while(state, GATE_TIMEOUT, is_held);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
        let is_own = !is_held(&mut state);
        if is_own {
            state.is_taken = true;
        } else {
            (state.passed, state.passing) = (state.passed + 1, state.passing + 1);
        }
        let passed = state.passed;
        drop(state);
        let lets_next = stream.scratch().lets_next.take();
        StreamGuard { stream, is_own, passed, lets_next }
    }

    /// Whether the command enters the stream while another thread's command does.
    pub fn passes(&self) -> bool {
        !self.is_own
    }

    /// Whether no other thread's command entered the stream since the guard was created.
    pub fn is_alone(&self) -> bool {
        self.is_own && self.stream.gate.state().passed == self.passed
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        let mut state = self.stream.gate.state();
        if self.is_own {
            state.is_taken = false;
        } else {
            state.passing -= 1;
        }
        let is_waited_for = state.waiting > 0;
        drop(state);
        if is_waited_for {
            self.stream.gate.opens.notify_all();
        }
    }
}
