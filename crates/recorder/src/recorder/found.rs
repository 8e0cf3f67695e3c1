//! Tensors whose content somebody else has read, such as a device: its hash and statistics come from there.
//!
//! They are believed here, as both sides are of one process; whoever reads the dump proves payloads against their hashes.

use tensortap_abi::{
    BeginRecord, CommitRecord, DumpGeometry, PieceRecord, RECORD_ALREADY_STORED, RECORD_HAS_HASH,
    RECORD_HAS_STATS, RECORD_PAYLOAD_DROPPED, SMALL_PAYLOAD_ALIGN, TensorRecord, TensorStats,
};
use zerocopy::IntoBytes;

use super::later::{NotReserved, Reserved, Said, content_of};
use super::payload::OpenPayload;
use super::{LaneRecorder, Outcome};
use crate::capture::tensor_record;
use crate::filter::Depth;
use crate::lane::{Need, Reservation};
use crate::{DropReason, HostLink, TensorCapture};

/// What was found out about the content of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Its `xxh3_128_tree4k`.
    pub hash: u128,
    /// Its statistics, where they were taken.
    pub stats: Option<TensorStats>,
}

/// A payload that comes in pieces, of which some have no space yet.
#[derive(Debug)]
pub struct Pieces {
    payload: OpenPayload,
    hash: u128,
    /// Bytes that have space.
    placed: u64,
    align: u64,
    is_ended: bool,
}

