use std::fmt;

use crate::{LaneSummary, RecordFault, StreamError, WriteError};

/// What the user should hear at once, not only at the end.
#[derive(Debug)]
#[non_exhaustive]
pub enum CollectEvent<'a> {
    /// The files can take no more. The run goes on without its dump.
    WriteFailed(&'a WriteError),
    /// A lane's half of the region is damaged; its records end here.
    LaneEnded(&'a StreamError),
    /// Counters of a lane say what cannot be, and are left out.
    DamagedCounters(&'a LaneSummary),
    /// The first record of a lane that is not what it claims to be. Later ones are only counted.
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
            CollectEvent::WriteFailed(error) => write!(f, "the run goes on without its dump: {error}"),
            CollectEvent::LaneEnded(error) => error.fmt(f),
            CollectEvent::DamagedCounters(lane) => f.write_str(&lane.damage().unwrap_or_default()),
            CollectEvent::CorruptRecord { lane, seq, fault } => write!(
                f,
                "record {seq} of lane {lane} is damaged and left out: {fault}; a kernel may have written \
                 into the dump region, and further damaged records are only counted"
            ),
        }
    }
}

/// Hears events on the thread that collects.
pub type Listener = Box<dyn FnMut(CollectEvent<'_>) + Send>;
