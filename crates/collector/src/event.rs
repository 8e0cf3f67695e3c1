use std::fmt;

use crate::{RecordFault, StreamError, WriteError};

/// What the user should hear at once, not only at the end.
#[derive(Debug)]
#[non_exhaustive]
pub enum CollectEvent<'a> {
    /// The files can take no more. The run goes on without its dump.
    WriteFailed(&'a WriteError),
    /// A thread's half of the region is damaged; its records end here.
    ThreadEnded(&'a StreamError),
    /// The first record of a thread that is not what it claims to be. Later ones are only counted.
    CorruptRecord {
        /// Device thread.
        thread: u32,
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
            CollectEvent::ThreadEnded(error) => error.fmt(f),
            CollectEvent::CorruptRecord { thread, seq, fault } => write!(
                f,
                "record {seq} of device thread {thread} is damaged and left out: {fault}; a kernel may have written \
                 into the dump region, and further damaged records are only counted"
            ),
        }
    }
}

/// Hears events on the thread that collects.
pub type Listener = Box<dyn FnMut(CollectEvent<'_>) + Send>;
