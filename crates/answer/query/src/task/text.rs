//! The page of a task as text, for the command line and the terminal viewer.

use std::fmt::Write;

use tensortap::DumpStage;
use tensortap::analysis::graph::TaskGraph;
use tensortap::format::{ScalarValue, Task};

use super::{ArgPage, ArgSnapshot, AttributeFact, Neighbor, TaskComparison, TaskPage, Times, sparkline};
use crate::module_words::module_words;
use crate::number::{bytes, grouped, significant, time};
use crate::observed::{ambiguity_words, role_word, unattributed_words};
use crate::words::{
    arg_words, full_kernels_text, launch_text, printable, scalar_text, sizes_text, step_task, task_title,
    task_words,
};
use crate::wrap::shorten;

/// Maximum number of listed neighbors on each side.
const NAMED: usize = 6;
/// Digits of a statistic.
const DIGITS: usize = 4;

/// Maximum characters of a name in a row. Template names have hundreds; the first line and the document have
/// them completely.
const NAME: usize = 64;

/// The head of the page: names, times, label, neighbors.
#[must_use]
pub fn page_head(graph: &TaskGraph, page: &TaskPage<'_>, label: Option<&str>) -> String {
    let task = page.task;
    let id = step_task(task.step, task.task_id);
    let (kernels, title) = (task.kernel_names(), task_title(task.scope(), task.task_name()));
    // Copies, fills and host operations have only a name.
    let (called, title) = match title {
        Some(title) if kernels.is_empty() => (title, None),
        title => (full_kernels_text(&kernels), title),
    };
    let mut text = format!("task {id}: {called}\n");
    let mut fact = |label: &str, fact: &str| {
        let _ = writeln!(text, "  {label:<12}  {fact}");
    };
    if let Some(title) = title {
        fact("name", &title);
    }
    let submission = [
        ("step", page.submission.step_name.clone()),
        ("queue", page.submission.queue.clone()),
        ("source", page.submission.source_text()),
        (parent_label(task), page.submission.parent.map(|parent| parent_text(task, parent))),
        ("collective", page.submission.collective.as_ref().map(|(text, _)| text.clone())),
        ("contains", contained_text(task)),
    ];
    submission
        .into_iter()
        .for_each(|(label, what)| what.iter().for_each(|what| fact(label, &printable(what))));
    if let Some(launch) = &task.launch {
        fact("launch", &launch_text(launch));
    }
    if let Some(module) = &page.module {
        fact("code", &module_words(module));
    }
    for (arg_index, reason) in &page.uncaptured {
        fact("uncaptured", &format!("{}: {}", arg_words(task, *arg_index), reason.text()));
    }
    for (at, AttributeFact { name, text, .. }) in page.submission.attributes.iter().enumerate() {
        let label = if at == 0 { "attributes" } else { "" };
        fact(label, &printable(&format!("{} = {text}", shorten(name, NAME))));
    }
    if let Some(blocks) = task.block_count().filter(|&blocks| blocks > 1) {
        fact("blocks", &grouped(blocks.into()));
    }
    let waits = if task.is_unfinished() { graph.unfinished_before(task) } else { None };
    if let Some(times) = times_text(page.times).filter(|_| waits.is_none()) {
        fact("time", &times);
    }
    match waits.map(|place| graph.task(place)) {
        Some(waited) => {
            let words = shorten(&task_words(waited), NAME);
            let waited = format!("{} {words}", step_task(waited.step, waited.task_id));
            fact("in flight", &format!("it had not started when the run ended; it was waiting for {waited}"));
        }
        None if task.is_unfinished() => {
            fact("in flight", "it had not completed when the run ended; its outputs may be incomplete");
        }
        None => {}
    }
    if let Some(words) = &page.run_end {
        fact("run", words);
    }
    if let Some(label) = label {
        fact("label", label);
    }
    fact("producers", &neighbors_text(graph, &page.producers));
    fact("consumers", &neighbors_text(graph, &page.consumers));
    text
}

/// The label of the parent of a task.
fn parent_label(task: Task<'_>) -> &'static str {
    if task.parent_task().is_some_and(|parent| parent.is_region) { "inside of" } else { "submitted by" }
}

/// The parent of a task, and the regions around it.
fn parent_text(task: Task<'_>, parent: u64) -> String {
    let words = |task: Task<'_>| {
        format!("{} {}", step_task(task.step, task.task_id), shorten(&task_words(task), NAME))
    };
    let mut regions: Vec<String> = task.regions().take(NAMED).map(words).collect();
    if regions.is_empty() {
        regions.push(task.parent_task().map_or_else(|| format!("task {parent:#x}"), words));
    }
    regions.join(", in ")
}

/// The tasks inside of a region.
fn contained_text(task: Task<'_>) -> Option<String> {
    let children = task.children();
    let count = children.len();
    let one = |task: Task<'_>| step_task(task.step, task.task_id);
    let mut named: Vec<String> = children.take(NAMED).map(one).collect();
    if count > NAMED {
        named.push(format!("{} more", grouped((count - NAMED) as u64)));
    }
    let tasks = if count == 1 { "task" } else { "tasks" };
    (count > 0).then(|| format!("{} {tasks}: {}", grouped(count as u64), named.join(", ")))
}

fn times_text(times: Times) -> Option<String> {
    let started = times.started.map(|started| format!("started {} after the first task", time(started)));
    let took = times.took.map(|took| format!("took {}", time(took)));
    let both: Vec<String> = [started, took].into_iter().flatten().collect();
    (!both.is_empty()).then(|| both.join(", "))
}

