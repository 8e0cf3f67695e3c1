//! Access to the dump region.

use std::{fmt, ops::Deref, os::fd::BorrowedFd, sync::Arc};

use tensortap_abi::DeviceRange;
use tensortap_platform::{DeviceAccess, PlatformError};
use tensortap_sync::{Ordering, Word};

/// Bytes of a dump region, which the device writes at any time. Offsets start at the region's first byte.
///
/// Word accesses are atomic; other bytes may be torn. A caller that reads bytes must know from a word, read
/// by an earlier call, that they no longer change. Nothing is ordered within one call.
pub trait RegionMemory {
    /// Reads an aligned word atomically. Later reads see at least everything that the device wrote before
    /// the word.
    fn read_u64(&self, offset: u64) -> Result<u64, PlatformError>;
    /// Copies bytes out of the region.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), PlatformError>;
    /// Writes an aligned word atomically. A device that sees it also sees earlier writes.
    fn write_u64(&self, offset: u64, value: u64) -> Result<(), PlatformError>;
    /// Copies bytes into the region.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), PlatformError>;
    /// Whether [`RegionMemory::write_to`] works: the host has the region mapped.
    fn is_mapped(&self) -> bool;
    /// Writes `len` bytes at `offset` to `file` at `at` without an intermediate copy. Only if the region is
    /// mapped.
    fn write_to(&self, offset: u64, len: usize, file: BorrowedFd<'_>, at: u64) -> Result<(), PlatformError>;
    /// Wakes device threads that wait for the host.
    fn wake(&self);
}

/// The region, shared by everything that accesses it.
pub(crate) type SharedRegion = Arc<dyn RegionMemory + Send + Sync>;

impl fmt::Debug for dyn RegionMemory + Send + Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionMemory").field("mapped", &self.is_mapped()).finish_non_exhaustive()
    }
}

/// A word of the region. Always uses acquire and release; no protocol of the dump needs more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionWord<M> {
    pub(crate) memory: M,
    pub(crate) offset: u64,
}

impl<M, R> Word for RegionWord<M>
where
    M: Deref<Target = R>,
    R: RegionMemory + ?Sized,
{
    type Error = PlatformError;

    fn load(&self, _order: Ordering) -> Result<u64, PlatformError> {
        self.memory.read_u64(self.offset)
    }

    fn store(&self, value: u64, _order: Ordering) -> Result<(), PlatformError> {
        self.memory.write_u64(self.offset, value)
    }
}

/// The region of an open device. Clones access the same region.
#[derive(Clone)]
pub struct DeviceRegion {
    access: Arc<dyn DeviceAccess>,
    range: DeviceRange,
}

impl DeviceRegion {
    /// The region at `range` of the device's memory; `None` if `range` is not inside or not page aligned.
    pub fn new(access: Arc<dyn DeviceAccess>, range: DeviceRange) -> Option<DeviceRegion> {
        let memory = access.memory();
        let offset = range.addr.checked_sub(memory.addr)?;
        let inside = offset.checked_add(range.bytes).is_some_and(|end| end <= memory.bytes);
        (inside && offset.is_multiple_of(tensortap_abi::LARGE_PAYLOAD_ALIGN))
            .then_some(DeviceRegion { access, range })
    }

    /// All of the device's memory.
    pub fn device_memory(&self) -> DeviceRange {
        self.access.memory()
    }

    /// Range of the region.
    pub fn range(&self) -> DeviceRange {
        self.range
    }

    fn addr(&self, offset: u64, len: usize) -> Result<u64, PlatformError> {
        let inside = offset.checked_add(len as u64).is_some_and(|end| end <= self.range.bytes);
        if inside {
            return Ok(self.range.addr + offset);
        }
        let addr = self.range.addr.wrapping_add(offset);
        Err(PlatformError::OutOfRange { addr, bytes: len as u64, memory: self.range })
    }
}

impl RegionMemory for DeviceRegion {
    fn read_u64(&self, offset: u64) -> Result<u64, PlatformError> {
        self.access.read_u64(self.addr(offset, 8)?)
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), PlatformError> {
        self.access.copy_from(self.addr(offset, bytes.len())?, bytes)
    }

    fn write_u64(&self, offset: u64, value: u64) -> Result<(), PlatformError> {
        self.access.write_u64(self.addr(offset, 8)?, value)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), PlatformError> {
        self.access.copy_to(self.addr(offset, bytes.len())?, bytes)
    }

    fn is_mapped(&self) -> bool {
        self.access.mapping().is_some()
    }

    fn write_to(&self, offset: u64, len: usize, file: BorrowedFd<'_>, at: u64) -> Result<(), PlatformError> {
        let addr = self.addr(offset, len)?;
        let view = self.access.mapping().ok_or(PlatformError::OutOfRange {
            addr,
            bytes: len as u64,
            memory: DeviceRange::default(),
        })?;
        view.write_to(file, addr - self.access.memory().addr, len, at)
    }

    fn wake(&self) {
        self.access.wake();
    }
}
