//! Identities of live memory, which its allocation and its release share, and how both are recorded.

use std::sync::Arc;

use tensortap_record::{AllocationInfo, Outcome, QueueId, RecordError, StringId, ThreadRecorder};

use crate::{Memory, NumberMap};

/// Identity of a piece of memory, and the pool or allocator that it came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// 0 if not known.
    pub id: u64,
    /// Name of the pool.
    pub pool: Option<Arc<str>>,
}

/// The storages of live memory, by address.
///
/// ```
/// use tensortap_queue::Storages;
/// let mut storages = Storages::after(100);
/// let first = storages.begin(4096, Some("pool 1".into()));
/// assert_eq!((first.id, storages.end(4096)), (101, first));
/// assert_eq!((storages.begin(4096, None).id, storages.end(0).id), (102, 0));
/// ```
#[derive(Debug)]
pub struct Storages {
    last: u64,
    live: NumberMap<u64, Storage>,
}

impl Storages {
    /// Storages whose identities are greater than `last`. Each library of a process starts at a number of its own.
    pub fn after(last: u64) -> Storages {
        Storages { last, live: NumberMap::default() }
    }

    /// Memory was allocated at an address.
    pub fn begin(&mut self, address: u64, pool: Option<Arc<str>>) -> Storage {
        self.last += 1;
        let storage = Storage { id: self.last, pool };
        self.live.insert(address, storage.clone());
        storage
    }

    /// The memory at an address was freed.
    pub fn end(&mut self, address: u64) -> Storage {
        self.live.remove(&address).unwrap_or_default()
    }
}

/// An allocation or a release.
#[derive(Clone, Debug)]
pub struct MemoryEvent {
    /// The memory.
    pub memory: Memory,
    /// Its storage.
    pub storage: Storage,
    /// Whether it was freed; otherwise it was allocated.
    pub freed: bool,
    /// The queue in whose order it takes effect; [`QueueId::NONE`] for the order of the program.
    pub queue: QueueId,
    /// The last task that was submitted before it, to that queue or to any; 0 for none.
    pub after_task: u64,
}

impl MemoryEvent {
    /// Records it.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn record(&self, recorder: &mut ThreadRecorder) -> Result<Outcome, RecordError> {
        let MemoryEvent { memory, storage, freed, queue, after_task } = self;
        let &Memory { address, bytes, space } = memory;
        let pool = storage.pool.as_deref().map_or(Ok(StringId::NONE), |pool| recorder.string(pool))?;
        recorder.memory(&AllocationInfo {
            address,
            bytes,
            space,
            freed: *freed,
            storage: storage.id,
            pool,
            queue: *queue,
            after_task: *after_task,
        })
    }
}
