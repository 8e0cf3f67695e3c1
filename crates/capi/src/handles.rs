//! What the pointers of a program point to.
//!
//! A handle outlives its closing: what it stood for goes, and the few words that are left answer every further call with `TT_CLOSED`. Such words become
//! another handle only when [`KEPT`] more were closed, so their memory is bounded, and none of it is ever freed.

use std::{
    cell::RefCell,
    collections::VecDeque,
    sync::{Mutex, MutexGuard, TryLockError},
};

use tensortap_record::{RecordError, Session, ThreadRecorder};
use tensortap_sync::{HandlerPointer, ProcessLock};

use crate::table::{RecordApi, tensortap_record_1};

/// Closed handles of each kind that are left alone; the header says so.
const KEPT: usize = 65_536;

/// `tt_session` or `tt_recorder`.
#[repr(C)]
pub struct Handle<T> {
    /// Where the header looks for it.
    api: *const RecordApi,
    /// What it stands for; null once it is closed.
    value: HandlerPointer<T>,
    /// Held while what a session stands for is looked up or taken away.
    lock: ProcessLock,
    /// Whether it is in the list of a thread, whose it then is to retire it.
    of_thread: bool,
}
// The header says how much a closed handle keeps.
const _: () = assert!(size_of::<Handle<Session>>() == 32);

/// `tt_session`.
pub type SessionHandle = Handle<Session>;
/// `tt_recorder`.
pub type RecorderHandle = Handle<ThreadRecorder>;

/// Handles that were closed, the first of them first.
pub struct Retired<T>(Mutex<VecDeque<Tombstone<T>>>);

struct Tombstone<T>(*mut Handle<T>);

// SAFETY: nobody but its queue uses a retired handle, beside calls that find it closed.
unsafe impl<T> Send for Tombstone<T> {}

impl<T> Retired<T> {
    const fn new() -> Retired<T> {
        Retired(Mutex::new(VecDeque::new()))
    }

    /// The queue, unless the thread that has it does not let it go: in a process that was forked it never will.
    fn queue(&self) -> Option<MutexGuard<'_, VecDeque<Tombstone<T>>>> {
        for _ in 0..1000 {
            match self.0.try_lock() {
                Ok(queue) => return Some(queue),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
        None
    }
}

/// What handles stand for.
pub trait Kind: Sized + 'static {
    /// Those of them that were closed.
    fn retired() -> &'static Retired<Self>;
}

impl Kind for Session {
    fn retired() -> &'static Retired<Session> {
        static RETIRED: Retired<Session> = Retired::new();
        &RETIRED
    }
}

impl Kind for ThreadRecorder {
    fn retired() -> &'static Retired<ThreadRecorder> {
        static RETIRED: Retired<ThreadRecorder> = Retired::new();
        &RETIRED
    }
}

impl<T: Kind> Handle<T> {
    pub(crate) fn new(value: T) -> *mut Handle<T> {
        Handle::of(value, false)
    }

    fn of(value: T, of_thread: bool) -> *mut Handle<T> {
        let value = Box::into_raw(Box::new(value));
        let again =
            T::retired().queue().and_then(|mut queue| (queue.len() > KEPT).then(|| queue.pop_front())?);
        let Some(Tombstone(handle)) = again else {
            let (api, lock) = (&raw const tensortap_record_1, ProcessLock::new());
            let pointer = HandlerPointer::null();
            pointer.set(value);
            return Box::into_raw(Box::new(Handle { api, value: pointer, lock, of_thread }));
        };
        // SAFETY: it came from `Box::into_raw` above, is never freed, and nobody else has taken it from the queue.
        unsafe {
            (*handle).of_thread = of_thread;
            (*handle).value.set(value);
        }
        handle
    }

    /// What it stands for, which is its caller's from here on.
    fn take(&self) -> Result<Box<T>, RecordError> {
        let _held = lock(&self.lock);
        let value = self.value.get();
        if value.is_null() {
            return Err(RecordError::Closed);
        }
        self.value.clear_if(value);
        // SAFETY: made by `of`, and nobody else has taken it, for the lock is held.
        Ok(unsafe { Box::from_raw(value) })
    }

    /// Lets the words of a handle that stands for nothing be used again some day.
    fn retire(handle: *mut Handle<T>) {
        // What finds no place there is never used again.
        if let Some(mut queue) = T::retired().queue() {
            queue.push_back(Tombstone(handle));
        }
    }
}

