//! Crashes of a device in thread mode. The handlers of that process belong to whoever wrote it, so nothing is installed
//! unless it asks; and what is no crash of a device goes to the handlers that were there before.

use std::{fmt, io, mem, ptr, sync::OnceLock};

use tensortap_sync::{HandlerPointer, SharedU32};

use super::{CRASH_SIGNALS, crash_action, exit_now, fault_address};

/// Says what crashed; false when the calling thread is none of a device's.
///
/// It must only load memory that stays mapped and write to the text: no locks, no allocation, no panic.
pub type CrashTeller = fn(signal: i32, fault_addr: u64, text: &mut CrashText) -> bool;

/// A [`CrashTeller`] or null.
static TELLER: HandlerPointer<()> = HandlerPointer::null();
/// The bits of an `i32`.
static EXIT_CODE: SharedU32 = SharedU32::new(0);
/// What was installed before, signal by signal.
static BEFORE: [OnceLock<libc::sigaction>; CRASH_SIGNALS.len()] = [const { OnceLock::new() }; _];

/// What a handler says, in memory of its own: nothing is allocated, and what does not fit is left out.
#[derive(Debug)]
pub struct CrashText {
    bytes: [u8; 1024],
    len: usize,
}

impl CrashText {
    const fn new() -> CrashText {
        CrashText { bytes: [0; 1024], len: 0 }
    }

    /// To standard error, in one piece as far as the system allows.
    fn write_out(&self) {
        // SAFETY: the bytes are initialised and as many as said; the call is allowed in handlers. Nobody is left to be
        // told when it fails.
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

/// Installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT in a process that runs devices in thread mode: a
/// crash that `teller` can name is written to standard error and ends the process with `exit_code`. Any other goes to
/// the handler that was there before. Installing again only changes teller and code.
pub fn tell_crashes_in_this_process(teller: CrashTeller, exit_code: i32) -> io::Result<()> {
    EXIT_CODE.publish(exit_code.cast_unsigned());
    TELLER.set(teller as *mut ());
    for (signal, before) in CRASH_SIGNALS.into_iter().zip(&BEFORE) {
        if before.get().is_some() {
            continue;
        }
        // SAFETY: all-zero is a valid `sigaction`, overwritten by the call below.
        let mut current: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: asks only; the place is valid for a write.
        if unsafe { libc::sigaction(signal, ptr::null(), &raw mut current) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // Known before the handler can run.
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
    let teller = TELLER.get();
    if !teller.is_null() {
        // SAFETY: the pointer is not null, and only `tell_crashes_in_this_process` stores it, from this very type.
        let teller = unsafe { mem::transmute::<*mut (), CrashTeller>(teller) };
        let mut text = CrashText::new();
        if teller(signal, fault_address(info), &mut text) {
            text.write_out();
            exit_now(EXIT_CODE.see().cast_signed());
        }
    }
    pass_on(signal, info);
}

/// Puts back what was there before. A fault happens again on return; a signal that was sent is sent again.
fn pass_on(signal: i32, info: *mut libc::siginfo_t) {
    let before = CRASH_SIGNALS.iter().position(|&s| s == signal).and_then(|place| BEFORE[place].get());
    // SAFETY: all-zero is a valid `sigaction` and means SIG_DFL with no flags.
    let deadly: libc::sigaction = unsafe { mem::zeroed() };
    let action = before.unwrap_or(&deadly);
    // SAFETY: the kernel passes a valid `siginfo_t` to a handler installed with SA_SIGINFO.
    let sent = unsafe { (*info).si_code } <= 0;
    // SAFETY: the action is what the kernel gave, or valid by itself; both calls are allowed in handlers.
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
