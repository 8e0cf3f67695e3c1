//! The host's side of a launch: memory, launch arguments, waiting, and what came of it.

mod dump;
mod failure;
mod guard;
mod launch;
mod plan;
mod tasks;

pub use dump::{DumpSession, HostGraph, HostNames, HostScope, InFlightTask, RegionPlan, recording_threads};
pub use failure::{RunError, RunFailure};
pub use guard::Guarding;
pub use launch::{DeviceReport, Phase, Progress, execute};
pub use plan::{DEFAULT_RING_SLOTS, Fault, LaunchOptions, MAX_RING_SLOTS, Plan};
pub use tasks::{CallOptions, PlacedTask, TasksReport, execute_tasks};
