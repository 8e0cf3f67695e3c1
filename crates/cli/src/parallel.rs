//! How many threads share the work.

use std::num::NonZeroUsize;
use std::thread;

use clap::Args;

use crate::parse::whole;

/// How many threads work.
#[derive(Args, Clone, Copy)]
pub struct JobsArg {
    /// Threads that read and compute [default: one for each CPU]
    #[arg(long, short, value_name = "N", value_parser = whole(1..=1024_usize))]
    jobs: Option<usize>,
}

impl JobsArg {
    /// The number.
    pub fn get(self) -> usize {
        self.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZeroUsize::get))
    }
}
