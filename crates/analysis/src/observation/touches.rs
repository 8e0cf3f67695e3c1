//! Who was given which memory, where not all tasks are ordered.
//!
//! Views that share memory, directly or through others, are a group. Whoever is asked looks through the touches of a group in the order
//! of tasks, within the positions between which tasks can be unordered with one: few, where a program synchronises now and then.
//! Where they are many, each chain of each view is asked, in which a search finds the place. So a question takes the smaller of both.

use std::ops::Range;

use tensortap_format::{Task, Tasks};

use super::memory::Memory;
use super::runs::Runs;
use super::{COUNTED, Order};
use crate::graph::OutputRef;
use crate::graph::view::{Ranges, pieces};

/// Arguments that tasks may have written.
#[derive(Clone, Debug, Default)]
pub(super) struct Touches {
    /// By group, then task.
    all: Vec<Touch>,
    /// Where each group begins in `all`, and behind the last.
    groups: Vec<u32>,
    /// Numbers of those that wrote, or may have, as far as was observed.
    wrote: Vec<u32>,
    group_runs: Runs,
    view_runs: Runs,
}

/// Outputs that are named as the last to hold a range.
pub(super) const MOST_LAST: usize = 32;
/// Touches that are looked at one by one, at least, before chains are asked.
const MOST_STEPS: usize = 64;
/// Steps that it takes to ask one chain of one view, about.
const STEPS_OF_RUN: usize = 8;
/// Chains of a group that are asked at once.
const FEW_CHAINS: usize = 16;

/// An argument that its task may have written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    task: u32,
    view: u32,
    /// Number of the argument.
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

/// Which touches are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Which {
    /// All that may have written.
    Touched,
    /// Those of which it is not known that they left the bytes as they were.
    Wrote,
}

impl Touches {
    /// Nothing, where every task is before or behind every other: then nobody asks.
    pub fn of(tasks: &Tasks, order: &Order, memory: &Memory) -> Touches {
        let mut touches = Touches::default();
        if order.is_total() {
            return touches;
        }
        for task in tasks.iter() {
            // Who is known to read only leaves what is there.
            for arg in task.arguments().filter(|arg| !arg.role_known || arg.role.writes()) {
                let Some(view) = memory.view_of(arg) else { continue };
                let (task, view, number) = (small(task.place()), small(view), small(arg.number()));
                touches.all.push(Touch { task, view, number, arg_index: arg.arg_index });
            }
        }
        // Stable: within a group they stay in the order of tasks.
        touches.all.sort_by_key(|touch| memory.group_of(touch.view()));
        touches.groups = starts(memory.group_count(), touches.all.iter().map(|t| memory.group_of(t.view())));
        let Touches { all, .. } = &touches;
        let group_runs = Runs::of(all, order, memory.group_count(), |touch| memory.group_of(touch.view()));
        let view_runs = Runs::of(all, order, memory.len(), Touch::view);
        Touches { group_runs, view_runs, ..touches }
    }

    /// Says which of them wrote, by the numbers of arguments.
    pub fn keep_writes(&mut self, wrote: impl Fn(usize) -> bool) {
        let of_touch: Vec<bool> = self.all.iter().map(|touch| wrote(touch.number as usize)).collect();
        self.wrote = (0..).zip(&of_touch).filter_map(|(number, wrote)| wrote.then_some(number)).collect();
        self.group_runs.keep_writes(&of_touch);
        self.view_runs.keep_writes(&of_touch);
    }

    /// The touches of a group, as numbers.
    fn of_group(&self, group: usize) -> Range<usize> {
        self.groups[group] as usize..self.groups[group + 1] as usize
    }

    /// The touches of a view's group by tasks from one position up to another.
    fn within(&self, memory: &Memory, view: usize, from: usize, to: usize) -> &[Touch] {
        let all = &self.all[self.of_group(memory.group_of(view))];
        let first = all.partition_point(|touch| touch.place() < from);
        let len = all[first..].partition_point(|touch| touch.place() < to);
        &all[first..first + len]
    }

    /// The touches of a group by tasks up to one, the last first.
    fn before(&self, group: usize, task: usize, which: Which) -> impl Iterator<Item = &Touch> {
        let of_group = self.of_group(group);
        let (touched, wrote) = match which {
            Which::Touched => (&self.all[of_group], &[][..]),
            Which::Wrote => {
                let start = self.wrote.partition_point(|&number| (number as usize) < of_group.start);
                let end = self.wrote.partition_point(|&number| (number as usize) < of_group.end);
                (&[][..], &self.wrote[start..end])
            }
        };
        let wrote = &wrote[..wrote.partition_point(|&number| self.all[number as usize].place() < task)];
        let touched = &touched[..touched.partition_point(|touch| touch.place() < task)];
        wrote.iter().rev().map(|&number| &self.all[number as usize]).chain(touched.iter().rev())
    }

