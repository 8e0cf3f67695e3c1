//! A report of a dump: what went wrong first, with pictures, the graph, the times and the tables, as one document.
//!
//! A report is a page that people send to one another, so it has a size that it keeps to: where a dump has more tasks or records than that
//! takes, some rows stay, and the document says which and how many do not.

mod culprit;
mod graphs;
mod labelled;
mod lines;
mod tables;
mod verdict;

use std::path::Path;

use tensortap::analysis::blame::Blame;
use tensortap::analysis::graph::TaskGraph;
use tensortap::analysis::labels::{Finding, Label};
use tensortap::format::{Dump, quoted};

use crate::document::{CommandDocument, FlaggedReport, FoundDocument, MemberReport, ReportDocument};
use crate::ids::IdRange;
use crate::module_words::module_words;
use crate::number::{bytes, counted, grouped, time};
use crate::summary::{Flagged, Summary, SummaryOptions, in_flight_words, uncaptured_words};
use crate::words::{
    losses_by_reason, of_run, printable, record_name, state_name, step_task, task_words, what_ran,
};
use crate::{Labelling, QueryError};

pub use labelled::Labelled;
pub use verdict::over_all;

/// Bytes that a document may have as JSON. The page around it has some tens of thousands more.
pub const MOST_BYTES: usize = 4_500_000;
/// Rows of tasks, as many as fit; of records there are twice as many.
const ROWS: [usize; 6] = [10_000, 5_000, 2_000, 500, 100, 20];

/// What a report is made of.
#[derive(Clone, Copy)]
pub struct ReportOptions<'a> {
    /// Steps that are meant; none stand for all.
    pub steps: &'a [IdRange],
    /// Whether to read contents that nothing was held against.
    pub measures: bool,
    /// Threads that read; one for each CPU when `None`.
    pub jobs: Option<usize>,
    /// What the program is called in commands.
    pub program: &'a str,
    /// Bytes that the document may have.
    pub most_bytes: usize,
}

/// Everything that is known of a dump, before rows are chosen.
struct Known<'a> {
    dump: &'a Dump,
    options: ReportOptions<'a>,
    summary: Summary,
    labelled: Option<Labelled<'a>>,
}

impl Known<'_> {
    fn graph(&self) -> &TaskGraph {
        self.labelled.as_ref().map_or(&self.summary.graph, |labelled| &labelled.found.blame.graph)
    }

    fn blame(&self) -> Option<&Blame> {
        self.labelled.as_ref().map(|labelled| labelled.found.blame)
    }

    fn findings(&self) -> &[Finding] {
        self.blame().map_or(&[], |blame| &blame.findings)
    }

    /// The dump as a command names it.
    fn path(&self) -> String {
        quoted(self.dump.dir())
    }

    /// The options that say what tasks are held against: ` --golden right`.
    fn against_option(&self) -> String {
        self.labelled.as_ref().map_or_else(String::new, Labelled::against_option)
    }
}

/// The report of one dump of a run, held against `golden` or, where that is `None` and `labelling` is there, against references.
///
/// # Errors
/// A file cannot be read.
pub fn member(
    dump: &Dump,
    name: &str,
    labelling: Option<(&Labelling, Option<&Path>)>,
    options: ReportOptions<'_>,
) -> Result<MemberReport, QueryError> {
    let summary_options = SummaryOptions {
        steps: options.steps,
        measures: options.measures,
        jobs: options.jobs,
        advance: &|_| (),
    };
    let summary = Summary::of(dump, &summary_options)?;
    let Some((labelling, golden)) = labelling else {
        return report(&Known { dump, options, summary, labelled: None }, name);
    };
    let blame = labelling.blame(dump, options.steps)?;
    let blame_options = labelling.options(dump, options.steps);
    let labelled = Labelled::of(dump, &blame, labelling, golden, &blame_options, options.program)?;
    report(&Known { dump, options, summary, labelled: Some(labelled) }, name)
}

/// A report of these dumps.
#[must_use]
pub fn of_members(title: String, made_by: String, members: Vec<MemberReport>) -> ReportDocument {
    let verdict = (members.len() > 1).then(|| over_all(&members));
    ReportDocument { title, made_by, verdict, members }
}

/// Takes as many rows as fit.
fn report(known: &Known<'_>, name: &str) -> Result<MemberReport, QueryError> {
    let mut report = frame(known, name)?;
    let measured = tables::measure(known, ROWS[0])?;
    for rows in ROWS {
        report.timeline = lines::timeline(known, rows);
        (report.tasks, report.records) = tables::tables(known, &measured, rows)?;
        if weight(&report) <= known.options.most_bytes {
            return Ok(report);
        }
    }
    // What is left are pictures; a graph is seen with another verb.
    report.graphs.clear();
    if weight(&report) > known.options.most_bytes {
        report.found.way = None;
        report.left_out.push("pictures of the graph: `graph` draws them".into());
    }
    Ok(report)
}

/// Bytes of it as JSON.
fn weight(report: &MemberReport) -> usize {
    serde_json::to_vec(report).map_or(usize::MAX, |json| json.len())
}

/// All but the rows.
fn frame(known: &Known<'_>, name: &str) -> Result<MemberReport, QueryError> {
    let summary = &known.summary;
    let (graphs, left_out) = graphs::graphs(known);
    Ok(MemberReport {
        name: name.into(),
        found: match &known.labelled {
            Some(labelled) => labelled.document()?,
            None => FoundDocument::only(verdict::not_judged(known)),
        },
        facts: facts(known),
        flagged: summary.flagged.iter().map(|one| flagged(known, one)).collect(),
        flagged_count: summary.flagged_count,
        graphs,
        timeline: None,
        tasks: crate::document::TableDocument::default(),
        kernels: tables::kernels(known),
        records: crate::document::TableDocument::default(),
        commands: commands(known),
        left_out,
    })
}

