//! Snapshots that the device takes itself: content is hashed, measured and compared on the device.
//!
//! Before and after a command, the backend puts a kernel into the command's stream (`enqueue`). The kernel
//! writes the hash and the statistics of every range to pinned memory of this process, followed by a ticket
//! word that says that the results are complete. If payloads are recorded, the kernel also decides which
//! content is new, and a second kernel copies new content into a ring buffer on the device.
//!
//! The harvest thread (`harvest`) polls the ticket words and records the results. It copies new content from
//! the ring directly into the memory of the recording, in a stream of its own (`transfers`). Only stream order
//! makes this safe: a snapshot follows the commands that it must see and precedes those that it must
//! not see. The device is never synchronized.

mod context;
mod enqueue;
mod harvest;
mod pending;
mod scratch;
mod transfers;

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use tensortap_queue::{HarvestThread, NumberMap};
use tensortap_record::{RecordError, ThreadRecorder};
use tensortap_sync::{Counter, Flag};

use crate::{backend::CudaBackend, pinned_pool::PinnedPool};

pub use context::{ContextResources, is_loading};
pub use enqueue::{SnapshotPlan, SnapshotRequest, are_on, can_hash_on_device, enqueue, prevent_overlap};
use pending::PendingSnapshot;
pub use pending::SnapshotTicket;
pub use scratch::StreamScratch;

/// Size of the pinned memory for ticket words and results, in bytes.
const FINDINGS: u64 = 16 << 20;

/// The state of a context.
enum ContextState {
    /// It was created, and the backend's code is not loaded in it yet.
    New,
    /// The backend's code is loaded in it.
    Ready(Arc<ContextResources>),
    /// The backend's code cannot be loaded in it.
    Without,
}

/// The snapshots in all contexts.
pub struct Snapshots {
    /// Whether the level records payloads.
    pub wants_payloads: bool,
    /// Whether the device may skip content that is stored already. Not if equal content is to be stored every
    /// time.
    compares: bool,
    /// Whether an after-snapshot may let the next before-snapshot overlap with it. Not if filters leave
    /// launches out: such a launch could be the next command, and could overlap with the snapshot.
    lets_next: bool,
    contexts: Mutex<NumberMap<usize, ContextState>>,
    /// Whether there was ever more than one context.
    has_several: Flag,
    /// Number of calls that may have put something into a stream without a snapshot.
    other_calls: Counter,
    /// Whether a context waits for the backend's code.
    has_new: Flag,
    findings: OnceLock<Option<PinnedPool>>,
    tickets: Counter,
    harvest_thread: HarvestThread<PendingSnapshot>,
    /// Raised while the harvest thread waits for the `tensortap record` process. While that process lives,
    /// the thread will continue and free what others wait for.
    waits_for_recorder: Flag,
}

/// How long a process that ends waits for one call of the driver. Pinning the memory of the recording takes
/// longer than a short program runs.
const STUCK: Duration = Duration::from_secs(5);

impl Snapshots {
    /// No snapshots. `sees_all` is true if the filters let every launch pass.
    pub fn new(wants_payloads: bool, compares: bool, sees_all: bool) -> Snapshots {
        Snapshots {
            wants_payloads,
            compares,
            lets_next: sees_all,
            contexts: Mutex::default(),
            has_several: Flag::new(),
            other_calls: Counter::new(),
            has_new: Flag::new(),
            findings: OnceLock::new(),
            tickets: Counter::new(),
            harvest_thread: HarvestThread::default(),
            waits_for_recorder: Flag::new(),
        }
    }