impl<H: HostLink> LaneRecorder<'_, H> {
    /// Records what was found out about a tensor, and nothing else of its content. Where its payload is wanted, that counts as dropped.
    pub fn found(&mut self, capture: &TensorCapture<'_>, found: &Found) -> Outcome {
        self.timed(|recorder| recorder.record_found(capture, found))
    }

    /// Reserves a record that says that this content is stored already: in this lane, by a record before this one. To be committed like any other, and without
    /// space to be filled. What is recorded otherwise is so `beside`.
    ///
    /// # Errors
    /// As [`reserve_tensor`](Self::reserve_tensor).
    pub fn reserve_stored(
        &mut self,
        capture: &TensorCapture<'_>,
        found: &Found,
        beside: &mut Self,
    ) -> Result<Reserved, NotReserved> {
        let (mut record, bytes) = self.wants_payload(capture, found, beside)?;
        let reservation = self.reserve_wanted(None, &record, bytes, beside)?;
        record.flags |= RECORD_ALREADY_STORED;
        Ok(Reserved { reservation, said: Said::Whole(record.into()), bytes: 0 })
    }

    /// Reserves space for content whose hash is known: all of it in one, or the beginning of [pieces](Self::reserve_piece). What is recorded otherwise is so `beside`.
    ///
    /// # Errors
    /// As [`reserve_tensor`](Self::reserve_tensor), and never that it is too large.
    pub fn reserve_found(
        &mut self,
        capture: &TensorCapture<'_>,
        found: &Found,
        beside: &mut Self,
    ) -> Result<(Reserved, Option<Pieces>), NotReserved> {
        let (record, bytes) = self.wants_payload(capture, found, beside)?;
        let is_whole = bytes <= self.lane.largest_whole();
        let need = is_whole.then(|| Need::whole(bytes, DumpGeometry::payload_align(bytes)));
        let reservation = self.reserve_wanted(need, &record, bytes, beside)?;
        if is_whole {
            let dtype = content_of(capture).map(|(dtype, _)| dtype);
            let dtype = dtype.unwrap_or_else(|| unreachable!("its bytes were counted"));
            let said = Said::Tensor { record, dtype, depth: Depth::Payload, hash: Some(found.hash) };
            return Ok((Reserved { reservation, said, bytes }, None));
        }
        // The hash comes with the end.
        let begun = TensorRecord { hash: [0; 16], flags: record.flags & !RECORD_HAS_HASH, ..record };
        let payload = OpenPayload::of(&begun, reservation.seq(), bytes);
        let said = Said::Whole(BeginRecord::new(&begun, payload.id).into());
        let align = self.lane.first_piece_align(bytes);
        let pieces = Pieces { payload, hash: found.hash, placed: 0, align, is_ended: false };
        Ok((Reserved { reservation, said, bytes: 0 }, Some(pieces)))
    }

    /// Space for the next piece; behind the last of them the record that ends the payload, which has none; then nothing.
    ///
    /// # Errors
    /// As [`reserve_tensor`](Self::reserve_tensor), but that nothing is recorded or counted. A payload that is not ended is none: nothing refers to it.
    pub fn reserve_piece(&mut self, pieces: &mut Pieces) -> Result<Option<Reserved>, NotReserved> {
        if pieces.is_ended {
            return Ok(None);
        }
        let left = pieces.payload.bytes - pieces.placed;
        let need = (left > 0).then(|| self.lane.next_piece(left, pieces.align));
        let reservation = self.reserve_space(need).map_err(|refused| match refused {
            None => NotReserved::CommitFirst,
            Some(reason) => NotReserved::Done(Outcome::Dropped(reason)),
        })?;
        let Some(need) = need else {
            pieces.is_ended = true;
            let hash = pieces.hash.to_le_bytes();
            let end = CommitRecord { hash, ..pieces.payload.commit(pieces.payload.bytes) };
            return Ok(Some(Reserved { reservation, said: Said::Whole(end.into()), bytes: 0 }));
        };
        let (payload_pos, offset, bytes) = (reservation.position(), pieces.placed, need.bytes);
        let piece = PieceRecord { payload_pos, offset, bytes, ..pieces.payload.piece() };
        pieces.placed += bytes;
        pieces.align = SMALL_PAYLOAD_ALIGN;
        Ok(Some(Reserved { reservation, said: Said::Whole(piece.into()), bytes }))
    }

    fn reserve_wanted(
        &mut self,
        need: Option<Need>,
        record: &TensorRecord,
        bytes: u64,
        beside: &mut Self,
    ) -> Result<Reservation, NotReserved> {
        self.reserve_space(need).map_err(|refused| {
            // It will be asked for again, or never.
            self.live.bytes_captured().add(bytes.wrapping_neg());
            match refused {
                None => NotReserved::CommitFirst,
                Some(reason) => NotReserved::Done(beside.drop_payload(*record, reason, bytes)),
            }
        })
    }

    /// The record of a tensor whose payload is wanted, with its hash, and the bytes of that payload. Everything else is recorded, and told as done.
    fn wants_payload(
        &mut self,
        capture: &TensorCapture<'_>,
        found: &Found,
        beside: &mut Self,
    ) -> Result<(TensorRecord, u64), NotReserved> {
        let done = |outcome| Err(NotReserved::Done(outcome));
        if self.rules.tensor_depth(capture.marked) != Some(Depth::Payload) {
            return done(beside.found(capture, found));
        }
        let Some((_, bytes)) = content_of(capture) else { return done(beside.record_uncaptured(capture)) };
        if !self.rules.passes_arg(capture.stage, capture.arg_index) {
            beside.ledger.filtered(1, bytes);
            return done(Outcome::Filtered);
        }
        if !self.claims_bytes(bytes) {
            return done(beside.record_capped(hashed(capture, found), bytes));
        }
        Ok((hashed(capture, found), bytes))
    }

    fn record_found(&mut self, capture: &TensorCapture<'_>, found: &Found) -> Outcome {
        let Some(depth) = self.rules.tensor_depth(capture.marked) else { return Outcome::NotWanted };
        let Some((_, bytes)) = content_of(capture) else { return self.record_uncaptured(capture) };
        if !self.rules.passes_arg(capture.stage, capture.arg_index) {
            self.ledger.filtered(1, if depth == Depth::Payload { bytes } else { 0 });
            return Outcome::Filtered;
        }
        let record = hashed(capture, found);
        match (depth, found.stats) {
            (Depth::Metadata, _) => self.record_plain(tensor_record(capture)),
            (Depth::Payload, _) => {
                self.ledger.dropped(DropReason::NoSpace, bytes);
                let record = TensorRecord { flags: record.flags | RECORD_PAYLOAD_DROPPED, ..record };
                self.record_plain(record);
                Outcome::Dropped(DropReason::NoSpace)
            }
            (Depth::Statistics, Some(stats)) => self.record_stats(record, bytes, &stats),
            (Depth::Statistics, None) => {
                self.ledger.captured(bytes);
                self.record_plain(record)
            }
        }
    }

    fn record_stats(&mut self, record: TensorRecord, bytes: u64, stats: &TensorStats) -> Outcome {
        let need = Need::whole(size_of::<TensorStats>() as u64, SMALL_PAYLOAD_ALIGN);
        match self.reserve(Some(need)) {
            Ok(reservation) => {
                self.lane.payload(&reservation).write_copy_of_slice(stats.as_bytes());
                self.ledger.captured(bytes);
                let (payload_pos, flags) = (reservation.position(), record.flags | RECORD_HAS_STATS);
                self.commit(reservation, TensorRecord { payload_pos, flags, ..record });
                Outcome::Recorded
            }
            Err(reason) => self.drop_payload(record, reason, 0),
        }
    }
}

fn hashed(capture: &TensorCapture<'_>, found: &Found) -> TensorRecord {
    let record = tensor_record(capture);
    TensorRecord { hash: found.hash.to_le_bytes(), flags: record.flags | RECORD_HAS_HASH, ..record }
}
