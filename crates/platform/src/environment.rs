//! The environment variable that asks an executable to become the device.

/// Set by the host for the device process only; its value is the protocol version.
pub(crate) const DEVICE_VARIABLE: &str = "TENSORTAP_DEVICE";

/// Whether this process was started as a device and has not become one.
pub(crate) fn started_as_device() -> bool {
    std::env::var_os(DEVICE_VARIABLE).is_some()
}

/// Removes the variable, so that processes started by the device program are not taken for devices. Does nothing
/// when other threads run already: they might be reading the environment.
pub(crate) fn forget_started_as_device() {
    if !only_thread() {
        return;
    }
    // SAFETY: this is the only thread of the process, so nobody reads or writes the environment meanwhile.
    unsafe { std::env::remove_var(DEVICE_VARIABLE) };
}

fn only_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}
