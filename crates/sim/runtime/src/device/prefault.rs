//! Prefaults device memory that will be used soon, in a separate thread. So threads on the critical path do
//! not wait while the system clears pages.
//!
//! Code that uses memory in order announces ranges ahead of time
//! ([`PageAdvice`](tensortap_recorder::PageAdvice)). This is only an optimization. Memory that was not
//! prefaulted in time faults in when it is touched.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tensortap_abi::DeviceRange;
use tensortap_platform::DeviceMemory;

/// Limit on waiting ranges. If the queue is full, the users of the memory are faster than this thread, and
/// further requests are dropped.
const MOST_WAITING: usize = 64;

/// The queue of ranges, for one thread that prefaults them.
pub struct Prefaulter {
    memory: DeviceMemory,
    wanted: Mutex<PrefaultQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct PrefaultQueue {
    ranges: VecDeque<DeviceRange>,
    is_stopped: bool,
}

impl Prefaulter {
    /// Creates an empty queue for this memory.
    pub fn new(memory: DeviceMemory) -> Prefaulter {
        Prefaulter { memory, wanted: Mutex::default(), changed: Condvar::new() }
    }

    /// Requests a range that will be written soon.
    pub fn request(&self, range: DeviceRange) {
        let mut wanted = self.lock();
        if range.bytes > 0 && wanted.ranges.len() < MOST_WAITING {
            wanted.ranges.push_back(range);
            self.changed.notify_one();
        }
    }

    /// Prefaults requested ranges until [`Self::stop`].
    pub fn serve(&self) {
        while let Some(range) = self.next() {
            self.memory.populate(range);
        }
    }

    /// Stops the thread. Ranges that are still waiting are dropped.
    pub fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    fn next(&self) -> Option<DeviceRange> {
        let mut wanted = self.lock();
        while !wanted.is_stopped {
            if let Some(range) = wanted.ranges.pop_front() {
                return Some(range);
            }
            wanted = self.changed.wait(wanted).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, PrefaultQueue> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(prefaulter: &Prefaulter) -> Vec<(u64, u64)> {
        prefaulter.lock().ranges.drain(..).map(|range| (range.addr, range.bytes)).collect()
    }

    /// Resident bytes of the mapping that contains an address.
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
    fn exactly_the_requested_pages_become_resident() {
        const SERVED: u64 = 4 << 20;
        // Large enough that the allocator creates a separate mapping.
        let memory = DeviceMemory::detached(64 << 20);
        let prefaulter = Prefaulter::new(memory);
        let before = present_bytes(memory.base());
        prefaulter.request(DeviceRange { addr: memory.base() + SERVED, bytes: SERVED });
        std::thread::scope(|scope| {
            let server = scope.spawn(|| prefaulter.serve());
            while !prefaulter.lock().ranges.is_empty() {
                std::thread::yield_now();
            }
            prefaulter.stop();
            server.join().unwrap();
        });
        let made = present_bytes(memory.base()) - before;
        assert!((SERVED..2 * SERVED).contains(&made), "{made} bytes");
    }

    #[test]
    fn requests_are_served_until_the_stop() {
        let prefaulter = Prefaulter::new(DeviceMemory::detached(1 << 20));
        let base = prefaulter.memory.base();
        (0..4).for_each(|part| prefaulter.request(DeviceRange { addr: base + (part << 18), bytes: 1 << 18 }));
        std::thread::scope(|scope| {
            let server = scope.spawn(|| prefaulter.serve());
            while !prefaulter.lock().ranges.is_empty() {
                std::thread::yield_now();
            }
            prefaulter.stop();
            server.join().unwrap();
        });
        prefaulter.request(DeviceRange { addr: base, bytes: 64 });
        prefaulter.serve();
        assert_eq!(waiting(&prefaulter), [(base, 64)], "nothing is prefaulted after the stop");
        (0..2 * MOST_WAITING).for_each(|_| prefaulter.request(DeviceRange { addr: base, bytes: 64 }));
        assert_eq!(waiting(&prefaulter).len(), MOST_WAITING);
    }
}
