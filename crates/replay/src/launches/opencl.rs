//! Launches of OpenCL.

use tensortap_abi::ModuleKind;
use tensortap_format::{Module, Task};
use tensortap_launch_host::{LaunchError, Worker};
use tensortap_opencl_host::{Arg, DeviceName, Launch, Memory};

use super::choice::{Devices, by_wish};
use super::contents::{Contents, Gathered, Passed};
use super::{Door, Planned, Ran, worker_options};
use crate::{ArgReport, LaunchDevice, Placement, ReplayConfig, ReplayError};

/// Runs launches of OpenCL.
pub struct OpenCl {
    worker: Worker<tensortap_opencl_host::OpenCl>,
    wish: LaunchDevice,
    allow_variables: bool,
}

impl OpenCl {
    /// Starts a process that does. The error is in words.
    pub fn start(config: &ReplayConfig) -> Result<OpenCl, String> {
        let worker = Worker::start(worker_options(config))?;
        Ok(OpenCl { worker, wish: config.launch_device.clone(), allow_variables: config.allow_inexact })
    }
}

impl Door for OpenCl {
    type Launch = Launch;

    fn gather(
        contents: &Contents<'_>,
        task: Task<'_>,
        grades: &mut Vec<ArgReport>,
    ) -> Result<Result<Gathered, String>, ReplayError> {
        Gathered::of(contents, task, |_| false, false, grades)
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
        gathered: &Gathered,
        _: &mut Vec<ArgReport>,
    ) -> Result<Planned<Launch>, String> {
        let devices = self.devices();
        let device = by_wish("OpenCL", &devices, &self.wish, &module.device)?;
        let image_kind = match module.kind {
            // A dump without an index does not tell one from the other.
            ModuleKind::Unknown => ModuleKind::OpenClC,
            kind => kind,
        };
        let args = gathered.passed.iter().map(|passed| match passed {
            Passed::Value(bytes) => Arg::Value(bytes.clone()),
            Passed::Local(bytes) => Arg::Local(*bytes),
            Passed::Memory(_, part) => {
                Arg::Memory(Memory { memory: part.memory, offset: part.offset, bytes: part.bytes })
            }
            // Such a launch was refused.
            Passed::Nothing => Arg::Value(Vec::new()),
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
        Ok(Planned { launch, on, by_bits })
    }

    fn run(&mut self, launch: &Launch, image: &[u8], memories: &[Vec<u8>]) -> Result<Ran, LaunchError> {
        let (left, ()) = self.worker.launch(launch.clone(), image, memories)?;
        Ok(Ran { left, placement: Placement::Relocated, doubt: None })
    }
}

/// How the work is spread, without arguments.
fn spread(task: Task<'_>) -> Result<Launch, String> {
    let [kernel] = &task.kernel_names()[..] else {
        return Err("it launches not one kernel but several".into());
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
        return Err("the dump does not say how many work items it had".into());
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
