//! The allocator of device memory. Its tables are in the host's own memory, where a kernel cannot overwrite
//! them.

use std::collections::BTreeMap;

use tensortap_abi::{CACHE_LINE_BYTES, DeviceAddr, DeviceRange};

use crate::PlatformError;

const GRAIN_BYTES: u64 = CACHE_LINE_BYTES as u64;

/// A first-fit allocator over a list of free pieces, ordered by address.
///
/// Invariants: free and used pieces tile the range without overlap. No two free pieces touch. Every piece
/// starts and ends at a multiple of [`GRAIN_BYTES`].
#[derive(Debug)]
pub(crate) struct Allocator {
    capacity: u64,
    free: BTreeMap<DeviceAddr, u64>,
    used: BTreeMap<DeviceAddr, u64>,
}

impl Allocator {
    /// `range` must start and end at a multiple of [`GRAIN_BYTES`].
    pub(crate) fn new(range: DeviceRange) -> Allocator {
        debug_assert!(range.addr.is_multiple_of(GRAIN_BYTES) && range.bytes.is_multiple_of(GRAIN_BYTES));
        let free =
            if range.bytes == 0 { BTreeMap::new() } else { BTreeMap::from([(range.addr, range.bytes)]) };
        Allocator { capacity: range.bytes, free, used: BTreeMap::new() }
    }

    pub(crate) fn allocate(
        &mut self,
        bytes: u64,
        align: u64,
        what: &str,
    ) -> Result<DeviceAddr, PlatformError> {
        if !align.is_power_of_two() {
            return Err(PlatformError::BadAlignment { what: what.to_owned(), align });
        }
        let align = align.max(GRAIN_BYTES);
        let found = whole_grains(bytes).and_then(|grains| Some((self.first_fit(grains, align)?, grains)));
        let Some((fit, grains)) = found else {
            return Err(self.refusal(bytes, what));
        };
        self.carve(fit, grains);
        Ok(fit.addr)
    }

    /// Allocates the grains that contain `range`. Fails if any of them is in use or outside of device memory.
    pub(crate) fn allocate_at(
        &mut self,
        range: DeviceRange,
        what: &str,
    ) -> Result<DeviceAddr, PlatformError> {
        let refuse =
            || PlatformError::RangeInUse { what: what.to_owned(), addr: range.addr, bytes: range.bytes };
        let addr = range.addr - range.addr % GRAIN_BYTES;
        let end =
            range.addr.checked_add(range.bytes.max(1)).and_then(|e| e.checked_next_multiple_of(GRAIN_BYTES));
        let end = end.ok_or_else(refuse)?;
        let (&piece, &piece_bytes) = self.free.range(..=addr).next_back().ok_or_else(refuse)?;
        if end > piece + piece_bytes {
            return Err(refuse());
        }
        self.carve(Placement { piece, addr }, end - addr);
        Ok(addr)
    }

    pub(crate) fn free(&mut self, addr: DeviceAddr) -> Result<(), PlatformError> {
        let bytes = self.used.remove(&addr).ok_or(PlatformError::NotAllocated { addr })?;
        self.release(addr, bytes);
        Ok(())
    }

    fn first_fit(&self, bytes: u64, align: u64) -> Option<Placement> {
        self.free.iter().find_map(|(&piece, &piece_bytes)| {
            let addr = piece.checked_next_multiple_of(align)?;
            let end = addr.checked_add(bytes)?;
            (end <= piece + piece_bytes).then_some(Placement { piece, addr })
        })
    }

    fn carve(&mut self, fit: Placement, bytes: u64) {
        let Some(piece_bytes) = self.free.remove(&fit.piece) else { return };
        let before = fit.addr - fit.piece;
        let after = piece_bytes - before - bytes;
        if before > 0 {
            self.free.insert(fit.piece, before);
        }
        if after > 0 {
            self.free.insert(fit.addr + bytes, after);
        }
        self.used.insert(fit.addr, bytes);
    }

    fn release(&mut self, addr: DeviceAddr, bytes: u64) {
        let (mut start, mut end) = (addr, addr + bytes);
        if let Some((&previous, &previous_bytes)) = self.free.range(..addr).next_back()
            && previous + previous_bytes == addr
        {
            self.free.remove(&previous);
            start = previous;
        }
        if let Some(next_bytes) = self.free.remove(&end) {
            end += next_bytes;
        }
        self.free.insert(start, end - start);
    }

    fn refusal(&self, bytes: u64, what: &str) -> PlatformError {
        PlatformError::OutOfDeviceMemory {
            what: what.to_owned(),
            bytes,
            left: self.free.values().sum(),
            largest: self.free.values().copied().max().unwrap_or(0),
            capacity: self.capacity,
        }
    }
}

/// A free piece, and the aligned address inside it where the allocation starts.
#[derive(Clone, Copy)]
struct Placement {
    piece: DeviceAddr,
    addr: DeviceAddr,
}

