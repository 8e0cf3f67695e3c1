//! Compares a dump with arrays in files, which may cover only some of its records.

use std::collections::{HashMap, HashSet};

use tensortap_abi::DumpStage;
use tensortap_format::Dump;
use tensortap_interchange::NamedArrays;
use tensortap_judge::{Depth, Outcome};

use super::producers::{is_near_equal_output, mark, near_equal_of, of_producers, set_before};
use super::{
    BaselineKind, Blame, BlameOptions, ComparedArg, RuleTable, RunOutcome, all_provenances, count_compared,
    outside_inputs, reference, status_of,
};
use crate::arrays::{ArrayAssignment, NO_ARRAY, cover_input};
use crate::compare::{Side, compare};
use crate::diff::side_of;
use crate::error::AnalysisError;
use crate::graph::{TaskGraph, load_with_progress};
use crate::labels::{ArgStatus, Finding, InputFacts, Label, Status, TaskStatus, label_tasks};
use crate::matching::{Matching, UnmatchedTask};
use crate::provenance::InputProvenance;

pub(super) fn blame(
    dump: &Dump,
    arrays: &NamedArrays,
    options: &BlameOptions<'_>,
) -> Result<Blame, AnalysisError> {
    let work = options.work;
    let graph = load_with_progress(dump, &options.steps, &|| work.check_canceled())?;
    let assigned = ArrayAssignment::of(dump, &graph, arrays)?;
    assigned.check(arrays)?;
    let places: Vec<usize> = (0..graph.len()).collect();
    let rules = RuleTable::of(&options.rules, &graph);
    let results = options
        .work
        .map(&places, |&place| compare_task(dump, (&graph, place), (arrays, &assigned), (&rules, options)))?;
    drop(rules);
    let (mut statuses, mut compared_args) = (Vec::new(), Vec::new());
    for (args, compared) in results {
        let nothing = compared.is_empty();
        statuses.push(if nothing {
            TaskStatus::Unmatched(NO_ARRAY.into())
        } else {
            TaskStatus::Compared(args)
        });
        compared_args.push(compared);
    }
    let lacking = lacking_inputs(&graph, &statuses);
    let mut questions = outside_inputs(&graph, &statuses);
    questions.extend(&lacking);
    let provenance = all_provenances(dump, &graph, &questions, options.work)?;
    let mut near = near_equal_of(&compared_args, DumpStage::BeforeDispatch);
    let near_outputs = near_equal_of(&compared_args, DumpStage::AfterCompletion);
    let mut derived = HashSet::new();
    for input in lacking.into_iter().filter(|input| provenance.get(input) == Some(&InputProvenance::Same)) {
        let Some(status) = of_producers(&graph, &statuses, input) else { continue };
        if is_near_equal_output(&graph, &near_outputs, input) {
            near.insert(input);
        }
        set_before(&graph, &mut statuses, input, status);
        derived.insert(input.0);
    }
    let unknown = InputProvenance::Unknown("the input was not compared".into());
    let inputs = InputFacts { near, ..InputFacts::default() };
    let mut findings = label_tasks(&graph, &statuses, &inputs, |task, arg| {
        provenance.get(&(task, arg.arg_index)).unwrap_or(&unknown).clone()
    });
    if let Some(scene) = options.scene {
        reference::settle_amplified(dump, &graph, &mut findings, scene, options)?;
    }
    mark(&mut findings, &derived);
    let only_first = left_out(&graph, &findings, &statuses);
    let compared = count_compared(&compared_args);
    Ok(Blame {
        graph,
        findings,
        compared_args,
        compared,
        of: dump.len(),
        matching: Matching { only_first, ..Matching::default() },
        golden: None,
        basis: BaselineKind::Golden,
        first_wrong: Vec::new(),
        agreed_live: Vec::new(),
        unjudged: Vec::new(),
        wiring: Vec::new(),
        stopped: Vec::new(),
        run: RunOutcome::default(),
        never_written: HashSet::new(),
        counting: None,
        wrong_outputs: None,
        slots: HashMap::new(),
        arrays: Some(assigned),
    })
}

