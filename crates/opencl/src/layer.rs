//! What the layer has: the functions behind it, the session, and what it knows of the program's objects.

use std::{
    cell::RefCell,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use tensortap_record::{RecordError, Session, ThreadRecorder};

use crate::{
    ffi::{Dispatch, Event},
    objects::{Objects, OwnEvent},
};

/// The layer of this process, once a loader has taken it and somebody records.
pub struct Layer {
    /// The functions behind it.
    pub target: Dispatch,
    session: Session,
    /// Keeps the session open until the process ends.
    open: Mutex<Option<Session>>,
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
        layer.close();
    }
}

thread_local! {
    static RECORDER: RefCell<Option<ThreadRecorder>> = const { RefCell::new(None) };
}

impl Layer {
    /// Begins to record. None where nobody does: the recorder cannot be reached, or there is none.
    pub fn start(target: Dispatch) -> Option<&'static Layer> {
        let session = match Session::attach() {
            Ok(session) => session?,
            Err(error) => {
                say(&format!("nothing of OpenCL is recorded: {error}"));
                return None;
            }
        };
        Some(LAYER.get_or_init(|| Layer {
            target,
            session: session.for_a_while(),
            open: Mutex::new(Some(session)),
            objects: Mutex::default(),
            spent: Mutex::default(),
        }))
    }

    /// The layer, which stands since before any of its functions could be called.
    pub fn get() -> &'static Layer {
        LAYER.get().expect("the loader has its table from here")
    }

    /// Tells the recorder that nothing more comes.
    fn close(&self) {
        drop(self.open.lock().unwrap_or_else(PoisonError::into_inner).take());
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

    /// Records in this thread. None where that cannot be: the session has ended, the process was forked, all lanes are taken, or the thread ends.
    pub fn record<T>(&self, call: impl FnOnce(&mut ThreadRecorder) -> Result<T, RecordError>) -> Option<T> {
        let mut call = Some(call);
        let recorded = RECORDER.try_with(|recorder| {
            // A callback may come while this thread records.
            let mut recorder = recorder.try_borrow_mut().ok()?;
            if recorder.as_ref().is_none_or(|known| !known.is_of(&self.session)) {
                *recorder = Some(self.session.thread().ok()?);
            }
            let recorder = recorder.as_mut()?;
            let told = call.take()?(recorder);
            if let Err(error) = &told {
                recorder.count_refusal(error);
            }
            told.ok()
        });
        recorded.ok().flatten()
    }
}

/// One sentence on standard error.
pub fn say(what: &str) {
    use std::io::Write as _;
    // A program that has closed it is not told.
    let _ = writeln!(std::io::stderr(), "tensortap: {what}");
}
