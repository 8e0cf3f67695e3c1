//! Candidates: memory that only a word inside a value points to. The word may be a stale pointer.

use std::ops::Range;

use tensortap_format::{Argument, Task};

/// Whether an argument is a candidate for memory that a parameter of the task refers to.
pub(crate) fn is_alias(task: Task<'_>, candidate: Argument<'_>) -> bool {
    let mut certain = task.arguments().filter(|arg| !arg.is_candidate() && !arg.role_known);
    candidate.is_candidate() && certain.any(|arg| contains(arg, candidate))
}

/// Whether a candidate of a task shows less than another argument does: the partner task has no such candidate, or only
/// one of both tasks changed it. Then it is stale in one of the runs.
pub(crate) fn is_of_one_run(candidate: Argument<'_>, partner: Task<'_>) -> bool {
    let changes = |other: Argument<'_>| other.is_unchanged() == candidate.is_unchanged();
    candidate.is_candidate() && !partner.counterpart(candidate).is_some_and(changes)
}

/// For a candidate of one run: another argument of the task that both runs have and that contains its memory.
pub(crate) fn covering<'g>(
    task: Task<'g>,
    candidate: Argument<'_>,
    partner: Task<'_>,
) -> Option<Argument<'g>> {
    if !is_of_one_run(candidate, partner) {
        return None;
    }
    let mut others = task.arguments().filter(|arg| !arg.is_scalar() && !arg.role_known);
    others.find(|&arg| {
        let is_in_both = partner.counterpart(arg).is_some() && !is_of_one_run(arg, partner);
        is_in_both && contains(arg, candidate)
    })
}

fn contains(outer: Argument<'_>, inner: Argument<'_>) -> bool {
    let range = |arg: Argument<'_>| -> Option<Range<u64>> {
        Some(arg.address..arg.address.checked_add(arg.content_bytes()?)?)
    };
    let ranges = range(outer).zip(range(inner));
    ranges.is_some_and(|(outer, inner)| outer.start <= inner.start && inner.end <= outer.end)
}
