//! Memory that is used in order, from its beginning on: which part of it comes next.

use tensortap_abi::DeviceRange;

/// Bytes asked for at a time: few, so that little is lost if they are not used.
const STEP_BYTES: u64 = 256 << 10;

/// Names memory that one thread is about to use, a step ahead of it, so that somebody else can make its pages present. Once it
/// was used to its end nothing more is named: pages stay.
///
/// ```
/// use tensortap_abi::DeviceRange;
/// use tensortap_recorder::Ahead;
///
/// let mut ahead = Ahead::new(DeviceRange { addr: 1 << 20, bytes: 300 << 10 });
/// assert_eq!(ahead.used(0), Some(DeviceRange { addr: 1 << 20, bytes: 256 << 10 }));
/// assert_eq!(ahead.used(100 << 10), None);
/// assert_eq!(ahead.used(200 << 10), Some(DeviceRange { addr: (1 << 20) + (256 << 10), bytes: 44 << 10 }));
/// assert_eq!(ahead.used(300 << 10), None);
/// ```
#[derive(Debug)]
pub struct Ahead {
    range: DeviceRange,
    asked_bytes: u64,
}

impl Ahead {
    /// Of memory of which nothing was used yet.
    pub const fn new(range: DeviceRange) -> Ahead {
        Ahead { range, asked_bytes: 0 }
    }

    /// What to make present, now that so many bytes from the beginning are in use, or were. To be asked whenever there are more.
    #[inline]
    pub fn used(&mut self, bytes: u64) -> Option<DeviceRange> {
        let comes_close = bytes + STEP_BYTES / 2 > self.asked_bytes && self.asked_bytes < self.range.bytes;
        if comes_close { self.next_step(bytes) } else { None }
    }

    #[cold]
    fn next_step(&mut self, used_bytes: u64) -> Option<DeviceRange> {
        // What lies behind the user is present already.
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
    fn everything_is_named_once_and_before_it_is_used() {
        let mut ahead = Ahead::new(DeviceRange { addr: 64, bytes: 5 * STEP_BYTES / 2 });
        let named: Vec<_> = (0..3 * STEP_BYTES)
            .step_by(64)
            .filter_map(|used| ahead.used(used).map(|range| (used, range.addr - 64, range.bytes)))
            .collect();
        assert!(named.iter().all(|&(used, from, _)| used <= from), "{named:?}");
        let parts: Vec<_> = named.iter().map(|&(_, from, bytes)| (from, bytes)).collect();
        assert_eq!(parts, [(0, STEP_BYTES), (STEP_BYTES, STEP_BYTES), (2 * STEP_BYTES, STEP_BYTES / 2)]);
    }

    #[test]
    fn whoever_is_far_ahead_already_is_not_told_of_what_lies_behind() {
        let mut ahead = Ahead::new(DeviceRange { addr: 0, bytes: 100 * STEP_BYTES });
        let far = DeviceRange { addr: 50 * STEP_BYTES, bytes: STEP_BYTES };
        assert_eq!([ahead.used(50 * STEP_BYTES), ahead.used(50 * STEP_BYTES)], [Some(far), None]);
        assert_eq!(ahead.used(1000 * STEP_BYTES), None, "past the end");
    }
}
