//! One attachment per process, shared by all its sessions.
#![expect(
    unsafe_code,
    reason = "the current attachment is a pointer, so that a forked process needs none of its parent's locks"
)]

use std::time::Duration;

use tensortap_sync::{HandlerPointer, ProcessLock, ProcessLockGuard};

use crate::{
    RecordError,
    core::{Core, CoreRef},
    sanitizer,
};

/// Locked while the current attachment is read, created or released.
static LOCK: ProcessLock = ProcessLock::new();

/// The attachment that new sessions share; or that of the parent process after a fork.
static CURRENT: HandlerPointer<Core> = HandlerPointer::null();

struct Guard(#[expect(dead_code, reason = "unlocks when dropped")] ProcessLockGuard<'static>);

fn lock() -> Guard {
    loop {
        if let Some(guard) = LOCK.take(std::process::id().into()) {
            sanitizer::acquire(&raw const LOCK);
            return Guard(guard);
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        sanitizer::release(&raw const LOCK);
    }
}

/// Opens the attachment of this process again, or creates it.
pub(crate) fn open(make: impl FnOnce() -> Result<Core, RecordError>) -> Result<CoreRef, RecordError> {
    let _guard = lock();
    let current = CURRENT.get();
    if !current.is_null() {
        // SAFETY: while the pointer is not null, an open session has a reference. A forked process never
        // drops sessions of its parent, so the reference also exists there.
        let core = unsafe { CoreRef::share_of(current) };
        if core.check().is_ok() {
            core.opens.add(1);
            return Ok(core);
        }
    }
    let core = CoreRef::new(make()?);
    CURRENT.set(core.as_ptr());
    Ok(core)
}

/// Opens an attachment again for a session that has it open.
pub(crate) fn open_again(core: &CoreRef) -> CoreRef {
    let _guard = lock();
    core.opens.add(1);
    core.share()
}

/// Releases an attachment. Returns whether it was the last release.
pub(crate) fn close(core: &CoreRef) -> bool {
    let _guard = lock();
    let left = core.opens.get().saturating_sub(1);
    core.opens.set(left);
    if left == 0 {
        CURRENT.clear_if(core.as_ptr());
    }
    left == 0
}
