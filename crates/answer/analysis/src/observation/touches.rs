//! Answers which tasks used which memory, for dumps in which not all tasks are ordered.
//!
//! Views that share memory, directly or through others, form a group. A query first scans the touches of a
//! group in task order, within the range of positions that can be unordered with the task. That range is
//! short if the program synchronizes now and then. If the range is long, the query instead searches each
//! chain of each view with a binary search. So a query costs the smaller of both. If the [`QuerySteps`] runs
//! out of steps, the answer is undecided.

use std::collections::BinaryHeap;
use std::ops::Range;

use tensortap_format::{Task, Tasks};

use super::memory::Memory;
use super::runs::{TouchRun, TouchRuns};
use super::{COUNTED, Order, UnorderedTasks};
use crate::graph::OutputRef;
use crate::graph::view::{Ranges, piece_count, pieces};
use crate::steps::QuerySteps;

/// All arguments that tasks may have written.
#[derive(Clone, Debug, Default)]
pub(super) struct Touches {
    /// Sorted by group, then task.
    all: Vec<Touch>,
    /// Where each group begins in `all`, plus a final end.
    groups: Vec<u32>,
    /// Numbers of the touches that are, or may be, writes according to observations.
    wrote: Vec<u32>,
    group_runs: TouchRuns,
    view_runs: TouchRuns,
}

/// Limit on the number of last outputs in an answer.
pub(super) const MAX_LAST: usize = 32;
/// The least number of touches that are scanned before chains are searched.
const MIN_SCANNED: usize = 64;
/// Estimated cost of searching one chain of one view.
const STEPS_OF_RUN: usize = 8;
/// Up to this many chains of a group are merged directly.
const FEW_CHAINS: usize = 16;

/// An argument that its task may have written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    task: u32,
    view: u32,
    /// Argument number.
    number: u32,
    arg_index: u16,
}

impl Touch {
    pub fn place(&self) -> usize {
        self.task as usize
    }

    pub fn view(&self) -> usize {
        self.view as usize
    }
}

/// Which touches a query considers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TouchFilter {
    /// All touches: everything that may have been written.
    MayHaveWritten,
    /// Only touches that are not known to have left the bytes unchanged.
    Wrote,
}

impl Touches {
    /// Empty in a total order, where no query needs touches.
    pub fn of(tasks: &Tasks, order: &Order, memory: &Memory) -> Touches {
        let mut touches = Touches::default();
        if order.is_total() {
            return touches;
        }
        for task in tasks.iter().filter(|task| !task.contains_tasks()) {
            // A known input leaves its memory unchanged, and so does a `const` argument with equal content.
            for arg in task.arguments().filter(|arg| arg.may_be_written()) {
                let Some(view) = memory.view_of(arg) else { continue };
                let (task, view, number) = (small(task.place()), small(view), small(arg.number()));
                touches.all.push(Touch { task, view, number, arg_index: arg.arg_index });
            }
        }
        // A stable sort preserves the task order within a group.
        touches.all.sort_by_key(|touch| memory.group_of(touch.view()));
        touches.groups = starts(memory.group_count(), touches.all.iter().map(|t| memory.group_of(t.view())));
        let Touches { all, .. } = &touches;
        let group_runs =
            TouchRuns::of(all, order, memory.group_count(), |touch| memory.group_of(touch.view()));
        let view_runs = TouchRuns::of(all, order, memory.len(), Touch::view);
        Touches { group_runs, view_runs, ..touches }
    }

    /// Records which touches are writes, by argument number.
    pub fn keep_writes(&mut self, wrote: impl Fn(usize) -> bool) {
        let of_touch: Vec<bool> = self.all.iter().map(|touch| wrote(touch.number as usize)).collect();
        self.wrote = (0..).zip(&of_touch).filter_map(|(number, wrote)| wrote.then_some(number)).collect();
        self.group_runs.keep_writes(&of_touch);
        self.view_runs.keep_writes(&of_touch);
    }

    /// The range of touch numbers of a group.
    fn of_group(&self, group: usize) -> Range<usize> {
        self.groups[group] as usize..self.groups[group + 1] as usize
    }

