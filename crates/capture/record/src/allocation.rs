//! Allocations and releases of memory.

use tensortap_abi::{AllocationRecord, MemorySpace, RECORD_EXTENDED};
use tensortap_recorder::Outcome;

use crate::{QueueId, RecordError, StringId, ThreadRecorder, link::now_ns, tensor::NUMBER_LIMIT};

/// An allocation or a release of memory, for [`ThreadRecorder::memory`]. Unknown fields keep their value from
/// [`AllocationInfo::default`].
#[derive(Clone, Copy, Debug, Default)]
pub struct AllocationInfo {
    /// First address.
    pub address: u64,
    /// Size.
    pub bytes: u64,
    /// Kind of memory.
    pub space: MemorySpace,
    /// Whether it was freed; otherwise it was allocated.
    pub freed: bool,
    /// Identity of the storage, the same for its allocation and its release; 0 if unknown.
    pub storage: u64,
    /// The pool or allocator that it came from.
    pub pool: StringId,
    /// The queue in whose order it takes effect, as with an allocation in stream order.
    pub queue: QueueId,
    /// The last task that was submitted to that queue before it; 0 for none.
    pub after_task: u64,
}

impl ThreadRecorder {
    /// Records that memory was allocated or freed: its earlier content is unrelated to its later content.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn allocation(
        &mut self,
        address: u64,
        bytes: u64,
        space: MemorySpace,
        freed: bool,
    ) -> Result<Outcome, RecordError> {
        self.memory(&AllocationInfo { address, bytes, space, freed, ..AllocationInfo::default() })
    }

    /// Records an allocation or a release with everything that is known about it.
    ///
    /// # Errors
    /// With 2^53 bytes or more. See also [`ThreadRecorder`].
    pub fn memory(&mut self, info: &AllocationInfo) -> Result<Outcome, RecordError> {
        self.core.check()?;
        let &AllocationInfo { address, bytes, space, freed, storage, pool, queue, after_task } = info;
        if bytes >= NUMBER_LIMIT {
            let remedy = "pass less than 2^53";
            return Err(RecordError::BadArgument { what: "memory of bytes", value: bytes, remedy });
        }
        let is_extended = storage != 0 || after_task != 0 || pool.0 != 0 || queue.0 != 0;
        let (space, freed, at_ns) = (space as u8, freed.into(), now_ns());
        Ok(self.lane.define(AllocationRecord {
            flags: if is_extended { RECORD_EXTENDED } else { 0 },
            address,
            bytes,
            at_ns,
            space,
            freed,
            storage,
            after_task,
            queue: queue.0,
            pool: pool.0,
            ..AllocationRecord::default()
        }))
    }
}
