//! Ranges of positions that differ, each with its origin.

use std::ops::Range;

use super::Spans;
use crate::graph::OutputRef;

/// Where a differing element came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ErrorOrigin {
    /// A task wrote it.
    Written(OutputRef),
    /// It is not what this output, the last to hold its memory, left there.
    Changed(OutputRef),
    /// It is what this output left there, where it was right: the golden's content came from another task.
    Misplaced(OutputRef),
    /// The task of this output received it wrong, for another reason than a wrong output, and did not change it.
    Passed(OutputRef),
    /// It was there before recording began, or an unrecorded writer left it.
    External,
    /// Nothing wrote it since its allocation, in either run.
    Uninitialized,
    /// Nothing wrote it since its allocation, but this output of the golden wrote it there.
    Unwritten(OutputRef),
    /// A recorded task wrote it, into an argument that was not compared; the number of the reason.
    NotCompared(u32),
    /// Not known; the number of the reason.
    Unknown(u32),
}

impl ErrorOrigin {
    /// Whether the element differs because of something that happened in the run. Other elements may differ between two
    /// right runs: uninitialized and external memory, and what hashes do not show.
    pub fn is_of_run(self) -> bool {
        !matches!(self, ErrorOrigin::External | ErrorOrigin::Uninitialized | ErrorOrigin::Unknown(_))
    }

    /// Why the origin is not known; the number of the reason.
    pub fn unknown_reason(self) -> Option<u32> {
        match self {
            ErrorOrigin::NotCompared(reason) | ErrorOrigin::Unknown(reason) => Some(reason),
            _ => None,
        }
    }
}

/// A range of positions with one origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub span: Range<u64>,
    pub origin: ErrorOrigin,
}

/// The differing positions of one argument at one stage, sorted, with their origins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(pub Vec<Mark>);

impl Marks {
    pub fn all(end: u64, origin: ErrorOrigin) -> Marks {
        Marks(vec![Mark { span: 0..end, origin }])
    }

    pub fn of_spans(spans: &Spans, origin: ErrorOrigin) -> Marks {
        Marks(spans.iter().map(|span| Mark { span, origin }).collect())
    }

    /// Marks from parts in any order that share no position.
    pub fn joined(mut marks: Vec<Mark>) -> Marks {
        marks.sort_unstable_by_key(|mark| mark.span.start);
        let mut joined: Vec<Mark> = Vec::with_capacity(marks.len());
        for mark in marks {
            match joined.last_mut() {
                Some(last) if last.origin == mark.origin && last.span.end == mark.span.start => {
                    last.span.end = mark.span.end;
                }
                _ => joined.push(mark),
            }
        }
        Marks(joined)
    }

    /// The marks within a range, and the parts of the range without a mark.
    pub fn within(&self, range: Range<u64>) -> (Vec<Mark>, Vec<Range<u64>>) {
        let (mut found, mut bare, mut at) = (Vec::new(), Vec::new(), range.start);
        let first = self.0.partition_point(|mark| mark.span.end <= range.start);
        for mark in self.0[first..].iter().take_while(|mark| mark.span.start < range.end) {
            let span = mark.span.start.max(range.start)..mark.span.end.min(range.end);
            if span.start > at {
                bare.push(at..span.start);
            }
            at = span.end;
            found.push(Mark { span, origin: mark.origin });
        }
        if at < range.end {
            bare.push(at..range.end);
        }
        (found, bare)
    }

    /// Gives another origin to those positions in a set that differ because of something that happened in the run. Returns
    /// whether there are any.
    pub fn doubt(&mut self, positions: &Spans, origin: ErrorOrigin) -> bool {
        let mut marks = Vec::with_capacity(self.0.len());
        let mut is_any = false;
        for mark in &self.0 {
            let all = Spans::of_unsorted(vec![mark.span.clone()]);
            let doubted = if mark.origin.is_of_run() { all.and(positions) } else { Spans::default() };
            is_any |= !doubted.is_empty();
            marks.extend(Marks::of_spans(&doubted, origin).0);
            marks.extend(Marks::of_spans(&all.without(&doubted), mark.origin).0);
        }
        *self = Marks::joined(marks);
        is_any
    }

    pub fn spans(&self) -> Spans {
        Spans::of_unsorted(self.0.iter().map(|mark| mark.span.clone()).collect())
    }
}
