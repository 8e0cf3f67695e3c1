//! The thread that reads and records what devices have copied.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};

use tensortap_queue::{
    GRANULARITY, RingAllocator, RingSlice, WAIT_LIMIT, number_from_environment, spawn_harvest_thread,
};
use tensortap_record::DumpStage;

use crate::{
    layer::Layer,
    objects::{EventHandle, LayerReferences},
    snapshot::{self, RunningCommand},
};

/// Default limit of snapshots in flight. Each has events of the driver and a description of its ranges.
const MAX_SNAPSHOTS: u64 = 1 << 15;
/// Overrides the limit.
const MAX_SNAPSHOTS_VARIABLE: &str = "TENSORTAP_OPENCL_BACKLOG";

/// A callback of the driver for a snapshot.
pub struct CompletionNote {
    /// The command.
    pub running: Arc<Mutex<RunningCommand>>,
    /// Before or after the command.
    pub stage: DumpStage,
    /// The event that is complete. The layer holds it.
    pub event: EventHandle,
    /// The memory objects that the commands of the snapshot use.
    pub references: Arc<LayerReferences>,
}

/// The handle of the thread.
pub struct HarvestThread {
    notes: Mutex<Option<mpsc::Sender<CompletionNote>>>,
    progress: Mutex<Progress>,
    changed: Condvar,
    /// One place for each snapshot in flight. The allocator is used to count, not for memory.
    places: RingAllocator,
}

#[derive(Clone, Copy, Default)]
struct Progress {
    /// Snapshots that the driver has called back for, or will.
    expected: u64,
    /// Snapshots that were recorded or canceled.
    finished: u64,
}

impl HarvestThread {
    /// Starts the thread.
    pub fn start() -> HarvestThread {
        let (sender, notes) = mpsc::channel::<CompletionNote>();
        let started = spawn_harvest_thread("tt-opencl", move || {
            let layer = Layer::get();
            for note in notes {
                snapshot::harvest(layer, &note);
                layer.release(note.event.0);
            }
        });
        // SAFETY: a function without arguments, in a library that is never unloaded.
        unsafe { libc::atexit(at_exit) };
        let notes = Mutex::new(started.is_ok().then_some(sender));
        let limit = number_from_environment(MAX_SNAPSHOTS_VARIABLE).unwrap_or(MAX_SNAPSHOTS);
        let places = RingAllocator::new(limit.saturating_mul(GRANULARITY));
        HarvestThread { notes, progress: Mutex::default(), changed: Condvar::new(), places }
    }

    /// Allocates a place for a snapshot. Waits while other snapshots finish. None if too many are in flight and only the
    /// program can let them continue. `submit` runs before the call waits.
    pub fn allocate_place(&self, submit: impl FnOnce()) -> Option<RingSlice> {
        self.places.allocate(1, submit)
    }

    /// A snapshot is no longer in flight.
    pub fn free_place(&self, place: RingSlice) {
        self.places.free([place]);
    }

    /// Whether the system could start the thread.
    pub fn is_running(&self) -> bool {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The driver will call back for one more snapshot.
    pub fn expect_one(&self) {
        self.progress().expected += 1;
    }

    /// The driver will not call back after all.
    pub fn cancel_one(&self) {
        self.progress().expected -= 1;
    }

    /// Sends a note to the thread. The driver's thread calls this.
    pub fn hand_over(&self, note: CompletionNote) {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = notes.as_ref().map(|notes| notes.send(note));
        drop(notes);
        if !matches!(sent, Some(Ok(()))) {
            self.cancel_one();
        }
    }

    /// A snapshot was recorded or canceled.
    pub fn finish_one(&self) {
        let mut progress = self.progress();
        progress.finished += 1;
        drop(progress);
        self.changed.notify_all();
    }

    /// Waits until all snapshots are recorded, while there is progress.
    fn settle(&self) {
        let mut progress = self.progress();
        while progress.finished < progress.expected {
            let before = progress.finished;
            let waited = self.changed.wait_timeout_while(progress, WAIT_LIMIT, |now| now.finished == before);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
            if progress.finished == before {
                break;
            }
        }
    }
}

/// The process exits normally. Commands that the program has waited for are complete. The driver still works, because it
/// was loaded earlier.
extern "C" fn at_exit() {
    let layer = Layer::get();
    if layer.is_own_process() {
        layer.harvest_thread().settle();
    }
}
