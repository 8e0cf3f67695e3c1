//! The first wrong tasks of a labeled dump, and what is known about each.

use std::path::Path;

use tensortap::analysis::AnalysisError;
use tensortap::analysis::blame::{
    Baseline, BaselineKind, Blame, BlameOptions, BlameVerdict, ComparedArg, FailureReason, UnwrittenMemory,
    UnwrittenShare, VerdictOptions,
};
use tensortap::analysis::graph::TaskGraph;
use tensortap::analysis::kind::ErrorKind;
use tensortap::analysis::labels::Label;
use tensortap::analysis::ranks::RunVerdict;
use tensortap::format::{Dump, Task, quoted};
use tensortap::judge::Detail;
use tensortap::{DumpStage, LibraryKernel};

use crate::blame_words::remarks;
use crate::compare_words::{evidence_written, rule_text, unwritten_lines};
use crate::document::VerdictDocument;
use crate::golden::{Golden, other_scene, remarks as golden_remarks};
use crate::kind_words::kind_words;
use crate::module_words::{OtherProgram, module_of, other_programs};
use crate::number::counted;
use crate::run_blame::AcrossRanks;
use crate::verdict::{document, end_remark, headline, unmatched_remark};
use crate::words::{fault_option, run_status, short_task, step_option};

/// Number of first wrong tasks that are described in detail, each with different kernels.
const DETAILED: usize = 3;

/// A first wrong task.
pub struct Culprit {
    /// Position in the graph.
    pub place: usize,
    /// Its records outside their rules.
    pub outside: Vec<OutsideRecord>,
    /// The tasks through which its error spread, from this task on.
    pub chain: Vec<usize>,
}

/// A record outside its rule.
pub struct OutsideRecord {
    /// The result of its comparison.
    pub compared: ComparedArg,
    /// Where the errors are.
    pub detail: Option<Detail>,
    /// The kind of error.
    pub kind: Option<ErrorKind>,
    /// How much of the difference is memory that no recorded task wrote.
    pub unwritten: UnwrittenMemory,
    /// Whether the record counts for the verdict.
    pub counts: bool,
    /// Whether it is not known if the record counts.
    pub is_open: bool,
    /// Whether it is a scalar.
    pub is_scalar: bool,
}

impl OutsideRecord {
    /// The evidence with the rule: `12 of 64 elements outside (rule: equal)`.
    #[must_use]
    pub fn evidence_text(&self) -> String {
        let evidence = self.evidence();
        match (self.unwritten.in_both, self.counts) {
            (UnwrittenShare::All, _) | (_, false) => evidence,
            _ => format!("{evidence} (rule: {})", rule_text(&self.compared.rule)),
        }
    }

    /// The evidence without the rule.
    #[must_use]
    pub fn evidence(&self) -> String {
        let evidence = evidence_written(&self.compared.outcome, &self.unwritten);
        match (self.unwritten.in_both, self.counts) {
            (UnwrittenShare::All, _) | (_, true) => evidence,
            (_, false) if self.is_open => {
                format!("{evidence}; it is not known whether the task wrote what differs")
            }
            (_, false) if self.is_scalar => {
                format!("{evidence}; a scalar does not count for the verdict by itself")
            }
            (_, false) => {
                format!("{evidence}; no cause in this run is known, so it does not count for the verdict")
            }
        }
    }

    /// Lines about unwritten memory and the kind of error.
    #[must_use]
    pub fn notes(&self, graph: &TaskGraph) -> Vec<String> {
        let kind = self.kind.as_ref().map(|kind| format!("kind: {}", kind_words(graph, kind)));
        unwritten_lines(&self.unwritten).into_iter().chain(kind).collect()
    }
}

