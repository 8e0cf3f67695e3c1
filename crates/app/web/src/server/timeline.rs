//! The timeline, reduced to what fits on a page.

use std::collections::HashMap;

use serde::Serialize;
use tensortap::analysis::labels::Label;
use tensortap_query::document::TrackDocument;
use tensortap_query::timeline::{Slice, Timeline};
use tensortap_query::words::{kernels_text, step_task};

use super::State;
use super::answer::{Answer, Params, Problem};
use super::lists::label_of;

/// Default and maximum width of the timeline in pixels.
const WIDTH: u64 = 1500;
const MOST_WIDTH: u64 = 4000;
/// Maximum tracks of an answer. Further ones are counted.
const MOST_TRACKS: usize = 64;

#[derive(Serialize)]
struct TimelineAnswer {
    /// Shown range: its length and its start after the start of the dump.
    span_ns: u64,
    from_ns: u64,
    /// Length of the whole timeline.
    all_ns: u64,
    /// Whether the dump has times. Otherwise slices only show the order.
    is_timed: bool,
    names: Vec<String>,
    labels: Vec<&'static str>,
    tracks: Vec<TrackDocument>,
    /// Slices in this range, and how many of them were merged because they would share a pixel.
    slices: usize,
    merged: usize,
    /// Tracks that are not shown.
    left_out: usize,
}

/// Slices that are drawn as one. The longest gives the name, the worst the label.
struct MergedSlices {
    start: u64,
    end: u64,
    longest: Slice,
    label: Option<usize>,
}

/// Answers with a range of the timeline.
pub(crate) fn timeline(state: &State, params: &Params) -> Result<Answer, Problem> {
    let opened = state.open_dumps.dump(params)?;
    let graph = opened.graph()?;
    let blame = opened.blame(params.get("golden"));
    let timeline = graph.timeline(&opened.dump);
    let all_ns = timeline.end_ns.saturating_sub(timeline.start_ns);
    let from_ns = params.number::<u64>("from")?.unwrap_or(0).min(all_ns);
    let to_ns = params.number::<u64>("to")?.unwrap_or(all_ns).clamp(from_ns, all_ns);
    let width = params.number::<u64>("width")?.unwrap_or(WIDTH).clamp(1, MOST_WIDTH);
    let pixel = (to_ns - from_ns).div_ceil(width).max(1);
    let window = (timeline.start_ns + from_ns, timeline.start_ns + to_ns);
    let place_of = |slice: &Slice| {
        let label = label_of(graph.task(slice.what.task()), blame.as_deref())?;
        Label::ALL.iter().position(|known| *known == label)
    };
    let mut answer = TimelineAnswer {
        span_ns: to_ns - from_ns,
        from_ns,
        all_ns,
        is_timed: timeline.is_timed,
        names: Vec::new(),
        labels: if blame.is_some() { Label::ALL.map(Label::name).to_vec() } else { Vec::new() },
        tracks: Vec::new(),
        slices: 0,
        merged: 0,
        left_out: 0,
    };
    let unknown = Label::ALL.iter().position(|label| *label == Label::Unknown).unwrap_or(0);
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for row in timeline.slices.chunk_by(|a, b| (a.track, a.row) == (b.track, b.row)) {
        let track = &timeline.tracks[row[0].track];
        let drawn = merged(row, window, pixel, &place_of);
        answer.slices += drawn.1;
        answer.merged += drawn.1 - drawn.0.len();
        if answer.tracks.len() == MOST_TRACKS {
            answer.left_out += 1;
            continue;
        }
        let name =
            if row[0].row == 0 { track.name.clone() } else { format!("{} ({})", track.name, row[0].row + 1) };
        let mut lines = TrackDocument { name, ..TrackDocument::default() };
        for one in drawn.0 {
            let task = graph.task(one.longest.what.task());
            let name = kernels_text(&task.kernel_names());
            let next = answer.names.len();
            let of = *numbers.entry(name).or_insert_with_key(|name| {
                answer.names.push(name.clone());
                next
            });
            lines.start.push(one.start - window.0);
            lines.length.push(one.end - one.start);
            lines.of.push(of);
            lines.task.push(step_task(task.step, task.task_id));
            if blame.is_some() {
                lines.label.push(one.label.unwrap_or(unknown));
            }
        }
        answer.tracks.push(lines);
    }
    Ok(Answer::document(&answer))
}

/// The slices of a row in a window, and their number before merging. Slices that begin within one pixel are
/// merged. Labels are indexes into [`Label::ALL`], worst first.
fn merged(
    row: &[Slice],
    window: (u64, u64),
    pixel: u64,
    label: &impl Fn(&Slice) -> Option<usize>,
) -> (Vec<MergedSlices>, usize) {
    let mut drawn: Vec<MergedSlices> = Vec::new();
    let mut count = 0;
    for slice in row.iter().filter(|slice| slice.end_ns() >= window.0 && slice.start_ns <= window.1) {
        count += 1;
        let (start, end) = (slice.start_ns.max(window.0), slice.end_ns().min(window.1));
        let found = label(slice);
        match drawn.last_mut() {
            // Both are in the same pixel and would not be distinguishable.
            Some(last) if end.saturating_sub(last.start) <= pixel => {
                last.end = last.end.max(end);
                last.label = match (last.label, found) {
                    (Some(one), Some(other)) => Some(one.min(other)),
                    (one, other) => one.or(other),
                };
                if slice.duration_ns > last.longest.duration_ns {
                    last.longest = *slice;
                }
            }
            _ => drawn.push(MergedSlices { start, end, longest: *slice, label: found }),
        }
    }
    (drawn, count)
}

/// Removes flows and counters, which are not drawn and would double the memory.
pub(crate) fn without_flows(timeline: Timeline) -> Timeline {
    Timeline { flows: Vec::new(), counters: Vec::new(), ..timeline }
}

#[cfg(test)]
mod tests {
    use tensortap_query::timeline::{Precision, SliceKind};

    use super::*;

    fn slice(task: usize, start_ns: u64, duration_ns: u64) -> Slice {
        Slice {
            what: SliceKind::Task(task),
            track: 0,
            row: 0,
            start_ns,
            duration_ns,
            sure: Precision::Measured,
        }
    }

    #[test]
    fn merges_slices_of_one_pixel_under_the_longest_name_and_worst_label() {
        let row = [slice(0, 100, 2), slice(1, 103, 5), slice(2, 109, 1), slice(3, 150, 40), slice(4, 300, 1)];
        let labels = |slice: &Slice| [Some(5), Some(1), None, Some(5), Some(0)][slice.what.task()];
        let (drawn, count) = merged(&row, (0, 200), 10, &labels);
        let merged_slices: Vec<_> =
            drawn.iter().map(|one| (one.start, one.end, one.longest.what.task(), one.label)).collect();
        assert_eq!(merged_slices, [(100, 110, 1, Some(1)), (150, 190, 3, Some(5))]);
        assert_eq!(count, 4, "a slice after the window is not counted");
        let (closer, _) = merged(&row, (105, 160), 1, &labels);
        let merged_slices: Vec<_> = closer.iter().map(|one| (one.start, one.end)).collect();
        assert_eq!(merged_slices, [(105, 108), (109, 110), (150, 160)], "slices are cut to the window");
    }
}
