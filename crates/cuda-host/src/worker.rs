//! CUDA, as a worker has it.

use tensortap_launch_host::{Driver, Failure};

use crate::host::Host;
use crate::{DeviceName, Launch};

/// How a launch ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Ran {
    /// Whether memory lay elsewhere than it did.
    pub is_moved: bool,
}

/// CUDA. A launch goes with the content of each of its memories, then that of each variable.
#[derive(Debug)]
pub struct Cuda(Host);

impl Driver for Cuda {
    const NAME: &'static str = "CUDA";
    const WORKER_VARIABLE: &'static str = "TENSORTAP_CUDA_WORKER";
    const INJECTING_VARIABLE: &'static str = "CUDA_INJECTION64_PATH";
    type Device = DeviceName;
    type Launch = Launch;
    type Ran = Ran;

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
    ) -> Result<Ran, Failure> {
        let memories = launch.memories.len();
        if contents.len() != memories + launch.variables.len() {
            return Err("a launch with other contents than it says".into());
        }
        let module = self.0.load(launch, image)?;
        built()?;
        let (memories, variables) = contents.split_at_mut(memories);
        Ok(Ran { is_moved: module.run(launch, memories, variables)? })
    }
}
