//! The CUDA driver inside a worker.

use tensortap_launch_host::{Driver, Failure};

use crate::host::Host;
use crate::{DeviceName, Launch};

/// Facts about a launch that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LaunchOutcome {
    /// Whether memory was relocated.
    pub is_moved: bool,
}

/// The CUDA driver. The content of each memory is sent with a launch, then the content of each variable.
#[derive(Debug)]
pub struct Cuda(Host);

impl Driver for Cuda {
    const NAME: &'static str = "CUDA";
    const WORKER_VARIABLE: &'static str = "TENSORTAP_CUDA_WORKER";
    const INJECTING_VARIABLE: &'static str = "CUDA_INJECTION64_PATH";
    type Device = DeviceName;
    type Launch = Launch;
    type Outcome = LaunchOutcome;

    fn open() -> Result<Cuda, String> {
        Host::open().map(Cuda)
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
    ) -> Result<LaunchOutcome, Failure> {
        let memories = launch.memories.len();
        if contents.len() != memories + launch.variables.len() {
            return Err("the number of contents does not match the launch".into());
        }
        let module = self.0.load(launch, image)?;
        built()?;
        let (memories, variables) = contents.split_at_mut(memories);
        Ok(LaunchOutcome { is_moved: module.run(launch, memories, variables)? })
    }
}
