//! Which build of the kernels ran: the identity of the executable that holds them.

use std::path::Path;

use tensortap_folder::build_id;
use tensortap_platform::DeviceMode;

use crate::RunConfig;

/// This executable, also when its file was replaced or removed since it started.
const THIS_EXECUTABLE: &str = "/proc/self/exe";

/// Build id of the executable whose kernels a run calls: `gnu:` and its build id note, or `xxh3_128:` and the hash of the
/// file when it has none; empty when it cannot be read.
pub fn of_device(config: &RunConfig) -> String {
    of_executable(config.device_mode, config.device_executable.as_deref())
}

/// The same for a device in this mode; `executable` is what it is started from when that is not this one.
pub fn of_executable(mode: DeviceMode, executable: Option<&Path>) -> String {
    let path = match mode {
        DeviceMode::Process => executable,
        DeviceMode::Thread => None,
    };
    build_id(path.unwrap_or(Path::new(THIS_EXECUTABLE))).unwrap_or_default()
}
