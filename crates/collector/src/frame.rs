//! Records on their way into the next frame of the index, and counters over those that are in it.

use tensortap_abi::{RECORD_PAYLOAD_DROPPED, RecordKind, TensorDumpRecord};
use tensortap_format::{IndexRecord, Payload};

use crate::dedup::ContentKey;

/// Counters over the records in the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EnteredTotals {
    pub(crate) tensors: u64,
    pub(crate) scalars: u64,
    pub(crate) dispatches: u64,
    /// Payload bytes of tensors, stored or known.
    pub(crate) captured_bytes: u64,
    /// Payload bytes of which the index names the only copy.
    pub(crate) written_bytes: u64,
    /// Payload bytes that were stored already.
    pub(crate) deduplicated_bytes: u64,
    pub(crate) truncated_tensors: u64,
    pub(crate) overwritten_records: u64,
}

impl EnteredTotals {
    pub(crate) fn add(&mut self, other: EnteredTotals) {
        let EnteredTotals {
            tensors,
            scalars,
            dispatches,
            captured_bytes,
            written_bytes,
            deduplicated_bytes,
            truncated_tensors,
            overwritten_records,
        } = other;
        self.dispatches += dispatches;
        self.tensors += tensors;
        self.scalars += scalars;
        self.captured_bytes += captured_bytes;
        self.written_bytes += written_bytes;
        self.deduplicated_bytes += deduplicated_bytes;
        self.truncated_tensors += truncated_tensors;
        self.overwritten_records += overwritten_records;
    }

    /// Counts a tensor and what became of its payload.
    pub(crate) fn count_tensor(&mut self, payload: &Payload) {
        self.tensors += 1;
        match *payload {
            Payload::Stored { bytes, .. } => {
                self.captured_bytes += bytes;
                self.written_bytes += bytes;
            }
            Payload::Deduplicated { bytes, .. } => {
                self.captured_bytes += bytes;
                self.deduplicated_bytes += bytes;
            }
            Payload::Truncated { bytes, .. } => {
                self.captured_bytes += bytes;
                self.written_bytes += bytes;
                self.truncated_tensors += 1;
            }
            Payload::Overwritten => self.overwritten_records += 1,
            Payload::None | Payload::Stats(_) | Payload::Dropped => {}
        }
    }
}

/// What the next frame will hold.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub(crate) records: Vec<IndexRecord>,
    pub(crate) payload_bytes: u64,
    pub(crate) totals: EnteredTotals,
}

impl Frame {
    pub(crate) fn enter_plain(&mut self, record: &TensorDumpRecord) {
        let kind = RecordKind::from_tag(record.kind);
        match kind {
            Some(RecordKind::Tensor) => {
                let dropped = record.flags & RECORD_PAYLOAD_DROPPED != 0;
                self.enter_tensor(record, if dropped { Payload::Dropped } else { Payload::None });
            }
            Some(RecordKind::Dispatch) => {
                self.totals.dispatches += 1;
                self.records.push(IndexRecord::lost_dispatch(record, false));
            }
            Some(RecordKind::OrchestrationArg) => {
                self.records.push(IndexRecord::orchestration_arg(record));
            }
            _ => {
                self.totals.scalars += u64::from(kind == Some(RecordKind::Scalar));
                self.records.push(IndexRecord::plain(record));
            }
        }
    }

    pub(crate) fn enter_tensor(&mut self, record: &TensorDumpRecord, payload: Payload) {
        self.totals.count_tensor(&payload);
        self.records.push(IndexRecord::tensor(record, payload));
    }
}

/// What the index says of a payload that is stored there, or was already.
pub(crate) fn payload_of(key: Option<ContentKey>, bytes: u64, (offset, known): (u64, bool)) -> Payload {
    match (key, known) {
        (None, _) => Payload::Truncated { offset, bytes },
        (Some(_), true) => Payload::Deduplicated { offset, bytes },
        (Some(_), false) => Payload::Stored { offset, bytes },
    }
}
