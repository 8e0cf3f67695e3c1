//! The thread of a backend that records what the device has found.
#![expect(unsafe_code, reason = "signal masks are set through libc")]

use std::{io, thread::Builder};

/// Starts the thread that records what devices have found. All signals are blocked in it: signals are for the
/// program's threads.
///
/// # Errors
/// When the system starts no thread.
pub fn spawn_harvest_thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // A thread inherits the mask of the thread that starts it.
    // SAFETY: both sets belong to this function, and libc fills them before they are read.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let started = Builder::new().name(name.to_owned()).spawn(run);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        started.map(drop)
    }
}
