//! Stores payloads and records in the files: each once, in an order that readers can rely on.

use std::{io, ops::Range, time::Instant};

use rustix::{
    fs::{FallocateFlags, fallocate},
    io::pread,
};
use tensortap_abi::{ModuleKind, TensorRecord};
use tensortap_format::{ImageWriter, IndexRecord, Payload, Totals};
use tensortap_platform::PlatformError;
use tensortap_values::ContentHasher;

use crate::{
    RegionMemory, Sink, WriteError,
    check::content_bytes,
    dedup::{ContentKey, DedupTable, StoredPayload},
    payload::{Extent, PayloadError, PayloadWriter, WriterPlan},
};

/// Bytes of a stored payload that are read at a time to check its hash.
const PROOF_BYTES: usize = 1 << 16;

/// Payload bytes after which a frame is written and space released, even if more records are ready. One
/// value for a single writer, and one for each of several writers, which wait for each other before a
/// frame.
const FRAME_PAYLOAD_BYTES: u64 = 1 << 20;
const FRAME_PAYLOAD_BYTES_EACH: u64 = 2 << 20;

/// Why something could not be stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error(transparent)]
    Memory(#[from] PlatformError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl From<PayloadError> for StoreError {
    fn from(error: PayloadError) -> StoreError {
        match error {
            PayloadError::Memory(error) => StoreError::Memory(error),
            PayloadError::File(error) => StoreError::Write(WriteError::Payload(error)),
        }
    }
}

impl From<tensortap_format::FormatError> for StoreError {
    fn from(error: tensortap_format::FormatError) -> StoreError {
        StoreError::Write(error.into())
    }
}

/// The files, and what is known about their content.
pub(crate) struct Store<S> {
    sink: S,
    plan: WriterPlan,
    payloads: Box<dyn PayloadWriter + Send>,
    /// Whether a payload was written since the last frame.
    unflushed: bool,
    /// Payload bytes since the last frame, and the time when the first of them arrived if it matters.
    frame_bytes: u64,
    frame_start: Option<Instant>,
    dedup: DedupTable,
    /// Buffer for checking stored bytes.
    proof: Vec<u8>,
    sync: bool,
    /// Records in the index, and counters over them.
    indexed_records: u64,
    totals: Totals,
}

impl<S: Sink> Store<S> {
    pub(crate) fn new(
        mut sink: S,
        plan: WriterPlan,
        dedup_capacity: usize,
        sync: bool,
    ) -> io::Result<Store<S>> {
        sink.spread_over(plan.files());
        Ok(Store {
            sink,
            payloads: plan.start()?,
            plan,
            unflushed: false,
            frame_bytes: 0,
            frame_start: None,
            dedup: DedupTable::new(dedup_capacity),
            proof: Vec::new(),
            sync,
            indexed_records: 0,
            totals: Totals::default(),
        })
    }

    /// Payload bytes after which a frame is written.
    pub(crate) fn frame_payload_bytes(&self) -> u64 {
        match self.plan.writers() {
            1 => FRAME_PAYLOAD_BYTES,
            writers => FRAME_PAYLOAD_BYTES_EACH * writers as u64,
        }
    }

    pub(crate) fn into_sink(self) -> S {
        self.sink
    }

    pub(crate) fn indexed_records(&self) -> u64 {
        self.indexed_records
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(crate) fn missed_duplicates(&self) -> u64 {
        self.dedup.missed()
    }

    /// Stores a payload, unless equal content is already stored. Returns its offset, and whether it was
    /// already stored.
    pub(crate) fn payload(
        &mut self,
        memory: &dyn RegionMemory,
        key: Option<ContentKey>,
        from: Extent,
    ) -> Result<(u64, bool), StoreError> {
        if let Some(offset) = self.known(key)? {
            return Ok((offset, true));
        }
        let offset = self.reserve(from.bytes);
        self.piece(memory, from, offset)?;
        self.remember(key, offset);
        Ok((offset, false))
    }

    /// Stores content that the host has read itself.
    pub(crate) fn content(
        &mut self,
        key: Option<ContentKey>,
        content: &[u8],
    ) -> Result<(u64, bool), StoreError> {
        if let Some(offset) = self.known(key)? {
            return Ok((offset, true));
        }
        let bytes = content.len() as u64;
        let offset = self.reserve(bytes);
        if bytes > 0 {
            self.unflushed = true;
            self.payloads.put_bytes(self.sink.payload_place(offset)?, content)?;
        }
        self.remember(key, offset);
        Ok((offset, false))
    }

    /// Creates the file of a module's image, if the dump has a folder.
    pub(crate) fn image(
        &mut self,
        kind: ModuleKind,
        hash: u128,
        bytes: u64,
        place: (u32, u64),
    ) -> Result<Option<ImageWriter>, StoreError> {
        let Some(dir) = self.sink.folder() else { return Ok(None) };
        Ok(Some(ImageWriter::create(dir, kind, hash, bytes, place)?))
    }

    /// Whether acknowledged data survives a power cut.
    pub(crate) fn syncs(&self) -> bool {
        self.sync
    }

    /// Reserves a range in a payload file; an empty payload needs none.
    pub(crate) fn reserve(&mut self, bytes: u64) -> u64 {
        if bytes == 0 { 0 } else { self.sink.reserve(bytes) }
    }

    /// Writes one piece of a payload.
    pub(crate) fn piece(
        &mut self,
        memory: &dyn RegionMemory,
        from: Extent,
        at: u64,
    ) -> Result<(), StoreError> {
        if from.bytes == 0 {
            return Ok(());
        }
        if !std::mem::replace(&mut self.unflushed, true) {
            self.frame_start = self.plan.clock();
        }
        self.frame_bytes += from.bytes;
        self.payloads.put(memory, self.sink.payload_place(at)?, from)?;
        Ok(())
    }

    /// Ends a payload that arrived in pieces. Its hash arrives at its end, so a duplicate is found only
    /// after it was written. Its range is then returned to the file system and stays a hole.
    pub(crate) fn end_pieces(
        &mut self,
        key: Option<ContentKey>,
        offset: u64,
    ) -> Result<(u64, bool), StoreError> {
        let (Some(known), Some(key)) = (self.known(key)?, key) else {
            self.remember(key, offset);
            return Ok((offset, false));
        };
        self.flush()?;
        // A file system without this function keeps the bytes, unreferenced.
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let place = self.sink.payload_place(offset)?;
        let _ = fallocate(place.file, flags, place.offset, key.bytes);
        self.sink.cancel(offset);
        Ok((known, true))
    }

    /// Offset of content that the device reports as already stored. The stored bytes are not checked,
    /// because there is no other copy that could replace them. Readers of the dump check them.
    pub(crate) fn already_stored(&mut self, record: &TensorRecord) -> Payload {
        let bytes = content_bytes(record).unwrap_or(0);
        let key = ContentKey { hash: record.hash, bytes };
        match self.dedup.find(key).filter(|_| bytes > 0) {
            Some(StoredPayload { offset, .. }) => Payload::Deduplicated { offset, bytes },
            None => Payload::Dropped,
        }
    }

    /// Stores records in the index, after their payloads have reached the file.
    pub(crate) fn append(
        &mut self,
        lane: u32,
        seqs: Range<u64>,
        records: &[IndexRecord],
    ) -> Result<(), StoreError> {
        self.flush()?;
        self.sink.append(lane, seqs, records)?;
        if self.sync {
            self.sink.sync_index()?;
        }
        self.indexed_records += records.len() as u64;
        records.iter().for_each(|record| self.totals.add(record));
        Ok(())
    }

    /// Makes all payloads written so far durable.
    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        if !std::mem::take(&mut self.unflushed) {
            return Ok(());
        }
        self.payloads.flush(self.sink.payload_place(0)?.file)?;
        if self.sync {
            self.sink.sync_data()?;
        }
        let bytes = std::mem::take(&mut self.frame_bytes);
        if self.plan.wrote(bytes, self.frame_start.take()) {
            self.grow();
        }
        Ok(())
    }

