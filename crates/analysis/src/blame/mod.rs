//! The first wrong tasks of a dump, and a label for every task.

mod alone;
mod arrays;
mod buffers;
mod golden;
mod likely;
pub(crate) mod observed;
mod producers;
mod reference;
mod rerun;
mod rules;
mod slots;
mod sources;
mod stopped;
mod unwritten;
pub(crate) mod values;
mod wiring;

pub(crate) use golden::match_options;
pub use rerun::{Rerun, RerunTask, Rerunning};
pub(crate) use rules::RuleTable;
pub use stopped::{StopKind, Stopped, refusal};
pub(crate) use unwritten::{Looked, look_at};
pub use unwritten::{Share, Unwritten};
pub use wiring::{OtherBuffer, Rewired, TakenView, WiringDifference};

use std::collections::{HashMap, HashSet};

use tensortap_abi::DumpStage;
use tensortap_format::{Dump, FormatError, GoldenVerdict};
use tensortap_interchange::NamedArrays;
use tensortap_judge::{Depth, Detail, Outcome, Rule, RuleBook, Verdict};
use tensortap_scene::Scene;

use crate::arrays::{Assigned, UnusedArray};
use crate::carry::{Carried, carried};
use crate::compare::{self, Side, is_gone};
use crate::error::AnalysisError;
use crate::graph::TaskGraph;
use crate::labels::{Finding, Label, Status, TaskStatus, chain, first_wrong};
use crate::matching::Matching;
use crate::parallel::Work;

/// Key of a dump's run information that names the golden it was compared with while it ran (`run --live`). A tensor of such a
/// dump whose hash is there and whose payload is `none` belongs to a task that agreed.
pub const LIVE_GOLDEN_KEY: &str = "live_golden";

/// What the label of a task rests on that agreed with its golden while it ran, and of which no content is there for its
/// reference.
pub const AGREED_LIVE: &str = "equal to the golden while it ran; its content was not kept";

/// How a dump is held against its golden.
#[derive(Clone, Default)]
pub struct BlameOptions<'a> {
    /// The rules.
    pub rules: RuleBook,
    /// The golden may have other float dtypes.
    pub other_dtypes: bool,
    /// Steps of the dump that are meant; none stand for all.
    pub steps: Vec<(u64, u64)>,
    /// Steps of the golden that they are held against; none stand for all.
    pub golden_steps: Vec<(u64, u64)>,
    /// The scene, whose references tell the kernels of a mix task apart.
    pub scene: Option<&'a dyn Scene>,
    /// Threads and progress.
    pub work: Work<'a>,
}

/// What a dump was held against.
pub enum Against<'a> {
    /// Another dump.
    Golden(&'a Dump),
    /// Arrays in files, which stand for some of its records.
    Arrays(&'a NamedArrays),
    /// The references of its scene's kernels.
    Reference(&'a dyn Scene),
    /// What its tasks made of their captured inputs when they ran again.
    Rerun(&'a Rerun),
}

/// What labels of tasks rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// A dump or arrays of a run that was right.
    Golden,
    /// The references of kernels, on captured inputs.
    References,
    /// The kernels themselves, on captured inputs.
    Rerun,
}

impl Basis {
    /// Spelled as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Basis::Golden => "golden",
            Basis::References => "reference",
            Basis::Rerun => "rerun",
        }
    }
}

