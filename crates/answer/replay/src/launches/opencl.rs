//! Replays OpenCL launches.

use tensortap_abi::ModuleKind;
use tensortap_format::{Module, Task};
use tensortap_launch_host::{LaunchError, Worker};
use tensortap_opencl_host::{Arg, DeviceName, Launch, Memory};

use super::choice::{Devices, choose_device};
use super::contents::{Contents, LaunchArg, LaunchInputs};
use super::{LaunchBackend, LaunchPlan, LaunchResult, worker_options};
use crate::{ArgReport, LaunchDevice, Placement, ReplayConfig, ReplayError};

/// The OpenCL backend.
pub struct OpenCl {
    worker: Worker<tensortap_opencl_host::OpenCl>,
    wanted: LaunchDevice,
    allow_variables: bool,
}

impl OpenCl {
    /// Starts the worker process. The error is a message for the user.
    pub fn start(config: &ReplayConfig) -> Result<OpenCl, String> {
        let worker = Worker::start(worker_options(config))?;
        Ok(OpenCl { worker, wanted: config.launch_device.clone(), allow_variables: config.allow_inexact })
    }
}

impl LaunchBackend for OpenCl {
    type Launch = Launch;

    fn gather(
        contents: &Contents<'_>,
        task: Task<'_>,
        grades: &mut Vec<ArgReport>,
    ) -> Result<Result<LaunchInputs, String>, ReplayError> {
        LaunchInputs::of(contents, task, |_| false, false, grades)
    }

    fn devices(&self) -> Devices {
        let devices = self.worker.devices();
        let searched = devices.iter().map(|d| format!("{} / {}", d.platform, d.text()));
        Devices { names: devices.iter().map(DeviceName::text).collect(), searched: searched.collect() }
    }

    fn plan(
        &self,
        _: &Contents<'_>,
        task: Task<'_>,
        module: &Module,
        _: &[u8],
        inputs: &LaunchInputs,
        _: &mut Vec<ArgReport>,
    ) -> Result<LaunchPlan<Launch>, String> {
        let devices = self.devices();
        let device = choose_device("OpenCL", &devices, &self.wanted, &module.device)?;
        let image_kind = match module.kind {
            // A dump without an index does not have the kind of an image.
            ModuleKind::Unknown => ModuleKind::OpenClC,
            kind => kind,
        };
        let args = inputs.args.iter().map(|passed| match passed {
            LaunchArg::Value(bytes) => Arg::Value(bytes.clone()),
            LaunchArg::Local(bytes) => Arg::Local(*bytes),
            LaunchArg::Memory(_, part) => {
                Arg::Memory(Memory { memory: part.memory, offset: part.offset, bytes: part.bytes })
            }
            // A launch with unknown arguments was refused.
            LaunchArg::Unknown => Arg::Value(Vec::new()),
        });
        let launch = Launch {
            device,
            image_kind: image_kind as u8,
            options: module.options.clone(),
            args: args.collect(),
            allow_variables: self.allow_variables,
            ..spread(task)?
        };
        let on = devices.names[device].clone();
        let by_bits = on == module.device;
        Ok(LaunchPlan { launch, on, by_bits })
    }

    fn run(
        &mut self,
        launch: &Launch,
        image: &[u8],
        memories: &[Vec<u8>],
    ) -> Result<LaunchResult, LaunchError> {
        let (left, ()) = self.worker.launch(launch.clone(), image, memories)?;
        Ok(LaunchResult { left, placement: Placement::Relocated, doubt: None })
    }
}

/// The grid of a launch, without arguments.
fn spread(task: Task<'_>) -> Result<Launch, String> {
    let [kernel] = &task.kernel_names()[..] else {
        return Err("it launches several kernels instead of one".into());
    };
    let launch = task.launch.as_deref().copied().unwrap_or_default();
    let known = |sizes: [u64; 3]| sizes.iter().any(|&size| size != 0);
    let group = launch.group.map(u64::from);
    let global_size = if known(launch.global_size) {
        launch.global_size
    } else {
        let product = |at: usize| u64::from(launch.grid[at]) * group[at];
        [product(0), product(1), product(2)]
    };
    let last_used = (0..3).rev().find(|&at| global_size[at] > 1).map_or(1, |at| at + 1);
    let work_dims = match launch.work_dims {
        0 => u32::try_from(last_used).unwrap_or(3),
        dims => dims.into(),
    };
    if global_size[0] == 0 {
        return Err("the dump does not have its number of work items".into());
    }
    Ok(Launch {
        device: 0,
        image_kind: 0,
        options: String::new(),
        kernel: kernel.clone(),
        work_dims,
        global_size,
        global_offset: launch.global_offset,
        group: known(group).then_some(group),
        args: Vec::new(),
        allow_variables: false,
    })
}
