//! Replays captured tasks one at a time with their captured arguments, and compares their outputs with the
//! captured outputs. Also extracts single tasks into cases that can be replayed anywhere.
//!
//! | module | does |
//! | --- | --- |
//! | `capture`, `dump_capture`, `open` | a captured task, read from a dump or a case |
//! | `library_kernels`, `foreign`, `program` | kernels from the user's libraries; dumps of another project
//! and recorded programs, which need such kernels |
//! | `item` | finds kernels, grades arguments, counts memory; decides whether a task can run |
//! | `spans`, `strided`, `image` | which bytes a task touches; copies content to device memory and back |
//! | `batch`, `launch`, `engine` | many tasks in one launch, several devices, tasks that crash a device |
//! | `launches` | OpenCL and CUDA launches, with the programs stored in the dump, on devices of this machine
//! |
//! | `judge`, `check`, `expect` | compares outputs with captured ones, or with the references of the kernels
//! |
//! | `extract`, `case`, `case_writer`, `noise` | cases: dumps of one task with further facts |
//!
//! A task runs on the platform's device with the same scheduler and cores as any run; its kernels are called
//! in the same way. Memory without captured content holds a pattern, so that reading it shows up. Dumps and
//! cases are untrusted input: contradictory data is refused, and lengths are checked before memory is
//! allocated.
//!
//! The crate knows no scene by name and no terminal: kernels come from a `Registry`, results are returned as
//! a [`ReplayReport`]. The crate `tensortap` has runnable examples of [`replay`] and [`extract`] on a small
//! dump.
#![forbid(unsafe_code)]

mod batch;
mod capture;
mod case;
mod case_writer;
mod check;
mod config;
mod dump_capture;
mod engine;
mod error;
mod expect;
mod extract;
mod foreign;
mod image;
mod item;
mod judge;
mod launch;
mod launches;
mod library_kernels;
mod noise;
mod open;
mod program;
mod replay;
mod report;
mod spans;
mod strided;

pub use config::{
    CodeIdentity, DEFAULT_DEVICE_FAILURES, KernelCode, LoadKernels, OpenFolder, ReplayConfig, Selection,
};
pub use error::ReplayError;
pub use expect::ExpectedSource;
pub use extract::{ExtractConfig, ExtractReport, extract};
pub use foreign::FOREIGN_SCENE;
pub use launches::{LaunchDevice, become_launch_worker_if_asked, why_no_launch};
pub use replay::{OnOutput, ReplayProgress, replay};
pub use report::{
    ArgReport, Check, Difference, Grade, LibraryKernel, Outcome, OutputReport, Placement, ReplayReport,
    TaskReport, Timing,
};
