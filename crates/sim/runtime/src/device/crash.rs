//! Crash reporting. In process mode a signal handler stores which kernel crashed, for the host to read. In
//! thread mode it prints a message.

use std::cell::Cell;
use std::fmt::Write;
use std::io;

use tensortap_abi::{DeviceControl, FailureKind, NO_CORE, TaskId};
use tensortap_platform::{CrashText, DeathCause, report_crashes_in_this_process, set_crash_recorder};
use tensortap_scene::KernelDef;

use tensortap_sync::HandlerPointer;

use crate::failure_site::FailureSite;
use crate::overrun::Overrun;

use super::guard::TaskTensors;
use super::memory::{Control, CoreView, Table};

thread_local! {
    /// The core of this thread, for the signal handler. A plain cell can be read without allocating.
    static CORE: Cell<Option<Core>> = const { Cell::new(None) };
}

thread_local! {
    /// The tensors of the kernel that this thread runs, if they are guarded.
    static TENSORS: Cell<Option<TaskTensors>> = const { Cell::new(None) };
}

/// Clears the tensors of this thread when dropped, after the kernel has returned.
pub struct CrashTensorsGuard;

/// Sets the tensors of the kernel that is about to run, for the signal handler.
pub fn watch_tensors(tensors: TaskTensors) -> CrashTensorsGuard {
    TENSORS.set(Some(tensors));
    CrashTensorsGuard
}

impl Drop for CrashTensorsGuard {
    fn drop(&mut self) {
        TENSORS.set(None);
    }
}

/// What the signal handler knows about its thread.
#[derive(Clone, Copy)]
struct Core {
    number: u32,
    view: CoreView<'static>,
    kernels: &'static [KernelDef],
}

/// The control area of the current run. Null between runs.
static CONTROL: HandlerPointer<Table<'static, DeviceControl>> = HandlerPointer::null();

/// Detaches the signal handler from the run when dropped.
pub struct CrashRunGuard<'m> {
    head: Box<Table<'m, DeviceControl>>,
}

/// Attaches the signal handler to a run. Only one run can be watched, and a device process has only one.
pub fn watch_run<'m>(control: &Control<'m>) -> CrashRunGuard<'m> {
    let mut watched = CrashRunGuard { head: Box::new(control.head()) };
    CONTROL.set(std::ptr::from_mut(&mut *watched.head).cast());
    set_crash_recorder(record);
    watched
}

impl Drop for CrashRunGuard<'_> {
    fn drop(&mut self) {
        CONTROL.clear_if(std::ptr::from_mut(&mut *self.head).cast());
    }
}

/// Clears the core of this thread when dropped.
pub struct CrashCoreGuard;

/// Sets the core of the calling thread and the kernels that may run on it, for the signal handler.
pub fn watch_core(number: u32, view: CoreView<'_>, kernels: &'static [KernelDef]) -> CrashCoreGuard {
    CORE.set(Some(Core { number, view: view.forget_lifetime(), kernels }));
    CrashCoreGuard
}

impl Drop for CrashCoreGuard {
    fn drop(&mut self) {
        CORE.set(None);
    }
}

/// Runs inside the signal handler: only plain stores to mapped memory.
fn record(signal: i32, fault_addr: u64) {
    let control = CONTROL.get();
    // SAFETY: the pointer is non-null only while its owner, a `CrashRunGuard`, lives. A run outlives its
    // threads, and the handler runs on one of them.
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

/// Prints a message when a kernel crashes in thread mode, then ends the process with `exit_code`. The message
/// names task, kernel, core and signal.
///
/// Without this call the process dies silently of the signal. Crashes of other threads go to the previously
/// installed handlers. Only a program that owns its process should call this.
pub fn exit_on_crash_in_thread_mode(exit_code: i32) -> io::Result<()> {
    report_crashes_in_this_process(print_crash, exit_code)
}

/// Runs inside the signal handler, like [`record`].
fn print_crash(signal: i32, fault_addr: u64, text: &mut CrashText) -> bool {
    let Some(Core { number, view, kernels }) = CORE.get() else { return false };
    let func_id = view.func_id();
    let kernel = kernels.iter().find(|kernel| kernel.func_id == func_id).map(|kernel| kernel.name);
    let site = FailureSite { kernel, task: Some(TaskId(view.task_id())), core: Some(number) };
    let death = DeathCause { signal: Some(signal), code: None };
    let _ = write!(text, "error: crash in {site}: the device {death}");
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
