//! What the pointers of a program point to.

use std::cell::RefCell;

use tensortap_record::{RecordError, Session, ThreadRecorder};

use crate::table::{RecordApi, tensortap_record_1};

/// `tt_session`.
#[repr(C)]
pub struct SessionHandle {
    api: *const RecordApi,
    pub(crate) session: Session,
}

/// `tt_recorder`.
#[repr(C)]
pub struct RecorderHandle {
    api: *const RecordApi,
    pub(crate) recorder: ThreadRecorder,
}

impl SessionHandle {
    pub(crate) fn new(session: Session) -> *mut SessionHandle {
        Box::into_raw(Box::new(SessionHandle { api: &raw const tensortap_record_1, session }))
    }
}

impl RecorderHandle {
    pub(crate) fn new(recorder: ThreadRecorder) -> *mut RecorderHandle {
        Box::into_raw(Box::new(RecorderHandle { api: &raw const tensortap_record_1, recorder }))
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
        for &handle in &self.0 {
            // SAFETY: made by `RecorderHandle::new` for this thread, and let go here or by `close`, which takes it from the list.
            drop(unsafe { Box::from_raw(handle) });
        }
    }
}

/// The recorder of this thread for a session.
pub(crate) fn of_thread(session: &Session) -> Result<*mut RecorderHandle, RecordError> {
    let known = OF_THREAD.with_borrow(|list| {
        // SAFETY: what is in the list lives, and nobody uses it but this thread.
        list.0.iter().copied().find(|&handle| unsafe { &*handle }.recorder.is_of(session))
    });
    match known {
        Some(handle) => Ok(handle),
        None => {
            let handle = RecorderHandle::new(session.thread()?);
            OF_THREAD.with_borrow_mut(|list| list.0.push(handle));
            Ok(handle)
        }
    }
}

/// Closes this thread's recorder for a session, if it has one.
pub(crate) fn close_of_thread(session: &Session) {
    let closed = OF_THREAD.with_borrow_mut(|list| {
        // SAFETY: as in `of_thread`.
        let at = list.0.iter().position(|&handle| unsafe { &*handle }.recorder.is_of(session))?;
        Some(list.0.swap_remove(at))
    });
    if let Some(handle) = closed {
        // SAFETY: it was in the list and is not any more.
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// Closes a recorder, whoever owns it.
///
/// # Safety
/// It was made by `RecorderHandle::new`, is not used again, and is either its caller's own or that of this thread.
pub(crate) unsafe fn close(handle: *mut RecorderHandle) {
    OF_THREAD.with_borrow_mut(|list| list.0.retain(|&kept| kept != handle));
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(handle) });
}
