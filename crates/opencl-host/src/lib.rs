//! Runs single launches on OpenCL devices, in processes of their own.
//!
//! | module | does |
//! | --- | --- |
//! | `library` | the functions of a `libOpenCL` that is found at run time, and nothing of OpenCL to build with |
//! | `host` | devices, programs, buffers and launches over them, without a pointer |
//! | `message` | what a process that wants a launch says to the worker that runs it |
//! | `worker` | [`OpenCl`], which workers have (`tensortap-launch-host`) |
//!
//! The crate knows no dump: a [`Launch`] says all there is.
#![deny(unsafe_code)]

mod host;
mod library;
mod message;
mod worker;

pub use message::{Arg, DeviceName, Launch, Memory};
pub use worker::OpenCl;