    /// The touches of a view's group by tasks from position `from` up to `to`.
    fn within(&self, memory: &Memory, view: usize, from: usize, to: usize) -> &[Touch] {
        let all = &self.all[self.of_group(memory.group_of(view))];
        let first = all.partition_point(|touch| touch.place() < from);
        let len = all[first..].partition_point(|touch| touch.place() < to);
        &all[first..first + len]
    }

    /// The touches of a group by tasks before one, the last first.
    fn before(&self, group: usize, task: usize, which: TouchFilter) -> impl Iterator<Item = &Touch> {
        let of_group = self.of_group(group);
        let (touched, wrote) = match which {
            TouchFilter::MayHaveWritten => (&self.all[of_group], &[][..]),
            TouchFilter::Wrote => {
                let start = self.wrote.partition_point(|&number| (number as usize) < of_group.start);
                let end = self.wrote.partition_point(|&number| (number as usize) < of_group.end);
                (&[][..], &self.wrote[start..end])
            }
        };
        let wrote = &wrote[..wrote.partition_point(|&number| self.all[number as usize].place() < task)];
        let touched = &touched[..touched.partition_point(|touch| touch.place() < task)];
        wrote.iter().rev().map(|&number| &self.all[number as usize]).chain(touched.iter().rev())
    }

    /// Limit on scanned touches before the chains of all meeting views are searched.
    fn most_steps(&self, memory: &Memory, view: usize) -> usize {
        // The size of the group is an estimate; counting the views that meet would take as long as the
        // search.
        let runs = memory.met_count(view).saturating_add(self.view_runs.get(view).len());
        MIN_SCANNED.max(runs.saturating_mul(STEPS_OF_RUN))
    }

    /// Tasks that are unordered with a task and may have written memory of a view: the first [`COUNTED`]
    /// found, sorted.
    pub fn unordered(
        &self,
        order: &Order,
        memory: &Memory,
        (task, view): (usize, usize),
        query_steps: &mut QuerySteps<'_>,
    ) -> UnorderedTasks {
        let mut tasks: Vec<usize> = Vec::new();
        let open = self.within(memory, view, order.all_before(task), order.all_after(task));
        let most = self.most_steps(memory, view);
        for touch in open.iter().take(most) {
            let other = touch.place();
            if query_steps.take(memory.steps_to_share(view, touch.view())).is_none() {
                return UnorderedTasks { tasks, is_decided: false };
            }
            if tasks.last() != Some(&other)
                && order.are_unordered(task, other)
                && memory.share(view, touch.view())
            {
                tasks.push(other);
                if tasks.len() == COUNTED {
                    return UnorderedTasks { tasks, is_decided: true };
                }
            }
        }
        if open.len() > most {
            let is_decided =
                self.unordered_by_chains(order, memory, (task, view), (&mut tasks, query_steps)).is_some();
            tasks.sort_unstable();
            tasks.dedup();
            tasks.truncate(COUNTED);
            return UnorderedTasks { tasks, is_decided };
        }
        UnorderedTasks { tasks, is_decided: true }
    }

