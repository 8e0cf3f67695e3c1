//! The device program: everything that runs on the device during a launch.

mod adapt;
mod call;
mod capture;
pub(crate) mod cores;
mod crash;
pub(crate) mod guard;
pub(crate) mod memory;
mod monitor;
pub(crate) mod prefault;
pub(crate) mod program;
pub(crate) mod race;
pub(crate) mod reclaim;
pub(crate) mod run;
pub(crate) mod scheduler;

pub use crash::exit_on_crash_in_thread_mode;
pub use program::GraphProgram;
pub use scheduler::{Cores, FinishedDispatch, NoHooks, Scheduler, TaskHooks};
