//! What a signal handler stores about a kernel that crashed, so that the host can name it; in thread mode, what it says.

use std::cell::Cell;
use std::fmt::Write;
use std::io;

use tensortap_abi::{DeviceControl, FailureKind, NO_CORE, TaskId};
use tensortap_platform::{CrashText, DeathCause, set_crash_recorder, tell_crashes_in_this_process};
use tensortap_scene::KernelDef;

use tensortap_sync::HandlerPointer;

use crate::overrun::Overrun;
use crate::whereabouts::Whereabouts;

use super::guard::TaskTensors;
use super::memory::{Control, CoreView, Table};

thread_local! {
    /// The core this thread is, for the handler: a plain cell, so that reading it allocates nothing.
    static CORE: Cell<Option<Core>> = const { Cell::new(None) };
}

thread_local! {
    /// The tensors of the kernel that this thread runs, where they are guarded.
    static TENSORS: Cell<Option<TaskTensors>> = const { Cell::new(None) };
}

/// Forgets the tensors when their kernel has ended.
pub struct WatchedTensors;

/// Tells the handler which tensors the kernel has that is about to run.
pub fn watch_tensors(tensors: TaskTensors) -> WatchedTensors {
    TENSORS.set(Some(tensors));
    WatchedTensors
}

impl Drop for WatchedTensors {
    fn drop(&mut self) {
        TENSORS.set(None);
    }
}

/// What a handler knows of the thread it runs in.
#[derive(Clone, Copy)]
struct Core {
    number: u32,
    view: CoreView<'static>,
    kernels: &'static [KernelDef],
}

/// The control area of the current run, null between runs.
static CONTROL: HandlerPointer<Table<'static, DeviceControl>> = HandlerPointer::null();

/// Keeps the handler pointed at a run until dropped.
pub struct WatchedRun<'m> {
    head: Box<Table<'m, DeviceControl>>,
}

/// Points the crash recorder at a run. One run at a time is watched: a device process has only one.
pub fn watch_run<'m>(control: &Control<'m>) -> WatchedRun<'m> {
    let mut watched = WatchedRun { head: Box::new(control.head()) };
    CONTROL.set(std::ptr::from_mut(&mut *watched.head).cast());
    set_crash_recorder(record);
    watched
}

impl Drop for WatchedRun<'_> {
    fn drop(&mut self) {
        CONTROL.clear_if(std::ptr::from_mut(&mut *self.head).cast());
    }
}

/// Forgets the core when its thread ends.
pub struct WatchedCore;

/// Tells the handler which core the calling thread is, and which kernels may run on it.
pub fn watch_core(number: u32, view: CoreView<'_>, kernels: &'static [KernelDef]) -> WatchedCore {
    CORE.set(Some(Core { number, view: view.forget_lifetime(), kernels }));
    WatchedCore
}

impl Drop for WatchedCore {
    fn drop(&mut self) {
        CORE.set(None);
    }
}

/// Runs inside the signal handler: plain stores to mapped memory, nothing else.
fn record(signal: i32, fault_addr: u64) {
    let control = CONTROL.get();
    // SAFETY: non-null only while the `WatchedRun` that owns it lives; a run outlives its core threads, and the
    // handler runs on one of them (or on a thread of the run).
    let Some(head) = (unsafe { control.as_ref() }) else { return };
    let (core, task, func_id) = match CORE.get() {
        Some(Core { number, view, .. }) => (number, view.task_id(), view.func_id()),
        None => (NO_CORE, u64::MAX, tensortap_abi::NO_KERNEL),
    };
    head.failure_signal(0).set(signal.unsigned_abs());
    head.failure_addr(0).set(fault_addr);
    head.failure_core(0).set(core);
    head.failure_task(0).set(task);
    head.failure_func_id(0).set(func_id);
    let kind = if signal == 0 { FailureKind::Exit } else { FailureKind::Signal };
    head.failure(0).publish(kind as u32);
}

/// In thread mode a kernel that crashes takes its host along. After this call the process names task, kernel, core and
/// signal on standard error and ends with `exit_code`; otherwise it dies of the signal. Crashes of other threads go to
/// the handlers that were installed before. For programs whose process is their own.
pub fn exit_on_crash_in_thread_mode(exit_code: i32) -> io::Result<()> {
    tell_crashes_in_this_process(tell, exit_code)
}

/// Runs inside the signal handler, like [`record`].
fn tell(signal: i32, fault_addr: u64, text: &mut CrashText) -> bool {
    let Some(Core { number, view, kernels }) = CORE.get() else { return false };
    let func_id = view.func_id();
    let kernel = kernels.iter().find(|kernel| kernel.func_id == func_id).map(|kernel| kernel.name);
    let whereabouts = Whereabouts { kernel, task: Some(TaskId(view.task_id())), core: Some(number) };
    let death = DeathCause { signal: Some(signal), code: None };
    let _ = write!(text, "error: crash in {whereabouts}: the device {death}");
    if fault_addr != 0 {
        let _ = write!(text, ", at address {fault_addr:#x}");
        let overrun = TENSORS.get().and_then(|tensors| Overrun::nearest(fault_addr, tensors.iter()));
        if let Some(overrun) = overrun {
            let _ = write!(text, ", {}", overrun.named(kernels, func_id));
        }
    }
    let _ = writeln!(text, "\nhint: in thread mode a crash ends the whole process; process mode contains it");
    true
}
