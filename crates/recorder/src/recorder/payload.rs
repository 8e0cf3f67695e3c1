//! What becomes of a tensor's content: a payload in one record, one in pieces, or statistics.

use core::mem::MaybeUninit;

use tensortap_abi::{
    DType, DumpGeometry, RECORD_HAS_HASH, RECORD_HAS_PAYLOAD, RECORD_HAS_STATS, RECORD_TRUNCATED, RecordKind,
    SMALL_PAYLOAD_ALIGN, TensorDumpRecord, TensorStats,
};
use zerocopy::IntoBytes;

use super::{Outcome, ThreadRecorder};
use crate::lane::{Need, Route};
use tensortap_values::{ContentHasher, LEAF_BYTES, Statistics};

use crate::{DropReason, Gather, HostLink};

impl<H: HostLink> ThreadRecorder<'_, H> {
    /// Records a payload with its metadata and hash.
    pub(super) fn record_payload(&mut self, record: TensorDumpRecord, content: Gather<'_>) -> Outcome {
        match self.lane.route(record.payload_bytes) {
            Route::Whole => self.record_whole(record, content),
            Route::Pieces => self.record_pieces(record, content),
        }
    }

    fn record_whole(&mut self, mut record: TensorDumpRecord, mut content: Gather<'_>) -> Outcome {
        let bytes = record.payload_bytes;
        let need = Need { bytes, align: DumpGeometry::payload_align(bytes) };
        let reservation = match self.reserve(Some(need)) {
            Ok(reservation) => reservation,
            Err(reason) => return self.drop_payload(record, reason, bytes),
        };
        let mut hasher = ContentHasher::new(bytes);
        fill(&mut content, self.lane.payload(&reservation), &mut hasher);
        self.ledger.captured(bytes);
        record.payload_pos = reservation.position();
        record.hash = hasher.finish().to_le_bytes();
        record.flags |= RECORD_HAS_PAYLOAD | RECORD_HAS_HASH;
        self.commit(reservation, &record);
        Outcome::Recorded
    }

    /// Begin, pieces, commit: consecutive records of this thread.
    fn record_pieces(&mut self, record: TensorDumpRecord, mut content: Gather<'_>) -> Outcome {
        let bytes = record.payload_bytes;
        // A thread that does not wait starts only what it can finish.
        if !self.waits()
            && let Err(refused) = self.lane.check_pieces(bytes)
        {
            let reason = self.reason(refused);
            return self.drop_payload(record, reason, bytes);
        }
        let begin = TensorDumpRecord { kind: RecordKind::Begin as u8, ..record };
        match self.reserve(None) {
            Ok(reservation) => self.commit(reservation, &begin),
            Err(reason) => {
                self.ledger.dropped(reason, bytes);
                return Outcome::Dropped(reason);
            }
        }
        let mut hasher = ContentHasher::new(bytes);
        match self.send_pieces(&record, &mut content, &mut hasher) {
            Ok(()) => self.end_pieces(&record, hasher),
            Err(reason) => self.cut_pieces(&record, content, hasher, reason),
        }
    }

    /// Sends the content piece by piece, until it ends or a piece finds no room.
    fn send_pieces(
        &mut self,
        record: &TensorDumpRecord,
        content: &mut Gather<'_>,
        hasher: &mut ContentHasher,
    ) -> Result<(), DropReason> {
        let mut align = self.lane.first_piece_align(record.payload_bytes);
        while content.left_bytes() > 0 {
            let sent_bytes = record.payload_bytes - content.left_bytes();
            let need = self.lane.next_piece(content.left_bytes(), align);
            let reservation = self.reserve(Some(need))?;
            fill(content, self.lane.payload(&reservation), hasher);
            self.ledger.captured(need.bytes);
            let piece = TensorDumpRecord {
                payload_pos: reservation.position(),
                payload_bytes: need.bytes,
                start_offset: sent_bytes,
                flags: record.flags | RECORD_HAS_PAYLOAD,
                ..step_of(record, RecordKind::Piece)
            };
            self.commit(reservation, &piece);
            align = SMALL_PAYLOAD_ALIGN;
        }
        Ok(())
    }

    fn end_pieces(&mut self, record: &TensorDumpRecord, hasher: ContentHasher) -> Outcome {
        let hash = hasher.finish().to_le_bytes();
        let flags = record.flags | RECORD_HAS_HASH;
        let end = TensorDumpRecord { hash, flags, ..step_of(record, RecordKind::Commit) };
        match self.reserve(None) {
            Ok(reservation) => {
                self.commit(reservation, &end);
                Outcome::Recorded
            }
            Err(reason) => {
                // Without its commit the whole payload is unreferenced.
                self.ledger.dropped(reason, record.payload_bytes);
                Outcome::Dropped(reason)
            }
        }
    }

    /// Ends a payload that could not be sent in full: its hash is still that of the whole content.
    fn cut_pieces(
        &mut self,
        record: &TensorDumpRecord,
        mut content: Gather<'_>,
        mut hasher: ContentHasher,
        reason: DropReason,
    ) -> Outcome {
        self.ledger.dropped(reason, content.left_bytes());
        if self.discards() {
            return Outcome::Dropped(reason);
        }
        if let Ok(reservation) = self.lane.reserve(None) {
            read_leaves(&mut content, |leaf| hasher.update(leaf));
            let hash = hasher.finish().to_le_bytes();
            let flags = record.flags | RECORD_HAS_HASH | RECORD_TRUNCATED;
            let end = TensorDumpRecord { hash, flags, ..step_of(record, RecordKind::Commit) };
            self.commit(reservation, &end);
        }
        Outcome::Dropped(reason)
    }

    /// Records the hash and the statistics of the content.
    pub(super) fn record_statistics(&mut self, record: TensorDumpRecord, content: Gather<'_>) -> Outcome {
        let need = Need { bytes: size_of::<TensorStats>() as u64, align: SMALL_PAYLOAD_ALIGN };
        let reserved = self.reserve(Some(need));
        if reserved.is_err() && self.discards() {
            return self.drop_payload(record, DropReason::NoHost, 0);
        }
        let (hash, stats) = summarize(&record, content);
        self.ledger.captured(record.payload_bytes);
        let record =
            TensorDumpRecord { hash: hash.to_le_bytes(), flags: record.flags | RECORD_HAS_HASH, ..record };
        match reserved {
            Ok(reservation) => {
                self.lane.payload(&reservation).write_copy_of_slice(stats.as_bytes());
                let (payload_pos, flags) = (reservation.position(), record.flags | RECORD_HAS_STATS);
                self.commit(reservation, &TensorDumpRecord { payload_pos, flags, ..record });
                Outcome::Recorded
            }
            Err(reason) => self.drop_payload(record, reason, 0),
        }
    }
}

