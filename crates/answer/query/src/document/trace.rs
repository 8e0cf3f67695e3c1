//! What `trace --json` prints.

use std::path::Path;

use serde::Serialize;

use crate::Member;
use crate::timeline::Timeline;
use crate::trace::{TraceCounts, TraceFormat};

/// The document of a written trace.
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

/// One dump of a trace.
#[derive(Serialize)]
pub struct TraceDumpDocument {
    dump: String,
    rank: Option<u64>,
    /// Process number in the trace.
    pid: u32,
    tasks: usize,
    /// Whether slices show the dump's times. Otherwise they only show the order.
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
    /// The document of a written trace.
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
    /// The document of one dump.
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