/// An empty allocation takes one grain, so that no two allocations have the same address.
fn whole_grains(bytes: u64) -> Option<u64> {
    bytes.max(1).checked_next_multiple_of(GRAIN_BYTES)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BASE: u64 = 0x2000_0000_1000;
    const BYTES: u64 = 64 << 10;

    fn allocator() -> Allocator {
        Allocator::new(DeviceRange { addr: BASE, bytes: BYTES })
    }

    #[test]
    fn out_of_memory_error_names_the_use_the_sizes_and_the_option() {
        let mut allocator = allocator();
        allocator.allocate(BYTES - 128, 64, "weights").unwrap();
        let message = allocator.allocate(4096, 64, "task ring").unwrap_err().to_string();
        for part in ["task ring", "4096 bytes", "128 of 65536", "--device-memory"] {
            assert!(message.contains(part), "the message lacks `{part}`: {message}");
        }
    }

    #[test]
    fn freeing_twice_or_inside_an_allocation_is_refused() {
        let mut allocator = allocator();
        let addr = allocator.allocate(256, 64, "a").unwrap();
        assert!(matches!(allocator.free(addr + 64), Err(PlatformError::NotAllocated { .. })));
        allocator.free(addr).unwrap();
        assert!(matches!(allocator.free(addr), Err(PlatformError::NotAllocated { .. })));
    }

    #[test]
    fn allocate_at_takes_whole_grains_and_refuses_ranges_in_use() {
        let mut allocator = allocator();
        let at = |addr, bytes| DeviceRange { addr, bytes };
        assert_eq!(allocator.allocate_at(at(BASE + 4100, 100), "a").unwrap(), BASE + 4096);
        for used in [at(BASE + 4096, 1), at(BASE + 4000, 97), at(BASE + 4223, 1), at(BASE, 8192)] {
            assert!(matches!(allocator.allocate_at(used, "b"), Err(PlatformError::RangeInUse { .. })));
        }
        for outside in
            [at(BASE - 1, 1), at(BASE + BYTES, 1), at(BASE, BYTES + 1), at(u64::MAX, 1), at(BASE, u64::MAX)]
        {
            assert!(matches!(allocator.allocate_at(outside, "b"), Err(PlatformError::RangeInUse { .. })));
        }
        assert_eq!(allocator.allocate_at(at(BASE + 4224, 64), "next to it").unwrap(), BASE + 4224);
        assert_eq!(allocator.allocate(4096, 64, "before it").unwrap(), BASE);
        allocator.free(BASE + 4096).unwrap();
        assert_eq!(allocator.allocate_at(at(BASE + 4100, 100), "again").unwrap(), BASE + 4096);
    }

    #[test]
    fn huge_sizes_and_bad_alignments_are_refused_without_overflow() {
        let mut allocator = allocator();
        for bytes in [u64::MAX, u64::MAX - 63, 1 << 63, BYTES + 1] {
            assert!(matches!(
                allocator.allocate(bytes, 64, "x"),
                Err(PlatformError::OutOfDeviceMemory { .. })
            ));
        }
        assert!(matches!(allocator.allocate(1, 1 << 63, "x"), Err(PlatformError::OutOfDeviceMemory { .. })));
        for align in [0, 3, 96] {
            assert!(matches!(allocator.allocate(1, align, "x"), Err(PlatformError::BadAlignment { .. })));
        }
        assert_eq!(allocator.allocate(BYTES, 64, "all").unwrap(), BASE);
    }

    #[test]
    fn empty_allocations_have_unique_addresses() {
        let mut allocator = allocator();
        let first = allocator.allocate(0, 1, "a").unwrap();
        let second = allocator.allocate(0, 1, "b").unwrap();
        assert_ne!(first, second);
    }

    #[test]
    fn a_freed_piece_is_reused_first() {
        let mut allocator = allocator();
        let hole = allocator.allocate(1024, 64, "a").unwrap();
        allocator.allocate(64, 64, "b").unwrap();
        allocator.free(hole).unwrap();
        assert_eq!(allocator.allocate(1000, 64, "c").unwrap(), hole);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Allocate { bytes: u64, align_log2: u32 },
        Free { which: prop::sample::Index },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..6000u64, 0..13u32).prop_map(|(bytes, align_log2)| Step::Allocate { bytes, align_log2 }),
            2 => any::<prop::sample::Index>().prop_map(|which| Step::Free { which }),
        ]
    }

    fn check_new(live: &[(u64, u64)], addr: u64, bytes: u64, align: u64) -> Result<(), TestCaseError> {
        prop_assert!(addr >= BASE && addr + bytes <= BASE + BYTES);
        prop_assert_eq!(addr % align.max(64), 0);
        for &(other, other_bytes) in live {
            let apart = addr + bytes.max(1) <= other || other + other_bytes.max(1) <= addr;
            prop_assert!(apart, "{addr:#x}+{bytes} overlaps {other:#x}+{other_bytes}");
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn allocations_never_overlap_and_freeing_everything_restores_the_range(
            steps in prop::collection::vec(step(), 1..200)
        ) {
            let mut allocator = allocator();
            let mut live: Vec<(u64, u64)> = Vec::new();
            for step in steps {
                match step {
                    Step::Allocate { bytes, align_log2 } => {
                        let align = 1 << align_log2;
                        if let Ok(addr) = allocator.allocate(bytes, align, "p") {
                            check_new(&live, addr, bytes, align)?;
                            live.push((addr, bytes));
                        }
                    }
                    Step::Free { which } if !live.is_empty() => {
                        let (addr, _) = live.swap_remove(which.index(live.len()));
                        allocator.free(addr).unwrap();
                    }
                    Step::Free { .. } => {}
                }
                let handed_out: u64 = allocator.used.values().sum();
                let left: u64 = allocator.free.values().sum();
                prop_assert_eq!(handed_out + left, BYTES);
            }
            for (addr, _) in live {
                allocator.free(addr).unwrap();
            }
            prop_assert_eq!(allocator.allocate(BYTES, 64, "everything").unwrap(), BASE);
        }
    }
}
