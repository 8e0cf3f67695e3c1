//! Which task is wrong: the culprits among the tasks that were labelled, and what is known of each.

use tensortap::analysis::AnalysisError;
use tensortap::analysis::blame::{Against, Basis, Blame, BlameOptions, ComparedArg, Unwritten};
use tensortap::analysis::kind::ErrorKind;
use tensortap::analysis::labels::Label;
use tensortap::format::{Dump, Task, quoted};
use tensortap::judge::Detail;
use tensortap::{DumpStage, GivenReport};

use crate::blame_words::remarks;
use crate::module_words::{OtherProgram, module_of};
use crate::number::counted;
use crate::words::{fault_option, of_run, short_task, step_option};

/// First wrong tasks that are shown with all that is known of them, each of other kernels.
const DETAILED: usize = 3;

/// One first wrong task, as far as it is known.
pub struct Culprit {
    /// Position in the graph.
    pub place: usize,
    /// Its records that are outside.
    pub outside: Vec<Outside>,
    /// The way its error took to the end.
    pub chain: Vec<usize>,
}

/// A record that is not what it should be.
pub struct Outside {
    /// How it compares.
    pub compared: ComparedArg,
    /// Where the errors sit.
    pub detail: Option<Detail>,
    /// What kind of error it is.
    pub kind: Option<ErrorKind>,
    /// How much of what differs no recorded task wrote.
    pub unwritten: Unwritten,
}

/// What came of labelling tasks.
pub struct BlameReport<'a> {
    /// The dump.
    pub dump: &'a Dump,
    /// Folder of the golden; `None` with references.
    pub golden: Option<String>,
    /// The labels.
    pub blame: &'a Blame,
    /// The first wrong tasks.
    pub culprits: Vec<Culprit>,
    /// Whether nothing is wrong.
    pub passes: bool,
    /// The program that replays a task: `tensortap`, unless the scene is another's.
    pub program: &'a str,
    /// Kernels from libraries that tasks were run again with.
    pub given: &'a [GivenReport],
    /// Options that a replay of a task takes, to run it as it was run again.
    pub replay_options: String,
    /// What to know of the golden before believing what is said by it.
    pub remarks: Vec<String>,
    /// Kernels whose code is another than in the golden.
    pub other_programs: Vec<OtherProgram>,
}

/// What to do next about a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Run it again, by this command.
    Replay(String),
    /// It cannot be run again from this dump, for this reason.
    Nothing(String),
}

impl BlameReport<'_> {
    /// What to know beside the labels: of the run, of the golden, and of what the labels rest on.
    #[must_use]
    pub fn all_remarks(&self) -> Vec<String> {
        let of_run = of_run(self.dump).into_iter();
        of_run.chain(self.remarks.iter().cloned()).chain(remarks(self.blame)).collect()
    }

    /// How the code of a task is another than in the golden.
    #[must_use]
    pub fn other_program(&self, place: usize) -> Option<&str> {
        let kernels = self.blame.graph.task(place).kernel_names();
        let is_of = |other: &&OtherProgram| other.kernels.iter().any(|name| kernels.contains(name));
        self.other_programs.iter().find(is_of).map(|other| other.words.as_str())
    }

    /// The command that runs a task again; of a recorded program, why there is none where it cannot be.
    #[must_use]
    pub fn next(&self, place: usize) -> Next {
        self.next_as(place, &short_task(self.blame.graph.task(place).task_id))
    }

    /// The same with the task spelled like this.
    pub(crate) fn next_as(&self, place: usize, id: &str) -> Next {
        let (graph, dump) = (&self.blame.graph, self.dump);
        let task = graph.task(place);
        let (step, options) = (step_option(graph.tasks().steps(), task.step), &self.replay_options);
        if dump.info().is_of_program()
            && let Some(reason) = why_not_again(dump, task)
        {
            return Next::Nothing(reason);
        }
        let (folder, fault) = (quoted(dump.dir()), self.fault_option(task));
        Next::Replay(format!("{} replay {folder}{step} --task {id}{fault}{options}", self.program))
    }

    /// The option that a replay of a task takes to make again what was captured: the fault of its run. Tasks that were run again were run
    /// without it.
    #[must_use]
    pub fn fault_option(&self, task: Task<'_>) -> String {
        match self.blame.basis {
            Basis::Rerun => String::new(),
            Basis::Golden | Basis::References => fault_option(task, self.dump.info().inject_fault.as_deref()),
        }
    }
}

