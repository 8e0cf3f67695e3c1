//! What a signal handler stores about a kernel that crashed, so that the host can name it.

use std::cell::Cell;
use std::sync::atomic::AtomicPtr;

use tensortap_abi::{DeviceControl, FailureKind, NO_CORE};
use tensortap_platform::set_crash_recorder;
use tensortap_sync::atomic::Ordering;

use super::memory::{Control, CoreView, Table};

thread_local! {
    /// The core this thread is, for the handler: a plain cell, so that reading it allocates nothing.
    static CORE: Cell<Option<(u32, CoreView<'static>)>> = const { Cell::new(None) };
}

/// The control area of the current run, null between runs.
static CONTROL: AtomicPtr<Table<'static, DeviceControl>> = AtomicPtr::new(std::ptr::null_mut());

/// Keeps the handler pointed at a run until dropped.
pub struct WatchedRun<'m> {
    head: Box<Table<'m, DeviceControl>>,
}

/// Points the crash recorder at a run. One run at a time is watched: a device process has only one.
pub fn watch_run<'m>(control: &Control<'m>) -> WatchedRun<'m> {
    let mut watched = WatchedRun { head: Box::new(control.head()) };
    CONTROL.store(std::ptr::from_mut(&mut *watched.head).cast(), Ordering::Release);
    set_crash_recorder(record);
    watched
}

impl Drop for WatchedRun<'_> {
    fn drop(&mut self) {
        let mine = std::ptr::from_mut(&mut *self.head).cast();
        let _ = CONTROL.compare_exchange(mine, std::ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Forgets the core when its thread ends.
pub struct WatchedCore;

/// Tells the handler which core the calling thread is.
pub fn watch_core(core: u32, view: CoreView<'_>) -> WatchedCore {
    CORE.set(Some((core, view.forget_lifetime())));
    WatchedCore
}

impl Drop for WatchedCore {
    fn drop(&mut self) {
        CORE.set(None);
    }
}

/// Runs inside the signal handler: plain stores to mapped memory, nothing else.
fn record(signal: i32, fault_addr: u64) {
    let control = CONTROL.load(Ordering::Acquire);
    // SAFETY: non-null only while the `WatchedRun` that owns it lives; a run outlives its core threads, and the
    // handler runs on one of them (or on a thread of the run).
    let Some(head) = (unsafe { control.as_ref() }) else { return };
    let (core, task, func_id) = match CORE.get() {
        Some((core, view)) => (core, view.task_id(), view.func_id()),
        None => (NO_CORE, u64::MAX, tensortap_abi::NO_KERNEL),
    };
    head.failure_signal(0).store(signal.unsigned_abs(), Ordering::Relaxed);
    head.failure_addr(0).store(fault_addr, Ordering::Relaxed);
    head.failure_core(0).store(core, Ordering::Relaxed);
    head.failure_task(0).store(task, Ordering::Relaxed);
    head.failure_func_id(0).store(func_id, Ordering::Relaxed);
    head.failure(0).store(FailureKind::Signal as u32, Ordering::Release);
}
