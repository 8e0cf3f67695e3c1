//! The thread of a backend that records what devices have found.
#![expect(unsafe_code, reason = "signal masks and exit handlers are set through libc")]

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread::Builder,
    time::{Duration, Instant},
};

use tensortap_sync::Flag;

use crate::ProcessSession;

/// The thread, and what other threads hand over to it.
#[derive(Debug)]
pub struct HarvestThread<T> {
    inbox: Mutex<Inbox<T>>,
    /// Notified when the thread must wake up, and when a thread that waits for it must look.
    changed: Condvar,
    closing: Flag,
    process: u32,
}

#[derive(Debug)]
struct Inbox<T> {
    items: Vec<T>,
    is_started: bool,
    /// Whether the thread has ended, or could not be started.
    is_over: bool,
    /// Whether the thread sleeps. Otherwise it needs no notification, which is a system call.
    sleeps: bool,
    /// Items that the thread will record, and items that it has recorded or canceled, so far.
    expected: u64,
    finished: u64,
}

impl<T> Default for HarvestThread<T> {
    fn default() -> HarvestThread<T> {
        let (items, is_started, is_over, sleeps) = (Vec::new(), false, false, false);
        let inbox = Mutex::new(Inbox { items, is_started, is_over, sleeps, expected: 0, finished: 0 });
        HarvestThread { inbox, changed: Condvar::new(), closing: Flag::new(), process: std::process::id() }
    }
}

impl<T: Send + 'static> HarvestThread<T> {
    fn inbox(&self) -> MutexGuard<'_, Inbox<T>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread, unless it was started before. `at_exit` runs when the process exits normally, before the driver
    /// is unloaded: the driver was loaded earlier.
    pub fn start(
        &'static self,
        session: &'static ProcessSession,
        name: &str,
        run: impl FnOnce() + Send + 'static,
        at_exit: extern "C" fn(),
    ) {
        let mut inbox = self.inbox();
        if std::mem::replace(&mut inbox.is_started, true) {
            return;
        }
        let run = move || {
            if catch_unwind(AssertUnwindSafe(run)).is_err() {
                let note = "the thread that records content has failed: later content is not recorded";
                session.note_once(note, "");
            }
            session.release_thread();
            self.inbox().is_over = true;
            self.changed.notify_all();
        };
        inbox.is_over = spawn(name, run).is_err();
        drop(inbox);
        // SAFETY: the function may run at exit. A library that records is never unloaded.
        unsafe { libc::atexit(at_exit) };
    }

    /// Whether the thread was started and has not ended.
    pub fn is_running(&self) -> bool {
        let inbox = self.inbox();
        inbox.is_started && !inbox.is_over
    }

    /// Hands an item over to the thread. Returns false if the thread has ended.
    pub fn hand_over(&self, item: T) -> bool {
        let mut inbox = self.inbox();
        if inbox.is_over {
            return false;
        }
        inbox.items.push(item);
        if inbox.sleeps {
            self.changed.notify_all();
        }
        true
    }

    /// Takes all items. `accepted` must be empty. Its memory becomes the new inbox.
    pub fn accept(&self, accepted: &mut Vec<T>) {
        std::mem::swap(&mut self.inbox().items, accepted);
    }

    /// Sleeps until there is an item or the process ends.
    pub fn sleep(&self) {
        let mut inbox = self.inbox();
        inbox.sleeps = true;
        let waited = self.changed.wait_while(inbox, |inbox| inbox.items.is_empty() && !self.is_closing());
        inbox = waited.unwrap_or_else(PoisonError::into_inner);
        inbox.sleeps = false;
    }

    /// One more item will be recorded.
    pub fn expect_one(&self) {
        self.inbox().expected += 1;
    }

    /// An item will not be recorded after all.
    pub fn cancel_one(&self) {
        self.inbox().expected -= 1;
    }

    /// An item was recorded.
    pub fn finish_one(&self) {
        self.inbox().finished += 1;
    }

    /// Whether the process ends.
    pub fn is_closing(&self) -> bool {
        self.closing.is_raised()
    }

    /// The process ends. Waits until the thread has ended, while it records something at least every `patience`.
    pub fn close(&self, patience: Duration) {
        if self.is_in_fork() || !self.closing.raise() {
            return;
        }
        self.changed.notify_all();
        self.wait(patience, |inbox| inbox.is_over || !inbox.is_started);
    }

    /// Waits until everything expected was recorded, while something is recorded at least every `patience`.
    pub fn settle(&self, patience: Duration) {
        if !self.is_in_fork() {
            self.wait(patience, |inbox| inbox.finished >= inbox.expected);
        }
    }

    fn is_in_fork(&self) -> bool {
        self.process != std::process::id()
    }

    fn wait(&self, patience: Duration, is_done: impl Fn(&Inbox<T>) -> bool) {
        let mut inbox = self.inbox();
        let mut seen = (inbox.finished, Instant::now());
        while !is_done(&inbox) && seen.1.elapsed() < patience {
            // Progress is not notified, because nearly always no thread waits for it.
            let waited = self.changed.wait_timeout(inbox, LOOK_EVERY);
            inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
            if inbox.finished != seen.0 {
                seen = (inbox.finished, Instant::now());
            }
        }
    }
}

