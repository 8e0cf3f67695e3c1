//! Tensors whose content was read elsewhere, for example on a GPU, with the hash and statistics from there.
//!
//! The recorder trusts these values, because both sides belong to one process. Readers of the dump check
//! payloads against their hashes.

use tensortap_abi::{
    BeginRecord, CommitRecord, DumpGeometry, PieceRecord, RECORD_ALREADY_STORED, RECORD_HAS_HASH,
    RECORD_HAS_STATS, RECORD_PAYLOAD_DROPPED, SMALL_PAYLOAD_ALIGN, TensorRecord, TensorStats,
};
use zerocopy::IntoBytes;

use super::payload::OpenPayload;
use super::reservation::{PayloadReservation, PendingRecord, ReserveError, content_of};
use super::{LaneRecorder, Outcome};
use crate::capture::tensor_record;
use crate::filter::Depth;
use crate::lane::{Reservation, SpaceRequest};
use crate::{DropReason, HostLink, TensorCapture};

/// Hash and statistics of a tensor's content.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContentDigest {
    /// The content's `xxh3_128_tree4k` hash.
    pub hash: u128,
    /// The content's statistics, if they were computed.
    pub stats: Option<TensorStats>,
}

/// A payload that is sent in pieces, some of which have no space yet.
#[derive(Debug)]
pub struct PiecewisePayload {
    payload: OpenPayload,
    hash: u128,
    /// Number of bytes that have space.
    placed: u64,
    align: u64,
    is_ended: bool,
}

