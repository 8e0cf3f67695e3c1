//! Records with more than fields: dispatches with words, strings, kernels with arguments.

use tensortap_abi::{
    DispatchParts, DispatchRecord, EdgeCause, FinishedRecord, KernelArg, KernelRecord, MAX_DISPATCH_WORDS,
    MAX_TEXT_BYTES, ModuleKind, ModuleRecord, RECORD_HAS_PAYLOAD, RECORD_IN_FLIGHT, RECORD_PAYLOAD_DROPPED,
    RecordKind, SLOTS_PER_TASK, StringRecord,
};
use zerocopy::{FromBytes, IntoBytes};

use super::{IndexRecord, JSON_LIMIT, PayloadState, check::check_allocation};

impl IndexRecord {
    /// A dispatch with the words that the device recorded, built by [`tensortap_abi::DispatchWords`].
    #[must_use]
    pub fn dispatch(captured: &DispatchRecord, words: &[u64]) -> IndexRecord {
        IndexRecord::dispatch_with(captured, RECORD_HAS_PAYLOAD, words)
    }

    /// A dispatch whose words were lost: dropped, or overwritten before the host read them.
    #[must_use]
    pub fn lost_dispatch(captured: &DispatchRecord, overwritten: bool) -> IndexRecord {
        let captured_once = if overwritten { RECORD_HAS_PAYLOAD } else { 0 };
        IndexRecord::dispatch_with(captured, captured_once | RECORD_PAYLOAD_DROPPED, &[])
    }

    fn dispatch_with(captured: &DispatchRecord, flags: u32, words: &[u64]) -> IndexRecord {
        let record = DispatchRecord {
            words_pos: 0,
            words_bytes: u32::try_from(size_of_val(words)).unwrap_or(u32::MAX),
            hash: [0; 16],
            flags: captured.flags & RECORD_IN_FLIGHT | flags,
            ..*captured
        };
        IndexRecord { record: record.into(), tail: words.to_vec() }
    }

    /// A string. The writer rejects text longer than [`MAX_TEXT_BYTES`].
    #[must_use]
    pub fn string(id: u32, text: &str) -> IndexRecord {
        let text_bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let record = StringRecord { id, text_bytes, ..StringRecord::default() };
        let mut tail = vec![0_u64; text.len().div_ceil(size_of::<u64>())];
        tail.as_mut_bytes()[..text.len()].copy_from_slice(text.as_bytes());
        IndexRecord { record: record.into(), tail }
    }

    /// A kernel with its declared arguments.
    #[must_use]
    pub fn kernel(captured: &KernelRecord, args: &[KernelArg]) -> IndexRecord {
        let arg_count = u16::try_from(args.len()).unwrap_or(u16::MAX);
        let none = KernelRecord::default().args;
        let record = KernelRecord { arg_count, args_pos: 0, args: none, ..*captured };
        let mut tail = vec![0_u64; args.len()];
        tail.as_mut_bytes().copy_from_slice(args.as_bytes());
        IndexRecord { record: record.into(), tail }
    }