/// What every step of a payload in pieces says of it, apart from its flags.
fn step_of(record: &TensorDumpRecord, kind: RecordKind) -> TensorDumpRecord {
    let &TensorDumpRecord { task_id, payload_bytes, stage, role, dtype, arg_index, .. } = record;
    TensorDumpRecord {
        task_id,
        payload_bytes,
        kind: kind as u8,
        stage,
        role,
        dtype,
        arg_index,
        ..TensorDumpRecord::default()
    }
}

/// Copies the next bytes of the content into a reserved piece and hashes the copy while it is hot.
fn fill(content: &mut Gather<'_>, piece: &mut [MaybeUninit<u8>], hasher: &mut ContentHasher) {
    for window in piece.chunks_mut(content.window()) {
        hasher.update(content.next_into(window));
    }
}

/// Reads what is left of the content, leaf by leaf.
fn read_leaves(content: &mut Gather<'_>, mut take: impl FnMut(&[u8])) {
    let mut leaf = [MaybeUninit::uninit(); LEAF_BYTES];
    while content.left_bytes() > 0 {
        take(content.next_into(&mut leaf));
    }
}

/// Hash and statistics of the content, of one reading.
fn summarize(record: &TensorDumpRecord, mut content: Gather<'_>) -> (u128, TensorStats) {
    let mut hasher = ContentHasher::new(record.payload_bytes);
    let dtype = DType::from_tag(record.dtype).expect("content is read only with a good dtype");
    let mut statistics = Statistics::new(dtype, content.left_elems());
    read_leaves(&mut content, |leaf| {
        hasher.update(leaf);
        statistics.update(leaf);
    });
    (hasher.finish(), statistics.finish())
}
