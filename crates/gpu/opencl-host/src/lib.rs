//! Runs single launches on OpenCL devices, in worker processes.
//!
//! | module | does |
//! | --- | --- |
//! | `library` | loads OpenCL |
//! | `host` | devices, programs, buffers and launches |
//! | `message` | messages between client and worker |
//! | `worker` | [`OpenCl`], the driver inside a worker (see `tensortap-launch-host`) |
//!
//! The crate knows no dump: a [`Launch`] describes everything.
#![deny(unsafe_code)]

mod host;
mod library;
mod message;
mod worker;

pub use message::{Arg, DeviceName, Launch, Memory};
pub use worker::OpenCl;
