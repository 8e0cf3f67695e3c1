//! Records with a part in the arena: dispatches with their words, long strings, kernels with many
//! arguments.

use tensortap_abi::{
    DispatchRecord, INLINE_KERNEL_ARGS, INLINE_TEXT_BYTES, KernelArg, KernelRecord, StringRecord,
};
use tensortap_format::IndexRecord;
use tensortap_values::content_hash;
use zerocopy::{FromZeros, IntoBytes};

use super::{DrainError, LaneDrain};
use crate::{RecordFault, RegionMemory, payload::Extent};

impl LaneDrain {
    pub(super) fn enter_dispatch(
        &mut self,
        memory: &impl RegionMemory,
        record: &DispatchRecord,
        extent: Option<Extent>,
    ) -> Result<(), DrainError> {
        let overwritten = extent.is_some_and(|extent| self.is_overwritten(extent));
        let Some(extent) = extent.filter(|_| !overwritten) else {
            self.records.push(IndexRecord::lost_dispatch(record, overwritten));
            return Ok(());
        };
        let mut words = vec![0u64; usize::try_from(extent.bytes / 8).unwrap_or(0)];
        self.window.copy(memory, extent, words.as_mut_bytes()).map_err(DrainError::Memory)?;
        let dispatch = IndexRecord::dispatch(record, &words);
        // Later readers cannot check this hash: the index only has its own checksum.
        let hashed = content_hash(words.as_bytes()).to_le_bytes() == record.hash;
        self.enter_sound(dispatch, hashed, RecordFault::Dispatch);
        Ok(())
    }

    pub(super) fn enter_string(
        &mut self,
        memory: &impl RegionMemory,
        record: &StringRecord,
        extent: Option<Extent>,
    ) -> Result<(), DrainError> {
        let mut text = record.text[..INLINE_TEXT_BYTES.min(record.text_bytes as usize)].to_vec();
        if let Some(extent) = extent {
            if self.is_overwritten(extent) {
                self.unfinished_payloads += 1;
                return Ok(());
            }
            text.resize(record.text_bytes as usize, 0);
            self.window.copy(memory, extent, &mut text).map_err(DrainError::Memory)?;
        }
        match std::str::from_utf8(&text) {
            Ok(text) => self.enter_sound(IndexRecord::string(record.id, text), true, RecordFault::Definition),
            Err(_) => self.refuse(RecordFault::Definition),
        }
        Ok(())
    }

    pub(super) fn enter_kernel(
        &mut self,
        memory: &impl RegionMemory,
        record: &KernelRecord,
        extent: Option<Extent>,
    ) -> Result<(), DrainError> {
        let count = usize::from(record.arg_count);
        let mut args = record.args[..INLINE_KERNEL_ARGS.min(count)].to_vec();
        if let Some(extent) = extent {
            if self.is_overwritten(extent) {
                self.unfinished_payloads += 1;
                return Ok(());
            }
            args.resize(count, KernelArg::new_zeroed());
            self.window.copy(memory, extent, args.as_mut_bytes()).map_err(DrainError::Memory)?;
        }
        self.enter_sound(IndexRecord::kernel(record, &args), true, RecordFault::Definition);
        Ok(())
    }

    /// Stores a record whose part in the arena is valid.
    fn enter_sound(&mut self, record: IndexRecord, hashed: bool, otherwise: RecordFault) {
        if hashed && record.is_sound() {
            self.records.push(record);
        } else {
            self.refuse(otherwise);
        }
    }
}
