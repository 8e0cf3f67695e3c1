//! Mapped device memory and raw access to it.
//!
//! The bytes belong to the device, which writes them at any time. So nothing here ever makes a reference to them
//! except to single atomic words: bytes are copied through raw pointers, and what was copied may be torn. Whoever
//! copies knows from a word, loaded before, which bytes are settled.

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

/// All of a device's memory, mapped readable and writable, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; it is reached only through raw copies and atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above; concurrent copies may tear, which every caller has to expect from memory the device writes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of `file` where there is room.
    pub(crate) fn anywhere(file: impl AsFd, bytes: u64) -> Result<Mapping, PlatformError> {
        Mapping::new(ptr::null_mut(), file, bytes, MapFlags::empty())
            .map_err(os("mapping device memory on the host"))
    }

    /// Maps `file` at the addresses of `range`, unless something lies there.
    pub(crate) fn at(range: DeviceRange, file: impl AsFd) -> Result<Mapping, PlatformError> {
        let taken = PlatformError::AddressTaken { base: range.addr, bytes: range.bytes };
        let wanted = usize::try_from(range.addr).map_or(ptr::null_mut(), ptr::without_provenance_mut);
        match Mapping::new(wanted, file, range.bytes, MapFlags::FIXED_NOREPLACE) {
            // A kernel that does not know the flag takes the address for a hint.
            Ok(mapping) if mapping.start.as_ptr() != wanted => Err(taken),
            Ok(mapping) => Ok(mapping),
            Err(Errno::EXIST) => Err(taken),
            Err(error) => Err(os("mapping device memory")(error)),
        }
    }

    fn new(wanted: *mut u8, file: impl AsFd, bytes: u64, flags: MapFlags) -> Result<Mapping, Errno> {
        let len = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = flags | MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: without MAP_FIXED no existing mapping can be replaced, so no memory of this process changes.
        let start = unsafe { mmap(wanted.cast(), len, prot, flags, file, 0)? };
        // Kernels get at device memory by address alone.
        start.expose_provenance();
        NonNull::new(start.cast()).map(|start| Mapping { start, len }).ok_or(Errno::NOMEM)
    }

    /// Keeps it out of processes that are forked from this one.
    pub(crate) fn keep_from_children(&self) -> Result<(), PlatformError> {
        // SAFETY: this advice changes no byte, and this process keeps the mapping.
        unsafe { madvise(self.start.as_ptr().cast(), self.len, Advice::LinuxDontFork) }
            .map_err(os("keeping a mapping from forked processes"))
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The aligned word at `offset`; `None` outside or unaligned.
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
        // SAFETY: the pointer is aligned and valid for the borrow of `self`. Other processes reach the same bytes
        // with single aligned 8-byte accesses; a program that does otherwise changes the value, never its validity.
        Some(unsafe { &*word })
    }

    fn covers(&self, offset: usize, len: usize) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.len)
    }

    fn read_into(&self, offset: usize, bytes: &mut [u8]) -> Option<()> {
        if !self.covers(offset, bytes.len()) {
            return None;
        }
        // SAFETY: source and destination are valid for the length; `bytes` is exclusive and not device memory. The
        // device may write meanwhile, hence any byte value, and every value is a valid u8.
        unsafe {
            ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), bytes.as_mut_ptr(), bytes.len());
        }
        Some(())
    }

    fn write_from(&self, offset: usize, bytes: &[u8]) -> Option<()> {
        if !self.covers(offset, bytes.len()) {
            return None;
        }
        // SAFETY: as in `read_into`, the other way round.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(offset), bytes.len());
        }
        Some(())
    }

    /// Writes to `file`, until all is written; `None` outside.
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

    /// One system call. The caller has checked that the range is inside.
    fn write_file_once(&self, offset: usize, len: usize, file: BorrowedFd<'_>, at: u64) -> io::Result<usize> {
        let at = libc::off_t::try_from(at).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        // SAFETY: the range lies inside the mapping, which outlives the call. Only the kernel reads it, so that no
        // reference to memory that the device writes exists; what the device changes meanwhile arrives changed.
        let count = unsafe {
            let bytes = self.start.as_ptr().add(offset);
            libc::pwrite(file.as_raw_fd(), bytes.cast(), len, at)
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value made the mapping, and borrows of its words have ended. Raw pointers that a device
        // program took are its own responsibility, and it has ended: a program that still runs keeps the mapping.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Tells a process from those forked from it, without asking the system: a word that the system clears in a forked process.
///
/// ```
/// let guard = tensortap_platform::ForkGuard::new()?;
/// assert!(guard.is_own_process());
/// # Ok::<(), tensortap_platform::PlatformError>(())
/// ```
#[derive(Debug)]
pub struct ForkGuard(Mapping);

impl ForkGuard {
    /// A guard of this process.
    ///
    /// # Errors
    /// When the system has no such memory.
    pub fn new() -> Result<ForkGuard, PlatformError> {
        let doing = "guarding against a fork";
        let len = rustix::param::page_size();
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: an address is not asked for, so no existing mapping can be replaced.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), len, prot, MapFlags::PRIVATE) }.map_err(os(doing))?;
        let page = NonNull::new(start.cast())
            .map(|start| Mapping { start, len })
            .ok_or(Errno::NOMEM)
            .map_err(os(doing))?;
        // SAFETY: the advice concerns this new page alone.
        unsafe { madvise(start, len, Advice::LinuxWipeOnFork) }.map_err(os(doing))?;
        let guard = ForkGuard(page);
        guard.word().set(1);
        Ok(guard)
    }

    /// Whether this is the process that made the guard, and not one that was forked from it.
    #[inline]
    pub fn is_own_process(&self) -> bool {
        self.word().get() != 0
    }

    #[inline]
    fn word(&self) -> &SharedU64 {
        self.0.word(0).expect("a page has a first word")
    }
}