/// The result of labeling the tasks of a dump.
pub struct BlameReport<'a> {
    /// The dump.
    pub dump: &'a Dump,
    /// Path of the golden; `None` with references.
    pub golden: Option<String>,
    /// The labels.
    pub blame: &'a Blame,
    /// The first wrong tasks.
    pub culprits: Vec<Culprit>,
    /// The verdict.
    pub verdict: BlameVerdict,
    /// The message that the golden is of a different scene.
    pub other_scene: Option<String>,
    /// The program that replays a task: `tensortap`, unless another program provides the scene.
    pub program: &'a str,
    /// Kernels from libraries with which tasks were rerun.
    pub given: &'a [LibraryKernel],
    /// Options for a replay command, so that it runs a task as the rerun did.
    pub replay_options: String,
    /// Remarks about the golden that qualify the result.
    pub remarks: Vec<String>,
    /// Kernels that were built from different code than in the golden.
    pub other_programs: Vec<OtherProgram>,
    /// The other ranks of the run, if the labels rest on them, too.
    pub across: Option<AcrossRanks<'a>>,
}

/// The next step for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Replay it with this command.
    Replay(String),
    /// It cannot be replayed from this dump, for this reason.
    Nothing(String),
    /// The dump does not contain the code of its kernel. This command replays it with a kernel from a library.
    WithLibrary(String),
}

impl<'a> BlameReport<'a> {
    /// The report about labeled tasks. `golden` is what they were compared with, and its path; `None` with references
    /// and reruns.
    #[must_use]
    pub fn new(
        dump: &'a Dump,
        blame: &'a Blame,
        culprits: Vec<Culprit>,
        golden: Option<(&Golden, &Path)>,
        options: VerdictOptions,
        program: &'a str,
    ) -> BlameReport<'a> {
        let golden_dump = golden.and_then(|(golden, _)| golden.dump());
        BlameReport {
            dump,
            golden: golden.map(|(_, path)| golden_dump.map_or(path, Dump::dir).display().to_string()),
            blame,
            culprits,
            verdict: blame.verdict(options),
            other_scene: golden_dump.and_then(|golden| other_scene(dump, golden)),
            program,
            given: &[],
            replay_options: String::new(),
            remarks: golden_dump.map_or_else(Vec::new, |golden| golden_remarks(dump, golden, blame.compared)),
            other_programs: golden_dump.map_or_else(Vec::new, |golden| other_programs(dump, golden)),
            across: None,
        }
    }

    /// Whether the verdict is PASS.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.verdict.passes()
    }

    /// The verdict in one sentence, without PASS or FAIL.
    #[must_use]
    pub fn headline(&self) -> String {
        let across = self.across.filter(|_| !self.passes()).and_then(|across| across.sentence());
        across.unwrap_or_else(|| headline(self))
    }

    /// The verdict, which other ranks of the run may leave undecided.
    #[must_use]
    pub fn run_verdict(&self) -> RunVerdict {
        match (self.across, self.passes()) {
            (Some(across), passes) => across.verdict(passes),
            (None, true) => RunVerdict::Pass,
            (None, false) if self.verdict.failure == Some(FailureReason::Undecided) => RunVerdict::Undecided,
            (None, false) => RunVerdict::Fail,
        }
    }

    /// The verdict as a document. `more` are remarks that come first.
    #[must_use]
    pub fn verdict_document(&self, more: Vec<String>) -> VerdictDocument {
        document(self, more)
    }

    /// All remarks: about the run, the golden and the basis of the labels.
    #[must_use]
    pub fn all_remarks(&self) -> Vec<String> {
        let of_run = run_status(self.dump).into_iter().chain(end_remark(self.dump));
        let of_golden = self.remarks.iter().cloned();
        let across = self.across.filter(|across| across.is_only).map(|across| across.run.remarks());
        let of_tasks = unmatched_remark(self.blame).into_iter().chain(remarks(self.blame));
        of_run.chain(of_golden).chain(of_tasks).chain(across.into_iter().flatten()).collect()
    }

    /// How the code of a task differs from that in the golden.
    #[must_use]
    pub fn other_program(&self, place: usize) -> Option<&str> {
        let kernels = self.blame.graph.task(place).kernel_names();
        let is_of = |other: &&OtherProgram| other.kernels.iter().any(|name| kernels.contains(name));
        self.other_programs.iter().find(is_of).map(|other| other.words.as_str())
    }

    /// The replay command of a task or, for a recorded program, why there is none.
    #[must_use]
    pub fn next(&self, place: usize) -> NextStep {
        self.next_as(place, &short_task(self.blame.graph.task(place).task_id))
    }

    /// The same with this spelling of the task's id.
    pub(crate) fn next_as(&self, place: usize, id: &str) -> NextStep {
        let (graph, dump) = (&self.blame.graph, self.dump);
        let task = graph.task(place);
        let (step, options) = (step_option(graph.tasks().steps(), task.step), &self.replay_options);
        let (folder, fault) = (quoted(dump.dir()), self.fault_option(task));
        let command = format!("{} replay {folder}{step} --task {id}{fault}{options}", self.program);
        // The same dumps as those that `blame --rerun` runs with kernels from libraries.
        let runs_from_library = !dump.has_programs() && !task.kernel_names().is_empty();
        if dump.info().is_of_program() && runs_from_library {
            return match options.contains(" --kernel ") {
                true => NextStep::Replay(command),
                false => NextStep::WithLibrary(format!("{command} --kernel NAME=LIB:SYMBOL")),
            };
        }
        if dump.info().is_of_program()
            && let Some(reason) = why_not_again(dump, task)
        {
            return NextStep::Nothing(reason);
        }
        NextStep::Replay(command)
    }

    /// The option that makes a replay reproduce the captured output: the fault of its run. Reruns were made
    /// without the fault.
    #[must_use]
    pub fn fault_option(&self, task: Task<'_>) -> String {
        match self.blame.basis {
            BaselineKind::Rerun => String::new(),
            BaselineKind::Golden | BaselineKind::References => {
                fault_option(task, self.dump.info().inject_fault.as_deref())
            }
        }
    }
}

