use std::fmt;

use crate::{LaneSummary, RecordFault, StreamError, WriteError};

/// Something that the user should know at once, not only at the end.
#[derive(Debug)]
#[non_exhaustive]
pub enum CollectEvent<'a> {
    /// The files accept no more data. The run continues without its dump.
    WriteFailed(&'a WriteError),
    /// A lane's words are damaged; its records end here.
    LaneEnded(&'a StreamError),
    /// Counters of a lane have impossible values and are ignored.
    DamagedCounters(&'a LaneSummary),
    /// The first damaged record of a lane. Later ones are only counted.
    CorruptRecord {
        /// Lane.
        lane: u32,
        /// Sequence number.
        seq: u64,
        /// What is wrong with it.
        fault: RecordFault,
    },
}

impl fmt::Display for CollectEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CollectEvent::WriteFailed(error) => write!(f, "the run continues without its dump: {error}"),
            CollectEvent::LaneEnded(error) => error.fmt(f),
            CollectEvent::DamagedCounters(lane) => f.write_str(&lane.damage().unwrap_or_default()),
            CollectEvent::CorruptRecord { lane, seq, fault } => write!(
                f,
                "record {seq} of lane {lane} is damaged and skipped: {fault}; a kernel may have written \
                 into the dump region; further damaged records are only counted"
            ),
        }
    }
}

/// Receives events, on the collecting thread.
pub type Listener = Box<dyn FnMut(CollectEvent<'_>) + Send>;
