//! Counters of recorded and lost data of a lane.

use tensortap_sync::SharedU64;

use crate::region::StateWords;

/// Why a record or its payload was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// No record buffer was free.
    NoBuffer,
    /// The arena had no room.
    NoSpace,
    /// The host was gone, or its files accepted no more data.
    NoHost,
}

/// Counters of one lane, over all threads that recorded in it. The same values are in its
/// `DumpBufferState`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records committed. Each record of a payload in pieces counts.
    pub records: u64,
    /// Payload bytes copied or hashed.
    pub payload_bytes: u64,
    /// Time inside the recorder.
    pub held_up_ns: u64,
    /// Records dropped because no record buffer was free.
    pub dropped_no_buffer: u64,
    /// Records dropped because no arena space was free.
    pub dropped_no_space: u64,
    /// Records dropped because the host was gone or its files were full.
    pub dropped_no_host: u64,
    /// Payload bytes of dropped records.
    pub dropped_bytes: u64,
    /// Arguments that a filter excluded.
    pub filtered_records: u64,
    /// Payload bytes that a filter or cap excluded.
    pub filtered_bytes: u64,
}

impl Counters {
    /// The sum of two sets of counters.
    #[must_use]
    pub fn and(&self, other: &Counters) -> Counters {
        Counters {
            records: self.records.saturating_add(other.records),
            payload_bytes: self.payload_bytes.saturating_add(other.payload_bytes),
            held_up_ns: self.held_up_ns.saturating_add(other.held_up_ns),
            dropped_no_buffer: self.dropped_no_buffer.saturating_add(other.dropped_no_buffer),
            dropped_no_space: self.dropped_no_space.saturating_add(other.dropped_no_space),
            dropped_no_host: self.dropped_no_host.saturating_add(other.dropped_no_host),
            dropped_bytes: self.dropped_bytes.saturating_add(other.dropped_bytes),
            filtered_records: self.filtered_records.saturating_add(other.filtered_records),
            filtered_bytes: self.filtered_bytes.saturating_add(other.filtered_bytes),
        }
    }
}

/// The counters, and the words in which the host finds them.
#[derive(Debug)]
pub(crate) struct Ledger<'m> {
    counters: Counters,
    words: StateWords<'m>,
}

impl<'m> Ledger<'m> {
    /// Continues with the counts of the lane's earlier holders.
    pub fn new(words: StateWords<'m>) -> Self {
        let counters = Counters {
            records: words.records().get(),
            payload_bytes: words.payload_bytes().get(),
            held_up_ns: words.held_up_ns().get(),
            dropped_no_buffer: words.dropped_no_buffer().get(),
            dropped_no_space: words.dropped_no_space().get(),
            dropped_no_host: words.dropped_no_host().get(),
            dropped_bytes: words.dropped_bytes().get(),
            filtered_records: words.filtered_records().get(),
            filtered_bytes: words.filtered_bytes().get(),
        };
        Self { counters, words }
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    #[inline]
    pub fn committed(&mut self) {
        add(&mut self.counters.records, 1, self.words.records());
    }

    #[inline]
    pub fn captured(&mut self, bytes: u64) {
        add(&mut self.counters.payload_bytes, bytes, self.words.payload_bytes());
    }

    #[inline]
    pub fn held_up(&mut self, ns: u64) {
        add(&mut self.counters.held_up_ns, ns, self.words.held_up_ns());
    }

    pub fn dropped(&mut self, reason: DropReason, bytes: u64) {
        let (counter, word) = match reason {
            DropReason::NoBuffer => (&mut self.counters.dropped_no_buffer, self.words.dropped_no_buffer()),
            DropReason::NoSpace => (&mut self.counters.dropped_no_space, self.words.dropped_no_space()),
            DropReason::NoHost => (&mut self.counters.dropped_no_host, self.words.dropped_no_host()),
        };
        add(counter, 1, word);
        add(&mut self.counters.dropped_bytes, bytes, self.words.dropped_bytes());
    }

    pub fn filtered(&mut self, records: u64, bytes: u64) {
        add(&mut self.counters.filtered_records, records, self.words.filtered_records());
        add(&mut self.counters.filtered_bytes, bytes, self.words.filtered_bytes());
    }
}

/// Adds to a counter and publishes the sum. Relaxed: the host reads counters for reports, and reads them
/// again after the flush.
#[inline]
fn add(counter: &mut u64, by: u64, word: &SharedU64) {
    if by != 0 {
        *counter = counter.saturating_add(by);
        word.set(*counter);
    }
}
