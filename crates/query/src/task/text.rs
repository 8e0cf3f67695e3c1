//! The page of a task in words, for every terminal.

use std::fmt::Write;

use tensortap::DumpStage;
use tensortap::analysis::graph::TaskGraph;
use tensortap::format::ScalarValue;

use super::{ArgPage, HeldTask, Moment, Neighbour, TaskPage, Times, sparkline};
use crate::module_words::module_words;
use crate::number::{bytes, grouped, significant, time};
use crate::observed::{ambiguity_words, role_word, unattributed_words};
use crate::words::{
    arg_words, kernels_text, launch_text, printable, scalar_text, sizes_text, step_task, task_title,
    task_words,
};

/// Neighbours that are named, on either side.
const NAMED: usize = 6;
/// Digits of a statistic.
const DIGITS: usize = 4;

/// Characters of a name in a row: those of templates have hundreds, and stand whole in the first line and in the document.
const NAME: usize = 64;

/// A name in a row, its end cut off where it is long.
fn short(name: &str) -> String {
    match name.char_indices().nth(NAME) {
        Some(_) => name.chars().take(NAME - 1).chain(['…']).collect(),
        None => name.to_owned(),
    }
}

/// What stands above the arguments: names, times, label in words, neighbours.
#[must_use]
pub fn page_head(graph: &TaskGraph, page: &TaskPage<'_>, label: Option<&str>) -> String {
    let task = page.task;
    let id = step_task(task.step, task.task_id);
    let (kernels, title) = (task.kernel_names(), task_title(task.scope(), task.task_name()));
    // A copy, a fill, what the host does: its name is all there is.
    let (called, title) = match title {
        Some(title) if kernels.is_empty() => (title, None),
        title => (kernels_text(&kernels), title),
    };
    let mut text = format!("task {id}: {called}\n");
    let mut fact = |label: &str, fact: &str| {
        let _ = writeln!(text, "  {label:<12}  {fact}");
    };
    if let Some(title) = title {
        fact("name", &title);
    }
    let said = [
        ("step", page.said.step_name.clone()),
        ("queue", page.said.queue.clone()),
        ("source", page.said.source_text()),
        ("submitted by", page.said.parent.map(|parent| format!("task {parent:#x}"))),
    ];
    said.into_iter().for_each(|(label, what)| what.iter().for_each(|what| fact(label, &printable(what))));
    if let Some(launch) = &task.launch {
        fact("launch", &launch_text(launch));
    }
    if let Some(module) = &page.module {
        fact("code", &module_words(module));
    }
    for (arg_index, reason) in &page.uncaptured {
        fact("uncaptured", &format!("{}: {}", arg_words(task, *arg_index), reason.text()));
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
            let words = short(&task_words(waited));
            let waited = format!("{} {words}", step_task(waited.step, waited.task_id));
            fact("in flight", &format!("it had not begun when the run ended: it waited for {waited}"));
        }
        None if task.is_unfinished() => {
            fact("in flight", "it had not completed when the run ended: what it left may be a part of it");
        }
        None => {}
    }
    if let Some(label) = label {
        fact("label", label);
    }
    fact("given by", &neighbours_text(graph, &page.producers));
    fact("taken by", &neighbours_text(graph, &page.consumers));
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
        format!("{} {}{waits}", step_task(task.step, task.task_id), short(&task_words(task)))
    };
    let mut named: Vec<String> = neighbours.iter().take(NAMED).map(one).collect();
    if neighbours.len() > NAMED {
        named.push(format!("and {} more", grouped((neighbours.len() - NAMED) as u64)));
    }
    named.join("\n                ")
}

/// An argument in lines: what it is, and its content before and after, each with what came of holding it against something.
#[must_use]
pub fn argument_lines(graph: &TaskGraph, page: &ArgPage<'_>, held: Option<&HeldTask<'_>>) -> String {
    let mut text = String::new();
    write_arg(&mut text, graph, page, held);
    text
}

fn write_arg(text: &mut String, graph: &TaskGraph, page: &ArgPage<'_>, held: Option<&HeldTask<'_>>) {
    let held_lines = |text: &mut String, stage: DumpStage| {
        let lines = held.map(|held| held.lines(page.arg.arg_index, stage)).unwrap_or_default();
        lines.iter().for_each(|line| {
            let _ = writeln!(text, "          {line}");
        });
    };
    let arg = page.arg;
    let name = page.name.as_ref().map(|name| format!(" ({})", short(&printable(name)))).unwrap_or_default();
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
        let _ = writeln!(text, "  before  {}{from}", moment_text(before));
        held_lines(text, DumpStage::BeforeDispatch);
    }
    if let Some(after) = &page.after {
        let unchanged = if arg.is_unchanged() { "  as it came" } else { "" };
        let to =
            if page.to.is_empty() { String::new() } else { format!("  to {}", tasks_text(graph, &page.to)) };
        let _ = writeln!(text, "  after   {}{unchanged}{to}", moment_text(after));
        held_lines(text, DumpStage::AfterCompletion);
    }
}

/// The first of these tasks, by their ids.
#[must_use]
pub fn tasks_text(graph: &TaskGraph, places: &[usize]) -> String {
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
