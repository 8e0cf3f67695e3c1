//! Where records and payloads go.

use std::{
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
};

use tensortap_format::{DumpWriter, Footer, FormatError, IndexRecord, Totals};

/// The files of a dump, as the collector needs them. Every call that succeeds has reached the operating system.
pub trait Sink {
    /// The dump's folder, for files of their own; `None` where there are to be none.
    fn folder(&self) -> Option<&Path> {
        None
    }
    /// A range of the payload file that nobody else gets.
    fn reserve(&mut self, bytes: u64) -> u64;
    /// Takes back a reserved range that no record will refer to.
    fn give_up(&mut self, offset: u64);
    /// The payload file, for writing at reserved offsets.
    fn payload_file(&mut self) -> Result<BorrowedFd<'_>, FormatError>;
    /// Enters records of one lane, which account for the sequence numbers `seqs`.
    fn append(&mut self, lane: u32, seqs: Range<u64>, records: &[IndexRecord]) -> Result<(), FormatError>;
    /// Makes payloads written so far survive a power cut.
    fn sync_data(&mut self) -> Result<(), FormatError>;
    /// Makes records entered so far survive a power cut.
    fn sync_index(&mut self) -> Result<(), FormatError>;
    /// Frees what a window of tasks has left behind. Returns the ranges of the payload file whose bytes are gone, in
    /// order; nothing may refer to them from now on. Called when every record made so far was appended.
    fn free_window(&mut self) -> Result<Vec<Range<u64>>, FormatError>;
    /// Lets the last tasks leave the window. Returns counters over what the dump holds from now on, should closing it fail.
    fn settle(&mut self) -> Totals;
    /// Closes the dump and returns the footer it has: with counters over what it holds.
    fn finish(self, footer: &Footer) -> Result<Footer, FormatError>
    where
        Self: Sized;
}

impl Sink for DumpWriter {
    fn folder(&self) -> Option<&Path> {
        Some(DumpWriter::folder(self))
    }

    fn reserve(&mut self, bytes: u64) -> u64 {
        DumpWriter::reserve(self, bytes)
    }

    fn give_up(&mut self, offset: u64) {
        DumpWriter::give_up(self, offset);
    }

    fn payload_file(&mut self) -> Result<BorrowedFd<'_>, FormatError> {
        DumpWriter::payload_file(self).map(AsFd::as_fd)
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
