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

/// Hears events on the thread that collects.
pub type Listener = Box<dyn FnMut(CollectEvent<'_>) + Send>;
