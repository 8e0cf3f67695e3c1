//! Runs single launches on CUDA devices, in worker processes.
//!
//! | module | does |
//! | --- | --- |
//! | `library` | loads the CUDA driver |
//! | `host` | devices, images and launches |
//! | `memory` | memory of a launch, at its captured addresses or relocated |
//! | `message` | messages between client and worker |
//! | `worker` | [`Cuda`], the driver inside a worker (see `tensortap-launch-host`) |
//!
//! An invalid memory access ends the worker's context, and with it the worker. This is reported.
//!
//! The crate knows no dump: a [`Launch`] describes everything.
#![deny(unsafe_code)]

mod host;
mod library;
mod memory;
mod message;
mod worker;

pub use message::{DeviceName, Launch, Pointer, Span, Target};
pub use worker::{Cuda, LaunchOutcome};
