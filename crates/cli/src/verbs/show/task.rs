//! A whole task on one screen.

use std::fmt::Write;

use tensortap::TaskId;
use tensortap::analysis::blame::Blame;
use tensortap::analysis::graph::{TaskGraph, load};
use tensortap::analysis::labels::{Finding, Label};
use tensortap::format::{Dump, ScalarValue, is_in_steps, role_name};
use tensortap::scene::Registry;
use tensortap_query::document::{LabelDocument, TaskPageDocument};
use tensortap_query::number::{bytes, counted, grouped, significant, time};
use tensortap_query::words::{
    kernels_text, printable, record_name, scalar_text, sizes_text, step_task, task_title, task_words,
};
use tensortap_query::{ArgPage, Moment, Neighbour, TaskPage, Times, find_tasks, sparkline};

use super::ShowArgs;
use crate::error::Exit;
use crate::labels::labels;
use crate::output::Output;
use crate::program::program;

/// Neighbours that are named, on either side.
const NAMED: usize = 6;
/// Digits of a statistic.
const DIGITS: usize = 4;

/// Shows the task that `name` means; of several, the first that is wrong, or else the first.
pub fn run(
    args: &ShowArgs,
    registry: &Registry,
    dump: &Dump,
    name: &str,
    output: Output,
) -> anyhow::Result<Exit> {
    let (graph, findings) = match labels(&args.labels, registry, dump, &[])? {
        Some(Blame { graph, findings, .. }) => (graph, findings),
        None => (load(dump, &[])?, Vec::new()),
    };
    let meant = find_tasks(graph.tasks(), name)?;
    let in_steps: Vec<usize> = meant
        .iter()
        .copied()
        .filter(|&place| is_in_steps(args.select.steps(), graph.task(place).step))
        .collect();
    // A step that the name does not have is answered with what it has.
    let meant = if in_steps.is_empty() { meant } else { in_steps };
    let is_wrong = |place: &&usize| findings.get(**place).is_some_and(|finding| finding.label != Label::Ok);
    let place = *meant.iter().find(is_wrong).unwrap_or(&meant[0]);
    let page = TaskPage::of(dump, &graph, place)?;
    let others: Vec<usize> = meant.into_iter().filter(|&other| other != place).collect();
    let finding = findings.get(place);
    if output.json {
        let mut document = TaskPageDocument::of(dump, &graph, &page);
        document.also_meant =
            others.iter().map(|&other| TaskId(graph.task(other).task_id).to_string()).collect();
        document.label = finding.cloned().map(|finding| LabelDocument {
            label: finding.label.name(),
            arg_index: finding.arg_index,
            reason: finding.reason,
        });
        output.document(&document)?;
    } else {
        output.text(&text(dump, &graph, &page, finding, &others))?;
    }
    Ok(Exit::Good)
}

fn text(
    dump: &Dump,
    graph: &TaskGraph,
    page: &TaskPage<'_>,
    finding: Option<&Finding>,
    others: &[usize],
) -> String {
    let task = page.task;
    let id = step_task(task.step, task.task_id);
    let mut text = format!("task {id}: {}\n", kernels_text(&task.kernel_names()));
    let mut fact = |label: &str, fact: &str| {
        let _ = writeln!(text, "  {label:<12}  {fact}");
    };
    if let Some(title) = task_title(task.scope(), task.task_name()) {
        fact("name", &title);
    }
    let said = [
        ("step", page.said.step_name.clone()),
        ("queue", page.said.queue.clone()),
        ("source", page.said.source_text()),
        ("submitted by", page.said.parent.map(|parent| format!("task {parent:#x}"))),
    ];
    said.into_iter().for_each(|(label, what)| what.iter().for_each(|what| fact(label, &printable(what))));
    if let Some(blocks) = task.block_count().filter(|&blocks| blocks > 1) {
        fact("blocks", &grouped(blocks.into()));
    }
    if let Some(times) = times_text(page.times) {
        fact("time", &times);
    }
    if task.is_unfinished() {
        fact("in flight", "it had not completed when the run ended: what it left may be a part of it");
    }
    if let Some(finding) = finding {
        let reason =
            finding.reason.as_ref().map(|reason| format!(": {}", printable(reason))).unwrap_or_default();
        fact("label", &format!("{}{reason}", finding.label.name()));
    }
    fact("given by", &neighbours_text(graph, &page.producers));
    fact("taken by", &neighbours_text(graph, &page.consumers));
    for arg in &page.args {
        text.push('\n');
        write_arg(&mut text, graph, arg);
    }
    if let Some(first) = page.args.iter().find_map(|arg| arg.after.as_ref().or(arg.before.as_ref())) {
        let dump = crate::dump_arg::quoted(dump.dir());
        let _ = writeln!(text, "\nvalues of one: {} show {dump} {}", program(), record_name(&first.record));
    }
    if !others.is_empty() {
        let count = counted(others.len() as u64, "further task");
        let _ = writeln!(text, "{count} of that name: {}", ids_text(graph, others));
    }
    text
}

