//! Which ranks form a group.
//!
//! Ranks may form several groups that run collectives of the same name. The golden's content shows it: an `all_reduce`
//! leaves the same content on all ranks of its group, so ranks with different content are in different groups. An
//! `all_gather` leaves as many times its input as its group has ranks. If nothing shows the group, an error of one rank is
//! no explanation for another rank.

use std::collections::BTreeMap;

use tensortap_format::Argument;

use super::operations::{GroupBasis, GroupOperation};
use super::{RankBlame, golden_output};

/// The operations of one name in one step, split into groups as far as content and sizes show them; or why the groups are
/// not known although there are several.
pub(super) fn refined(
    ranks: &[RankBlame],
    operations: Vec<GroupOperation>,
) -> Result<Vec<GroupOperation>, String> {
    let parts = operations.into_iter().flat_map(|operation| split(ranks, operation));
    parts.map(|operation| confirmed(ranks, operation)).collect()
}

/// Splits an operation that leaves equal content on all ranks of its group by that content. It stays whole if the golden's
/// content does not show groups of at least two ranks. Each operation is split by itself: one name may stand for collectives
/// of all ranks and of some.
pub(super) fn split(ranks: &[RankBlame], operation: GroupOperation) -> Vec<GroupOperation> {
    let mut classes: BTreeMap<Vec<u128>, Vec<usize>> = BTreeMap::new();
    let members: Vec<(usize, usize)> = operation.members().filter(|_| operation.has_equal_results).collect();
    for (rank, task) in members {
        let Some(output) = golden_output(&ranks[rank].blame, task) else { return vec![operation] };
        classes.entry(output).or_default().push(rank);
    }
    if classes.len() < 2 || classes.values().any(|ranks| ranks.len() < 2) {
        return vec![operation];
    }
    let of_class = |class: Vec<usize>| {
        let member = |(rank, task): (usize, &Option<usize>)| task.filter(|_| class.contains(&rank));
        let tasks = operation.tasks.iter().enumerate().map(member).collect();
        GroupOperation { tasks, basis: GroupBasis::Content, ..operation.clone() }
    };
    classes.into_values().map(of_class).collect()
}

/// An operation that was found by name, with what shows that its ranks form one group.
fn confirmed(ranks: &[RankBlame], operation: GroupOperation) -> Result<GroupOperation, String> {
    if operation.basis != GroupBasis::Name {
        return Ok(operation);
    }
    if has_one_golden_output(ranks, &operation) {
        return Ok(GroupOperation { basis: GroupBasis::Content, ..operation });
    }
    let sizes: Vec<Option<u64>> =
        operation.members().map(|(rank, task)| ratio(&ranks[rank].blame.graph.task(task))).collect();
    let [Some(first), ..] = sizes[..] else { return Ok(operation) };
    let members = sizes.len() as u64;
    let is_all = sizes.iter().all(|size| *size == Some(first));
    if !is_all || first < 2 || !operation.missing.is_empty() {
        return Ok(operation);
    }
    if first == members {
        return Ok(GroupOperation { basis: GroupBasis::Sizes, ..operation });
    }
    let name = operation.name.to_ascii_lowercase().replace('_', "");
    match first < members && (name.contains("allgather") || name.contains("reducescatter")) {
        true => Err(format!("their sizes show groups of {first} ranks, but not which ranks")),
        false => Ok(operation),
    }
}

/// Whether the golden has the same output on all members.
fn has_one_golden_output(ranks: &[RankBlame], operation: &GroupOperation) -> bool {
    let mut outputs = operation.members().map(|(rank, task)| golden_output(&ranks[rank].blame, task));
    let Some(Some(first)) = outputs.next() else { return false };
    outputs.all(|output| output.as_ref() == Some(&first))
}

/// How many times the input fits into the output, or the output into the input. `None` if that is no whole number.
fn ratio(task: &tensortap_format::Task<'_>) -> Option<u64> {
    let writes = |arg: &Argument<'_>| match arg.role_known {
        true => arg.role.writes(),
        false => !arg.is_unchanged(),
    };
    let (written, read): (Vec<_>, Vec<_>) = task.arguments().filter(|arg| !arg.is_scalar()).partition(writes);
    let bytes = |args: &[Argument<'_>]| {
        args.iter().map(Argument::content_bytes).try_fold(0_u64, |sum, bytes| sum.checked_add(bytes?))
    };
    let (written, read) = (bytes(&written)?, bytes(&read)?);
    let (small, large) = (written.min(read), written.max(read));
    (small > 0 && large % small == 0).then(|| large / small)
}