    /// Uses more threads and files from now on. Without the threads, it continues as before.
    fn grow(&mut self) {
        if let Ok(payloads) = self.plan.start() {
            self.payloads = payloads;
            self.sink.spread_over(self.plan.files());
        }
    }

    /// Frees the space of tasks that have left the window. Every record made so far must be stored.
    pub(crate) fn free_window(&mut self) -> Result<(), StoreError> {
        let dead = self.sink.free_window()?;
        if !dead.is_empty() {
            self.dedup.remove(&dead);
        }
        Ok(())
    }

    /// Discards everything that has not reached the files.
    pub(crate) fn abandon(&mut self) {
        self.payloads.discard();
        (self.unflushed, self.frame_bytes) = (false, 0);
    }

    /// Offset of equal stored content.
    ///
    /// The device computes a hash before the bytes are in its arena, where a stray write may change them.
    /// The stored bytes are therefore hashed the first time that another record would refer to them. A
    /// damaged copy then affects only its own record, and costs a second copy.
    fn known(&mut self, key: Option<ContentKey>) -> Result<Option<u64>, StoreError> {
        let Some(key) = key.filter(|key| key.bytes > 0) else { return Ok(None) };
        let Some(found) = self.dedup.find(key) else { return Ok(None) };
        if found.proven || self.prove(key, found.offset)? {
            return Ok(Some(found.offset));
        }
        self.dedup.discard(key);
        Ok(None)
    }

    /// Whether the stored bytes have the expected hash. Bytes that cannot be read do not.
    fn prove(&mut self, key: ContentKey, offset: u64) -> Result<bool, StoreError> {
        if self.unflushed {
            // The bytes may still be staged. `unflushed` stays set: the next frame makes them durable.
            self.payloads.flush(self.sink.payload_place(0)?.file)?;
        }
        let place = self.sink.payload_place(offset)?;
        self.proof.resize(PROOF_BYTES, 0);
        let mut hasher = ContentHasher::new(key.bytes);
        while hasher.left_bytes() > 0 {
            let (at, left) = (place.offset + key.bytes - hasher.left_bytes(), hasher.left_bytes());
            let piece = usize::try_from(left).map_or(PROOF_BYTES, |left| left.min(PROOF_BYTES));
            match pread(place.file, &mut self.proof[..piece], at) {
                Ok(0) | Err(_) => return Ok(false),
                Ok(read) => hasher.update(&self.proof[..read]),
            }
        }
        let proven = hasher.finish().to_le_bytes() == key.hash;
        if proven {
            self.dedup.prove(key);
        }
        Ok(proven)
    }

    fn remember(&mut self, key: Option<ContentKey>, offset: u64) {
        if let Some(key) = key.filter(|key| key.bytes > 0) {
            self.dedup.insert(key, offset);
        }
    }
}

/// The payload field of an index record, for a payload that is stored now or was already.
pub(crate) fn payload_of(key: Option<ContentKey>, bytes: u64, (offset, known): (u64, bool)) -> Payload {
    match (key, known) {
        (None, _) => Payload::Truncated { offset, bytes },
        (Some(_), true) => Payload::Deduplicated { offset, bytes },
        (Some(_), false) => Payload::Stored { offset, bytes },
    }
}
