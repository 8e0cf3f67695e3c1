//! Takes one device thread's records out of the region, checks them and stores them.

mod pieces;

use tensortap_abi::{DeviceRange, DumpGeometry, RECORD_HAS_STATS, RecordKind, TensorDumpRecord, TensorStats};
use tensortap_format::{IndexRecord, Payload};
use tensortap_platform::PlatformError;
use tensortap_values::content_hash;
use zerocopy::{FromZeros, IntoBytes};

use crate::{
    RecordFault, RegionMemory, Sink, StreamError, WriteError,
    check::{Bounds, Checked, Span, check},
    dedup::ContentKey,
    frame::{EnteredTotals, Frame, payload_of},
    payload::{Extent, Window, extents},
    store::{Store, StoreError},
    stream::{FollowError, Stream, Taken},
};

use self::pieces::OpenPayload;

/// Payload bytes after which a frame is written and space given back, though more records are at hand.
const FRAME_PAYLOAD_BYTES: u64 = 1 << 20;

/// Why a thread's records end, or the whole collection.
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

/// One device thread.
#[derive(Debug)]
pub(crate) struct Drain {
    pub(crate) stream: Stream,
    geometry: DumpGeometry,
    memory: DeviceRange,
    batch: bool,
    open: Option<OpenPayload>,
    frame: Frame,
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
    entered: EnteredTotals,
    corrupt_records: u64,
    /// Payloads that were begun and never ended.
    unfinished_payloads: u64,
    /// The first damaged record, until it is told.
    pub(crate) first_fault: Option<(u64, RecordFault)>,
    window: Window,
}

impl Drain {
    pub(crate) fn new(geometry: DumpGeometry, memory: DeviceRange, stream: Stream, batch: bool) -> Drain {
        Drain {
            stream,
            geometry,
            memory,
            batch,
            open: None,
            frame: Frame::default(),
            indexed: 0,
            seen: 0,
            position: 0,
            space_in_doubt: false,
            last_look: None,
            entered: EnteredTotals::default(),
            corrupt_records: 0,
            unfinished_payloads: 0,
            first_fault: None,
            window: Window::default(),
        }
    }

