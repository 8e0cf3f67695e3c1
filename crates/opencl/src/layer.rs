//! What the layer has: the functions behind it, the session, and what it knows of the program's objects.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tensortap_queue::{Attached, say};
use tensortap_record::{DumpLevel, RecordError, ThreadRecorder};

use crate::{
    ffi::{self, Dispatch, Event},
    objects::{Objects, OwnEvent},
    probe::{self, Running},
    raw,
    reader::Reader,
};

/// The layer of this process, once a loader has taken it and somebody records.
pub struct Layer {
    /// The functions behind it.
    pub target: Dispatch,
    attached: Attached,
    /// Held for a moment, and never while a function of the driver is called: drivers call back.
    objects: Mutex<Objects>,
    /// Events that are held for nobody any more.
    spent: Mutex<Vec<OwnEvent>>,
    /// Commands that may fail.
    watched: Mutex<Watched>,
    /// Reads and records what devices copy, where they do.
    reader: OnceLock<Reader>,
    /// Whether content is wanted of anything.
    pub wants_content: bool,
    /// Whether payloads are, and not hashes and statistics alone.
    pub wants_payloads: bool,
    /// Whether content that came in already is left out.
    pub leaves_out_stored: bool,
    process: u32,
    /// Commands of a process that was forked from this one.
    of_child: Mutex<u64>,
}

/// Commands that may fail, each with the event of its last probe, which is held.
#[derive(Default)]
struct Watched {
    commands: Vec<(OwnEvent, Weak<Mutex<Running>>)>,
    /// How many there are when they are looked at.
    look_at: usize,
}

/// As many commands at least are looked at together.
const LOOKED_AT: usize = 64;

// SAFETY: the table's entries are addresses of code, which any thread may call.
unsafe impl Sync for Layer {}
// SAFETY: as above.
unsafe impl Send for Layer {}

static LAYER: OnceLock<Layer> = OnceLock::new();

/// Called when the process ends by itself, behind everything that the program lets be called then.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = process_ends;

extern "C" fn process_ends() {
    if let Some(layer) = LAYER.get() {
        layer.attached.close();
        let of_child = *layer.of_child.lock().unwrap_or_else(PoisonError::into_inner);
        if of_child > 1 {
            say(&format!(
                "{of_child} OpenCL commands of the forked process {} were not recorded",
                std::process::id()
            ));
        }
    }
}

impl Layer {
    /// Begins to record. None where nobody does: the recorder cannot be reached, or there is none.
    pub fn start(target: Dispatch) -> Option<&'static Layer> {
        let attached = Attached::new("OpenCL")?;
        let level = attached.session().level().unwrap_or(DumpLevel::Off);
        let wants_content = matches!(level, DumpLevel::Full | DumpLevel::Hash);
        let leaves_out_stored = attached.leaves_out_stored();
        Some(LAYER.get_or_init(|| Layer {
            target,
            attached,
            objects: Mutex::default(),
            spent: Mutex::default(),
            watched: Mutex::default(),
            reader: OnceLock::new(),
            wants_content,
            wants_payloads: level == DumpLevel::Full,
            leaves_out_stored,
            process: std::process::id(),
            of_child: Mutex::default(),
        }))
    }

    /// The layer, which stands since before any of its functions could be called.
    pub fn get() -> &'static Layer {
        LAYER.get().expect("the loader has its table from here")
    }

    /// What is known of the program's objects.
    pub fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread that reads what devices copy, which starts with the first who asks for it.
    pub fn reader(&self) -> &Reader {
        self.reader.get_or_init(Reader::start)
    }

    /// Whether this is the process that the layer was loaded into, and no child of it.
    pub fn is_own_process(&self) -> bool {
        std::process::id() == self.process
    }

    /// A command that is not recorded. Of a forked process nothing is, which is said: its session is its parent's.
    pub fn not_recorded(&self) {
        if self.is_own_process() {
            return;
        }
        let mut of_child = self.of_child.lock().unwrap_or_else(PoisonError::into_inner);
        *of_child += 1;
        if *of_child == 1 {
            let process = std::process::id();
            say(&format!(
                "OpenCL commands of process {process} are not recorded: it was forked from one that is"
            ));
        }
    }

    /// One sentence on standard error, once.
    pub fn tell_once(&self, what: &str) {
        let is_new = self.objects().told.insert(what.to_owned());
        if is_new {
            say(what);
        }
    }

    /// Events that are needed no more, of which a thread of the driver says so: it may not call the driver.
    pub fn spend(&self, events: Vec<OwnEvent>) {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).extend(events);
    }

    /// Lets go of those events, in a thread of the program.
    pub fn release_spent(&self) {
        let spent = std::mem::take(&mut *self.spent.lock().unwrap_or_else(PoisonError::into_inner));
        for OwnEvent(event) in spent {
            self.release(event);
        }
    }

    /// Looks now and then whether a command has failed, by the event of its last probe.
    pub fn watch(&self, event: Event, running: &Arc<Mutex<Running>>) {
        let Some(retain) = self.target.clRetainEvent else { return };
        // SAFETY: an event that lives.
        unsafe { retain(event) };
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.commands.push((OwnEvent(event), Arc::downgrade(running)));
        if watched.commands.len() < watched.look_at.max(LOOKED_AT) {
            return;
        }
        let mut looked_at = std::mem::take(&mut watched.commands);
        drop(watched);
        looked_at.retain(|(OwnEvent(event), running)| {
            let is_over =
                running.upgrade().is_none_or(|known| probe::is_over(self, &known, self.status(*event)));
            if is_over {
                self.release(*event);
            }
            !is_over
        });
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.look_at = 2 * looked_at.len();
        watched.commands.append(&mut looked_at);
    }

    /// How far the command of an event is.
    pub fn status(&self, event: Event) -> Option<i32> {
        let ask = self.target.clGetEventInfo?;
        // SAFETY: an event that is held.
        raw::value::<i32>(|room, value, size| unsafe {
            ask(event, ffi::EVENT_COMMAND_EXECUTION_STATUS, room, value, size)
        })
    }

    /// An event that was held is let go, once.
    pub fn release(&self, event: Event) {
        if let Some(call) = self.target.clReleaseEvent {
            // SAFETY: an event that was held here.
            unsafe { call(event) };
        }
    }

    /// Records in this thread, where that can be.
    pub fn record<T>(&self, call: impl FnOnce(&mut ThreadRecorder) -> Result<T, RecordError>) -> Option<T> {
        self.attached.record(call)
    }
}
