//! Payloads that are still arriving: in pieces, or at once after their record.

use std::collections::BTreeMap;

use tensortap_abi::{
    BeginRecord, CommitRecord, FilledRecord, PieceRecord, RECORD_ALREADY_STORED, RECORD_FILLED_LATER,
    RECORD_HAS_HASH, RECORD_TRUNCATED, TensorRecord,
};
use tensortap_format::Payload;

use super::{DrainError, LaneDrain, images::OpenImage};
use crate::{
    RecordFault, RegionMemory, Sink,
    check::content_bytes,
    dedup::ContentKey,
    payload::Extent,
    store::{Store, payload_of},
};

/// Maximum number of open payloads of one lane, and of records that wait for theirs.
const MAX_UNFINISHED: usize = 1 << 12;

/// Open payloads and waiting records, by the sequence number of their first record.
#[derive(Debug, Default)]
pub(super) struct OpenPayloads {
    open: BTreeMap<u64, OpenPayload>,
    /// The key in `open` of a payload, by its id.
    ids: BTreeMap<u64, u64>,
    waiting: BTreeMap<u64, TensorRecord>,
    /// Images of modules, by the sequence number of their first record.
    pub(super) images: BTreeMap<u64, OpenImage>,
}

impl OpenPayloads {
    /// Sequence number of the first record that is not stored yet.
    pub(super) fn first_seq(&self) -> Option<u64> {
        let firsts = [self.open.keys().next(), self.waiting.keys().next(), self.images.keys().next()];
        firsts.into_iter().flatten().min().copied()
    }

    fn has_room(&self) -> bool {
        self.open.len() + self.waiting.len() + self.images.len() < MAX_UNFINISHED
    }

    /// Registers a payload that starts with this record. Returns false if it may not.
    pub(super) fn begins(&mut self, payload_id: u64, seq: u64) -> bool {
        let may = self.has_room() && !self.ids.contains_key(&payload_id);
        if may {
            self.ids.insert(payload_id, seq);
        }
        may
    }

    /// The image with this payload id.
    pub(super) fn image(&mut self, payload_id: u64) -> Option<&mut OpenImage> {
        self.images.get_mut(self.ids.get(&payload_id)?)
    }

    /// Removes and returns the image when it ends.
    pub(super) fn take_image(&mut self, payload_id: u64) -> Option<OpenImage> {
        let image = self.images.remove(self.ids.get(&payload_id)?)?;
        self.ids.remove(&payload_id);
        Some(image)
    }
}

/// A payload that arrives in pieces.
#[derive(Clone, Copy, Debug)]
struct OpenPayload {
    tensor: TensorRecord,
    bytes: u64,
    /// Offset of its range in the payload file.
    offset: u64,
    received: u64,
    overwritten: bool,
}

impl LaneDrain {
    pub(super) fn begin<S: Sink>(&mut self, store: &mut Store<S>, begin: &BeginRecord) {
        if !self.unfinished.begins(begin.payload_id, self.seen) {
            return self.refuse(RecordFault::Order);
        }
        let tensor = begin.tensor();
        let bytes = content_bytes(&tensor).unwrap_or(0);
        // In batch mode the bytes may be gone before the first piece is read.
        let offset = if self.batch { 0 } else { store.reserve(bytes) };
        let open = OpenPayload { tensor, bytes, offset, received: 0, overwritten: false };
        self.unfinished.open.insert(self.seen, open);
    }

    pub(super) fn piece<S: Sink>(
        &mut self,
        memory: &impl RegionMemory,
        store: &mut Store<S>,
        piece: &PieceRecord,
        extent: Extent,
    ) -> Result<(), DrainError> {
        if self.unfinished.image(piece.payload_id).is_some() {
            return self.image_piece(memory, piece, extent);
        }
        let overwritten = self.is_overwritten(extent);
        let seq = self.unfinished.ids.get(&piece.payload_id);
        let fits = |open: &&mut OpenPayload| {
            let room = open.bytes - open.received;
            piece.task_id == open.tensor.task_id && piece.offset == open.received && extent.bytes <= room
        };
        let Some(open) = seq.and_then(|seq| self.unfinished.open.get_mut(seq)).filter(fits) else {
            self.refuse(RecordFault::Order);
            return Ok(());
        };
        open.overwritten |= overwritten;
        if !open.overwritten {
            if self.batch && open.received == 0 {
                open.offset = store.reserve(open.bytes);
            }
            store.piece(memory, extent, open.offset + open.received)?;
        }
        open.received += extent.bytes;
        self.frame_bytes += extent.bytes;
        Ok(())
    }

