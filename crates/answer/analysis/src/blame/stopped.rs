//! Finds tasks that did not end, unlike in the golden: the driver refused them, or they were running when the
//! run ended.

use std::collections::HashMap;

use tensortap_format::Task;

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
}

impl StopKind {
    /// The name in JSON.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            StopKind::Refused { .. } => "refused",
            StopKind::NeverEnded => "never_ended",
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
    let is_running = |task: &Task<'_>| task.is_unfinished() && graph.unfinished_before(*task).is_none();
    let ended = |task: Task<'_>| {
        let partner = matching.partner[task.place()].map(|partner| golden.task(partner));
        partner.map(|partner| !partner.is_unfinished())
    };
    let hung_there = |task: Task<'_>| {
        let mut there = golden.tasks().iter().filter(|there| there.is_unfinished());
        there.any(|there| is_like(there, task))
    };
    for task in graph.tasks().iter().filter(is_running) {
        let ended = ended(task);
        if ended.unwrap_or_else(|| !hung_there(task)) {
            // If too little was captured to pair the task, a similar unmatched task of the golden counts as
            // the same.
            let mut unmatched_tasks =
                matching.only_second.iter().map(|unmatched| golden.task(unmatched.task));
            let ended_in_golden = ended.is_some()
                || unmatched_tasks.any(|there| is_like(there, task) && !there.is_unfinished());
            let task = task.place();
            found.push(StoppedTask { task, how: StopKind::NeverEnded, ended_in_golden });
        }
    }
    found
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
