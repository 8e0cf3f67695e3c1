//! Records a tensor's content: as a payload in one record, as a payload in pieces, or as statistics.

use core::mem::MaybeUninit;

use tensortap_abi::{
    BeginRecord, CommitRecord, DType, DumpGeometry, DumpStage, PieceRecord, RECORD_HAS_HASH,
    RECORD_HAS_PAYLOAD, RECORD_HAS_STATS, RECORD_IN_FLIGHT, RECORD_TRUNCATED, SMALL_PAYLOAD_ALIGN,
    TensorRecord, TensorStats,
};
use zerocopy::IntoBytes;

use super::{LaneRecorder, Outcome};
use crate::lane::{Route, SpaceRequest};
use tensortap_values::{ContentHasher, LEAF_BYTES, Statistics, content_hash};

use crate::capture::tensor_record;
use crate::gather::DenseContent;
use crate::{DropReason, Gather, HostLink, TensorCapture};

impl<H: HostLink> LaneRecorder<'_, H> {
    /// Records a payload of at most one leaf whose source is contiguous. Returns `None` if the payload
    /// would straddle the arena's end and must be split.
    #[inline]
    pub(super) fn record_small(
        &mut self,
        capture: &TensorCapture<'_>,
        content: DenseContent<'_>,
    ) -> Option<Outcome> {
        let bytes = content.len() as u64;
        if self.lane.route(bytes) != Route::Whole {
            return None;
        }
        let mut record = tensor_record(capture);
        let reservation = match self.reserve(Some(SpaceRequest::whole(bytes, SMALL_PAYLOAD_ALIGN))) {
            Ok(reservation) => reservation,
            Err(reason) => return Some(self.drop_payload(record, reason, bytes)),
        };
        record.hash = content_hash(content.copy_into(self.lane.payload(&reservation))).to_le_bytes();
        self.ledger.captured(bytes);
        record.payload_pos = reservation.position();
        record.flags |= RECORD_HAS_PAYLOAD | RECORD_HAS_HASH;
        self.commit(reservation, record);
        Some(Outcome::Recorded)
    }

    /// Records a payload with its metadata and hash.
    pub(super) fn record_payload(&mut self, record: TensorRecord, content: Gather<'_>) -> Outcome {
        match self.lane.route(content.left_bytes()) {
            Route::Whole => self.record_whole(record, content),
            Route::Pieces => self.record_pieces(record, content),
        }
    }

    fn record_whole(&mut self, mut record: TensorRecord, mut content: Gather<'_>) -> Outcome {
        let bytes = content.left_bytes();
        let need = SpaceRequest::whole(bytes, DumpGeometry::payload_align(bytes));
        let reservation = match self.reserve(Some(need)) {
            Ok(reservation) => reservation,
            Err(reason) => return self.drop_payload(record, reason, bytes),
        };
        let piece = self.lane.payload(&reservation);
        let hash = if bytes <= LEAF_BYTES as u64 {
            content_hash(content.next_into(piece))
        } else {
            let mut hasher = ContentHasher::new(bytes);
            fill(&mut content, piece, &mut hasher);
            hasher.finish()
        };
        self.ledger.captured(bytes);
        record.payload_pos = reservation.position();
        record.hash = hash.to_le_bytes();
        record.flags |= RECORD_HAS_PAYLOAD | RECORD_HAS_HASH;
        self.commit(reservation, record);
        Outcome::Recorded
    }

    /// Begin, pieces, commit.
    fn record_pieces(&mut self, record: TensorRecord, mut content: Gather<'_>) -> Outcome {
        let bytes = content.left_bytes();
        // A thread that does not wait starts only payloads that it can finish.
        if !self.waits()
            && let Err(refused) = self.lane.check_pieces(bytes)
        {
            let reason = self.reason(refused);
            return self.drop_payload(record, reason, bytes);
        }
        let payload = match self.reserve(None) {
            Ok(reservation) => {
                let payload = OpenPayload::of(&record, reservation.seq(), bytes);
                self.commit(reservation, BeginRecord::new(&record, payload.id));
                payload
            }
            Err(reason) => {
                self.ledger.dropped(reason, bytes);
                return Outcome::Dropped(reason);
            }
        };
        let mut hasher = ContentHasher::new(bytes);
        match self.send_pieces(&payload, &mut content, &mut hasher) {
            Ok(()) => self.end_pieces(&payload, hasher),
            Err(reason) => self.cut_pieces(&payload, content, hasher, reason),
        }
    }

    /// Sends the content piece by piece, until it ends or no space is free.
    fn send_pieces(
        &mut self,
        payload: &OpenPayload,
        content: &mut Gather<'_>,
        hasher: &mut ContentHasher,
    ) -> Result<(), DropReason> {
        let mut align = self.lane.first_piece_align(payload.bytes);
        while content.left_bytes() > 0 {
            let offset = payload.bytes - content.left_bytes();
            let need = self.lane.next_piece(content.left_bytes(), align);
            let reservation = self.reserve(Some(need))?;
            fill(content, self.lane.payload(&reservation), hasher);
            self.ledger.captured(need.bytes);
            let (payload_pos, bytes) = (reservation.position(), need.bytes);
            self.commit(reservation, PieceRecord { payload_pos, offset, bytes, ..payload.piece() });
            align = SMALL_PAYLOAD_ALIGN;
        }
        Ok(())
    }

    fn end_pieces(&mut self, payload: &OpenPayload, hasher: ContentHasher) -> Outcome {
        match self.reserve(None) {
            Ok(reservation) => {
                let hash = hasher.finish().to_le_bytes();
                self.commit(reservation, CommitRecord { hash, ..payload.commit(payload.bytes) });
                Outcome::Recorded
            }
            Err(reason) => {
                // Without its commit record, nothing refers to the payload.
                self.ledger.dropped(reason, payload.bytes);
                Outcome::Dropped(reason)
            }
        }
    }

    /// Ends a payload that could not be sent in full. Its hash still covers the whole content.
    fn cut_pieces(
        &mut self,
        payload: &OpenPayload,
        mut content: Gather<'_>,
        mut hasher: ContentHasher,
        reason: DropReason,
    ) -> Outcome {
        let left = content.left_bytes();
        self.ledger.dropped(reason, left);
        if self.discards() {
            return Outcome::Dropped(reason);
        }
        if let Ok(reservation) = self.lane.reserve(None) {
            read_leaves(&mut content, |leaf| hasher.update(leaf));
            let mut end = payload.commit(payload.bytes - left);
            end.hash = hasher.finish().to_le_bytes();
            end.flags |= RECORD_TRUNCATED;
            self.commit(reservation, end);
        }
        Outcome::Dropped(reason)
    }

    /// Records the hash and the statistics of the content.
    pub(super) fn record_statistics(&mut self, record: TensorRecord, content: Gather<'_>) -> Outcome {
        let need = SpaceRequest::whole(size_of::<TensorStats>() as u64, SMALL_PAYLOAD_ALIGN);
        let reserved = self.reserve(Some(need));
        if reserved.is_err() && self.discards() {
            return self.drop_payload(record, DropReason::NoHost, 0);
        }
        let bytes = content.left_bytes();
        let (hash, stats) = summarize(&record, content);
        self.ledger.captured(bytes);
        let record =
            TensorRecord { hash: hash.to_le_bytes(), flags: record.flags | RECORD_HAS_HASH, ..record };
        match reserved {
            Ok(reservation) => {
                self.lane.payload(&reservation).write_copy_of_slice(stats.as_bytes());
                let (payload_pos, flags) = (reservation.position(), record.flags | RECORD_HAS_STATS);
                self.commit(reservation, TensorRecord { payload_pos, flags, ..record });
                Outcome::Recorded
            }
            Err(reason) => self.drop_payload(record, reason, 0),
        }
    }
}