    pub(super) fn commit<S: Sink>(
        &mut self,
        store: &mut Store<S>,
        commit: &CommitRecord,
    ) -> Result<(), DrainError> {
        if let Some(image) = self.unfinished.take_image(commit.payload_id) {
            return self.end_image(store, image, commit);
        }
        let ends = |open: &OpenPayload| {
            let cut = commit.flags & RECORD_TRUNCATED != 0;
            let complete = open.received == commit.stored_bytes && (open.received == open.bytes || cut);
            commit.task_id == open.tensor.task_id && complete
        };
        let seq = self.unfinished.ids.remove(&commit.payload_id);
        let Some(open) = seq.and_then(|seq| self.unfinished.open.remove(&seq)).filter(ends) else {
            // The payload is lost in any case: its end record has arrived.
            self.unfinished_payloads += u64::from(seq.is_some());
            self.refuse(RecordFault::Order);
            return Ok(());
        };
        // Even for a truncated payload, the hash covers the whole content, so that equal content is
        // recognized.
        let flags = open.tensor.flags | RECORD_HAS_HASH;
        let record = TensorRecord { hash: commit.hash, flags, ..open.tensor };
        if open.overwritten {
            self.enter(&record, Payload::Overwritten);
            return Ok(());
        }
        let key = ContentKey::of(&record, open.received);
        let stored = store.end_pieces(key, open.offset)?;
        self.enter(&record, payload_of(key, open.received, stored));
        Ok(())
    }

    /// Holds a record back until its payload arrives.
    pub(super) fn wait_for_payload(&mut self, mut record: TensorRecord) {
        if !self.unfinished.has_room() {
            return self.refuse(RecordFault::Order);
        }
        record.flags &= !RECORD_FILLED_LATER;
        self.unfinished.waiting.insert(self.seen, record);
    }

    /// Handles the payload of an earlier record.
    pub(super) fn filled<S: Sink>(
        &mut self,
        memory: &impl RegionMemory,
        store: &mut Store<S>,
        filled: &FilledRecord,
        extent: Option<Extent>,
    ) -> Result<(), DrainError> {
        let is_its = |record: &TensorRecord| {
            let head = (record.task_id, record.stage, record.arg_index);
            head == (filled.task_id, filled.stage, filled.arg_index)
                && content_bytes(record) == Some(filled.payload_bytes)
        };
        let waiting = self.unfinished.waiting.get(&filled.record_seq).copied();
        let Some(mut record) = waiting.filter(is_its) else {
            self.refuse(RecordFault::Order);
            return Ok(());
        };
        self.unfinished.waiting.remove(&filled.record_seq);
        if filled.flags & RECORD_HAS_HASH != 0 {
            record.hash = filled.hash;
            record.flags |= RECORD_HAS_HASH;
        }
        if let Some(extent) = extent {
            return self.store_payload(memory, store, &record, extent);
        }
        let stored = filled.flags & RECORD_ALREADY_STORED != 0;
        let payload = if stored { self.already_stored(store, &record) } else { Payload::Dropped };
        self.enter(&record, payload);
        Ok(())
    }

    /// Handles content that the device reports as already stored. If it is not stored, there is no other
    /// copy: it is lost, and counted here, because the device counts it as stored.
    pub(super) fn already_stored<S: Sink>(&mut self, store: &mut Store<S>, record: &TensorRecord) -> Payload {
        let payload = store.already_stored(record);
        if matches!(payload, Payload::Dropped) {
            self.unfinished_payloads += 1;
        }
        payload
    }

    /// Discards everything that is still arriving. Records that wait keep their metadata.
    pub(super) fn drop_unfinished(&mut self) {
        let OpenPayloads { open, ids: _, waiting, images } = std::mem::take(&mut self.unfinished);
        self.unfinished_payloads += (open.len() + waiting.len() + images.len()) as u64;
        for record in waiting.values() {
            self.enter(record, Payload::Dropped);
        }
    }
}