    /// The recorded words of a dispatch; empty if they were lost.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        if self.kind() == RecordKind::Dispatch { &self.tail } else { &[] }
    }

    /// Id and text of a string.
    #[must_use]
    pub fn as_string(&self) -> Option<(u32, &str)> {
        let string = self.get::<StringRecord>()?;
        let bytes = self.tail.as_bytes().get(..usize::try_from(string.text_bytes).ok()?)?;
        Some((string.id, std::str::from_utf8(bytes).ok()?))
    }

    /// A kernel and its arguments.
    #[must_use]
    pub fn as_kernel(&self) -> Option<(&KernelRecord, &[KernelArg])> {
        let kernel = self.get::<KernelRecord>()?;
        Some((kernel, <[KernelArg]>::ref_from_bytes(self.tail.as_bytes()).ok()?))
    }

    /// The arguments of a dispatch's kernel; `None` if they were lost, or the record is not a dispatch.
    #[must_use]
    pub fn dispatch_parts(&self) -> Option<DispatchParts<'_>> {
        let dispatch = self.sound_dispatch()?;
        DispatchParts::read(&self.tail, dispatch.tensor_count, dispatch.scalar_count)
    }

    /// Returns `None` if the record is not a valid dispatch.
    pub(crate) fn sound_dispatch(&self) -> Option<&DispatchRecord> {
        let dispatch = self.get::<DispatchRecord>()?;
        let within = |count: u32| usize::try_from(count).is_ok_and(|count| count <= SLOTS_PER_TASK);
        let place = within(dispatch.subtask_id.saturating_add(1)) && within(dispatch.subtask_count);
        (place && dispatch.block_idx < dispatch.block_num).then_some(dispatch)
    }

    /// Time and core of a finished dispatch; `None` if the record is not a valid one of this kind.
    #[must_use]
    pub fn as_finished(&self) -> Option<&FinishedRecord> {
        let finished = self.get::<FinishedRecord>()?;
        usize::try_from(finished.subtask_id).is_ok_and(|slot| slot < SLOTS_PER_TASK).then_some(finished)
    }

    pub(super) fn variable_words(&self) -> Result<usize, &'static str> {
        let words = |bytes: u32| usize::try_from(bytes).unwrap_or(usize::MAX).div_ceil(size_of::<u64>());
        if let Some(dispatch) = self.get::<DispatchRecord>() {
            let count = words(dispatch.words_bytes);
            if dispatch.words_bytes % 8 != 0 || count > MAX_DISPATCH_WORDS {
                return Err("it has more arguments than a kernel receives");
            }
            return Ok(count);
        }
        if let Some(string) = self.get::<StringRecord>() {
            if string.text_bytes as usize > MAX_TEXT_BYTES {
                return Err("its text is too long");
            }
            return Ok(words(string.text_bytes));
        }
        Ok(self.get::<KernelRecord>().map_or(0, |kernel| usize::from(kernel.arg_count)))
    }

    pub(super) fn check_dispatch(&self) -> Result<(), &'static str> {
        self.sound_dispatch().ok_or("its subtask slot or block is out of range")?;
        let whole = match self.payload_state() {
            PayloadState::Stored => self.dispatch_parts().is_some(),
            PayloadState::Dropped | PayloadState::Overwritten => self.tail.is_empty(),
            PayloadState::None | PayloadState::Truncated | PayloadState::Missing | PayloadState::Gone => {
                false
            }
        };
        whole.then_some(()).ok_or("its words do not match its arguments")
    }

    pub(super) fn check_definition(&self) -> Result<(), &'static str> {
        let good = match self.kind() {
            RecordKind::String => {
                let rest = self.get::<StringRecord>().map_or(0, |string| string.text_bytes as usize);
                let zero = self.tail.as_bytes().get(rest..).is_some_and(|fill| fill.iter().all(|b| *b == 0));
                self.as_string().is_some_and(|(id, _)| id != 0) && zero
            }
            RecordKind::Kernel => self.as_kernel().is_some_and(|(kernel, args)| {
                let arg = |arg: &KernelArg| KernelArg::kind_of(arg.kind).is_some() && arg.reserved == [0; 3];
                KernelRecord::core_of(kernel.core_type).is_some() && args.iter().all(arg)
            }),
            RecordKind::Allocation => return self.get().map_or(Ok(()), check_allocation),
            RecordKind::Module => self.get().is_some_and(|module: &ModuleRecord| {
                let known = ModuleKind::from_tag(module.image_kind).is_some() && module.reserved0 == [0; 7];
                module.bytes < JSON_LIMIT && known
            }),
            _ => true,
        };
        good.then_some(()).ok_or("it is not a valid definition")
    }
}

/// The cause of a dependency, as in `graph.json`; `None` if the tag is damaged.
pub(crate) fn edge_cause_name(tag: u16) -> Option<&'static str> {
    EdgeCause::from_tag(tag.into()).map(EdgeCause::name)
}
