//! Candidates: memory that only a word inside a value points to. The word may be a stale pointer.

use tensortap_format::{Argument, Task};

/// Whether an argument is a candidate for exactly the memory that a parameter of the task refers to.
pub(crate) fn is_alias(task: Task<'_>, candidate: Argument<'_>) -> bool {
    let mut certain = task.arguments().filter(|arg| !arg.is_candidate() && !arg.role_known);
    candidate.is_candidate() && certain.any(|arg| is_same_range(arg, candidate))
}

/// Whether both tasks certainly use an argument: it is no candidate, or both changed it.
pub(crate) fn is_used(arg: Argument<'_>, other: Argument<'_>) -> bool {
    !arg.is_candidate() || !arg.is_unchanged() && !other.is_unchanged()
}

/// Whether a candidate of a task shows less than another argument does: the partner task has no such candidate, or only
/// one of both tasks changed it. Then it may be stale in one of the runs.
pub(crate) fn is_of_one_run(candidate: Argument<'_>, partner: Task<'_>) -> bool {
    let changes = |other: Argument<'_>| other.is_unchanged() == candidate.is_unchanged();
    candidate.is_candidate() && !partner.counterpart(candidate).is_some_and(changes)
}

/// The memory arguments of a task that the partner task has too, with the same size, and that both or neither changed, if
/// they are candidates.
pub(crate) fn shared_arguments<'g>(
    task: Task<'g>,
    partner: Task<'g>,
) -> impl Iterator<Item = Argument<'g>> + use<'g> {
    let memory = task.arguments().filter(|arg| !arg.is_scalar() && !arg.role_known);
    memory.filter(move |&arg| {
        let has_size = |other: Argument<'_>| other.content_bytes() == arg.content_bytes();
        partner.counterpart(arg).is_some_and(has_size) && !is_of_one_run(arg, partner)
    })
}

/// For a candidate of one run: another argument that both runs have and that is exactly its memory.
pub(crate) fn covering<'g>(
    task: Task<'g>,
    candidate: Argument<'_>,
    partner: Task<'g>,
) -> Option<Argument<'g>> {
    let is_needed = is_of_one_run(candidate, partner);
    shared_arguments(task, partner).find(|&arg| is_needed && is_same_range(arg, candidate))
}

fn is_same_range(one: Argument<'_>, other: Argument<'_>) -> bool {
    one.address == other.address && one.content_bytes() == other.content_bytes()
}
