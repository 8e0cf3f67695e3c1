//! Tasks that the golden orders and the dump does not, where the missing order explains a difference.

use std::collections::HashMap;

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, ArgumentSnapshot, FormatError, Task};

use super::observed::lacks_records;
use crate::evidence::{Evidence, Recording, Spans, holds_content_before, holds_output_of};
use crate::graph::view::share_memory;
use crate::graph::{TensorView, lane};
use crate::labels::{Races, Status, TaskStatus};
use crate::matching::Matching;
use crate::observation::Order;

/// For arguments outside their rules, by task and argument: a task that nothing orders with it here, although the golden
/// orders the two. It is named only if the argument holds what it wrote too early, or if the golden holds what it wrote
/// too late. Empty for filtered dumps, because a missing task may have ordered the others.
///
/// # Errors
/// A file cannot be read.
pub(super) fn find(
    (ours, golden): (Recording<'_>, Recording<'_>),
    matching: &Matching,
    statuses: &[TaskStatus],
    evidence: &Evidence,
) -> Result<HashMap<(usize, u16), usize>, FormatError> {
    let mut found = HashMap::new();
    // A task that only the golden has may have ordered others there.
    let lacks_order = lacks_records(ours.dump) || !matching.only_second.is_empty();
    if lacks_order || !statuses.iter().any(TaskStatus::has_outside) {
        return Ok(found);
    }
    let (partners, by_times) = (inverse(matching), ByTimes::of(ours));
    let search = LostOrderSearch { ours, golden, matching, statuses, evidence, partners, by_times };
    for task in ours.graph.tasks().iter() {
        let (Some(partner), TaskStatus::Compared(args)) =
            (matching.partner[task.place()], &statuses[task.place()])
        else {
            continue;
        };
        let partner = golden.graph.task(partner);
        // A candidate may be no input, so nothing follows from who wrote it.
        let is_certain = |arg: &Argument<'_>| !arg.is_scalar() && !arg.is_candidate();
        for (arg, status) in task.arguments().zip(args).filter(|(arg, _)| is_certain(arg)) {
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

/// For arguments of programs with declared roles that no earlier task wrote: a task that nothing orders with theirs and
/// that declares to write there.
pub(super) fn unordered_writers(run: Recording<'_>, evidence: &Evidence) -> HashMap<(usize, u16), usize> {
    /// Limit on the distance of the two tasks, and on the number of arguments.
    const MOST: usize = 5_000;
    let graph = run.graph;
    let mut external: Vec<(usize, u16)> =
        evidence.changed_inputs().filter(|(_, holder)| holder.is_none()).map(|(key, _)| key).collect();
    external.sort_unstable();
    external.truncate(MOST);
    let is_declared = graph.others_write && graph.observations().is_none() && graph.has_several_lanes();
    if !is_declared || external.is_empty() {
        return HashMap::new();
    }
    let order = Order::of(graph.tasks());
    let writer_of = |(place, arg_index): (usize, u16)| {
        let own = TensorView::of(graph.task(place).argument(arg_index)?)?;
        let near = place.saturating_sub(MOST)..graph.len().min(place.saturating_add(MOST));
        near.filter(|&other| other != place && order.are_unordered(other, place)).find(|&other| {
            graph.task(other).outputs().filter_map(TensorView::of).any(|view| view.shares(&own))
        })
    };
    external.into_iter().filter_map(|key| Some((key, writer_of(key)?))).collect()
}

/// The position of each golden task's partner.
fn inverse(matching: &Matching) -> HashMap<usize, usize> {
    matching.partner.iter().enumerate().filter_map(|(ours, partner)| Some(((*partner)?, ours))).collect()
}

struct LostOrderSearch<'r> {
    ours: Recording<'r>,
    golden: Recording<'r>,
    matching: &'r Matching,
    statuses: &'r [TaskStatus],
    evidence: &'r Evidence,
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
        let Some(theirs) = partner.counterpart(arg) else { return Ok(None) };
        let golden_outputs = self.golden.graph.producers_of(theirs).iter();
        let producers: Vec<usize> =
            golden_outputs.filter_map(|output| self.partners.get(&output.task).copied()).collect();
        let lost: Vec<usize> = match &self.by_times {
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
        let differing = self.evidence.differing(task.place(), arg.arg_index, stage);
        let mut late = Vec::new();
        for &other in lost.iter().filter(|&&other| !self.has_rival(other, (task, arg))) {
            let other_task = self.ours.graph.task(other);
            let is_held = holds_output_of(self.ours, (arg, stage), &differing, other_task)?;
            let Some(there) = self.matching.partner[other] else { continue };
            // It wrote too early: in the golden it comes later.
            if is_held && self.is_later_in_golden(partner.place(), there) {
                if !self.is_of_another((task, arg, stage), &differing, other)? {
                    return Ok(Some(other));
                }
                continue;
            }
            // It wrote too late: the golden's content came from it, and this content did not.
            let from = self.golden.graph.task(there);
            let is_missing = !is_held
                && producers.contains(&other)
                && self.left_right_content(other_task, arg)
                && self.is_from_before((arg, stage), &differing, other_task)?
                && holds_output_of(self.golden, (theirs, stage), &differing, from)?;
            late.extend(is_missing.then_some(other));
        }
        // Hashes do not show which of several tasks wrote the bytes that differ.
        let is_stored = |arg: Argument<'_>| arg.captured(stage).is_some_and(ArgumentSnapshot::is_stored);
        let is_clear = late.len() == 1 && (lost.len() == 1 || is_stored(arg) && is_stored(theirs));
        Ok(late.first().copied().filter(|_| is_clear))
    }

    /// Whether nothing orders a task with yet another one that may have written the argument. Then what one of the two
    /// wrote may appear as a change by the other one.
    fn has_rival(&self, other: usize, (task, arg): (Task<'_>, Argument<'_>)) -> bool {
        let graph = self.ours.graph;
        let may_write = |written: &Argument<'_>| written.may_be_written() && share_memory(*written, arg);
        let rivals = match (&self.by_times, graph.observations()) {
            (Some(times), _) => times.races.meanwhile(other),
            (None, Some(seen)) => {
                let other = graph.task(other);
                let written = other.arguments().filter(may_write);
                written.flat_map(|written| seen.unordered(other, written).tasks).collect()
            }
            (None, None) => return true,
        };
        let mut others = rivals.into_iter().filter(|&rival| rival != task.place());
        others.any(|rival| graph.task(rival).arguments().any(|written| may_write(&written)))
    }

    /// Whether an argument holds what was there before another task. Without a record of that, what earlier tasks left there
    /// decides.
    fn is_from_before(
        &self,
        held: (Argument<'_>, DumpStage),
        differing: &Spans,
        other: Task<'_>,
    ) -> Result<bool, FormatError> {
        if other.outputs().any(|written| share_memory(written, held.0) && written.before.is_some()) {
            return holds_content_before(self.ours, held, differing, other);
        }
        let holders = self.ours.graph.last_holders(held.0);
        // If nothing is known about the memory before, times decide.
        Ok(self.is_output_of_any(held, differing, holders.iter().map(|holder| holder.task))?
            || holders.is_empty() && self.by_times.is_some())
    }

    /// Whether an argument is also what another task left there. Tasks of several steps often write the same.
    fn is_of_another(
        &self,
        (task, arg, stage): (Task<'_>, Argument<'_>, DumpStage),
        differing: &Spans,
        other: usize,
    ) -> Result<bool, FormatError> {
        let graph = self.ours.graph;
        let holders = graph.last_holders(arg).iter().map(|holder| holder.task);
        let unordered = graph.observations().map_or_else(Vec::new, |seen| seen.unordered(task, arg).tasks);
        let others = holders.chain(unordered).filter(|&another| another != other);
        self.is_output_of_any((arg, stage), differing, others)
    }

    /// Whether an argument is what one of these tasks left there.
    fn is_output_of_any(
        &self,
        held: (Argument<'_>, DumpStage),
        differing: &Spans,
        tasks: impl Iterator<Item = usize>,
    ) -> Result<bool, FormatError> {
        for task in tasks {
            if holds_output_of(self.ours, held, differing, self.ours.graph.task(task))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether everything that a task left in the memory of an argument is right. If not, the task itself may be why its
    /// content is missing there.
    fn left_right_content(&self, other: Task<'_>, arg: Argument<'_>) -> bool {
        let TaskStatus::Compared(statuses) = &self.statuses[other.place()] else { return false };
        let mut written = other.arguments().zip(statuses).filter(|(written, _)| share_memory(*written, arg));
        written.all(|(_, status)| matches!(status.after, Status::Within | Status::NotApplicable))
    }

    fn is_later_in_golden(&self, task: usize, other: usize) -> bool {
        self.golden.graph.observations().is_some_and(|seen| seen.order().is_before(task, other))
    }

    /// Tasks that may have written an argument, that nothing orders with its task, and that the golden orders.
    fn unordered_here(&self, task: Task<'_>, arg: Argument<'_>, partner: Task<'_>) -> Vec<usize> {
        let seen = self.ours.graph.observations().zip(self.golden.graph.observations());
        let Some((seen, golden)) = seen else { return Vec::new() };
        let is_ordered_there = |&other: &usize| {
            let other = self.matching.partner[other];
            other.is_some_and(|other| !golden.order().are_unordered(other, partner.place()))
        };
        let is_together = |run: Recording<'_>, one: usize, other: usize| {
            lane(run.graph.task(one)) == lane(run.graph.task(other))
        };
        // A thread of a pool orders the tasks that it happens to get.
        let is_by_chance = |&other: &usize| {
            let there = self.matching.partner[other];
            (task.queue, partner.queue) == (0, 0)
                && !is_together(self.ours, task.place(), other)
                && there.is_some_and(|there| is_together(self.golden, partner.place(), there))
        };
        // If the order of the later task is not fully known, nothing was lost for certain.
        let is_known = |other: &usize| !seen.order().is_unknown(task.place().max(*other));
        seen.unordered(task, arg)
            .tasks
            .into_iter()
            .filter(is_known)
            .filter(is_ordered_there)
            .filter(|other| !is_by_chance(other))
            .collect()
    }
}
