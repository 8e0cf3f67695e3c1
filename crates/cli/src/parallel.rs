//! How many threads share the work.

use std::num::NonZeroUsize;
use std::thread;

use clap::Args;

/// How many threads work.
#[derive(Args, Clone, Copy)]
pub struct JobsArg {
    /// Threads that read and compute [default: one for each CPU]
    #[arg(long, short, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

impl JobsArg {
    /// The number.
    pub fn get(self) -> usize {
        self.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
    }
}
