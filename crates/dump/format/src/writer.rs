//! Writes a dump while a run lasts.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File},
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use tensortap_abi::RecordKind;

use crate::{
    Footer, FormatError, INDEX_FILE, INDEX_VERSION, IndexRecord, PayloadPlace, RunInfo,
    SEGMENTED_INDEX_VERSION, ThreadEnd, Totals,
    error::AtPath,
    files::{Tail, create_new, lock_for_writing, sync_dir, write_json_files},
    frame::{FrameEncoder, encode_file_header},
    index::Index,
    layout::FILE_HEADER_BYTES,
    manifest::JsonInput,
    names::is_plain_file_name,
    rewrite::rewrite,
    survey::in_flight,
    window::{EvictedTotals, TaskWindow},
    written_files::WrittenFiles,
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
/// use tensortap_abi::{DType, DumpStage, Role, TensorRecord};
/// use tensortap_format::{Dump, DumpWriter, Footer, IndexRecord, Payload, RunInfo, Status};
///
/// let dir = tempfile::tempdir()?;
/// let mut writer = DumpWriter::create(dir.path(), &RunInfo::default())?;
/// let offset = writer.reserve(3);
/// writer.write_payload(offset, &[1, 2, 3])?;
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
    payloads: WrittenFiles,
    /// Whether the index states that there are several payload files.
    is_segmented: bool,
    totals: Totals,
    /// Result of the final move of the window, if it happened.
    settled: Option<Result<(), FormatError>>,
    /// First sequence number of each thread that is not accounted for yet.
    next_seq: BTreeMap<u32, u64>,
    window: Option<TaskWindow>,
    /// Counters of what left the window.
    evicted: EvictedTotals,
    /// Number of payload files whose names survive a power cut; `None` before the first sync.
    synced_files: Option<usize>,
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
        let header = encode_file_header(&info, 0, INDEX_VERSION)?;
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
            payloads: WrittenFiles::new(dir, &info.bin_file),
            is_segmented: false,
            info,
            totals: Totals::default(),
            settled: None,
            next_seq: BTreeMap::new(),
            window: options.keep_last_tasks.map(TaskWindow::new),
            evicted: EvictedTotals::default(),
            synced_files: None,
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

    /// Spreads large payloads over this many payload files from now on, so that several threads can write them at
    /// once. At most [`MAX_PAYLOAD_FILES`](crate::MAX_PAYLOAD_FILES).
    pub fn spread_over(&mut self, files: usize) {
        self.payloads.spread_over(files);
    }

    /// Reserves a range in a payload file, aligned for a payload of this size, and returns its position.
    pub fn reserve(&mut self, bytes: u64) -> u64 {
        let position = self.payloads.reserve(bytes);
        if let Some(window) = &mut self.window {
            window.reserved.insert(position, bytes);
        }
        position
    }

    /// Cancels a range from [`DumpWriter::reserve`] that no record will refer to. Its bytes stay unused.
    pub fn cancel(&mut self, offset: u64) {
        if let Some(window) = &mut self.window {
            window.reserved.remove(&offset);
        }
    }

    /// The payload file of a position, which the first call creates. The caller writes a payload at its position
    /// from [`DumpWriter::reserve`] before it appends the record.
    pub fn payload_place(&self, position: u64) -> Result<PayloadPlace<'_>, FormatError> {
        self.payloads.place(position)
    }

    /// Writes a payload at its position from [`DumpWriter::reserve`].
    pub fn write_payload(&self, position: u64, bytes: &[u8]) -> Result<(), FormatError> {
        self.payloads.write(position, bytes)
    }

    /// Reads bytes of a payload that was written.
    pub fn read_payload(&self, position: u64, into: &mut [u8]) -> Result<(), FormatError> {
        self.payloads.read(position, into)
    }

    /// Path of the payload file of a position, whether or not it exists.
    #[must_use]
    pub fn payload_path(&self, position: u64) -> &Path {
        self.payloads.path(position)
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
        self.note_segments(records)?;
        self.encoder.bytes.clear();
        self.encoder.records(thread, &seq, records);
        self.tail.append(&self.index, &self.index_path, &self.encoder.bytes)?;
        self.next_seq.insert(thread, seq.end);
        for record in records {
            self.totals.add(record);
            if let Some((position, bytes)) = record.stored_range() {
                self.payloads.use_range(position, bytes);
            }
            if let Some(window) = &mut self.window {
                window.see(record);
            }
        }
        Ok(())
    }

    /// Before the first record with a payload in another file than the first: states in the header of the index
    /// that there are several, so that a reader that knows one file rejects the dump.
    fn note_segments(&mut self, records: &[IndexRecord]) -> Result<(), FormatError> {
        let is_numbered = |record: &IndexRecord| {
            record.stored_range().is_some_and(|(position, _)| self.payloads.is_in_numbered_file(position))
        };
        if self.is_segmented || !records.iter().any(is_numbered) {
            return Ok(());
        }
        let flags = reopen(&self.index, &self.index_path)?.header.flags;
        let header = encode_file_header(&self.info, flags, SEGMENTED_INDEX_VERSION)?;
        // One write within one block of the disk, so that the header is either the old or the new one.
        self.index.write_all_at(&header[..FILE_HEADER_BYTES], 0).at("write", &self.index_path)?;
        if self.options.sync {
            self.index.sync_data().at("sync", &self.index_path)?;
        }
        self.is_segmented = true;
        Ok(())
    }

    /// Makes all payloads written so far survive a power cut.
    pub fn sync_data(&mut self) -> Result<(), FormatError> {
        self.payloads.sync_data()
    }

    /// Makes all records appended so far survive a power cut.
    pub fn sync_index(&mut self) -> Result<(), FormatError> {
        self.index.sync_data().at("sync", &self.index_path)?;
        let files = self.payloads.count();
        if self.synced_files.replace(files) != Some(files) {
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
        let reserved = live.len();
        let index = reopen(&self.index, &self.index_path)?;
        let mut owned = owned_payloads(&index, self.tail.end, window)?;
        let rewritten = rewrite(&index, self.tail.end, true, self.options.sync, |_, record| {
            let keep = window.keeps(record);
            if let (true, Some((offset, bytes))) = (keep, record.stored_range()) {
                live.push(offset..offset + bytes);
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
        self.payloads.use_only(&live[reserved..]);
        if self.options.sync {
            sync_dir(&self.dir)?;
        }
        let dead = self.payloads.dead(live);
        self.payloads.give_back(&dead)?;
        Ok(dead)
    }

    /// Frees the whole pages of a range. No record may refer to it, now or later.
    pub fn free(&mut self, range: &Range<u64>) -> Result<(), FormatError> {
        self.payloads.free(range)
    }

    /// Closes the dump: first the footer, then the manifest and the graph. Sets `footer.totals`, and counts
    /// everything that left the window as filtered. If only the JSON files fail, the dump is still closed,
    /// and repair can write them.
    pub fn finish(mut self, footer: &Footer) -> Result<Footer, FormatError> {
        self.settle();
        self.payloads.trim()?;
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
