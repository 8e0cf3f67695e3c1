//! The files of a dump, with an optional gate before every write.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tensortap_collector::Sink;
use tensortap_format::{DumpWriter, Footer, FormatError, IndexRecord, PayloadPlace, Totals};

use crate::live::LiveComparison;

/// Called before anything is written to a dump. It may delay the write, or fail it like a full disk. It can
/// implement a quota.
pub trait DiskGate: Send + Sync {
    /// Called before records are written to the index.
    fn before_records(&self) -> io::Result<()> {
        Ok(())
    }

    /// Called before a payload is written. `total_bytes` is the size of all payloads including this one.
    fn before_payload(&self, _total_bytes: u64) -> io::Result<()> {
        Ok(())
    }
}

/// A dump's files.
pub struct Files {
    pub writer: DumpWriter,
    pub gate: Option<Arc<dyn DiskGate>>,
    /// Number of reserved payload bytes.
    pub reserved: u64,
    /// Compares with a golden and decides what is kept.
    pub live: Option<LiveComparison>,
}

impl Files {
    fn refused(&self, source: io::Error) -> FormatError {
        FormatError::Io { action: "write", path: self.writer.payload_path(0).to_owned(), source }
    }
}

impl Sink for Files {
    fn folder(&self) -> Option<&Path> {
        Sink::folder(&self.writer)
    }

    fn spread_over(&mut self, files: usize) {
        self.writer.spread_over(files);
    }

    fn reserve(&mut self, bytes: u64) -> u64 {
        self.reserved += bytes;
        Sink::reserve(&mut self.writer, bytes)
    }

    fn cancel(&mut self, offset: u64) {
        Sink::cancel(&mut self.writer, offset);
    }

    fn payload_place(&mut self, position: u64) -> Result<PayloadPlace<'_>, FormatError> {
        if let Some(gate) = &self.gate {
            gate.before_payload(self.reserved).map_err(|source| self.refused(source))?;
        }
        self.writer.payload_place(position)
    }

    fn append(&mut self, thread: u32, seqs: Range<u64>, records: &[IndexRecord]) -> Result<(), FormatError> {
        if let Some(gate) = &self.gate {
            gate.before_records().map_err(|source| self.refused(source))?;
        }
        match &mut self.live {
            Some(live) => live.append(&mut self.writer, thread, seqs, records),
            None => Sink::append(&mut self.writer, thread, seqs, records),
        }
    }

    fn sync_data(&mut self) -> Result<(), FormatError> {
        Sink::sync_data(&mut self.writer)
    }

    fn sync_index(&mut self) -> Result<(), FormatError> {
        Sink::sync_index(&mut self.writer)
    }

    fn free_window(&mut self) -> Result<Vec<Range<u64>>, FormatError> {
        let mut dead = Sink::free_window(&mut self.writer)?;
        if let Some(live) = &mut self.live {
            dead.extend(live.free_idle(&mut self.writer)?);
            dead.sort_unstable_by_key(|range| range.start);
        }
        Ok(dead)
    }

    fn settle(&mut self) -> Totals {
        match self.live {
            // The live comparison adds its part when the dump is closed.
            Some(_) => self.writer.totals().clone(),
            None => Sink::settle(&mut self.writer),
        }
    }

    fn finish(mut self, footer: &Footer) -> Result<Footer, FormatError> {
        if let Some(live) = &mut self.live {
            live.close(&mut self.writer)?;
        }
        Sink::finish(self.writer, footer)
    }
}
