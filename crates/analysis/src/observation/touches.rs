//! Who was given which memory, chain by chain, where not all tasks are ordered.

use std::collections::BTreeMap;

use tensortap_format::{Task, Tasks};

use super::memory::Memory;
use super::{COUNTED, Order};
use crate::graph::OutputRef;
use crate::graph::view::{Ranges, pieces};

/// Arguments of one view, by chain.
#[derive(Clone, Debug, Default)]
pub(super) struct Touches {
    /// By view.
    chains: Vec<BTreeMap<u32, Vec<Touch>>>,
    /// The same touches by view, in the order of tasks: task and argument.
    by_place: Vec<Vec<(u32, u16)>>,
    /// Numbers of those arguments.
    numbers: Vec<Vec<usize>>,
    /// Whether each of them wrote, or may have, as far as was observed.
    wrote: Vec<Vec<bool>>,
}

/// Outputs that are named as the last to hold a range.
pub(super) const MOST_LAST: usize = 32;
/// Touches that are looked at one by one before chains are asked.
const MOST_STEPS: usize = 64;

/// An argument that its task may have written.
#[derive(Clone, Copy, Debug)]
struct Touch {
    /// Place of the task in its chain.
    rank: u32,
    task: u32,
    arg_index: u16,
    /// How many touches lead to the last, up to this one, of which it is not known that it left the bytes as they were.
    wrote: usize,
    /// Number of the argument.
    number: usize,
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
        touches.chains = vec![BTreeMap::new(); memory.len()];
        touches.by_place = vec![Vec::new(); memory.len()];
        let mut numbers = vec![Vec::new(); memory.len()];
        for task in tasks.iter() {
            let (chain, rank) = order.place(task.place());
            // Who is known to read only leaves what is there.
            for arg in task.arguments().filter(|arg| !arg.role_known || arg.role.writes()) {
                let Some(view) = memory.view_of(arg) else { continue };
                let place = u32::try_from(task.place()).expect("2^32 tasks do not fit in memory");
                touches.by_place[view].push((place, arg.arg_index));
                numbers[view].push(arg.number());
                touches.chains[view].entry(chain).or_default().push(Touch {
                    rank,
                    task: place,
                    arg_index: arg.arg_index,
                    wrote: 0,
                    number: arg.number(),
                });
            }
        }
        touches.numbers = numbers;
        touches
    }

    /// Says which of them wrote, by the numbers of arguments.
    pub fn keep_writes(&mut self, wrote: impl Fn(usize) -> bool) {
        let of_view = |numbers: &Vec<usize>| numbers.iter().map(|&number| wrote(number)).collect();
        self.wrote = self.numbers.iter().map(of_view).collect();
        for touches in self.chains.iter_mut().flat_map(|chains| chains.values_mut()) {
            let mut last = 0;
            for (at, touch) in touches.iter_mut().enumerate() {
                last = if wrote(touch.number) { at + 1 } else { last };
                touch.wrote = last;
            }
        }
    }

    /// Tasks that are unordered with one and may have written memory of a view: the first [`COUNTED`] that are found, in order.
    pub fn unordered(&self, order: &Order, memory: &Memory, task: usize, view: usize) -> Vec<usize> {
        let mut others = Vec::new();
        for met in memory.meeting(view) {
            let first =
                self.by_place[met].partition_point(|&(place, _)| (place as usize) < order.all_before(task));
            let maybe = &self.by_place[met][first..];
            if maybe.len() <= self.chains[met].len() {
                let apart = maybe.iter().map(|&(place, _)| place as usize);
                others.extend(apart.filter(|&other| order.are_unordered(task, other)).take(COUNTED));
                continue;
            }
            let mut found = 0;
            for (&chain, touches) in &self.chains[met] {
                let (from, to) = order.unordered_in(task, chain);
                let first = touches.partition_point(|touch| touch.rank <= from);
                let open = touches[first..].iter().take_while(|touch| touch.rank <= to).take(COUNTED);
                found += open.clone().count();
                others.extend(open.map(|touch| touch.task as usize));
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
        let mut met = memory.meeting(found).filter(|&met| memory.share(met, left));
        met.all(|met| {
            self.chains[met].iter().all(|(&chain, touches)| {
                let (from, to) = order.open_between(first, last, chain);
                let at = touches.partition_point(|touch| touch.rank <= from);
                touches.get(at).is_none_or(|touch| touch.rank > to)
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
        view: usize,
        which: Which,
    ) -> Vec<OutputRef> {
        let mut met = memory.meeting(view).peekable();
        let only = met.next();
        let found = match (only, met.peek()) {
            (Some(only), None) => self.walk_back(order, task.place(), only, which),
            _ => None,
        };
        let found = found.unwrap_or_else(|| {
            let all = only.into_iter().chain(met);
            all.flat_map(|met| self.last_of_chains(order, task.place(), met, which)).collect()
        });
        let is_renewed = |&(from, _, met): &Held| {
            let times = (tasks.at(from).given_time().unwrap_or(0), task.given_time().unwrap_or(0));
            memory.is_renewed(view, met, times)
        };
        shown(order, memory, view, found.into_iter().filter(|held| !is_renewed(held)).collect())
    }

    /// The last touches of one view before a task, if they are found among the few that came last: behind one that has all others
    /// before it, nothing is to be looked for.
    fn walk_back(&self, order: &Order, task: usize, view: usize, which: Which) -> Option<Vec<Held>> {
        let by_place = &self.by_place[view];
        let mut end = by_place.partition_point(|&(place, _)| (place as usize) < task);
        let (mut found, mut until): (Vec<Held>, usize) = (Vec::new(), 0);
        for _ in 0..MOST_STEPS {
            let Some(&(place, arg_index)) = by_place[..end].last() else { return Some(found) };
            let place = place as usize;
            if place < until {
                return Some(found);
            }
            end -= 1;
            if which == Which::Wrote && !self.wrote[view][end] || !order.is_before(place, task) {
                continue;
            }
            found.push((place, arg_index, view));
            until = until.max(order.all_before(place));
        }
        None
    }

    /// The last touch of each chain before a task.
    fn last_of_chains(&self, order: &Order, task: usize, view: usize, which: Which) -> Vec<Held> {
        let all = &self.chains[view];
        let last = |chain: u32, touches: &[Touch]| {
            let before = order.count_before(task, chain);
            let end = touches.partition_point(|touch| touch.rank <= before);
            let end = match which {
                Which::Touched => end,
                Which::Wrote => touches[..end].last().map_or(0, |touch| touch.wrote),
            };
            touches[..end].last().map(|touch| (touch.task as usize, touch.arg_index, view))
        };
        match order.chains_before(task).filter(|_| order.chains_before_count(task) < all.len()) {
            Some(chains) => {
                chains.filter_map(|chain| all.get(&chain).and_then(|touches| last(chain, touches))).collect()
            }
            None => all.iter().filter_map(|(&chain, touches)| last(chain, touches)).collect(),
        }
    }
}

/// A task, its argument, and the view that this is.
type Held = (usize, u16, usize);

/// Of touches that are the last of their chains, those of which something is left: the last first.
fn shown(order: &Order, memory: &Memory, view: usize, mut found: Vec<Held>) -> Vec<OutputRef> {
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.dedup();
    let mut kept: Vec<Held> = Vec::new();
    for held in found {
        if kept.len() >= MOST_LAST {
            break;
        }
        // One that is hidden hides nothing that those over it do not.
        let mut over = kept.iter().filter(|(later, ..)| order.is_before(held.0, *later)).peekable();
        let is_hidden = over.peek().is_some() && {
            over.clone().any(|later| later.2 == held.2)
                || pieces(memory.view(view)).zip(pieces(memory.view(held.2))).is_some_and(|(own, theirs)| {
                    let mut left = Ranges::of(&own);
                    over.for_each(|over| _ = pieces(memory.view(over.2)).map(|pieces| left.take(&pieces)));
                    !left.meets(&theirs)
                })
        };
        if !is_hidden {
            kept.push(held);
        }
    }
    kept.into_iter().map(|(task, arg_index, _)| OutputRef { task, arg_index }).collect()
}
