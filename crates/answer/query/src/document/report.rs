//! The document of a report: everything that its page shows, with numbers also as text.

use serde::Serialize;

use super::table::TableDocument;
use crate::drawing::Layout;
use crate::kind_words::KindDocument;
use crate::picture::{AxisBins, Spread, Tile};

/// A report of one dump, or of all dumps of a run.
#[derive(Serialize)]
pub struct ReportDocument {
    /// Title of the report.
    pub title: String,
    /// Program and version that wrote it.
    pub made_by: String,
    /// The verdict over all dumps; null for a single dump.
    pub verdict: Option<VerdictDocument>,
    /// One for each dump.
    pub members: Vec<MemberReport>,
}

/// A verdict.
#[derive(Clone, Serialize)]
pub struct VerdictDocument {
    /// `PASS`, `FAIL`, `NOT JUDGED` or [`NOTHING_COMPARED`](Self::NOTHING_COMPARED).
    pub word: &'static str,
    /// Whether everything passed; null if nothing was judged.
    pub passes: Option<bool>,
    /// Why it does not pass: the name of a
    /// [`FailureReason`](tensortap::analysis::blame::FailureReason); null otherwise.
    pub failure: Option<&'static str>,
    /// What happened, in one sentence.
    pub sentence: String,
    /// Number of tasks that were judged.
    pub judged: usize,
    /// Number of tasks.
    pub judged_of: usize,
    /// Remarks that qualify the verdict.
    pub remarks: Vec<String>,
}

impl VerdictDocument {
    /// The word if the dumps have nothing in common: no errors were found because nothing was compared, and
    /// it does not pass.
    pub const NOTHING_COMPARED: &'static str = "NOTHING COMPARED";

    /// A verdict without judged tasks.
    #[must_use]
    pub fn without_tasks(word: &'static str, passes: Option<bool>, sentence: String) -> VerdictDocument {
        let (failure, remarks) = (None, Vec::new());
        VerdictDocument { word, passes, failure, sentence, judged: 0, judged_of: 0, remarks }
    }

    /// Whether nothing could be compared.
    #[must_use]
    pub fn compares_nothing(&self) -> bool {
        self.word == VerdictDocument::NOTHING_COMPARED
    }
}

