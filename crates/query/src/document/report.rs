//! What a report shows: everything that its page draws, with all numbers as text beside their values.

use serde::Serialize;

use super::table::TableDocument;
use crate::drawing::Layout;
use crate::kind_words::KindDocument;
use crate::picture::{AxisBins, Spread, Tile};

/// A report of one dump, or of all dumps of a run.
#[derive(Serialize)]
pub struct ReportDocument {
    /// What it is about, in a few words.
    pub title: String,
    /// What made it: program and version.
    pub made_by: String,
    /// The verdict over all dumps; null when there is one.
    pub verdict: Option<VerdictDocument>,
    /// One for each dump.
    pub members: Vec<MemberReport>,
}

/// A verdict.
#[derive(Clone, Serialize)]
pub struct VerdictDocument {
    /// `PASS`, `FAIL`, `NOT JUDGED` or [`NOTHING_COMPARED`](Self::NOTHING_COMPARED).
    pub word: &'static str,
    /// Null when nothing was judged.
    pub passes: Option<bool>,
    /// What happened, in one sentence.
    pub sentence: String,
    /// What is to be known beside it.
    pub remarks: Vec<String>,
}

impl VerdictDocument {
    /// The word for what was held against something with which it has nothing in common: no error was looked for, so none is told, and yet it
    /// does not pass.
    pub const NOTHING_COMPARED: &'static str = "NOTHING COMPARED";

    /// Whether nothing could be compared.
    #[must_use]
    pub fn compares_nothing(&self) -> bool {
        self.word == VerdictDocument::NOTHING_COMPARED
    }
}

