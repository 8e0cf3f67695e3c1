//! The views of memory that tasks were given, each once, found by what they share.

use std::collections::HashMap;

use tensortap_format::{Argument, Renewed, Tasks};

use crate::graph::TensorView;
use crate::graph::view::{Ranges, pieces};

/// Stands for no view.
const NONE: u32 = u32::MAX;

/// Every view that an argument is.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    views: Vec<TensorView>,
    /// By the numbers of arguments.
    of_arg: Vec<u32>,
    /// First address of each view, and the one behind the last.
    bounds: Vec<(u64, u64)>,
    /// First address, the one behind the last, and number of each view, by first address.
    spans: Vec<(u64, u64, u32)>,
    /// The largest end up to each of them.
    ends: Vec<u64>,
    /// By view, its group: views that share memory, directly or through others, are of one.
    groups: Vec<u32>,
    /// How many views each group has.
    group_sizes: Vec<u32>,
    /// By view, whether it holds every byte between its first and its last.
    solid: Vec<bool>,
    /// By view, when memory of it was allocated or freed.
    renewed: Vec<Vec<Renewed>>,
}

impl Memory {
    pub fn of(tasks: &Tasks) -> Memory {
        let mut numbers: HashMap<(u64, tensortap_geometry::Layout), u32> = HashMap::new();
        let (mut views, mut of_arg) = (Vec::new(), vec![NONE; tasks.argument_count()]);
        for arg in tasks.iter().flat_map(|task| task.arguments()) {
            let Some(view) = TensorView::of(arg).filter(|view| !view.footprint.is_empty()) else { continue };
            let number = *numbers.entry((view.address, view.layout)).or_insert_with(|| {
                views.push(view);
                u32::try_from(views.len() - 1).expect("2^32 views do not fit in memory")
            });
            of_arg[arg.number()] = number;
        }
        let bounds: Vec<(u64, u64)> = views.iter().map(bounds_of).collect();
        let mut spans: Vec<(u64, u64, u32)> =
            (0..).zip(&bounds).map(|(number, &(start, end))| (start, end, number)).collect();
        spans.sort_unstable();
        let largest = |end: &mut u64, span: &(u64, u64, u32)| {
            *end = span.1.max(*end);
            Some(*end)
        };
        let ends: Vec<u64> = spans.iter().scan(0, largest).collect();
        let (groups, group_sizes) = grouped(&spans, &ends);
        let is_solid = |view: &TensorView| view.layout.is_contiguous() && view.layout.elem_bits() >= 8;
        let solid = views.iter().map(is_solid).collect();
        let renewed = vec![Vec::new(); views.len()];
        let mut memory = Memory { views, of_arg, bounds, spans, ends, groups, group_sizes, solid, renewed };
        for renewed in tasks.renewed() {
            let end = renewed.address.saturating_add(renewed.bytes);
            let met: Vec<usize> = memory.within(renewed.address, end).collect();
            met.into_iter().for_each(|view| memory.renewed[view].push(*renewed));
        }
        memory
    }

