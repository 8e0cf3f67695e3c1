//! The session of a library that was loaded into somebody's program, and a recorder for each thread that comes by.

use std::{
    cell::RefCell,
    io::Write as _,
    sync::{Mutex, PoisonError},
};

use tensortap_record::{RecordError, Session, ThreadRecorder};

thread_local! {
    static RECORDER: RefCell<Option<ThreadRecorder>> = const { RefCell::new(None) };
}

/// A variable that whoever records sets where equal content is to be stored again, each time.
const STORE_ALL_VARIABLE: &str = "TENSORTAP_STORE_ALL";

/// The session of this process with its recorder.
#[derive(Debug)]
pub struct Attached {
    session: Session,
    /// Keeps the session open until the process ends.
    open: Mutex<Option<Session>>,
}

impl Attached {
    /// Attaches; none where nobody records, and where the recorder cannot be reached, which is said: nothing of `what` is recorded then.
    pub fn new(what: &str) -> Option<Attached> {
        match Session::attach() {
            Ok(session) => session
                .map(|session| Attached { session: session.for_a_while(), open: Mutex::new(Some(session)) }),
            Err(error) => {
                say(&format!("nothing of {what} is recorded: {error}"));
                None
            }
        }
    }

    /// Whether content that is stored already is left out by whoever recorded it: not where all of it is to be stored, or the dump forgets what is old.
    pub fn leaves_out_stored(&self) -> bool {
        std::env::var_os(STORE_ALL_VARIABLE).is_none()
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Records in this thread. None where that cannot be: the session has ended, the process was forked, or all lanes are taken.
    pub fn record<T>(&self, call: impl FnOnce(&mut ThreadRecorder) -> Result<T, RecordError>) -> Option<T> {
        let mut call = Some(call);
        let recorded = RECORDER.try_with(|recorder| {
            // A callback may come while this thread records.
            let mut recorder = recorder.try_borrow_mut().ok()?;
            if recorder.as_ref().is_none_or(|known| !known.is_of(&self.session)) {
                *recorder = Some(self.session.thread().ok()?);
            }
            told(recorder.as_mut()?, call.take()?)
        });
        recorded.unwrap_or_else(|_| {
            // The thread ends and its recorder is gone, but what it does then is done all the same.
            let mut recorder = self.session.thread().ok()?;
            told(&mut recorder, call.take()?)
        })
    }

    /// This thread records no more: what it has open is given up.
    pub fn leave(&self) {
        let _ = RECORDER.try_with(|recorder| recorder.try_borrow_mut().map(|mut recorder| recorder.take()));
    }

    /// Tells the recorder that nothing more comes: the process ends by itself.
    pub fn close(&self) {
        drop(self.open.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// What a call recorded; what it could not is counted.
fn told<T>(
    recorder: &mut ThreadRecorder,
    call: impl FnOnce(&mut ThreadRecorder) -> Result<T, RecordError>,
) -> Option<T> {
    call(recorder).inspect_err(|error| recorder.count_refusal(error)).ok()
}

/// One sentence on standard error.
pub fn say(what: &str) {
    // A program that has closed it is not told.
    let _ = writeln!(std::io::stderr(), "tensortap: {what}");
}
