//! Payloads that come in pieces: begun, filled piece by piece, entered in the index at their end.

use tensortap_abi::{RECORD_HAS_HASH, RECORD_TRUNCATED, TensorDumpRecord};
use tensortap_format::Payload;

use super::{Drain, DrainError};
use crate::{
    RecordFault, RegionMemory, Sink, dedup::ContentKey, frame::payload_of, payload::Extent, store::Store,
};

/// A payload that comes in pieces.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenPayload {
    pub(super) seq: u64,
    begin: TensorDumpRecord,
    /// Its range in the payload file.
    offset: u64,
    received: u64,
    overwritten: bool,
}

impl Drain {
    pub(super) fn begin<S: Sink>(&mut self, store: &mut Store<S>, begin: TensorDumpRecord) {
        // In a batch the bytes may be gone before the first piece is looked at.
        let offset = if self.batch { 0 } else { store.reserve(begin.payload_bytes) };
        self.open = Some(OpenPayload { seq: self.seen, begin, offset, received: 0, overwritten: false });
    }

    pub(super) fn piece<S: Sink>(
        &mut self,
        memory: &impl RegionMemory,
        store: &mut Store<S>,
        piece: &TensorDumpRecord,
        extent: Extent,
    ) -> Result<(), DrainError> {
        let fits = self.open.filter(|open| {
            let room = open.begin.payload_bytes - open.received;
            piece.task_id == open.begin.task_id && piece.start_offset == open.received && extent.bytes <= room
        });
        let Some(mut open) = fits else {
            self.refuse(RecordFault::Order);
            return Ok(());
        };
        open.overwritten |= self.is_overwritten(extent);
        if !open.overwritten {
            if self.batch && open.received == 0 {
                open.offset = store.reserve(open.begin.payload_bytes);
            }
            store.piece(memory, extent, open.offset + open.received)?;
        }
        open.received += extent.bytes;
        self.frame.payload_bytes += extent.bytes;
        self.open = Some(open);
        Ok(())
    }

    pub(super) fn commit<S: Sink>(
        &mut self,
        store: &mut Store<S>,
        commit: &TensorDumpRecord,
    ) -> Result<(), DrainError> {
        let truncated = commit.flags & RECORD_TRUNCATED != 0;
        let ends = self.open.filter(|open| {
            let whole = open.received == open.begin.payload_bytes;
            commit.task_id == open.begin.task_id && (whole || truncated)
        });
        let Some(open) = ends else {
            self.refuse(RecordFault::Order);
            return Ok(());
        };
        self.open = None;
        // Also of a payload that was cut, the hash is that of all of the content: it tells equal content.
        let mut record = TensorDumpRecord { hash: commit.hash, ..open.begin };
        record.flags |= RECORD_HAS_HASH | if truncated { RECORD_TRUNCATED } else { 0 };
        if open.overwritten {
            self.frame.enter_tensor(&record, Payload::Overwritten);
            return Ok(());
        }
        let key = ContentKey::of(&record, open.received);
        let stored = store.end_pieces(key, open.offset)?;
        self.frame.enter_tensor(&record, payload_of(key, open.received, stored));
        Ok(())
    }
}
