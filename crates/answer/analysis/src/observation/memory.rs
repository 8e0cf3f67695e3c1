//! The views of memory that tasks use, each stored once and indexed by the memory they share.

use std::collections::HashMap;

use tensortap_format::{AllocationEvent, Argument, Tasks};

use crate::graph::TensorView;
use crate::graph::view::{Ranges, piece_count, pieces, steps_to_share};
use crate::steps::QuerySteps;

/// The number that means no view.
const NONE: u32 = u32::MAX;

/// All views of a dump.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    views: Vec<TensorView>,
    /// By argument number: the number of its view.
    of_arg: Vec<u32>,
    /// First address and end of each view.
    bounds: Vec<(u64, u64)>,
    /// First address, end and number of each view, sorted by first address: an implicit search tree with its
    /// root in the middle.
    spans: Vec<(u64, u64, u32)>,
    /// For each tree node, the largest end in its subtree.
    ends: Vec<u64>,
    /// By view: its group. Views that share memory, directly or through others, are in one group.
    groups: Vec<u32>,
    /// Number of views in each group.
    group_sizes: Vec<u32>,
    /// By view: whether it covers every byte between its first and its last.
    solid: Vec<bool>,
    /// Allocations and frees, in order of time.
    renewed: Vec<AllocationEvent>,
    /// By view: the allocations and frees that concern its memory.
    of_view: Vec<Vec<u32>>,
    /// Whether `of_view` is complete.
    knows_allocations: bool,
}

