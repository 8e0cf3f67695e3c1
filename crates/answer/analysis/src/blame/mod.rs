//! Labels every task of a dump and finds the tasks where an error began.
//!
//! Evidence: records compared with a baseline (a golden dump, arrays, references of kernels, or a rerun), the
//! task graph with its producers, and — for dumps with unknown roles — observations of memory.
//! [`crate::labels`] turns the evidence into labels.

mod arrays;
mod buffers;
mod counting;
mod golden;
mod isolated;
mod likely;
mod lost_order;
pub(crate) mod observed;
mod producers;
mod reference;
mod rerun;
mod right_runs;
mod rules;
mod slots;
mod sources;
mod stopped;
mod unwritten;
pub(crate) mod values;
mod verdict;
mod wiring;

pub(crate) use golden::{match_options, uncertain_partner};
pub use rerun::{Rerun, RerunCollector, RerunOutcome};
pub(crate) use right_runs::{GoldenArg, RightRuns};
pub(crate) use rules::RuleTable;
pub use stopped::{RunOutcome, StopKind, StoppedTask, refusal};
pub use unwritten::{UnwrittenMemory, UnwrittenShare};
pub(crate) use unwritten::{UnwrittenScan, scan_argument};
pub use verdict::{BlameVerdict, FailureReason, VerdictOptions};
pub use wiring::{ArgView, BufferChange, WiringChange, WiringDifference};

use std::collections::{HashMap, HashSet};

use tensortap_abi::DumpStage;
use tensortap_format::{Dump, FormatError};
use tensortap_interchange::NamedArrays;
use tensortap_judge::{Depth, Detail, Outcome, Rule, RuleBook, Verdict};
use tensortap_scene::Scene;

use crate::arrays::{ArrayAssignment, UnusedArray};
use crate::compare::{self, Side, is_gone};
use crate::error::AnalysisError;
use crate::evidence::WrongOutputs;
use crate::graph::TaskGraph;
use crate::labels::{Finding, Label, Status, TaskStatus, chain, first_wrong};
use crate::matching::Matching;
use crate::parallel::Work;
use crate::provenance::{InputProvenance, input_provenance};

/// Key of a dump's run information that names the golden of a live comparison (`run --live`). In such a dump,
/// a tensor with a hash and a payload `none` belongs to a task that agreed with the golden.
pub const LIVE_GOLDEN_KEY: &str = "live_golden";

/// The reason for the label `ok` of a task that agreed with its golden during the run and whose content was
/// not stored.
pub const AGREED_LIVE: &str = "equal to the golden during the run; the content was not stored";

/// How a dump is compared with its baseline.
#[derive(Clone, Default)]
pub struct BlameOptions<'a> {
    /// The comparison rules.
    pub rules: RuleBook,
    /// The golden may have other float dtypes.
    pub other_dtypes: bool,
    /// Steps of the dump to compare; empty means all.
    pub steps: Vec<(u64, u64)>,
    /// Steps of the golden to compare with; empty means all.
    pub golden_steps: Vec<(u64, u64)>,
    /// Further dumps of right runs, besides the golden. What differs between right runs is never evidence.
    pub other_goldens: Vec<&'a Dump>,
    /// The scene, whose references identify the wrong kernel of a mix task.
    pub scene: Option<&'a dyn Scene>,
    /// Threads and progress.
    pub work: Work<'a>,
}

/// The source of the expected values.
pub enum Baseline<'a> {
    /// Another dump.
    Golden(&'a Dump),
    /// Arrays in files, which may cover only some records.
    Arrays(&'a NamedArrays),
    /// The references of its scene's kernels.
    Reference(&'a dyn Scene),
    /// The outputs of a rerun of each task on its captured inputs.
    Rerun(&'a Rerun),
}

/// The kind of evidence that labels rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaselineKind {
    /// A dump or arrays of a correct run.
    Golden,
    /// The references of kernels, on captured inputs.
    References,
    /// The kernels themselves, on captured inputs.
    Rerun,
}

impl BaselineKind {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            BaselineKind::Golden => "golden",
            BaselineKind::References => "reference",
            BaselineKind::Rerun => "rerun",
        }
    }
}

