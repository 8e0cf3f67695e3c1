//! Identifies the build of the kernels that ran, by the executable that contains them.

use std::path::Path;

use tensortap_platform::DeviceMode;
use tensortap_scene_folder::build_id;

use crate::RunConfig;

/// This executable, even if its file was replaced or removed after the start.
const THIS_EXECUTABLE: &str = "/proc/self/exe";

/// Build id of the executable whose kernels a run calls: `gnu:` and its build id note, or `xxh3_128:` and
/// the hash of the file if it has no note; empty if it cannot be read.
pub fn of_device(config: &RunConfig) -> String {
    of_executable(config.device_mode, config.device_executable.as_deref())
}

/// The build id for a device in this mode. `executable` starts the device if it is not this executable.
pub fn of_executable(mode: DeviceMode, executable: Option<&Path>) -> String {
    let path = match mode {
        DeviceMode::Process => executable,
        DeviceMode::Thread => None,
    };
    build_id(path.unwrap_or(Path::new(THIS_EXECUTABLE))).unwrap_or_default()
}
