//! Who was given which memory, where not all tasks are ordered.
//!
//! Views that share memory, directly or through others, are a group. Whoever is asked looks through the touches of a group in the order
//! of tasks, within the positions between which tasks can be unordered with one: few, where a program synchronises now and then.
//! Where they are many, each chain of each view is asked, in which a search finds the place. So a question takes the smaller of both,
//! and where that is still too much (see [`Question`]), it is not decided.

use std::collections::BinaryHeap;
use std::ops::Range;

use tensortap_format::{Task, Tasks};

use super::memory::Memory;
use super::runs::{Run, Runs};
use super::{COUNTED, Order, Unordered};
use crate::graph::OutputRef;
use crate::graph::view::{Ranges, piece_count, pieces};
use crate::steps::Question;

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
    pub fn unordered(
        &self,
        order: &Order,
        memory: &Memory,
        (task, view): (usize, usize),
        question: &mut Question<'_>,
    ) -> Unordered {
        let mut tasks: Vec<usize> = Vec::new();
        let open = self.within(memory, view, order.all_before(task), order.all_behind(task));
        let most = self.most_steps(memory, view);
        for touch in open.iter().take(most) {
            let other = touch.place();
            if question.take(memory.steps_to_share(view, touch.view())).is_none() {
                return Unordered { tasks, is_decided: false };
            }
            if tasks.last() != Some(&other)
                && order.are_unordered(task, other)
                && memory.share(view, touch.view())
            {
                tasks.push(other);
                if tasks.len() == COUNTED {
                    return Unordered { tasks, is_decided: true };
                }
            }
        }
        if open.len() > most {
            let is_decided =
                self.unordered_by_chains(order, memory, (task, view), (&mut tasks, question)).is_some();
            tasks.sort_unstable();
            tasks.dedup();
            tasks.truncate(COUNTED);
            return Unordered { tasks, is_decided };
        }
        Unordered { tasks, is_decided: true }
    }

    fn unordered_by_chains(
        &self,
        order: &Order,
        memory: &Memory,
        (task, view): (usize, usize),
        (others, question): (&mut Vec<usize>, &mut Question<'_>),
    ) -> Option<()> {
        for near in memory.near(view) {
            question.take(memory.steps_to_share(view, near))?;
            if !memory.share(view, near) {
                continue;
            }
            let mut found = 0;
            for run in self.view_runs.get(near) {
                question.take(STEPS_OF_RUN)?;
                let (from, to) = order.unordered_in(task, run.chain);
                let open = self.view_runs.behind(&self.all, order, run, from);
                let open = open.iter().map(|&touch| self.all[touch as usize].place());
                let open = open.take_while(|&other| order.place(other).1 <= to).take(COUNTED);
                let before = others.len();
                others.extend(open);
                question.take(others.len() - before)?;
                found += others.len() - before;
                if found >= COUNTED {
                    break;
                }
            }
        }
        Some(())
    }

    /// Whether no task that may have written what two views share is neither before the first task (or it) nor behind the last (or it).
    /// Where that is not decided, some may be.
    pub fn is_clear_between(
        &self,
        order: &Order,
        memory: &Memory,
        ((first, left), (last, found)): ((usize, usize), (usize, usize)),
        question: &mut Question<'_>,
    ) -> bool {
        let views = (left, found);
        order.is_total() || self.is_clear(order, memory, (first, last), views, question).unwrap_or(false)
    }

    fn is_clear(
        &self,
        order: &Order,
        memory: &Memory,
        (first, last): (usize, usize),
        (left, found): (usize, usize),
        question: &mut Question<'_>,
    ) -> Option<bool> {
        let open = self.within(memory, found, order.all_before(first), order.all_behind(last));
        let most = self.most_steps(memory, found);
        let share_steps = |view| memory.steps_to_share(found, view) + memory.steps_to_share(left, view);
        let share = |view| memory.share(found, view) && memory.share(left, view);
        for touch in open.iter().take(most) {
            question.take(share_steps(touch.view()))?;
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
        for near in memory.near(found) {
            question.take(share_steps(near))?;
            if !share(near) {
                continue;
            }
            for run in self.view_runs.get(near) {
                question.take(STEPS_OF_RUN)?;
                let (from, to) = order.open_between(first, last, run.chain);
                let next = self.view_runs.behind(&self.all, order, run, from).first();
                if next.is_some_and(|&touch| order.place(self.all[touch as usize].place()).1 <= to) {
                    return Some(false);
                }
            }
        }
        Some(true)
    }

    /// The last outputs, of tasks ordered before a task, that hold memory of a view: those of which not all was written again by tasks
    /// between. The last in dependency order first; at most [`MOST_LAST`]. `None` where that is not decided.
    pub fn last(
        &self,
        tasks: &Tasks,
        order: &Order,
        memory: &Memory,
        task: Task<'_>,
        (view, which): (usize, Which),
        question: &mut Question<'_>,
    ) -> Option<Vec<OutputRef>> {
        // Whose order is not known, or whose memory may be new, has others before it than those that are found.
        if order.is_unknown(task.place()) || !memory.knows_renewed() {
            return None;
        }
        let asked = Asked { tasks, order, memory, task, view, which };
        let runs = self.group_runs.get(memory.group_of(view));
        let walked = match runs.len() <= FEW_CHAINS {
            true => Found::Later,
            false => self.walk_back(&asked, question)?,
        };
        let merged = match walked {
            Found::All(shown) => Found::All(shown),
            Found::Later => {
                let most = self.most_steps(memory, view);
                let runs = runs.iter().map(|run| (&self.group_runs, run));
                self.merged(&asked, runs, most, question)?
            }
        };
        let shown = match merged {
            Found::All(shown) => shown,
            Found::Later => self.last_of_views(&asked, question)?,
        };
        let kept = shown.kept.into_iter();
        Some(kept.map(|touch| OutputRef { task: touch.place(), arg_index: touch.arg_index }).collect())
    }

    /// The last touches before a task, if they are found among those that came last: behind one of all of the view that has all others
    /// before it, nothing is to be looked for.
    fn walk_back<'s>(&self, asked: &Asked<'s>, question: &mut Question<'_>) -> Option<Found<'s>> {
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
                return Some(Found::Later);
            }
            question.take(memory.steps_to_share(view, touch.view()))?;
            if !order.is_before(place, task) || !memory.share(view, touch.view()) {
                continue;
            }
            if !asked.is_renewed(touch, question)? {
                shown.add(*touch, question)?;
            }
            if memory.covers(touch.view(), view) {
                until = until.max(order.all_before(place));
                over.push(place);
                while let Some((&last, rest)) = waits.split_last() {
                    question.take(over.len())?;
                    let wait = last as usize;
                    if !over.iter().any(|&over| over == wait || order.is_before(wait, over)) {
                        break;
                    }
                    waits = rest;
                }
            }
        }
        Some(Found::All(shown))
    }

    /// The last touches among runs, the last of all first: up to those of all of the view, in each run, if they are few.
    fn merged<'s, 'r>(
        &'r self,
        asked: &Asked<'s>,
        runs: impl Iterator<Item = (&'r Runs, &'r Run)>,
        most: usize,
        question: &mut Question<'_>,
    ) -> Option<Found<'s>> {
        let &Asked { order, memory, view, .. } = asked;
        let mut shown = Shown::new(order, memory, view);
        let (mut rests, mut next, mut over) = (Vec::new(), BinaryHeap::new(), Vec::<usize>::new());
        for (of, run) in runs {
            question.take(STEPS_OF_RUN)?;
            let mut rest = of.before(&self.all, order, run, asked.before());
            if let Some(touch) = rest.next() {
                next.push(((touch.task, touch.arg_index), rests.len(), touch.number));
                rests.push((touch, rest));
            }
        }
        for steps in 0.. {
            let Some((_, at, _)) = next.pop().filter(|_| !shown.is_full()) else { break };
            if steps == most {
                return Some(Found::Later);
            }
            let touch = *rests[at].0;
            question.take(over.len() + memory.steps_to_share(view, touch.view()))?;
            // All of the run that is left is before it, too.
            if over.iter().any(|&over| order.is_before(touch.place(), over)) {
                continue;
            }
            if memory.share(view, touch.view()) && !asked.is_renewed(&touch, question)? {
                shown.add(touch, question)?;
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
        Some(Found::All(shown))
    }

    /// The same from the touches of each view that shares memory with it, by chain.
    fn last_of_views<'s>(&self, asked: &Asked<'s>, question: &mut Question<'_>) -> Option<Shown<'s>> {
        let &Asked { memory, view, .. } = asked;
        let mut runs = Vec::new();
        for near in memory.near(view) {
            question.take(memory.steps_to_share(view, near))?;
            if memory.share(view, near) {
                runs.extend(self.view_runs.get(near).iter().map(|run| (&self.view_runs, run)));
            }
        }
        match self.merged(asked, runs.into_iter(), usize::MAX, question)? {
            Found::All(shown) => Some(shown),
            Found::Later => None,
        }
    }
}

