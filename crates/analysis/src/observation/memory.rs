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
    /// First address, the one behind the last, and number of each view, by first address.
    spans: Vec<(u64, u64, u32)>,
    /// The largest end up to each of them.
    ends: Vec<u64>,
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
        let span = |(number, view): (u32, &TensorView)| {
            let start = view.footprint.start();
            (start, start.saturating_add(view.footprint.span_bytes()), number)
        };
        let mut spans: Vec<(u64, u64, u32)> = (0..).zip(&views).map(span).collect();
        spans.sort_unstable();
        let largest = |end: &mut u64, span: &(u64, u64, u32)| {
            *end = span.1.max(*end);
            Some(*end)
        };
        let ends = spans.iter().scan(0, largest).collect();
        let renewed = vec![Vec::new(); views.len()];
        let mut memory = Memory { views, of_arg, spans, ends, renewed };
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
        let own = &self.views[view];
        let (start, bytes) = (own.footprint.start(), own.footprint.span_bytes());
        let near = self.within(start, start.saturating_add(bytes));
        near.filter(move |&other| other == view || self.share(view, other))
    }

    pub fn share(&self, one: usize, other: usize) -> bool {
        one == other || self.views[one].shares(&self.views[other])
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
