//! Tasks whose outputs were held against what each, alone, should have made of its captured inputs.

use std::collections::HashMap;

use tensortap_format::{Argument, Dump, FormatError, Task};

use super::{ComparedArg, carried_all};
use crate::carry::Carried;
use crate::graph::TaskGraph;
use crate::labels::{ArgStatus, Finding, Status, TaskStatus, label_alone};
use crate::parallel::Work;

/// Labels tasks by their outputs, of which `results` has a status per argument and what was compared; inputs are right unless they
/// changed on the way.
pub(super) fn label_outputs(
    dump: &Dump,
    graph: &TaskGraph,
    results: Vec<(Vec<Status>, Vec<ComparedArg>)>,
    work: Work<'_>,
) -> Result<(Vec<Finding>, Vec<Vec<ComparedArg>>), FormatError> {
    let inputs: Vec<(usize, u16)> = (0..graph.len())
        .flat_map(|place| {
            let inputs = graph.task(place).inputs().filter(|arg| !graph.outputs_behind(*arg).is_empty());
            inputs.map(move |arg| (place, arg.arg_index))
        })
        .collect();
    let carried: HashMap<(usize, u16), Carried> = carried_all(dump, graph, &inputs, work)?;
    let changed =
        |task: usize, arg_index: u16| matches!(carried.get(&(task, arg_index)), Some(Carried::Changed(_)));
    let (mut statuses, mut compared_args) = (Vec::new(), Vec::new());
    for (place, (outputs, compared)) in results.into_iter().enumerate() {
        let args = with_inputs(graph.task(place), outputs, |arg| changed(place, arg));
        statuses.push(TaskStatus::Compared(args));
        compared_args.push(compared);
    }
    let same = Carried::Same;
    let findings = label_alone(graph, &statuses, |task, arg: Argument<'_>| {
        carried.get(&(task, arg.arg_index)).unwrap_or(&same).clone()
    });
    Ok((findings, compared_args))
}

/// What is known of the arguments: outputs as computed, inputs right unless they changed on the way.
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
