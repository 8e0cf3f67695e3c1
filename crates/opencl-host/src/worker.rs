//! OpenCL, as a worker has it.

use std::path::{Path, PathBuf};
use std::process::Command;

use tensortap_launch_host::{Driver, Failure};

use crate::host::Host;
use crate::library::LIBRARY_VARIABLE;
use crate::{DeviceName, Launch};

/// Where a loader looks for drivers, and where a system looks for their libraries.
const VENDORS_VARIABLE: &str = "OCL_ICD_VENDORS";
const LIBRARIES_VARIABLE: &str = "LD_LIBRARY_PATH";
/// The loader in the wheel of `pyopencl` reads this and takes it to be set.
const WHEEL_VARIABLE: &str = "PYOPENCL_HOME";

/// OpenCL. A launch goes with the content of each of its memories.
#[derive(Debug)]
pub struct OpenCl(Host);

impl Driver for OpenCl {
    const NAME: &'static str = "OpenCL";
    const WORKER_VARIABLE: &'static str = "TENSORTAP_OPENCL_WORKER";
    const INJECTING_VARIABLE: &'static str = "OPENCL_LAYERS";
    type Device = DeviceName;
    type Launch = Launch;
    type Ran = ();

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

/// The folder of a loader that has drivers beside it, as wheels of Python bring them.
fn drivers_beside(library: &Path) -> Option<PathBuf> {
    let folder = library.parent()?;
    let mut entries = std::fs::read_dir(folder).ok()?.flatten();
    let is_there = entries.any(|entry| entry.path().extension().is_some_and(|ending| ending == "icd"));
    is_there.then(|| folder.to_owned())
}

/// What a worker is started with: it finds drivers that lie beside a loader which is named.
fn prepare(command: &mut Command) {
    let library = std::env::var_os(LIBRARY_VARIABLE);
    // The loader of a wheel does not run without it, wherever its drivers are.
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
