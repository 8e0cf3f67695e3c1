//! Runs single launches in a worker process. A [`Driver`] uses a device inside the worker; a [`Worker`] sends
//! launches to it.
//!
//! Launches may come from untrusted dumps. A GPU driver reads and writes files, compiles code and starts
//! threads, so it cannot be confined like a simulated device. Launches therefore run in a separate process,
//! which is this executable started again: a crash or hang stays there and is reported. The worker cannot
//! gain privileges and is not recorded.
#![forbid(unsafe_code)]

mod client;
mod worker;

use std::process::Command;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub use client::{LaunchError, Worker, WorkerOptions};
pub use worker::become_worker_if_asked;

/// A kind of device, as used inside a worker.
pub trait Driver: Sized {
    /// Name for messages.
    const NAME: &'static str;
    /// Environment variable that makes a process a worker.
    const WORKER_VARIABLE: &'static str;
    /// Environment variable that injects the recorder into programs of this kind. It is removed for the
    /// worker.
    const INJECTING_VARIABLE: &'static str;
    /// Name of a device.
    type Device: Clone + Serialize + DeserializeOwned;
    /// One launch. The image of its code and the content of its memory are sent with it.
    type Launch: Serialize + DeserializeOwned;
    /// Facts about a launch that ran, besides the content of its memory.
    type Outcome: Serialize + DeserializeOwned;

    /// Adjusts the command that starts the worker.
    fn prepare(_: &mut Command) {}

    /// Opens the devices.
    ///
    /// # Errors
    /// A message for the user: no library, or no device.
    fn open() -> Result<Self, String>;

    /// The devices, in the driver's order.
    fn devices(&self) -> Vec<Self::Device>;

    /// Runs a launch and replaces each content with the content after it. `built` is called when the code is
    /// loaded; the time from then on is the kernel's.
    ///
    /// # Errors
    /// Why it did not complete.
    fn launch(
        &mut self,
        launch: &Self::Launch,
        image: Vec<u8>,
        contents: &mut [Vec<u8>],
        built: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<Self::Outcome, Failure>;
}

/// Why a launch failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It did not run.
    NotRun(String),
    /// It ran, and its process is now unusable.
    Crashed(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure::NotRun(why)
    }
}

impl From<&str> for Failure {
    fn from(why: &str) -> Failure {
        Failure::NotRun(why.into())
    }
}

/// A request to the worker. Byte strings follow it.
#[derive(Debug, Serialize, Deserialize)]
enum Request<L> {
    /// Asks for the devices.
    Devices,
    /// Runs a launch. The image follows, then each content.
    Launch(L),
}

/// A response of the worker. Byte strings follow it.
#[derive(Debug, Serialize, Deserialize)]
enum Response<D, R> {
    Devices(Vec<D>),
    /// The code is loaded. The time from now on is the kernel's.
    Built,
    /// Each content follows.
    Ran(R),
    /// It did not run.
    Failed(String),
    /// It ran, and the worker is now unusable.
    Crashed(String),
}