/// Programs that are told of.
const PROGRAMS: usize = 4;

fn facts(known: &Known<'_>) -> Vec<(&'static str, String)> {
    let (dump, summary) = (known.dump, &known.summary);
    let shown = |path: &str| printable(path).into_owned();
    let mut facts = vec![("Dump", shown(&dump.dir().display().to_string()))];
    let ran = what_ran(dump);
    if !ran.is_empty() {
        facts.push(("Ran", ran));
    }
    if let Some(labelled) = &known.labelled {
        let against = labelled.found.golden.as_deref().map(shown);
        facts.push(("Held against", against.unwrap_or_else(|| "the references of its kernels".into())));
    }
    let span = summary.span.map(|span| format!(" in {}", time(span))).unwrap_or_default();
    facts.push(("Tasks", format!("{}{span}", grouped(known.graph().len() as u64))));
    let stored = bytes(dump.totals().stored_bytes);
    facts.push(("Records", format!("{}, {stored} stored", grouped(dump.len()))));
    if let Some(words) = of_run(dump) {
        facts.push(("Its run", words));
    }
    let lost = dump.footer().map(|footer| losses_by_reason(&footer.losses)).unwrap_or_default();
    if !lost.is_empty() {
        facts.push(("Lost", lost));
    }
    if state_name(&dump.tail()) != "closed" {
        facts.push(("State", format!("{}: not everything may be there", state_name(&dump.tail()))));
    }
    facts.extend(in_flight_words(known.graph()).map(|words| ("In flight", words)));
    if !summary.uncaptured.is_empty() {
        facts.push(("Uncaptured", uncaptured_words(&summary.uncaptured)));
    }
    let programs = summary.modules.iter().take(PROGRAMS);
    facts.extend(programs.map(|one| ("Program", module_words(&one.module))));
    if let Some(more) = summary.modules.len().checked_sub(PROGRAMS).filter(|&more| more > 0) {
        facts.push(("Programs", format!("{} more", grouped(more as u64))));
    }
    let critical = &summary.critical;
    if !critical.1.is_zero() {
        let tasks = counted(critical.0.len() as u64, "task");
        facts.push(("Longest way", format!("{tasks}, {}", time(critical.1))));
    }
    facts
}

/// What a label means, for those who see it for the first time.
#[must_use]
pub const fn about(label: Label) -> &'static str {
    match label {
        Label::Ok => "inputs and outputs are what they should be",
        Label::WrongHere => "its inputs are right and an output is wrong: the error began here",
        Label::Inherited => "an output is wrong because an input, which another task made, was",
        Label::Raced => "an input is not what its producer wrote: it was read or overwritten too early",
        Label::Fed => "an output is wrong because an input that no task made was",
        Label::Masked => "an input is wrong and the outputs are right nonetheless",
        Label::Unknown => "not enough is known to say",
    }
}

fn flagged(known: &Known<'_>, one: &Flagged) -> FlaggedReport {
    let record = &one.measured.record;
    let stats = one.measured.summary.map(|summary| summary.stats).unwrap_or_default();
    let counts = [(stats.nan, "NaN"), (stats.inf, "infinite")];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(count, what)| format!("{} {what} of {}", grouped(*count), counted(record.numel, "element")))
        .collect();
    let flags: Vec<&str> = one.flags.iter().map(|flag| flag.name()).collect();
    let task = known.summary.graph.task(one.place);
    FlaggedReport {
        name: record_name(record),
        task: task_words(task),
        what: if counts.is_empty() { flags.join(", ") } else { counts.join(", ") },
    }
}

/// What to type next about the dump.
fn commands(known: &Known<'_>) -> Vec<CommandDocument> {
    let (program, dump, against) = (known.options.program, known.path(), known.against_option());
    let command = |about: &str, command: String| CommandDocument {
        about: about.into(),
        command: format!("{program} {command}"),
    };
    let mut commands = Vec::new();
    if let Some(one) = known.summary.flagged.first().filter(|_| known.labelled.is_none()) {
        let task = known.summary.graph.task(one.place);
        let id = step_task(task.step, task.task_id);
        commands.push(command("See the first task that stands out", format!("show {dump} {id}")));
    }
    match known.labelled {
        Some(_) => {
            commands.push(command("See the label of every task", format!("blame {dump}{against} --all")));
            commands.push(command(
                "Draw the way of the error",
                format!("graph {dump}{against} --way -o way.svg"),
            ));
        }
        None if !known.dump.info().is_of_program() && !known.dump.format().is_foreign() => {
            commands.push(command(
                "Hold every task against its reference",
                format!("report {dump} --reference -o report.html"),
            ));
            commands.push(command(
                "Hold it against a run that was right",
                format!("report {dump} --golden RIGHT -o report.html"),
            ));
        }
        None => {
            commands.push(command(
                "Hold it against a run that was right",
                format!("report {dump} --golden RIGHT -o report.html"),
            ));
        }
    }
    commands.push(command("List its records", format!("list {dump}")));
    if known.blame().is_none_or(|blame| blame.first_wrong.is_empty()) {
        commands.retain(|one| !one.command.contains(" --way "));
    }
    commands
}
