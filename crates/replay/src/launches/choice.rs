//! Which device launches run on.

use super::{Door, LaunchDevice};
use crate::{ReplayConfig, ReplayError};

/// What devices are called.
pub struct Devices {
    /// As dumps name them.
    pub names: Vec<String>,
    /// As people may: these texts are searched for parts of names.
    pub searched: Vec<String>,
}

impl Devices {
    /// The one that a part of a name, or a place, means.
    fn by_name(&self, name: &str) -> Option<usize> {
        let by_place = name.parse().ok().filter(|&at: &usize| at < self.names.len());
        let fits = |device: &String| device.to_lowercase().contains(&name.to_lowercase());
        by_place.or_else(|| self.searched.iter().position(fits))
    }

    /// `0 (a device / its driver)`, of each.
    fn listed(&self) -> Vec<String> {
        self.names.iter().enumerate().map(|(at, device)| format!("{at} ({device})")).collect()
    }
}

/// That there is the device which is asked for by name. Launches are not refused one by one for that: nothing is wrong with any of them.
pub fn check_device(what: &'static str, door: &impl Door, config: &ReplayConfig) -> Result<(), ReplayError> {
    let LaunchDevice::Named(name) = &config.launch_device else { return Ok(()) };
    let devices = door.devices();
    match devices.by_name(name) {
        Some(_) => Ok(()),
        None => Err(ReplayError::Unknown { what, name: name.clone(), valid: devices.listed() }),
    }
}

/// The device to run on, of those that run `what`.
pub fn by_wish(what: &str, devices: &Devices, wish: &LaunchDevice, captured: &str) -> Result<usize, String> {
    let is_captured = |device: &String| device == captured;
    match wish {
        LaunchDevice::Captured => Ok(devices.names.iter().position(is_captured).unwrap_or(0)),
        LaunchDevice::Other => devices.names.iter().position(|device| !is_captured(device)).ok_or_else(|| {
            format!("there is no {what} device here but the one it was captured on, {captured}; --rerun runs it there again")
        }),
        LaunchDevice::Named(name) => devices.by_name(name).ok_or_else(|| {
            format!("there is no {what} device `{name}`; there are: {}", devices.listed().join(", "))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_chosen_by_place_name_or_what_was_captured() {
        let devices = |count: usize| Devices {
            names: ["gpu / 1", "cpu / 1"].map(str::to_owned)[..count].to_vec(),
            searched: ["P / gpu / 1", "P / cpu / 1"].map(str::to_owned)[..count].to_vec(),
        };
        let chosen = |wish: &LaunchDevice, captured: &str| by_wish("OpenCL", &devices(2), wish, captured);
        let named = |name: &str| LaunchDevice::Named(name.into());
        assert_eq!(chosen(&LaunchDevice::Captured, "cpu / 1"), Ok(1));
        assert_eq!(chosen(&LaunchDevice::Captured, "cpu / 2"), Ok(0), "another driver is another device");
        assert_eq!(chosen(&LaunchDevice::Other, "gpu / 1"), Ok(1));
        assert!(by_wish("CUDA", &devices(1), &LaunchDevice::Other, "gpu / 1").is_err());
        assert_eq!(chosen(&named("1"), ""), Ok(1));
        assert_eq!(chosen(&named("CPU"), "gpu / 1"), Ok(1));
        assert_eq!(chosen(&named("p / cpu"), "gpu / 1"), Ok(1));
        let refused = chosen(&named("fpga"), "").unwrap_err();
        assert!(refused.contains("0 (gpu / 1), 1 (cpu / 1)"), "{refused}");
    }
}
