//! Takes one lane's records out of the region, checks them and stores them.

mod definitions;
mod images;
mod pieces;

use tensortap_abi::{DeviceRange, DumpGeometry, RECORD_PAYLOAD_DROPPED, TensorRecord, TensorStats};
use tensortap_format::{IndexRecord, Payload};
use tensortap_platform::PlatformError;
use zerocopy::{FromZeros, IntoBytes};

use crate::{
    RecordFault, RegionMemory, Sink, StreamError, WriteError,
    check::{Bounds, CheckedRecord, Span, check},
    dedup::ContentKey,
    payload::{Extent, Window, extents},
    store::{Store, StoreError, payload_of},
    stream::{FollowError, RecordBatch, Stream},
};

use self::pieces::OpenPayloads;

/// Why a lane, or the whole collection, cannot continue.
#[derive(Debug)]
pub(crate) enum DrainError {
    Damaged(StreamError),
    Write(WriteError),
    Memory(PlatformError),
}

impl From<FollowError> for DrainError {
    fn from(error: FollowError) -> DrainError {
        match error {
            FollowError::Damaged(error) => DrainError::Damaged(error),
            FollowError::Memory(error) => DrainError::Memory(error),
        }
    }
}

impl From<StoreError> for DrainError {
    fn from(error: StoreError) -> DrainError {
        match error {
            StoreError::Memory(error) => DrainError::Memory(error),
            StoreError::Write(error) => DrainError::Write(error),
        }
    }
}

/// One lane.
#[derive(Debug)]
pub(crate) struct LaneDrain {
    pub(crate) stream: Stream,
    geometry: DumpGeometry,
    memory: DeviceRange,
    batch: bool,
    /// Payloads that are still arriving.
    unfinished: OpenPayloads,
    /// Records of the next frame, and the payload bytes stored for it.
    records: Vec<IndexRecord>,
    frame_bytes: u64,
    /// All sequence numbers below this are accounted for in the index.
    indexed: u64,
    /// Sequence number after the last record that was read.
    seen: u64,
    /// Arena position after the last payload that was read.
    position: u64,
    /// Whether a damaged record may hold arena space that no other record names.
    space_in_doubt: bool,
    /// Write cursor and sequence number at the last check, while space is in doubt.
    last_look: Option<(u64, u64)>,
    corrupt_records: u64,
    /// Payloads that never ended, and texts of definitions that were overwritten before they were read.
    unfinished_payloads: u64,
    /// The first damaged record, until it is reported.
    pub(crate) first_fault: Option<(u64, RecordFault)>,
    window: Window,
    /// Hash of the last image of this lane, if it is stored.
    last_image: Option<[u8; 16]>,
}

impl LaneDrain {
    pub(crate) fn new(geometry: DumpGeometry, memory: DeviceRange, stream: Stream, batch: bool) -> LaneDrain {
        LaneDrain {
            stream,
            geometry,
            memory,
            batch,
            unfinished: OpenPayloads::default(),
            records: Vec::new(),
            frame_bytes: 0,
            indexed: 0,
            seen: 0,
            position: 0,
            space_in_doubt: false,
            last_look: None,
            corrupt_records: 0,
            unfinished_payloads: 0,
            first_fault: None,
            window: Window::default(),
            last_image: None,
        }
    }

    pub(crate) fn corrupt_records(&self) -> u64 {
        self.corrupt_records
    }

    pub(crate) fn unfinished_payloads(&self) -> u64 {
        self.unfinished_payloads
    }

    /// Bytes of the arena that the device may use.
    fn arena_bytes(&self) -> u64 {
        self.stream.arena_limit().unwrap_or(self.geometry.arena_bytes)
    }

    /// Sequence number after the last record that was read.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Takes everything visible, but at most as many records as fit into all buffers, so that one lane does
    /// not delay the others. Returns the number of records.
    pub(crate) fn drain<S: Sink>(
        &mut self,
        memory: &impl RegionMemory,
        store: &mut Store<S>,
        taken: &mut RecordBatch,
    ) -> Result<u64, DrainError> {
        let most = u64::from(self.geometry.buffers) * u64::from(self.geometry.records);
        let mut records = 0;
        while records < most && self.stream.take(taken)? {
            records += taken.len();
            self.consume(memory, store, taken)?;
        }
        if records == 0 {
            self.settle_doubt(memory)?;
            self.stream.restate().map_err(DrainError::Memory)?;
        } else {
            store.free_window()?;
        }
        Ok(records)
    }