/// A report of one dump.
#[derive(Serialize)]
pub struct MemberReport {
    /// The dump's name among those of its run; empty for a single dump.
    pub name: String,
    /// The findings.
    #[serde(flatten)]
    pub found: FindingsDocument,
    /// Facts about the dump: names and texts.
    pub facts: Vec<(&'static str, String)>,
    /// Outputs with unusual values.
    pub flagged: Vec<FlaggedReport>,
    /// Number of such outputs, listed or not.
    pub flagged_count: u64,
    /// Pictures of the graph at different folds.
    pub graphs: Vec<GraphReport>,
    /// The timeline; null if the dump has no times.
    pub timeline: Option<TimelineDocument>,
    /// The table of tasks.
    pub tasks: TableDocument,
    /// The table of kernels.
    pub kernels: TableDocument,
    /// The table of records.
    pub records: TableDocument,
    /// Commands for the next steps.
    pub commands: Vec<CommandDocument>,
    /// What was omitted to keep the page small.
    pub left_out: Vec<String>,
}

/// The findings of comparing the tasks of a dump. The report and the web page show it.
#[derive(Serialize)]
pub struct FindingsDocument {
    /// The findings.
    pub verdict: VerdictDocument,
    /// What tasks were compared with: `golden` or `reference`.
    pub expected: &'static str,
    /// Number of tasks per label.
    pub labels: Vec<LabelCount>,
    /// The first wrong tasks.
    pub culprits: Vec<CulpritReport>,
    /// The picture of how errors spread.
    pub way: Option<GraphReport>,
}

impl FindingsDocument {
    /// Findings that consist only of a verdict.
    #[must_use]
    pub fn only(verdict: VerdictDocument) -> FindingsDocument {
        FindingsDocument { verdict, expected: "golden", labels: Vec::new(), culprits: Vec::new(), way: None }
    }
}

impl MemberReport {
    /// The report of a dump that has nothing to be compared with.
    #[must_use]
    pub fn unpaired(name: String, why: &str) -> MemberReport {
        let sentence = format!("It was not compared with anything: {why}.");
        let verdict = VerdictDocument::without_tasks("FAIL", Some(false), sentence);
        MemberReport {
            name,
            found: FindingsDocument::only(verdict),
            facts: Vec::new(),
            flagged: Vec::new(),
            flagged_count: 0,
            graphs: Vec::new(),
            timeline: None,
            tasks: TableDocument::default(),
            kernels: TableDocument::default(),
            records: TableDocument::default(),
            commands: Vec::new(),
            left_out: Vec::new(),
        }
    }
}

/// Number of tasks with a label.
#[derive(Serialize)]
pub struct LabelCount {
    /// The label.
    pub label: &'static str,
    /// The number.
    pub tasks: u64,
    /// The number as text.
    pub text: String,
    /// The meaning of the label.
    pub about: &'static str,
}

/// A first wrong task.
#[derive(Serialize)]
pub struct CulpritReport {
    /// Its kernels.
    pub kernels: String,
    /// Its scope and name; null if it has neither.
    pub title: Option<String>,
    /// Its id.
    pub task: String,
    /// Its label.
    pub label: &'static str,
    /// What happened, and the reason.
    pub why: String,
    /// For a task of several kernels: the wrong ones, if known.
    pub wrong_kernels: Option<String>,
    /// Its records outside their rules.
    pub records: Vec<OutsideReport>,
    /// Number of further such records.
    pub more_records: usize,
    /// Its inputs, each with the tasks that produced it.
    pub given: Vec<(String, String)>,
    /// The tasks through which its error spread.
    pub chain: Vec<LinkReport>,
    /// Commands for the next steps.
    pub commands: Vec<CommandDocument>,
}

/// A task on an error path.
#[derive(Serialize)]
pub struct LinkReport {
    /// Its id; empty for omitted tasks.
    pub task: String,
    /// Its description, or the number of omitted tasks.
    pub words: String,
    /// Its label; null for omitted tasks.
    pub label: Option<&'static str>,
}

/// A record outside its rule.
#[derive(Serialize)]
pub struct OutsideReport {
    /// Its argument.
    pub argument: String,
    /// The name by which `show` finds it.
    pub name: String,
    /// Its index in the dump; null if it has no record.
    pub record: Option<u64>,
    /// `before the task` or `after the task`.
    pub when: &'static str,
    /// Dtype and shape.
    pub tensor: String,
    /// The kind of error.
    pub kind: Option<KindDocument>,
    /// The evidence as text.
    pub evidence: String,
    /// The rule; null if the record does not count for the verdict.
    pub rule: Option<String>,
    /// Where errors are, as lines of text.
    pub detail: Vec<String>,
    /// The worst elements.
    pub worst: Vec<WorstReport>,
    /// The pictured slice in the syntax of `--slice`; null for the whole tensor.
    pub slice: Option<String>,
    /// Dump minus golden.
    pub difference: Option<Tile>,
    /// The captured tensor.
    pub dump: Option<Tile>,
    /// The expected content.
    pub golden: Option<Tile>,
    /// Distribution of both, counted in the same ranges.
    pub spread: Option<Spread>,
    /// The ends of these ranges as text.
    pub ends: (String, String),
    /// Where along each axis the error is.
    pub axes: Vec<AxisReport>,
}

/// A wrong element.
#[derive(Serialize)]
pub struct WorstReport {
    /// Its coordinate.
    pub at: String,
    /// The captured value.
    pub dump: String,
    /// The expected content.
    pub golden: String,
    /// The difference; empty if it is not a number.
    pub error: String,
}

/// Where along an axis an error is.
#[derive(Serialize)]
pub struct AxisReport {
    /// The caption.
    pub words: String,
    /// The counts to draw.
    pub bins: AxisBins,
}

/// An output with unusual values.
#[derive(Serialize)]
pub struct FlaggedReport {
    /// The name by which `show` finds it.
    pub name: String,
    /// The description of its task.
    pub task: String,
    /// What is unusual.
    pub what: String,
}

/// A picture of the graph or of a part.
#[derive(Serialize)]
pub struct GraphReport {
    /// The caption.
    pub name: String,
    /// The picture.
    pub layout: Layout,
    /// The task of each box; null for a box of several tasks.
    pub tasks: Vec<Option<String>>,
}

/// A command to copy.
#[derive(Clone, Serialize)]
pub struct CommandDocument {
    /// What the command does.
    pub about: String,
    /// The command line.
    pub command: String,
}

/// Slices on tracks, as lists of numbers, because pages draw thousands of them.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct TimelineDocument {
    /// From the first start to the last end.
    pub span_ns: u64,
    /// The note above the timeline.
    pub note: String,
    /// Names of slices.
    pub names: Vec<String>,
    /// Names of labels; empty without labels.
    pub labels: Vec<&'static str>,
    /// The tracks.
    pub tracks: Vec<TrackDocument>,
}

/// One track. Its lists have equal length and are sorted by start.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct TrackDocument {
    /// The name of the track.
    pub name: String,
    /// Starts of slices in nanoseconds after the first slice.
    pub start: Vec<u64>,
    /// Durations in nanoseconds.
    pub length: Vec<u64>,
    /// Index of each slice's name.
    pub of: Vec<usize>,
    /// Index of each slice's label; empty without labels.
    pub label: Vec<usize>,
    /// Ids of tasks.
    pub task: Vec<String>,
}
