//! One attachment for a process, however many sessions of it were opened.
#![expect(
    unsafe_code,
    reason = "the current attachment is a pointer, so that a forked process needs no lock of its parent's"
)]

use std::time::Duration;

use tensortap_sync::{HandlerPointer, ProcessLock, ProcessLockGuard};

use crate::{
    RecordError,
    core::{Core, CoreRef},
    sanitizer,
};

/// Held while the current attachment is looked up, made or let go.
static LOCK: ProcessLock = ProcessLock::new();

/// The attachment that further sessions share, which somebody has open; or one of the process that this one was forked from.
static CURRENT: HandlerPointer<Core> = HandlerPointer::null();

struct Guard(#[expect(dead_code, reason = "opens the lock when it is dropped")] ProcessLockGuard<'static>);

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

/// The attachment of this process, opened once more; made if there is none.
pub(crate) fn open(make: impl FnOnce() -> Result<Core, RecordError>) -> Result<CoreRef, RecordError> {
    let _guard = lock();
    let current = CURRENT.get();
    if !current.is_null() {
        // SAFETY: while it is not null a session has it open, and with it a share; sessions of a process that was forked are never
        // dropped in the forked one, so it lives there, too.
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

/// Opens an attachment once more for whom has it open.
pub(crate) fn open_again(core: &CoreRef) -> CoreRef {
    let _guard = lock();
    core.opens.add(1);
    core.share()
}

/// Lets an attachment go; whether that was the last.
pub(crate) fn close(core: &CoreRef) -> bool {
    let _guard = lock();
    let left = core.opens.get().saturating_sub(1);
    core.opens.set(left);
    if left == 0 {
        CURRENT.clear_if(core.as_ptr());
    }
    left == 0
}
