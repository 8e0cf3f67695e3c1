//! The state of the layer: the driver's functions, the recording session, and the program's objects.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tensortap_queue::{HarvestThread, ProcessSession, RingAllocator, print_note};
use tensortap_record::{DumpLevel, RecordError, ThreadRecorder};

use crate::{
    ffi::{self, Dispatch, Event},
    harvest_thread::{CompletionNote, snapshot_places},
    objects::{EventHandle, Objects},
    raw::{self, info},
    snapshot::{self, SharedCommand},
};

/// The layer of this process. It exists only if a loader has called it and the process is recorded.
pub struct Layer {
    /// The functions of the driver, or of the next layer.
    pub target: Dispatch,
    /// The recording session.
    pub session: ProcessSession,
    /// Never locked while a function of the driver is called: drivers call back.
    objects: Mutex<Objects>,
    /// Events to release in a thread of the program.
    queued_events: Mutex<Vec<EventHandle>>,
    /// Commands that may fail.
    watched: Mutex<FailureWatch>,
    /// The thread that records what devices have copied. It is started if a device needs it.
    pub harvest_thread: HarvestThread<CompletionNote>,
    /// One place for each snapshot in flight.
    pub snapshot_places: RingAllocator,
    /// Whether the level records content, hashes or statistics.
    pub wants_content: bool,
    /// Whether the level records payloads, not only hashes and statistics.
    pub wants_payloads: bool,
    /// Whether content that was stored already is omitted.
    pub skips_stored_content: bool,
    process: u32,
    /// Number of unrecorded commands, in a process that was forked from the recorded one.
    unrecorded: Mutex<u64>,
}

/// Commands that may fail, each with the event of its last snapshot, which the layer holds.
#[derive(Default)]
struct FailureWatch {
    commands: Vec<(EventHandle, Weak<SharedCommand>)>,
    /// The number of commands at which they are checked.
    check_at: usize,
}

const NO_ROOM: &str = "content of some arguments is not captured: the staging memory on the device is full. \
    Set TENSORTAP_OPENCL_RING to more bytes, or TENSORTAP_OPENCL_BACKLOG to more snapshots in flight";

/// At least this many commands are checked together.
const MIN_CHECKED: usize = 64;

// SAFETY: the entries of the table are addresses of functions, which any thread may call.
unsafe impl Sync for Layer {}
// SAFETY: as above.
unsafe impl Send for Layer {}

static LAYER: OnceLock<Layer> = OnceLock::new();

/// Runs when the process exits normally, after all exit handlers of the program.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = process_ends;

extern "C" fn process_ends() {
    if let Some(layer) = LAYER.get() {
        layer.session.close();
        let unrecorded = *layer.unrecorded.lock().unwrap_or_else(PoisonError::into_inner);
        if unrecorded > 1 {
            print_note(&format!(
                "{unrecorded} OpenCL commands of the forked process {} were not recorded",
                std::process::id()
            ));
        }
    }
}

impl Layer {
    /// Starts recording. None if the process is not recorded.
    pub fn start(target: Dispatch) -> Option<&'static Layer> {
        let session = ProcessSession::attach("OpenCL", NO_ROOM)?;
        let level = session.session().level().unwrap_or(DumpLevel::Off);
        let wants_content = matches!(level, DumpLevel::Full | DumpLevel::Hash);
        let skips_stored_content = session.skips_stored_content();
        Some(LAYER.get_or_init(|| Layer {
            target,
            session,
            objects: Mutex::default(),
            queued_events: Mutex::default(),
            watched: Mutex::default(),
            harvest_thread: HarvestThread::default(),
            snapshot_places: snapshot_places(),
            wants_content,
            wants_payloads: level == DumpLevel::Full,
            skips_stored_content,
            process: std::process::id(),
            unrecorded: Mutex::default(),
        }))
    }

    /// The layer. It exists before any of its functions can be called.
    pub fn get() -> &'static Layer {
        LAYER.get().expect("the loader got its table from here")
    }

    /// The program's objects.
    pub fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the process that loaded the layer, not a fork of it.
    fn is_own_process(&self) -> bool {
        std::process::id() == self.process
    }

    /// Counts a command that is not recorded, and prints a note for the first one of a forked process: the session
    /// belongs to its parent.
    pub fn count_unrecorded(&self) {
        if self.is_own_process() {
            return;
        }
        let mut unrecorded = self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner);
        *unrecorded += 1;
        if *unrecorded == 1 {
            let process = std::process::id();
            print_note(&format!(
                "OpenCL commands of process {process} are not recorded: it was forked from a recorded process"
            ));
        }
    }

    /// Prints a note, once.
    pub fn note_once(&self, note: &str) {
        self.session.note_once(note, "");
    }

    /// Queues events for release. A driver's thread calls this, because it must not call the driver.
    pub fn queue_for_release(&self, events: Vec<EventHandle>) {
        self.queued_events.lock().unwrap_or_else(PoisonError::into_inner).extend(events);
    }

    /// Releases those events. Call it in a thread of the program.
    pub fn release_queued_events(&self) {
        let events = std::mem::take(&mut *self.queued_events.lock().unwrap_or_else(PoisonError::into_inner));
        for EventHandle(event) in events {
            self.release(event);
        }
    }

    /// Adds a command to those that are checked now and then for failure. `event` is that of its last snapshot.
    pub fn watch(&self, event: Event, shared: &Arc<SharedCommand>) {
        let Some(retain) = self.target.clRetainEvent else { return };
        // SAFETY: the event lives.
        unsafe { retain(event) };
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.commands.push((EventHandle(event), Arc::downgrade(shared)));
        if watched.commands.len() < watched.check_at.max(MIN_CHECKED) {
            return;
        }
        let mut checked = std::mem::take(&mut watched.commands);
        drop(watched);
        checked.retain(|(EventHandle(event), shared)| {
            let is_over = shared
                .upgrade()
                .is_none_or(|shared| snapshot::end_if_failed(self, &shared, self.status(*event)));
            if is_over {
                self.release(*event);
            }
            !is_over
        });
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.check_at = 2 * checked.len();
        watched.commands.append(&mut checked);
    }

    /// The execution status of an event's command. The event must live.
    pub fn status(&self, event: Event) -> Option<i32> {
        raw::value::<i32>(info!(self.target, clGetEventInfo(event, ffi::EVENT_COMMAND_EXECUTION_STATUS)))
    }

    /// Releases an event once that the layer holds.
    pub fn release(&self, event: Event) {
        if let Some(call) = self.target.clReleaseEvent {
            // SAFETY: the layer holds this event.
            unsafe { call(event) };
        }
    }

    /// Records in this thread, if that is possible.
    pub fn record<T>(&self, call: impl FnOnce(&mut ThreadRecorder) -> Result<T, RecordError>) -> Option<T> {
        self.session.record(call)
    }
}
