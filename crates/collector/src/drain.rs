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
    check::{Bounds, Checked, Span, check},
    dedup::ContentKey,
    payload::{Extent, Window, extents},
    store::{Store, StoreError, payload_of},
    stream::{FollowError, Stream, Taken},
};

use self::pieces::Unfinished;

/// Payload bytes after which a frame is written and space given back, though more records are at hand: for one writer, and for each
/// of several, which wait for one another before a frame.
const FRAME_PAYLOAD_BYTES: u64 = 1 << 20;
const FRAME_PAYLOAD_BYTES_EACH: u64 = 2 << 20;

/// Why a lane's records end, or the whole collection.
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
pub(crate) struct Drain {
    pub(crate) stream: Stream,
    geometry: DumpGeometry,
    memory: DeviceRange,
    batch: bool,
    /// Payloads that are still coming.
    unfinished: Unfinished,
    /// Records of the next frame, and the payload bytes stored for it.
    records: Vec<IndexRecord>,
    frame_bytes: u64,
    /// So many bytes end a frame.
    frame_payload_bytes: u64,
    /// Sequence numbers below this are accounted for in the index.
    indexed: u64,
    /// Sequence number behind the last record looked at.
    seen: u64,
    /// Arena position behind the last payload looked at.
    position: u64,
    /// A damaged record may hold arena space that no other record names.
    space_in_doubt: bool,
    /// Write cursor and sequence number at the last look, while space is in doubt.
    last_look: Option<(u64, u64)>,
    corrupt_records: u64,
    /// Payloads that were begun and never ended, and texts of definitions that were overwritten before they were read.
    unfinished_payloads: u64,
    /// The first damaged record, until it is told.
    pub(crate) first_fault: Option<(u64, RecordFault)>,
    window: Window,
    /// Hash of the image that the lane sent last and that is stored.
    last_image: Option<[u8; 16]>,
}

impl Drain {
    /// `writers` is how many threads write its payloads.
    pub(crate) fn new(
        geometry: DumpGeometry,
        memory: DeviceRange,
        stream: Stream,
        batch: bool,
        writers: usize,
    ) -> Drain {
        let together =
            if writers > 1 { FRAME_PAYLOAD_BYTES_EACH * writers as u64 } else { FRAME_PAYLOAD_BYTES };
        Drain {
            frame_payload_bytes: together.min(geometry.arena_bytes / 8),
            stream,
            geometry,
            memory,
            batch,
            unfinished: Unfinished::default(),
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

    /// Sequence number behind the last record looked at.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Takes everything visible, but no more than fits into all buffers, so that no lane starves another. Returns
    /// how many records that were.
    pub(crate) fn drain<S: Sink>(
        &mut self,
        memory: &impl RegionMemory,
        store: &mut Store<S>,
        taken: &mut Taken,
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

    /// Nothing more will come: what was begun and not ended never will be, and what waits for its payload has lost it.
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
        taken: &Taken,
    ) -> Result<(), DrainError> {
        if taken.first_seq != self.seen {
            // The device lost records between: no frame may account for them.
            self.drop_unfinished();
            self.indexed = taken.first_seq;
            self.seen = taken.first_seq;
        }
        let checked = self.check(taken);
        let spans: Vec<_> =
            checked.iter().map(|record| record.as_ref().ok().and_then(Checked::span)).collect();
        let (offsets, lane) = (self.stream.offsets(), self.stream.lane());
        let extents = extents(offsets, lane, self.geometry.arena_bytes, &spans);
        for (record, extent) in checked.into_iter().zip(extents) {
            match record {
                Ok(record) => self.store(memory, store, record, extent)?,
                Err(fault) => self.refuse(fault),
            }
            self.seen += 1;
            if self.frame_bytes >= self.frame_payload_bytes {
                self.write_frame(memory, store, extent.map(|extent| extent.position + extent.bytes))?;
            }
        }
        self.write_frame(memory, store, Some(self.position))
    }

    /// Checks each record; `position` moves over the payloads of those that pass.
    fn check(&mut self, taken: &Taken) -> Vec<Result<Checked, RecordFault>> {
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
        // It may have been a step of any payload that is still coming.
        self.drop_unfinished();
    }

    fn store<S: Sink>(
        &mut self,
        memory: &impl RegionMemory,
        store: &mut Store<S>,
        record: Checked,
        extent: Option<Extent>,
    ) -> Result<(), DrainError> {
        match (record, extent) {
            (Checked::Plain(record), _) => self.records.push(IndexRecord::plain(&record)),
            (Checked::Tensor(record, _), _) => {
                let dropped = record.flags & RECORD_PAYLOAD_DROPPED != 0;
                self.enter(&record, if dropped { Payload::Dropped } else { Payload::None });
            }
            (Checked::Stored(record), _) => {
                let payload = self.already_stored(store, &record);
                self.enter(&record, payload);
            }
            (Checked::Payload(record, _), Some(extent)) => {
                self.store_payload(memory, store, &record, extent)?
            }
            (Checked::Stats(record, _), Some(extent)) => self.enter_stats(memory, &record, extent)?,
            (Checked::Later(record), _) => self.wait_for_payload(record),
            (Checked::Filled(filled, _), extent) => self.filled(memory, store, &filled, extent)?,
            (Checked::Begin(record), _) => self.begin(store, &record),
            (Checked::Piece(record, _), Some(extent)) => self.piece(memory, store, &record, extent)?,
            (Checked::Commit(record), _) => self.commit(store, &record)?,
            (Checked::Image(record), _) => self.begin_image(store, &record)?,
            (Checked::Module(record), _) => self.enter_module(record),
            (Checked::Dispatch(record, _), extent) => self.enter_dispatch(memory, &record, extent)?,
            (Checked::String(record, _), extent) => self.enter_string(memory, &record, extent)?,
            (Checked::Kernel(record, _), extent) => self.enter_kernel(memory, &record, extent)?,
            // Every record with a span has an extent.
            (Checked::Payload(..) | Checked::Stats(..) | Checked::Piece(..), None) => {
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

    /// Writes what has come together, then gives back arena space below `consumed` and acknowledges.
    fn write_frame<S: Sink>(
        &mut self,
        memory: &impl RegionMemory,
        store: &mut Store<S>,
        consumed: Option<u64>,
    ) -> Result<(), DrainError> {
        // A payload that is still coming is accounted for by the frame that holds its record.
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

    /// Whether the arena has gone round since. Only where nothing is given back while the device runs.
    fn is_overwritten(&self, extent: Extent) -> bool {
        let reuse = extent.position.saturating_add(self.geometry.arena_bytes);
        self.batch && extent.bytes > 0 && reuse < self.stream.write_cursor()
    }

    /// Gives back the space of damaged records, which nobody knows how much it was, once the lane stands still: it
    /// may be waiting for that space. A payload that is being filled all the while is refused when it comes.
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
