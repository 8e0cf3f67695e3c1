//! Crash messages for devices in thread mode. Signal handlers belong to the host program, so none is
//! installed unless the program asks for it. Crashes of threads that belong to no device are passed to the
//! previous handlers.

use std::{fmt, io, mem, ptr, sync::OnceLock};

use tensortap_sync::{HandlerPointer, SharedU32};

use super::{CRASH_SIGNALS, crash_action, exit_now, fault_address};

/// Writes a message about the crash of the calling thread. Returns false if the thread belongs to no device.
///
/// It may only load memory that stays mapped and write to the text: no locks, no allocation, no panic.
pub type CrashReporter = fn(signal: i32, fault_addr: u64, text: &mut CrashText) -> bool;

/// The [`CrashReporter`], or null.
static REPORTER: HandlerPointer<()> = HandlerPointer::null();
/// The exit code, as the bits of an `i32`.
static EXIT_CODE: SharedU32 = SharedU32::new(0);
/// The previous handlers, one per signal.
static BEFORE: [OnceLock<libc::sigaction>; CRASH_SIGNALS.len()] = [const { OnceLock::new() }; _];

/// A message from a signal handler, in a fixed buffer. Writing allocates nothing, and text that does not fit
/// is cut.
#[derive(Debug)]
pub struct CrashText {
    bytes: [u8; 1024],
    len: usize,
}

impl CrashText {
    const fn new() -> CrashText {
        CrashText { bytes: [0; 1024], len: 0 }
    }

    /// Writes the message to standard error with one system call.
    fn write_out(&self) {
        // SAFETY: the bytes are initialized up to `len`, and the call is allowed in handlers. A failure
        // cannot be reported anywhere.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, self.bytes.as_ptr().cast(), self.len) };
    }
}

impl fmt::Write for CrashText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let free = &mut self.bytes[self.len..];
        let count = text.len().min(free.len());
        free[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.len += count;
        Ok(())
    }
}

/// Installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT, for a process that runs devices in
/// thread mode. If `reporter` recognizes the crash, its message goes to standard error and the process ends
/// with `exit_code`. Otherwise the previous handler runs. A second call only changes reporter and exit code.
pub fn report_crashes_in_this_process(reporter: CrashReporter, exit_code: i32) -> io::Result<()> {
    EXIT_CODE.publish(exit_code.cast_unsigned());
    REPORTER.set(reporter as *mut ());
    for (signal, before) in CRASH_SIGNALS.into_iter().zip(&BEFORE) {
        if before.get().is_some() {
            continue;
        }
        // SAFETY: all-zero is a valid `sigaction`, overwritten by the call below.
        let mut current: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: this only reads the action into `current`, which is valid for a write.
        if unsafe { libc::sigaction(signal, ptr::null(), &raw mut current) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // Stored before the handler can run.
        if before.set(current).is_err() {
            continue;
        }
        let action = crash_action(on_crash);
        // SAFETY: the action is complete, and its handler obeys the rules of `signal`.
        if unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

extern "C" fn on_crash(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let reporter = REPORTER.get();
    if !reporter.is_null() {
        // SAFETY: the pointer is not null, and only `report_crashes_in_this_process` stores it, from this
        // very type.
        let reporter = unsafe { mem::transmute::<*mut (), CrashReporter>(reporter) };
        let mut text = CrashText::new();
        if reporter(signal, fault_address(info), &mut text) {
            text.write_out();
            exit_now(EXIT_CODE.see().cast_signed());
        }
    }
    pass_on(signal, info);
}

/// Restores the previous handler. A fault repeats when this handler returns. A signal that was sent is raised
/// again.
fn pass_on(signal: i32, info: *mut libc::siginfo_t) {
    let before = CRASH_SIGNALS.iter().position(|&s| s == signal).and_then(|index| BEFORE[index].get());
    // SAFETY: all-zero is a valid `sigaction` and means SIG_DFL with no flags.
    let deadly: libc::sigaction = unsafe { mem::zeroed() };
    let action = before.unwrap_or(&deadly);
    // SAFETY: the kernel passes a valid `siginfo_t` to a handler installed with SA_SIGINFO.
    let sent = unsafe { (*info).si_code } <= 0;
    // SAFETY: the action came from the kernel or is valid by itself, and both calls are allowed in handlers.
    unsafe {
        libc::sigaction(signal, ptr::from_ref(action), ptr::null_mut());
        if sent {
            libc::raise(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn a_text_that_does_not_fit_is_cut() {
        let mut text = CrashText::new();
        write!(text, "{:0>1020}", 7).unwrap();
        write!(text, "{}", 123_456).unwrap();
        assert_eq!((text.len, &text.bytes[1019..]), (1024, &b"71234"[..]));
    }
}
