//! Device memory that is about to be used is made present by a thread of its own, so that those on the critical path do not
//! wait while the kernel clears a page.
//!
//! Who uses memory in order says so some way ahead ([`Ahead`](tensortap_recorder::Ahead)). Nothing depends on it: memory that was not made present in time, or
//! cannot be, becomes so when it is touched.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tensortap_abi::DeviceRange;
use tensortap_platform::DeviceMemory;

/// Ranges that may wait. Whoever asks for more has been overtaken by those who use it.
const MOST_WAITING: usize = 64;

/// What was asked for, and the thread that sees to it.
pub struct Pages {
    memory: DeviceMemory,
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Default)]
struct Wanted {
    ranges: VecDeque<DeviceRange>,
    is_over: bool,
}

impl Pages {
    /// Of a device's memory.
    pub fn new(memory: DeviceMemory) -> Pages {
        Pages { memory, wanted: Mutex::default(), changed: Condvar::new() }
    }

    /// Says that a range will be written soon.
    pub fn soon(&self, range: DeviceRange) {
        let mut wanted = self.lock();
        if range.bytes > 0 && wanted.ranges.len() < MOST_WAITING {
            wanted.ranges.push_back(range);
            self.changed.notify_one();
        }
    }

    /// Makes present what is asked for, until [`end`](Self::end).
    pub fn serve(&self) {
        while let Some(range) = self.next() {
            self.memory.populate(range);
        }
    }

    /// Ends it; what was asked for and not done is forgotten.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    fn next(&self) -> Option<DeviceRange> {
        let mut wanted = self.lock();
        while !wanted.is_over {
            if let Some(range) = wanted.ranges.pop_front() {
                return Some(range);
            }
            wanted = self.changed.wait(wanted).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(pages: &Pages) -> Vec<(u64, u64)> {
        pages.lock().ranges.drain(..).map(|range| (range.addr, range.bytes)).collect()
    }

    /// Bytes that are present of the mapping that an address lies in.
    fn present_bytes(addr: u64) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines().skip_while(|line| {
            let (first, last) =
                line.split_once(' ').unwrap_or_default().0.split_once('-').unwrap_or_default();
            let parse = |end| u64::from_str_radix(end, 16).unwrap_or(0);
            !(parse(first)..parse(last)).contains(&addr)
        });
        let present = lines.find_map(|line| line.strip_prefix("Rss:")).expect("a mapping");
        1024 * present.trim().strip_suffix(" kB").and_then(|kib| kib.parse::<u64>().ok()).expect("a number")
    }

    #[test]
    fn what_is_served_is_present_and_nothing_else() {
        const SERVED: u64 = 4 << 20;
        // So much that it is a mapping of its own.
        let memory = DeviceMemory::detached(64 << 20);
        let pages = Pages::new(memory);
        let before = present_bytes(memory.base());
        pages.soon(DeviceRange { addr: memory.base() + SERVED, bytes: SERVED });
        std::thread::scope(|scope| {
            let server = scope.spawn(|| pages.serve());
            while !pages.lock().ranges.is_empty() {
                std::thread::yield_now();
            }
            pages.end();
            server.join().unwrap();
        });
        let made = present_bytes(memory.base()) - before;
        assert!((SERVED..2 * SERVED).contains(&made), "{made} bytes");
    }

    #[test]
    fn ranges_are_served_until_the_end() {
        let pages = Pages::new(DeviceMemory::detached(1 << 20));
        let base = pages.memory.base();
        (0..4).for_each(|part| pages.soon(DeviceRange { addr: base + (part << 18), bytes: 1 << 18 }));
        std::thread::scope(|scope| {
            let server = scope.spawn(|| pages.serve());
            while !pages.lock().ranges.is_empty() {
                std::thread::yield_now();
            }
            pages.end();
            server.join().unwrap();
        });
        pages.soon(DeviceRange { addr: base, bytes: 64 });
        pages.serve();
        assert_eq!(waiting(&pages), [(base, 64)], "nothing is done after the end");
        (0..2 * MOST_WAITING).for_each(|_| pages.soon(DeviceRange { addr: base, bytes: 64 }));
        assert_eq!(waiting(&pages).len(), MOST_WAITING);
    }
}
