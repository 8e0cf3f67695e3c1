//! Records of `--dump-args`: dispatches, and the orchestration's own arguments.

use tensortap_abi::{
    DType, DispatchParts, MAX_DISPATCH_WORDS, RECORD_HAS_PAYLOAD, RECORD_IN_FLIGHT, RECORD_PAYLOAD_DROPPED,
    SLOTS_PER_TASK, TensorDumpRecord,
};
use zerocopy::IntoBytes;

use super::{IndexRecord, JSON_LIMIT, PayloadState, take_into};

/// The eight numbers of a dispatch, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DispatchNumbers {
    pub(crate) func_id: u32,
    pub(crate) core_id: u32,
    pub(crate) subtask_id: u32,
    pub(crate) subtask_count: u32,
    pub(crate) block_idx: u32,
    pub(crate) block_num: u32,
    pub(crate) tensor_count: u64,
    pub(crate) scalar_count: u64,
}

impl IndexRecord {
    /// A dispatch, described by the eight numbers in `shape`, and the words that the device recorded with it, made by
    /// [`tensortap_abi::DispatchWords`].
    #[must_use]
    pub fn dispatch(captured: &TensorDumpRecord, words: &[u64]) -> IndexRecord {
        IndexRecord::dispatch_with(captured, RECORD_HAS_PAYLOAD, words)
    }

    /// A dispatch whose words were lost: dropped, or overwritten before the host read them.
    #[must_use]
    pub fn lost_dispatch(captured: &TensorDumpRecord, overwritten: bool) -> IndexRecord {
        let captured_once = if overwritten { RECORD_HAS_PAYLOAD } else { 0 };
        IndexRecord::dispatch_with(captured, captured_once | RECORD_PAYLOAD_DROPPED, &[])
    }

    fn dispatch_with(captured: &TensorDumpRecord, flags: u8, words: &[u64]) -> IndexRecord {
        let mut index_record = IndexRecord::plain(captured);
        index_record.record.shape = captured.shape;
        index_record.record.payload_pos = 0;
        index_record.record.payload_bytes = words.len() as u64 * 8;
        index_record.record.hash = [0; 16];
        index_record.record.flags = captured.flags & RECORD_IN_FLIGHT | flags;
        index_record.words = words.to_vec();
        index_record
    }

    /// One of the orchestration's own arguments, as the device recorded it.
    #[must_use]
    pub fn orchestration_arg(captured: &TensorDumpRecord) -> IndexRecord {
        let record =
            TensorDumpRecord { task_id: 0, payload_pos: 0, stage: 0, flags: 0, hash: [0; 16], ..*captured };
        IndexRecord { record, stats: None, words: Vec::new() }
    }

    /// The words of a dispatch, as recorded; empty when they were lost.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// What a dispatch's kernel receives; `None` when it was lost, or the record is no dispatch.
    #[must_use]
    pub fn dispatch_parts(&self) -> Option<DispatchParts<'_>> {
        let numbers = self.dispatch_numbers()?;
        DispatchParts::read(&self.words, numbers.tensor_count, numbers.scalar_count)
    }

    /// `None` when the record is no dispatch or makes no sense.
    pub(crate) fn dispatch_numbers(&self) -> Option<DispatchNumbers> {
        if self.kind() != tensortap_abi::RecordKind::Dispatch {
            return None;
        }
        let [func_id, core_id, subtask_id, subtask_count, block_idx, block_num, tensor_count, scalar_count] =
            self.record.shape;
        let small = |number: u64| u32::try_from(number).ok();
        let numbers = DispatchNumbers {
            func_id: small(func_id)?,
            core_id: small(core_id)?,
            subtask_id: small(subtask_id)?,
            subtask_count: small(subtask_count)?,
            block_idx: small(block_idx)?,
            block_num: small(block_num)?,
            tensor_count,
            scalar_count,
        };
        let slots = SLOTS_PER_TASK as u64;
        (subtask_id < slots && subtask_count <= slots && block_idx < block_num).then_some(numbers)
    }

    pub(super) fn decode_dispatch(&mut self, rest: &mut &[u8]) -> Result<(), &'static str> {
        let bytes = usize::try_from(self.record.payload_bytes).unwrap_or(usize::MAX);
        if bytes % 8 != 0 || bytes > MAX_DISPATCH_WORDS * 8 {
            return Err("it has more arguments than a kernel receives");
        }
        take_into(rest, self.record.shape.as_mut_bytes())?;
        self.words.resize(bytes / 8, 0);
        take_into(rest, self.words.as_mut_bytes())
    }

    pub(super) fn check_dispatch(&self) -> Result<(), &'static str> {
        self.dispatch_numbers().ok_or("its subtask slot or block is out of range")?;
        let whole = match self.payload_state() {
            PayloadState::Stored => self.dispatch_parts().is_some(),
            PayloadState::Dropped | PayloadState::Overwritten => self.words.is_empty(),
            PayloadState::None | PayloadState::Truncated => false,
        };
        whole.then_some(()).ok_or("its words are not those of its arguments")
    }

    pub(super) fn check_orchestration_arg(&self) -> Result<(), &'static str> {
        self.role().ok_or("its role is unknown")?;
        DType::from_tag(self.record.dtype).ok_or("its dtype is unknown")?;
        self.check_view()?;
        (self.record.payload_bytes < JSON_LIMIT).then_some(()).ok_or("its size is out of range")
    }
}