    pub(crate) fn entered(&self) -> EnteredTotals {
        self.entered
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

    /// Takes everything visible, but no more than fits into all buffers, so that no thread starves another. Returns
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

    /// Nothing more will come: what was begun and not ended never will be.
    pub(crate) fn end(&mut self) {
        self.drop_open();
    }

    fn consume<S: Sink>(
        &mut self,
        memory: &impl RegionMemory,
        store: &mut Store<S>,
        taken: &Taken,
    ) -> Result<(), DrainError> {
        if taken.first_seq != self.seen {
            // The device lost records between: no frame may account for them.
            self.drop_open();
            self.indexed = taken.first_seq;
            self.seen = taken.first_seq;
        }
        let checked = self.check(taken);
        let spans: Vec<_> =
            checked.iter().map(|record| record.as_ref().ok().and_then(Checked::span)).collect();
        let (places, thread) = (self.stream.places(), self.stream.thread());
        let extents = extents(places, thread, self.geometry.arena_bytes, &spans);
        for (record, extent) in checked.into_iter().zip(extents) {
            match record {
                Ok(record) => self.store(memory, store, record, extent)?,
                Err(fault) => self.refuse(fault),
            }
            self.seen += 1;
            if self.frame.payload_bytes >= FRAME_PAYLOAD_BYTES.min(self.geometry.arena_bytes / 8) {
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
        // It may have been a step of the open payload.
        self.drop_open();
    }

    fn store<S: Sink>(
        &mut self,
        memory: &impl RegionMemory,
        store: &mut Store<S>,
        record: Checked,
        extent: Option<Extent>,
    ) -> Result<(), DrainError> {
        if !matches!(record, Checked::Piece(..) | Checked::Commit(_)) {
            // The steps of a payload are never apart.
            self.drop_open();
        }
        match (record, extent) {
            (Checked::Task(task), _) => self.frame.records.push(IndexRecord::task(&task)),
            (Checked::Plain(record), _) => self.frame.enter_plain(&record),
            (Checked::Stored(record), _) => {
                let payload = store.already_stored(&record);
                self.frame.enter_tensor(&record, payload);
            }
            (Checked::InArena(record, _), Some(extent)) => {
                self.store_in_arena(memory, store, &record, extent)?
            }
            (Checked::Begin(record), _) => self.begin(store, record),
            (Checked::Piece(record, _), Some(extent)) => self.piece(memory, store, &record, extent)?,
            (Checked::Commit(record), _) => self.commit(store, &record)?,
            // Every record with a span has an extent.
            (Checked::InArena(..) | Checked::Piece(..), None) => self.refuse(RecordFault::Position),
        }
        Ok(())
    }

    fn store_in_arena<S: Sink>(
        &mut self,
        memory: &impl RegionMemory,
        store: &mut Store<S>,
        record: &TensorDumpRecord,
        extent: Extent,
    ) -> Result<(), DrainError> {
        let overwritten = self.is_overwritten(extent);
        if record.kind == RecordKind::Dispatch as u8 {
            return self.enter_dispatch(memory, record, extent, overwritten);
        }
        if overwritten {
            self.frame.enter_tensor(record, Payload::Overwritten);
            return Ok(());
        }
        if record.flags & RECORD_HAS_STATS != 0 {
            let mut stats = TensorStats::new_zeroed();
            self.window.copy(memory, extent, stats.as_mut_bytes()).map_err(DrainError::Memory)?;
            self.frame.enter_tensor(record, Payload::Stats(stats));
            return Ok(());
        }
        let key = ContentKey::of(record, extent.bytes);
        let stored = store.payload(memory, key, extent)?;
        self.frame.payload_bytes += extent.bytes;
        self.frame.enter_tensor(record, payload_of(key, extent.bytes, stored));
        Ok(())
    }

    fn enter_dispatch(
        &mut self,
        memory: &impl RegionMemory,
        record: &TensorDumpRecord,
        extent: Extent,
        overwritten: bool,
    ) -> Result<(), DrainError> {
        let dispatch = if overwritten {
            IndexRecord::lost_dispatch(record, true)
        } else {
            let mut words = vec![0u64; usize::try_from(extent.bytes / 8).unwrap_or(0)];
            self.window.copy(memory, extent, words.as_mut_bytes()).map_err(DrainError::Memory)?;
            IndexRecord::dispatch(record, &words)
        };
        // Nobody can check them later: the index has a checksum of its own.
        if !overwritten && (dispatch.dispatch_parts().is_none() || !is_hashed_as(&dispatch, record)) {
            self.refuse(RecordFault::Dispatch);
            return Ok(());
        }
        self.frame.totals.dispatches += 1;
        self.frame.totals.overwritten_records += u64::from(overwritten);
        self.frame.records.push(dispatch);
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
        let upto = self.open.map_or(self.seen, |open| open.seq);
        if self.frame.records.is_empty() {
            store.flush()?;
        } else {
            store.append(self.stream.thread(), self.indexed..upto, &self.frame.records)?;
            self.indexed = upto;
            self.frame.records.clear();
            self.entered.add(std::mem::take(&mut self.frame.totals));
        }
        self.frame.payload_bytes = 0;
        if self.stream.release(consumed.unwrap_or(0), upto)? {
            memory.wake();
        }
        Ok(())
    }

    fn drop_open(&mut self) {
        self.unfinished_payloads += u64::from(self.open.take().is_some());
    }

    /// Whether the arena has gone round since. Only where nothing is given back while the device runs.
    fn is_overwritten(&self, extent: Extent) -> bool {
        let reuse = extent.position.saturating_add(self.geometry.arena_bytes);
        self.batch && extent.bytes > 0 && reuse < self.stream.write_cursor()
    }

    /// Gives back the space of damaged records, which nobody knows how much it was, once the thread stands still: it
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

/// Whether the words of a dispatch are those that the device hashed.
fn is_hashed_as(dispatch: &IndexRecord, record: &TensorDumpRecord) -> bool {
    content_hash(dispatch.words().as_bytes()).to_le_bytes() == record.hash
}