/// The labels of all tasks of a dump, with their evidence.
pub struct Blame {
    /// The tasks of the dump, in dependency order.
    pub graph: TaskGraph,
    /// One label per task.
    pub findings: Vec<Finding>,
    /// The comparisons of each task.
    pub compared_args: Vec<Vec<ComparedArg>>,
    /// Number of records compared.
    pub compared: u64,
    /// Number of records in the dump.
    pub of: u64,
    /// The pairs of tasks. With arrays, only the tasks without an array; without a golden, empty.
    pub matching: Matching,
    /// The tasks of the golden, if the baseline is a dump.
    pub golden: Option<TaskGraph>,
    /// What the labels rest on.
    pub basis: BaselineKind,
    /// Positions of the tasks where an error began and that no other error led to.
    pub first_wrong: Vec<usize>,
    /// Tasks that are `ok` because they agreed with a golden during the run; their content was not stored.
    pub agreed_live: Vec<usize>,
    /// Tasks that are `unknown` because a kernel has no reference, or no kernel was named for the rerun.
    pub unjudged: Vec<usize>,
    /// Differences in how tasks are connected compared with the golden, in task order; empty without a
    /// golden.
    pub wiring: Vec<WiringDifference>,
    /// Tasks that were refused or never ended, unlike in the golden, or that failed when they ran again.
    pub stopped: Vec<StoppedTask>,
    /// How the run itself ended.
    pub run: RunOutcome,
    /// Arguments that differ before their tasks and hold memory that no task of either run wrote.
    pub never_written: HashSet<(usize, u16)>,
    /// If the baseline is a dump: arguments with elements at a stage for which a task of the run is the reason.
    pub counting: Option<HashSet<(usize, u16, DumpStage)>>,
    /// If the baseline is a dump: the outputs that tasks wrote wrong, or may have.
    pub(crate) wrong_outputs: Option<WrongOutputs>,
    /// The wrong kernels of mix tasks that are `wrong_here`, by task position, if references identify them.
    pub slots: HashMap<usize, Vec<String>>,
    /// The assignment of arrays to records, if the golden is files.
    pub(crate) arrays: Option<ArrayAssignment>,
}

/// The comparison of one record.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedArg {
    /// Argument.
    pub arg_index: u16,
    /// The stage of the record.
    pub stage: DumpStage,
    /// The rule of the comparison.
    pub rule: Rule,
    /// The result.
    pub outcome: Outcome,
}

