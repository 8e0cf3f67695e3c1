//! What the layer has: the functions behind it, the session, and what it knows of the program's objects.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tensortap_queue::Attached;
use tensortap_record::{RecordError, ThreadRecorder};

use crate::{
    ffi::{Dispatch, Event},
    objects::{Objects, OwnEvent},
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
        Some(LAYER.get_or_init(|| Layer {
            target,
            attached,
            objects: Mutex::default(),
            spent: Mutex::default(),
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
