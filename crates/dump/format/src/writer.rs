//! Writes a dump while a run lasts.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File},
    ops::Range,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::fs::FallocateFlags;
use tensortap_abi::{DumpGeometry, LARGE_PAYLOAD_ALIGN, RecordKind};

use crate::{
    Footer, FormatError, INDEX_FILE, IndexRecord, RunInfo, ThreadEnd, Totals,
    error::AtPath,
    files::{Tail, create_new, lock_for_writing, sync_dir, write_json_files},
    frame::{FrameEncoder, encode_file_header},
    index::Index,
    manifest::JsonInput,
    names::is_plain_file_name,
    rewrite::rewrite,
    survey::in_flight,
    window::{EvictedTotals, TaskWindow, dead_ranges},
};

/// Options for writing a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterOptions {
    /// `--dump-last`: keep only this many of the newest tasks.
    pub keep_last_tasks: Option<u64>,
    /// `--dump-sync`: names and replaced files also survive a power cut. Payloads and records survive it if
    /// the caller calls [`DumpWriter::sync_data`], then [`DumpWriter::sync_index`], before it acknowledges
    /// them.
    pub sync: bool,
}

/// Writes one dump. Holds a lock on the index until it is finished or dropped. If the writer dies, the dump
/// still opens, and repair can close it.
///
/// The caller must keep this order: reserve, write the payload at that offset, append the records, and only
/// then let the device reuse their space.
///
/// ```
/// use std::os::unix::fs::FileExt;
/// use tensortap_abi::{DType, DumpStage, Role, TensorRecord};
/// use tensortap_format::{Dump, DumpWriter, Footer, IndexRecord, Payload, RunInfo, Status};
///
/// let dir = tempfile::tempdir()?;
/// let mut writer = DumpWriter::create(dir.path(), &RunInfo::default())?;
/// let offset = writer.reserve(3);
/// writer.payload_file()?.write_all_at(&[1, 2, 3], offset)?;
/// let captured = TensorRecord {
///     stage: DumpStage::BeforeDispatch as u8, role: Role::Input.tag(),
///     dtype: DType::UInt8.tag(), ndims: 1, shape: [3, 0, 0, 0, 0, 0, 0, 0], strides: [1, 0, 0, 0, 0, 0, 0, 0],
///     ..Default::default()
/// };
/// let record = IndexRecord::tensor(&captured, Payload::Stored { offset, bytes: 3 });
/// writer.append(0, 0..1, &[record])?;
/// writer.finish(&Footer::new(Status::Complete))?;
///
/// let dump = Dump::open(dir.path())?;
/// let record = dump.record(0)?;
/// assert_eq!(dump.payload(&record)?, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DumpWriter {
    dir: PathBuf,
    info: RunInfo,
    options: WriterOptions,
    index: File,
    index_path: PathBuf,
    tail: Tail,
    encoder: FrameEncoder,
    payloads: OnceLock<File>,
    payloads_path: PathBuf,
    /// End of the last reserved range in the payload file.
    reserved_end: u64,
    /// End of the last payload that a record refers to.
    used_end: u64,
    totals: Totals,
    /// Result of the final move of the window, if it happened.
    settled: Option<Result<(), FormatError>>,
    /// First sequence number of each thread that is not accounted for yet.
    next_seq: BTreeMap<u32, u64>,
    window: Option<TaskWindow>,
    /// Counters of what left the window.
    evicted: EvictedTotals,
    /// Freed ranges of the payload file.
    freed: Vec<Range<u64>>,
    dir_synced: bool,
}

impl DumpWriter {
    /// Starts a dump in `dir`. Creates the folder if necessary; it must not contain an index.
    pub fn create(dir: &Path, info: &RunInfo) -> Result<DumpWriter, FormatError> {
        DumpWriter::create_with(dir, info, WriterOptions::default())
    }

