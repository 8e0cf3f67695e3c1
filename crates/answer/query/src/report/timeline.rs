//! The timeline of a report.

use std::collections::{HashMap, HashSet};

use tensortap::analysis::labels::Label;

use super::ReportContext;
use super::tables::chosen;
use crate::document::{TimelineDocument, TrackDocument, cut};
use crate::number::{counted, grouped};
use crate::timeline::{Slice, Timeline};
use crate::words::{kernels_text, step_task};

/// Maximum rows of slices. Slices in further rows are counted.
const MOST_ROWS: usize = 48;

/// The timeline of the tasks that have rows; `None` if the dump has no times.
pub fn timeline(context: &ReportContext<'_>, rows: usize) -> Option<TimelineDocument> {
    let graph = context.graph();
    let shown: HashSet<usize> = chosen(context, rows).into_iter().collect();
    let timeline = Timeline::of(context.dump, graph, |place| shown.contains(&place));
    if !timeline.is_timed || timeline.slices.is_empty() {
        return None;
    }
    let mut lines = TimelineBuilder::new(context, &timeline);
    timeline.slices.iter().for_each(|slice| lines.add(slice));
    let TimelineBuilder { mut document, left_out, .. } = lines;
    document.note = note(shown.len(), graph.len(), left_out);
    Some(document)
}

/// Builds the timeline document.
struct TimelineBuilder<'k> {
    context: &'k ReportContext<'k>,
    timeline: &'k Timeline,
    document: TimelineDocument,
    /// Index of each kernel's name.
    names: HashMap<String, usize>,
    /// Index of the document's track for each row of a track.
    places: HashMap<(usize, usize), usize>,
    left_out: u64,
}

impl<'k> TimelineBuilder<'k> {
    fn new(context: &'k ReportContext<'k>, timeline: &'k Timeline) -> TimelineBuilder<'k> {
        let labels = Label::ALL.iter().filter(|_| context.blame().is_some()).map(|label| label.name());
        let span_ns = timeline.end_ns.saturating_sub(timeline.start_ns);
        let document = TimelineDocument { span_ns, labels: labels.collect(), ..TimelineDocument::default() };
        TimelineBuilder {
            context,
            timeline,
            document,
            names: HashMap::new(),
            places: HashMap::new(),
            left_out: 0,
        }
    }

    fn add(&mut self, slice: &Slice) {
        let Some(place) = self.place(slice.track, slice.row) else {
            self.left_out += 1;
            return;
        };
        let task = self.context.graph().task(slice.what.task());
        let (names, document) = (&mut self.names, &mut self.document);
        let name = cut(kernels_text(&task.kernel_names()));
        let of = *names.entry(name).or_insert_with_key(|name| {
            document.names.push(name.clone());
            document.names.len() - 1
        });
        let line = &mut document.tracks[place];
        line.start.push(slice.start_ns.saturating_sub(self.timeline.start_ns));
        line.length.push(slice.duration_ns);
        line.of.push(of);
        line.task.push(step_task(task.step, task.task_id));
        if let Some(finding) = self.context.findings().get(slice.what.task()) {
            line.label.push(Label::ALL.iter().position(|label| *label == finding.label).unwrap_or(0));
        }
    }

    /// The document's track for a row of a track. Overlapping slices are in several rows.
    fn place(&mut self, track: usize, row: usize) -> Option<usize> {
        let tracks = &mut self.document.tracks;
        if !self.places.contains_key(&(track, row)) && tracks.len() < MOST_ROWS {
            let name = self.timeline.tracks.get(track).map_or("", |track| track.name.as_str());
            let name = if row == 0 { cut(name.to_owned()) } else { String::new() };
            tracks.push(TrackDocument { name, ..TrackDocument::default() });
            self.places.insert((track, row), tracks.len() - 1);
        }
        self.places.get(&(track, row)).copied()
    }
}

fn note(shown: usize, all: usize, left_out: u64) -> String {
    let mut note =
        "Each bar runs from a task's first dispatch to its completion. Overlapping tasks are drawn in separate rows."
            .to_owned();
    if shown < all {
        note += &format!(" {} of {} are shown.", grouped(shown as u64), counted(all as u64, "task"));
    }
    if left_out > 0 {
        note += &format!(" {} in further rows are not drawn.", counted(left_out, "slice"));
    }
    note
}
