//! The report of a dump as one document: what went wrong first, pictures, graph, timeline and tables.
//!
//! People send reports to each other, so the size is bounded. If a dump has more tasks or records than fit,
//! the document contains a part of the rows and says how many are missing.

mod culprit;
mod graphs;
mod labeled;
mod tables;
mod timeline;
mod verdict;

use std::path::Path;

use tensortap::analysis::blame::Blame;
use tensortap::analysis::graph::TaskGraph;
use tensortap::analysis::labels::{Finding, Label};
use tensortap::analysis::ranks::RunVerdict;
use tensortap::format::{Dump, quoted};

use crate::document::{CommandDocument, FindingsDocument, FlaggedReport, MemberReport, ReportDocument};
use crate::ids::IdRange;
use crate::module_words::module_words;
use crate::number::{bytes, counted, grouped, time};
use crate::run_blame::{AcrossRanks, RunBlame};
use crate::summary::{FlaggedRecord, Summary, SummaryOptions, early_end, in_flight_words, uncaptured_words};
use crate::words::{
    losses_by_reason, printable, record_name, run_status, run_title, state_name, step_task, task_words,
};
use crate::{LabelSource, QueryError};

pub use labeled::LabeledTasks;
pub use verdict::over_all;

/// Maximum size of a document as JSON. The page adds some tens of kilobytes.
pub const MOST_BYTES: usize = 4_500_000;
/// Numbers of task rows to try until the document fits. There are twice as many record rows.
const ROWS: [usize; 6] = [10_000, 5_000, 2_000, 500, 100, 20];

/// Options of a report.
#[derive(Clone, Copy)]
pub struct ReportOptions<'a> {
    /// Steps to include; empty for all.
    pub steps: &'a [IdRange],
    /// Whether to read contents that were not compared.
    pub measures: bool,
    /// Number of reading threads. `None`: one per CPU.
    pub jobs: Option<usize>,
    /// Program name used in commands.
    pub program: &'a str,
    /// Maximum bytes of the document.
    pub most_bytes: usize,
}

/// Everything about a dump that a report needs, before rows are chosen.
struct ReportContext<'a> {
    dump: &'a Dump,
    options: ReportOptions<'a>,
    summary: Summary,
    labeled: Option<LabeledTasks<'a>>,
}

impl ReportContext<'_> {
    fn graph(&self) -> &TaskGraph {
        self.labeled.as_ref().map_or(&self.summary.graph, |labeled| &labeled.found.blame.graph)
    }

    fn blame(&self) -> Option<&Blame> {
        self.labeled.as_ref().map(|labeled| labeled.found.blame)
    }

    fn findings(&self) -> &[Finding] {
        self.blame().map_or(&[], |blame| &blame.findings)
    }

    /// The dump's path, quoted for a command.
    fn path(&self) -> String {
        quoted(self.dump.dir())
    }

    /// The options that choose what to compare with: ` --golden right`.
    fn against_option(&self) -> String {
        self.labeled.as_ref().map_or_else(String::new, LabeledTasks::against_option)
    }
}

/// The labels of a dump's tasks for its report.
#[derive(Clone, Copy)]
pub struct MemberLabels<'a> {
    /// What the tasks were compared with.
    pub source: &'a LabelSource,
    /// Path of the golden; `None` with references.
    pub golden: Option<&'a Path>,
    /// The labels.
    pub blame: &'a Blame,
    /// The other ranks of the run, if the labels rest on them, too.
    pub across: Option<AcrossRanks<'a>>,
}

/// The report of one dump of a run.
///
/// # Errors
/// A file cannot be read.
pub fn member(
    dump: &Dump,
    name: &str,
    labels: Option<MemberLabels<'_>>,
    options: ReportOptions<'_>,
) -> Result<MemberReport, QueryError> {
    let summary_options = SummaryOptions {
        steps: options.steps,
        measures: options.measures,
        jobs: options.jobs,
        advance: &|_| (),
    };
    let summary = Summary::of(dump, &summary_options)?;
    let Some(MemberLabels { source, golden, blame, across }) = labels else {
        return report(&ReportContext { dump, options, summary, labeled: None }, name);
    };
    let blame_options = source.options(dump, options.steps);
    let mut labeled = LabeledTasks::of(dump, blame, source, golden, &blame_options, options.program)?;
    labeled.found.across = across;
    report(&ReportContext { dump, options, summary, labeled: Some(labeled) }, name)
}

/// The report of several dumps. With `run`, its ranks were judged together, with this verdict.
#[must_use]
pub fn of_members(
    title: String,
    made_by: String,
    members: Vec<MemberReport>,
    run: Option<(&RunBlame, RunVerdict)>,
) -> ReportDocument {
    let verdict = (members.len() > 1).then(|| match run {
        Some((run, verdict)) => verdict::over_run(&members, run, verdict),
        None => over_all(&members),
    });
    ReportDocument { title, made_by, verdict, members }
}

/// Builds the report with as many rows as fit.
fn report(context: &ReportContext<'_>, name: &str) -> Result<MemberReport, QueryError> {
    let mut report = frame(context, name)?;
    let measured = tables::measure(context, ROWS[0])?;
    for rows in ROWS {
        report.timeline = timeline::timeline(context, rows);
        (report.tasks, report.records) = tables::tables(context, &measured, rows)?;
        if weight(&report) <= context.options.most_bytes {
            return Ok(report);
        }
    }
    // Drop the pictures of the graph next; the `graph` verb can draw them.
    report.graphs.clear();
    if weight(&report) > context.options.most_bytes {
        report.found.way = None;
        report.left_out.push("pictures of the graph: `graph` draws them".into());
    }
    Ok(report)
}