impl<H: HostLink> LaneRecorder<'_, H> {
    /// Records the digest of a tensor without its content. If the level wants the payload, the payload
    /// counts as dropped.
    pub fn tensor_digest(&mut self, capture: &TensorCapture<'_>, found: &ContentDigest) -> Outcome {
        self.timed(|recorder| recorder.record_found(capture, found))
    }

    /// Reserves a record for content that is already stored by an earlier record of this lane. Commit it
    /// like any other reservation; it has no space to fill. Records that need no content go to the lane
    /// `beside`.
    ///
    /// # Errors
    /// As [`reserve_tensor`](Self::reserve_tensor).
    pub fn reserve_stored(
        &mut self,
        capture: &TensorCapture<'_>,
        found: &ContentDigest,
        beside: &mut Self,
    ) -> Result<PayloadReservation, ReserveError> {
        let (mut record, bytes) = self.wants_payload(capture, found, beside)?;
        let reservation = self.reserve_wanted(None, &record, bytes, beside)?;
        record.flags |= RECORD_ALREADY_STORED;
        Ok(PayloadReservation { reservation, pending: PendingRecord::Whole(record.into()), bytes: 0 })
    }

    /// Reserves space for content with a known hash: all of it, or the start of
    /// [pieces](Self::reserve_piece). Records that need no content go to the lane `beside`.
    ///
    /// # Errors
    /// As [`reserve_tensor`](Self::reserve_tensor), but never [`ReserveError::TooLarge`].
    pub fn reserve_hashed(
        &mut self,
        capture: &TensorCapture<'_>,
        found: &ContentDigest,
        beside: &mut Self,
    ) -> Result<(PayloadReservation, Option<PiecewisePayload>), ReserveError> {
        let (record, bytes) = self.wants_payload(capture, found, beside)?;
        let is_whole = bytes <= self.lane.largest_whole();
        let need = is_whole.then(|| SpaceRequest::whole(bytes, DumpGeometry::payload_align(bytes)));
        let reservation = self.reserve_wanted(need, &record, bytes, beside)?;
        if is_whole {
            let dtype = content_of(capture).map(|(dtype, _)| dtype);
            let dtype = dtype.unwrap_or_else(|| unreachable!("its bytes were counted"));
            let pending =
                PendingRecord::Tensor { record, dtype, depth: Depth::Payload, hash: Some(found.hash) };
            return Ok((PayloadReservation { reservation, pending, bytes }, None));
        }
        // The commit record carries the hash.
        let begun = TensorRecord { hash: [0; 16], flags: record.flags & !RECORD_HAS_HASH, ..record };
        let payload = OpenPayload::of(&begun, reservation.seq(), bytes);
        let pending = PendingRecord::Whole(BeginRecord::new(&begun, payload.id).into());
        let align = self.lane.first_piece_align(bytes);
        let pieces = PiecewisePayload { payload, hash: found.hash, placed: 0, align, is_ended: false };
        Ok((PayloadReservation { reservation, pending, bytes: 0 }, Some(pieces)))
    }

    /// Reserves space for the next piece. After the last piece, reserves the record that ends the payload,
    /// which has no space; after that, returns `None`.
    ///
    /// # Errors
    /// As [`reserve_tensor`](Self::reserve_tensor), but nothing is recorded or counted. A payload without
    /// its end record does not exist: nothing refers to it.
    pub fn reserve_piece(
        &mut self,
        pieces: &mut PiecewisePayload,
    ) -> Result<Option<PayloadReservation>, ReserveError> {
        if pieces.is_ended {
            return Ok(None);
        }
        let left = pieces.payload.bytes - pieces.placed;
        let need = (left > 0).then(|| self.lane.next_piece(left, pieces.align));
        let reservation = self.reserve_space(need).map_err(|refused| match refused {
            None => ReserveError::CommitFirst,
            Some(reason) => ReserveError::Done(Outcome::Dropped(reason)),
        })?;
        let Some(need) = need else {
            pieces.is_ended = true;
            let hash = pieces.hash.to_le_bytes();
            let end = CommitRecord { hash, ..pieces.payload.commit(pieces.payload.bytes) };
            return Ok(Some(PayloadReservation {
                reservation,
                pending: PendingRecord::Whole(end.into()),
                bytes: 0,
            }));
        };
        let (payload_pos, offset, bytes) = (reservation.position(), pieces.placed, need.bytes);
        let piece = PieceRecord { payload_pos, offset, bytes, ..pieces.payload.piece() };
        pieces.placed += bytes;
        pieces.align = SMALL_PAYLOAD_ALIGN;
        Ok(Some(PayloadReservation { reservation, pending: PendingRecord::Whole(piece.into()), bytes }))
    }

    fn reserve_wanted(
        &mut self,
        need: Option<SpaceRequest>,
        record: &TensorRecord,
        bytes: u64,
        beside: &mut Self,
    ) -> Result<Reservation, ReserveError> {
        self.reserve_space(need).map_err(|refused| {
            // The caller will try again, or never.
            self.live.bytes_captured().add(bytes.wrapping_neg());
            match refused {
                None => ReserveError::CommitFirst,
                Some(reason) => ReserveError::Done(beside.drop_payload(*record, reason, bytes)),
            }
        })
    }

    /// The record of a tensor whose payload is wanted, with its hash, and the size of that payload. All
    /// other tensors are recorded here and reported as done.
    fn wants_payload(
        &mut self,
        capture: &TensorCapture<'_>,
        found: &ContentDigest,
        beside: &mut Self,
    ) -> Result<(TensorRecord, u64), ReserveError> {
        let done = |outcome| Err(ReserveError::Done(outcome));
        if self.rules.tensor_depth(capture.marked) != Some(Depth::Payload) {
            return done(beside.tensor_digest(capture, found));
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

    fn record_found(&mut self, capture: &TensorCapture<'_>, found: &ContentDigest) -> Outcome {
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
        let need = SpaceRequest::whole(size_of::<TensorStats>() as u64, SMALL_PAYLOAD_ALIGN);
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

fn hashed(capture: &TensorCapture<'_>, found: &ContentDigest) -> TensorRecord {
    let record = tensor_record(capture);
    TensorRecord { hash: found.hash.to_le_bytes(), flags: record.flags | RECORD_HAS_HASH, ..record }
}
