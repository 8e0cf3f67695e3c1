use crate::{CACHE_LINE_BYTES, DeviceAddr, DeviceRange};

const LINE: u64 = CACHE_LINE_BYTES as u64;

/// Placement of a guarded tensor in whole pages of its own.
///
/// ```text
/// │ page            │ page            │ guard page      │
/// │ front   │ tensor             │ slk │ no access       │
/// ```
///
/// The tensor starts at a cache line, like every tensor, and as close to the guard page as possible. The
/// gap after it, the slack, is shorter than a cache line. The rest of its first page is before it.
///
/// ```
/// use tensortap_abi::{DeviceRange, GuardLayout};
/// let layout = GuardLayout { page_bytes: 4096 };
/// assert_eq!(layout.piece_bytes(100), Some(2 * 4096));
/// let addr = layout.tensor_addr(0x10000, 100);
/// assert_eq!(addr, 0x10000 + 4096 - 128);
/// let zones = layout.zones(DeviceRange { addr, bytes: 100 });
/// assert_eq!(zones.front, DeviceRange { addr: 0x10000, bytes: 4096 - 128 });
/// assert_eq!(zones.slack, DeviceRange { addr: addr + 100, bytes: 28 });
/// assert_eq!(zones.page, DeviceRange { addr: 0x11000, bytes: 4096 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardLayout {
    /// Bytes of a page, a power of two and at least a cache line.
    pub page_bytes: u64,
}

/// The memory around a guarded tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardZones {
    /// From the start of its first page to its first byte.
    pub front: DeviceRange,
    /// From its last byte to the guard page.
    pub slack: DeviceRange,
    /// The guard page.
    pub page: DeviceRange,
}

impl GuardLayout {
    /// Bytes of a tensor's pages including the guard page; `None` if that exceeds the address space.
    pub const fn piece_bytes(self, tensor_bytes: u64) -> Option<u64> {
        match whole_lines(tensor_bytes).checked_next_multiple_of(self.page_bytes) {
            Some(pages) => pages.checked_add(self.page_bytes),
            None => None,
        }
    }

    /// Address of a tensor in a piece that starts at a page and has [`Self::piece_bytes`].
    pub const fn tensor_addr(self, piece: DeviceAddr, tensor_bytes: u64) -> DeviceAddr {
        let lines = whole_lines(tensor_bytes);
        piece + lines.next_multiple_of(self.page_bytes) - lines
    }

    /// The piece that contains a tensor placed this way.
    pub const fn piece(self, tensor: DeviceRange) -> DeviceRange {
        let GuardZones { front, page, .. } = self.zones(tensor);
        DeviceRange { addr: front.addr, bytes: page.end() - front.addr }
    }

    /// The memory around a tensor placed this way.
    pub const fn zones(self, tensor: DeviceRange) -> GuardZones {
        let first = tensor.addr - tensor.addr % self.page_bytes;
        let page = tensor.addr + whole_lines(tensor.bytes);
        let slack = DeviceRange { addr: tensor.end(), bytes: page - tensor.end() };
        GuardZones {
            front: DeviceRange { addr: first, bytes: tensor.addr - first },
            slack,
            page: DeviceRange { addr: page, bytes: self.page_bytes },
        }
    }
}

/// An empty tensor gets one cache line, so that its address is unique. Sizes that would overflow stay as
/// they are and fit nowhere.
const fn whole_lines(bytes: u64) -> u64 {
    let bytes = if bytes == 0 { 1 } else { bytes };
    match bytes.checked_next_multiple_of(LINE) {
        Some(lines) => lines,
        None => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_ends_less_than_a_line_before_its_guard_page_and_its_zones_tile_its_piece() {
        for page_bytes in [4096, 16384] {
            let layout = GuardLayout { page_bytes };
            for bytes in [0, 1, 63, 64, 65, 4032, 4095, 4096, 4097, 16384, 100_000] {
                let (piece, all) = (page_bytes * 7, layout.piece_bytes(bytes).unwrap());
                let addr = layout.tensor_addr(piece, bytes);
                let tensor = DeviceRange { addr, bytes };
                let GuardZones { front, slack, page } = layout.zones(tensor);
                assert_eq!(addr % LINE, 0);
                assert_eq!((front.addr, front.end(), tensor.end()), (piece, addr, slack.addr), "{bytes}");
                assert_eq!((slack.end(), page.end()), (page.addr, piece + all), "{bytes}");
                assert!(slack.bytes < LINE || bytes == 0, "{bytes}");
                assert!(page.addr.is_multiple_of(page_bytes) && front.bytes < page_bytes);
                assert_eq!(layout.piece(tensor), DeviceRange { addr: piece, bytes: all });
            }
            assert_eq!(layout.piece_bytes(u64::MAX), None);
            assert_eq!(layout.piece_bytes(u64::MAX - page_bytes), None);
        }
    }
}
