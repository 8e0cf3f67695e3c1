//! The files of a dump, behind a gate if the caller has one.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use tensortap_collector::Sink;
use tensortap_format::{DumpWriter, Footer, FormatError, IndexRecord, Totals};

use crate::live::Live;

/// Asked before anything of a dump reaches its files: it may hold the writer up, or refuse as a full disk does. A quota is one.
pub trait DiskGate: Send + Sync {
    /// Records are about to be entered into the index.
    fn before_records(&self) -> io::Result<()> {
        Ok(())
    }

    /// A payload is about to be written; with it, payloads take so many bytes.
    fn before_payload(&self, _total_bytes: u64) -> io::Result<()> {
        Ok(())
    }
}

/// A dump's files.
pub struct Files {
    pub writer: DumpWriter,
    pub gate: Option<Arc<dyn DiskGate>>,
    /// Payload bytes that were asked for.
    pub reserved: u64,
    /// Compares with a golden and decides what is kept.
    pub live: Option<Live>,
}

impl Files {
    fn refused(&self, source: io::Error) -> FormatError {
        FormatError::Io { action: "write", path: self.writer.payload_path().to_owned(), source }
    }
}

impl Sink for Files {
    fn folder(&self) -> Option<&Path> {
        Sink::folder(&self.writer)
    }

    fn reserve(&mut self, bytes: u64) -> u64 {
        self.reserved += bytes;
        Sink::reserve(&mut self.writer, bytes)
    }

    fn give_up(&mut self, offset: u64) {
        Sink::give_up(&mut self.writer, offset);
    }

    fn payload_file(&mut self) -> Result<BorrowedFd<'_>, FormatError> {
        if let Some(gate) = &self.gate {
            gate.before_payload(self.reserved).map_err(|source| self.refused(source))?;
        }
        Sink::payload_file(&mut self.writer)
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
            // What it has still to say comes when the dump is closed.
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
