//! Runs single launches on OpenCL devices, in processes of their own.
//!
//! | module | does |
//! | --- | --- |
//! | `library` | the functions of a `libOpenCL` that is found at run time, and nothing of OpenCL to build with |
//! | `host` | devices, programs, buffers and launches over them, without a pointer |
//! | `message` | what crosses between a process that wants a launch and the worker that runs it |
//! | `worker` | both ends of that: [`Worker`] asks, [`become_opencl_worker_if_asked`] answers |
//!
//! What is run may come out of a dump that nobody vouches for, and a driver has to read and write files, compile and start threads, so it
//! cannot be confined as our own devices are. It runs in a worker, which is this very executable started again: whatever crashes or
//! hangs there does so alone, and is told. The worker can gain no privileges, and records nothing of itself.
//!
//! The crate knows no dump: a [`Launch`] says all there is.
#![deny(unsafe_code)]

mod host;
mod library;
mod message;
mod worker;

pub use message::{Arg, DeviceName, Launch, Memory};
pub use worker::{LaunchError, Worker, WorkerOptions, become_opencl_worker_if_asked};
