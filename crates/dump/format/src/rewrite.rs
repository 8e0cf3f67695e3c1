//! Replaces an index by one with fewer or changed records, for `--dump-last` and for repair.

use std::{collections::BTreeMap, fs, fs::File, ops::Range, path::Path};

use crate::{
    FormatError, IndexRecord, Totals,
    error::AtPath,
    files::{Tail, create_new, lock_for_writing, unfinished},
    frame::{FrameEncoder, encode_file_header},
    index::{Frame, Index, IndexPart, InvalidRecord},
    layout::{FLAG_WINDOWED, INDEX_VERSION},
};

/// Size of the write buffer.
const WRITE_BYTES: usize = 1 << 20;

/// The new index, in place of the old one and locked.
pub(crate) struct NewIndex {
    pub(crate) file: File,
    pub(crate) end: u64,
    pub(crate) totals: Totals,
}

/// Rewrites the records before `end` through `change`, which may alter a record or return `false` to omit
/// it. The new file takes the old one's name only when it is complete; with `sync`, only when it is on
/// disk.
pub(crate) fn rewrite(
    index: &Index,
    end: u64,
    windowed: bool,
    sync: bool,
    change: impl FnMut(u32, &mut IndexRecord) -> bool,
) -> Result<NewIndex, FormatError> {
    let path = unfinished(&index.path)?;
    let written = write_new(index, end, windowed, change, &path).and_then(|rewritten| {
        if sync {
            rewritten.file.sync_data().at("sync", &path)?;
        }
        fs::rename(&path, &index.path).at("replace", &index.path)?;
        Ok(rewritten)
    });
    if written.is_err() {
        // Report the first error. The old index is unchanged.
        let _ = fs::remove_file(&path);
    }
    written
}

fn write_new(
    index: &Index,
    end: u64,
    windowed: bool,
    change: impl FnMut(u32, &mut IndexRecord) -> bool,
    path: &Path,
) -> Result<NewIndex, FormatError> {
    let file = create_new(path)?;
    lock_for_writing(&file, path)?;
    let flags = index.header.flags | if windowed { FLAG_WINDOWED } else { 0 };
    let version = index.header.version.max(INDEX_VERSION);
    let mut copy = Copy {
        encoder: FrameEncoder::new(index.info.run_id),
        tail: Tail::at(0),
        file: &file,
        path,
        skipped: BTreeMap::new(),
        totals: Totals::default(),
        change,
    };
    copy.encoder.bytes = encode_file_header(&index.info, flags, version)?;
    let mut frames = index.frames();
    while frames.at < end {
        let at = frames.at;
        let IndexPart::Records(frame) = frames.next()? else {
            return Err(index.changed(at, "a frame is no longer valid"));
        };
        copy.frame(&frame).map_err(|error| error.at(index, at))?;
    }
    copy.skipped_at_the_end();
    copy.flush()?;
    let (end, totals) = (copy.tail.end, copy.totals);
    Ok(NewIndex { file, end, totals })
}

/// Copies frames from the old index to the new one.
struct Copy<'f, C> {
    encoder: FrameEncoder,
    tail: Tail,
    file: &'f File,
    path: &'f Path,
    /// Sequence numbers of each thread's omitted records. The thread's next frame accounts for them.
    skipped: BTreeMap<u32, Range<u64>>,
    totals: Totals,
    change: C,
}

enum CopyError {
    Changed(&'static str),
    Write(FormatError),
}

impl From<InvalidRecord> for CopyError {
    fn from(senseless: InvalidRecord) -> Self {
        CopyError::Changed(senseless.0)
    }
}

impl CopyError {
    fn at(self, index: &Index, offset: u64) -> FormatError {
        match self {
            CopyError::Changed(reason) => index.changed(offset, reason),
            CopyError::Write(error) => error,
        }
    }
}

impl<C: FnMut(u32, &mut IndexRecord) -> bool> Copy<'_, C> {
    fn frame(&mut self, frame: &Frame<'_>) -> Result<(), CopyError> {
        let thread = frame.header.thread;
        let mut kept = Vec::new();
        frame.for_each(|_, record| {
            let mut record = record.clone();
            if (self.change)(thread, &mut record) {
                self.totals.add(&record);
                kept.push(record);
            }
            Ok::<_, CopyError>(())
        })?;
        let seq = self.with_skipped(thread, frame.header.first_seq..frame.header.next_seq);
        if kept.is_empty() {
            self.skipped.insert(thread, seq);
            return Ok(());
        }
        self.encoder.records(thread, &seq, &kept);
        if self.encoder.bytes.len() >= WRITE_BYTES {
            self.flush().map_err(CopyError::Write)?;
        }
        Ok(())
    }

    /// Sequence numbers of a frame and of the records omitted right before it. A gap between them stays a
    /// gap.
    fn with_skipped(&mut self, thread: u32, seq: Range<u64>) -> Range<u64> {
        match self.skipped.remove(&thread) {
            Some(skipped) if skipped.end == seq.start => skipped.start..seq.end,
            Some(skipped) => {
                self.encoder.records(thread, &skipped, []);
                seq
            }
            None => seq,
        }
    }

    fn skipped_at_the_end(&mut self) {
        for (thread, seq) in std::mem::take(&mut self.skipped) {
            self.encoder.records(thread, &seq, []);
        }
    }

    fn flush(&mut self) -> Result<(), FormatError> {
        let bytes = std::mem::take(&mut self.encoder.bytes);
        self.tail.append(self.file, self.path, &bytes)
    }
}