/// Limit on the entries of all lists in `of_view` together.
const MAX_ALLOCATIONS: usize = 1 << 25;

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
        let mut ends = vec![0; spans.len()];
        largest_ends(&spans, &mut ends);
        let (groups, group_sizes) = grouped(&spans);
        let is_solid = |view: &TensorView| view.layout.is_contiguous() && view.layout.elem_bits() >= 8;
        let solid = views.iter().map(is_solid).collect();
        let of_view = vec![Vec::new(); views.len()];
        let renewed = tasks.renewed().to_vec();
        let mut memory = Memory {
            views,
            of_arg,
            bounds,
            spans,
            ends,
            groups,
            group_sizes,
            solid,
            renewed,
            of_view,
            knows_allocations: true,
        };
        memory.index_allocations(MAX_ALLOCATIONS);
        memory
    }

    fn index_allocations(&mut self, most: usize) {
        let mut left = most;
        for number in 0..self.renewed.len() {
            let AllocationEvent { address, bytes, .. } = self.renewed[number];
            let met: Vec<usize> =
                self.within(address, address.saturating_add(bytes)).take(left + 1).collect();
            let Some(rest) = left.checked_sub(met.len()) else {
                self.knows_allocations = false;
                self.of_view.iter_mut().for_each(Vec::clear);
                return;
            };
            left = rest;
            let number = u32::try_from(number).expect("2^32 allocations do not fit in memory");
            met.into_iter().for_each(|view| self.of_view[view].push(number));
        }
    }

    /// Whether allocations and frees of views are known. There may be too many of them.
    pub fn knows_allocations(&self) -> bool {
        self.knows_allocations
    }

    /// Allocations and frees of a view's memory up to a time.
    fn allocations_up_to(
        &self,
        view: usize,
        at_ns: u64,
    ) -> impl DoubleEndedIterator<Item = &AllocationEvent> + '_ {
        self.of_view[view][..self.allocations_by(view, at_ns)]
            .iter()
            .map(|&number| &self.renewed[number as usize])
    }

    /// The number of an argument's view.
    pub fn view_of(&self, arg: Argument<'_>) -> Option<usize> {
        Some(self.of_arg[arg.number()]).filter(|&view| view != NONE).map(|view| view as usize)
    }

    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// Views that may share memory with one, including itself.
    pub fn meeting(&self, view: usize) -> impl Iterator<Item = usize> + '_ {
        let (start, end) = self.bounds[view];
        self.within(start, end)
    }

    pub fn share(&self, one: usize, other: usize) -> bool {
        if one == other {
            return true;
        }
        let ((start, end), (other_start, other_end)) = (self.bounds[one], self.bounds[other]);
        let is_near = start < other_end && other_start < end;
        is_near && (self.solid[one] && self.solid[other] || self.views[one].shares(&self.views[other]))
    }

    /// Whether a view contains all memory of another.
    pub fn covers(&self, view: usize, other: usize) -> bool {
        let ((start, end), (other_start, other_end)) = (self.bounds[view], self.bounds[other]);
        view == other || self.solid[view] && start <= other_start && other_end <= end
    }

    /// Whether `over` together contain all memory that two views share; `None` if one of them has gaps.
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

    /// The group of a view. Views that share memory, directly or through others, are in one group.
    pub fn group_of(&self, view: usize) -> usize {
        self.groups[view] as usize
    }

    /// Number of groups.
    pub fn group_count(&self) -> usize {
        self.group_sizes.len()
    }

    /// An upper bound on the number of views that share memory with one.
    pub fn met_count(&self, view: usize) -> usize {
        self.group_sizes[self.group_of(view)] as usize
    }

    pub fn view(&self, view: usize) -> &TensorView {
        &self.views[view]
    }

    /// Views whose address range meets a range.
    fn within(&self, start: u64, end: u64) -> impl Iterator<Item = usize> + '_ {
        let mut open = vec![(0, self.spans.len())];
        std::iter::from_fn(move || {
            while let Some((first, past_end)) = open.pop() {
                let root = usize::midpoint(first, past_end);
                if first == past_end || self.ends[root] <= start {
                    continue;
                }
                let (begins, ends, view) = self.spans[root];
                open.push((first, root));
                if begins < end {
                    open.push((root + 1, past_end));
                    if ends > start {
                        return Some(view as usize);
                    }
                }
            }
            None
        })
    }

    /// Whether the host could change the memory of a view at a time.
    pub fn is_host_writable(&self, view: usize, at_ns: u64) -> bool {
        let last = self.allocations_up_to(view, at_ns).next_back();
        !self.knows_allocations || last.is_some_and(|last| !last.freed && last.host_writable)
    }

    /// The last allocation that contains a view at a time.
    pub fn allocation(&self, view: usize, at_ns: u64) -> Option<AllocationEvent> {
        let (start, end) = self.bounds[view];
        let holds = |renewed: &&AllocationEvent| {
            renewed.address <= start && end <= renewed.address.saturating_add(renewed.bytes)
        };
        self.allocations_up_to(view, at_ns).rev().find(holds).filter(|last| !last.freed).copied()
    }

    /// Whether the dump has an allocation or free of a view's memory.
    pub fn has_allocations(&self, view: usize) -> bool {
        !self.of_view[view].is_empty()
    }

    /// Number of allocations and frees of a view's memory up to a time.
    pub fn allocations_by(&self, view: usize, at_ns: u64) -> usize {
        self.of_view[view].partition_point(|&number| self.renewed[number as usize].at_ns <= at_ns)
    }

    /// Whether all memory that two views share was allocated or freed after one time and up to another;
    /// `None` if the steps do not suffice.
    pub fn was_reallocated(
        &self,
        one: usize,
        other: usize,
        (from, to): (u64, u64),
        query_steps: &mut QuerySteps<'_>,
    ) -> Option<bool> {
        let (first, past_end) = (self.allocations_by(one, from), self.allocations_by(one, to));
        if first >= past_end {
            return Some(false);
        }
        let steps = [&self.views[one], &self.views[other]].map(piece_count);
        query_steps.take(steps.into_iter().fold(past_end - first, usize::saturating_add))?;
        let Some((own, theirs)) = pieces(&self.views[one]).zip(pieces(&self.views[other])) else {
            return Some(false);
        };
        let mut left = Ranges::of(&own);
        for &number in &self.of_view[one][first..past_end] {
            let AllocationEvent { address, bytes, .. } = self.renewed[number as usize];
            let (start, end) = (u128::from(address) * 2, u128::from(bytes) * 2);
            left.take(&[crate::graph::view::Piece { start, end: start + end, at: 0 }]);
        }
        Some(!left.meets(&theirs))
    }

    /// Cost of a check whether two views share memory.
    pub fn steps_to_share(&self, one: usize, other: usize) -> usize {
        if one == other { 1 } else { steps_to_share(&self.views[one], &self.views[other]) }
    }
}

/// Fills in the largest end of each subtree of the search tree; returns that of the whole tree.
fn largest_ends(spans: &[(u64, u64, u32)], ends: &mut [u64]) -> u64 {
    let root = spans.len() / 2;
    let Some(&(_, end, _)) = spans.get(root) else { return 0 };
    let left = largest_ends(&spans[..root], &mut ends[..root]);
    let right = largest_ends(&spans[root + 1..], &mut ends[root + 1..]);
    ends[root] = end.max(left).max(right);
    ends[root]
}

fn bounds_of(view: &TensorView) -> (u64, u64) {
    let start = view.footprint.start();
    (start, start.saturating_add(view.footprint.span_bytes()))
}

/// The group of each view, and the number of views per group, from the spans sorted by first address.
fn grouped(spans: &[(u64, u64, u32)]) -> (Vec<u32>, Vec<u32>) {
    let (mut groups, mut sizes) = (vec![0; spans.len()], Vec::<u32>::new());
    let mut reached = 0;
    for &(start, end, view) in spans {
        if sizes.is_empty() || start >= reached {
            sizes.push(0);
        }
        groups[view as usize] = u32::try_from(sizes.len() - 1).expect("there are no more than views");
        *sizes.last_mut().expect("one was pushed") += 1;
        reached = end.max(reached);
    }
    (groups, sizes)
}
