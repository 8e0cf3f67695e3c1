//! Runs task graphs: the device program with its scheduler, the runtimes that build graphs, and the host's side of a
//! launch. It knows no scene by name and no command line: scenes come in a `Registry`, options in [`LaunchOptions`].
//!
//! ```
//! use std::sync::Arc;
//! use tensortap_platform::{DeviceMode, DeviceOptions};
//! use tensortap_runtime::{BuildMode, DEFAULT_RING_SLOTS, GraphProgram, Guarding, LaunchOptions, execute};
//! use tensortap_scene::Registry;
//! # use tensortap_scene::KernelArg::{In, Out};
//! # use tensortap_abi::{CoreType, DType};
//! # use tensortap_scene::{
//! #     ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params, RefTask, Scene,
//! #     kernel_entry,
//! # };
//! #
//! # struct Double;
//! #
//! # impl KernelBody for Double {
//! #     fn run(args: &Args) {
//! #         let doubled: Vec<f32> = args.tensor(0).load::<f32>().iter().map(|x| x + x).collect();
//! #         args.tensor(1).store(&doubled);
//! #     }
//! # }
//! #
//! # fn double_reference(task: &mut RefTask) {
//! #     let twice = task.tensors[0].values.iter().map(|x| x * 2.0).collect();
//! #     task.tensors[1].values = twice;
//! # }
//! #
//! # const DOUBLE: KernelDef = KernelDef {
//! #     func_id: 0,
//! #     name: "double",
//! #     core_type: CoreType::Aiv,
//! #     signature: &[In("x"), Out("doubled")],
//! #     entry: kernel_entry::<Double>,
//! #     reference: Some(&double_reference),
//! #     tolerance: None,
//! #     faults: &[],
//! # };
//! #
//! # // `y = 4x`, in two tasks.
//! # struct Fourfold;
//! #
//! # impl Scene for Fourfold {
//! #     fn name(&self) -> &'static str {
//! #         "fourfold"
//! #     }
//! #     fn about(&self) -> &'static str {
//! #         "y = 4x, in two tasks"
//! #     }
//! #     fn params(&self) -> &'static [ParamSpec] {
//! #         &[]
//! #     }
//! #     fn kernels(&self) -> &'static [KernelDef] {
//! #         const { &[DOUBLE] }
//! #     }
//! #     fn args(&self, _: &Params) -> Vec<ArgSpec> {
//! #         vec![ArgSpec::input("x", DType::Float32, &[3]), ArgSpec::output("y", DType::Float32, &[3])]
//! #     }
//! #     fn fill(&self, _: &Params, args: &mut HostArgs) {
//! #         args.get_mut("x").set(&[1.0_f32, 2.0, 3.0]);
//! #     }
//! #     fn orchestrate(&self, o: &mut Orch<'_>, _: &Params) -> Result<(), GraphError> {
//! #         let (x, y, half_way) = (o.arg("x")?, o.arg("y")?, o.tensor(DType::Float32, &[3])?);
//! #         let first = o.task(&DOUBLE).input(&x).output(&half_way).submit()?;
//! #         o.task(&DOUBLE).input(&half_way).output(&y).after(first).submit()?;
//! #         Ok(())
//! #     }
//! #     fn golden(&self, _: &Params, _: &HostArgs) -> Option<Vec<HostTensor>> {
//! #         Some(vec![HostTensor::new("y", &[3], &[4.0_f32, 8.0, 12.0])])
//! #     }
//! # }
//!
//! // A scene of two tasks that make y = 4x.
//! let params = Params::resolve("fourfold", Fourfold.params(), [])?;
//! let mut options = DeviceOptions::new(Arc::new(GraphProgram::new(Registry::new(&[&Fourfold]))));
//! options.mode = DeviceMode::Thread;
//! options.memory_bytes = Some(1 << 30);
//! let mut device = tensortap_platform::find("a5sim")?.open(&options)?;
//! let launch = LaunchOptions {
//!     blocks: 1,
//!     schedulers: 1,
//!     build: BuildMode::default(),
//!     ring_slots: DEFAULT_RING_SLOTS,
//!     ring_heap_bytes: Some(1 << 20),
//!     stall_timeout: None,
//!     fault: None,
//!     poison: None,
//!     guarding: Guarding::default(),
//! };
//! for runtime in tensortap_runtime::RUNTIMES {
//!     let inputs = Fourfold.host_args(&params);
//!     let report = execute(&mut *device, &Fourfold, &params, *runtime, launch, &inputs, None, &mut |_| true)?;
//!     assert_eq!(report.progress.completed, 2);
//!     assert_eq!(Some(report.outputs), Fourfold.golden(&params, &inputs));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `unsafe` lives in `device/memory.rs` (structs in device memory), `device/cores.rs` (the call of a kernel),
//! `device/call.rs` (names that a debugger looks for), `device/crash.rs` (what a signal handler stores) and
//! `device/guard.rs` (what lies around tensors).

mod device;
#[doc(hidden)]
pub mod drive;
mod host;
mod overrun;
mod runtimes;
mod whereabouts;

pub use device::{
    Cores, Finished, GraphProgram, NoHooks, Scheduler, TaskHooks, exit_on_crash_in_thread_mode,
};
pub use host::{
    CallOptions, DEFAULT_RING_SLOTS, DeviceReport, DumpSession, Fault, Guarding, HostGraph, HostNames,
    HostScope, InFlightTask, LaunchOptions, MAX_RING_SLOTS, Phase, PlacedTask, Plan, Progress, RegionPlan,
    RunError, RunFailure, TasksReport, execute, execute_tasks, recording_threads,
};
pub use overrun::Overrun;
pub use runtimes::{BuildMode, RUNTIMES, Runtime, find};