fn lock(lock: &ProcessLock) -> tensortap_sync::ProcessLockGuard<'_> {
    loop {
        match lock.take(std::process::id().into()) {
            Some(guard) => return guard,
            None => std::thread::yield_now(),
        }
    }
}

impl SessionHandle {
    /// The session, for a call: it does not keep it open.
    pub(crate) fn session(&self) -> Result<Session, RecordError> {
        let _held = lock(&self.lock);
        // SAFETY: it lives until `take` has the lock.
        unsafe { self.value.get().as_ref() }.map(Session::for_a_while).ok_or(RecordError::Closed)
    }
}

impl RecorderHandle {
    /// Its recorder; null once it is closed.
    #[inline]
    pub(crate) fn recorder(&self) -> *mut ThreadRecorder {
        self.value.get()
    }

    fn is_of(&self, session: &Session) -> bool {
        // SAFETY: what is in the list of this thread is used by no other.
        unsafe { self.recorder().as_ref() }.is_some_and(|recorder| recorder.is_of(session))
    }
}

/// Recorders that close when their thread ends.
#[derive(Default)]
struct OfThread(Vec<*mut RecorderHandle>);

thread_local! {
    static OF_THREAD: RefCell<OfThread> = RefCell::default();
}

impl Drop for OfThread {
    fn drop(&mut self) {
        self.0.drain(..).for_each(end_of_thread);
    }
}

/// Calls with the list of this thread; none once the thread has left it behind, where destructors of thread-local objects and, in the first thread,
/// handlers of `atexit` and of static objects run.
fn with_list<T>(call: impl FnOnce(&mut OfThread) -> T) -> Option<T> {
    OF_THREAD.try_with(|list| call(&mut list.borrow_mut())).ok()
}

/// Closes a recorder that was in the list of this thread and is not any more.
fn end_of_thread(handle: *mut RecorderHandle) {
    // SAFETY: handles are never freed. That it was closed before is no matter.
    drop(unsafe { &*handle }.take());
    Handle::retire(handle);
}

/// The recorder of this thread for a session.
pub(crate) fn of_thread(session: &Session) -> Result<*mut RecorderHandle, RecordError> {
    let known = with_list(|list| {
        // SAFETY: handles are never freed.
        list.0.iter().copied().find(|&handle| unsafe { &*handle }.is_of(session))
    });
    // One that nobody would close is not opened: its lane would be lost to others.
    let Some(known) = known else { return Err(RecordError::ThreadEnds) };
    match known {
        Some(handle) => Ok(handle),
        None => {
            let handle = Handle::of(session.thread()?, true);
            with_list(|list| list.0.push(handle));
            Ok(handle)
        }
    }
}

/// Closes this thread's recorder for a session, if it has one.
fn close_of_thread(session: &Session) {
    let closed = with_list(|list| {
        // SAFETY: handles are never freed.
        let at = list.0.iter().position(|&handle| unsafe { &*handle }.is_of(session))?;
        Some(list.0.swap_remove(at))
    });
    closed.flatten().into_iter().for_each(end_of_thread);
}

/// Closes a session, and with the last of its handles this thread's recorder for it.
///
/// # Safety
/// It was made by [`Handle::new`].
pub(crate) unsafe fn close_session(handle: *mut SessionHandle) -> Result<(), RecordError> {
    // SAFETY: the caller's promise; handles are never freed.
    let session = unsafe { &*handle }.take()?;
    Handle::retire(handle);
    if session.is_last() {
        close_of_thread(&session);
    }
    session.close().map(|_| ())
}

/// Closes a recorder, whoever owns it.
///
/// # Safety
/// It was made here, nobody else uses it during the call, and it is either its caller's own or that of this thread.
pub(crate) unsafe fn close(handle: *mut RecorderHandle) -> Result<(), RecordError> {
    // SAFETY: the caller's promise; handles are never freed.
    let closing = unsafe { &*handle };
    drop(closing.take()?);
    let was_listed = with_list(|list| {
        let before = list.0.len();
        list.0.retain(|&kept| kept != handle);
        list.0.len() < before
    });
    // What is in the list of another thread is retired by that.
    if was_listed == Some(true) || !closing.of_thread {
        Handle::retire(handle);
    }
    Ok(())
}
