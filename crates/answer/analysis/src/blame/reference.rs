//! Judges each task by itself: runs the references of its kernels on its captured inputs and compares the
//! outputs.

use std::collections::{HashMap, HashSet};

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, ArgumentSnapshot, Dump, FormatError, PayloadState, Task};
use tensortap_judge::{Depth, Outcome, Verdict};
use tensortap_scene::Scene;

use super::isolated::label_outputs;
use super::{
    AGREED_LIVE, BaselineKind, Blame, BlameOptions, ComparedArg, LIVE_GOLDEN_KEY, RuleTable, RunOutcome,
    count_compared, status_of,
};
use crate::compare::{Side, compare, damage};
use crate::error::AnalysisError;
use crate::graph::{TaskGraph, load_with_progress};
use crate::labels::{Finding, Label, Status};
use crate::matching::Matching;
use crate::reference::rebuilt_inputs::{RebuiltInputs, has_only_outputs};
use crate::reference::{ExpectedTensor, References, captured_side};

const NON_FINITE: &str =
    "an input holds NaN or infinities, where kernel and reference may legitimately differ";

pub(super) fn blame(
    dump: &Dump,
    scene: &dyn Scene,
    options: &BlameOptions<'_>,
) -> Result<Blame, AnalysisError> {
    let work = options.work;
    let graph = load_with_progress(dump, &options.steps, &|| work.check_canceled())?;
    let references = References::of(scene);
    let mut rules = options.rules.clone();
    rules.kernels.extend(references.tolerances());
    let places: Vec<usize> = (0..graph.len()).collect();
    let given = RebuiltInputs::of(dump, &graph, &references)?;
    let table = RuleTable::of(&rules, &graph);
    let judged = |&task: &usize| judge(dump, &graph, task, (&references, given.as_ref()), &table);
    let results = options.work.map(&places, judged)?;
    drop(table);
    let (mut findings, compared_args) = label_outputs(dump, &graph, results, options.work)?;
    for (place, finding) in findings.iter_mut().enumerate() {
        let is_judged = finding.label != Label::Unknown;
        finding.rests_on_producers = is_judged && has_only_outputs(graph.task(place));
    }
    drop(given);
    let mut agreed_live = Vec::new();
    for (place, finding) in findings.iter_mut().enumerate().filter(|(_, f)| f.label == Label::Unknown) {
        if is_agreed_live(dump, graph.task(place)) {
            (finding.label, finding.reason, finding.arg_index) = (Label::Ok, Some(AGREED_LIVE.into()), None);
            agreed_live.push(place);
        }
    }
    let is_unjudged = |&place: &usize| {
        findings[place].label == Label::Unknown && references.are_not_declared(graph.task(place))
    };
    let unjudged = places.iter().copied().filter(is_unjudged).collect();
    let agreed = agreed_live.iter().map(|&place| graph.task(place).outputs().count() as u64);
    let compared = count_compared(&compared_args) + agreed.sum::<u64>();
    let of = graph.tasks().iter().flat_map(|task| task.outputs()).count() as u64;
    let matching = Matching::default();
    Ok(Blame {
        graph,
        findings,
        compared_args,
        compared,
        of,
        matching,
        golden: None,
        basis: BaselineKind::References,
        first_wrong: Vec::new(),
        agreed_live,
        unjudged,
        wiring: Vec::new(),
        stopped: Vec::new(),
        run: RunOutcome::default(),
        never_written: HashSet::new(),
        counting: None,
        wrong_outputs: None,
        slots: HashMap::new(),
        arrays: None,
    })
}

/// Uses references to decide tasks with a near-equal wrong input: either the error was amplified there, or a
/// second began.
pub(super) fn settle_amplified(
    dump: &Dump,
    graph: &TaskGraph,
    findings: &mut [Finding],
    scene: &dyn Scene,
    options: &BlameOptions<'_>,
) -> Result<(), FormatError> {
    let references = References::of(scene);
    let mut rules = options.rules.clone();
    rules.kernels.extend(references.tolerances());
    let table = RuleTable::of(&rules, graph);
    for (place, finding) in findings.iter_mut().enumerate().filter(|(_, f)| f.is_amplified) {
        let (statuses, _) = judge(dump, graph, place, (&references, None), &table)?;
        let said = finding.reason.take().unwrap_or_default();
        if statuses.contains(&Status::Outside) {
            finding.label = Label::WrongHere;
            finding.reason =
                Some(format!("{said}; its reference shows that the task is also wrong by itself"));
        } else if statuses.iter().all(|s| matches!(s, Status::Within | Status::NotApplicable)) {
            finding.reason = Some(format!("{said}; its reference shows that the kernel is right"));
        } else {
            finding.reason = Some(said);
        }
    }
    Ok(())
}