/// The reason if a dump has no code to replay.
pub(crate) const NO_CODE: &str = "the dump does not contain the code of its kernel";

/// Why a launch of a recorded program cannot be replayed from its dump.
fn why_not_again(dump: &Dump, task: Task<'_>) -> Option<String> {
    if task.kernel_names().is_empty() {
        return Some("it runs no kernel: look at where its content comes from".into());
    }
    let module = module_of(dump, task).filter(|module| module.kind.is_opencl() || module.kind.is_cuda());
    if !module.is_some_and(|module| module.has_image) {
        return Some(NO_CODE.into());
    }
    let uncaptured = task.uncaptured_args().count();
    if uncaptured > 0 {
        let arguments = counted(uncaptured as u64, "argument");
        return Some(format!(
            "{arguments} could not be captured, so no replay is exact; `show` lists them with the reasons"
        ));
    }
    let captured = task.arguments().len() as u64;
    if task.argument_total().is_some_and(|total| captured < total.into()) {
        let kernels = task.kernel_names().join(",");
        return Some(format!(
            "some of its arguments were not recorded: record again with only --dump-func {kernels}"
        ));
    }
    let tensors = task.arguments().filter(|arg| !arg.is_scalar());
    let missing = tensors.filter(|arg| !arg.before.is_some_and(|before| before.is_stored())).count();
    (missing > 0).then(|| {
        let content = counted(missing as u64, "argument");
        format!("the content of {content} was not stored: record again with --dump-tensor=full, or with only --dump-func {}", task.kernel_names().join(","))
    })
}

/// Which tasks are listed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listing<'a> {
    /// Only tasks with these labels; empty for all labels.
    pub only: &'a [Label],
    /// Maximum number of tasks.
    pub limit: Option<usize>,
}

impl Listing<'_> {
    /// Places of the listed tasks, [in the order of reports](tensortap::analysis::graph::TaskGraph::sort). If
    /// the limit is exceeded, wrong tasks come first.
    #[must_use]
    pub fn tasks(&self, blame: &Blame) -> Vec<usize> {
        let is_meant =
            |place: &usize| self.only.is_empty() || self.only.contains(&blame.findings[*place].label);
        let mut places: Vec<usize> = (0..blame.findings.len()).filter(is_meant).collect();
        blame.graph.sort(&mut places);
        if let Some(limit) = self.limit.filter(|limit| *limit < places.len()) {
            places.sort_by_key(|&place| rank(blame, place));
            places.truncate(limit);
        }
        places
    }
}

