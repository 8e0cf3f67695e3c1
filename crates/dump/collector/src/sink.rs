//! The destination of records and payloads.

use std::{ops::Range, path::Path};

use tensortap_format::{DumpWriter, Footer, FormatError, IndexRecord, PayloadPlace, Totals};

/// The files of a dump, as the collector uses them. The effect of every successful call has reached the
/// operating system.
pub trait Sink {
    /// The dump's folder, for additional files; `None` if there are none.
    fn folder(&self) -> Option<&Path> {
        None
    }
    /// Spreads large payloads over this many payload files from now on.
    fn spread_over(&mut self, _files: usize) {}
    /// Reserves a range in a payload file and returns its position.
    fn reserve(&mut self, bytes: u64) -> u64;
    /// Cancels a reserved range that no record will refer to.
    fn cancel(&mut self, offset: u64);
    /// The place in a payload file of a reserved position, for writing there.
    fn payload_place(&mut self, position: u64) -> Result<PayloadPlace<'_>, FormatError>;
    /// Stores records of one lane. They account for the sequence numbers `seqs`.
    fn append(&mut self, lane: u32, seqs: Range<u64>, records: &[IndexRecord]) -> Result<(), FormatError>;
    /// Makes all payloads written so far survive a power cut.
    fn sync_data(&mut self) -> Result<(), FormatError>;
    /// Makes all records stored so far survive a power cut.
    fn sync_index(&mut self) -> Result<(), FormatError>;
    /// Frees the space of tasks that have left the window. Returns the sorted ranges of positions
    /// whose bytes are gone; nothing may refer to them from now on. Called when every record made so far is
    /// stored.
    fn free_window(&mut self) -> Result<Vec<Range<u64>>, FormatError>;
    /// Lets the last tasks leave the window. Returns counters of the dump's content, in case closing it
    /// fails.
    fn settle(&mut self) -> Totals;
    /// Closes the dump and returns its footer, with counters of its content.
    fn finish(self, footer: &Footer) -> Result<Footer, FormatError>
    where
        Self: Sized;
}

impl Sink for DumpWriter {
    fn folder(&self) -> Option<&Path> {
        Some(DumpWriter::folder(self))
    }

    fn spread_over(&mut self, files: usize) {
        DumpWriter::spread_over(self, files);
    }

    fn reserve(&mut self, bytes: u64) -> u64 {
        DumpWriter::reserve(self, bytes)
    }

    fn cancel(&mut self, offset: u64) {
        DumpWriter::cancel(self, offset);
    }

    fn payload_place(&mut self, position: u64) -> Result<PayloadPlace<'_>, FormatError> {
        DumpWriter::payload_place(self, position)
    }

    fn append(&mut self, lane: u32, seqs: Range<u64>, records: &[IndexRecord]) -> Result<(), FormatError> {
        DumpWriter::append(self, lane, seqs, records)
    }

    fn sync_data(&mut self) -> Result<(), FormatError> {
        DumpWriter::sync_data(self)
    }

    fn sync_index(&mut self) -> Result<(), FormatError> {
        DumpWriter::sync_index(self)
    }

    fn free_window(&mut self) -> Result<Vec<Range<u64>>, FormatError> {
        self.free_before_window()
    }

    fn settle(&mut self) -> Totals {
        DumpWriter::settle(self).clone()
    }

    fn finish(self, footer: &Footer) -> Result<Footer, FormatError> {
        DumpWriter::finish(self, footer)
    }
}
