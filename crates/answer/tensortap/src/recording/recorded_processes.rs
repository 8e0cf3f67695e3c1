//! The processes that are being recorded, so that several libraries of one process share a session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tensortap_platform::attach::{AttachedProcess, Caller, JoinError};

/// The processes by the id that the system reports.
#[derive(Debug, Default)]
pub struct RecordedProcesses(Mutex<HashMap<u32, Arc<Slot>>>);

/// The session of one process id, if it has one.
type Slot = Mutex<Weak<AttachedProcess>>;

/// The right to look up or open the session of one process id. Only one thread at a time has it.
#[derive(Debug)]
pub struct RecordedProcess<'p> {
    processes: &'p RecordedProcesses,
    pid: u32,
    slot: Arc<Slot>,
}

/// Exclusive access to the session of one process id.
#[derive(Debug)]
pub struct ProcessGuard<'s>(MutexGuard<'s, Weak<AttachedProcess>>);

impl RecordedProcesses {
    /// The slot of this process id, while the returned value lives and as long as a session is in it.
    pub fn of(&self, pid: u32) -> RecordedProcess<'_> {
        let slot = Arc::clone(self.slots().entry(pid).or_default());
        RecordedProcess { processes: self, pid, slot }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<u32, Arc<Slot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecordedProcess<'_> {
    /// Waits while another library of the process attaches.
    pub fn lock(&self) -> ProcessGuard<'_> {
        ProcessGuard(self.slot.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for RecordedProcess<'_> {
    fn drop(&mut self) {
        let mut slots = self.processes.slots();
        // The map and this value. Another caller of the process would have its own reference.
        if Arc::strong_count(&self.slot) == 2 {
            slots.remove(&self.pid);
        }
    }
}

impl ProcessGuard<'_> {
    /// Lets the caller join the session of its process.
    pub fn join(&self, caller: Caller) -> Result<(), JoinError> {
        match self.0.upgrade() {
            Some(process) => process.join(caller),
            None => Err(JoinError::IsOther(caller)),
        }
    }

    /// Sets the session that other libraries of the process join.
    pub fn set(&mut self, process: &Arc<AttachedProcess>) {
        *self.0 = Arc::downgrade(process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_id_has_one_slot_while_any_caller_needs_it() {
        let processes = RecordedProcesses::default();
        let (first, second) = (processes.of(7), processes.of(7));
        assert!(Arc::ptr_eq(&first.slot, &second.slot));
        drop(first);
        let third = processes.of(7);
        assert!(Arc::ptr_eq(&third.slot, &second.slot));
        drop((second, third));
        assert!(processes.slots().is_empty(), "ids of ended processes do not accumulate");
    }
}
