//! What the layer has: the functions behind it, the session, and what it knows of the program's objects.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tensortap_queue::{Attached, say};
use tensortap_record::{DumpLevel, RecordError, ThreadRecorder};

use crate::{
    ffi::{Dispatch, Event},
    objects::{Objects, OwnEvent},
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
    /// Reads and records what devices copy, where they do.
    reader: OnceLock<Reader>,
    /// Whether content is wanted of anything.
    pub wants_content: bool,
    process: u32,
}

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
    }
}

impl Layer {
    /// Begins to record. None where nobody does: the recorder cannot be reached, or there is none.
    pub fn start(target: Dispatch) -> Option<&'static Layer> {
        let attached = Attached::new("OpenCL")?;
        let level = attached.session().level().unwrap_or(DumpLevel::Off);
        let wants_content = matches!(level, DumpLevel::Full | DumpLevel::Hash);
        Some(LAYER.get_or_init(|| Layer {
            target,
            attached,
            objects: Mutex::default(),
            spent: Mutex::default(),
            reader: OnceLock::new(),
            wants_content,
            process: std::process::id(),
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
