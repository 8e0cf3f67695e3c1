//! Both ends of a worker that runs single launches: a process of its own, which a kind of device ([`Driver`]) is used in, and whoever wants launches ([`Worker`]).
//!
//! What is run may come out of a dump that nobody vouches for, and a driver reads and writes files, compiles and starts threads, so it cannot be confined as our
//! own devices are. It runs in a worker, which is this very executable started again: whatever crashes or hangs there does so alone, and is told. The worker can
//! gain no privileges, and records nothing of itself.
#![forbid(unsafe_code)]

mod ask;
mod serve;

use std::process::Command;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub use ask::{LaunchError, Worker, WorkerOptions};
pub use serve::become_worker_if_asked;

/// A kind of device whose launches are run in workers, as a worker has it.
pub trait Driver: Sized {
    /// What people call it.
    const NAME: &'static str;
    /// Set for a worker by whoever starts it.
    const WORKER_VARIABLE: &'static str;
    /// By what a program of its kind is recorded, and the worker itself would be.
    const INJECTING_VARIABLE: &'static str;
    /// What a device is called.
    type Device: Clone + Serialize + DeserializeOwned;
    /// One launch; the image of its code and contents of memory go with it.
    type Launch: Serialize + DeserializeOwned;
    /// What is known of a launch that ran, beside what it left.
    type Ran: Serialize + DeserializeOwned;

    /// Changes what a worker is started with.
    fn prepare(_: &mut Command) {}

    /// Finds all devices.
    ///
    /// # Errors
    /// In words: there is no library, no device.
    fn open() -> Result<Self, String>;

    /// The devices, in the order of the driver.
    fn devices(&self) -> Vec<Self::Device>;

    /// Runs a launch; each content is then as the launch left it. `built` is called when its code is there: what takes time from then on is the kernel.
    ///
    /// # Errors
    /// Why it did not run to its end.
    fn launch(
        &mut self,
        launch: &Self::Launch,
        image: Vec<u8>,
        contents: &mut [Vec<u8>],
        built: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<Self::Ran, Failure>;
}

/// Why a launch is no good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It was not run.
    NotRun(String),
    /// It ran, and nothing can be done in its process any more.
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

/// What is asked, of type `Launch`; bytes follow it.
#[derive(Debug, Serialize, Deserialize)]
enum Request<L> {
    /// Which devices there are.
    Devices,
    /// The image follows, then each content.
    Launch(L),
}

/// What is answered; bytes follow it.
#[derive(Debug, Serialize, Deserialize)]
enum Answer<D, R> {
    Devices(Vec<D>),
    /// The code is there: what takes time from now on is the kernel.
    Built,
    /// Each content follows.
    Ran(R),
    /// It was not run.
    Failed(String),
    /// It ran and has ended what it ran in, with which nothing can be done any more.
    Crashed(String),
}
