//! Signals of a device process: a crash is recorded in device memory before the process dies of it.
//!
//! A handler may run in any thread between any two instructions, so it only loads and stores atomics, calls the
//! recorder, which does no more than that, and makes system calls that are allowed there.

mod in_process;

pub use in_process::{CrashTeller, CrashText, tell_crashes_in_this_process};

use std::{io, marker::PhantomData, mem, ptr, sync::OnceLock};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use tensortap_sync::{Flag, HandlerPointer};

/// Signals that a broken kernel raises.
///
/// The last is that of a system call which a confined device is refused.
const CRASH_SIGNALS: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGSYS];
/// Where a `siginfo_t` of SIGSYS has the number of the system call, with 64-bit pointers: behind three numbers, padding and a pointer.
const SYSTEM_CALL_OFFSET: usize = 24;
const _: () = assert!(size_of::<usize>() == 8 && size_of::<libc::siginfo_t>() == 128);
const ALT_STACK_BYTES: usize = 64 << 10;

/// A `fn(i32, u64)` or null.
static RECORDER: HandlerPointer<()> = HandlerPointer::null();
/// Set by the first thread that crashes. It alone records and ends the process.
static CRASHED: Flag = Flag::new();

/// Sets what is called when this process crashes: signal number and faulting address (0 when there is none), of SIGSYS the number of the system call;
/// signal 0 when it calls `exit`. It is called once, in the thread that crashed first, before the process dies of the signal.
///
/// It must only load and store memory that stays mapped: no locks, no allocation, no panic, no output.
pub fn set_crash_recorder(recorder: fn(signal: i32, fault_addr: u64)) {
    RECORDER.set(recorder as *mut ());
}