    /// Nothing more will arrive. Open payloads are discarded, and records that wait for a payload have lost
    /// it.
    pub(crate) fn end<S: Sink>(&mut self, store: &mut Store<S>) -> Result<(), StoreError> {
        self.drop_unfinished();
        if self.records.is_empty() {
            return Ok(());
        }
        store.append(self.stream.lane(), self.indexed..self.seen, &self.records)?;
        self.indexed = self.seen;
        self.records.clear();
        Ok(())
    }

    fn consume<S: Sink>(
        &mut self,
        memory: &impl RegionMemory,
        store: &mut Store<S>,
        taken: &RecordBatch,
    ) -> Result<(), DrainError> {
        if taken.first_seq != self.seen {
            // The device lost records in between; no frame may account for them.
            self.drop_unfinished();
            self.indexed = taken.first_seq;
            self.seen = taken.first_seq;
        }
        let checked = self.check(taken);
        let spans: Vec<_> =
            checked.iter().map(|record| record.as_ref().ok().and_then(CheckedRecord::span)).collect();
        let (offsets, lane) = (self.stream.offsets(), self.stream.lane());
        let extents = extents(offsets, lane, self.geometry.arena_bytes, &spans);
        for (record, extent) in checked.into_iter().zip(extents) {
            match record {
                Ok(record) => self.store(memory, store, record, extent)?,
                Err(fault) => self.refuse(fault),
            }
            self.seen += 1;
            if self.frame_bytes >= store.frame_payload_bytes().min(self.arena_bytes() / 8) {
                self.write_frame(memory, store, extent.map(|extent| extent.position + extent.bytes))?;
            }
        }
        self.write_frame(memory, store, Some(self.position))
    }

    /// Checks each record. `position` advances over the payloads of valid records.
    fn check(&mut self, taken: &RecordBatch) -> Vec<Result<CheckedRecord, RecordFault>> {
        let mut bounds = Bounds {
            memory: self.memory,
            arena_bytes: self.geometry.arena_bytes,
            from: self.position,
            to: self.stream.write_cursor(),
        };
        let checked = taken.records().map(|bytes| {
            let checked = check(bytes, &bounds)?;
            bounds.from = checked.span().map_or(bounds.from, Span::end);
            Ok(checked)
        });
        let checked = checked.collect::<Vec<_>>();
        self.space_in_doubt |= checked.iter().any(Result::is_err);
        self.position = bounds.from;
        checked
    }

    fn refuse(&mut self, fault: RecordFault) {
        self.corrupt_records += 1;
        if self.corrupt_records == 1 {
            self.first_fault = Some((self.seen, fault));
        }
        // The damaged record may have belonged to any payload that is still arriving.
        self.drop_unfinished();
    }

    fn store<S: Sink>(
        &mut self,
        memory: &impl RegionMemory,
        store: &mut Store<S>,
        record: CheckedRecord,
        extent: Option<Extent>,
    ) -> Result<(), DrainError> {
        match (record, extent) {
            (CheckedRecord::Plain(record), _) => self.records.push(IndexRecord::plain(&record)),
            (CheckedRecord::Tensor(record, _), _) => {
                let dropped = record.flags & RECORD_PAYLOAD_DROPPED != 0;
                self.enter(&record, if dropped { Payload::Dropped } else { Payload::None });
            }
            (CheckedRecord::Stored(record), _) => {
                let payload = self.already_stored(store, &record);
                self.enter(&record, payload);
            }
            (CheckedRecord::Payload(record, _), Some(extent)) => {
                self.store_payload(memory, store, &record, extent)?
            }
            (CheckedRecord::Stats(record, _), Some(extent)) => self.enter_stats(memory, &record, extent)?,
            (CheckedRecord::Later(record), _) => self.wait_for_payload(record),
            (CheckedRecord::Filled(filled, _), extent) => self.filled(memory, store, &filled, extent)?,
            (CheckedRecord::Begin(record), _) => self.begin(store, &record),
            (CheckedRecord::Piece(record, _), Some(extent)) => self.piece(memory, store, &record, extent)?,
            (CheckedRecord::Commit(record), _) => self.commit(store, &record)?,
            (CheckedRecord::Image(record), _) => self.begin_image(store, &record)?,
            (CheckedRecord::Module(record), _) => self.enter_module(record),
            (CheckedRecord::Dispatch(record, _), extent) => self.enter_dispatch(memory, &record, extent)?,
            (CheckedRecord::String(record, _), extent) => self.enter_string(memory, &record, extent)?,
            (CheckedRecord::Kernel(record, _), extent) => self.enter_kernel(memory, &record, extent)?,
            // Every record with a span has an extent.
            (CheckedRecord::Payload(..) | CheckedRecord::Stats(..) | CheckedRecord::Piece(..), None) => {
                self.refuse(RecordFault::Position);
            }
        }
        Ok(())
    }

