//! Evidence for arguments with unknown roles, from comparing two recordings of the same program:
//! uninitialized memory.

use std::collections::HashSet;

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, Dump, FormatError, Task};

use crate::compare::unless_gone;
use crate::graph::{OriginBasis, TaskGraph};
use crate::labels::{Status, TaskStatus};
use crate::matching::Matching;

/// Larger contents are not read.
const MAX_BYTES: u64 = 256 << 20;

/// Arguments outside their rules before their tasks that no task of either run wrote before. Empty if the golden was
/// filtered, because a missing task may have written. A complete golden proves that no task writes it, even if the dump
/// was filtered.
pub(super) fn uninitialized(
    golden: &Dump,
    (graph, theirs): (&TaskGraph, &TaskGraph),
    matching: &Matching,
    statuses: &[TaskStatus],
) -> HashSet<(usize, u16)> {
    let mut uninitialized = HashSet::new();
    if graph.observations().is_none() || theirs.observations().is_none() || lacks_records(golden) {
        return uninitialized;
    }
    for task in graph.tasks().iter() {
        let (Some(partner), TaskStatus::Compared(args)) =
            (matching.partner[task.place()], &statuses[task.place()])
        else {
            continue;
        };
        let partner = theirs.task(partner);
        for (arg, status) in task.arguments().zip(args).filter(|(arg, _)| !arg.is_scalar()) {
            let there = partner.counterpart(arg).filter(|_| status.before == Status::Outside);
            let is_never_written = |there| is_never_written((graph, task, arg), (theirs, partner, there));
            if there.is_some_and(is_never_written) {
                uninitialized.insert((task.place(), arg.arg_index));
            }
        }
    }
    uninitialized
}

/// How two partner tasks treated memory that differed between the runs and was uninitialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverwriteEvidence {
    /// The contents after the tasks differ only in bytes that both tasks left unchanged.
    pub differs_only_where_unchanged: bool,
    /// Both tasks overwrote the memory: of the bytes that differed before, none stayed unchanged in both
    /// runs, and some are equal afterwards.
    pub is_overwritten: bool,
}

/// Compares the contents before and after two tasks; `None` if not all content is stored.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn overwrite_evidence(
    (dump, golden): (&Dump, &Dump),
    here: Argument<'_>,
    there: Argument<'_>,
) -> Result<Option<OverwriteEvidence>, FormatError> {
    let content = |dump: &Dump, arg: Argument<'_>, stage: DumpStage| {
        let captured =
            arg.captured(stage).filter(|captured| captured.is_stored() && captured.bytes <= MAX_BYTES);
        let Some(captured) = captured else { return Ok(None) };
        unless_gone(dump.payload(&dump.record(captured.record)?))
    };
    let (Some(before), Some(after)) =
        (content(dump, here, DumpStage::BeforeDispatch)?, content(dump, here, DumpStage::AfterCompletion)?)
    else {
        return Ok(None);
    };
    let (Some(their_before), Some(their_after)) = (
        content(golden, there, DumpStage::BeforeDispatch)?,
        content(golden, there, DumpStage::AfterCompletion)?,
    ) else {
        return Ok(None);
    };
    Ok(overwrite_evidence_in((&before, &after), (&their_before, &their_after)))
}

/// The same for contents in memory; `None` if their lengths differ.
fn overwrite_evidence_in(
    (before, after): (&[u8], &[u8]),
    (theirs, their_after): (&[u8], &[u8]),
) -> Option<OverwriteEvidence> {
    if [before.len(), theirs.len(), their_after.len()] != [after.len(); 3] {
        return None;
    }
    let (mut differs_only_where_unchanged, mut left, mut alike) = (true, false, false);
    for at in 0..after.len() {
        let is_left = before[at] == after[at] && theirs[at] == their_after[at];
        differs_only_where_unchanged &= after[at] == their_after[at] || is_left;
        let differed = before[at] != theirs[at];
        left |= differed && is_left;
        alike |= differed && after[at] == their_after[at];
    }
    Some(OverwriteEvidence { differs_only_where_unchanged, is_overwritten: alike && !left })
}

/// Whether a dump may lack tasks, and so their writes and the order they imply.
pub(crate) fn lacks_records(dump: &Dump) -> bool {
    dump.footer().is_none_or(|footer| footer.filtered_records > 0 || !footer.losses.is_empty())
}

/// Whether no captured task of either run wrote the content of an argument before its task.
pub(crate) fn is_never_written(
    (graph, task, arg): (&TaskGraph, Task<'_>, Argument<'_>),
    (theirs, partner, there): (&TaskGraph, Task<'_>, Argument<'_>),
) -> bool {
    !is_written(graph, task, arg) && !is_written(theirs, partner, there)
}

/// Whether a task wrote, or may have written, the content of an argument before its task.
pub(super) fn is_written(graph: &TaskGraph, task: Task<'_>, arg: Argument<'_>) -> bool {
    let is_unordered = || graph.observations().is_some_and(|seen| !seen.unordered(task, arg).is_none());
    let origin = graph.origin(arg);
    origin.basis == OriginBasis::Undecided || !origin.outputs.is_empty() || is_unordered()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uninitialized_memory_that_was_overwritten_is_no_cause() {
        let [lay, also_lay] = [[9, 8, 7, 6], [1, 2, 3, 4]];
        let found = |after: [u8; 4], theirs: [u8; 4]| {
            let found = overwrite_evidence_in((&lay, &after), (&also_lay, &theirs)).unwrap();
            (found.differs_only_where_unchanged, found.is_overwritten)
        };
        assert_eq!(found([50, 51, 52, 53], [50, 51, 52, 99]), (false, true), "all written, one otherwise");
        assert_eq!(found([50, 51, 52, 6], [50, 51, 52, 4]), (true, false), "one was left by both");
        assert_eq!(found([50, 51, 99, 6], [50, 51, 52, 4]), (false, false), "and another is wrong");
        assert_eq!(found([10, 9, 8, 7], [2, 3, 4, 5]), (false, false), "something was added to all of it");
        assert_eq!(overwrite_evidence_in((&lay, &[1]), (&also_lay, &lay)), None);
    }
}
