//! Tensors whose content comes later: reserve the space, let the caller fill it, commit the record.
//!
//! While space is reserved in a lane, the lane takes no other records: records become visible in the order
//! of reservation, and records without content must not wait for content. A thread therefore uses a second
//! lane for reservations and records everything else in its first lane, called `beside`. The owner of the
//! reservations keeps them in a queue and commits from its front.

use core::mem::MaybeUninit;

use tensortap_abi::{
    DType, DeviceRange, DumpGeometry, DumpRecord, RECORD_HAS_HASH, RECORD_HAS_PAYLOAD, RECORD_HAS_STATS,
    RECORD_PAYLOAD_DROPPED, SMALL_PAYLOAD_ALIGN, TensorRecord, TensorStats,
};
use tensortap_geometry::Layout;
use tensortap_values::{ContentHasher, Statistics};
use zerocopy::IntoBytes;

use super::{LaneRecorder, Outcome};
use crate::capture::tensor_record;
use crate::filter::Depth;
use crate::lane::{Reservation, SpaceRequest};
use crate::{DropReason, HostLink, TensorCapture};

const STATS_BYTES: u64 = size_of::<TensorStats>() as u64;

/// Space for the content of a tensor. It belongs to its holder until the commit.
#[derive(Debug)]
#[must_use = "space that is never committed blocks all later reservations"]
pub struct PayloadReservation {
    pub(super) reservation: Reservation,
    pub(super) pending: PendingRecord,
    pub(super) bytes: u64,
}

/// The record to write when the space is filled.
#[derive(Debug)]
pub(super) enum PendingRecord {
    /// A tensor. Its hash is computed at the commit if it is not known.
    Tensor { record: TensorRecord, dtype: DType, depth: Depth, hash: Option<u128> },
    /// A record that is already complete.
    Whole(DumpRecord),
}

impl PayloadReservation {
    /// Size of the content.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Why no space is reserved for later content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveError {
    /// No space is needed, or none is left: nothing more will be recorded for the tensor.
    Done(Outcome),
    /// There is no space before an earlier reservation of this lane is committed. Nothing was recorded or
    /// counted.
    CommitFirst,
    /// The content never fits. Nothing was recorded or counted.
    TooLarge {
        /// Size of the content.
        bytes: u64,
        /// Maximum size that can be reserved at a time.
        most: u64,
    },
}

