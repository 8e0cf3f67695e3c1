//! Decides how many threads write how many payload files.

use std::{
    io,
    thread::available_parallelism,
    time::{Duration, Instant},
};

use super::{CACHED_BYTES, PayloadPath, PayloadWriter};
use crate::{MAX_WRITERS, memory::SharedRegion};

/// Maximum number of threads and files that are chosen without an option.
const MOST_CHOSEN: usize = 8;
/// The rate is measured over this many payload bytes.
const WINDOW_BYTES: u64 = 64 << 20;
/// A slower disk or file system, in bytes per second, does not become faster with more files.
const WORTHWHILE_RATE: u64 = 1 << 30;

/// Threads and files of a dump.
pub(crate) struct WriterPlan {
    path: PayloadPath,
    memory: SharedRegion,
    writers: usize,
    files: usize,
    growth: Option<Growth>,
}

/// More threads and files, for a dump that arrives faster than one thread can write it.
struct Growth {
    writers: usize,
    files: usize,
    rate: Rate,
}

impl WriterPlan {
    /// `writers` and `files` are the options; 0 means that the plan chooses.
    pub(crate) fn new(path: PayloadPath, memory: SharedRegion, writers: usize, files: usize) -> WriterPlan {
        let cpus = available_parallelism().map_or(1, usize::from);
        let (chosen, later) = choose(writers.min(MAX_WRITERS), files.min(MAX_WRITERS), cpus);
        let growth =
            later.map(|(writers, files)| Growth { writers, files, rate: Rate::starting(Instant::now()) });
        WriterPlan { path, memory, writers: chosen.0, files: chosen.1, growth }
    }

    /// Number of threads.
    pub(crate) fn writers(&self) -> usize {
        self.writers
    }

    /// Number of payload files.
    pub(crate) fn files(&self) -> usize {
        self.files
    }

    /// The writer with its threads.
    pub(crate) fn start(&self) -> io::Result<Box<dyn PayloadWriter + Send>> {
        self.path.writer_with(self.writers, &self.memory)
    }

    /// The time, if the duration of writes matters to the plan.
    pub(crate) fn clock(&self) -> Option<Instant> {
        self.growth.as_ref().map(|_| Instant::now())
    }

    /// Notes payload bytes and since when they were being written. Returns whether the plan has changed.
    pub(crate) fn wrote(&mut self, bytes: u64, since: Option<Instant>) -> bool {
        let (Some(growth), Some(since)) = (&mut self.growth, since) else { return false };
        let now = Instant::now();
        if !growth.rate.wrote(bytes, now - since, now) {
            return false;
        }
        (self.writers, self.files) = (growth.writers, growth.files);
        self.growth = None;
        true
    }
}

type ThreadsAndFiles = (usize, usize);

/// Threads and files at the start, and for a fast dump.
fn choose(writers: usize, files: usize, cpus: usize) -> (ThreadsAndFiles, Option<ThreadsAndFiles>) {
    // The program, or the device, needs CPUs too.
    let free = (cpus / 2).clamp(1, MOST_CHOSEN);
    match (writers, files) {
        (0, 0) => ((1, 1), (free > 1).then_some((free, free))),
        (0, files) => ((free.min(files), files), None),
        (writers, 0) => ((writers, 1), (writers > 1).then_some((writers, writers))),
        fixed => (fixed, None),
    }
}

/// Measures how much of the time is spent writing, and how fast.
struct Rate {
    bytes: u64,
    window_bytes: u64,
    window_start: Instant,
    busy: Duration,
}

impl Rate {
    fn starting(now: Instant) -> Rate {
        Rate { bytes: 0, window_bytes: 0, window_start: now, busy: Duration::ZERO }
    }

    /// Notes a write. Returns whether several threads and files are worthwhile: the dump is large, one thread spends
    /// most of its time writing, and the file system is fast.
    fn wrote(&mut self, bytes: u64, took: Duration, now: Instant) -> bool {
        self.bytes += bytes;
        self.window_bytes += bytes;
        self.busy += took;
        if self.window_bytes < WINDOW_BYTES {
            return false;
        }
        let is_busy = self.busy * 2 >= now.saturating_duration_since(self.window_start);
        let at_rate = Duration::from_nanos(self.window_bytes.saturating_mul(1_000_000_000) / WORTHWHILE_RATE);
        let is_fast = self.busy <= at_rate;
        (self.window_bytes, self.window_start, self.busy) = (0, now, Duration::ZERO);
        self.bytes >= CACHED_BYTES && is_busy && is_fast
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_fixed_and_the_rest_follows_the_cpus() {
        for (writers, files, cpus, start, later) in [
            (0, 0, 2, (1, 1), None),
            (0, 0, 16, (1, 1), Some((8, 8))),
            (0, 0, 64, (1, 1), Some((8, 8))),
            (0, 1, 16, (1, 1), None),
            (0, 4, 16, (4, 4), None),
            (0, 4, 2, (1, 4), None),
            (3, 0, 2, (3, 1), Some((3, 3))),
            (1, 0, 16, (1, 1), None),
            (3, 2, 16, (3, 2), None),
        ] {
            assert_eq!(choose(writers, files, cpus), (start, later), "{writers} {files} {cpus}");
        }
    }

    /// The number of MiB after which more threads are worthwhile, of 1 GiB in writes of 1 MiB.
    fn grows_after(write: Duration, pause: Duration) -> Option<u64> {
        let mut now = Instant::now();
        let mut rate = Rate::starting(now);
        (1..=1024).find(|_| {
            now += write + pause;
            rate.wrote(1 << 20, write, now)
        })
    }

    #[test]
    fn a_large_dump_at_a_high_rate_gets_more_files() {
        let micros = Duration::from_micros;
        assert_eq!(grows_after(micros(400), micros(100)), Some(256), "2.5 GB/s, always busy");
        assert_eq!(grows_after(micros(400), micros(600)), None, "idle most of the time");
        assert_eq!(grows_after(micros(2000), micros(0)), None, "the disk is slow");
    }
}
