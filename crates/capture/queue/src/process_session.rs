//! The recording session of a library that is loaded into the user's program, with one recorder per thread.

use std::{
    cell::RefCell,
    collections::HashSet,
    io::Write as _,
    sync::{Mutex, PoisonError},
};

use tensortap_record::{RecordError, Session, ThreadRecorder};

thread_local! {
    static RECORDER: RefCell<Option<ThreadRecorder>> = const { RefCell::new(None) };
}

/// `tensortap record` sets this variable if equal content must be stored every time it occurs.
const STORE_ALL_VARIABLE: &str = "TENSORTAP_STORE_ALL";

/// The session of this process, and the recorders of its threads.
#[derive(Debug)]
pub struct ProcessSession {
    session: Session,
    /// Keeps the session open until the process ends.
    open: Mutex<Option<Session>>,
    /// Notes that were printed already.
    printed: Mutex<HashSet<String>>,
    /// The note that staging memory was full.
    no_room: &'static str,
}

impl ProcessSession {
    /// Attaches to the `tensortap record` process. Returns none if the environment names no such process. If the
    /// process cannot be reached, prints a note that `runtime` is not recorded and returns none. `no_room` is the note that
    /// staging memory was full, and what the user can set.
    pub fn attach(runtime: &str, no_room: &'static str) -> Option<ProcessSession> {
        match Session::attach() {
            Ok(session) => session.map(|session| ProcessSession::new(session, no_room)),
            Err(error) => {
                print_note(&format!("{runtime} is not recorded: {error}"));
                None
            }
        }
    }

    pub(crate) fn new(session: Session, no_room: &'static str) -> ProcessSession {
        let (of_threads, open) = (session.for_a_while(), Mutex::new(Some(session)));
        ProcessSession { session: of_threads, open, printed: Mutex::default(), no_room }
    }

    /// Whether a backend may omit content that the dump has already. It may not if the user wants every copy
    /// stored, or if the dump discards old content.
    pub fn skips_stored_content(&self) -> bool {
        std::env::var_os(STORE_ALL_VARIABLE).is_none()
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Records in this thread. Returns none if that is not possible: the session has ended, the process was forked,
    /// or all lanes are in use. Errors of `call` are counted.
    pub fn record<T>(&self, call: impl FnOnce(&mut ThreadRecorder) -> Result<T, RecordError>) -> Option<T> {
        let mut call = Some(call);
        let recorded = RECORDER.try_with(|recorder| {
            // A callback may arrive while this thread records.
            let mut recorder = recorder.try_borrow_mut().ok()?;
            if recorder.as_ref().is_none_or(|known| !known.is_of(&self.session)) {
                *recorder = Some(self.session.thread().ok()?);
            }
            run_and_count_errors(recorder.as_mut()?, call.take()?)
        });
        recorded.unwrap_or_else(|_| {
            // The thread is ending and its recorder is gone. Its last calls are still recorded.
            let mut recorder = self.session.thread().ok()?;
            run_and_count_errors(&mut recorder, call.take()?)
        })
    }

    /// Drops the recorder of this thread and cancels what it has open.
    pub fn release_thread(&self) {
        let _ = RECORDER.try_with(|recorder| recorder.try_borrow_mut().map(|mut recorder| recorder.take()));
    }

    /// Tells the `tensortap record` process that the process ends normally and sends nothing more.
    pub fn close(&self) {
        drop(self.open.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Prints the note that staging memory was full, once.
    pub fn note_no_room(&self) {
        self.note_once(self.no_room, "");
    }

    /// Prints a note, unless the same `note` was printed before. `reason` follows it after a colon if not empty.
    pub fn note_once(&self, note: &str, reason: &str) {
        if !self.printed.lock().unwrap_or_else(PoisonError::into_inner).insert(note.to_owned()) {
            return;
        }
        match reason {
            "" => print_note(note),
            _ => print_note(&format!("{note}: {reason}")),
        }
    }
}

fn run_and_count_errors<T>(
    recorder: &mut ThreadRecorder,
    call: impl FnOnce(&mut ThreadRecorder) -> Result<T, RecordError>,
) -> Option<T> {
    call(recorder).inspect_err(|error| recorder.count_refusal(error)).ok()
}

/// Prints one line to standard error.
pub fn print_note(note: &str) {
    // The program may have closed standard error; then there is no reader.
    let _ = writeln!(std::io::stderr(), "tensortap: {note}");
}

/// The value of an environment variable that holds a number. None if it is unset or no number.
pub fn number_from_environment(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.trim().parse().ok()
}