/// Installs the handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT and SIGSYS. A device process has them already; a device
/// in thread mode must not, for the handlers belong to the host there (see [`tell_crashes_in_this_process`]). Installing twice changes nothing.
pub fn install_crash_handlers() -> io::Result<()> {
    for signal in CRASH_SIGNALS {
        let action = crash_action(on_crash);
        // SAFETY: the action is complete, and its handler obeys the rules at the top of this module.
        if unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// From now on a program that calls `exit` instead of returning is recorded like a crash, with signal 0. Called once libraries are
/// loaded, it comes before their own endings.
pub(crate) fn record_exits() {
    // SAFETY: the function lives as long as the process. That there is no room for it is no reason to fail.
    unsafe { libc::atexit(on_exit) };
}

extern "C" fn on_exit() {
    if CRASHED.raise() {
        call_recorder(0, 0);
    }
}

/// Runs a handler on the thread's signal stack.
fn crash_action(handler: Handler) -> libc::sigaction {
    // SAFETY: all-zero is a valid `sigaction`, filled in below.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // While one is handled all are blocked: a fault inside the handler then kills at once instead of entering it again.
    for blocked in CRASH_SIGNALS {
        // SAFETY: the set is initialised (empty is all zero) and the numbers are valid signals.
        unsafe { libc::sigaddset(&raw mut action.sa_mask, blocked) };
    }
    action
}

extern "C" fn on_crash(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    if !CRASHED.raise() {
        // Another thread records, and ends this one with the process.
        loop {
            // SAFETY: takes no arguments and is allowed in handlers.
            unsafe { libc::pause() };
        }
    }
    call_recorder(signal, fault_address(info));
    die_of(signal);
}

fn call_recorder(signal: i32, fault_addr: u64) {
    let recorder = RECORDER.get();
    if !recorder.is_null() {
        // SAFETY: the pointer is not null, and only `set_crash_recorder` stores it, from this very type.
        let recorder = unsafe { mem::transmute::<*mut (), fn(i32, u64)>(recorder) };
        recorder(signal, fault_addr);
    }
}

/// 0 when a process sent the signal, for then the field means something else.
fn fault_address(info: *mut libc::siginfo_t) -> u64 {
    // SAFETY: the kernel passes a valid `siginfo_t` to a handler installed with SA_SIGINFO.
    let info = unsafe { &*info };
    if info.si_code <= 0 {
        return 0;
    }
    if info.si_signo == libc::SIGSYS {
        // SAFETY: the kernel passes 128 bytes; of this signal the number of the call follows the address of its instruction.
        let call = unsafe { ptr::from_ref(info).byte_add(SYSTEM_CALL_OFFSET).cast::<i32>().read() };
        return u64::from(call.unsigned_abs());
    }
    // SAFETY: a positive code of these signals means a fault, which has an address.
    unsafe { info.si_addr() }.addr() as u64
}

/// Makes the signal deadly again and raises it. It is blocked in the handler, so it strikes on return.
fn die_of(signal: i32) {
    // SAFETY: all-zero is a valid `sigaction` and means SIG_DFL with no flags.
    let action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: the action is valid; both calls are allowed in handlers.
    unsafe {
        libc::sigaction(signal, &raw const action, ptr::null_mut());
        libc::raise(signal);
    }
}

/// Makes a write past the limit on the size of files (`ulimit -f`) an error of that write, of which the caller can speak, where it
/// would end the process without a word. A handler that somebody installed stays. Opening a device does this; whoever writes files
/// without one may.
pub fn make_file_limits_errors() {
    // SAFETY: all-zero is a valid `sigaction`, filled in by the call below.
    let mut before: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: no action is given, so nothing changes; `before` is this function's own.
    let known = unsafe { libc::sigaction(libc::SIGXFSZ, ptr::null(), &raw mut before) } == 0;
    if known && before.sa_sigaction == libc::SIG_DFL {
        // SAFETY: SIG_IGN is a valid disposition for this signal and runs no code.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let _ = FILE_LIMITS_ARE_ERRORS.set(());
    }
}

/// Set once this process has changed what happens at the limit.
static FILE_LIMITS_ARE_ERRORS: OnceLock<()> = OnceLock::new();

/// Calls `start` as if [`make_file_limits_errors`] had not been called: a program that it starts has the signal as this one was
/// given it. Nothing else of this process should be writing files meanwhile.
pub fn with_file_limits_as_given<R>(start: impl FnOnce() -> R) -> R {
    let ours = FILE_LIMITS_ARE_ERRORS.get().is_some();
    if ours {
        // SAFETY: SIG_DFL is a valid disposition for this signal and runs no code.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
    }
    let started = start();
    if ours {
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    }
    started
}

/// A terminal, a job control or `timeout` asks host and device alike to end; the host decides what it means, and the
/// device ends with it.
pub(crate) fn leave_ending_to_the_host() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: SIG_IGN is a valid disposition for these signals and runs no code.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Ends the process without running anything of it: other threads may be in the middle of kernels.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no precondition.
    unsafe { libc::_exit(code) }
}

/// A stack for signal handlers of the thread that made it, so that a kernel that overflows its stack is recorded too.
/// Keep it as long as the thread runs kernels; dropping it puts back the stack that was there before.
#[derive(Debug)]
pub struct AltStack {
    start: *mut libc::c_void,
    mapped_bytes: usize,
    before: libc::stack_t,
    /// Belongs to its thread.
    _not_send: PhantomData<*mut ()>,
}

impl AltStack {
    /// Gives the calling thread a signal stack of 64 KiB, with a guard page below it.
    ///
    /// ```
    /// let stack = tensortap_platform::AltStack::install()?;
    /// // Kernels run here.
    /// drop(stack);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn install() -> io::Result<AltStack> {
        let guard_bytes = rustix::param::page_size();
        let mapped_bytes = guard_bytes + ALT_STACK_BYTES;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), mapped_bytes, prot, MapFlags::PRIVATE)? };
        // SAFETY: all-zero is a valid `stack_t`, overwritten by the call below.
        let before: libc::stack_t = unsafe { mem::zeroed() };
        let mut stack = AltStack { start, mapped_bytes, before, _not_send: PhantomData };
        // SAFETY: the first page of the new mapping, which nobody uses yet.
        unsafe { mprotect(start, guard_bytes, MprotectFlags::empty())? };
        let new = libc::stack_t {
            ss_sp: start.wrapping_byte_add(guard_bytes),
            ss_flags: 0,
            ss_size: ALT_STACK_BYTES,
        };
        // SAFETY: the stack is mapped, large enough, and stays until `drop` has replaced it.
        if unsafe { libc::sigaltstack(&raw const new, &raw mut stack.before) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stack)
    }
}

impl Drop for AltStack {
    fn drop(&mut self) {
        // SAFETY: `before` is what the kernel returned for this thread (or all zero when nothing was installed, which
        // sets an empty stack that the kernel refuses, leaving all as it is).
        let restored = unsafe { libc::sigaltstack(&raw const self.before, ptr::null_mut()) } == 0;
        if restored {
            // SAFETY: the mapping is this value's own, and the kernel uses it no longer.
            let _ = unsafe { munmap(self.start, self.mapped_bytes) };
        }
    }
}
