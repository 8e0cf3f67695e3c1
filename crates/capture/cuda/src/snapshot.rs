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
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use tensortap_queue::{NumberMap, spawn_harvest_thread};
use tensortap_record::{RecordError, ThreadRecorder};
use tensortap_sync::{Counter, Flag};

use crate::{backend::CudaBackend, pinned_pool::PinnedPool};

pub use context::{ContextResources, is_loading};
pub use enqueue::{
    SnapshotError, SnapshotPlan, SnapshotRequest, are_on, can_hash_on_device, end, enqueue, prevent_overlap,
};
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
    inbox: Mutex<Inbox>,
    /// Notified when the inbox gets a snapshot, and when the last one was recorded.
    changed: Condvar,
    closing: Flag,
    /// Raised while the harvest thread waits for the `tensortap record` process. While that process lives,
    /// the thread will continue and free what others wait for.
    waits_for_recorder: Flag,
    process: u32,
}

/// What the submitting threads and the harvest thread share.
#[derive(Default)]
struct Inbox {
    pending: Vec<PendingSnapshot>,
    /// Whether the harvest thread waits for a snapshot.
    sleeps: bool,
    is_started: bool,
    /// Whether the harvest thread has ended, or could not be started.
    is_over: bool,
    /// A number that changes when something is recorded.
    progress: u64,
}

/// When the process ends, the harvest thread continues until nothing was recorded for this time.
const WAIT_LIMIT: Duration = Duration::from_millis(100);
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
            inbox: Mutex::default(),
            changed: Condvar::new(),
            closing: Flag::new(),
            waits_for_recorder: Flag::new(),
            process: std::process::id(),
        }
    }

    fn contexts(&self) -> MutexGuard<'_, NumberMap<usize, ContextState>> {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
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
                self.start(backend);
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
        if self.closing.is_raised() {
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

    /// Starts the harvest thread.
    fn start(&self, backend: &'static CudaBackend) {
        let mut inbox = self.inbox();
        if inbox.is_started {
            return;
        }
        inbox.is_started = true;
        inbox.is_over = spawn_harvest_thread("tt-content", move || harvest::run(backend)).is_err();
        drop(inbox);
        crate::backend::at_exit();
    }

    /// Records in the harvest thread. This may take as long as the `tensortap record` process is slow.
    fn record<T>(
        &self,
        backend: &CudaBackend,
        call: impl FnOnce(&mut ThreadRecorder) -> Result<T, RecordError>,
    ) -> Option<T> {
        self.waits_for_recorder.raise();
        let recorded = backend.record(call);
        self.waits_for_recorder.lower();
        recorded
    }

    /// Whether the harvest thread currently waits only for the `tensortap record` process.
    fn is_recorder_slow(&self) -> bool {
        self.waits_for_recorder.is_raised()
    }

    /// Hands a snapshot in its stream over to the harvest thread.
    fn hand_over(&self, snapshot: PendingSnapshot) {
        let mut inbox = self.inbox();
        inbox.pending.push(snapshot);
        if inbox.sleeps {
            self.changed.notify_all();
        }
    }

    /// The process ends. Snapshots in flight are recorded while they complete, and no new ones are taken.
    pub fn close(&self) {
        if self.process != std::process::id() || !self.closing.raise() {
            return;
        }
        let mut inbox = self.inbox();
        if !inbox.is_started {
            return;
        }
        self.changed.notify_all();
        let mut seen = (inbox.progress, Instant::now());
        while !inbox.is_over {
            let waited = self.changed.wait_timeout(inbox, WAIT_LIMIT / 4);
            inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
            if inbox.progress != seen.0 {
                seen = (inbox.progress, Instant::now());
            } else if seen.1.elapsed() > STUCK {
                // The harvest thread ends earlier by itself, unless a call of the driver does not return.
                return;
            }
        }
    }
}