/// A payload that is sent in pieces: the values that its records share.
#[derive(Debug)]
pub(super) struct OpenPayload {
    /// Sequence number of its begin record, which is unique in the lane.
    pub id: u64,
    /// Size of the whole payload.
    pub bytes: u64,
    task_id: u64,
    stage: u8,
    arg_index: u16,
    in_flight: u32,
}

impl OpenPayload {
    pub fn of(record: &TensorRecord, begin_seq: u64, bytes: u64) -> OpenPayload {
        let &TensorRecord { task_id, stage, arg_index, flags, .. } = record;
        OpenPayload { id: begin_seq, bytes, task_id, stage, arg_index, in_flight: flags & RECORD_IN_FLIGHT }
    }

    /// The image of a module, which is sent before any dispatch.
    pub fn image(begin_seq: u64, bytes: u64) -> OpenPayload {
        let stage = DumpStage::BeforeDispatch as u8;
        OpenPayload { id: begin_seq, bytes, task_id: 0, stage, arg_index: 0, in_flight: 0 }
    }

    pub fn piece(&self) -> PieceRecord {
        PieceRecord {
            task_id: self.task_id,
            stage: self.stage,
            arg_index: self.arg_index,
            flags: self.in_flight | RECORD_HAS_PAYLOAD,
            payload_id: self.id,
            ..PieceRecord::default()
        }
    }

    pub fn commit(&self, stored_bytes: u64) -> CommitRecord {
        CommitRecord {
            task_id: self.task_id,
            stage: self.stage,
            arg_index: self.arg_index,
            flags: self.in_flight | RECORD_HAS_HASH,
            payload_id: self.id,
            stored_bytes,
            ..CommitRecord::default()
        }
    }
}

/// Copies the next bytes of the content into a reserved piece and hashes the copy while it is hot.
fn fill(content: &mut Gather<'_>, piece: &mut [MaybeUninit<u8>], hasher: &mut ContentHasher) {
    for window in piece.chunks_mut(content.window()) {
        hasher.update(content.next_into(window));
    }
}

/// Reads the rest of the content, leaf by leaf.
fn read_leaves(content: &mut Gather<'_>, mut take: impl FnMut(&[u8])) {
    let mut leaf = [MaybeUninit::uninit(); LEAF_BYTES];
    while content.left_bytes() > 0 {
        take(content.next_into(&mut leaf));
    }
}

/// Hash and statistics of the content, in one pass.
fn summarize(record: &TensorRecord, mut content: Gather<'_>) -> (u128, TensorStats) {
    let dtype = DType::from_tag(record.dtype).expect("content is read only with a good dtype");
    let mut statistics = Statistics::new(dtype, content.left_elems());
    if content.left_bytes() <= LEAF_BYTES as u64 {
        // Most tensors are this small. For them, setting up the incremental hash would cost more than the
        // hash itself.
        let mut leaf = [MaybeUninit::uninit(); LEAF_BYTES];
        let leaf = content.next_into(&mut leaf);
        statistics.update(leaf);
        return (content_hash(leaf), statistics.finish());
    }
    let mut hasher = ContentHasher::new(content.left_bytes());
    read_leaves(&mut content, |leaf| {
        hasher.update(leaf);
        statistics.update(leaf);
    });
    (hasher.finish(), statistics.finish())
}
