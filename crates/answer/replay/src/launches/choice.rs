//! Chooses the device for launches.

use super::{LaunchBackend, LaunchDevice};
use crate::{ReplayConfig, ReplayError};

/// Names of the available devices.
pub struct Devices {
    /// Names as in dumps.
    pub names: Vec<String>,
    /// Longer names, searched for the user's text.
    pub searched: Vec<String>,
}

impl Devices {
    /// Finds a device by part of its name, or by index.
    fn by_name(&self, name: &str) -> Option<usize> {
        let by_place = name.parse().ok().filter(|&at: &usize| at < self.names.len());
        let fits = |device: &String| device.to_lowercase().contains(&name.to_lowercase());
        by_place.or_else(|| self.searched.iter().position(fits))
    }

    /// Each device as `0 (device / driver)`.
    fn listed(&self) -> Vec<String> {
        self.names.iter().enumerate().map(|(at, device)| format!("{at} ({device})")).collect()
    }
}

/// Checks that the device in `--device` exists. A wrong name is one error, not one per launch.
pub fn check_device(
    what: &'static str,
    backend: &impl LaunchBackend,
    config: &ReplayConfig,
) -> Result<(), ReplayError> {
    let LaunchDevice::Named(name) = &config.launch_device else { return Ok(()) };
    let devices = backend.devices();
    match devices.by_name(name) {
        Some(_) => Ok(()),
        None => Err(ReplayError::Unknown { what, name: name.clone(), valid: devices.listed() }),
    }
}

/// Chooses the device for an API.
pub fn choose_device(
    what: &str,
    devices: &Devices,
    wanted: &LaunchDevice,
    captured: &str,
) -> Result<usize, String> {
    let is_captured = |device: &String| device == captured;
    match wanted {
        LaunchDevice::Captured => Ok(devices.names.iter().position(is_captured).unwrap_or(0)),
        LaunchDevice::Other => {
            devices.names.iter().position(|device| !is_captured(device)).ok_or_else(|| {
                format!(
                    "the only {what} device here is the captured one, {captured}; replay on it with --rerun"
                )
            })
        }
        LaunchDevice::Named(name) => devices.by_name(name).ok_or_else(|| {
            format!("there is no {what} device `{name}`; there are: {}", devices.listed().join(", "))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_devices_by_index_name_or_capture() {
        let devices = |count: usize| Devices {
            names: ["gpu / 1", "cpu / 1"].map(str::to_owned)[..count].to_vec(),
            searched: ["P / gpu / 1", "P / cpu / 1"].map(str::to_owned)[..count].to_vec(),
        };
        let chosen =
            |wanted: &LaunchDevice, captured: &str| choose_device("OpenCL", &devices(2), wanted, captured);
        let named = |name: &str| LaunchDevice::Named(name.into());
        assert_eq!(chosen(&LaunchDevice::Captured, "cpu / 1"), Ok(1));
        assert_eq!(
            chosen(&LaunchDevice::Captured, "cpu / 2"),
            Ok(0),
            "a different driver is a different device"
        );
        assert_eq!(chosen(&LaunchDevice::Other, "gpu / 1"), Ok(1));
        assert!(choose_device("CUDA", &devices(1), &LaunchDevice::Other, "gpu / 1").is_err());
        assert_eq!(chosen(&named("1"), ""), Ok(1));
        assert_eq!(chosen(&named("CPU"), "gpu / 1"), Ok(1));
        assert_eq!(chosen(&named("p / cpu"), "gpu / 1"), Ok(1));
        let refused = chosen(&named("fpga"), "").unwrap_err();
        assert!(refused.contains("0 (gpu / 1), 1 (cpu / 1)"), "{refused}");
    }
}
