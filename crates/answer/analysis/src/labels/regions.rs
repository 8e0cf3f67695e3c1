//! Labels of regions. A region that contains recorded tasks takes its label from them: it is never the place where an
//! error began, and never raced, because it and the tasks inside of it use the same memory at the same time.

use tensortap_format::Task;

use super::labeler::finding;
use super::{ArgStatus, Finding, Label, Status, TaskStatus};
use crate::graph::TaskGraph;

/// Labels the regions that contain recorded tasks. The other tasks have their labels.
pub(super) fn label_regions(graph: &TaskGraph, statuses: &[TaskStatus], findings: &mut [Finding]) {
    let regions: Vec<Task<'_>> = graph.tasks().iter().filter(|task| task.contains_tasks()).collect();
    if regions.is_empty() {
        return;
    }
    let wrong = wrong_inside(graph, findings);
    for region in regions {
        let place = region.place();
        let found = wrong.binary_search_by_key(&place, |(region, _)| *region).ok();
        let wrong = found.map(|at| graph.task(wrong[at].1));
        findings[place] = label(region, &statuses[place], wrong);
    }
}

/// Regions, by position, each with the first task inside of it that is wrong.
fn wrong_inside(graph: &TaskGraph, findings: &[Finding]) -> Vec<(usize, usize)> {
    let is_wrong = |label: Label| label.is_root() || label == Label::Inherited;
    let mut wrong: Vec<(usize, usize)> = Vec::new();
    for task in graph.tasks().iter().filter(|task| is_wrong(findings[task.place()].label)) {
        wrong.extend(task.regions().map(|region| (region.place(), task.place())));
    }
    // A stable order: the first wrong task of each region stays.
    wrong.sort_unstable();
    wrong.dedup_by_key(|(region, _)| *region);
    wrong
}

fn label(region: Task<'_>, status: &TaskStatus, wrong: Option<Task<'_>>) -> Finding {
    let statuses = match status {
        TaskStatus::Unmatched(reason) => return finding(Label::Unknown, Some(reason.clone()), None),
        TaskStatus::Compared(statuses) => statuses,
    };
    let first = |is: fn(&ArgStatus) -> bool| {
        region.arguments().zip(statuses).find(|(_, status)| is(status)).map(|(arg, _)| arg.arg_index)
    };
    let left_wrong = first(|status| status.after == Status::Outside);
    let found_wrong = first(|status| status.before == Status::Outside);
    match (left_wrong, found_wrong, wrong) {
        (Some(arg), _, Some(inside)) => {
            let reason = format!("task {:#x}, which it contains, is wrong", inside.task_id);
            finding(Label::Inherited, Some(reason), Some(arg))
        }
        (Some(arg), ..) => {
            let reason = format!(
                "argument {arg} is wrong after the region, but no task inside of it is: work that was not recorded \
                 may have written it"
            );
            finding(Label::Unknown, Some(reason), Some(arg))
        }
        (None, Some(arg), _) => finding(Label::Masked, None, Some(arg)),
        (None, None, _) => finding(Label::Ok, None, None),
    }
}

/// The arguments of regions whose wrong content counts for the verdict: declared outputs, which their tasks write whole.
pub(crate) fn counting_outputs(
    graph: &TaskGraph,
    statuses: &[TaskStatus],
) -> impl Iterator<Item = (usize, u16)> {
    let regions = graph.tasks().iter().filter(|task| task.contains_tasks());
    let outputs = regions.flat_map(|region| match &statuses[region.place()] {
        TaskStatus::Unmatched(_) => Vec::new(),
        TaskStatus::Compared(statuses) => {
            let args = region.arguments().zip(statuses).filter(|(arg, status)| {
                let is_output = arg.role_known && arg.role.writes() && !arg.role.reads();
                is_output && status.after == Status::Outside
            });
            args.map(|(arg, _)| (region.place(), arg.arg_index)).collect::<Vec<_>>()
        }
    });
    outputs.collect::<Vec<_>>().into_iter()
}