fn times_text(times: Times) -> Option<String> {
    let started = times.started.map(|started| format!("started {} after the first task", time(started)));
    let took = times.took.map(|took| format!("took {}", time(took)));
    let both: Vec<String> = [started, took].into_iter().flatten().collect();
    (!both.is_empty()).then(|| both.join(", "))
}

fn neighbours_text(graph: &TaskGraph, neighbours: &[Neighbour]) -> String {
    if neighbours.is_empty() {
        return "no task".into();
    }
    let one = |neighbour: &Neighbour| {
        let task = graph.task(neighbour.place);
        let waits = if neighbour.carries { "" } else { " (order alone)" };
        format!("{} {}{waits}", step_task(task.step, task.task_id), task_words(task))
    };
    let mut named: Vec<String> = neighbours.iter().take(NAMED).map(one).collect();
    if neighbours.len() > NAMED {
        named.push(format!("and {} more", grouped((neighbours.len() - NAMED) as u64)));
    }
    named.join("\n                ")
}

fn write_arg(text: &mut String, graph: &TaskGraph, page: &ArgPage<'_>) {
    let arg = page.arg;
    let name = page.name.as_ref().map(|name| format!(" ({})", printable(name))).unwrap_or_default();
    let _ = write!(text, "argument {}{name}, {}, {}", arg.arg_index, role_name(arg.role), arg.dtype);
    if let Some(bits) = arg.scalar_bits {
        let _ = writeln!(text, " scalar: {}", scalar_text(ScalarValue::decode(arg.dtype, bits)));
        return;
    }
    let size = arg.content_bytes().map(|size| format!(", {}", bytes(size))).unwrap_or_default();
    let _ = writeln!(text, " {}{size}", sizes_text(arg.shape()));
    if let Some(before) = &page.before {
        let from = if page.from.is_empty() {
            String::new()
        } else {
            format!("  from {}", ids_text(graph, &page.from))
        };
        let _ = writeln!(text, "  before  {}{from}", moment_text(before));
    }
    if let Some(after) = &page.after {
        let unchanged = if arg.is_unchanged() { "  as it came" } else { "" };
        let to =
            if page.to.is_empty() { String::new() } else { format!("  to {}", ids_text(graph, &page.to)) };
        let _ = writeln!(text, "  after   {}{unchanged}{to}", moment_text(after));
    }
}

/// The first of them, by their ids.
fn ids_text(graph: &TaskGraph, places: &[usize]) -> String {
    let one = |&place: &usize| step_task(graph.task(place).step, graph.task(place).task_id);
    let mut named: Vec<String> = places.iter().take(NAMED).map(one).collect();
    if places.len() > NAMED {
        named.push(format!("{} more", grouped((places.len() - NAMED) as u64)));
    }
    named.join(", ")
}

fn moment_text(moment: &Moment) -> String {
    let picture =
        moment.histogram.as_ref().map(|h| format!("  |{}|", sparkline(&h.counts))).unwrap_or_default();
    let damaged = if moment.damaged { "  damaged: not what was captured" } else { "" };
    let Some(stats) = moment.stats else {
        return format!("content {}", moment.record.payload.name());
    };
    let numbers = [("min", stats.min), ("max", stats.max), ("mean", stats.mean), ("std", stats.std)];
    let numbers: Vec<String> =
        numbers.iter().map(|(name, value)| format!("{name} {}", significant(*value, DIGITS))).collect();
    let mut text = numbers.join("  ");
    for (count, what) in [(stats.nan, "NaN"), (stats.inf, "Inf"), (stats.zeros, "zeros")] {
        if count > 0 {
            let _ = write!(text, "  {} {what}", grouped(count));
        }
    }
    format!("{text}{picture}{damaged}")
}