    fn unordered_by_chains(
        &self,
        order: &Order,
        memory: &Memory,
        (task, view): (usize, usize),
        (others, query_steps): (&mut Vec<usize>, &mut QuerySteps<'_>),
    ) -> Option<()> {
        for near in memory.meeting(view) {
            query_steps.take(memory.steps_to_share(view, near))?;
            if !memory.share(view, near) {
                continue;
            }
            let mut found = 0;
            for run in self.view_runs.get(near) {
                query_steps.take(STEPS_OF_RUN)?;
                let (from, to) = order.unordered_in(task, run.chain);
                let open = self.view_runs.after_rank(&self.all, order, run, from);
                let open = open.iter().map(|&touch| self.all[touch as usize].place());
                let open = open.take_while(|&other| order.place(other).1 <= to).take(COUNTED);
                let before = others.len();
                others.extend(open);
                query_steps.take(others.len() - before)?;
                found += others.len() - before;
                if found >= COUNTED {
                    break;
                }
            }
        }
        Some(())
    }

    /// Whether no task between `first` and `last` may have written the memory that both views share. A task
    /// is between unless it is ordered before `first` or after `last`. Returns false if undecided.
    pub fn is_clear_between(
        &self,
        order: &Order,
        memory: &Memory,
        ((first, left), (last, found)): ((usize, usize), (usize, usize)),
        query_steps: &mut QuerySteps<'_>,
    ) -> bool {
        let views = (left, found);
        order.is_total() || self.is_clear(order, memory, (first, last), views, query_steps).unwrap_or(false)
    }

    fn is_clear(
        &self,
        order: &Order,
        memory: &Memory,
        (first, last): (usize, usize),
        (left, found): (usize, usize),
        query_steps: &mut QuerySteps<'_>,
    ) -> Option<bool> {
        let open = self.within(memory, found, order.all_before(first), order.all_after(last));
        let most = self.most_steps(memory, found);
        let share_steps = |view| memory.steps_to_share(found, view) + memory.steps_to_share(left, view);
        let share = |view| memory.share(found, view) && memory.share(left, view);
        for touch in open.iter().take(most) {
            query_steps.take(share_steps(touch.view()))?;
            let other = touch.place();
            let is_between = other != first
                && other != last
                && !order.is_before(other, first)
                && !order.is_before(last, other);
            if is_between && share(touch.view()) {
                return Some(false);
            }
        }
        if open.len() <= most {
            return Some(true);
        }
        for near in memory.meeting(found) {
            query_steps.take(share_steps(near))?;
            if !share(near) {
                continue;
            }
            for run in self.view_runs.get(near) {
                query_steps.take(STEPS_OF_RUN)?;
                let (from, to) = order.unordered_between(first, last, run.chain);
                let next = self.view_runs.after_rank(&self.all, order, run, from).first();
                if next.is_some_and(|&touch| order.place(self.all[touch as usize].place()).1 <= to) {
                    return Some(false);
                }
            }
        }
        Some(true)
    }

    /// The last outputs, of tasks ordered before a task, that still hold memory of a view. Outputs that later
    /// tasks overwrote completely are left out. Sorted from last to first, at most [`MAX_LAST`]; `None` if
    /// undecided.
    pub fn last(
        &self,
        tasks: &Tasks,
        order: &Order,
        memory: &Memory,
        task: Task<'_>,
        (view, which): (usize, TouchFilter),
        query_steps: &mut QuerySteps<'_>,
    ) -> Option<Vec<OutputRef>> {
        // With unknown order or unknown allocations, there may be other predecessors than those found.
        if order.is_unknown(task.place()) || !memory.knows_allocations() {
            return None;
        }
        let query = HolderQuery { tasks, order, memory, task, view, which };
        let runs = self.group_runs.get(memory.group_of(view));
        let walked = match runs.len() <= FEW_CHAINS {
            true => SearchResult::TooLong,
            false => self.walk_back(&query, query_steps)?,
        };
        let merged = match walked {
            SearchResult::Complete(shown) => SearchResult::Complete(shown),
            SearchResult::TooLong => {
                let most = self.most_steps(memory, view);
                let runs = runs.iter().map(|run| (&self.group_runs, run));
                self.merged(&query, runs, most, query_steps)?
            }
        };
        let shown = match merged {
            SearchResult::Complete(shown) => shown,
            SearchResult::TooLong => self.last_of_views(&query, query_steps)?,
        };
        let kept = shown.kept.into_iter();
        Some(kept.map(|touch| OutputRef { task: touch.place(), arg_index: touch.arg_index }).collect())
    }

    /// Finds the last touches by scanning the newest touches of the group. The scan ends at a touch of the
    /// whole view that comes after all remaining touches.
    fn walk_back<'s>(
        &self,
        query: &HolderQuery<'s>,
        query_steps: &mut QuerySteps<'_>,
    ) -> Option<SearchResult<'s>> {
        let &HolderQuery { order, memory, view, which, .. } = query;
        let task = query.task.place();
        let group = memory.group_of(view);
        let most = MIN_SCANNED.max(2 * self.group_runs.get(group).len());
        let (mut shown, mut until) = (VisibleTouches::new(order, memory, view), 0);
        // Direct predecessors that are not yet known to be covered.
        let (mut waits, mut over) = (order.direct(task), Vec::new());
        for (steps, touch) in self.before(group, task, which).enumerate() {
            let place = touch.place();
            if place < until || waits.is_empty() || shown.is_full() {
                break;
            }
            if steps == most {
                return Some(SearchResult::TooLong);
            }
            query_steps.take(memory.steps_to_share(view, touch.view()))?;
            if !order.is_before(place, task) || !memory.share(view, touch.view()) {
                continue;
            }
            if !query.was_reallocated(touch, query_steps)? {
                shown.add(*touch, query_steps)?;
            }
            if memory.covers(touch.view(), view) {
                until = until.max(order.all_before(place));
                over.push(place);
                while let Some((&last, rest)) = waits.split_last() {
                    query_steps.take(over.len())?;
                    let wait = last as usize;
                    if !over.iter().any(|&over| over == wait || order.is_before(wait, over)) {
                        break;
                    }
                    waits = rest;
                }
            }
        }
        Some(SearchResult::Complete(shown))
    }

    /// Merges the touches of several runs, the last first. In each run, the merge stops at a touch of the
    /// whole view.
    fn merged<'s, 'r>(
        &'r self,
        query: &HolderQuery<'s>,
        runs: impl Iterator<Item = (&'r TouchRuns, &'r TouchRun)>,
        most: usize,
        query_steps: &mut QuerySteps<'_>,
    ) -> Option<SearchResult<'s>> {
        let &HolderQuery { order, memory, view, .. } = query;
        let mut shown = VisibleTouches::new(order, memory, view);
        let (mut rests, mut next, mut over) = (Vec::new(), BinaryHeap::new(), Vec::<usize>::new());
        for (of, run) in runs {
            query_steps.take(STEPS_OF_RUN)?;
            let mut rest = of.before(&self.all, order, run, query.before());
            if let Some(touch) = rest.next() {
                next.push(((touch.task, touch.arg_index), rests.len(), touch.number));
                rests.push((touch, rest));
            }
        }
        for steps in 0.. {
            let Some((_, at, _)) = next.pop().filter(|_| !shown.is_full()) else { break };
            if steps == most {
                return Some(SearchResult::TooLong);
            }
            let touch = *rests[at].0;
            query_steps.take(over.len() + memory.steps_to_share(view, touch.view()))?;
            // Then the rest of the run is overwritten, too.
            if over.iter().any(|&over| order.is_before(touch.place(), over)) {
                continue;
            }
            if memory.share(view, touch.view()) && !query.was_reallocated(&touch, query_steps)? {
                shown.add(touch, query_steps)?;
            }
            if memory.covers(touch.view(), view) {
                over.push(touch.place());
            }
            let (before, rest) = &mut rests[at];
            if let Some(touch) = rest.next() {
                next.push(((touch.task, touch.arg_index), at, touch.number));
                *before = touch;
            }
        }
        Some(SearchResult::Complete(shown))
    }

    /// Merges the touches of each view that shares memory with the queried one.
    fn last_of_views<'s>(
        &self,
        query: &HolderQuery<'s>,
        query_steps: &mut QuerySteps<'_>,
    ) -> Option<VisibleTouches<'s>> {
        let &HolderQuery { memory, view, .. } = query;
        let mut runs = Vec::new();
        for near in memory.meeting(view) {
            query_steps.take(memory.steps_to_share(view, near))?;
            if memory.share(view, near) {
                runs.extend(self.view_runs.get(near).iter().map(|run| (&self.view_runs, run)));
            }
        }
        match self.merged(query, runs.into_iter(), usize::MAX, query_steps)? {
            SearchResult::Complete(shown) => Some(shown),
            SearchResult::TooLong => None,
        }
    }
}

