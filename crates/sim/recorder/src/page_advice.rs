//! Predicts which part of sequentially used memory will be written next.

use tensortap_abi::DeviceRange;

/// Bytes of one prediction. A small step loses little if the memory is not used.
const STEP_BYTES: u64 = 256 << 10;

/// Names memory that one thread is about to use, one step ahead, so that another thread can make its pages
/// present. After the memory was used to its end, nothing more is named, because the pages stay present.
///
/// ```
/// use tensortap_abi::DeviceRange;
/// use tensortap_recorder::PageAdvice;
///
/// let mut ahead = PageAdvice::new(DeviceRange { addr: 1 << 20, bytes: 300 << 10 });
/// assert_eq!(ahead.used(0), Some(DeviceRange { addr: 1 << 20, bytes: 256 << 10 }));
/// assert_eq!(ahead.used(100 << 10), None);
/// assert_eq!(ahead.used(200 << 10), Some(DeviceRange { addr: (1 << 20) + (256 << 10), bytes: 44 << 10 }));
/// assert_eq!(ahead.used(300 << 10), None);
/// ```
#[derive(Debug)]
pub struct PageAdvice {
    range: DeviceRange,
    asked_bytes: u64,
}

impl PageAdvice {
    /// For memory that is not used yet.
    pub const fn new(range: DeviceRange) -> PageAdvice {
        PageAdvice { range, asked_bytes: 0 }
    }

    /// The range to make present now that `bytes` bytes from the start are in use or were. Call it whenever
    /// that number grows.
    #[inline]
    pub fn used(&mut self, bytes: u64) -> Option<DeviceRange> {
        let comes_close = bytes + STEP_BYTES / 2 > self.asked_bytes && self.asked_bytes < self.range.bytes;
        if comes_close { self.next_step(bytes) } else { None }
    }

    #[cold]
    fn next_step(&mut self, used_bytes: u64) -> Option<DeviceRange> {
        // Pages before the used position are already present.
        let from = self.asked_bytes.max(used_bytes.min(self.range.bytes));
        let to = (from + STEP_BYTES).min(self.range.bytes);
        self.asked_bytes = to;
        (from < to).then(|| DeviceRange { addr: self.range.addr + from, bytes: to - from })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn every_page_is_named_once_and_before_its_use() {
        let mut ahead = PageAdvice::new(DeviceRange { addr: 64, bytes: 5 * STEP_BYTES / 2 });
        let named: Vec<_> = (0..3 * STEP_BYTES)
            .step_by(64)
            .filter_map(|used| ahead.used(used).map(|range| (used, range.addr - 64, range.bytes)))
            .collect();
        assert!(named.iter().all(|&(used, from, _)| used <= from), "{named:?}");
        let parts: Vec<_> = named.iter().map(|&(_, from, bytes)| (from, bytes)).collect();
        assert_eq!(parts, [(0, STEP_BYTES), (STEP_BYTES, STEP_BYTES), (2 * STEP_BYTES, STEP_BYTES / 2)]);
    }

    #[test]
    fn pages_before_the_current_position_are_not_named() {
        let mut ahead = PageAdvice::new(DeviceRange { addr: 0, bytes: 100 * STEP_BYTES });
        let far = DeviceRange { addr: 50 * STEP_BYTES, bytes: STEP_BYTES };
        assert_eq!([ahead.used(50 * STEP_BYTES), ahead.used(50 * STEP_BYTES)], [Some(far), None]);
        assert_eq!(ahead.used(1000 * STEP_BYTES), None, "past the end");
    }
}
