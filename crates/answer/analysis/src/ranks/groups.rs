//! Which ranks form a group.
//!
//! Ranks may form several groups that run collectives of the same name. The golden's content shows it: an `all_reduce`
//! leaves the same content on all ranks of its group, so ranks with different content are in different groups. An
//! `all_gather` leaves as many times its input as its group has ranks. If nothing shows the group, an error of one rank is
//! no explanation for another rank.

use std::collections::{BTreeMap, BTreeSet};

use tensortap_format::Argument;

use super::operations::{GroupBasis, GroupOperation};
use super::{RankBlame, golden_output};

/// The operations of one name in one step, split into groups as far as content and sizes show them; or why the groups are
/// not known although there are several.
pub(super) fn refined(
    ranks: &[RankBlame],
    operations: Vec<GroupOperation>,
) -> Result<Vec<GroupOperation>, String> {
    let operations = split(ranks, &operations).unwrap_or(operations);
    operations.into_iter().map(|operation| confirmed(ranks, operation)).collect()
}

/// Splits operations that leave equal content on all ranks of a group by that content. `None` if the golden's content does
/// not show groups of at least two ranks.
pub(super) fn split(ranks: &[RankBlame], operations: &[GroupOperation]) -> Option<Vec<GroupOperation>> {
    let mut left: BTreeMap<usize, Vec<Option<Vec<u128>>>> = BTreeMap::new();
    for operation in operations.iter().filter(|operation| operation.has_equal_results) {
        for (rank, of_rank) in ranks.iter().enumerate() {
            // A rank without this operation is no member. All ranks without it are alike.
            let output = match operation.tasks[rank] {
                Some(task) => Some(golden_output(&of_rank.blame, task)?),
                None => None,
            };
            left.entry(rank).or_default().push(output);
        }
    }
    let mut classes: BTreeMap<&[Option<Vec<u128>>], Vec<usize>> = BTreeMap::new();
    for (rank, left) in &left {
        if left.iter().any(Option::is_some) {
            classes.entry(left).or_default().push(*rank);
        }
    }
    let are_groups = classes.len() > 1 && classes.values().all(|ranks| ranks.len() > 1);
    are_groups.then(|| {
        let of_class = |operation: &GroupOperation, class: &[usize]| {
            let member = |(rank, task): (usize, &Option<usize>)| task.filter(|_| class.contains(&rank));
            let tasks: Vec<_> = operation.tasks.iter().enumerate().map(member).collect();
            let basis = GroupBasis::Content;
            tasks.iter().any(Option::is_some).then(|| GroupOperation { tasks, basis, ..operation.clone() })
        };
        let classes: Vec<Vec<usize>> = classes.into_values().collect();
        operations
            .iter()
            .flat_map(|operation| classes.iter().filter_map(move |class| of_class(operation, class)))
            .collect()
    })
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

/// Operations of one name run in the same groups. So an operation whose content or sizes show a group confirms the others
/// on the same ranks.
pub(super) fn confirm_by_others(operations: &mut [GroupOperation]) {
    let members = |one: &GroupOperation| one.members().map(|(rank, _)| rank).collect::<BTreeSet<_>>();
    let mut shown: BTreeMap<String, BTreeSet<BTreeSet<usize>>> = BTreeMap::new();
    for one in operations.iter().filter(|one| matches!(one.basis, GroupBasis::Content | GroupBasis::Sizes)) {
        shown.entry(one.name.clone()).or_default().insert(members(one));
    }
    for one in operations.iter_mut().filter(|one| one.basis == GroupBasis::Name) {
        let ranks = members(one);
        let groups = shown.get(&one.name);
        if groups.is_some_and(|groups| groups.iter().any(|group| group.is_superset(&ranks))) {
            one.basis = GroupBasis::Content;
        }
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
