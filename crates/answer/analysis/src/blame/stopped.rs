//! Finds tasks that did not end, unlike in the golden: the driver refused them, or they were running when the
//! run ended. A rerun task that did not end stopped, too: it ended in the recorded run.

use std::collections::HashMap;

use tensortap_format::{Dump, Footer, GoldenVerdict, Status, Task};

use super::Baseline;
use crate::graph::TaskGraph;
use crate::matching::Matching;

/// The text that recorders put between the name of a command and the driver status of its refusal.
const REFUSED: &str = ", refused by the driver with status ";

/// A task that was refused or never ended, unlike in the golden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoppedTask {
    /// Position of the task.
    pub task: usize,
    /// How it stopped.
    pub how: StopKind,
    /// Whether the golden has a similar task, which ended.
    pub ended_in_golden: bool,
}

/// How a run ended, as its dump states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunOutcome {
    /// The run's own golden reported wrong outputs.
    pub failed_golden: bool,
    /// The status of a run that crashed or hung, unlike the golden. Without a golden dump, the expected run
    /// completed.
    pub crash: Option<Status>,
}

/// Why a task did not end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopKind {
    /// The driver refused the command, so it had no effect.
    Refused {
        /// The refused kernel or driver command.
        called: String,
        /// The driver's status.
        status: i64,
    },
    /// The task was running when the run ended: it crashed or hung, or the run was stopped.
    NeverEnded,
    /// The task crashed or hung when it ran again, with the reason.
    FailedAgain(String),
}

impl StopKind {
    /// The name in JSON.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            StopKind::Refused { .. } => "refused",
            StopKind::NeverEnded => "never_ended",
            StopKind::FailedAgain(_) => "failed_again",
        }
    }
}

/// The command and the driver status, if the task is a command that the driver refused.
#[must_use]
pub fn refusal(task: Task<'_>) -> Option<(&str, i64)> {
    let (called, status) = task.task_name()?.rsplit_once(REFUSED)?;
    // A kernel of a scene may have such a name, but then the task has kernels.
    let status = status.parse().ok().filter(|_| task.kernel_names().is_empty())?;
    Some((called, status))
}

/// The stopped tasks of a dump, in dependency order. Refused commands come first, because later tasks ran
/// without their effect.
pub(super) fn stopped(graph: &TaskGraph, golden: &TaskGraph, matching: &Matching) -> Vec<StoppedTask> {
    let mut found = refused(graph, golden, matching);
    let ended = |task: Task<'_>| {
        let partner = matching.partner[task.place()].map(|partner| golden.task(partner));
        partner.map(|partner| !partner.is_unfinished())
    };
    let hung_there = |task: Task<'_>| {
        let mut there = golden.tasks().iter().filter(|there| there.is_unfinished());
        there.any(|there| is_like(there, task))
    };
    // A task whose end may only be missing from the dump is not accused.
    for place in graph.running().into_iter().filter(|&place| graph.surely_runs(place)) {
        let task = graph.task(place);
        let ended = ended(task);
        if ended.unwrap_or_else(|| !hung_there(task)) {
            // If too little was captured to pair the task, a similar unmatched task of the golden counts as
            // the same.
            let mut unmatched_tasks =
                matching.only_second.iter().map(|unmatched| golden.task(unmatched.task));
            let ended_in_golden = ended.is_some()
                || unmatched_tasks.any(|there| is_like(there, task) && !there.is_unfinished());
            found.push(StoppedTask { task: place, how: StopKind::NeverEnded, ended_in_golden });
        }
    }
    found
}

impl RunOutcome {
    pub(super) fn of(dump: &Dump, baseline: &Baseline<'_>) -> RunOutcome {
        let golden = match baseline {
            Baseline::Golden(golden) => crash(golden),
            Baseline::Arrays(_) | Baseline::Reference(_) | Baseline::Rerun(_) => None,
        };
        RunOutcome {
            failed_golden: dump.footer().is_some_and(|footer| footer.golden == Some(GoldenVerdict::Fail)),
            crash: crash(dump).filter(|_| golden.is_none()),
        }
    }
}

/// The status of a run that crashed or hung. A process that left by itself did neither.
fn crash(dump: &Dump) -> Option<Status> {
    let has_left = dump.footer().is_some_and(Footer::process_left_early);
    let status = dump.status().filter(|_| !has_left);
    status.filter(|status| matches!(status, Status::Crashed | Status::Stalled))
}

/// Whether two tasks have the same kernels and the same name.
fn is_like(one: Task<'_>, other: Task<'_>) -> bool {
    one.kernel_names() == other.kernel_names() && one.task_name() == other.task_name()
}

/// Refused commands. A command is skipped for each refused command of the same name in the golden.
fn refused(graph: &TaskGraph, golden: &TaskGraph, matching: &Matching) -> Vec<StoppedTask> {
    let mut there: HashMap<&str, usize> = HashMap::new();
    for task in golden.tasks().iter().filter(|task| refusal(*task).is_some()) {
        *there.entry(task.task_name().unwrap_or_default()).or_default() += 1;
    }
    let mut found = Vec::new();
    for task in graph.tasks().iter() {
        let Some((called, status)) = refusal(task) else { continue };
        let left = there.get_mut(task.task_name().unwrap_or_default()).filter(|left| **left > 0);
        if let Some(left) = left {
            *left -= 1;
            continue;
        }
        // A refused command has no partner. If the golden's command ran, it has no partner either.
        let is_it = |place: usize| {
            let there = golden.task(place);
            there.kernel_names() == [called] || there.task_name() == Some(called)
        };
        let ended_in_golden = matching.only_second.iter().any(|unmatched| is_it(unmatched.task));
        let how = StopKind::Refused { called: called.to_owned(), status };
        found.push(StoppedTask { task: task.place(), how, ended_in_golden });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::{TaskBuilder, graph_of};
    use tensortap_abi::EdgeCause;
    use tensortap_format::Edge;

    /// Three tasks; the second has no recorded end.
    fn run(is_open: bool, edges: &[Edge]) -> TaskGraph {
        let mut tasks = vec![
            TaskBuilder::new(0, "a").output(0x1000, "p").at(10),
            TaskBuilder::new(1, "b").output(0x2000, "q").at(20),
            TaskBuilder::new(2, "c").output(0x3000, "r").at(30),
        ];
        if is_open {
            tasks[1].facts.completed_ns = None;
        }
        graph_of(tasks, edges, None)
    }

    fn accused(graph: &TaskGraph) -> Vec<usize> {
        let matching = Matching { partner: vec![Some(0), Some(1), Some(2)], ..Matching::default() };
        stopped(graph, &run(false, &[]), &matching).into_iter().map(|stopped| stopped.task).collect()
    }

    #[test]
    fn a_task_is_not_accused_if_its_end_may_have_been_lost() {
        let mut graph = run(true, &[]);
        assert_eq!(accused(&graph), [1]);
        graph.lost_ends = Some("records were lost".into());
        assert!(accused(&graph).is_empty());
        assert_eq!(graph.running(), [1], "it is still listed as a task without an end");
        assert!(accused(&run(false, &[])).is_empty());
    }

    #[test]
    fn a_task_that_the_host_waited_for_has_ended() {
        let edge =
            |why: EdgeCause| Edge { step: 0, from_step: 0, from: 1, to: 2, arg_index: 0, why: why.name() };
        assert_eq!(accused(&run(true, &[edge(EdgeCause::QueueOrder)])), [1]);
        assert!(accused(&run(true, &[edge(EdgeCause::HostWait)])).is_empty());
    }
}
