//! The thread that reads and records what devices have copied.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
};

use tensortap_queue::{GRAIN, PATIENCE, Room, Rooms};
use tensortap_record::DumpStage;

use crate::{
    layer::Layer,
    objects::{Borrowed, OwnEvent},
    probe::{self, Running},
};

/// Sides of commands that may be on their way at one time, where nothing says otherwise: each has events of the driver, and what is known of its ranges.
const MOST_SIDES: u64 = 1 << 15;
/// Names another number.
const SIDES_VARIABLE: &str = "TENSORTAP_OPENCL_BACKLOG";

/// What a driver tells of a command.
pub struct Note {
    /// The command.
    pub running: Arc<Mutex<Running>>,
    /// Which side of it was copied.
    pub stage: DumpStage,
    /// The event that it was told of, which is held.
    pub event: OwnEvent,
    /// What commands of the side were given.
    pub borrowed: Arc<Borrowed>,
}

/// The thread, as others see it.
pub struct Reader {
    notes: Mutex<Option<mpsc::Sender<Note>>>,
    progress: Mutex<Progress>,
    moved: Condvar,
    /// A place for each side that is on its way.
    places: Rooms,
}

#[derive(Clone, Copy, Default)]
struct Progress {
    /// Sides that are in their queues or on their way from there.
    expected: u64,
    /// Sides that were read.
    read: u64,
}

impl Reader {
    /// Starts the thread. Signals are the program's: it takes none.
    pub fn start() -> Reader {
        let (sender, notes) = mpsc::channel::<Note>();
        let started = without_signals(|| {
            let read = move || {
                let layer = Layer::get();
                for note in notes {
                    probe::told(layer, &note);
                    layer.release(note.event.0);
                }
            };
            thread::Builder::new().name("tt-opencl".to_owned()).spawn(read)
        });
        // SAFETY: a function without arguments, of a library that is never unloaded.
        unsafe { libc::atexit(at_exit) };
        let notes = Mutex::new(started.is_ok().then_some(sender));
        let said = std::env::var(SIDES_VARIABLE).ok().and_then(|said| said.parse::<u64>().ok());
        let places = Rooms::new(said.unwrap_or(MOST_SIDES).saturating_mul(GRAIN));
        Reader { notes, progress: Mutex::default(), moved: Condvar::new(), places }
    }

    /// A place for a side that goes into its queue, waited for while some are given back. None: too many are on their way, and only the program may let them go on.
    /// `submit` is called before it waits.
    pub fn take_place(&self, submit: impl FnOnce()) -> Option<Room> {
        self.places.take(1, submit)
    }

    /// A side is not on its way any more.
    pub fn give_place(&self, place: Room) {
        self.places.give([place]);
    }

    /// Whether there is a thread.
    pub fn is_there(&self) -> bool {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A note will come.
    pub fn expects(&self) {
        self.progress().expected += 1;
    }

    /// It will not.
    pub fn expects_no_more(&self) {
        self.progress().expected -= 1;
    }

    /// A note, from a thread of the driver.
    pub fn hand_over(&self, note: Note) {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let handed = notes.as_ref().map(|notes| notes.send(note));
        drop(notes);
        if !matches!(handed, Some(Ok(()))) {
            self.expects_no_more();
        }
    }

    /// What a note stands for was read, or will not be.
    pub fn has_read(&self) {
        let mut progress = self.progress();
        progress.read += 1;
        drop(progress);
        self.moved.notify_all();
    }

    /// Waits until all that was copied is recorded, as long as something is.
    fn settle(&self) {
        let mut progress = self.progress();
        while progress.read < progress.expected {
            let before = progress.read;
            let waited = self.moved.wait_timeout_while(progress, PATIENCE, |now| now.read == before);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
            if progress.read == before {
                break;
            }
        }
    }
}

/// The process ends by itself. What the program has waited for is there, and the driver still is: it was loaded before.
extern "C" fn at_exit() {
    let layer = Layer::get();
    if layer.is_own_process() {
        layer.reader().settle();
    }
}

/// Calls something with all signals blocked, so that a thread which begins there takes none.
fn without_signals<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: sets of this function's own, which are written before they are read.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let told = call();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        told
    }
}
