//! The graph of tasks, folded by scope or around one task.

use serde::Serialize;
use tensortap_query::blame::error_paths;
use tensortap_query::drawing::{DrawOptions, Drawing, FEW, Layout, fold_for, neighborhood};
use tensortap_query::find_tasks;
use tensortap_query::words::run_title;

use super::State;
use super::answer::{Answer, Params, Problem};

/// Maximum boxes of a picture. Laying out more takes too long.
const MOST_BOXES: usize = 3 * FEW;
/// Maximum lines of a picture. More are unreadable and take megabytes.
const MOST_LINES: usize = 5_000;
/// Maximum distance from the task in a neighborhood.
const MOST_HOPS: usize = 6;

#[derive(Serialize)]
struct GraphDocument {
    #[serde(flatten)]
    layout: Option<Layout>,
    /// Depth from which scopes are folded; null if nothing is folded.
    fold: Option<usize>,
    /// Number of boxes, also if they are too many to draw.
    count: usize,
    /// Why the graph is not drawn.
    too_many: Option<String>,
    /// The task of each box, as requests name it; null for a scope.
    tasks: Vec<Option<String>>,
    all_tasks: usize,
}

/// The graph.
pub(crate) fn graph(state: &State, params: &Params) -> Result<Answer, Problem> {
    let opened = state.open_dumps.dump(params)?;
    let graph = opened.graph()?;
    let blame = opened.blame(params.get("golden"));
    let findings = blame.as_ref().map_or(&[][..], |blame| &blame.findings);
    let only = match (params.get("around"), params.get("way"), &blame) {
        (Some(name), ..) => {
            let hops = params.number("hops")?.unwrap_or(2).min(MOST_HOPS);
            Some(neighborhood(&graph, find_tasks(graph.tasks(), name)?[0], hops))
        }
        (None, Some(_), Some(blame)) => Some(error_paths(blame)),
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
    let drawing = Drawing::of(&graph, &run_title(&opened.dump), &options);
    let count = drawing.boxes.len();
    let lines = drawing.lines.len();
    let fits = count <= MOST_BOXES && lines <= MOST_LINES;
    Ok(Answer::document(&GraphDocument {
        tasks: if fits { drawing.tasks(&graph) } else { Vec::new() },
        layout: fits.then(|| drawing.layout()),
        fold,
        count,
        too_many: (!fits).then(|| format!(
            "too large to draw: {count} boxes and {lines} lines, at most {MOST_BOXES} and {MOST_LINES}. Fold scopes, or show the neighborhood of one task"
        )),
        all_tasks: graph.len(),
    }))
}