/// What looking for the last touches in one way has found.
enum Found<'s> {
    All(Shown<'s>),
    /// Another way may be shorter.
    Later,
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

    fn is_renewed(&self, touch: &Touch, question: &mut Question<'_>) -> Option<bool> {
        if !self.memory.has_renewed(self.view) {
            return Some(false);
        }
        let given = |task: Task<'_>| task.given_time().unwrap_or(0);
        let times = (given(self.tasks.at(touch.place())), given(self.task));
        self.memory.is_renewed(self.view, touch.view(), times, question)
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

    fn add(&mut self, touch: Touch, question: &mut Question<'_>) -> Option<()> {
        if !self.is_hidden(&touch, question)? {
            self.kept.push(touch);
        }
        Some(())
    }

    /// Whether nothing is left of a touch; `None` where that takes too long, or is a matter of order that is not known.
    fn is_hidden(&self, touch: &Touch, question: &mut Question<'_>) -> Option<bool> {
        // One that is hidden hides nothing that those over it do not.
        question.take(self.kept.len())?;
        let is_over = |later: &Touch| self.order.is_before(touch.place(), later.place());
        // The order of the task that asks says nothing of that between two before it.
        let may_be_over = |later: &Touch| {
            is_over(later) || touch.place() < later.place() && self.order.is_unknown(later.place())
        };
        let over: Vec<&Touch> = self.kept.iter().filter(|later| is_over(later)).collect();
        if self.do_hide(&over, touch, question)? {
            return Some(true);
        }
        let all: Vec<&Touch> = self.kept.iter().filter(|later| may_be_over(later)).collect();
        let may_hide = all.len() > over.len() && self.do_hide(&all, touch, question)?;
        (!may_hide).then_some(false)
    }

    /// Whether others, if they are over a touch, leave nothing of it.
    fn do_hide(&self, over: &[&Touch], touch: &Touch, question: &mut Question<'_>) -> Option<bool> {
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
        question.take(all.map(piece_count).fold(0, usize::saturating_add))?;
        Some(pieces(own).zip(pieces(theirs)).is_some_and(|(own, theirs)| {
            let mut left = Ranges::of(&own);
            views().for_each(|over| _ = pieces(memory.view(over)).map(|pieces| left.take(&pieces)));
            !left.meets(&theirs)
        }))
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