/// What is known of every task of a dump.
pub struct Blame {
    /// Its tasks, in dependency order.
    pub graph: TaskGraph,
    /// A label per task.
    pub findings: Vec<Finding>,
    /// What was compared, per task.
    pub compared_args: Vec<Vec<ComparedArg>>,
    /// Records that were compared.
    pub compared: u64,
    /// Records of the dump.
    pub of: u64,
    /// Which tasks of the golden are which; against arrays, the tasks that they do not judge; empty without a golden.
    pub matching: Matching,
    /// Tasks of the golden dump, where it is one.
    pub golden: Option<TaskGraph>,
    /// What tasks were held against.
    pub basis: Basis,
    /// The tasks at which an error began and that no other error led to: positions in the graph.
    pub first_wrong: Vec<usize>,
    /// Tasks that are `ok` because they agreed with a golden while they ran: nothing of them was kept for a reference.
    pub agreed_live: Vec<usize>,
    /// Tasks that are unknown because a kernel of theirs has no reference, or none was given to run them again: nothing is wrong because
    /// of that.
    pub unjudged: Vec<usize>,
    /// Where the orchestration is not that of the golden, in the order of tasks; empty without a golden.
    pub wiring: Vec<WiringDifference>,
    /// Tasks that were refused or never ended, and not in the golden; empty without a golden dump.
    pub stopped: Vec<Stopped>,
    /// Arguments that held memory before their tasks which no task of either run ever wrote, and differ.
    pub never_written: HashSet<(usize, u16)>,
    /// The wrong kernels of mix tasks that are wrong here, by position, where that can be told.
    pub slots: HashMap<usize, Vec<String>>,
    /// Which array stands for which record, where the golden is files.
    pub(crate) arrays: Option<Assigned>,
}

/// One record that was compared.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedArg {
    /// Argument.
    pub arg_index: u16,
    /// When it was captured.
    pub stage: DumpStage,
    /// The rule it was held against.
    pub rule: Rule,
    /// How it compares.
    pub outcome: Outcome,
}

