//! The files of a dump, and the trouble that tests make for them.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use tensortap_collector::Sink;
use tensortap_format::{DumpWriter, Footer, FormatError, IndexRecord};

use crate::live::Live;

/// Makes the host's side of a dump slow, or its disk small, on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpTrouble {
    /// Time each entry into the index takes longer.
    pub pause: Duration,
    /// Payload bytes after which the disk is full.
    pub disk_bytes: Option<u64>,
}

/// A dump's files with trouble.
pub struct Files {
    pub writer: DumpWriter,
    pub trouble: DumpTrouble,
    pub reserved: u64,
    /// Compares with a golden and decides what is kept.
    pub live: Option<Live>,
}

impl Sink for Files {
    fn reserve(&mut self, bytes: u64) -> u64 {
        self.reserved += bytes;
        Sink::reserve(&mut self.writer, bytes)
    }

    fn give_up(&mut self, offset: u64) {
        Sink::give_up(&mut self.writer, offset);
    }

    fn payload_file(&mut self) -> Result<BorrowedFd<'_>, FormatError> {
        if self.trouble.disk_bytes.is_some_and(|limit| self.reserved > limit) {
            let path = self.writer.payload_path().to_owned();
            let source = std::io::ErrorKind::StorageFull.into();
            return Err(FormatError::Io { action: "write", path, source });
        }
        Sink::payload_file(&mut self.writer)
    }

    fn append(&mut self, thread: u32, seqs: Range<u64>, records: &[IndexRecord]) -> Result<(), FormatError> {
        if !self.trouble.pause.is_zero() {
            std::thread::sleep(self.trouble.pause);
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

    fn finish(mut self, footer: &Footer) -> Result<Footer, FormatError> {
        if let Some(live) = &mut self.live {
            live.close(&mut self.writer)?;
        }
        Sink::finish(self.writer, footer)
    }
}
