//! Runs captured tasks again, one by one, with the arguments they were given, and holds what they write against what
//! they wrote; cuts single tasks out into cases that can be replayed anywhere.
//!
//! | module | does |
//! | --- | --- |
//! | `capture`, `dump_capture`, `case_capture`, `open` | what is known of a captured task, from a dump or a case |
//! | `given`, `foreign`, `program` | kernels from the user's libraries; dumps of another project and of programs, which need them |
//! | `item` | kernels found, arguments graded, memory counted: what can be run and what must be refused |
//! | `spans`, `strided`, `image` | which bytes a task touches, and how content gets there and back |
//! | `batch`, `launch`, `engine` | many tasks in one launch, several devices, tasks that take a device down |
//! | `launches` | launches of OpenCL and CUDA, with the programs that a dump keeps, on devices of this machine |
//! | `judge`, `check`, `expect` | outputs against captured ones, or against the references of the kernels |
//! | `extract`, `case_file`, `case_writer`, `libraries`, `noise` | cases |
//!
//! A task runs on the platform's device, with the scheduler and the cores of any other run; nothing is special about the
//! call of its kernels. Memory that nothing was captured of holds a pattern, so whoever reads it is seen. Dumps and
//! cases are untrusted: what contradicts itself is refused, and lengths are checked before memory is taken.
//!
//! The crate knows no scene by name and no terminal: kernels come in a `Registry`, findings leave in a
//! [`ReplayReport`]. The crate `tensortap` has runnable examples of [`replay`] and [`extract`], with a dump to begin
//! with.
#![forbid(unsafe_code)]

mod batch;
mod capture;
mod case_capture;
mod case_file;
mod case_writer;
mod check;
mod config;
mod dump_capture;
mod engine;
mod error;
mod expect;
mod extract;
mod foreign;
mod given;
mod image;
mod item;
mod judge;
mod launch;
mod launches;
mod libraries;
mod noise;
mod open;
mod program;
mod replay;
mod report;
mod spans;
mod strided;

pub use config::{
    CodeOf, DEFAULT_DEVICE_FAILURES, GiveKernels, KernelCode, OpenFolder, ReplayConfig, Selection,
};
pub use error::ReplayError;
pub use expect::Expect;
pub use extract::{ExtractConfig, ExtractReport, extract};
pub use foreign::FOREIGN_SCENE;
pub use launches::{LaunchDevice, become_launch_worker_if_asked, no_launch};
pub use replay::{OnOutput, ReplayProgress, replay};
pub use report::{
    ArgReport, Check, Difference, GivenReport, Grade, Outcome, OutputReport, Placement, ReplayReport,
    TaskReport, Timing,
};