    /// The dump's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.dir
    }

    /// [`DumpWriter::create`] with options.
    pub fn create_with(
        dir: &Path,
        info: &RunInfo,
        options: WriterOptions,
    ) -> Result<DumpWriter, FormatError> {
        let mut info = info.clone();
        if info.run_dir.is_empty() {
            info.run_dir = folder_name(dir);
        }
        if options.keep_last_tasks.is_some() {
            info.filters.push("last".into());
        }
        if !is_plain_file_name(&info.bin_file) {
            return Err(FormatError::BadBinFile { name: info.bin_file });
        }
        let header = encode_file_header(&info, 0)?;
        fs::create_dir_all(dir).at("create", dir)?;
        let index_path = dir.join(INDEX_FILE);
        let index = create_new(&index_path)?;
        lock_for_writing(&index, &index_path)?;
        let mut tail = Tail::at(0);
        tail.append(&index, &index_path, &header)?;
        Ok(DumpWriter {
            dir: dir.to_owned(),
            options,
            index,
            index_path,
            tail,
            encoder: FrameEncoder::new(info.run_id),
            payloads: OnceLock::new(),
            payloads_path: dir.join(&info.bin_file),
            info,
            reserved_end: 0,
            used_end: 0,
            totals: Totals::default(),
            settled: None,
            next_seq: BTreeMap::new(),
            window: options.keep_last_tasks.map(TaskWindow::new),
            evicted: EvictedTotals::default(),
            freed: Vec::new(),
            dir_synced: false,
        })
    }

    /// The dump's folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The run information as stored.
    #[must_use]
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// Counters over the appended records, without those that left the window.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Size of the index so far.
    #[must_use]
    pub fn index_bytes(&self) -> u64 {
        self.tail.end
    }

    /// Reserves a range of the payload file, aligned for a payload of this size.
    pub fn reserve(&mut self, bytes: u64) -> u64 {
        let offset = self.reserved_end.next_multiple_of(DumpGeometry::payload_align(bytes));
        self.reserved_end = offset + bytes;
        if let Some(window) = &mut self.window {
            window.reserved.insert(offset, bytes);
        }
        offset
    }

    /// Cancels a range from [`DumpWriter::reserve`] that no record will refer to. Its bytes stay unused.
    pub fn cancel(&mut self, offset: u64) {
        if let Some(window) = &mut self.window {
            window.reserved.remove(&offset);
        }
    }

    /// The payload file, which the first call creates. The caller writes a payload at its offset from
    /// [`DumpWriter::reserve`] before it appends the record.
    pub fn payload_file(&self) -> Result<&File, FormatError> {
        if self.payloads.get().is_none() {
            // No other caller can have set it: creating the file would have failed.
            let _ = self.payloads.set(create_new(&self.payloads_path)?);
        }
        Ok(self.payloads.get().expect("it was set"))
    }

    /// Path of the payload file, whether or not it exists.
    #[must_use]
    pub fn payload_path(&self) -> &Path {
        &self.payloads_path
    }

    /// Appends a thread's next records as one frame, with one write. `seq` contains the sequence numbers to
    /// account for: those of the records, of records merged into them, and of rejected records. On an
    /// error, the index is unchanged.
    pub fn append(
        &mut self,
        thread: u32,
        seq: Range<u64>,
        records: &[IndexRecord],
    ) -> Result<(), FormatError> {
        records.iter().try_for_each(IndexRecord::checked)?;
        self.encoder.bytes.clear();
        self.encoder.records(thread, &seq, records);
        self.tail.append(&self.index, &self.index_path, &self.encoder.bytes)?;
        self.next_seq.insert(thread, seq.end);
        for record in records {
            self.totals.add(record);
            if let Some((offset, bytes)) = record.stored_range() {
                self.used_end = self.used_end.max(offset + bytes);
            }
            if let Some(window) = &mut self.window {
                window.see(record);
            }
        }
        Ok(())
    }

    /// Makes all payloads written so far survive a power cut.
    pub fn sync_data(&mut self) -> Result<(), FormatError> {
        if let Some(payloads) = self.payloads.get() {
            payloads.sync_data().at("sync", &self.payloads_path)?;
        }
        Ok(())
    }

    /// Makes all records appended so far survive a power cut.
    pub fn sync_index(&mut self) -> Result<(), FormatError> {
        self.index.sync_data().at("sync", &self.index_path)?;
        if !std::mem::replace(&mut self.dir_synced, true) {
            sync_dir(&self.dir)?;
        }
        Ok(())
    }

    /// With `keep_last_tasks`: if enough tasks have left the window, removes their records and frees the
    /// payloads that no kept record refers to. Returns the dead ranges of the payload file, sorted; nothing
    /// may refer to them from now on. Call it only when every record that refers to an earlier payload was
    /// appended.
    pub fn free_before_window(&mut self) -> Result<Vec<Range<u64>>, FormatError> {
        match &self.window {
            Some(window) if window.is_due() => self.move_window(),
            _ => Ok(Vec::new()),
        }
    }

    fn move_window(&mut self) -> Result<Vec<Range<u64>>, FormatError> {
        let Some(window) = &mut self.window else { return Ok(Vec::new()) };
        if !window.evict() {
            return Ok(Vec::new());
        }
        let mut live: Vec<Range<u64>> = window.reserved.iter().map(|(at, bytes)| *at..at + bytes).collect();
        let mut used_end = 0;
        let index = reopen(&self.index, &self.index_path)?;
        let mut owned = owned_payloads(&index, self.tail.end, window)?;
        let rewritten = rewrite(&index, self.tail.end, true, self.options.sync, |_, record| {
            let keep = window.keeps(record);
            if let (true, Some((offset, bytes))) = (keep, record.stored_range()) {
                live.push(offset..offset + bytes);
                used_end = used_end.max(offset + bytes);
                // If the record that stored the payload is removed, the first remaining one becomes its
                // owner.
                if record.is_deduplicated() && owned.insert(offset) {
                    record.set_owner();
                }
            }
            keep
        })?;
        self.index = rewritten.file;
        self.tail = Tail::at(rewritten.end);
        self.evicted.add(&self.totals, &rewritten.totals);
        self.totals = rewritten.totals;
        self.used_end = used_end;
        if self.options.sync {
            sync_dir(&self.dir)?;
        }
        let dead = dead_ranges(live, self.reserved_end);
        self.give_back(&dead)?;
        Ok(dead)
    }

    /// Frees the whole pages of a range. No record may refer to it, now or later.
    pub fn free(&mut self, range: Range<u64>) -> Result<(), FormatError> {
        match self.payloads.get() {
            Some(payloads) => punch_pages(payloads, &range).at("free space in", &self.payloads_path),
            None => Ok(()),
        }
    }

    /// Punches holes into dead pages. Only called when no index refers to them anymore.
    fn give_back(&mut self, dead: &[Range<u64>]) -> Result<(), FormatError> {
        let Some(payloads) = self.payloads.get() else { return Ok(()) };
        let is_new = |range: &&Range<u64>| {
            let at = self.freed.partition_point(|freed| freed.end < range.end);
            self.freed.get(at).is_none_or(|freed| freed.start > range.start)
        };
        for range in dead.iter().filter(is_new) {
            punch_pages(payloads, range).at("free space in", &self.payloads_path)?;
        }
        self.freed = dead.to_vec();
        Ok(())
    }

    /// Closes the dump: first the footer, then the manifest and the graph. Sets `footer.totals`, and counts
    /// everything that left the window as filtered. If only the JSON files fail, the dump is still closed,
    /// and repair can write them.
    pub fn finish(mut self, footer: &Footer) -> Result<Footer, FormatError> {
        self.settle();
        self.trim_payloads()?;
        let index = reopen(&self.index, &self.index_path)?;
        let threads =
            self.next_seq.iter().map(|(thread, next)| ThreadEnd { thread: *thread, next_seq: *next });
        let mut footer = Footer { totals: self.totals.clone(), threads: threads.collect(), ..footer.clone() };
        footer.filtered_records += self.evicted.records;
        footer.filtered_bytes += self.evicted.bytes;
        let in_flight = in_flight(&index, self.tail.end, &footer)?;
        footer.in_flight = Some(in_flight.clone());
        let end = self.tail.end;
        self.encoder.bytes.clear();
        self.encoder.footer(&footer, end);
        self.tail.append(&self.index, &self.index_path, &self.encoder.bytes)?;
        write_json_files(&self.dir, &JsonInput::new(&index, end, &footer, &in_flight)?)?;
        if self.options.sync {
            self.sync_data()?;
            self.sync_index()?;
            sync_dir(&self.dir)?;
        }
        self.settled.take().unwrap_or(Ok(())).map(|()| footer)
    }

    /// Lets the last tasks leave the window. Nothing may be appended afterwards. Returns counters of the
    /// dump's final content, even if it cannot be closed. On a full disk the old index stays, with more
    /// tasks than requested.
    pub fn settle(&mut self) -> &Totals {
        if self.settled.is_none() {
            if let Some(window) = &mut self.window {
                window.reserved.clear();
            }
            self.settled = Some(self.move_window().map(|_| ()));
        }
        &self.totals
    }

    /// Cuts off reserved or half-written bytes after the last payload, which on a full disk makes room for
    /// the footer. Removes the file if it has no payload.
    fn trim_payloads(&mut self) -> Result<(), FormatError> {
        let Some(payloads) = self.payloads.get() else { return Ok(()) };
        if self.used_end == 0 {
            return fs::remove_file(&self.payloads_path).at("remove", &self.payloads_path);
        }
        let bytes = payloads.metadata().at("measure", &self.payloads_path)?.len();
        if bytes > self.used_end {
            payloads.set_len(self.used_end).at("cut", &self.payloads_path)?;
        }
        Ok(())
    }
}

