//! The host's side of a launch: prepares device memory and launch arguments, waits, and reads the result.

mod dump;
mod failure;
mod guard;
mod launch;
mod plan;
mod tasks;

pub use dump::{DumpSession, HostGraph, HostNames, HostScope, InFlightTask, RegionPlan, recording_threads};
pub use failure::{RunError, RunFailure};
pub use guard::GuardOptions;
pub use launch::{DeviceReport, Phase, Progress, execute};
pub use plan::{DEFAULT_RING_SLOTS, Fault, LaunchOptions, MAX_RING_SLOTS, Plan};
pub use tasks::{CallOptions, PlacedTask, TasksReport, execute_tasks};