/// Why a launch of a recorded program cannot be run again from its dump.
fn why_not_again(dump: &Dump, task: Task<'_>) -> Option<String> {
    if task.kernel_names().is_empty() {
        return Some("it runs no kernel: look at where its content comes from".into());
    }
    let module = module_of(dump, task).filter(|module| module.kind.is_opencl() || module.kind.is_cuda());
    if !module.is_some_and(|module| module.has_image) {
        return Some("the dump does not keep the code of its kernel".into());
    }
    let uncaptured = task.uncaptured_args().count();
    if uncaptured > 0 {
        let arguments = counted(uncaptured as u64, "argument");
        return Some(format!(
            "{arguments} could not be captured, so no replay is exact; `show` says which, and why"
        ));
    }
    let captured = task.arguments().len() as u64;
    if task.argument_total().is_some_and(|total| captured < total.into()) {
        let kernels = task.kernel_names().join(",");
        return Some(format!(
            "some of its arguments were left out: record it with --dump-func {kernels} alone"
        ));
    }
    let tensors = task.arguments().filter(|arg| !arg.is_scalar());
    let missing = tensors.filter(|arg| !arg.before.is_some_and(|before| before.is_stored())).count();
    (missing > 0).then(|| {
        let content = counted(missing as u64, "argument");
        format!("the content of {content} was not stored: record it with --dump-tensor=full, or --dump-func {} alone", task.kernel_names().join(","))
    })
}

/// Which tasks of a report are listed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listing<'a> {
    /// Those of these labels; of every label when there are none.
    pub only: &'a [Label],
    /// At most so many.
    pub limit: Option<usize>,
}

impl Listing<'_> {
    /// Positions of the tasks of these labels: [in the order of reports](tensortap::analysis::graph::TaskGraph::sort), or, where there is a
    /// limit that not all are within, those that are wrong first.
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

/// The place of a task's label in lists that begin with what is wrong: tasks at which an error began, however it did, come first and
/// together, so that the first of them is the first that is spoken of.
#[must_use]
pub fn rank(blame: &Blame, place: usize) -> usize {
    let label = blame.findings[place].label;
    let after_roots = || Label::ALL.iter().position(|known| *known == label).unwrap_or(Label::ALL.len());
    if label.is_root() { 0 } else { after_roots() }
}

/// Puts positions into the order of lists that begin with what is wrong.
pub fn wrong_first(blame: &Blame, places: &mut [usize]) {
    blame.graph.sort(places);
    places.sort_by_key(|&place| rank(blame, place));
}

/// The first wrong tasks, with all that is known of them.
pub fn culprits(
    blame: &Blame,
    dump: &Dump,
    against: &Against<'_>,
    options: &BlameOptions<'_>,
) -> Result<Vec<Culprit>, AnalysisError> {
    let culprit = |place: usize| {
        let outside = outside(blame, dump, against, options, place)?;
        Ok(Culprit { place, outside, chain: blame.chain(place) })
    };
    first_of_each_kernel(blame).into_iter().map(culprit).collect()
}

/// The records of a task that are not what they should be, with all that is known of them. Their contents are read.
pub fn outside(
    blame: &Blame,
    dump: &Dump,
    against: &Against<'_>,
    options: &BlameOptions<'_>,
    place: usize,
) -> Result<Vec<Outside>, AnalysisError> {
    let one = |compared: &ComparedArg| {
        let (compared, unwritten) = blame.as_written(dump, against, place, compared, options)?;
        let compared = &compared;
        // What lay in memory before its task is no value that anybody made, here or in the golden.
        let is_before = compared.stage == DumpStage::BeforeDispatch;
        if is_before && (unwritten.here || unwritten.in_golden) {
            return Ok(Outside { compared: compared.clone(), detail: None, kind: None, unwritten });
        }
        let detail = blame.detail(dump, against, place, compared, options)?;
        let kind = blame.kind(dump, against, place, compared, options)?;
        Ok(Outside { compared: compared.clone(), detail, kind, unwritten })
    };
    blame.outside(place).map(one).collect()
}

/// Tasks at which an error began, whether or not another led to them, in the order of reports.
#[must_use]
pub fn roots(blame: &Blame) -> Vec<usize> {
    let mut roots: Vec<usize> =
        (0..blame.findings.len()).filter(|&place| blame.findings[place].label.is_root()).collect();
    blame.graph.sort(&mut roots);
    roots
}

/// The tasks on the ways that errors took to the end, in the order of the graph. Where no error is seen to go anywhere, as with references,
/// which judge every task by what it was given, the tasks at which errors began: content passes between them nonetheless.
#[must_use]
pub fn ways(blame: &Blame) -> Vec<usize> {
    let mut places: Vec<usize> = blame.first_wrong.iter().flat_map(|&task| blame.chain(task)).collect();
    if places.len() == blame.first_wrong.len() {
        places = roots(blame);
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// The first wrong tasks, one for each set of kernels; then those of kernels that are wrong behind another error only.
fn first_of_each_kernel(blame: &Blame) -> Vec<usize> {
    let mut seen = Vec::new();
    let mut chosen = Vec::new();
    let behind = roots(blame).into_iter();
    let behind = behind.filter(|&place| blame.findings[place].label == Label::WrongHere);
    let likely = blame.likely_race().or(blame.suspect());
    for place in blame.first_wrong.iter().copied().chain(behind).chain(likely) {
        let kernels = blame.graph.task(place).kernel_names();
        if chosen.len() < DETAILED && !seen.contains(&kernels) {
            seen.push(kernels);
            chosen.push(place);
        }
    }
    chosen
}