fn neighbors_text(graph: &TaskGraph, neighbors: &[Neighbor]) -> String {
    if neighbors.is_empty() {
        return "no task".into();
    }
    let one = |neighbor: &Neighbor| {
        let task = graph.task(neighbor.place);
        let waits = if neighbor.carries { "" } else { " (order only)" };
        format!("{} {}{waits}", step_task(task.step, task.task_id), shorten(&task_words(task), NAME))
    };
    let mut named: Vec<String> = neighbors.iter().take(NAMED).map(one).collect();
    if neighbors.len() > NAMED {
        named.push(format!("and {} more", grouped((neighbors.len() - NAMED) as u64)));
    }
    named.join("\n                ")
}

/// An argument as lines: its type, and its content before and after with the result of the comparison.
#[must_use]
pub fn argument_lines(graph: &TaskGraph, page: &ArgPage<'_>, held: Option<&TaskComparison<'_>>) -> String {
    let mut text = String::new();
    write_arg(&mut text, graph, page, held);
    text
}

fn write_arg(text: &mut String, graph: &TaskGraph, page: &ArgPage<'_>, held: Option<&TaskComparison<'_>>) {
    let held_lines = |text: &mut String, stage: DumpStage| {
        let lines = held.map(|held| held.lines(page.arg.arg_index, stage)).unwrap_or_default();
        lines.iter().for_each(|line| {
            let _ = writeln!(text, "          {line}");
        });
    };
    let arg = page.arg;
    let name =
        page.name.as_ref().map(|name| format!(" ({})", shorten(&printable(name), NAME))).unwrap_or_default();
    let is_local = page.record().is_some_and(|record| record.is_local);
    if let Some(size) = arg.scalar_bits.filter(|_| is_local) {
        let _ = writeln!(text, "argument {}{name}, local memory of {}", arg.arg_index, bytes(size));
        held_lines(text, DumpStage::BeforeDispatch);
        return;
    }
    let _ = write!(text, "argument {}{name}, {}, {}", arg.arg_index, role_word(graph, arg), page.dtype());
    if let Some(bits) = arg.scalar_bits {
        let _ = writeln!(text, " scalar: {}", scalar_text(ScalarValue::decode(arg.dtype, bits)));
        held_lines(text, DumpStage::BeforeDispatch);
        return;
    }
    let size = arg.content_bytes().map(|size| format!(", {}", bytes(size))).unwrap_or_default();
    let _ = writeln!(text, " {}{size}", sizes_text(page.shape()));
    if let Some(why) = ambiguity_words(graph, arg) {
        let _ = writeln!(text, "  ambiguous: {why}");
    }
    if let Some(change) = &page.unattributed {
        let _ = writeln!(text, "  {}", unattributed_words(graph, change));
    }
    if let Some(before) = &page.before {
        let from = if page.from.is_empty() {
            String::new()
        } else {
            format!("  from {}", tasks_text(graph, &page.from))
        };
        let _ = writeln!(text, "  before  {}{from}", snapshot_text(before));
        held_lines(text, DumpStage::BeforeDispatch);
    }
    if let Some(after) = &page.after {
        let unchanged = if arg.is_unchanged() { "  unchanged" } else { "" };
        let to =
            if page.to.is_empty() { String::new() } else { format!("  to {}", tasks_text(graph, &page.to)) };
        let _ = writeln!(text, "  after   {}{unchanged}{to}", snapshot_text(after));
        held_lines(text, DumpStage::AfterCompletion);
    }
}

/// Ids of the first of these tasks.
#[must_use]
pub fn tasks_text(graph: &TaskGraph, places: &[usize]) -> String {
    let one = |&place: &usize| step_task(graph.task(place).step, graph.task(place).task_id);
    let mut named: Vec<String> = places.iter().take(NAMED).map(one).collect();
    if places.len() > NAMED {
        named.push(format!("{} more", grouped((places.len() - NAMED) as u64)));
    }
    named.join(", ")
}

impl ArgSnapshot {
    /// Names and texts of its statistics; empty if there are none. Zero counts are omitted.
    #[must_use]
    pub fn statistics_text(&self) -> Vec<(&'static str, String)> {
        let Some(stats) = self.stats else { return Vec::new() };
        let values = [("min", stats.min), ("max", stats.max), ("mean", stats.mean), ("std", stats.std)];
        let counts = [("NaN", stats.nan), ("Inf", stats.inf), ("zeros", stats.zeros)];
        let values = values.into_iter().map(|(name, value)| (name, significant(value, DIGITS)));
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        values.chain(counts.map(|(name, count)| (name, grouped(count)))).collect()
    }
}

fn snapshot_text(snapshot: &ArgSnapshot) -> String {
    if snapshot.stats.is_none() {
        return format!("content {}", snapshot.record.payload.name());
    }
    let is_count = |name: &str| ["NaN", "Inf", "zeros"].contains(&name);
    let one = |(name, text): (&'static str, String)| match is_count(name) {
        true => format!("{text} {name}"),
        false => format!("{name} {text}"),
    };
    let text: Vec<String> = snapshot.statistics_text().into_iter().map(one).collect();
    let picture =
        snapshot.histogram.as_ref().map(|h| format!("  |{}|", sparkline(&h.counts))).unwrap_or_default();
    let damaged = if snapshot.damaged { "  damaged: differs from what was captured" } else { "" };
    format!("{}{picture}{damaged}", text.join("  "))
}
