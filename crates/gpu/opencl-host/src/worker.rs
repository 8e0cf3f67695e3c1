//! The OpenCL driver inside a worker.

use std::path::{Path, PathBuf};
use std::process::Command;

use tensortap_driver::opencl::LIBRARY_VARIABLE;
use tensortap_launch_host::{Driver, Failure};

use crate::host::Host;
use crate::{DeviceName, Launch};

/// Environment variables with the loader's folder of drivers, and the system's folders of libraries.
const VENDORS_VARIABLE: &str = "OCL_ICD_VENDORS";
const LIBRARIES_VARIABLE: &str = "LD_LIBRARY_PATH";
/// The loader in the wheel of `pyopencl` requires this variable.
const WHEEL_VARIABLE: &str = "PYOPENCL_HOME";

/// The OpenCL driver. The content of each memory is sent with a launch.
#[derive(Debug)]
pub struct OpenCl(Host);

impl Driver for OpenCl {
    const NAME: &'static str = "OpenCL";
    const WORKER_VARIABLE: &'static str = "TENSORTAP_OPENCL_WORKER";
    const INJECTING_VARIABLE: &'static str = "OPENCL_LAYERS";
    type Device = DeviceName;
    type Launch = Launch;
    type Outcome = ();

    fn prepare(command: &mut Command) {
        prepare(command);
    }

    fn open() -> Result<OpenCl, String> {
        Host::open().map(OpenCl)
    }

    fn devices(&self) -> Vec<DeviceName> {
        self.0.names()
    }

    fn launch(
        &mut self,
        launch: &Launch,
        image: Vec<u8>,
        contents: &mut [Vec<u8>],
        built: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<(), Failure> {
        let program = self.0.build(launch, image)?;
        built()?;
        Ok(self.0.run(&program, launch, contents)?)
    }
}

/// The folder of a loader, if it also contains drivers, as in Python wheels.
fn drivers_beside(library: &Path) -> Option<PathBuf> {
    let folder = library.parent()?;
    let mut entries = std::fs::read_dir(folder).ok()?.flatten();
    let is_there = entries.any(|entry| entry.path().extension().is_some_and(|ending| ending == "icd"));
    is_there.then(|| folder.to_owned())
}

/// Sets the environment of a worker so that a loader in `TENSORTAP_OPENCL` finds the drivers in its own
/// folder.
fn prepare(command: &mut Command) {
    let library = std::env::var_os(LIBRARY_VARIABLE);
    // The loader of a wheel does not run without this variable, even if its drivers are elsewhere.
    if std::env::var_os(WHEEL_VARIABLE).is_none()
        && let Some(wheel) = library.as_ref().and_then(|library| Path::new(library).parent()?.parent())
    {
        command.env(WHEEL_VARIABLE, wheel);
    }
    if std::env::var_os(VENDORS_VARIABLE).is_none()
        && let Some(folder) = library.as_ref().and_then(|library| drivers_beside(Path::new(library)))
    {
        let mut libraries = folder.clone().into_os_string();
        if let Some(others) = std::env::var_os(LIBRARIES_VARIABLE) {
            libraries.push(":");
            libraries.push(others);
        }
        command.env(LIBRARIES_VARIABLE, libraries);
        command.env(VENDORS_VARIABLE, folder);
    }
}
