//! Which tasks were running when the run ended. The record of an end may be lost, so a task without a recorded
//! end may have completed.

use std::collections::HashSet;

use tensortap_abi::EdgeCause;
use tensortap_format::{Dump, Edge, Tail, Task};

use super::TaskGraph;

impl TaskGraph {
    /// The tasks without a recorded end that had started: those that wait for no other such task. A task does
    /// not count if the host waited for it and then submitted another one, because then it had completed.
    #[must_use]
    pub fn running(&self) -> Vec<usize> {
        let waited_for = self.waited_for_by_host();
        let open = |task: &Task<'_>| task.is_unfinished() && !waited_for.contains(&task.place());
        let open: Vec<usize> = self.tasks().iter().filter(open).map(|task| task.place()).collect();
        let started = |place: &&usize| self.unfinished_before(self.task(**place)).is_none();
        let running: Vec<usize> = open.iter().filter(started).copied().collect();
        // Damaged edges may form a cycle.
        if running.is_empty() { open } else { running }
    }

    /// An unfinished task that this one waits for; if there is one, this task cannot have started.
    #[must_use]
    pub fn unfinished_before(&self, task: Task<'_>) -> Option<usize> {
        // The host submitted this task after the other one had completed.
        let waits = task.producers().filter(|edge| !is_host_wait(edge));
        let mut waited = waits.filter_map(|edge| self.position(edge.producer()));
        waited.find(|&place| place != task.place() && self.task(place).is_unfinished())
    }

    /// Whether it is certain that a task without a recorded end had not completed.
    #[must_use]
    pub fn surely_runs(&self, place: usize) -> bool {
        self.lost_ends.is_none() || self.task(place).facts().in_flight
    }

    fn waited_for_by_host(&self) -> HashSet<usize> {
        let edges = self.tasks().edges().iter().filter(is_host_wait);
        edges.filter_map(|edge| self.position(edge.producer())).collect()
    }
}

fn is_host_wait(edge: &&Edge) -> bool {
    edge.why == EdgeCause::HostWait.name()
}

/// Why a dump may lack the records of ends; `None` if it has them all.
pub(super) fn lost_ends(dump: &Dump) -> Option<String> {
    let footer = dump.footer();
    let lost = footer.map_or(0, |footer| footer.losses.iter().map(|loss| loss.records).sum::<u64>());
    let corrupt = footer.map_or(0, |footer| footer.corrupt_records);
    if lost > 0 || corrupt > 0 || !dump.gaps().is_empty() {
        Some("records were lost".into())
    } else if dump.tail() != Tail::Closed {
        Some("the dump was not closed".into())
    } else if footer.is_some_and(|footer| footer.process_left_early()) {
        Some("the process left without closing its session".into())
    } else {
        None
    }
}