    /// The number of an argument's view.
    pub fn view_of(&self, arg: Argument<'_>) -> Option<usize> {
        Some(self.of_arg[arg.number()]).filter(|&view| view != NONE).map(|view| view as usize)
    }

    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// Views that share memory with one, itself too.
    pub fn meeting(&self, view: usize) -> impl Iterator<Item = usize> + '_ {
        let (start, end) = self.bounds[view];
        let near = self.within(start, end);
        near.filter(move |&other| other == view || self.share(view, other))
    }

    pub fn share(&self, one: usize, other: usize) -> bool {
        if one == other {
            return true;
        }
        let ((start, end), (other_start, other_end)) = (self.bounds[one], self.bounds[other]);
        let is_near = start < other_end && other_start < end;
        is_near && (self.solid[one] && self.solid[other] || self.views[one].shares(&self.views[other]))
    }

    /// Whether a view holds all memory of another.
    pub fn covers(&self, view: usize, other: usize) -> bool {
        let ((start, end), (other_start, other_end)) = (self.bounds[view], self.bounds[other]);
        view == other || self.solid[view] && start <= other_start && other_end <= end
    }

    /// Whether others hold all memory that two views share; `None` where one of them has gaps.
    pub fn is_covered(
        &self,
        (one, other): (usize, usize),
        over: impl Iterator<Item = usize> + Clone,
    ) -> Option<bool> {
        if ![one, other].into_iter().chain(over.clone()).all(|view| self.solid[view]) {
            return None;
        }
        let start = self.bounds[one].0.max(self.bounds[other].0);
        let end = self.bounds[one].1.min(self.bounds[other].1);
        let mut over: Vec<(u64, u64)> = over.map(|view| self.bounds[view]).collect();
        over.sort_unstable();
        let grown =
            |reached: u64, &(from, to): &(u64, u64)| if from <= reached { reached.max(to) } else { reached };
        Some(over.iter().fold(start, grown) >= end)
    }

    /// The group of a view: those that share memory, directly or through others.
    pub fn group_of(&self, view: usize) -> usize {
        self.groups[view] as usize
    }

    /// How many groups there are.
    pub fn group_count(&self) -> usize {
        self.group_sizes.len()
    }

    /// How many views a view meets, at most.
    pub fn met_count(&self, view: usize) -> usize {
        self.group_sizes[self.group_of(view)] as usize
    }

    pub fn view(&self, view: usize) -> &TensorView {
        &self.views[view]
    }

    /// Views whose addresses share some with a range.
    fn within(&self, start: u64, end: u64) -> impl Iterator<Item = usize> + '_ {
        let begun = self.spans.partition_point(|span| span.0 < end);
        let near = self.spans[..begun].iter().zip(&self.ends[..begun]).rev();
        let near = near.take_while(move |(_, largest)| **largest > start);
        near.filter(move |(span, _)| span.1 > start).map(|(span, _)| span.2 as usize)
    }

    /// Whether the memory of a view was, at a time, such as the host may change.
    pub fn is_host_writable(&self, view: usize, at_ns: u64) -> bool {
        let renewed = &self.renewed[view];
        let by_then = &renewed[..renewed.partition_point(|renewed| renewed.at_ns <= at_ns)];
        by_then.last().is_some_and(|last| !last.freed && last.host_writable)
    }

    /// The last allocation that had all memory of a view at a time.
    pub fn allocation(&self, view: usize, at_ns: u64) -> Option<Renewed> {
        let (renewed, (start, end)) = (&self.renewed[view], self.bounds[view]);
        let by_then = &renewed[..renewed.partition_point(|renewed| renewed.at_ns <= at_ns)];
        let holds = |renewed: &&Renewed| {
            renewed.address <= start && end <= renewed.address.saturating_add(renewed.bytes)
        };
        by_then.iter().rev().find(holds).filter(|last| !last.freed).copied()
    }

    /// Whether memory of a view was ever allocated or freed, as far as the dump says.
    pub fn has_renewed(&self, view: usize) -> bool {
        !self.renewed[view].is_empty()
    }

    /// How often memory of a view had been allocated or freed by a time.
    pub fn renewed_by(&self, view: usize, at_ns: u64) -> usize {
        self.renewed[view].partition_point(|renewed| renewed.at_ns <= at_ns)
    }

    /// Whether all memory that two views share was allocated or freed behind one time and up to another.
    pub fn is_renewed(&self, one: usize, other: usize, (from, to): (u64, u64)) -> bool {
        let renewed = &self.renewed[one];
        let first = renewed.partition_point(|renewed| renewed.at_ns <= from);
        let meanwhile = renewed[first..].iter().take_while(|renewed| renewed.at_ns <= to);
        let mut meanwhile = meanwhile.peekable();
        if meanwhile.peek().is_none() {
            return false;
        }
        let Some((own, theirs)) = pieces(&self.views[one]).zip(pieces(&self.views[other])) else {
            return false;
        };
        let mut left = Ranges::of(&own);
        for renewed in meanwhile {
            let (start, end) = (u128::from(renewed.address) * 2, u128::from(renewed.bytes) * 2);
            left.take(&[crate::graph::view::Piece { start, end: start + end, at: 0 }]);
        }
        !left.meets(&theirs)
    }
}

fn bounds_of(view: &TensorView) -> (u64, u64) {
    let start = view.footprint.start();
    (start, start.saturating_add(view.footprint.span_bytes()))
}

/// By view, its group, and how many views each has: of spans by first address, with the largest end up to each.
fn grouped(spans: &[(u64, u64, u32)], ends: &[u64]) -> (Vec<u32>, Vec<u32>) {
    let (mut groups, mut sizes) = (vec![0; spans.len()], Vec::<u32>::new());
    let mut reached = 0;
    for (&(start, _, view), &end) in spans.iter().zip(ends) {
        if sizes.is_empty() || start >= reached {
            sizes.push(0);
        }
        groups[view as usize] = u32::try_from(sizes.len() - 1).expect("there are no more than views");
        *sizes.last_mut().expect("one was pushed") += 1;
        reached = end;
    }
    (groups, sizes)
}
