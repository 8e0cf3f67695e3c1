//! The environment variable that tells an executable to become a device, and what identifies a program.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The host sets this variable for device processes only. Its value is the protocol version.
pub(crate) const DEVICE_VARIABLE: &str = "TENSORTAP_DEVICE";

/// Whether this process was started as a device and has not become one yet.
pub(crate) fn started_as_device() -> bool {
    std::env::var_os(DEVICE_VARIABLE).is_some()
}

/// Removes the variable, so that child processes of the device program do not become devices. Does nothing if
/// other threads already run, because they might be reading the environment.
pub(crate) fn forget_started_as_device() {
    if !only_thread() {
        return;
    }
    // SAFETY: this is the only thread of the process, so no other thread reads or writes the environment meanwhile.
    unsafe { std::env::remove_var(DEVICE_VARIABLE) };
}

/// A random number of the program that this process executes. It stays the same until the process executes
/// another program.
pub(crate) fn program_number() -> u64 {
    // SAFETY: reads a value from the auxiliary vector.
    let random = unsafe { libc::getauxval(libc::AT_RANDOM) };
    let random: *const [u8; 16] = std::ptr::with_exposed_provenance(usize::try_from(random).unwrap_or(0));
    // SAFETY: it is null, or points to 16 bytes that the system put into the memory of every program.
    let random = unsafe { random.as_ref() };
    // Only their hash is sent: the C library protects stacks with these bytes.
    let mut hash = DefaultHasher::new();
    random.hash(&mut hash);
    hash.finish()
}

fn only_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}