impl Blame {
    /// Labels the tasks of a dump.
    ///
    /// ```no_run
    /// use tensortap_analysis::blame::{Baseline, Blame, BlameOptions};
    /// use tensortap_format::Dump;
    /// # fn main() -> Result<(), tensortap_analysis::AnalysisError> {
    /// let (dump, golden) = (Dump::open("outputs/wrong".as_ref())?, Dump::open("outputs/right".as_ref())?);
    /// let blame = Blame::of(&dump, &Baseline::Golden(&golden), &BlameOptions::default())?;
    /// for &place in &blame.first_wrong {
    ///     println!("task {:#x}: {}", blame.graph.task(place).task_id, blame.findings[place].label.name());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(
        dump: &Dump,
        baseline: &Baseline<'_>,
        options: &BlameOptions<'_>,
    ) -> Result<Blame, AnalysisError> {
        let mut blame = match baseline {
            Baseline::Golden(golden) => golden::blame(dump, golden, options)?,
            Baseline::Arrays(files) => arrays::blame(dump, files, options)?,
            Baseline::Reference(scene) => reference::blame(dump, *scene, options)?,
            Baseline::Rerun(rerun) => rerun::blame(dump, rerun, options)?,
        };
        blame.first_wrong = first_wrong(&blame.graph, &blame.findings);
        if let Some(golden) = &blame.golden {
            blame.stopped = stopped::stopped(&blame.graph, golden, &blame.matching);
        }
        blame.run = RunOutcome::of(dump, baseline);
        let scene = match baseline {
            Baseline::Golden(_) | Baseline::Arrays(_) => options.scene,
            Baseline::Reference(scene) => Some(*scene),
            Baseline::Rerun(_) => None,
        };
        if let Some(scene) = scene {
            blame.slots = slots::wrong_slots(dump, &blame, scene, options)?;
        }
        Ok(blame)
    }

    /// If no task is known to be wrong first, the first task that has a wrong output and no input known to be wrong.
    /// Evidence is missing, so the error may have begun there or in something that the task read.
    #[must_use]
    pub fn suspect(&self) -> Option<usize> {
        let is_suspect = |place: &usize| {
            let (task, compared) = (self.graph.task(*place), &self.compared_args[*place]);
            let outside = |stage: DumpStage| {
                let counts = move |c: &&ComparedArg| {
                    c.stage == stage && c.outcome.verdict == Verdict::Outside && self.counts(*place, c)
                };
                compared.iter().filter(counts)
            };
            let came_wrong = |c: &ComparedArg| {
                let is_unused = self.findings[*place].set_aside.contains(&c.arg_index);
                !is_unused && !self.never_written.contains(&(*place, c.arg_index))
            };
            let left_wrong = |c: &ComparedArg| match &self.wrong_outputs {
                Some(outputs) => outputs.written.contains(&(*place, c.arg_index)),
                None => task.argument(c.arg_index).is_some_and(|arg| !arg.is_unchanged()),
            };
            self.findings[*place].label == Label::Unknown
                && !self.findings[*place].depends_on_ranks
                && self.findings[*place].likely_race.is_none()
                && outside(DumpStage::AfterCompletion).any(left_wrong)
                && !outside(DumpStage::BeforeDispatch).any(came_wrong)
        };
        let is_asked = self.first_wrong.is_empty() && self.basis == BaselineKind::Golden;
        let mut suspects: Vec<usize> =
            (0..self.findings.len()).filter(|_| is_asked).filter(is_suspect).collect();
        self.graph.sort(&mut suspects);
        suspects.first().copied()
    }

    /// If no task is known to be wrong first, the first task with a likely race.
    #[must_use]
    pub fn likely_race(&self) -> Option<usize> {
        let is_likely = |place: &usize| self.findings[*place].likely_race.is_some();
        let mut likely: Vec<usize> = (0..self.findings.len()).filter(is_likely).collect();
        self.graph.sort(&mut likely);
        likely.first().copied().filter(|_| self.first_wrong.is_empty())
    }

    /// Arrays of the golden that were not assigned to a record.
    #[must_use]
    pub fn unused_arrays(&self) -> &[UnusedArray] {
        self.arrays.as_ref().map_or(&[], |assigned| &assigned.unused)
    }

    /// The wrong kernels of a mix task, if references identify them.
    #[must_use]
    pub fn identified_kernels(&self, place: usize) -> Option<&[String]> {
        self.slots.get(&place).map(Vec::as_slice)
    }

    /// The kernels of a `wrong_here` task that are, or may be, wrong. Empty for other labels.
    #[must_use]
    pub fn wrong_kernels(&self, place: usize) -> Vec<String> {
        match self.identified_kernels(place) {
            Some(names) => names.to_vec(),
            None if self.findings[place].label == Label::WrongHere => self.graph.task(place).kernel_names(),
            None => Vec::new(),
        }
    }

    /// Number of records that left the dump while they were read, because the run goes on (`--dump-last`).
    #[must_use]
    pub fn gone(&self) -> u64 {
        self.compared_args.iter().flatten().filter(|compared| is_gone(&compared.outcome)).count() as u64
    }

    /// Number of tasks with a label.
    #[must_use]
    pub fn count(&self, label: Label) -> usize {
        self.findings.iter().filter(|f| f.label == label).count()
    }

    /// Records of a task that are outside their rules; for a raced or fed task, these include its inputs.
    pub fn outside(&self, task: usize) -> impl Iterator<Item = &ComparedArg> {
        self.compared_args[task].iter().filter(|c| c.outcome.verdict == Verdict::Outside)
    }

    /// The shortest path along which the error of a task spread to the last task that shows it.
    #[must_use]
    pub fn chain(&self, task: usize) -> Vec<usize> {
        chain(&self.graph, &self.findings, task)
    }

    /// Compares a record outside its rule again, without memory that no task of either run wrote. Also
    /// returns how much of the difference no task wrote.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn as_written(
        &self,
        dump: &Dump,
        baseline: &Baseline<'_>,
        task: usize,
        compared: &ComparedArg,
        options: &BlameOptions<'_>,
    ) -> Result<(ComparedArg, UnwrittenMemory), AnalysisError> {
        let Baseline::Golden(golden) = baseline else {
            return Ok((compared.clone(), UnwrittenMemory::default()));
        };
        let scan = unwritten::scan(self, (dump, golden), task, compared)?;
        let sides = match scan.masked {
            Some(_) => self.sides(dump, baseline, task, compared)?,
            None => None,
        };
        let mut unwritten = scan.unwritten;
        let Some((ours, golden)) = sides else { return Ok((compared.clone(), unwritten)) };
        let outcome = compare::compare(&ours, &golden, &compared.rule, options.other_dtypes, Depth::Quick)?;
        if outcome.verdict == Verdict::Within {
            unwritten.in_both = UnwrittenShare::All;
        }
        Ok((ComparedArg { outcome, ..compared.clone() }, unwritten))
    }

    /// The distribution of the errors of a record; `None` without bytes to compare.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn detail(
        &self,
        dump: &Dump,
        baseline: &Baseline<'_>,
        task: usize,
        compared: &ComparedArg,
        options: &BlameOptions<'_>,
    ) -> Result<Option<Detail>, AnalysisError> {
        if let Baseline::Rerun(rerun) = baseline {
            return Ok(rerun::detail(self, rerun, task, compared));
        }
        let across = options.other_dtypes || matches!(baseline, Baseline::Reference(_));
        let Some((ours, golden)) = self.sides(dump, baseline, task, compared)? else { return Ok(None) };
        Ok(compare::detail(&ours, &golden, &compared.rule, across)?)
    }

    /// The actual and the expected content of a record; `None` if one of them is missing, as for a rerun.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn sides<'d>(
        &self,
        dump: &'d Dump,
        baseline: &'d Baseline<'_>,
        task: usize,
        compared: &ComparedArg,
    ) -> Result<Option<(Side<'d>, Side<'d>)>, AnalysisError> {
        match baseline {
            Baseline::Golden(golden) => Ok(golden::sides(self, dump, golden, task, compared)?),
            Baseline::Arrays(files) => arrays::sides(self, dump, files, task, compared),
            Baseline::Reference(scene) => Ok(reference::sides(self, dump, *scene, task, compared)?),
            Baseline::Rerun(_) => Ok(None),
        }
    }
}