impl<H: HostLink> LaneRecorder<'_, H> {
    /// Reserves space for a tensor's content. The content is not read from the view in `capture`. Records
    /// that need no content go to the lane `beside`, in the same region. Waits for the host according to
    /// the loss policy, but never for the caller's own commits.
    ///
    /// # Errors
    /// If there is no space, or none is needed.
    pub fn reserve_tensor(
        &mut self,
        capture: &TensorCapture<'_>,
        beside: &mut Self,
    ) -> Result<PayloadReservation, ReserveError> {
        beside.begin();
        let reserved = self.reserve_content(capture, beside);
        beside.end();
        reserved
    }

    /// The range of all space in this lane, for example to register that memory with a device driver.
    pub fn all_space(&self) -> DeviceRange {
        self.lane.arena_range()
    }

    /// The space for the content, which must be logical and contiguous.
    pub fn space(&mut self, reserved: &PayloadReservation) -> &mut [MaybeUninit<u8>] {
        let space = self.lane.payload(&reserved.reservation);
        &mut space[..usize::try_from(reserved.bytes).expect("mapped, so it fits")]
    }

    /// Commits the oldest open reservation after its space was filled. Computes the hash if none is passed.
    ///
    /// # Panics
    /// If an older reservation is not committed.
    pub fn commit_reserved(&mut self, reserved: PayloadReservation, hash: Option<u128>) -> Outcome {
        self.timed(|recorder| recorder.commit_content(reserved, hash))
    }

    /// Commits the oldest open reservation without its content, which never arrived. Its metadata is
    /// recorded.
    ///
    /// # Panics
    /// As [`commit_reserved`](Self::commit_reserved).
    pub fn cancel_reserved(&mut self, reserved: PayloadReservation) -> Outcome {
        let PayloadReservation { reservation, pending, bytes } = reserved;
        let record = match pending {
            PendingRecord::Tensor { mut record, hash, .. } => {
                record.flags |= RECORD_PAYLOAD_DROPPED;
                // The host releases the space together with this record.
                record.payload_pos = reservation.end();
                if let Some(hash) = hash {
                    record.hash = hash.to_le_bytes();
                    record.flags |= RECORD_HAS_HASH;
                }
                record.into()
            }
            // A piece: nothing refers to it without the payload's end record.
            PendingRecord::Whole(record) => record,
        };
        self.timed(|recorder| {
            recorder.ledger.dropped(DropReason::NoSpace, bytes);
            recorder.commit(reservation, record);
            Outcome::Dropped(DropReason::NoSpace)
        })
    }

    fn reserve_content(
        &mut self,
        capture: &TensorCapture<'_>,
        beside: &mut Self,
    ) -> Result<PayloadReservation, ReserveError> {
        let done = |outcome| Err(ReserveError::Done(outcome));
        let Some(depth) = self.rules.tensor_depth(capture.marked) else { return done(Outcome::NotWanted) };
        let Some((dtype, bytes)) = content_of(capture) else {
            return done(beside.record_uncaptured(capture));
        };
        if !self.rules.passes_arg(capture.stage, capture.arg_index) {
            beside.ledger.filtered(1, if depth == Depth::Payload { bytes } else { 0 });
            return done(Outcome::Filtered);
        }
        let record = tensor_record(capture);
        let most = self.lane.largest_reservation();
        let need = match depth {
            Depth::Metadata => return done(beside.record_plain(record)),
            _ if bytes > most => return Err(ReserveError::TooLarge { bytes, most }),
            // The statistics go to the end of the space of the elements.
            Depth::Statistics => {
                let space = bytes.next_multiple_of(SMALL_PAYLOAD_ALIGN).max(STATS_BYTES);
                SpaceRequest::whole(space, SMALL_PAYLOAD_ALIGN)
            }
            Depth::Payload if self.claims_bytes(bytes) => {
                SpaceRequest::whole(bytes, DumpGeometry::payload_align(bytes))
            }
            Depth::Payload => return done(beside.record_capped(record, bytes)),
        };
        match self.reserve_space(need) {
            Ok(reservation) => {
                let pending = PendingRecord::Tensor { record, dtype, depth, hash: None };
                Ok(PayloadReservation { reservation, pending, bytes })
            }
            Err(None) => {
                if depth == Depth::Payload {
                    // The caller will try again.
                    self.live.bytes_captured().add(bytes.wrapping_neg());
                }
                Err(ReserveError::CommitFirst)
            }
            Err(Some(reason)) => done(beside.drop_payload(record, reason, bytes)),
        }
    }

    /// An error of `None` means: no space before this lane's own reservations are committed.
    pub(super) fn reserve_space(
        &mut self,
        need: impl Into<Option<SpaceRequest>>,
    ) -> Result<Reservation, Option<DropReason>> {
        let need = need.into();
        loop {
            if self.discards() {
                return Err(Some(DropReason::NoHost));
            }
            let refused = match self.lane.reserve(need) {
                Ok(reservation) => return Ok(reservation),
                Err(refused) => refused,
            };
            if self.lane.is_blocked_by_own_reservations(refused) {
                return Err(None);
            }
            if !self.waits() || !self.wait_for(need) {
                return Err(Some(self.reason(refused)));
            }
        }
    }

    fn commit_content(&mut self, reserved: PayloadReservation, hash: Option<u128>) -> Outcome {
        let PayloadReservation { reservation, pending, bytes } = reserved;
        let (mut record, dtype, depth, known) = match pending {
            PendingRecord::Tensor { record, dtype, depth, hash } => (record, dtype, depth, hash),
            PendingRecord::Whole(record) => {
                self.ledger.captured(bytes);
                self.commit(reservation, record);
                return Outcome::Recorded;
            }
        };
        let content = self.lane.filled(&reservation, bytes);
        let hash = hash.or(known).unwrap_or_else(|| {
            let mut hasher = ContentHasher::new(bytes);
            hasher.update(content);
            hasher.finish()
        });
        record.hash = hash.to_le_bytes();
        record.flags |= RECORD_HAS_HASH;
        self.ledger.captured(bytes);
        if depth == Depth::Payload {
            record.flags |= RECORD_HAS_PAYLOAD;
            record.payload_pos = reservation.position();
        } else {
            let mut statistics = Statistics::new(dtype, numel(&record));
            statistics.update(content);
            let stats = statistics.finish();
            let space = self.lane.payload(&reservation);
            let at = space.len() - size_of::<TensorStats>();
            space[at..].write_copy_of_slice(stats.as_bytes());
            record.flags |= RECORD_HAS_STATS;
            record.payload_pos = reservation.end() - STATS_BYTES;
        }
        self.commit(reservation, record);
        Outcome::Recorded
    }
}

/// Type and size of a view's content; `None` if the view is invalid.
pub(super) fn content_of(capture: &TensorCapture<'_>) -> Option<(DType, u64)> {
    let desc = capture.desc;
    let dtype = desc.dtype()?;
    if usize::from(desc.ndims) > desc.shape.len() {
        return None;
    }
    let layout = Layout::new(desc.dims(), desc.dim_strides(), desc.start_offset, dtype.bits()).ok()?;
    Some((dtype, dtype.packed_bytes(layout.numel())?))
}

fn numel(record: &TensorRecord) -> u64 {
    record.shape[..usize::from(record.ndims)].iter().product()
}