/// A report of one dump.
#[derive(Serialize)]
pub struct MemberReport {
    /// What sets it apart from the other dumps of its run; empty when there is one.
    pub name: String,
    /// What was found.
    #[serde(flatten)]
    pub found: FoundDocument,
    /// What the dump is: pairs of a word and what there is to say.
    pub facts: Vec<(&'static str, String)>,
    /// Outputs whose values stand out.
    pub flagged: Vec<FlaggedReport>,
    /// How many there are.
    pub flagged_count: u64,
    /// The graph, folded more and less.
    pub graphs: Vec<GraphReport>,
    /// What ran when.
    pub timeline: Option<TimelineDocument>,
    /// Rows of tasks.
    pub tasks: TableDocument,
    /// Of kernels.
    pub kernels: TableDocument,
    /// Of records.
    pub records: TableDocument,
    /// What to type next.
    pub commands: Vec<CommandDocument>,
    /// What was left away to keep the page small.
    pub left_out: Vec<String>,
}

/// What came of holding the tasks of a dump against something: what a report begins with, and what a page shows of it.
#[derive(Serialize)]
pub struct FoundDocument {
    /// What was found.
    pub verdict: VerdictDocument,
    /// What tasks were held against, in a word: `golden` or `reference`.
    pub expected: &'static str,
    /// How many tasks have each label.
    pub labels: Vec<LabelCount>,
    /// The first wrong tasks.
    pub culprits: Vec<CulpritReport>,
    /// The ways that errors took.
    pub way: Option<GraphReport>,
}

impl FoundDocument {
    /// That a verdict is all there is to say.
    #[must_use]
    pub fn only(verdict: VerdictDocument) -> FoundDocument {
        FoundDocument { verdict, expected: "golden", labels: Vec::new(), culprits: Vec::new(), way: None }
    }
}

impl MemberReport {
    /// That there is nothing to hold a dump of a run against.
    #[must_use]
    pub fn lonely(name: String, why: &str) -> MemberReport {
        let verdict = VerdictDocument {
            word: "FAIL",
            passes: Some(false),
            sentence: format!("It was held against nothing: {why}."),
            remarks: Vec::new(),
        };
        MemberReport {
            name,
            found: FoundDocument::only(verdict),
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

/// Tasks of a label.
#[derive(Serialize)]
pub struct LabelCount {
    /// The label.
    pub label: &'static str,
    /// How many.
    pub tasks: u64,
    /// The same as text.
    pub text: String,
    /// What it means.
    pub about: &'static str,
}

/// A task at which an error began.
#[derive(Serialize)]
pub struct CulpritReport {
    /// Its kernels.
    pub kernels: String,
    /// Its scope and name; null when it has none.
    pub title: Option<String>,
    /// Its id.
    pub task: String,
    /// Its label.
    pub label: &'static str,
    /// What it did, and why it is thought so.
    pub why: String,
    /// Of a task of several kernels, those that are wrong, where that can be told.
    pub wrong_kernels: Option<String>,
    /// Its records that are not what they should be.
    pub records: Vec<OutsideReport>,
    /// Records beyond those.
    pub more_records: usize,
    /// Where its inputs came from.
    pub given: Vec<(String, String)>,
    /// The way that its error took, task by task.
    pub chain: Vec<LinkReport>,
    /// What to type next about it.
    pub commands: Vec<CommandDocument>,
}

/// A task on the way of an error.
#[derive(Serialize)]
pub struct LinkReport {
    /// Its id; empty where several are left out.
    pub task: String,
    /// What it is, or how many are left out.
    pub words: String,
    /// Its label; null where several are left out.
    pub label: Option<&'static str>,
}

/// A record that is not what it should be.
#[derive(Serialize)]
pub struct OutsideReport {
    /// Its argument.
    pub argument: String,
    /// What `show` finds it by.
    pub name: String,
    /// Its position in the dump; null where there is none.
    pub record: Option<u64>,
    /// `before the task` or `after the task`.
    pub when: &'static str,
    /// Dtype and shape.
    pub tensor: String,
    /// What kind of error it is.
    pub kind: Option<KindDocument>,
    /// How many elements are outside.
    pub evidence: String,
    /// The rule.
    pub rule: String,
    /// What is said of where errors sit, line by line.
    pub detail: Vec<String>,
    /// The worst elements.
    pub worst: Vec<WorstReport>,
    /// The part that is pictured, as `--slice` takes it; null where all is.
    pub slice: Option<String>,
    /// Dump less golden.
    pub difference: Option<Tile>,
    /// What was captured, where it is small.
    pub dump: Option<Tile>,
    /// What it should be.
    pub golden: Option<Tile>,
    /// Both, counted in the same ranges.
    pub spread: Option<Spread>,
    /// The ends of these ranges.
    pub ends: (String, String),
    /// Where along each axis the error sits.
    pub axes: Vec<AxisReport>,
}

/// A wrong element.
#[derive(Serialize)]
pub struct WorstReport {
    /// Where.
    pub at: String,
    /// What it is.
    pub dump: String,
    /// What it should be.
    pub golden: String,
    /// How far that is apart; empty where that is no number.
    pub error: String,
}

/// Where along an axis an error sits.
#[derive(Serialize)]
pub struct AxisReport {
    /// In words.
    pub words: String,
    /// As a picture.
    pub bins: AxisBins,
}

/// An output whose values stand out.
#[derive(Serialize)]
pub struct FlaggedReport {
    /// What `show` finds it by.
    pub name: String,
    /// Its task, in words.
    pub task: String,
    /// What stands out.
    pub what: String,
}

/// A picture of the graph, or of a part.
#[derive(Serialize)]
pub struct GraphReport {
    /// What is drawn.
    pub name: String,
    /// The picture.
    pub layout: Layout,
    /// The task of each box; null of one that stands for several.
    pub tasks: Vec<Option<String>>,
}

/// A command to copy.
#[derive(Clone, Serialize)]
pub struct CommandDocument {
    /// What it does.
    pub about: String,
    /// As it is typed.
    pub command: String,
}

/// Slices on tracks, as lists of numbers: pages draw them by the thousand.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct TimelineDocument {
    /// From the first start to the last end.
    pub span_ns: u64,
    /// What is said above it.
    pub note: String,
    /// Names of slices.
    pub names: Vec<String>,
    /// Labels of slices; none when there are none.
    pub labels: Vec<&'static str>,
    /// The tracks.
    pub tracks: Vec<TrackDocument>,
}

/// One track; its lists are equally long, in the order of starts.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct TrackDocument {
    /// What it is called.
    pub name: String,
    /// When slices start, from the first of all.
    pub start: Vec<u64>,
    /// How long they take.
    pub length: Vec<u64>,
    /// Which of the names each has.
    pub of: Vec<usize>,
    /// Which of the labels each has; empty when there are none.
    pub label: Vec<usize>,
    /// Ids of tasks.
    pub task: Vec<String>,
}
