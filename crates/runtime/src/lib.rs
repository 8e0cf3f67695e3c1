//! Runs task graphs: the device program with its scheduler, the runtimes that build graphs, and the host's side of a
//! launch.
//!
//! `unsafe` lives in `device/memory.rs` (structs in device memory), `device/cores.rs` (the call of a kernel) and
//! `device/crash.rs` (what a signal handler stores).

mod device;
#[doc(hidden)]
pub mod drive;
mod host;
mod runtimes;

pub use device::{Cores, GraphProgram, NoHooks, Scheduler, TaskHooks};
pub use host::{
    DEFAULT_RING_SLOTS, DeviceReport, DumpSession, Fault, InFlightTask, LaunchOptions, Phase, Plan, Progress,
    RegionPlan, RunError, RunFailure, execute, recording_threads,
};
pub use runtimes::{BuildMode, RUNTIMES, Runtime, find};
