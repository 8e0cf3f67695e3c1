//! Handles: the objects that the pointers of a program refer to.
//!
//! A handle stays valid after it is closed: its object is dropped, and the remaining words make every further
//! call return `TT_CLOSED`. The words are reused for another handle after [`KEPT`] more handles were closed.
//! So their memory is bounded and is never freed.

use std::{
    cell::RefCell,
    collections::VecDeque,
    sync::{Mutex, MutexGuard, TryLockError},
};

use tensortap_record::{RecordError, Session, ThreadRecorder};
use tensortap_sync::{HandlerPointer, ProcessLock};

use crate::table::{RecordApi, tensortap_record_1};

/// Number of closed handles of each kind that are not reused, as documented in the header.
const KEPT: usize = 65_536;

/// `tt_session` or `tt_recorder`.
#[repr(C)]
pub struct Handle<T> {
    /// The table, where the header expects it.
    api: *const RecordApi,
    /// Its object; null after it is closed.
    value: HandlerPointer<T>,
    /// Locked while the object is read or taken.
    lock: ProcessLock,
    /// Whether it is in the list of a thread. That thread then retires it.
    of_thread: bool,
}
// The header documents the size of a closed handle.
const _: () = assert!(size_of::<Handle<Session>>() == 32);

/// `tt_session`.
pub type SessionHandle = Handle<Session>;
/// `tt_recorder`.
pub type RecorderHandle = Handle<ThreadRecorder>;

/// Closed handles, oldest first.
pub struct ClosedHandles<T>(Mutex<VecDeque<Tombstone<T>>>);

struct Tombstone<T>(*mut Handle<T>);

// SAFETY: only the queue uses a retired handle, apart from calls that find it closed.
unsafe impl<T> Send for Tombstone<T> {}

impl<T> ClosedHandles<T> {
    const fn new() -> ClosedHandles<T> {
        ClosedHandles(Mutex::new(VecDeque::new()))
    }

    /// The queue, unless its lock is never released: in a forked process, the locking thread may not exist.
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

/// An object that a handle can refer to.
pub trait Kind: Sized + 'static {
    /// The closed handles of this kind.
    fn closed_handles() -> &'static ClosedHandles<Self>;
}

impl Kind for Session {
    fn closed_handles() -> &'static ClosedHandles<Session> {
        static CLOSED_HANDLES: ClosedHandles<Session> = ClosedHandles::new();
        &CLOSED_HANDLES
    }
}

impl Kind for ThreadRecorder {
    fn closed_handles() -> &'static ClosedHandles<ThreadRecorder> {
        static CLOSED_HANDLES: ClosedHandles<ThreadRecorder> = ClosedHandles::new();
        &CLOSED_HANDLES
    }
}

impl<T: Kind> Handle<T> {
    pub(crate) fn new(value: T) -> *mut Handle<T> {
        Handle::of(value, false)
    }

    fn of(value: T, of_thread: bool) -> *mut Handle<T> {
        let value = Box::into_raw(Box::new(value));
        let again = T::closed_handles()
            .queue()
            .and_then(|mut queue| (queue.len() > KEPT).then(|| queue.pop_front())?);
        let Some(Tombstone(handle)) = again else {
            let (api, lock) = (&raw const tensortap_record_1, ProcessLock::new());
            let pointer = HandlerPointer::null();
            pointer.set(value);
            return Box::into_raw(Box::new(Handle { api, value: pointer, lock, of_thread }));
        };
        // SAFETY: `Box::into_raw` created it, it is never freed, and only this call took it from the queue.
        unsafe {
            (*handle).of_thread = of_thread;
            (*handle).value.set(value);
        }
        handle
    }

    /// Takes the object out of the handle.
    fn take(&self) -> Result<Box<T>, RecordError> {
        let _held = lock(&self.lock);
        let value = self.value.get();
        if value.is_null() {
            return Err(RecordError::Closed);
        }
        self.value.clear_if(value);
        // SAFETY: `of` created it, and the lock prevents a second take.
        Ok(unsafe { Box::from_raw(value) })
    }

