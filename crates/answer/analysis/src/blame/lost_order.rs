//! Tasks that the golden orders and the dump does not, where the missing order explains a difference.

use std::collections::HashMap;

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, FormatError, Task};

use super::observed::lacks_tasks;
use crate::evidence::{Recording, holds_output_of};
use crate::labels::{Races, Status, TaskStatus};
use crate::matching::Matching;
use crate::observation::Order;

/// For arguments outside their rules, by task and argument: a task that nothing orders with it here, although the golden
/// orders the two. It is named only if the golden's content came from it, or if the argument holds what it wrote. Empty
/// for filtered dumps, because a missing task may have ordered the others.
///
/// # Errors
/// A file cannot be read.
pub(super) fn find(
    (ours, golden): (Recording<'_>, Recording<'_>),
    matching: &Matching,
    statuses: &[TaskStatus],
) -> Result<HashMap<(usize, u16), usize>, FormatError> {
    let mut found = HashMap::new();
    let is_outside = |status: &TaskStatus| match status {
        TaskStatus::Compared(args) => {
            args.iter().any(|arg| [&arg.before, &arg.after].contains(&&Status::Outside))
        }
        TaskStatus::Unmatched(_) => false,
    };
    if lacks_tasks(ours.dump) || !statuses.iter().any(is_outside) {
        return Ok(found);
    }
    let search =
        LostOrderSearch { ours, golden, matching, partners: inverse(matching), by_times: ByTimes::of(ours) };
    for task in ours.graph.tasks().iter() {
        let (Some(partner), TaskStatus::Compared(args)) =
            (matching.partner[task.place()], &statuses[task.place()])
        else {
            continue;
        };
        let partner = golden.graph.task(partner);
        for (arg, status) in task.arguments().zip(args).filter(|(arg, _)| !arg.is_scalar()) {
            let stage = match (&status.before, &status.after) {
                (Status::Outside, _) => DumpStage::BeforeDispatch,
                (_, Status::Outside) => DumpStage::AfterCompletion,
                _ => continue,
            };
            if let Some(other) = search.lost((task, arg, stage), partner)? {
                found.insert((task.place(), arg.arg_index), other);
            }
        }
    }
    Ok(found)
}

/// The position of each golden task's partner.
fn inverse(matching: &Matching) -> HashMap<usize, usize> {
    matching.partner.iter().enumerate().filter_map(|(ours, partner)| Some(((*partner)?, ours))).collect()
}

struct LostOrderSearch<'r> {
    ours: Recording<'r>,
    golden: Recording<'r>,
    matching: &'r Matching,
    partners: HashMap<usize, usize>,
    by_times: Option<ByTimes<'r>>,
}

/// The order of tasks whose roles are all known: edges, queues and times.
struct ByTimes<'r> {
    races: Races<'r>,
    order: Order,
}

impl<'r> ByTimes<'r> {
    /// `None` if some roles are unknown: then observations know the order.
    fn of(run: Recording<'r>) -> Option<ByTimes<'r>> {
        let is_needed = run.graph.observations().is_none();
        is_needed.then(|| ByTimes { races: Races::of(run.graph), order: Order::of(run.graph.tasks()) })
    }
}

impl LostOrderSearch<'_> {
    fn lost(
        &self,
        (task, arg, stage): (Task<'_>, Argument<'_>, DumpStage),
        partner: Task<'_>,
    ) -> Result<Option<usize>, FormatError> {
        let theirs = partner.argument(arg.arg_index);
        let golden_outputs = theirs.map(|there| self.golden.graph.producers_of(there)).unwrap_or_default();
        let producers = golden_outputs.iter().filter_map(|output| self.partners.get(&output.task).copied());
        let producers: Vec<usize> = producers.collect();
        let is_producer = |other: &usize| stage == DumpStage::BeforeDispatch && producers.contains(other);
        let lost = match &self.by_times {
            Some(times) => {
                let is_late = |&other: &usize| {
                    other != task.place()
                        && times.races.started_before_end(task.place(), other)
                        && times.order.are_unordered(other, task.place())
                };
                producers.iter().copied().filter(is_late).collect()
            }
            None => self.unordered_here(task, arg, partner),
        };
        if let Some(other) = lost.iter().copied().find(is_producer) {
            return Ok(Some(other));
        }
        for other in lost {
            if holds_output_of(self.ours, (arg, stage), self.ours.graph.task(other))? {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    /// Tasks that may have written an argument, that nothing orders with its task, and that the golden orders.
    fn unordered_here(&self, task: Task<'_>, arg: Argument<'_>, partner: Task<'_>) -> Vec<usize> {
        let seen = self.ours.graph.observations().zip(self.golden.graph.observations());
        let Some((seen, golden)) = seen else { return Vec::new() };
        let is_ordered_there = |&other: &usize| {
            let other = self.matching.partner[other];
            other.is_some_and(|other| !golden.order().are_unordered(other, partner.place()))
        };
        // If the order of the later task is not fully known, nothing was lost for certain.
        let is_known = |other: &usize| !seen.order().is_unknown(task.place().max(*other));
        seen.unordered(task, arg).tasks.into_iter().filter(is_known).filter(is_ordered_there).collect()
    }
}