pub(super) fn sides<'d>(
    blame: &Blame,
    dump: &'d Dump,
    arrays: &'d NamedArrays,
    task: usize,
    compared: &ComparedArg,
) -> Result<Option<(Side<'d>, Side<'d>)>, AnalysisError> {
    let captured = blame.graph.task(task).argument(compared.arg_index);
    let captured = captured.and_then(|arg| arg.captured(compared.stage).copied());
    let Some((captured, assigned)) = captured.zip(blame.arrays.as_ref()) else { return Ok(None) };
    let record = dump.record(captured.record)?;
    let golden = assigned.side(arrays, &record)?;
    Ok(golden.map(|(_, golden)| (side_of(dump, &record), golden)))
}

/// Compares the records of a task that have an array, and returns the status of every argument.
fn compare_task(
    dump: &Dump,
    (graph, place): (&TaskGraph, usize),
    (arrays, assigned): (&NamedArrays, &ArrayAssignment),
    (rules, options): (&RuleTable<'_>, &BlameOptions<'_>),
) -> Result<(Vec<ArgStatus>, Vec<ComparedArg>), AnalysisError> {
    let mut compared = Vec::new();
    let mut statuses = Vec::new();
    for arg in graph.task(place).arguments() {
        let mut at = |stage: DumpStage, applies: bool| -> Result<Status, AnalysisError> {
            if !applies {
                return Ok(Status::NotApplicable);
            }
            let Some(captured) = arg.captured(stage) else {
                return Ok(Status::Unknown("the content was not captured".into()));
            };
            let record = dump.record(captured.record)?;
            let Some((_, golden)) = assigned.side(arrays, &record)? else {
                return Ok(Status::Unknown(NO_ARRAY.into()));
            };
            let rule = rules.rule(place, arg, stage);
            let mut ours = side_of(dump, &record);
            // If the dump has no hashes, loading the graph computed them.
            ours.hash = ours.hash.or(captured.hash());
            let outcome: Outcome = compare(&ours, &golden, &rule, options.other_dtypes, Depth::Quick)?;
            let status = status_of(&outcome);
            compared.push(ComparedArg { arg_index: arg.arg_index, stage, rule, outcome });
            Ok(status)
        };
        let before = at(DumpStage::BeforeDispatch, arg.role.reads())?;
        let after = at(DumpStage::AfterCompletion, arg.role.writes())?;
        statuses.push(ArgStatus { before, after });
    }
    Ok((statuses, compared))
}

/// Inputs that tasks wrote and that have no array.
fn lacking_inputs(graph: &TaskGraph, statuses: &[TaskStatus]) -> Vec<(usize, u16)> {
    let mut lacking = Vec::new();
    for (task, status) in graph.tasks().iter().zip(statuses) {
        let TaskStatus::Compared(args) = status else { continue };
        for (arg, status) in task.arguments().zip(args) {
            let is_unknown = matches!(status.before, Status::Unknown(_));
            if is_unknown && cover_input(graph, arg, graph.producers_of(arg)) {
                lacking.push((task.place(), arg.arg_index));
            }
        }
    }
    lacking
}

/// Tasks that cannot be judged because the golden has no array for an output, or for the whole task.
fn left_out(graph: &TaskGraph, findings: &[Finding], statuses: &[TaskStatus]) -> Vec<UnmatchedTask> {
    let lacks = |status: &TaskStatus| match status {
        TaskStatus::Unmatched(_) => true,
        TaskStatus::Compared(args) => {
            let is_left = |a: &ArgStatus| matches!(&a.after, Status::Unknown(why) if why == NO_ARRAY);
            args.iter().any(is_left) && !args.iter().any(|a| a.after == Status::Outside)
        }
    };
    let is_left = |&place: &usize| findings[place].label == Label::Unknown && lacks(&statuses[place]);
    (0..graph.len()).filter(is_left).map(|task| UnmatchedTask { task, reason: NO_ARRAY.into() }).collect()
}