impl Blame {
    /// Labels the tasks of a dump.
    ///
    /// ```no_run
    /// use tensortap_analysis::blame::{Against, Blame, BlameOptions};
    /// use tensortap_format::Dump;
    /// # fn main() -> Result<(), tensortap_analysis::AnalysisError> {
    /// let (dump, golden) = (Dump::open("outputs/wrong".as_ref())?, Dump::open("outputs/right".as_ref())?);
    /// let blame = Blame::of(&dump, &Against::Golden(&golden), &BlameOptions::default())?;
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
        against: &Against<'_>,
        options: &BlameOptions<'_>,
    ) -> Result<Blame, AnalysisError> {
        let mut blame = match against {
            Against::Golden(golden) => golden::blame(dump, golden, options)?,
            Against::Arrays(files) => arrays::blame(dump, files, options)?,
            Against::Reference(scene) => reference::blame(dump, *scene, options)?,
            Against::Rerun(rerun) => rerun::blame(dump, rerun, options)?,
        };
        blame.first_wrong = first_wrong(&blame.graph, &blame.findings);
        if let Some(golden) = &blame.golden {
            blame.stopped = stopped::stopped(&blame.graph, golden, &blame.matching);
        }
        let scene = match against {
            Against::Golden(_) | Against::Arrays(_) => options.scene,
            Against::Reference(scene) => Some(*scene),
            Against::Rerun(_) => None,
        };
        if let Some(scene) = scene {
            blame.slots = slots::wrong_slots(dump, &blame, scene, options)?;
        }
        Ok(blame)
    }

    /// Where no task is known to be wrong first, the first that may be: what is known of what it was given is right, what it left is not, and
    /// something of it is not known.
    #[must_use]
    pub fn suspect(&self) -> Option<usize> {
        let is_suspect = |place: &usize| {
            let (task, compared) = (self.graph.task(*place), &self.compared_args[*place]);
            let outside = |stage: DumpStage| {
                compared.iter().filter(move |c| c.stage == stage && c.outcome.verdict == Verdict::Outside)
            };
            let came_wrong = |c: &ComparedArg| {
                let arg = task.argument(c.arg_index);
                arg.is_none_or(|arg| !self.graph.origin(arg).is_external())
            };
            let left_wrong =
                |c: &ComparedArg| task.argument(c.arg_index).is_some_and(|arg| !arg.is_unchanged());
            self.findings[*place].label == Label::Unknown
                && outside(DumpStage::AfterCompletion).any(left_wrong)
                && !outside(DumpStage::BeforeDispatch).any(came_wrong)
        };
        let is_asked = self.first_wrong.is_empty() && self.basis == Basis::Golden;
        let mut suspects: Vec<usize> =
            (0..self.findings.len()).filter(|_| is_asked).filter(is_suspect).collect();
        self.graph.sort(&mut suspects);
        suspects.first().copied()
    }

    /// Where no task is known to be wrong first, the first of which a race is likely.
    #[must_use]
    pub fn likely_race(&self) -> Option<usize> {
        let is_likely = |place: &usize| self.findings[*place].likely_race.is_some();
        let mut likely: Vec<usize> = (0..self.findings.len()).filter(is_likely).collect();
        self.graph.sort(&mut likely);
        likely.first().copied().filter(|_| self.first_wrong.is_empty())
    }

    /// Whether nothing is wrong and something was compared. Tasks without a partner count as wrong unless they are allowed.
    #[must_use]
    pub fn passes(&self, allow_unmatched: bool) -> bool {
        let Matching { only_first, only_second, .. } = &self.matching;
        let unmatched = only_first.len() + only_second.len() + self.unused_arrays().len();
        let left_out: HashSet<usize> = only_first.iter().map(|unmatched| unmatched.task).collect();
        let is_left_out = |place: usize| allow_unmatched && left_out.contains(&place);
        let unjudged: HashSet<usize> = self.unjudged.iter().copied().collect();
        let good = |(place, f): (usize, &Finding)| {
            f.label.is_good() || unjudged.contains(&place) || is_left_out(place)
        };
        self.compared > 0 && (allow_unmatched || unmatched == 0) && self.findings.iter().enumerate().all(good)
    }

    /// Whether the orchestration is to be suspected: the run's own golden says that its outputs are wrong, and every kernel made
    /// of what it was given what its reference makes of it.
    #[must_use]
    pub fn suspects_orchestration(&self, dump: &Dump) -> bool {
        let failed = dump.footer().is_some_and(|footer| footer.golden == Some(GoldenVerdict::Fail));
        let is_right = |finding: &Finding| finding.label == Label::Ok;
        let by_references =
            self.basis == Basis::References && self.agreed_live.is_empty() && self.compared > 0;
        failed && by_references && self.findings.iter().all(is_right)
    }

    /// Whether the culprit may be among the kernels that nothing was held against: the run's own golden says that its outputs are wrong,
    /// and every kernel that has a reference is right.
    #[must_use]
    pub fn suspects_unjudged(&self, dump: &Dump) -> bool {
        let failed = dump.footer().is_some_and(|footer| footer.golden == Some(GoldenVerdict::Fail));
        let unjudged: HashSet<usize> = self.unjudged.iter().copied().collect();
        let is_open =
            |(place, finding): (usize, &Finding)| finding.label == Label::Ok || unjudged.contains(&place);
        failed
            && self.basis == Basis::References
            && !unjudged.is_empty()
            && self.findings.iter().enumerate().all(is_open)
    }

    /// Arrays of the golden that stand for no record.
    #[must_use]
    pub fn unused_arrays(&self) -> &[UnusedArray] {
        self.arrays.as_ref().map_or(&[], |assigned| &assigned.unused)
    }

    /// The kernels of a mix task that are wrong, where that can be told.
    #[must_use]
    pub fn told_kernels(&self, place: usize) -> Option<&[String]> {
        self.slots.get(&place).map(Vec::as_slice)
    }

    /// The kernels of a task that is wrong here which are, or may be, wrong; of any other task none.
    #[must_use]
    pub fn wrong_kernels(&self, place: usize) -> Vec<String> {
        match self.told_kernels(place) {
            Some(told) => told.to_vec(),
            None if self.findings[place].label == Label::WrongHere => self.graph.task(place).kernel_names(),
            None => Vec::new(),
        }
    }

    /// Records that a run which goes on let go while they were read.
    #[must_use]
    pub fn gone(&self) -> u64 {
        self.compared_args.iter().flatten().filter(|compared| is_gone(&compared.outcome)).count() as u64
    }

    /// Tasks of a label.
    #[must_use]
    pub fn count(&self, label: Label) -> usize {
        self.findings.iter().filter(|f| f.label == label).count()
    }

    /// Records of a task that are outside their rules; of a task that raced or was fed, its inputs too.
    pub fn outside(&self, task: usize) -> impl Iterator<Item = &ComparedArg> {
        self.compared_args[task].iter().filter(|c| c.outcome.verdict == Verdict::Outside)
    }

    /// A shortest way by which the error of a task reached the last task that shows it.
    #[must_use]
    pub fn chain(&self, task: usize) -> Vec<usize> {
        chain(&self.graph, &self.findings, task)
    }

    /// A record that is outside its rule, by what tasks made of it alone: memory that no task of either run wrote is left out. How much of what
    /// differs no task wrote is told with it.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn as_written(
        &self,
        dump: &Dump,
        against: &Against<'_>,
        task: usize,
        compared: &ComparedArg,
        options: &BlameOptions<'_>,
    ) -> Result<(ComparedArg, Unwritten), AnalysisError> {
        let Against::Golden(golden) = against else { return Ok((compared.clone(), Unwritten::default())) };
        let looked = unwritten::look(self, (dump, golden), task, compared)?;
        let sides = match looked.masked {
            Some(_) => self.sides(dump, against, task, compared)?,
            None => None,
        };
        let mut unwritten = looked.unwritten;
        let Some((ours, golden)) = sides else { return Ok((compared.clone(), unwritten)) };
        let outcome = compare::compare(&ours, &golden, &compared.rule, options.other_dtypes, Depth::Quick)?;
        if outcome.verdict == Verdict::Within {
            unwritten.in_both = Share::All;
        }
        Ok((ComparedArg { outcome, ..compared.clone() }, unwritten))
    }

    /// Where the errors of a record sit; `None` when there are no bytes to look at.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn detail(
        &self,
        dump: &Dump,
        against: &Against<'_>,
        task: usize,
        compared: &ComparedArg,
        options: &BlameOptions<'_>,
    ) -> Result<Option<Detail>, AnalysisError> {
        if let Against::Rerun(rerun) = against {
            return Ok(rerun::detail(self, rerun, task, compared));
        }
        let across = options.other_dtypes || matches!(against, Against::Reference(_));
        let Some((ours, golden)) = self.sides(dump, against, task, compared)? else { return Ok(None) };
        Ok(compare::detail(&ours, &golden, &compared.rule, across)?)
    }

    /// What a record of a task holds and what it should; `None` when one of them is not there, as of what ran again.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn sides<'d>(
        &self,
        dump: &'d Dump,
        against: &'d Against<'_>,
        task: usize,
        compared: &ComparedArg,
    ) -> Result<Option<(Side<'d>, Side<'d>)>, AnalysisError> {
        match against {
            Against::Golden(golden) => Ok(golden::sides(self, dump, golden, task, compared)?),
            Against::Arrays(files) => arrays::sides(self, dump, files, task, compared),
            Against::Reference(scene) => Ok(reference::sides(self, dump, *scene, task, compared)?),
            Against::Rerun(_) => Ok(None),
        }
    }
}

/// Whether each of these inputs is what its producers wrote.
fn carried_all(
    dump: &Dump,
    graph: &TaskGraph,
    inputs: &[(usize, u16)],
    work: Work<'_>,
) -> Result<HashMap<(usize, u16), Carried>, FormatError> {
    let answers = work.map(inputs, |&(task, arg_index)| match graph.task(task).argument(arg_index) {
        Some(arg) => carried(dump, graph, task, arg),
        None => Ok(Carried::Same),
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

/// Inputs that are outside, by task and argument.
fn outside_inputs(graph: &TaskGraph, statuses: &[TaskStatus]) -> Vec<(usize, u16)> {
    let mut outside = Vec::new();
    for (task, status) in graph.tasks().iter().zip(statuses) {
        let TaskStatus::Compared(args) = status else { continue };
        for (arg, status) in task.arguments().zip(args) {
            if status.before == Status::Outside && !graph.left_behind(arg).is_empty() {
                outside.push((task.place(), arg.arg_index));
            }
        }
    }
    outside
}

fn count_compared(compared: &[Vec<ComparedArg>]) -> u64 {
    compared.iter().flatten().filter(|c| c.outcome.verdict != Verdict::Unknown).count() as u64
}
