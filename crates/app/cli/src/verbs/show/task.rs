//! The page of a whole task.

use std::fmt::Write;

use tensortap::analysis::blame::Blame;
use tensortap::analysis::graph::{TaskGraph, load};
use tensortap::format::{Dump, is_in_steps};
use tensortap::scene::Registry;
use tensortap::{DumpStage, TaskId};
use tensortap_query::blame::wrong_first;
use tensortap_query::blame_words::label_words;
use tensortap_query::document::TaskPageDocument;
use tensortap_query::golden::{Golden, remarks};
use tensortap_query::number::counted;
use tensortap_query::observed::not_decided;
use tensortap_query::words::record_name;
use tensortap_query::{
    ArgPage, ArgSnapshot, LabelSource, TaskComparison, TaskPage, argument_lines, find_tasks,
    memory_documents, memory_text, page_head, tasks_text,
};

use super::ShowArgs;
use crate::error::Exit;
use crate::output::Output;
use crate::program::program;

/// Shows the task that `name` matches. If several match: the first one, or with labels the first wrong one.
pub fn run(
    args: &ShowArgs,
    registry: &Registry,
    dump: &Dump,
    name: &str,
    output: Output,
) -> anyhow::Result<Exit> {
    let shows_memory = args.memory;
    if !args.labels.any() {
        let graph = load(dump, &[])?;
        let places = meant(args, &graph, None, name)?;
        return TaskView { dump, graph: &graph, held: None, remarks: Vec::new(), shows_memory }
            .print(&places, output);
    }
    let label_source = LabelSource::open(registry, dump, args.labels.golden.as_deref())?;
    let (against, options) = (label_source.against(dump)?, label_source.options(dump, &[]));
    let blame = Blame::of(dump, &against, &options)?;
    let places = meant(args, &blame.graph, Some(&blame), name)?;
    let held = Some(TaskComparison::of(&blame, dump, &against, &options, places[0])?);
    let golden = label_source.golden().and_then(Golden::dump);
    let remarks = golden.map_or_else(Vec::new, |golden| remarks(dump, golden, blame.compared));
    TaskView { dump, graph: &blame.graph, held, remarks, shows_memory }.print(&places, output)
}

/// The tasks that a name matches, in the order of reports; with labels, wrong ones first.
fn meant(
    args: &ShowArgs,
    graph: &TaskGraph,
    blame: Option<&Blame>,
    name: &str,
) -> anyhow::Result<Vec<usize>> {
    let mut meant = find_tasks(graph.tasks(), name)?;
    let is_selected = |place: &usize| is_in_steps(args.select.steps(), graph.task(*place).step);
    // If no task is in the selected steps, the steps are ignored.
    if meant.iter().any(is_selected) {
        meant.retain(is_selected);
    }
    match blame {
        Some(blame) => wrong_first(blame, &mut meant),
        None => graph.sort(&mut meant),
    }
    Ok(meant)
}

/// A task page with its label and remarks.
struct TaskView<'a> {
    dump: &'a Dump,
    graph: &'a TaskGraph,
    held: Option<TaskComparison<'a>>,
    /// Remarks about the golden.
    remarks: Vec<String>,
    shows_memory: bool,
}

impl TaskView<'_> {
    /// Prints the page of the first of these tasks, and names the others.
    fn print(&self, places: &[usize], output: Output) -> anyhow::Result<Exit> {
        let page = TaskPage::of(self.dump, self.graph, places[0])?;
        let others = &places[1..];
        if output.json {
            let mut document = TaskPageDocument::of(self.dump, self.graph, &page, self.held.as_ref());
            document.also_meant =
                others.iter().map(|&other| TaskId(self.graph.task(other).task_id).to_string()).collect();
            document.memory = self.shows_memory.then(|| memory_documents(self.graph, page.task));
            document.remarks.extend(self.remarks.iter().cloned());
            output.document(&document)?;
        } else {
            output.text(&self.text(&page, others))?;
        }
        Ok(Exit::Good)
    }

    /// The record whose values the page suggests to show: a wrong one, or any.
    fn telling<'p>(&self, page: &'p TaskPage<'_>) -> Option<&'p ArgSnapshot> {
        let outside =
            self.held.as_ref().and_then(TaskComparison::first_outside).map(|outside| &outside.compared);
        let is_outside = |arg: &&ArgPage<'_>| outside.is_some_and(|one| one.arg_index == arg.arg.arg_index);
        let wrong = page.args.iter().find(is_outside).and_then(|arg| match outside?.stage {
            DumpStage::BeforeDispatch => arg.before.as_ref(),
            DumpStage::AfterCompletion => arg.after.as_ref(),
        });
        wrong.or_else(|| page.args.iter().find_map(|arg| arg.after.as_ref().or(arg.before.as_ref())))
    }

    fn text(&self, page: &TaskPage<'_>, others: &[usize]) -> String {
        let held = self.held.as_ref();
        let label = held.map(|held| label_words(held.blame, held.place));
        let mut text = page_head(self.graph, page, label.as_deref());
        for remark in not_decided(self.graph).iter().chain(&self.remarks) {
            let _ = writeln!(text, "  {:<12}  {remark}", "note");
        }
        for arg in &page.args {
            text.push('\n');
            text += &argument_lines(self.graph, arg, held);
        }
        if self.shows_memory {
            text.push('\n');
            text += &memory_text(self.graph, page.task);
        }
        if let Some(one) = self.telling(page) {
            let dump = crate::dump_path::quoted(self.dump.dir());
            let _ =
                writeln!(text, "\nshow its values: {} show {dump} {}", program(), record_name(&one.record));
        }
        if !others.is_empty() {
            let count = counted(others.len() as u64, "more task");
            let _ = writeln!(text, "{count} with this name: {}", tasks_text(self.graph, others));
        }
        text
    }
}
