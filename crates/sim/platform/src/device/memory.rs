use std::ptr;

use tensortap_abi::{CACHE_LINE_BYTES, DeviceAddr, DeviceRange};

use crate::{PlatformError, error::os};

/// Device memory as the device sees it. A device address is the address of the device's own mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    range: DeviceRange,
}

impl DeviceMemory {
    pub(crate) fn new(range: DeviceRange) -> DeviceMemory {
        DeviceMemory { range }
    }

    /// Zeroed heap memory that is never freed. For tests and benchmarks of device code without a device.
    pub fn detached(bytes: usize) -> DeviceMemory {
        // Pages become present when they are first touched, as in real device memory.
        let base =
            vec![0_u8; bytes.next_multiple_of(CACHE_LINE_BYTES) + CACHE_LINE_BYTES].leak().as_mut_ptr();
        let addr = (base.expose_provenance() as u64).next_multiple_of(CACHE_LINE_BYTES as u64);
        DeviceMemory::new(DeviceRange { addr, bytes: bytes as u64 })
    }

    /// The first address.
    pub fn base(self) -> DeviceAddr {
        self.range.addr
    }

    /// The size in bytes.
    pub fn bytes(self) -> u64 {
        self.range.bytes
    }

    /// The address range.
    pub fn range(self) -> DeviceRange {
        self.range
    }

    /// Whether all of `bytes` at `addr` is device memory.
    pub fn contains(self, addr: DeviceAddr, bytes: u64) -> bool {
        addr.checked_sub(self.range.addr)
            .and_then(|offset| offset.checked_add(bytes))
            .is_some_and(|end| end <= self.range.bytes)
    }

    /// Prefaults the pages of a range, so that no thread waits for a page fault later. The content does not
    /// change. This is advice: bytes outside of device memory are ignored, and pages that the system does not
    /// populate fault in later.
    pub fn populate(self, range: DeviceRange) {
        let page = rustix::param::page_size() as u64;
        let within = |addr: u64| addr.clamp(self.range.addr, self.range.addr + self.range.bytes);
        let (start, end) = (within(range.addr), within(range.addr.saturating_add(range.bytes)));
        // Whole pages, cut at the ends of device memory.
        let first = start - start % page;
        let first = if first < self.range.addr { self.range.addr.next_multiple_of(page) } else { first };
        let last = end.next_multiple_of(page).min(self.range.addr + self.range.bytes);
        let last = last - last % page;
        if first < last
            && let Ok(at) = self.ptr(first, last - first)
        {
            crate::map::populate(at, last - first);
        }
    }

    /// Forbids or allows access to the pages of a range in this process. The host's own mapping and file
    /// copies are not affected.
    pub fn set_touchable(self, range: DeviceRange, touchable: bool) -> Result<(), PlatformError> {
        let at = self.ptr(range.addr, range.bytes)?;
        crate::map::protect(at, range.bytes, touchable).map_err(os("guarding device memory"))
    }

    /// A pointer to `bytes` at `addr`, valid for reads and writes while any [`crate::DeviceLink`] of this
    /// device exists. Other threads and the host may write there at the same time.
    pub fn ptr(self, addr: DeviceAddr, bytes: u64) -> Result<*mut u8, PlatformError> {
        let refused = PlatformError::OutOfRange { addr, bytes, memory: self.range };
        if !self.contains(addr, bytes) {
            return Err(refused);
        }
        // `Mapping::at` exposed the provenance of the mapping.
        usize::try_from(addr).map(ptr::with_exposed_provenance_mut).map_err(|_| refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn populate_makes_exactly_the_pages_of_a_range_present() {
        let page = rustix::param::page_size() as u64;
        let range = DeviceRange { addr: 0x1e00_0000_0000, bytes: 16 * page };
        let file = crate::file::create(range.bytes).unwrap();
        let _mapping = crate::map::Mapping::at(range, &file).unwrap();
        let memory = DeviceMemory::new(range);
        let present = || u64::try_from(rustix::fs::fstat(&file).unwrap().st_blocks).unwrap() * 512 / page;
        memory.populate(DeviceRange { addr: range.addr + page + 1, bytes: 2 * page });
        assert_eq!(present(), 3);
        memory.populate(DeviceRange { addr: range.addr - page, bytes: 2 * page });
        memory.populate(DeviceRange { addr: range.addr + 15 * page, bytes: u64::MAX });
        memory.populate(DeviceRange { addr: 0, bytes: page });
        assert_eq!(present(), 5);
    }

    #[test]
    fn protected_pages_keep_their_content_and_stay_readable_through_the_file() {
        let page = rustix::param::page_size() as u64;
        let range = DeviceRange { addr: 0x1d00_0000_0000, bytes: 4 * page };
        let file = crate::file::create(range.bytes).unwrap();
        let _mapping = crate::map::Mapping::at(range, &file).unwrap();
        let memory = DeviceMemory::new(range);
        rustix::io::pwrite(&file, b"kept", page).unwrap();
        let guarded = DeviceRange { addr: range.addr + page, bytes: page };
        memory.set_touchable(guarded, false).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = format!("{:x}-{:x} ---s", guarded.addr, guarded.end());
        assert!(maps.contains(&line), "{maps}");
        let mut bytes = [0; 4];
        rustix::io::pread(&file, &mut bytes, page).unwrap();
        assert_eq!(&bytes, b"kept", "the host can still read");
        memory.set_touchable(range, true).unwrap();
        assert!(!std::fs::read_to_string("/proc/self/maps").unwrap().contains(&line));
        let outside = DeviceRange { addr: range.end(), bytes: page };
        assert!(matches!(memory.set_touchable(outside, false), Err(PlatformError::OutOfRange { .. })));
    }

    #[test]
    fn only_ranges_fully_inside_are_contained() {
        let memory = DeviceMemory::new(DeviceRange { addr: 0x1000, bytes: 0x100 });
        for (addr, bytes, inside) in [
            (0x1000, 0x100, true),
            (0x10ff, 1, true),
            (0x1100, 0, true),
            (0x1000, 0x101, false),
            (0xfff, 1, false),
            (0x1100, 1, false),
            (0x1001, u64::MAX, false),
            (u64::MAX, 1, false),
        ] {
            assert_eq!(memory.contains(addr, bytes), inside, "{addr:#x}+{bytes:#x}");
            assert_eq!(memory.ptr(addr, bytes).is_ok(), inside);
        }
        assert_eq!(memory.ptr(0x1010, 4).unwrap().addr(), 0x1010);
    }
}