/// The result of one search strategy.
enum SearchResult<'s> {
    Complete(VisibleTouches<'s>),
    /// The strategy took too many steps; another may be shorter.
    TooLong,
}

/// A query for the last touches that hold memory of a view before a task.
struct HolderQuery<'s> {
    tasks: &'s Tasks,
    order: &'s Order,
    memory: &'s Memory,
    task: Task<'s>,
    view: usize,
    which: TouchFilter,
}

impl<'s> HolderQuery<'s> {
    fn before(&self) -> (usize, bool) {
        (self.task.place(), self.which == TouchFilter::Wrote)
    }

    fn was_reallocated(&self, touch: &Touch, query_steps: &mut QuerySteps<'_>) -> Option<bool> {
        if !self.memory.has_allocations(self.view) {
            return Some(false);
        }
        let given = |task: Task<'_>| task.given_time().unwrap_or(0);
        let times = (given(self.tasks.at(touch.place())), given(self.task));
        self.memory.was_reallocated(self.view, touch.view(), times, query_steps)
    }
}

/// Collects touches, from last to first, and keeps those that later ones did not overwrite completely.
struct VisibleTouches<'s> {
    order: &'s Order,
    memory: &'s Memory,
    view: usize,
    kept: Vec<Touch>,
}

impl<'s> VisibleTouches<'s> {
    fn new(order: &'s Order, memory: &'s Memory, view: usize) -> VisibleTouches<'s> {
        VisibleTouches { order, memory, view, kept: Vec::new() }
    }

    fn is_full(&self) -> bool {
        self.kept.len() >= MAX_LAST
    }

    fn add(&mut self, touch: Touch, query_steps: &mut QuerySteps<'_>) -> Option<()> {
        if !self.is_hidden(&touch, query_steps)? {
            self.kept.push(touch);
        }
        Some(())
    }

    /// Whether later touches overwrote all of a touch; `None` if that takes too long or depends on unknown
    /// order.
    fn is_hidden(&self, touch: &Touch, query_steps: &mut QuerySteps<'_>) -> Option<bool> {
        // A hidden touch hides nothing that the touches over it do not hide.
        query_steps.take(self.kept.len())?;
        let is_over = |later: &Touch| self.order.is_before(touch.place(), later.place());
        // The known order of the querying task says nothing about the order of its predecessors.
        let may_be_over = |later: &Touch| {
            is_over(later) || touch.place() < later.place() && self.order.is_unknown(later.place())
        };
        let over: Vec<&Touch> = self.kept.iter().filter(|later| is_over(later)).collect();
        if self.do_hide(&over, touch, query_steps)? {
            return Some(true);
        }
        let all: Vec<&Touch> = self.kept.iter().filter(|later| may_be_over(later)).collect();
        let may_hide = all.len() > over.len() && self.do_hide(&all, touch, query_steps)?;
        (!may_hide).then_some(false)
    }

    /// Whether `over`, if they come after a touch, overwrote all of it.
    fn do_hide(&self, over: &[&Touch], touch: &Touch, query_steps: &mut QuerySteps<'_>) -> Option<bool> {
        let memory = self.memory;
        if over.is_empty() {
            return Some(false);
        }
        if over.iter().any(|later| later.view == touch.view || memory.covers(later.view(), self.view)) {
            return Some(true);
        }
        let views = || over.iter().map(|later| later.view());
        if let Some(is_hidden) = memory.is_covered((self.view, touch.view()), views()) {
            return Some(is_hidden);
        }
        let (own, theirs) = (memory.view(self.view), memory.view(touch.view()));
        let all = views().map(|view| memory.view(view)).chain([own, theirs]);
        query_steps.take(all.map(piece_count).fold(0, usize::saturating_add))?;
        Some(pieces(own).zip(pieces(theirs)).is_some_and(|(own, theirs)| {
            let mut left = Ranges::of(&own);
            views().for_each(|over| _ = pieces(memory.view(over)).map(|pieces| left.take(&pieces)));
            !left.meets(&theirs)
        }))
    }
}

/// Where each of `count` groups begins among sorted group numbers, plus a final end.
pub(super) fn starts(count: usize, sorted: impl Iterator<Item = usize>) -> Vec<u32> {
    let mut starts = vec![0_u32; count + 1];
    sorted.for_each(|of| starts[of + 1] += 1);
    (0..count).for_each(|at| starts[at + 1] += starts[at]);
    starts
}

pub(super) fn small(number: usize) -> u32 {
    u32::try_from(number).expect("2^32 arguments do not fit in memory")
}
