//! Checks the parents of tasks: they exist, unless they were filtered or lost, and no task contains itself.

use std::collections::HashMap;

use tensortap_abi::{RECORD_HAS_PARENT, RecordKind};

use crate::{
    Dump, FormatError, Tail,
    json::Hex64,
    source::IndexRecords,
    verify::{Findings, Problem, TAKE_AGAIN},
};

/// Checks the parents of a dump.
pub(crate) fn check_families(
    dump: &Dump,
    indexed: &IndexRecords,
    findings: &mut Findings,
) -> Result<(), FormatError> {
    let mut parents: HashMap<u64, u64> = HashMap::new();
    indexed.for_each(&[RecordKind::Task], |record| {
        let task = record.as_task().filter(|task| task.flags & RECORD_HAS_PARENT != 0);
        if let Some(task) = task {
            parents.entry(task.task_id).or_insert(task.parent_task);
        }
    })?;
    let mut children: Vec<(u64, u64)> = parents.iter().map(|(&task, &parent)| (task, parent)).collect();
    children.sort_unstable();
    if !may_lack_tasks(dump, indexed) {
        for &(task, parent) in children.iter().filter(|(_, parent)| !indexed.has_task(*parent)) {
            let (task, parent) = (Hex64(task), Hex64(parent));
            let what = format!("task {task} has the parent {parent}, which is not in the dump");
            let remedy = "the program named a task that it did not record; record the parent, or name none";
            findings.problem(Problem::of_dump(what, remedy));
        }
    }
    if let Some(task) = on_a_cycle(&children, &parents) {
        let what = format!("task {} contains itself, through its parents", Hex64(task));
        findings.problem(Problem::of_dump(what, TAKE_AGAIN));
    }
    Ok(())
}

/// Whether filters or losses may have removed parents.
pub(crate) fn may_lack_tasks(dump: &Dump, indexed: &IndexRecords) -> bool {
    let footer = dump.footer();
    let has_losses = footer.is_none_or(|footer| footer.dropped_records() > 0 || footer.corrupt_records > 0);
    has_losses
        || dump.tail() != Tail::Closed
        || !dump.gaps().is_empty()
        || !dump.info().filters.is_empty()
        || footer.is_some_and(|footer| footer.filtered_records > 0)
        || indexed.index.is_windowed()
}

/// A task on a cycle of parents. Takes one step per task.
fn on_a_cycle(children: &[(u64, u64)], parents: &HashMap<u64, u64>) -> Option<u64> {
    // The walk in which each task was reached.
    let mut reached: HashMap<u64, usize> = HashMap::with_capacity(parents.len());
    for (walk, &(start, _)) in children.iter().enumerate() {
        let mut next = Some(start);
        while let Some(task) = next {
            match reached.get(&task) {
                Some(&earlier) if earlier == walk => return Some(task),
                Some(_) => break,
                None => reached.insert(task, walk),
            };
            next = parents.get(&task).copied();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_found_from_any_start() {
        let cycle = |pairs: &[(u64, u64)]| on_a_cycle(pairs, &pairs.iter().copied().collect());
        assert_eq!(cycle(&[(2, 1), (3, 2), (4, 2), (5, 9)]), None);
        assert_eq!(cycle(&[(7, 7)]), Some(7));
        assert!(cycle(&[(1, 2), (2, 3), (3, 4), (4, 2)]).is_some_and(|task| task >= 2));
        let long: Vec<(u64, u64)> = (1..100_000).map(|task| (task, task + 1)).collect();
        assert_eq!(cycle(&long), None);
    }
}
