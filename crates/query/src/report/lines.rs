//! What ran when, for the timeline of a report.

use std::collections::HashMap;

use tensortap::analysis::labels::Label;

use super::Known;
use super::tables::chosen;
use crate::document::{TimelineDocument, TrackDocument, cut};
use crate::number::{counted, grouped};
use crate::words::{kernels_text, step_task};

/// Tracks that are drawn; tasks that would need more are counted.
const MOST_TRACKS: usize = 48;

/// Tasks on as many tracks as ran at once; `None` when the dump has no times.
pub fn timeline(known: &Known<'_>, rows: usize) -> Option<TimelineDocument> {
    let graph = known.graph();
    let timed = |place: &usize| graph.task(*place).start_time().zip(graph.task(*place).end_time());
    let mut places: Vec<usize> =
        chosen(known, rows).into_iter().filter(|place| timed(place).is_some()).collect();
    places.sort_by_key(timed);
    let first = timed(places.first()?)?.0;
    let mut lines = TimelineDocument::default();
    if known.blame().is_some() {
        lines.labels = Label::ALL.iter().map(|label| label.name()).collect();
    }
    let (mut free, mut names): (Vec<u64>, HashMap<String, usize>) = (Vec::new(), HashMap::new());
    let mut without = 0;
    for place in &places {
        let (task, Some((start, end))) = (graph.task(*place), timed(place)) else { continue };
        let end = end.max(start);
        lines.span_ns = lines.span_ns.max(end - first);
        let track = free.iter().position(|&until| until <= start).unwrap_or(free.len());
        if track == MOST_TRACKS {
            without += 1;
            continue;
        }
        if track == free.len() {
            free.push(0);
            let name = format!("at once {}", grouped(track as u64 + 1));
            lines.tracks.push(TrackDocument { name, ..TrackDocument::default() });
        }
        free[track] = end;
        let name = cut(kernels_text(&task.kernel_names()));
        let of = *names.entry(name).or_insert_with_key(|name| {
            lines.names.push(name.clone());
            lines.names.len() - 1
        });
        let line = &mut lines.tracks[track];
        line.start.push(start - first);
        line.length.push(end - start);
        line.of.push(of);
        line.task.push(step_task(task.step, task.task_id));
        if let Some(finding) = known.findings().get(*place) {
            line.label.push(Label::ALL.iter().position(|label| *label == finding.label).unwrap_or(0));
        }
    }
    lines.note = note(places.len() - without, graph.len());
    Some(lines)
}

fn note(shown: usize, all: usize) -> String {
    let tracks = "Tasks from their first dispatch to their completion, one below the other where they ran at the same time.";
    if shown == all {
        return tracks.into();
    }
    format!("{tracks} {} of {} are shown.", grouped(shown as u64), counted(all as u64, "task"))
}