/// The provenance of each of these inputs.
fn all_provenances(
    dump: &Dump,
    graph: &TaskGraph,
    inputs: &[(usize, u16)],
    work: Work<'_>,
) -> Result<HashMap<(usize, u16), InputProvenance>, FormatError> {
    let answers = work.map(inputs, |&(task, arg_index)| match graph.task(task).argument(arg_index) {
        Some(arg) => input_provenance(dump, graph, task, arg),
        None => Ok(InputProvenance::Same),
    })?;
    Ok(inputs.iter().copied().zip(answers).collect())
}

fn status_of(outcome: &Outcome) -> Status {
    match outcome.verdict {
        Verdict::Within => Status::Within,
        Verdict::Outside => Status::Outside,
        Verdict::Unknown => Status::Unknown(outcome.reason().unwrap_or("it cannot be compared").into()),
    }
}

/// Inputs outside their rules that earlier tasks touched, by task and argument.
fn outside_inputs(graph: &TaskGraph, statuses: &[TaskStatus]) -> Vec<(usize, u16)> {
    let mut outside = Vec::new();
    for (task, status) in graph.tasks().iter().zip(statuses) {
        let TaskStatus::Compared(args) = status else { continue };
        for (arg, status) in task.arguments().zip(args) {
            if status.before == Status::Outside && !graph.last_holders(arg).is_empty() {
                outside.push((task.place(), arg.arg_index));
            }
        }
    }
    outside
}

fn count_compared(compared: &[Vec<ComparedArg>]) -> u64 {
    compared.iter().flatten().filter(|c| c.outcome.verdict != Verdict::Unknown).count() as u64
}
