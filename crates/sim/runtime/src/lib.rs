//! Runs task graphs: builds the graph of a scene, schedules its tasks onto cores, and reports how the run
//! ended.
//!
//! The crate knows no scene by name and no command line. Scenes come in a `Registry` and options in
//! [`LaunchOptions`]. Its callers are the `tensortap` crate, which runs scenes with [`execute`], and the
//! `replay` crate, which runs single tasks with [`execute_tasks`].
//!
//! # Layout
//!
//! - `device/` runs on the device: [`GraphProgram`] starts the threads of a launch. `scheduler.rs` is generic
//!   over where dispatches run ([`Cores`]) and over hooks ([`TaskHooks`]). `capture.rs` implements the hooks
//!   of a run that is dumped. `run.rs` is the state that all threads share. `memory.rs` gives typed views of
//!   device memory. `monitor.rs` finds hangs and deadlocks.
//! - `runtimes/` has one module per runtime. A runtime decides where the graph is built, how its tasks are
//!   stored and where dependencies come from.
//! - `host/` prepares a launch in device memory, waits for its end, and turns the device's report into an
//!   error.
//!
//! # What must hold
//!
//! - **Kernels and orchestrations cross the process boundary by name.** `KernelArgs` holds numbers and
//!   addresses only. The device checks every name against its own registry.
//! - **The scheduler never touches tensor bytes.** Tasks move through it as slot numbers.
//! - **A task from a ready queue belongs to the scheduler that took it** until that scheduler puts it back.
//!   So only one scheduler calls `before_dispatch` for a task, and no lock is needed. Each scheduler has its
//!   own queues and takes from the queues of others if its own are empty. Between two steps a scheduler holds
//!   no task that it has no core for, so every other scheduler can see every ready task.
//! - **`after_completion` runs before a task counts as complete:** before successors are released, and before
//!   the slot or memory of the task can be reused.
//! - **`before_post` runs after a core's message is written and before it is posted.** So a recorded dispatch
//!   shows exactly what the kernel receives.
//! - **Hooks are a type parameter,** and [`NoHooks`] compiles to nothing.
//! - **A mailbox holds one message,** written by the scheduler that owns the core. A message never waits for a
//!   running kernel, so two tasks that wait for each other never share a core.
//! - **A slot is released by its last holder:** its execution, its scope, or a task that uses its memory. The
//!   tail of a ring moves in order.
//! - **If there are more runnable threads than CPUs, no thread spins.** Threads yield and then sleep on a
//!   futex. A waker makes a system call only if the other side has announced that it sleeps.
//! - **A failure is stored in device memory before the device dies:** task, kernel and core. The host reads
//!   it there.
//! - **Time that the dump takes never counts as a stall or deadlock.** Threads publish that they capture, and
//!   the clocks stop meanwhile.
//! - **The word `KernelArgs::dump_enable` says whether a run is dumped.** It is never inferred from an
//!   address.
//! - **Guarded tensors** are described by their address and `abi::GuardLayout`. The host places scene
//!   arguments and host-built graphs, and the device places everything else. Only the device protects, fills
//!   and checks memory around tensors; the host's mapping is never protected, so copies and captures still
//!   work. A launch without guards runs none of this code.
//!
//! # A new runtime
//!
//! Add a module and a line in [`RUNTIMES`]. Scenes name the kind of runtime that they need, so existing
//! scenes run on it. The conformance suites of the command line run every scene, fault and failure on every
//! runtime.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use tensortap_platform::{DeviceMode, DeviceOptions};
//! use tensortap_runtime::{BuildMode, DEFAULT_RING_SLOTS, GraphProgram, GuardOptions, LaunchOptions, execute};
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
//! #         let (x, y, doubled) = (o.arg("x")?, o.arg("y")?, o.tensor(DType::Float32, &[3])?);
//! #         let first = o.task(&DOUBLE).input(&x).output(&doubled).submit()?;
//! #         o.task(&DOUBLE).input(&doubled).output(&y).after(first).submit()?;
//! #         Ok(())
//! #     }
//! #     fn golden(&self, _: &Params, _: &HostArgs) -> Option<Vec<HostTensor>> {
//! #         Some(vec![HostTensor::new("y", &[3], &[4.0_f32, 8.0, 12.0])])
//! #     }
//! # }
//!
//! // A scene with two tasks that computes y = 4x.
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
//!     guarding: GuardOptions::default(),
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
//! # Unsafe code
//!
//! `device/memory.rs` (structs in device memory), `device/cores.rs` (calling a kernel), `device/adapt.rs`
//! (arguments for another kernel ABI), `device/call.rs` (symbols for debuggers), `device/crash.rs` (state for
//! the signal handler) and `device/guard.rs` (memory around tensors).

mod device;
#[doc(hidden)]
pub mod drive;
mod failure_site;
mod host;
mod overrun;
mod runtimes;

pub use device::{
    Cores, FinishedDispatch, GraphProgram, NoHooks, Scheduler, TaskHooks, exit_on_crash_in_thread_mode,
};
pub use host::{
    CallOptions, DEFAULT_RING_SLOTS, DeviceReport, DumpSession, Fault, GuardOptions, HostGraph, HostNames,
    HostScope, InFlightTask, LaunchOptions, MAX_RING_SLOTS, Phase, PlacedTask, Plan, Progress, RegionPlan,
    RunError, RunFailure, TasksReport, execute, execute_tasks, recording_threads,
};
pub use overrun::Overrun;
pub use runtimes::{BuildMode, RUNTIMES, Runtime, find};
