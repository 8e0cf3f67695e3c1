//! The graph of tasks, folded by scope or around one task.

use serde::Serialize;
use tensortap_query::blame::ways;
use tensortap_query::drawing::{DrawOptions, Drawing, FEW, Layout, fold_for, neighbourhood};
use tensortap_query::find_tasks;
use tensortap_query::words::what_ran;

use super::State;
use super::answer::{Answer, Params, Problem};

/// Boxes that a page draws at most; laying out more takes longer than people wait.
const MOST_BOXES: usize = 3 * FEW;
/// Lines that a page draws at most: more make a black square, and megabytes.
const MOST_LINES: usize = 5_000;
/// Lines from a task that its neighbourhood reaches at most.
const MOST_HOPS: usize = 6;

#[derive(Serialize)]
struct GraphDocument {
    #[serde(flatten)]
    layout: Option<Layout>,
    /// Depth from which scopes are folded; null when nothing is.
    fold: Option<usize>,
    /// Boxes that there would be.
    count: usize,
    /// Why nothing is drawn.
    too_many: Option<String>,
    /// The task of each box that stands for one, as requests name it.
    tasks: Vec<Option<String>>,
    all_tasks: usize,
}

/// The graph.
pub(crate) fn graph(state: &State, params: &Params) -> Result<Answer, Problem> {
    let opened = state.shelf.dump(params)?;
    let graph = opened.graph()?;
    let blame = opened.blame(params.get("golden"));
    let findings = blame.as_ref().map_or(&[][..], |blame| &blame.findings);
    let only = match (params.get("around"), params.get("way"), &blame) {
        (Some(name), ..) => {
            let hops = params.number("hops")?.unwrap_or(2).min(MOST_HOPS);
            Some(neighbourhood(&graph, find_tasks(graph.tasks(), name)?[0], hops))
        }
        (None, Some(_), Some(blame)) => Some(ways(blame)),
        _ => None,
    };
    let only = only.as_deref();
    let fold = match params.number::<usize>("fold")? {
        Some(0) => None,
        Some(depth) => Some(depth),
        None => fold_for(&graph, only),
    };
    let open: Vec<String> = params.all("open").map(String::from).collect();
    let through = params.get("way").is_some();
    let options = DrawOptions { findings, only, fold, open: &open, through };
    let drawing = Drawing::of(&graph, &what_ran(&opened.dump), &options);
    let count = drawing.boxes.len();
    let lines = drawing.lines.len();
    let fits = count <= MOST_BOXES && lines <= MOST_LINES;
    Ok(Answer::document(&GraphDocument {
        tasks: if fits { drawing.tasks(&graph) } else { Vec::new() },
        layout: fits.then(|| drawing.layout()),
        fold,
        count,
        too_many: (!fits).then(|| format!(
            "{count} boxes and {lines} lines are more than the {MOST_BOXES} and {MOST_LINES} that a page draws: fold scopes, or look around one task"
        )),
        all_tasks: graph.len(),
    }))
}
