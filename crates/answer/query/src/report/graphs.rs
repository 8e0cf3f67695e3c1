//! Pictures of the graph: the error path, the neighborhood of the first wrong task, and the whole graph,
//! folded.

use tensortap::analysis::blame::Blame;
use tensortap::analysis::graph::TaskGraph;
use tensortap::format::Dump;

use super::ReportContext;
use crate::blame::error_paths;
use crate::document::GraphReport;
use crate::drawing::{DrawOptions, Drawing, FEW, fold_for, neighborhood};
use crate::number::{counted, grouped};
use crate::words::run_title;

/// Maximum boxes of a picture; larger ones are unreadable.
const MOST_BOXES: usize = 2 * FEW;
/// Maximum lines of a picture; more are unreadable.
const MOST_LINES: usize = 2_000;
/// Number of pictures of the whole graph at different folds.
const FOLDS: usize = 3;

/// Pictures of the graph, and remarks about what could not be drawn.
pub fn graphs(context: &ReportContext<'_>) -> (Vec<GraphReport>, Vec<String>) {
    let graph = context.graph();
    let (mut graphs, mut left_out) = (Vec::new(), Vec::new());
    let draw = |name: String, only: Option<&[usize]>, fold: Option<usize>| {
        let options = DrawOptions { findings: context.findings(), only, fold, ..DrawOptions::default() };
        draw(context.dump, graph, name, &options)
    };
    if let Some(&first) = context.blame().and_then(|blame| blame.first_wrong.first()) {
        let near = neighborhood(graph, first, 1);
        graphs.extend(draw("Near the first wrong task".into(), Some(&near), None));
    }
    match fold_for(graph, None) {
        None => graphs.extend(draw("Every task".into(), None, None)),
        Some(deepest) => {
            let (from, mut boxes) = (graphs.len(), 1);
            for depth in 1..=deepest {
                // Without deeper scopes, the picture would be the same.
                let drawn = draw(format!("Scopes of depth {depth}"), None, Some(depth));
                if let Some(drawn) = drawn.filter(|drawn| drawn.layout.boxes() > boxes) {
                    boxes = drawn.layout.boxes();
                    graphs.insert(from, drawn);
                }
            }
            graphs.truncate(from + FOLDS);
            if graphs.len() == from {
                let tasks = counted(graph.len() as u64, "task");
                left_out.push(format!(
                    "a picture of the whole graph: {tasks} in too few scopes; `graph --around TASK` draws a part"
                ));
            }
        }
    }
    (graphs, left_out)
}

/// The picture of how errors spread.
pub fn way(dump: &Dump, blame: &Blame) -> Option<GraphReport> {
    let first = *blame.first_wrong.first()?;
    // All error paths together are readable only if they are small; else draw the first.
    let all = error_paths(blame);
    let began = all.len() > 1 && all.iter().all(|&place| blame.findings[place].label.is_root());
    let count = |count: usize| grouped(count as u64);
    let (places, name) = match (all.len() <= FEW / 4, blame.first_wrong.len()) {
        (true, _) if began => (all.clone(), format!("Where {} errors began, in order", count(all.len()))),
        (false, _) if began => {
            let name = format!("Where the first {} of {} errors began", FEW / 4, count(all.len()));
            (all[..FEW / 4].to_vec(), name)
        }
        (true, 1) => (all, "How the error spread".into()),
        (true, errors) => (all, format!("How {} errors spread", count(errors))),
        (false, 1) => (blame.chain(first), "How the error spread".into()),
        (false, _) => (blame.chain(first), "How the first error spread".into()),
    };
    let options = DrawOptions {
        findings: &blame.findings,
        only: Some(&places),
        fold: fold_for(&blame.graph, Some(&places)),
        through: true,
        ..DrawOptions::default()
    };
    draw(dump, &blame.graph, name, &options).filter(|_| places.len() > 1)
}

/// `None` if the picture would be too large.
fn draw(dump: &Dump, graph: &TaskGraph, name: String, options: &DrawOptions<'_>) -> Option<GraphReport> {
    let drawing = Drawing::of(graph, &run_title(dump), options);
    let fits = drawing.boxes.len() <= MOST_BOXES && drawing.lines.len() <= MOST_LINES;
    fits.then(|| GraphReport { name, tasks: drawing.tasks(graph), layout: drawing.layout() })
}