/// Whether a live comparison found the task equal to its golden and stored none of its content.
fn is_agreed_live(dump: &Dump, task: Task<'_>) -> bool {
    let captures = || task.arguments().filter(|a| !a.is_scalar()).flat_map(|a| [a.before, a.after]).flatten();
    if !dump.info().extra.contains_key(LIVE_GOLDEN_KEY) || task.is_unfinished() || captures().next().is_none()
    {
        return false;
    }
    captures().all(|captured| captured.hash().is_some() && captured.payload == PayloadState::None)
}

/// Compares the outputs of a task with its references. Returns a status per argument and the comparisons.
fn judge(
    dump: &Dump,
    graph: &TaskGraph,
    place: usize,
    (references, given): (&References, Option<&RebuiltInputs<'_>>),
    rules: &RuleTable<'_>,
) -> Result<(Vec<Status>, Vec<ComparedArg>), FormatError> {
    let task = graph.task(place);
    let stage = DumpStage::AfterCompletion;
    let mut compared = Vec::new();
    let writes = |arg: Argument<'_>| arg.role.writes() && !arg.is_scalar();
    if !task.arguments().any(writes) {
        return Ok((vec![Status::NotApplicable; task.arguments().len()], compared));
    }
    let expected = match given.filter(|_| has_only_outputs(task)) {
        Some(given) => given.expect(references, place)?,
        None => references.expect(dump, task)?,
    };
    let mut statuses = Vec::new();
    for arg in task.arguments() {
        if !writes(arg) {
            statuses.push(Status::NotApplicable);
            continue;
        }
        let rule = rules.rule(place, arg, stage);
        let outcome = match (&expected, arg.after) {
            (_, None) => Outcome::unknown("the content was not captured"),
            (Err(reason), _) => Outcome::unknown(reason.clone()),
            (Ok(all), Some(captured)) => match all.iter().find(|e| e.arg_index == arg.arg_index) {
                Some(expected) => {
                    let side = captured_side(dump, arg, captured)?;
                    let outcome = compare(&side, &expected.side(), &rule, true, Depth::Quick)?;
                    unless_doubtful(dump, task, (arg, captured), expected, outcome)?
                }
                None => Outcome::unknown("the reference does not write this argument"),
            },
        };
        statuses.push(status_of(&outcome));
        compared.push(ComparedArg { arg_index: arg.arg_index, stage, rule, outcome });
    }
    Ok((statuses, compared))
}

/// Downgrades an outcome outside its rule to unknown if a payload it rests on is damaged, or an input holds
/// values that the reference does not cover.
fn unless_doubtful(
    dump: &Dump,
    task: Task<'_>,
    (arg, captured): (Argument<'_>, ArgumentSnapshot),
    expected: &ExpectedTensor,
    outcome: Outcome,
) -> Result<Outcome, FormatError> {
    if outcome.verdict != Verdict::Outside {
        return Ok(outcome);
    }
    // 64-bit integers were compared as a converted copy without a hash.
    let copied = std::iter::once(captured).filter(|_| arg.dtype.bits() == 64);
    let given = task.arguments().filter(|a| a.role.reads() && !a.is_scalar()).filter_map(|a| a.before);
    for used in copied.chain(given) {
        if let Some(reason) = damage(dump, &dump.record(used.record)?)? {
            return Ok(Outcome::unknown(reason));
        }
    }
    Ok(if expected.from_non_finite { Outcome::unknown(NON_FINITE) } else { outcome })
}

pub(super) fn sides<'d>(
    blame: &Blame,
    dump: &'d Dump,
    scene: &dyn Scene,
    task: usize,
    compared: &ComparedArg,
) -> Result<Option<(Side<'d>, Side<'d>)>, FormatError> {
    let node = blame.graph.task(task);
    let references = References::of(scene);
    let given =
        if has_only_outputs(node) { RebuiltInputs::of(dump, &blame.graph, &references)? } else { None };
    let expected = match given {
        Some(given) => given.expect(&references, task)?,
        None => references.expect(dump, node)?,
    };
    let Ok(expected) = expected else { return Ok(None) };
    let expected = expected.into_iter().find(|e: &ExpectedTensor| e.arg_index == compared.arg_index);
    let arg = node.argument(compared.arg_index);
    let Some(((arg, captured), expected)) = arg.and_then(|a| Some((a, a.after?))).zip(expected) else {
        return Ok(None);
    };
    let golden = Side::of_bytes(expected.dtype, &expected.shape, expected.bytes);
    Ok(Some((captured_side(dump, arg, captured)?, golden)))
}
