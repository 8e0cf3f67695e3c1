//! Signal handling of a device process. A crash is recorded in device memory before the process dies.
//!
//! A handler may run in any thread between any two instructions. So it only loads and stores atomics, calls
//! the crash recorder (which does the same), and makes async-signal-safe system calls.

mod in_process;

pub use in_process::{CrashReporter, CrashText, report_crashes_in_this_process};

use std::{io, marker::PhantomData, mem, ptr, sync::OnceLock};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use tensortap_sync::{Flag, HandlerPointer};

/// The signals of a crash. The last one is SIGSYS, for a system call that a confined device is refused.
const CRASH_SIGNALS: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGSYS];
/// Offset of the system call number in the `siginfo_t` of SIGSYS on 64-bit systems: after three integers,
/// padding and a pointer.
const SYSTEM_CALL_OFFSET: usize = 24;
const _: () = assert!(size_of::<usize>() == 8 && size_of::<libc::siginfo_t>() == 128);
const ALT_STACK_BYTES: usize = 64 << 10;

/// The crash recorder, a `fn(i32, u64)`, or null.
static RECORDER: HandlerPointer<()> = HandlerPointer::null();
/// Set by the first thread that crashes. Only that thread records the crash and ends the process.
static CRASHED: Flag = Flag::new();

/// Sets the function that records a crash of this process. Its arguments are the signal and the faulting
/// address (0 if there is none). For SIGSYS the address is the number of the system call. Signal 0 means that
/// the process called `exit`.
///
/// The function is called once, in the thread that crashed first, before the process dies. It may only load
/// and store memory that stays mapped: no locks, no allocation, no panic, no output.
pub fn set_crash_recorder(recorder: fn(signal: i32, fault_addr: u64)) {
    RECORDER.set(recorder as *mut ());
}

/// Installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT and SIGSYS. A device process already has
/// them. A process with devices in thread mode must not call this, because its handlers belong to the host
/// (see [`report_crashes_in_this_process`]). A second call changes nothing.
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

/// Records a call to `exit` like a crash with signal 0. Handlers run in reverse order of registration, so
/// this is called after libraries are loaded, to run before their handlers.
pub(crate) fn record_exits() {
    // SAFETY: the function lives as long as the process. If no handler slot is free, exits are not recorded,
    // which is harmless.
    unsafe { libc::atexit(on_exit) };
}

extern "C" fn on_exit() {
    if CRASHED.raise() {
        call_recorder(0, 0);
    }
}

/// The action that runs `handler` on the thread's signal stack.
fn crash_action(handler: Handler) -> libc::sigaction {
    // SAFETY: all-zero is a valid `sigaction`, filled in below.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // All crash signals are blocked in the handler: a fault inside it kills the process at once.
    for blocked in CRASH_SIGNALS {
        // SAFETY: the set is initialized (all zero is empty) and the numbers are valid signals.
        unsafe { libc::sigaddset(&raw mut action.sa_mask, blocked) };
    }
    action
}

extern "C" fn on_crash(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    if !CRASHED.raise() {
        // Another thread already records a crash and will end the process.
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

/// The faulting address. 0 if another process sent the signal, because then the field has another meaning.
fn fault_address(info: *mut libc::siginfo_t) -> u64 {
    // SAFETY: the kernel passes a valid `siginfo_t` to a handler installed with SA_SIGINFO.
    let info = unsafe { &*info };
    if info.si_code <= 0 {
        return 0;
    }
    if info.si_signo == libc::SIGSYS {
        // SAFETY: the kernel passes 128 bytes. For SIGSYS the number of the call follows the address of its
        // instruction.
        let call = unsafe { ptr::from_ref(info).byte_add(SYSTEM_CALL_OFFSET).cast::<i32>().read() };
        return u64::from(call.unsigned_abs());
    }
    // SAFETY: a positive code of these signals means a fault, which has an address.
    unsafe { info.si_addr() }.addr() as u64
}

/// Restores the default action and raises the signal. It is blocked in the handler, so the process dies when
/// the handler returns.
fn die_of(signal: i32) {
    // SAFETY: all-zero is a valid `sigaction` and means SIG_DFL with no flags.
    let action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: the action is valid, and both calls are allowed in handlers.
    unsafe {
        libc::sigaction(signal, &raw const action, ptr::null_mut());
        libc::raise(signal);
    }
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with an error. By default the signal SIGXFSZ
/// would end the process silently. An existing handler is not replaced. Opening a device calls this; code
/// that writes files without a device can call it too.
pub fn make_file_limits_errors() {
    // SAFETY: all-zero is a valid `sigaction`, filled in by the call below.
    let mut before: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: no action is given, so nothing changes. `before` belongs to this function.
    let known = unsafe { libc::sigaction(libc::SIGXFSZ, ptr::null(), &raw mut before) } == 0;
    if known && before.sa_sigaction == libc::SIG_DFL {
        // SAFETY: SIG_IGN is a valid disposition for this signal and runs no code.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let _ = FILE_LIMITS_ARE_ERRORS.set(());
    }
}

/// Set once this process ignores SIGXFSZ.
static FILE_LIMITS_ARE_ERRORS: OnceLock<()> = OnceLock::new();

/// Calls `start` with the original action for SIGXFSZ, so that a program that it starts inherits the
/// original. The process must not write files at the same time.
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

/// Ignores SIGINT, SIGTERM and SIGHUP. A terminal, job control or `timeout` sends them to host and device
/// alike. The host decides what to do, and the device ends with the host.
pub(crate) fn ignore_termination_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: SIG_IGN is a valid disposition for these signals and runs no code.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Ends the process without running exit handlers or destructors, because other threads may be in the middle
/// of kernels.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no precondition.
    unsafe { libc::_exit(code) }
}

/// A signal stack for the calling thread, so that a stack overflow in a kernel is recorded too. Keep it while
/// the thread runs kernels. Dropping it restores the previous signal stack.
#[derive(Debug)]
pub struct AltStack {
    start: *mut libc::c_void,
    mapped_bytes: usize,
    before: libc::stack_t,
    // A signal stack belongs to its thread.
    _not_send: PhantomData<*mut ()>,
}

impl AltStack {
    /// Gives the calling thread a signal stack of 64 KiB with a guard page below it.
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
        // SAFETY: the first page of the new mapping, which is not in use yet.
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
        // SAFETY: `before` is what the kernel returned for this thread. If nothing was installed it is all
        // zero: an empty stack, which the kernel refuses without changing anything.
        let restored = unsafe { libc::sigaltstack(&raw const self.before, ptr::null_mut()) } == 0;
        if restored {
            // SAFETY: this value owns the mapping, and the kernel no longer uses it.
            let _ = unsafe { munmap(self.start, self.mapped_bytes) };
        }
    }
}