    /// Queues the words of a closed handle for reuse.
    fn retire(handle: *mut Handle<T>) {
        // If the queue is locked, the words are not reused.
        if let Some(mut queue) = T::closed_handles().queue() {
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
    /// The session, for one call. This does not keep it open.
    pub(crate) fn session(&self) -> Result<Session, RecordError> {
        let _held = lock(&self.lock);
        // SAFETY: it exists until `take` has the lock.
        unsafe { self.value.get().as_ref() }.map(Session::for_a_while).ok_or(RecordError::Closed)
    }
}

impl RecorderHandle {
    /// Its recorder; null after it is closed.
    #[inline]
    pub(crate) fn recorder(&self) -> *mut ThreadRecorder {
        self.value.get()
    }

    fn is_of(&self, session: &Session) -> bool {
        // SAFETY: only this thread uses the handles in its list.
        unsafe { self.recorder().as_ref() }.is_some_and(|recorder| recorder.is_of(session))
    }
}

/// The recorders of a thread, which close when it ends.
#[derive(Default)]
struct ThreadHandles(Vec<*mut RecorderHandle>);

thread_local! {
    static OF_THREAD: RefCell<ThreadHandles> = RefCell::default();
}

impl Drop for ThreadHandles {
    fn drop(&mut self) {
        self.0.drain(..).for_each(end_of_thread);
    }
}

/// Calls a function with the list of this thread. `None` after the list was destroyed, which is before
/// destructors of thread-local objects, and, in the main thread, before handlers of `atexit` and of static
/// objects.
fn with_list<T>(call: impl FnOnce(&mut ThreadHandles) -> T) -> Option<T> {
    OF_THREAD.try_with(|list| call(&mut list.borrow_mut())).ok()
}

/// Closes a recorder that was removed from the list of this thread.
fn end_of_thread(handle: *mut RecorderHandle) {
    // SAFETY: handles are never freed. It may already be closed.
    drop(unsafe { &*handle }.take());
    Handle::retire(handle);
}

/// The recorder of this thread for a session.
pub(crate) fn of_thread(session: &Session) -> Result<*mut RecorderHandle, RecordError> {
    let known = with_list(|list| {
        // SAFETY: handles are never freed.
        list.0.iter().copied().find(|&handle| unsafe { &*handle }.is_of(session))
    });
    // Without the list, the recorder would never be closed and its lane would be lost.
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

/// Closes this thread's recorder for a session, if there is one.
fn close_of_thread(session: &Session) {
    let closed = with_list(|list| {
        // SAFETY: handles are never freed.
        let at = list.0.iter().position(|&handle| unsafe { &*handle }.is_of(session))?;
        Some(list.0.swap_remove(at))
    });
    closed.flatten().into_iter().for_each(end_of_thread);
}

/// Closes a session. The last of its handles also closes this thread's recorder for it.
///
/// # Safety
/// [`Handle::new`] created it.
pub(crate) unsafe fn close_session(handle: *mut SessionHandle) -> Result<(), RecordError> {
    // SAFETY: the caller's promise; handles are never freed.
    let session = unsafe { &*handle }.take()?;
    Handle::retire(handle);
    if session.is_last() {
        close_of_thread(&session);
    }
    session.close().map(|_| ())
}

/// Closes a recorder.
///
/// # Safety
/// This module created it, no other thread uses it during the call, and it belongs to the caller or to this
/// thread.
pub(crate) unsafe fn close(handle: *mut RecorderHandle) -> Result<(), RecordError> {
    // SAFETY: the caller's promise; handles are never freed.
    let closing = unsafe { &*handle };
    drop(closing.take()?);
    let was_listed = with_list(|list| {
        let before = list.0.len();
        list.0.retain(|&kept| kept != handle);
        list.0.len() < before
    });
    // The thread with the handle in its list retires it.
    if was_listed == Some(true) || !closing.of_thread {
        Handle::retire(handle);
    }
    Ok(())
}
