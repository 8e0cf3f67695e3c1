//! A whole task on one screen.

use std::fmt::Write;

use tensortap::TaskId;
use tensortap::analysis::blame::Blame;
use tensortap::analysis::graph::{TaskGraph, load};
use tensortap::analysis::labels::{Finding, Label};
use tensortap::format::{Dump, is_in_steps};
use tensortap::scene::Registry;
use tensortap_query::document::{LabelDocument, TaskPageDocument};
use tensortap_query::number::counted;
use tensortap_query::words::record_name;
use tensortap_query::{TaskPage, argument_lines, find_tasks, page_head, tasks_text};

use super::ShowArgs;
use crate::error::Exit;
use crate::labels::labels;
use crate::output::Output;
use crate::program::program;

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
    let mut text = page_head(graph, page, finding);
    for arg in &page.args {
        text.push('\n');
        text += &argument_lines(graph, arg);
    }
    if let Some(first) = page.args.iter().find_map(|arg| arg.after.as_ref().or(arg.before.as_ref())) {
        let dump = crate::dump_arg::quoted(dump.dir());
        let _ = writeln!(text, "\nvalues of one: {} show {dump} {}", program(), record_name(&first.record));
    }
    if !others.is_empty() {
        let count = counted(others.len() as u64, "further task");
        let _ = writeln!(text, "{count} of that name: {}", tasks_text(graph, others));
    }
    text
}