/// Size of the report as JSON.
fn weight(report: &MemberReport) -> usize {
    serde_json::to_vec(report).map_or(usize::MAX, |json| json.len())
}

/// The report without rows.
fn frame(context: &ReportContext<'_>, name: &str) -> Result<MemberReport, QueryError> {
    let summary = &context.summary;
    let (graphs, left_out) = graphs::graphs(context);
    Ok(MemberReport {
        name: name.into(),
        found: match &context.labeled {
            Some(labeled) => labeled.document()?,
            None => FindingsDocument::only(verdict::not_judged(context)),
        },
        facts: facts(context),
        flagged: summary.flagged.iter().map(|one| flagged(context, one)).collect(),
        flagged_count: summary.flagged_count,
        graphs,
        timeline: None,
        tasks: crate::document::TableDocument::default(),
        kernels: tables::kernels(context),
        records: crate::document::TableDocument::default(),
        commands: commands(context),
        left_out,
    })
}

/// Modules that are listed.
const PROGRAMS: usize = 4;

fn facts(context: &ReportContext<'_>) -> Vec<(&'static str, String)> {
    let (dump, summary) = (context.dump, &context.summary);
    let shown = |path: &str| printable(path).into_owned();
    let mut facts = vec![("Dump", shown(&dump.dir().display().to_string()))];
    let ran = run_title(dump);
    if !ran.is_empty() {
        facts.push(("Run", ran));
    }
    if let Some(labeled) = &context.labeled {
        let against = labeled.found.golden.as_deref().map(shown);
        facts.push(("Compared with", against.unwrap_or_else(|| "the references of its kernels".into())));
    }
    let span = summary.span.map(|span| format!(" in {}", time(span))).unwrap_or_default();
    facts.push(("Tasks", format!("{}{span}", grouped(context.graph().len() as u64))));
    let stored = bytes(dump.totals().stored_bytes);
    facts.push(("Records", format!("{}, {stored} stored", grouped(dump.len()))));
    if let Some(words) = run_status(dump) {
        facts.push(("Run result", words));
    }
    facts.extend(early_end(dump).map(|words| ("End", words)));
    let lost = dump.footer().map(|footer| losses_by_reason(&footer.losses)).unwrap_or_default();
    if !lost.is_empty() {
        facts.push(("Lost", lost));
    }
    if state_name(&dump.tail()) != "closed" {
        facts.push(("State", format!("{}: it may be incomplete", state_name(&dump.tail()))));
    }
    facts.extend(in_flight_words(context.graph()).map(|words| ("In flight", words)));
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
        facts.push(("Critical path", format!("{tasks}, {}", time(critical.1))));
    }
    facts
}

/// An explanation of a label for new users.
#[must_use]
pub const fn label_meaning(label: Label) -> &'static str {
    match label {
        Label::Ok => "inputs and outputs are right",
        Label::WrongHere => "its inputs are right, but an output is wrong: the error began here",
        Label::Inherited => "an output is wrong because an input that another task produced is wrong",
        Label::Raced => "an input differs from what its producer wrote: it was read or overwritten too early",
        Label::Fed => "an output is wrong because an input that no task produced is wrong",
        Label::Masked => "an input is wrong, but the outputs are right",
        Label::Unknown => "not enough was captured to decide",
    }
}

fn flagged(context: &ReportContext<'_>, one: &FlaggedRecord) -> FlaggedReport {
    let record = &one.measured.record;
    let stats = one.measured.summary.map(|summary| summary.stats).unwrap_or_default();
    let counts = [(stats.nan, "NaN"), (stats.inf, "infinite")];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(count, what)| format!("{} {what} of {}", grouped(*count), counted(record.numel, "element")))
        .collect();
    let flags: Vec<&str> = one.flags.iter().map(|flag| flag.name()).collect();
    let task = context.summary.graph.task(one.place);
    FlaggedReport {
        name: record_name(record),
        task: task_words(task),
        what: if counts.is_empty() { flags.join(", ") } else { counts.join(", ") },
    }
}

/// Commands for the next steps with the dump.
fn commands(context: &ReportContext<'_>) -> Vec<CommandDocument> {
    let (program, dump, against) = (context.options.program, context.path(), context.against_option());
    let command = |about: &str, command: String| CommandDocument {
        about: about.into(),
        command: format!("{program} {command}"),
    };
    let mut commands = Vec::new();
    if let Some(one) = context.summary.flagged.first().filter(|_| context.labeled.is_none()) {
        let task = context.summary.graph.task(one.place);
        let id = step_task(task.step, task.task_id);
        commands.push(command("Show the first task with an unusual output", format!("show {dump} {id}")));
    }
    match context.labeled {
        Some(_) => {
            commands.push(command("List the label of every task", format!("blame {dump}{against} --all")));
            commands.push(command(
                "Draw how the error spread",
                format!("graph {dump}{against} --way -o way.svg"),
            ));
        }
        None if !context.dump.info().is_of_program() && !context.dump.format().is_foreign() => {
            commands.push(command(
                "Compare every task with its reference",
                format!("report {dump} --reference -o report.html"),
            ));
            commands.push(command(
                "Compare it with a correct run",
                format!("report {dump} --golden RIGHT -o report.html"),
            ));
        }
        None => {
            commands.push(command(
                "Compare it with a correct run",
                format!("report {dump} --golden RIGHT -o report.html"),
            ));
        }
    }
    commands.push(command("List the records", format!("list {dump}")));
    if context.blame().is_none_or(|blame| blame.first_wrong.is_empty()) {
        commands.retain(|one| !one.command.contains(" --way "));
    }
    commands
}