/// Offsets of payloads whose storing record stays.
fn owned_payloads(index: &Index, end: u64, window: &TaskWindow) -> Result<HashSet<u64>, FormatError> {
    let mut owned = HashSet::new();
    index.for_each(&[RecordKind::Tensor], end, |_, record| {
        if !record.is_deduplicated() && window.keeps(record) {
            owned.extend(record.stored_range().map(|(offset, _)| offset));
        }
        Ok::<_, FormatError>(())
    })?;
    Ok(owned)
}

/// Opens the writer's own file as a reader would.
fn reopen(index: &File, path: &Path) -> Result<Index, FormatError> {
    Index::from_file(index.try_clone().at("open", path)?, path)
}

fn folder_name(dir: &Path) -> String {
    let named = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    named.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Frees the whole pages of a range.
fn punch_pages(file: &File, range: &Range<u64>) -> std::io::Result<()> {
    let start = range.start.next_multiple_of(LARGE_PAYLOAD_ALIGN);
    let end = range.end / LARGE_PAYLOAD_ALIGN * LARGE_PAYLOAD_ALIGN;
    if start < end { punch_hole(file, start..end) } else { Ok(()) }
}

/// Frees a range's disk space. File systems without this function keep the bytes.
fn punch_hole(file: &File, range: Range<u64>) -> std::io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, flags, range.start, range.end - range.start) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
        punched => Ok(punched?),
    }
}