    /// Touches to look at before the chains of all views that one meets are asked.
    fn most_steps(&self, memory: &Memory, view: usize) -> usize {
        // Views of a group are not counted one by one: that would take as long.
        let runs = memory.met_count(view).saturating_add(self.view_runs.get(view).len());
        MOST_STEPS.max(runs.saturating_mul(STEPS_OF_RUN))
    }

    /// Tasks that are unordered with one and may have written memory of a view: the first [`COUNTED`] that are found, in order.
    pub fn unordered(&self, order: &Order, memory: &Memory, task: usize, view: usize) -> Vec<usize> {
        let mut others: Vec<usize> = Vec::new();
        let open = self.within(memory, view, order.all_before(task), order.all_behind(task));
        let most = self.most_steps(memory, view);
        for touch in open.iter().take(most) {
            let other = touch.place();
            if others.last() != Some(&other)
                && order.are_unordered(task, other)
                && memory.share(view, touch.view())
            {
                others.push(other);
                if others.len() == COUNTED {
                    return others;
                }
            }
        }
        match open.len() <= most {
            true => others,
            false => self.unordered_by_chains(order, memory, task, view),
        }
    }

    fn unordered_by_chains(&self, order: &Order, memory: &Memory, task: usize, view: usize) -> Vec<usize> {
        let mut others = Vec::new();
        for met in memory.meeting(view) {
            let mut found = 0;
            for run in self.view_runs.get(met) {
                let (from, to) = order.unordered_in(task, run.chain);
                let open = self.view_runs.behind(&self.all, order, run, from);
                let open = open.iter().map(|&touch| self.all[touch as usize].place());
                let open = open.take_while(|&other| order.place(other).1 <= to).take(COUNTED);
                let before = others.len();
                others.extend(open);
                found += others.len() - before;
                if found >= COUNTED {
                    break;
                }
            }
        }
        others.sort_unstable();
        others.dedup();
        others.truncate(COUNTED);
        others
    }

    /// Whether no task that may have written what two views share is neither before the first task (or it) nor behind the last (or it).
    pub fn is_clear_between(
        &self,
        order: &Order,
        memory: &Memory,
        (first, left): (usize, usize),
        (last, found): (usize, usize),
    ) -> bool {
        if order.is_total() {
            return true;
        }
        let open = self.within(memory, found, order.all_before(first), order.all_behind(last));
        let most = self.most_steps(memory, found);
        let is_between = |touch: &Touch| {
            let other = touch.place();
            other != first
                && other != last
                && !order.is_before(other, first)
                && !order.is_before(last, other)
                && memory.share(found, touch.view())
                && memory.share(left, touch.view())
        };
        if open.iter().take(most).any(is_between) {
            return false;
        }
        let mut met = memory.meeting(found).filter(|&met| memory.share(met, left));
        open.len() <= most
            || met.all(|met| {
                self.view_runs.get(met).iter().all(|run| {
                    let (from, to) = order.open_between(first, last, run.chain);
                    let next = self.view_runs.behind(&self.all, order, run, from).first();
                    next.is_none_or(|&touch| order.place(self.all[touch as usize].place()).1 > to)
                })
            })
    }

    /// The last outputs, of tasks ordered before a task, that hold memory of a view: those of which not all was written again by tasks
    /// between. The last in dependency order first; at most [`MOST_LAST`].
    pub fn last(
        &self,
        tasks: &Tasks,
        order: &Order,
        memory: &Memory,
        task: Task<'_>,
        (view, which): (usize, Which),
    ) -> Vec<OutputRef> {
        let asked = Asked { tasks, order, memory, task, view, which };
        let has_few = self.group_runs.get(memory.group_of(view)).len() <= FEW_CHAINS;
        let walked = if has_few { None } else { self.walk_back(&asked) };
        let shown =
            walked.or_else(|| self.last_of_group(&asked)).unwrap_or_else(|| self.last_of_views(&asked));
        let kept = shown.kept.into_iter();
        kept.map(|touch| OutputRef { task: touch.place(), arg_index: touch.arg_index }).collect()
    }