    fn contexts(&self) -> MutexGuard<'_, NumberMap<usize, ContextState>> {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn findings(&self) -> Option<&PinnedPool> {
        self.findings.get_or_init(|| PinnedPool::new(FINDINGS)).as_ref()
    }

    /// A context is being created. The backend's code is loaded when the creating call is over.
    pub fn context_created(&self, context: usize) {
        let mut contexts = self.contexts();
        contexts.insert(context, ContextState::New);
        if contexts.len() > 1 {
            // This flag stays raised: memory of a destroyed context may still be known.
            self.has_several.raise();
        }
        drop(contexts);
        self.has_new.raise();
    }

    /// A context is destroyed with all its memory.
    pub fn context_destroyed(&self, context: usize) {
        let gone = self.contexts().remove(&context);
        if let Some(ContextState::Ready(device)) = gone {
            device.destroyed();
        }
    }

    /// A call is over. Loads the backend's code into its context, if it is not loaded yet.
    pub fn call_over(&self, backend: &'static CudaBackend, context: usize) {
        if !self.has_new.is_raised() || context == 0 {
            return;
        }
        {
            let mut contexts = self.contexts();
            if !matches!(contexts.get(&context), Some(ContextState::New)) {
                return;
            }
            // Other threads do without the code in the meantime.
            contexts.insert(context, ContextState::Without);
        }
        let loaded = context::loading(|| ContextResources::load(backend, self, context));
        let mut contexts = self.contexts();
        match loaded {
            Ok(device) => {
                contexts.insert(context, ContextState::Ready(Arc::new(device)));
                drop(contexts);
                let run = move || harvest::run(backend);
                backend.snapshots.harvest_thread.start(&backend.session, "tt-content", run, at_exit);
            }
            Err(why) => {
                let none_is_new = !contexts.values().any(|context| matches!(context, ContextState::New));
                if none_is_new {
                    self.has_new.lower();
                }
                drop(contexts);
                backend.note_once_because(
                    "the host hashes content, because the device code could not be loaded",
                    &why,
                );
                return;
            }
        }
        let contexts = self.contexts();
        if !contexts.values().any(|context| matches!(context, ContextState::New)) {
            self.has_new.lower();
        }
    }

    /// The resources of a context, if the backend's code is loaded in it.
    pub fn device(&self, context: usize) -> Option<Arc<ContextResources>> {
        if self.harvest_thread.is_closing() {
            return None;
        }
        match self.contexts().get(&context) {
            Some(ContextState::Ready(device)) => Some(Arc::clone(device)),
            _ => None,
        }
    }

    /// The resources of all contexts.
    fn devices(&self) -> Vec<Arc<ContextResources>> {
        let contexts = self.contexts();
        let ready = contexts.values().filter_map(|context| match context {
            ContextState::Ready(device) => Some(Arc::clone(device)),
            _ => None,
        });
        ready.collect()
    }

    /// Whether memory may be on another device than that of a command.
    fn has_several(&self) -> bool {
        self.has_several.is_raised()
    }

    /// A call may put something into a stream without a snapshot.
    pub fn count_other_call(&self) {
        self.other_calls.next();
    }

    /// Records in the harvest thread. This may take as long as the `tensortap record` process is slow.
    fn recording<T>(&self, record: impl FnOnce() -> T) -> T {
        self.waits_for_recorder.raise();
        let recorded = record();
        self.waits_for_recorder.lower();
        recorded
    }

    /// As [`CudaBackend::record`], in the harvest thread.
    fn record<T>(
        &self,
        backend: &CudaBackend,
        call: impl FnOnce(&mut ThreadRecorder) -> Result<T, RecordError>,
    ) -> Option<T> {
        self.recording(|| backend.record(call))
    }

    /// Whether the harvest thread currently waits only for the `tensortap record` process.
    fn is_recorder_slow(&self) -> bool {
        self.waits_for_recorder.is_raised()
    }

    /// The process ends. Snapshots in flight are recorded while they complete, and no new ones are taken. The harvest thread
    /// ends earlier than [`STUCK`] by itself, unless a call of the driver does not return.
    pub fn close(&self) {
        self.harvest_thread.close(STUCK);
    }
}

extern "C" fn at_exit() {
    let ended = std::panic::catch_unwind(|| CudaBackend::get().map(|backend| backend.snapshots.close()));
    drop(ended);
}