/// Pause between two looks at the progress of the thread.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Starts a thread in which all signals are blocked: signals are for the program's threads.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // A thread inherits the mask of the thread that starts it.
    // SAFETY: both sets belong to this function, and libc fills them before they are read.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let started = Builder::new().name(name.to_owned()).spawn(run);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        started.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use tensortap_record::{FolderOptions, Session};

    use super::*;

    extern "C" fn nothing() {}

    /// A thread that runs `run`, as a backend has it until the process ends.
    fn started(
        run: impl FnOnce(&'static HarvestThread<u32>) + Send + 'static,
    ) -> &'static HarvestThread<u32> {
        let folder = tempfile::tempdir().unwrap();
        let session = Session::in_folder(&folder.path().join("dump"), &FolderOptions::default()).unwrap();
        let session = Box::leak(Box::new(ProcessSession::new(session, "")));
        let thread: &'static HarvestThread<u32> = Box::leak(Box::default());
        thread.start(session, "tt-test", move || run(thread), nothing);
        thread
    }

    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn everything_that_was_handed_over_is_accepted_before_the_process_ends() {
        let thread = started(|thread| {
            let mut accepted = Vec::new();
            while !thread.is_closing() {
                thread.sleep();
                thread.accept(&mut accepted);
                accepted.drain(..).for_each(|_| thread.finish_one());
            }
        });
        for item in 0..1000 {
            thread.expect_one();
            assert!(thread.hand_over(item));
        }
        thread.settle(PATIENCE);
        let inbox = thread.inbox();
        assert_eq!((inbox.items.len(), inbox.finished), (0, 1000));
        drop(inbox);
        thread.close(PATIENCE);
        assert!(!thread.is_running() && !thread.hand_over(0));
    }

    #[test]
    fn a_thread_that_has_failed_gets_no_more_items() {
        let thread = started(|_| panic!("as a test wants it"));
        thread.wait(PATIENCE, |inbox| inbox.is_over);
        assert!(!thread.is_running() && !thread.hand_over(0));
        assert!(thread.inbox().items.is_empty());
    }

    #[test]
    fn nothing_waits_for_a_thread_without_progress() {
        let thread = started(|thread| thread.wait(PATIENCE, |inbox| inbox.expected == 0));
        thread.expect_one();
        let began = Instant::now();
        thread.settle(Duration::from_millis(20));
        thread.close(Duration::from_millis(20));
        assert!(thread.is_running() && began.elapsed() < PATIENCE / 2);
        thread.cancel_one();
    }
}
