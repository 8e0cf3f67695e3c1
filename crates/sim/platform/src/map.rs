//! Mappings of device memory and raw access to them.
//!
//! The device may write the bytes at any time. Therefore this module never creates references to them, except
//! to single atomic words. Bytes are copied through raw pointers, and a copy may be torn. The caller knows
//! which bytes are final from a word that it loaded before.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    ptr::{self, NonNull},
};

use rustix::{
    io::Errno,
    mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap},
};
use tensortap_abi::{DeviceAddr, DeviceRange};
use tensortap_sync::SharedU64;

use crate::{PlatformError, error::os};

const WORD_BYTES: usize = size_of::<u64>();

/// All of a device's memory, mapped readable and writable. Unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and is accessed only through raw copies and
// atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above. Concurrent copies may tear, which every caller must expect of memory that the device
// writes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of `file` at an address that the system chooses.
    pub(crate) fn anywhere(file: impl AsFd, bytes: u64) -> Result<Mapping, PlatformError> {
        let mapping = Mapping::new(ptr::null_mut(), file, bytes, MapFlags::empty())
            .map_err(os("mapping device memory on the host"))?;
        // Most of the memory was never touched, and writing a core file would allocate all of it.
        // SAFETY: this advice changes no byte.
        unsafe { madvise(mapping.start.as_ptr().cast(), mapping.len, Advice::LinuxDontDump) }
            .map_err(os("excluding a mapping from core files"))?;
        Ok(mapping)
    }

    /// Maps `file` at the addresses of `range`. Fails if another mapping exists there.
    pub(crate) fn at(range: DeviceRange, file: impl AsFd) -> Result<Mapping, PlatformError> {
        let in_use = PlatformError::AddressInUse { base: range.addr, bytes: range.bytes };
        let wanted = usize::try_from(range.addr).map_or(ptr::null_mut(), ptr::without_provenance_mut);
        match Mapping::new(wanted, file, range.bytes, MapFlags::FIXED_NOREPLACE) {
            // A kernel without MAP_FIXED_NOREPLACE treats the address as a hint.
            Ok(mapping) if mapping.start.as_ptr() != wanted => Err(in_use),
            Ok(mapping) => Ok(mapping),
            Err(Errno::EXIST) => Err(in_use),
            Err(error) => Err(os("mapping device memory")(error)),
        }
    }

    fn new(wanted: *mut u8, file: impl AsFd, bytes: u64, flags: MapFlags) -> Result<Mapping, Errno> {
        let len = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = flags | MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: without MAP_FIXED no existing mapping can be replaced, so no memory of this process
        // changes.
        let start = unsafe { mmap(wanted.cast(), len, prot, flags, file, 0)? };
        // Kernels turn addresses into pointers.
        start.expose_provenance();
        NonNull::new(start.cast()).map(|start| Mapping { start, len }).ok_or(Errno::NOMEM)
    }

    /// Removes the mapping from processes that are forked from this one.
    pub(crate) fn keep_from_children(&self) -> Result<(), PlatformError> {
        // SAFETY: this advice changes no byte, and this process keeps the mapping.
        unsafe { madvise(self.start.as_ptr().cast(), self.len, Advice::LinuxDontFork) }
            .map_err(os("excluding a mapping from forked processes"))
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The aligned word at `offset`, or `None` if it is outside or unaligned.
    pub(crate) fn word(&self, offset: usize) -> Option<&SharedU64> {
        let end = offset.checked_add(WORD_BYTES)?;
        if end > self.len || !offset.is_multiple_of(WORD_BYTES) {
            return None;
        }
        #[expect(
            clippy::cast_ptr_alignment,
            reason = "mappings start at a page and the offset is a multiple of 8"
        )]
        // SAFETY: the word is inside the mapping, which outlives the borrow of `self`.
        let word = unsafe { self.start.as_ptr().add(offset).cast::<SharedU64>() };
        // SAFETY: the pointer is aligned and valid for the borrow of `self`. Other processes access the same
        // bytes with single aligned 8-byte accesses. A program that accesses them differently can change the
        // value but not its validity.
        Some(unsafe { &*word })
    }

    fn covers(&self, offset: usize, len: usize) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.len)
    }

    fn read_into(&self, offset: usize, bytes: &mut [u8]) -> Option<()> {
        if !self.covers(offset, bytes.len()) {
            return None;
        }
        // SAFETY: source and destination are valid for the length. `bytes` is exclusive and not device
        // memory. The device may write at the same time, so any byte value may be read, and every value is a
        // valid u8.
        unsafe {
            ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), bytes.as_mut_ptr(), bytes.len());
        }
        Some(())
    }

    fn write_from(&self, offset: usize, bytes: &[u8]) -> Option<()> {
        if !self.covers(offset, bytes.len()) {
            return None;
        }
        // SAFETY: as in `read_into`, in the other direction.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(offset), bytes.len());
        }
        Some(())
    }

    /// Writes all bytes to `file`. Returns `None` if the range is outside.
    fn write_file(
        &self,
        mut offset: usize,
        mut len: usize,
        file: BorrowedFd<'_>,
        mut at: u64,
    ) -> Option<io::Result<()>> {
        if !self.covers(offset, len) {
            return None;
        }
        while len != 0 {
            match self.write_file_once(offset, len, file, at) {
                Ok(0) => return Some(Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => (offset, len, at) = (offset + count, len - count, at + count as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(()))
    }

    /// Makes one system call. The caller has checked that the range is inside.
    fn write_file_once(&self, offset: usize, len: usize, file: BorrowedFd<'_>, at: u64) -> io::Result<usize> {
        let at = libc::off_t::try_from(at).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        // SAFETY: the range is inside the mapping, which outlives the call. Only the kernel reads it, so no
        // reference to memory that the device writes is created. Bytes that the device changes meanwhile are
        // written changed.
        let count = unsafe {
            let bytes = self.start.as_ptr().add(offset);
            libc::pwrite(file.as_raw_fd(), bytes.cast(), len, at)
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value created the mapping, and all borrows of its words have ended. Raw pointers of
        // the device program are the program's responsibility: a program that still runs keeps the mapping
        // alive.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Distinguishes a process from its forked children without a system call. The system clears the word of the
/// guard in a child.
///
/// ```
/// let guard = tensortap_platform::ForkGuard::new()?;
/// assert!(guard.is_own_process());
/// # Ok::<(), tensortap_platform::PlatformError>(())
/// ```
#[derive(Debug)]
pub struct ForkGuard(Mapping);

impl ForkGuard {
    /// Creates a guard for this process.
    ///
    /// # Errors
    ///
    /// If the system does not support such memory.
    pub fn new() -> Result<ForkGuard, PlatformError> {
        let doing = "creating a page that a fork clears";
        let len = rustix::param::page_size();
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is requested, so no existing mapping can be replaced.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), len, prot, MapFlags::PRIVATE) }.map_err(os(doing))?;
        let page = NonNull::new(start.cast())
            .map(|start| Mapping { start, len })
            .ok_or(Errno::NOMEM)
            .map_err(os(doing))?;
        // SAFETY: the advice applies only to this new page.
        unsafe { madvise(start, len, Advice::LinuxWipeOnFork) }.map_err(os(doing))?;
        let guard = ForkGuard(page);
        guard.word().set(1);
        Ok(guard)
    }

    /// Whether this process created the guard. False in a forked child.
    #[inline]
    pub fn is_own_process(&self) -> bool {
        self.word().get() != 0
    }

    #[inline]
    fn word(&self) -> &SharedU64 {
        self.0.word(0).expect("a page has a first word")
    }
}

/// Prefaults mapped pages. Errors are ignored, because this is only an optimization.
pub(crate) fn populate(at: *mut u8, bytes: u64) {
    let Ok(bytes) = usize::try_from(bytes) else { return };
    // SAFETY: this advice changes no byte and no mapping. The kernel returns an error for unmapped addresses.
    let _ = unsafe { madvise(at.cast(), bytes, Advice::LinuxPopulateWrite) };
}

/// Forbids access to mapped pages, or allows reading and writing again.
pub(crate) fn protect(at: *mut u8, bytes: u64, touchable: bool) -> Result<(), Errno> {
    let bytes = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
    let flags = if touchable { MprotectFlags::READ | MprotectFlags::WRITE } else { MprotectFlags::empty() };
    // SAFETY: no byte and no mapping changes. Callers pass pages of device memory, to which no reference
    // exists. The system ends a program that touches forbidden pages, which is what the caller wants.
    unsafe { mprotect(at.cast(), bytes, flags) }
}

/// The host's mapping of device memory. Bytes are copied through it and never borrowed, because the device
/// may write them at any time. Offsets count from the start of device memory.
///
/// ```
/// # use std::sync::Arc;
/// # use tensortap_platform::{DeviceLink, DeviceMode, DeviceOptions, DeviceProgram, find};
/// # struct IdleProgram;
/// # impl DeviceProgram for IdleProgram {
/// #     fn run(&self, _: &DeviceLink, _: u64) {}
/// # }
/// # let mut options = DeviceOptions::new(Arc::new(IdleProgram));
/// # options.mode = DeviceMode::Thread;
/// # options.memory_bytes = Some(1 << 20);
/// let mut device = find("a2a3sim")?.open(&options)?;
/// let addr = device.allocate(64, 64, "example")?;
/// let offset = addr - device.memory().addr;
/// let view = device.mapping().expect("a2a3sim maps its memory");
/// view.store_u64(offset, 0x0102)?;
/// let mut first = [0; 2];
/// view.read_into(offset, &mut first)?;
/// assert_eq!(first, [2, 1]);
/// # Ok::<(), tensortap_platform::PlatformError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MappedMemory<'a> {
    mapping: &'a Mapping,
    base: DeviceAddr,
}

impl<'a> MappedMemory<'a> {
    pub(crate) fn new(mapping: &'a Mapping, base: DeviceAddr) -> MappedMemory<'a> {
        MappedMemory { mapping, base }
    }

    /// Size of device memory in bytes.
    pub fn len(&self) -> u64 {
        self.mapping.len() as u64
    }

    /// Always false: every device has memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies from device memory.
    pub fn read_into(&self, offset: u64, bytes: &mut [u8]) -> Result<(), PlatformError> {
        let len = bytes.len();
        let start = usize::try_from(offset).ok();
        start
            .and_then(|start| self.mapping.read_into(start, bytes))
            .ok_or_else(|| self.out_of_range(offset, len))
    }

    /// Copies to device memory.
    pub fn write_from(&self, offset: u64, bytes: &[u8]) -> Result<(), PlatformError> {
        let start = usize::try_from(offset).ok();
        start
            .and_then(|start| self.mapping.write_from(start, bytes))
            .ok_or_else(|| self.out_of_range(offset, bytes.len()))
    }

    /// Writes `len` bytes of device memory to `file` at offset `at`, without an intermediate copy.
    pub fn write_to(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        at: u64,
    ) -> Result<(), PlatformError> {
        let start = usize::try_from(offset).ok();
        start
            .and_then(|start| self.mapping.write_file(start, len, file, at))
            .ok_or_else(|| self.out_of_range(offset, len))?
            .map_err(os("writing device memory to a file"))
    }

    /// Loads an aligned word with acquire ordering.
    pub fn load_u64(&self, offset: u64) -> Result<u64, PlatformError> {
        Ok(self.word(offset)?.see())
    }

    /// Stores an aligned word with release ordering.
    pub fn store_u64(&self, offset: u64, value: u64) -> Result<(), PlatformError> {
        self.word(offset)?.publish(value);
        Ok(())
    }

    fn word(&self, offset: u64) -> Result<&'a SharedU64, PlatformError> {
        if !offset.is_multiple_of(WORD_BYTES as u64) {
            return Err(PlatformError::Misaligned { addr: self.base.wrapping_add(offset) });
        }
        let start = usize::try_from(offset).ok();
        start.and_then(|start| self.mapping.word(start)).ok_or_else(|| self.out_of_range(offset, WORD_BYTES))
    }

    fn out_of_range(&self, offset: u64, len: usize) -> PlatformError {
        PlatformError::OutOfRange {
            addr: self.base.wrapping_add(offset),
            bytes: len as u64,
            memory: DeviceRange { addr: self.base, bytes: self.len() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file;

    #[test]
    fn an_existing_mapping_is_never_covered() {
        let page = rustix::param::page_size() as u64;
        // An address below all ranks, where no device is mapped.
        let range = DeviceRange { addr: 0x1f00_0000_0000, bytes: 4 * page };
        let file = file::create(range.bytes).unwrap();
        let first = Mapping::at(range, &file).unwrap();
        first.write_from(0, b"kept").unwrap();
        let other = file::create(range.bytes).unwrap();
        for addr in [range.addr, range.addr + 3 * page, range.addr - 3 * page] {
            let refused = Mapping::at(DeviceRange { addr, ..range }, &other);
            assert!(matches!(refused, Err(PlatformError::AddressInUse { base, .. }) if base == addr));
        }
        let mut bytes = [0; 4];
        first.read_into(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"kept");
        drop(first);
        assert!(Mapping::at(range, &other).is_ok(), "a dropped mapping frees its addresses");
    }

    #[test]
    fn write_to_writes_exactly_the_requested_bytes() {
        let (source, target) = (file::create(8192).unwrap(), file::create(8192).unwrap());
        let mapping = Mapping::anywhere(&source, 8192).unwrap();
        mapping.write_from(4000, b"across a page").unwrap();
        let view = MappedMemory::new(&mapping, 0x2000_0000_0000);
        view.write_to(target.as_fd(), 4000, 13, 5).unwrap();
        let copy = Mapping::anywhere(&target, 8192).unwrap();
        let mut bytes = [1; 20];
        copy.read_into(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0\0\0\0\0across a page\0\0");
        for (offset, len) in [(8192, 1), (8191, 2), (u64::MAX, 1), (0, usize::MAX)] {
            let refused = view.write_to(target.as_fd(), offset, len, 0);
            assert!(matches!(refused, Err(PlatformError::OutOfRange { .. })), "{len} at {offset}");
        }
        // The target is sealed against growing, so writing past its end fails.
        assert!(matches!(view.write_to(target.as_fd(), 0, 1, 8192), Err(PlatformError::Os { .. })));
        assert!(matches!(view.write_to(target.as_fd(), 0, 1, u64::MAX), Err(PlatformError::Os { .. })));
    }

    #[test]
    fn word_requires_an_aligned_offset_inside_the_mapping() {
        let file = file::create(4096).unwrap();
        let mapping = Mapping::anywhere(&file, 4096).unwrap();
        for (offset, valid) in
            [(0, true), (4088, true), (4, false), (4092, false), (4096, false), (usize::MAX, false)]
        {
            assert_eq!(mapping.word(offset).is_some(), valid, "{offset}");
        }
    }
}
