//! Tasks that did not come to their end, though the golden has nothing of the kind.

use std::collections::HashMap;

use tensortap_format::Task;

use crate::graph::TaskGraph;
use crate::matching::Matching;

/// What recorders put between the name of a command and the status that its driver refused it with.
const REFUSED: &str = ", refused by the driver with status ";

/// A task that was refused or never ended here, and not in the golden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Its position.
    pub task: usize,
    /// What became of it.
    pub how: StopKind,
    /// Whether the golden has a task like it, which ended.
    pub ended_in_golden: bool,
}

/// How a task was kept from its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopKind {
    /// The driver refused the command, which did nothing.
    Refused {
        /// What was refused: a kernel, or a command of the driver.
        called: String,
        /// The driver's status.
        status: i64,
    },
    /// It was under way when the run ended: it crashed, hung, or the run was ended.
    NeverEnded,
}

impl StopKind {
    /// Spelled as in JSON.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            StopKind::Refused { .. } => "refused",
            StopKind::NeverEnded => "never_ended",
        }
    }
}

/// What was refused, and with which status, where a task is a command that its driver refused.
#[must_use]
pub fn refusal(task: Task<'_>) -> Option<(&str, i64)> {
    let (called, status) = task.task_name()?.rsplit_once(REFUSED)?;
    // Whoever calls a kernel of a scene so has kernels all the same.
    let status = status.parse().ok().filter(|_| task.kernel_names().is_empty())?;
    Some((called, status))
}

/// Those of a dump, in dependency order; commands that were refused first, for what is behind them went on without.
pub(super) fn stopped(graph: &TaskGraph, golden: &TaskGraph, matching: &Matching) -> Vec<Stopped> {
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
            // One of which too little was captured to find its partner is none that the golden has not.
            let mut lonely = matching.only_second.iter().map(|unmatched| golden.task(unmatched.task));
            let ended_in_golden =
                ended.is_some() || lonely.any(|there| is_like(there, task) && !there.is_unfinished());
            let task = task.place();
            found.push(Stopped { task, how: StopKind::NeverEnded, ended_in_golden });
        }
    }
    found
}

/// Whether two tasks run the same and are called the same.
fn is_like(one: Task<'_>, other: Task<'_>) -> bool {
    one.kernel_names() == other.kernel_names() && one.task_name() == other.task_name()
}

/// Commands that were refused; a golden in which as many of a name were is no different.
fn refused(graph: &TaskGraph, golden: &TaskGraph, matching: &Matching) -> Vec<Stopped> {
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
        // Such a task has no partner that ran: that one is without a partner, too.
        let is_it = |place: usize| {
            let there = golden.task(place);
            there.kernel_names() == [called] || there.task_name() == Some(called)
        };
        let ended_in_golden = matching.only_second.iter().any(|unmatched| is_it(unmatched.task));
        let how = StopKind::Refused { called: called.to_owned(), status };
        found.push(Stopped { task: task.place(), how, ended_in_golden });
    }
    found
}
