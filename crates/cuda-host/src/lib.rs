//! Runs single launches on CUDA devices, in processes of their own.
//!
//! | module | does |
//! | --- | --- |
//! | `library` | the functions of a `libcuda` that is found at run time, and nothing of CUDA to build with |
//! | `host` | devices, images of code and launches over them, without a pointer |
//! | `image` | what an image has, without loading it |
//! | `memory` | memory of a launch, back where it was or moved |
//! | `message` | what a process that wants a launch says to the worker that runs it |
//! | `worker` | [`Cuda`], which workers have (`tensortap-launch-host`) |
//!
//! A launch that touches what it may not ends its worker's context and with it the worker, and is told.
//!
//! The crate knows no dump: a [`Launch`] says all there is.
#![deny(unsafe_code)]

mod host;
mod image;
mod library;
mod memory;
mod message;
mod worker;

pub use image::{has_kernel, has_variables};
pub use message::{DeviceName, Launch, Pointer, Span, Target};
pub use worker::{Cuda, Ran};
