//! What `trace --json` prints.

use std::path::Path;

use serde::Serialize;

use crate::Member;
use crate::timeline::Timeline;
use crate::trace::{TraceCounts, TraceFormat};

/// A trace that was written.
#[derive(Serialize)]
pub struct TraceDocument {
    dump: String,
    output: String,
    /// `perfetto` or `chrome`.
    format: &'static str,
    tasks: u64,
    dispatches: u64,
    flows: u64,
    tracks: u64,
    samples: u64,
    dumps: Vec<TraceDumpDocument>,
}

/// One dump of it.
#[derive(Serialize)]
pub struct TraceDumpDocument {
    dump: String,
    rank: Option<u64>,
    /// Number of its process in the trace.
    pid: u32,
    tasks: usize,
    /// Whether slices lie where the dump's times put them; otherwise they show an order.
    timed: bool,
    start_ns: String,
    end_ns: String,
    tracks: Vec<TrackDocument>,
}

#[derive(Serialize)]
struct TrackDocument {
    name: String,
    rows: usize,
}

impl TraceDocument {
    /// Of what was written.
    #[must_use]
    pub fn new(
        dump: &Path,
        output: &Path,
        format: TraceFormat,
        counts: TraceCounts,
        dumps: Vec<TraceDumpDocument>,
    ) -> TraceDocument {
        let TraceCounts { tasks, dispatches, flows, tracks, samples } = counts;
        let (dump, output) = (dump.display().to_string(), output.display().to_string());
        TraceDocument {
            dump,
            output,
            format: format.name(),
            tasks,
            dispatches,
            flows,
            tracks,
            samples,
            dumps,
        }
    }
}

impl TraceDumpDocument {
    /// Of one dump.
    #[must_use]
    pub fn new(member: &Member, pid: u32, timeline: &Timeline) -> TraceDumpDocument {
        let track =
            |track: &crate::timeline::Track| TrackDocument { name: track.name.clone(), rows: track.rows };
        TraceDumpDocument {
            dump: member.dump.dir().display().to_string(),
            rank: member.rank,
            pid,
            tasks: timeline.task_count(),
            timed: timeline.is_timed,
            start_ns: timeline.start_ns.to_string(),
            end_ns: timeline.end_ns.to_string(),
            tracks: timeline.tracks.iter().map(track).collect(),
        }
    }
}