    fn enter(&mut self, record: &TensorRecord, payload: Payload) {
        self.records.push(IndexRecord::tensor(record, payload));
    }

    fn store_payload<S: Sink>(
        &mut self,
        memory: &impl RegionMemory,
        store: &mut Store<S>,
        record: &TensorRecord,
        extent: Extent,
    ) -> Result<(), DrainError> {
        if self.is_overwritten(extent) {
            self.enter(record, Payload::Overwritten);
            return Ok(());
        }
        let key = ContentKey::of(record, extent.bytes);
        let stored = store.payload(memory, key, extent)?;
        self.frame_bytes += extent.bytes;
        self.enter(record, payload_of(key, extent.bytes, stored));
        Ok(())
    }

    fn enter_stats(
        &mut self,
        memory: &impl RegionMemory,
        record: &TensorRecord,
        extent: Extent,
    ) -> Result<(), DrainError> {
        if self.is_overwritten(extent) {
            self.enter(record, Payload::Overwritten);
            return Ok(());
        }
        let mut stats = TensorStats::new_zeroed();
        self.window.copy(memory, extent, stats.as_mut_bytes()).map_err(DrainError::Memory)?;
        self.enter(record, Payload::Stats(stats));
        Ok(())
    }

    /// Writes the collected records, then releases arena space below `consumed` and acknowledges.
    fn write_frame<S: Sink>(
        &mut self,
        memory: &impl RegionMemory,
        store: &mut Store<S>,
        consumed: Option<u64>,
    ) -> Result<(), DrainError> {
        // The frame that contains a record also accounts for its payload, even if the payload is still
        // arriving.
        let upto = self.unfinished.first_seq().unwrap_or(self.seen);
        if self.records.is_empty() {
            store.flush()?;
        } else {
            store.append(self.stream.lane(), self.indexed..upto, &self.records)?;
            self.indexed = upto;
            self.records.clear();
        }
        self.frame_bytes = 0;
        if self.stream.release(consumed.unwrap_or(0), upto)? {
            memory.wake();
        }
        Ok(())
    }

    /// Whether the arena has wrapped over these bytes since. Only possible if nothing is released while the
    /// device runs.
    fn is_overwritten(&self, extent: Extent) -> bool {
        let reuse = extent.position.saturating_add(self.geometry.arena_bytes);
        self.batch && extent.bytes > 0 && reuse < self.stream.write_cursor()
    }

    /// Releases the space of damaged records, whose size is unknown, once the lane makes no progress: it may be
    /// waiting for that space. A payload that is being filled all this time is rejected when it arrives.
    fn settle_doubt(&mut self, memory: &impl RegionMemory) -> Result<(), DrainError> {
        if !self.space_in_doubt || self.batch {
            return Ok(());
        }
        let look = (self.stream.read_cursor()?, self.seen);
        if self.last_look.replace(look) != Some(look) {
            return Ok(());
        }
        (self.space_in_doubt, self.last_look) = (false, None);
        self.position = self.position.max(look.0);
        if self.stream.release(self.position, 0)? {
            memory.wake();
        }
        Ok(())
    }
}
