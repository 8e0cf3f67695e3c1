//! Pictures of the graph: the way of the error, what is near the first wrong task, and all of it, folded.

use tensortap::analysis::blame::Blame;
use tensortap::analysis::graph::TaskGraph;
use tensortap::format::Dump;

use super::Known;
use crate::blame::ways;
use crate::document::GraphReport;
use crate::drawing::{DrawOptions, Drawing, FEW, fold_for, neighbourhood};
use crate::number::{counted, grouped};
use crate::words::what_ran;

/// Boxes of a picture in a report; beyond that nobody finds anything in it.
const MOST_BOXES: usize = 2 * FEW;
/// Lines of a picture: more make a black square.
const MOST_LINES: usize = 2_000;
/// Pictures of the whole graph, folded more and less.
const FOLDS: usize = 3;

/// Pictures of the graph, and what could not be drawn.
pub fn graphs(known: &Known<'_>) -> (Vec<GraphReport>, Vec<String>) {
    let graph = known.graph();
    let (mut graphs, mut left_out) = (Vec::new(), Vec::new());
    let draw = |name: String, only: Option<&[usize]>, fold: Option<usize>| {
        let options = DrawOptions { findings: known.findings(), only, fold, ..DrawOptions::default() };
        draw(known.dump, graph, name, &options)
    };
    if let Some(&first) = known.blame().and_then(|blame| blame.first_wrong.first()) {
        let near = neighbourhood(graph, first, 1);
        graphs.extend(draw("Near the first wrong task".into(), Some(&near), None));
    }
    match fold_for(graph, None) {
        None => graphs.extend(draw("Every task".into(), None, None)),
        Some(deepest) => {
            let (from, mut boxes) = (graphs.len(), 1);
            for depth in 1..=deepest {
                // Scopes that go no deeper make the same picture again.
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

/// The ways that errors took.
pub fn way(dump: &Dump, blame: &Blame) -> Option<GraphReport> {
    let first = *blame.first_wrong.first()?;
    // One way is read from top to bottom; those of all errors together only where they are few.
    let all = ways(blame);
    let began = all.len() > 1 && all.iter().all(|&place| blame.findings[place].label.is_root());
    let count = |count: usize| grouped(count as u64);
    let (places, name) = match (all.len() <= FEW / 4, blame.first_wrong.len()) {
        (true, _) if began => {
            (all.clone(), format!("Where {} errors began, one after the other", count(all.len())))
        }
        (false, _) if began => {
            let name = format!("Where the first {} of {} errors began", FEW / 4, count(all.len()));
            (all[..FEW / 4].to_vec(), name)
        }
        (true, 1) => (all, "The way of the error".into()),
        (true, errors) => (all, format!("The ways of {} errors", count(errors))),
        (false, 1) => (blame.chain(first), "The way of the error".into()),
        (false, _) => (blame.chain(first), "The way of the first error".into()),
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

/// `None` when there would be too much in it.
fn draw(dump: &Dump, graph: &TaskGraph, name: String, options: &DrawOptions<'_>) -> Option<GraphReport> {
    let drawing = Drawing::of(graph, &what_ran(dump), options);
    let fits = drawing.boxes.len() <= MOST_BOXES && drawing.lines.len() <= MOST_LINES;
    fits.then(|| GraphReport { name, tasks: drawing.tasks(graph), layout: drawing.layout() })
}
