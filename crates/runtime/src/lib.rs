//! Runs task graphs: the device program with its scheduler, the runtimes that build graphs, and the host's side of a
//! launch.
//!
//! `unsafe` lives in `device/memory.rs` (structs in device memory), `device/cores.rs` (the call of a kernel),
//! `device/call.rs` (names that a debugger looks for) and `device/crash.rs` (what a signal handler stores).

mod device;
#[doc(hidden)]
pub mod drive;
mod host;
mod place;
mod runtimes;

pub use device::{Cores, GraphProgram, NoHooks, Scheduler, TaskHooks, exit_on_crash_in_thread_mode};
pub use host::{
    CallOptions, DEFAULT_RING_SLOTS, DeviceReport, DumpSession, Fault, InFlightTask, LaunchOptions, Phase,
    PlacedTask, Plan, Progress, RegionPlan, RunError, RunFailure, TasksReport, execute, execute_tasks,
    recording_threads,
};
pub use runtimes::{BuildMode, RUNTIMES, Runtime, find};