/// Sort key of a task's label for lists that start with wrong tasks. All labels at which an error began share
/// the first rank, so that the first task of a list is the one that headlines name.
#[must_use]
pub fn rank(blame: &Blame, place: usize) -> usize {
    let label = blame.findings[place].label;
    let after_roots = || Label::ALL.iter().position(|known| *known == label).unwrap_or(Label::ALL.len());
    if label.is_root() { 0 } else { after_roots() }
}

/// Sorts places in the order of reports, wrong tasks first.
pub fn wrong_first(blame: &Blame, places: &mut [usize]) {
    blame.graph.sort(places);
    places.sort_by_key(|&place| rank(blame, place));
}

/// Analyzes the first wrong tasks.
pub fn culprits(
    blame: &Blame,
    dump: &Dump,
    against: &Baseline<'_>,
    options: &BlameOptions<'_>,
) -> Result<Vec<Culprit>, AnalysisError> {
    let culprit = |place: usize| {
        let outside = outside(blame, dump, against, options, place)?;
        Ok(Culprit { place, outside, chain: blame.chain(place) })
    };
    first_of_each_kernel(blame).into_iter().map(culprit).collect()
}

/// Analyzes the records of a task that are outside their rules. Reads their contents.
pub fn outside(
    blame: &Blame,
    dump: &Dump,
    against: &Baseline<'_>,
    options: &BlameOptions<'_>,
    place: usize,
) -> Result<Vec<OutsideRecord>, AnalysisError> {
    let one = |compared: &ComparedArg| {
        let (counts, is_open) = (blame.counts(place, compared), blame.is_open(place, compared));
        let is_scalar =
            blame.graph.task(place).argument(compared.arg_index).is_some_and(|arg| arg.is_scalar());
        let (compared, unwritten) = blame.as_written(dump, against, place, compared, options)?;
        let compared = &compared;
        // Content that no task wrote, here or in the golden, has no meaningful detail or kind.
        let is_before = compared.stage == DumpStage::BeforeDispatch;
        if is_before && (unwritten.here || unwritten.in_golden) {
            return Ok(OutsideRecord {
                compared: compared.clone(),
                detail: None,
                kind: None,
                unwritten,
                counts,
                is_open,
                is_scalar,
            });
        }
        let detail = blame.detail(dump, against, place, compared, options)?;
        let kind = blame.kind(dump, against, place, compared, options)?;
        Ok(OutsideRecord { compared: compared.clone(), detail, kind, unwritten, counts, is_open, is_scalar })
    };
    blame.outside(place).map(one).collect()
}

/// Tasks at which an error began, in the order of reports.
#[must_use]
pub fn roots(blame: &Blame) -> Vec<usize> {
    let mut roots: Vec<usize> =
        (0..blame.findings.len()).filter(|&place| blame.findings[place].label.is_root()).collect();
    blame.graph.sort(&mut roots);
    roots
}

/// The tasks on all error paths, in graph order. If no error spreads, as with references, which judge every
/// task by its own inputs, returns the tasks at which errors began.
#[must_use]
pub fn error_paths(blame: &Blame) -> Vec<usize> {
    let mut places: Vec<usize> = blame.first_wrong.iter().flat_map(|&task| blame.chain(task)).collect();
    if places.len() == blame.first_wrong.len() {
        places = roots(blame);
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// The first wrong tasks, one for each set of kernels, then tasks whose kernels are wrong only after another
/// error.
fn first_of_each_kernel(blame: &Blame) -> Vec<usize> {
    let mut seen = Vec::new();
    let mut chosen = Vec::new();
    let later = roots(blame).into_iter();
    let later = later.filter(|&place| blame.findings[place].label == Label::WrongHere);
    let likely = blame.likely_race().or(blame.suspect());
    for place in blame.first_wrong.iter().copied().chain(later).chain(likely) {
        let kernels = blame.graph.task(place).kernel_names();
        if chosen.len() < DETAILED && !seen.contains(&kernels) {
            seen.push(kernels);
            chosen.push(place);
        }
    }
    chosen
}
