//! Judges each task by a rerun: its kernels run again on the captured inputs, and the outputs are compared.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, Dump, FormatError, TaskKey};
use tensortap_judge::{Depth, Detail, Outcome, Verdict};

use super::isolated::label_outputs;
use super::{
    BaselineKind, Blame, BlameOptions, ComparedArg, RuleTable, RunOutcome, StopKind, StoppedTask,
    count_compared, status_of,
};
use crate::compare::{self, Side, compare, record_side};
use crate::error::AnalysisError;
use crate::graph::{TaskGraph, load};
use crate::labels::{Label, Status};
use crate::matching::Matching;

/// The result of rerunning one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RerunOutcome {
    /// The task ran to its end and its outputs were compared.
    Ran,
    /// No kernel was named to run it with. This does not make the verdict fail.
    NoKernel(String),
    /// The task crashed or hung, or wrote to memory that is not its own; with the reason.
    Failed(String),
    /// The task did not run; with the reason.
    Unknown(String),
}

/// The comparison of a captured output with the output of the rerun.
struct RerunOutput {
    compared: ComparedArg,
    /// The distribution of the errors, for an output outside its rule.
    detail: Option<Detail>,
}

/// Receives the outputs of rerun tasks and keeps only their comparisons.
pub struct RerunCollector<'a> {
    dump: &'a Dump,
    graph: &'a TaskGraph,
    rules: RuleTable<'a>,
    found: Mutex<HashMap<(TaskKey, u16), RerunOutput>>,
}

/// The results of all rerun tasks.
#[derive(Default)]
pub struct Rerun {
    outputs: HashMap<(TaskKey, u16), RerunOutput>,
    tasks: HashMap<TaskKey, RerunOutcome>,
}

impl Rerun {
    /// Reruns tasks: `run` passes each output to [`RerunCollector::output`] and returns the outcome of each
    /// task.
    ///
    /// # Errors
    /// A file cannot be read, or an error of `run`.
    pub fn of<E: From<AnalysisError>>(
        dump: &Dump,
        options: &BlameOptions<'_>,
        run: impl FnOnce(&RerunCollector<'_>) -> Result<HashMap<TaskKey, RerunOutcome>, E>,
    ) -> Result<Rerun, E> {
        let graph = load(dump, &options.steps).map_err(|error| E::from(error.into()))?;
        let rules = RuleTable::of(&options.rules, &graph);
        let rerunning = RerunCollector { dump, graph: &graph, rules, found: Mutex::default() };
        let tasks = run(&rerunning)?;
        let outputs = rerunning.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Rerun { outputs, tasks })
    }
}

impl RerunCollector<'_> {
    /// Takes an output of a task, packed in row-major order.
    pub fn output(&self, task: TaskKey, arg_index: u16, content: &[u8]) {
        let Some(place) = self.graph.tasks().find(task).map(|task| task.place()) else { return };
        let Some(arg) = self.graph.task(place).argument(arg_index) else { return };
        let rule = self.rules.rule(place, arg, DumpStage::AfterCompletion);
        let compared = |(outcome, detail)| RerunOutput {
            compared: ComparedArg { arg_index, stage: DumpStage::AfterCompletion, rule, outcome },
            detail,
        };
        let output = match self.compare(arg, content, &rule) {
            Ok(found) => compared(found),
            Err(error) => compared((Outcome::unknown(error.to_string()), None)),
        };
        self.found.lock().unwrap_or_else(PoisonError::into_inner).insert((task, arg_index), output);
    }

    fn compare(
        &self,
        arg: Argument<'_>,
        content: &[u8],
        rule: &tensortap_judge::Rule,
    ) -> Result<(Outcome, Option<Detail>), FormatError> {
        let Some(captured) = arg.after else { return Ok((Outcome::unknown(NOT_CAPTURED), None)) };
        let side = record_side(self.dump, &self.dump.record(captured.record)?);
        let again = Side::of_bytes(arg.dtype, arg.shape(), content.to_vec());
        let outcome = compare(&side, &again, rule, true, Depth::Quick)?;
        let detail = match outcome.verdict {
            Verdict::Outside => compare::detail(&side, &again, rule, true)?,
            Verdict::Within | Verdict::Unknown => None,
        };
        Ok((outcome, detail))
    }
}

const NOT_CAPTURED: &str = "the content was not captured";
const NOT_RUN: &str = "the task was not rerun";

pub(super) fn blame(dump: &Dump, rerun: &Rerun, options: &BlameOptions<'_>) -> Result<Blame, AnalysisError> {
    let graph = load(dump, &options.steps)?;
    let results = (0..graph.len()).map(|place| judge(&graph, place, rerun)).collect();
    let (findings, compared_args) = label_outputs(dump, &graph, results, options.work)?;
    let has_none = |&place: &usize| {
        let said = rerun.tasks.get(&graph.task(place).key());
        findings[place].label == Label::Unknown && matches!(said, Some(RerunOutcome::NoKernel(_)))
    };
    let unjudged = (0..graph.len()).filter(has_none).collect();
    let of = graph.tasks().iter().flat_map(|task| task.outputs()).count() as u64;
    let stopped = (0..graph.len()).filter_map(|place| failed_again(&graph, place, rerun)).collect();
    Ok(Blame {
        findings,
        compared: count_compared(&compared_args),
        compared_args,
        of,
        matching: Matching::default(),
        golden: None,
        basis: BaselineKind::Rerun,
        first_wrong: Vec::new(),
        agreed_live: Vec::new(),
        unjudged,
        wiring: Vec::new(),
        stopped,
        run: RunOutcome::default(),
        never_written: HashSet::new(),
        counting: None,
        wrong_outputs: None,
        slots: HashMap::new(),
        arrays: None,
        graph,
    })
}

fn failed_again(graph: &TaskGraph, place: usize, rerun: &Rerun) -> Option<StoppedTask> {
    match rerun.tasks.get(&graph.task(place).key()) {
        Some(RerunOutcome::Failed(why)) => {
            Some(StoppedTask { task: place, how: StopKind::FailedAgain(why.clone()), ended_in_golden: true })
        }
        _ => None,
    }
}

/// The status of each argument of a task, and the comparisons.
fn judge(graph: &TaskGraph, place: usize, rerun: &Rerun) -> (Vec<Status>, Vec<ComparedArg>) {
    let task = graph.task(place);
    let mut compared = Vec::new();
    let said = rerun.tasks.get(&task.key());
    let mut status = |arg: Argument<'_>| {
        if arg.is_scalar() || !arg.role.writes() {
            return Status::NotApplicable;
        }
        match (said, rerun.outputs.get(&(task.key(), arg.arg_index))) {
            (Some(RerunOutcome::Ran), Some(output)) => {
                compared.push(output.compared.clone());
                status_of(&output.compared.outcome)
            }
            (
                Some(RerunOutcome::NoKernel(why) | RerunOutcome::Failed(why) | RerunOutcome::Unknown(why)),
                _,
            ) => Status::Unknown(why.clone()),
            (Some(RerunOutcome::Ran) | None, _) => Status::Unknown(NOT_RUN.into()),
        }
    };
    (task.arguments().map(&mut status).collect(), compared)
}

pub(super) fn detail(blame: &Blame, rerun: &Rerun, task: usize, compared: &ComparedArg) -> Option<Detail> {
    let key = (blame.graph.task(task).key(), compared.arg_index);
    rerun.outputs.get(&key).and_then(|output| output.detail.clone())
}