    /// The last touches before a task, if they are found among those that came last: behind one of all of the view that has all others
    /// before it, nothing is to be looked for.
    fn walk_back<'s>(&self, asked: &Asked<'s>) -> Option<Shown<'s>> {
        let &Asked { order, memory, view, which, .. } = asked;
        let task = asked.task.place();
        let group = memory.group_of(view);
        let most = MOST_STEPS.max(2 * self.group_runs.get(group).len());
        let (mut shown, mut until) = (Shown::new(order, memory, view), 0);
        // Those that it waits for and that are not yet known to be hidden.
        let (mut waits, mut over) = (order.direct(task), Vec::new());
        for (steps, touch) in self.before(group, task, which).enumerate() {
            let place = touch.place();
            if place < until || waits.is_empty() || shown.is_full() {
                break;
            }
            if steps == most {
                return None;
            }
            if !order.is_before(place, task) || !memory.share(view, touch.view()) {
                continue;
            }
            if !asked.is_renewed(touch) {
                shown.add(*touch);
            }
            if memory.covers(touch.view(), view) {
                until = until.max(order.all_before(place));
                over.push(place);
                let is_over = |wait: u32| {
                    let wait = wait as usize;
                    over.iter().any(|&over| over == wait || order.is_before(wait, over))
                };
                while let Some((&last, rest)) = waits.split_last()
                    && is_over(last)
                {
                    waits = rest;
                }
            }
        }
        Some(shown)
    }

    /// The same from the touches of each chain: up to one of all of the view, if they are few.
    fn last_of_group<'s>(&self, asked: &Asked<'s>) -> Option<Shown<'s>> {
        let &Asked { order, memory, view, .. } = asked;
        let (mut found, mut steps) = (Vec::new(), self.most_steps(memory, view));
        for run in self.group_runs.get(memory.group_of(view)) {
            for touch in self.group_runs.before(&self.all, order, run, asked.before()) {
                steps = steps.checked_sub(1)?;
                if memory.share(view, touch.view()) {
                    found.push(*touch);
                }
                if memory.covers(touch.view(), view) {
                    break;
                }
            }
        }
        Some(asked.shown(found))
    }

    /// The same from the last touch of each view by each chain.
    fn last_of_views<'s>(&self, asked: &Asked<'s>) -> Shown<'s> {
        let &Asked { order, memory, view, .. } = asked;
        let runs = memory.meeting(view).flat_map(|met| self.view_runs.get(met));
        let last = |run| self.view_runs.before(&self.all, order, run, asked.before()).next().copied();
        asked.shown(runs.filter_map(last).collect())
    }
}

/// What is asked for: the last to hold memory of a view, before a task.
struct Asked<'s> {
    tasks: &'s Tasks,
    order: &'s Order,
    memory: &'s Memory,
    task: Task<'s>,
    view: usize,
    which: Which,
}

impl<'s> Asked<'s> {
    fn before(&self) -> (usize, bool) {
        (self.task.place(), self.which == Which::Wrote)
    }

    fn is_renewed(&self, touch: &Touch) -> bool {
        let given = |task: Task<'_>| task.given_time().unwrap_or(0);
        self.memory.has_renewed(self.view) && {
            let times = (given(self.tasks.at(touch.place())), given(self.task));
            self.memory.is_renewed(self.view, touch.view(), times)
        }
    }

    fn shown(&self, mut found: Vec<Touch>) -> Shown<'s> {
        found.sort_unstable_by_key(|touch| std::cmp::Reverse((touch.task, touch.arg_index)));
        let mut shown = Shown::new(self.order, self.memory, self.view);
        for touch in found {
            if shown.is_full() {
                break;
            }
            if !self.is_renewed(&touch) {
                shown.add(touch);
            }
        }
        shown
    }
}

/// Of touches that come one by one, the last first, those of which something is left.
struct Shown<'s> {
    order: &'s Order,
    memory: &'s Memory,
    view: usize,
    kept: Vec<Touch>,
}

impl<'s> Shown<'s> {
    fn new(order: &'s Order, memory: &'s Memory, view: usize) -> Shown<'s> {
        Shown { order, memory, view, kept: Vec::new() }
    }

    fn is_full(&self) -> bool {
        self.kept.len() >= MOST_LAST
    }

    fn add(&mut self, touch: Touch) {
        if !self.is_hidden(&touch) {
            self.kept.push(touch);
        }
    }

    fn is_hidden(&self, touch: &Touch) -> bool {
        let memory = self.memory;
        // One that is hidden hides nothing that those over it do not.
        let is_over = |later: &&Touch| self.order.is_before(touch.place(), later.place());
        let mut over = self.kept.iter().filter(is_over).peekable();
        if over.peek().is_none() {
            return false;
        }
        if over.clone().any(|later| later.view == touch.view || memory.covers(later.view(), self.view)) {
            return true;
        }
        let views = || over.clone().map(Touch::view);
        if let Some(is_hidden) = memory.is_covered((self.view, touch.view()), views()) {
            return is_hidden;
        }
        let (own, theirs) = (memory.view(self.view), memory.view(touch.view()));
        pieces(own).zip(pieces(theirs)).is_some_and(|(own, theirs)| {
            let mut left = Ranges::of(&own);
            views().for_each(|over| _ = pieces(memory.view(over)).map(|pieces| left.take(&pieces)));
            !left.meets(&theirs)
        })
    }
}

/// Where each of so many begins among sorted numbers, and behind the last.
pub(super) fn starts(count: usize, sorted: impl Iterator<Item = usize>) -> Vec<u32> {
    let mut starts = vec![0_u32; count + 1];
    sorted.for_each(|of| starts[of + 1] += 1);
    (0..count).for_each(|at| starts[at + 1] += starts[at]);
    starts
}

pub(super) fn small(number: usize) -> u32 {
    u32::try_from(number).expect("2^32 arguments do not fit in memory")
}