/// Makes mapped pages present. What the kernel does not know or will not do is left undone.
pub(crate) fn populate(at: *mut u8, bytes: u64) {
    let Ok(bytes) = usize::try_from(bytes) else { return };
    // SAFETY: this advice changes no byte and no mapping; of addresses that are not mapped the kernel says so.
    let _ = unsafe { madvise(at.cast(), bytes, Advice::LinuxPopulateWrite) };
}

/// Makes mapped pages untouchable, or readable and writable again.
pub(crate) fn protect(at: *mut u8, bytes: u64, touchable: bool) -> Result<(), Errno> {
    let bytes = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
    let flags = if touchable { MprotectFlags::READ | MprotectFlags::WRITE } else { MprotectFlags::empty() };
    // SAFETY: no byte and no mapping changes. Callers name pages of device memory, of which no reference exists; whoever touches
    // them against the rule is ended by the system, which is what they ask for.
    unsafe { mprotect(at.cast(), bytes, flags) }
}

/// Device memory as the host has mapped it. A view to copy through, never a slice: the device may write it at any
/// time. Offsets count from the start of device memory.
///
/// ```
/// # use std::sync::Arc;
/// # use tensortap_platform::{DeviceLink, DeviceMode, DeviceOptions, DeviceProgram, find};
/// # struct Nothing;
/// # impl DeviceProgram for Nothing {
/// #     fn run(&self, _: &DeviceLink, _: u64) {}
/// # }
/// # let mut options = DeviceOptions::new(Arc::new(Nothing));
/// # options.mode = DeviceMode::Thread;
/// # options.memory_bytes = Some(1 << 20);
/// let mut device = find("a2a3sim")?.open(&options)?;
/// let addr = device.allocate(64, 64, "example")?;
/// let offset = addr - device.memory().addr;
/// let view = device.mapping().expect("a2a3sim maps");
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

    /// Bytes of device memory.
    pub fn len(&self) -> u64 {
        self.mapping.len() as u64
    }

    /// Whether there is no memory, which cannot be.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies out of device memory.
    pub fn read_into(&self, offset: u64, bytes: &mut [u8]) -> Result<(), PlatformError> {
        let len = bytes.len();
        let start = usize::try_from(offset).ok();
        start
            .and_then(|start| self.mapping.read_into(start, bytes))
            .ok_or_else(|| self.out_of_range(offset, len))
    }

    /// Copies into device memory.
    pub fn write_from(&self, offset: u64, bytes: &[u8]) -> Result<(), PlatformError> {
        let start = usize::try_from(offset).ok();
        start
            .and_then(|start| self.mapping.write_from(start, bytes))
            .ok_or_else(|| self.out_of_range(offset, bytes.len()))
    }

    /// Writes `len` bytes of device memory to `file` at `at`, straight from the mapping.
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
        // Below every rank, so that no device is in the way.
        let range = DeviceRange { addr: 0x1f00_0000_0000, bytes: 4 * page };
        let file = file::create(range.bytes).unwrap();
        let first = Mapping::at(range, &file).unwrap();
        first.write_from(0, b"kept").unwrap();
        let other = file::create(range.bytes).unwrap();
        for addr in [range.addr, range.addr + 3 * page, range.addr - 3 * page] {
            let refused = Mapping::at(DeviceRange { addr, ..range }, &other);
            assert!(matches!(refused, Err(PlatformError::AddressTaken { base, .. }) if base == addr));
        }
        let mut bytes = [0; 4];
        first.read_into(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"kept");
        drop(first);
        assert!(Mapping::at(range, &other).is_ok(), "a dropped mapping is gone");
    }

    #[test]
    fn a_file_gets_the_bytes_of_the_mapping_and_nothing_from_outside() {
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
        // The target is sealed against growing.
        assert!(matches!(view.write_to(target.as_fd(), 0, 1, 8192), Err(PlatformError::Os { .. })));
        assert!(matches!(view.write_to(target.as_fd(), 0, 1, u64::MAX), Err(PlatformError::Os { .. })));
    }

    #[test]
    fn words_are_inside_and_aligned() {
        let file = file::create(4096).unwrap();
        let mapping = Mapping::anywhere(&file, 4096).unwrap();
        for (offset, there) in
            [(0, true), (4088, true), (4, false), (4092, false), (4096, false), (usize::MAX, false)]
        {
            assert_eq!(mapping.word(offset).is_some(), there, "{offset}");
        }
    }
}
