//! Tensors whose content comes later: space is reserved, somebody fills it, and the record is committed.
//!
//! A lane in which space is reserved takes no other records meanwhile: its records become visible in the order of reservation, and
//! what has no content must not wait for what comes. So a thread has a second lane for this, and says everything else *beside* it, in its first.
//! Who makes reservations keeps them in a queue and commits from its front.

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
use crate::lane::{Need, Reservation};
use crate::{DropReason, HostLink, TensorCapture};

const STATS_BYTES: u64 = size_of::<TensorStats>() as u64;

/// Space for the content of a tensor, which is its holder's until it is committed.
#[derive(Debug)]
#[must_use = "space that is never committed holds up all that is reserved behind it"]
pub struct Reserved {
    pub(super) reservation: Reservation,
    pub(super) said: Said,
    pub(super) bytes: u64,
}

/// What is said when the space is filled.
#[derive(Debug)]
pub(super) enum Said {
    /// A tensor, whose hash is taken then if it is not known.
    Tensor { record: TensorRecord, dtype: DType, depth: Depth, hash: Option<u128> },
    /// Nothing is left to be added.
    Whole(DumpRecord),
}

impl Reserved {
    /// Bytes of the content.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Why there is no space for content that comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReserved {
    /// None is needed or none is left: nothing more will be recorded of the tensor.
    Done(Outcome),
    /// There is none before an earlier reservation of this lane is committed. Nothing was recorded or counted.
    CommitFirst,
    /// There never is. Nothing was recorded or counted.
    TooLarge {
        /// Bytes of the content.
        bytes: u64,
        /// The most that can be reserved at a time.
        most: u64,
    },
}

impl<H: HostLink> LaneRecorder<'_, H> {
    /// Reserves space for a tensor's content, which is not read from its view: `capture` says what it will be. What needs no
    /// content is recorded `beside`, in another lane of the same region. Waits for the host as the loss policy says, and never for the caller.
    ///
    /// # Errors
    /// When there is no space, or none is needed.
    pub fn reserve_tensor(
        &mut self,
        capture: &TensorCapture<'_>,
        beside: &mut Self,
    ) -> Result<Reserved, NotReserved> {
        beside.begin();
        let reserved = self.reserve_content(capture, beside);
        beside.end();
        reserved
    }

    /// Where all content of this lane goes that comes later, for whoever makes that memory known to a device.
    pub fn all_space(&self) -> DeviceRange {
        self.lane.arena_range()
    }

    /// Where the content goes: logical, contiguous.
    pub fn space(&mut self, reserved: &Reserved) -> &mut [MaybeUninit<u8>] {
        let space = self.lane.payload(&reserved.reservation);
        &mut space[..usize::try_from(reserved.bytes).expect("mapped, so it fits")]
    }

    /// Commits the oldest reservation that is not committed, now that its space is filled. Without a hash, that is taken here.
    ///
    /// # Panics
    /// When an older one is not committed.
    pub fn commit_reserved(&mut self, reserved: Reserved, hash: Option<u128>) -> Outcome {
        self.timed(|recorder| recorder.commit_content(reserved, hash))
    }

    /// Commits the oldest reservation that is not committed without its content, which never came: its metadata stays.
    ///
    /// # Panics
    /// As [`commit_reserved`](Self::commit_reserved).
    pub fn give_up_reserved(&mut self, reserved: Reserved) -> Outcome {
        let Reserved { reservation, said, bytes } = reserved;
        let record = match said {
            Said::Tensor { mut record, hash, .. } => {
                record.flags |= RECORD_PAYLOAD_DROPPED;
                // The host gives the space back with this record.
                record.payload_pos = reservation.end();
                if let Some(hash) = hash {
                    record.hash = hash.to_le_bytes();
                    record.flags |= RECORD_HAS_HASH;
                }
                record.into()
            }
            // A piece: without the end of its payload nothing refers to it.
            Said::Whole(record) => record,
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
    ) -> Result<Reserved, NotReserved> {
        let done = |outcome| Err(NotReserved::Done(outcome));
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
            _ if bytes > most => return Err(NotReserved::TooLarge { bytes, most }),
            // The statistics go to the end of the space that the elements had.
            Depth::Statistics => {
                let space = bytes.next_multiple_of(SMALL_PAYLOAD_ALIGN).max(STATS_BYTES);
                Need::whole(space, SMALL_PAYLOAD_ALIGN)
            }
            Depth::Payload if self.claims_bytes(bytes) => {
                Need::whole(bytes, DumpGeometry::payload_align(bytes))
            }
            Depth::Payload => return done(beside.record_capped(record, bytes)),
        };
        match self.reserve_space(need) {
            Ok(reservation) => {
                let said = Said::Tensor { record, dtype, depth, hash: None };
                Ok(Reserved { reservation, said, bytes })
            }
            Err(None) => {
                if depth == Depth::Payload {
                    // It will be asked for again.
                    self.live.bytes_captured().add(bytes.wrapping_neg());
                }
                Err(NotReserved::CommitFirst)
            }
            Err(Some(reason)) => done(beside.drop_payload(record, reason, bytes)),
        }
    }

    /// `None` instead of a reason: there is none before this lane's own reservations are committed.
    pub(super) fn reserve_space(
        &mut self,
        need: impl Into<Option<Need>>,
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
            if self.lane.is_held_up_by_itself(refused) {
                return Err(None);
            }
            if !self.waits() || !self.wait_for(need) {
                return Err(Some(self.reason(refused)));
            }
        }
    }

    fn commit_content(&mut self, reserved: Reserved, hash: Option<u128>) -> Outcome {
        let Reserved { reservation, said, bytes } = reserved;
        let (mut record, dtype, depth, known) = match said {
            Said::Tensor { record, dtype, depth, hash } => (record, dtype, depth, hash),
            Said::Whole(record) => {
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

/// Type and bytes of the content that a view has; `None` when it is no view.
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
