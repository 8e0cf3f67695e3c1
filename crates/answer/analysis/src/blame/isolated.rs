//! Labels tasks whose outputs were compared with what the task should have computed from its own captured
//! inputs. An error cannot be inherited here, so only an input that changed between tasks can excuse a wrong
//! output.

use std::collections::HashMap;

use tensortap_format::{Argument, Dump, FormatError, Task};

use super::{ComparedArg, all_provenances};
use crate::graph::TaskGraph;
use crate::labels::{ArgStatus, Finding, Status, TaskStatus, label_isolated};
use crate::parallel::Work;
use crate::provenance::InputProvenance;

/// Labels tasks by their outputs. `results` has a status per argument and the comparisons of each task. An
/// input counts as right unless it differs from what its producers wrote.
pub(super) fn label_outputs(
    dump: &Dump,
    graph: &TaskGraph,
    results: Vec<(Vec<Status>, Vec<ComparedArg>)>,
    work: Work<'_>,
) -> Result<(Vec<Finding>, Vec<Vec<ComparedArg>>), FormatError> {
    let inputs: Vec<(usize, u16)> = (0..graph.len())
        .flat_map(|place| {
            let inputs = graph.task(place).inputs().filter(|arg| !graph.producers_of(*arg).is_empty());
            inputs.map(move |arg| (place, arg.arg_index))
        })
        .collect();
    let provenance: HashMap<(usize, u16), InputProvenance> = all_provenances(dump, graph, &inputs, work)?;
    let changed = |task: usize, arg_index: u16| {
        matches!(provenance.get(&(task, arg_index)), Some(InputProvenance::Changed(_)))
    };
    let (mut statuses, mut compared_args) = (Vec::new(), Vec::new());
    for (place, (outputs, compared)) in results.into_iter().enumerate() {
        let args = with_inputs(graph.task(place), outputs, |arg| changed(place, arg));
        statuses.push(TaskStatus::Compared(args));
        compared_args.push(compared);
    }
    let same = InputProvenance::Same;
    let findings = label_isolated(graph, &statuses, |task, arg: Argument<'_>| {
        provenance.get(&(task, arg.arg_index)).unwrap_or(&same).clone()
    });
    Ok((findings, compared_args))
}

/// The status of each argument: outputs as compared, inputs within their rules unless they changed between
/// tasks.
fn with_inputs(task: Task<'_>, outputs: Vec<Status>, changed: impl Fn(u16) -> bool) -> Vec<ArgStatus> {
    let args = task.arguments().zip(outputs);
    args.map(|(arg, after)| {
        let before = match (arg.role.reads(), changed(arg.arg_index)) {
            (false, _) => Status::NotApplicable,
            (true, true) => Status::Outside,
            (true, false) => Status::Within,
        };
        ArgStatus { before, after }
    })
    .collect()
}
