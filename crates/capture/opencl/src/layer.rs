//! The state of the layer: the driver's functions, the recording session, and the program's objects.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tensortap_queue::{ProcessSession, print_note};
use tensortap_record::{DumpLevel, RecordError, ThreadRecorder};

use crate::{
    ffi::{self, Dispatch, Event},
    harvest_thread::HarvestThread,
    objects::{EventHandle, Objects},
    raw::{self, info},
    snapshot::{self, RunningCommand},
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
    /// The thread that records what devices have copied, if a device needs it.
    harvest_thread: OnceLock<HarvestThread>,
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
    commands: Vec<(EventHandle, Weak<Mutex<RunningCommand>>)>,
    /// The number of commands at which they are checked.
    check_at: usize,
}

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
        let session = ProcessSession::attach("OpenCL")?;
        let level = session.session().level().unwrap_or(DumpLevel::Off);
        let wants_content = matches!(level, DumpLevel::Full | DumpLevel::Hash);
        let skips_stored_content = session.skips_stored_content();
        Some(LAYER.get_or_init(|| Layer {
            target,
            session,
            objects: Mutex::default(),
            queued_events: Mutex::default(),
            watched: Mutex::default(),
            harvest_thread: OnceLock::new(),
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

    /// The thread that records what devices have copied. The first call starts it.
    pub fn harvest_thread(&self) -> &HarvestThread {
        self.harvest_thread.get_or_init(HarvestThread::start)
    }

    /// Whether this is the process that loaded the layer, not a fork of it.
    pub fn is_own_process(&self) -> bool {
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
    pub fn watch(&self, event: Event, running: &Arc<Mutex<RunningCommand>>) {
        let Some(retain) = self.target.clRetainEvent else { return };
        // SAFETY: the event lives.
        unsafe { retain(event) };
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.commands.push((EventHandle(event), Arc::downgrade(running)));
        if watched.commands.len() < watched.check_at.max(MIN_CHECKED) {
            return;
        }
        let mut checked = std::mem::take(&mut watched.commands);
        drop(watched);
        checked.retain(|(EventHandle(event), running)| {
            let is_over = running
                .upgrade()
                .is_none_or(|known| snapshot::end_if_failed(self, &known, self.status(*event)));
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
