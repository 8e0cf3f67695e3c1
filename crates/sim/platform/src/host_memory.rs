//! Device memory as the host accesses it.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Mutex, PoisonError},
};

use rustix::io::{Errno, pread, pwrite};
use tensortap_abi::{DeviceAddr, DeviceRange};
use tensortap_sync::{
    Ordering, Word,
    link::WakeCounter,
    word::{load_copied, store_copied},
};

use crate::{
    DeviceAccess, MappedMemory, PlatformError,
    error::os,
    link_page::{WakeSocket, host_end},
    map::Mapping,
};

/// Device memory on the host: mapped on platforms that map it, otherwise accessed with positioned I/O.
///
/// Positioned I/O copies inside the kernel and does not order the bytes of one call. Therefore a word is
/// always read or written with its own call, which orders it relative to the calls before and after.
#[derive(Debug)]
pub(crate) struct HostMemory {
    range: DeviceRange,
    file: OwnedFd,
    mapping: Option<Mapping>,
}

impl HostMemory {
    pub(crate) fn new(range: DeviceRange, file: OwnedFd, maps: bool) -> Result<HostMemory, PlatformError> {
        let mapping = if maps { Some(Mapping::anywhere(&file, range.bytes)?) } else { None };
        Ok(HostMemory { range, file, mapping })
    }

    pub(crate) fn range(&self) -> DeviceRange {
        self.range
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(crate) fn view(&self) -> Option<MappedMemory<'_>> {
        self.mapping.as_ref().map(|mapping| MappedMemory::new(mapping, self.range.addr))
    }

    pub(crate) fn copy_to(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), PlatformError> {
        let offset = self.offset_of(to, bytes.len())?;
        match self.view() {
            Some(view) => view.write_from(offset, bytes),
            None => write_at(self.file(), offset, bytes).map_err(os("writing device memory")),
        }
    }

    pub(crate) fn copy_from(&self, from: DeviceAddr, bytes: &mut [u8]) -> Result<(), PlatformError> {
        let offset = self.offset_of(from, bytes.len())?;
        match self.view() {
            Some(view) => view.read_into(offset, bytes),
            None => read_at(self.file(), offset, bytes).map_err(os("reading device memory")),
        }
    }

    pub(crate) fn read_u64(&self, addr: DeviceAddr) -> Result<u64, PlatformError> {
        let offset = self.offset_of_word(addr)?;
        if let Some(view) = self.view() {
            return view.load_u64(offset);
        }
        load_copied(|| {
            let mut word = [0; 8];
            read_at(self.file(), offset, &mut word).map_err(os("reading device memory"))?;
            Ok(u64::from_le_bytes(word))
        })
    }

    pub(crate) fn write_u64(&self, addr: DeviceAddr, value: u64) -> Result<(), PlatformError> {
        let offset = self.offset_of_word(addr)?;
        if let Some(view) = self.view() {
            return view.store_u64(offset, value);
        }
        let bytes = value.to_le_bytes();
        store_copied(|| write_at(self.file(), offset, &bytes).map_err(os("writing device memory")))
    }

    fn offset_of_word(&self, addr: DeviceAddr) -> Result<u64, PlatformError> {
        if !addr.is_multiple_of(8) {
            return Err(PlatformError::Misaligned { addr });
        }
        self.offset_of(addr, 8)
    }

    fn offset_of(&self, addr: DeviceAddr, len: usize) -> Result<u64, PlatformError> {
        let bytes = len as u64;
        let offset = addr.checked_sub(self.range.addr);
        offset
            .filter(|offset| offset.checked_add(bytes).is_some_and(|end| end <= self.range.bytes))
            .ok_or(PlatformError::OutOfRange { addr, bytes, memory: self.range })
    }
}

/// One word of device memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostWord<'a> {
    pub(crate) memory: &'a HostMemory,
    pub(crate) addr: DeviceAddr,
}

/// Always acquire and release, whichever ordering the caller requests: no protocol needs more.
impl Word for HostWord<'_> {
    type Error = PlatformError;

    fn load(&self, _order: Ordering) -> Result<u64, PlatformError> {
        self.memory.read_u64(self.addr)
    }

    fn store(&self, value: u64, _order: Ordering) -> Result<(), PlatformError> {
        self.memory.write_u64(self.addr, value)
    }
}

/// The state that a device and all of its [`DeviceAccess`] handles share.
#[derive(Debug)]
pub(crate) struct HostAccess {
    memory: HostMemory,
    /// Locked while the device is woken.
    to_device: Mutex<(WakeSocket, WakeCounter)>,
}

impl HostAccess {
    pub(crate) fn new(memory: HostMemory, to_device: WakeSocket) -> HostAccess {
        HostAccess { memory, to_device: Mutex::new((to_device, WakeCounter::default())) }
    }

    pub(crate) fn host_memory(&self) -> &HostMemory {
        &self.memory
    }
}

impl DeviceAccess for HostAccess {
    fn memory(&self) -> DeviceRange {
        self.memory.range()
    }

    fn copy_to(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), PlatformError> {
        self.memory.copy_to(to, bytes)
    }

    fn copy_from(&self, from: DeviceAddr, bytes: &mut [u8]) -> Result<(), PlatformError> {
        self.memory.copy_from(from, bytes)
    }

    fn read_u64(&self, addr: DeviceAddr) -> Result<u64, PlatformError> {
        self.memory.read_u64(addr)
    }

    fn write_u64(&self, addr: DeviceAddr, value: u64) -> Result<(), PlatformError> {
        self.memory.write_u64(addr, value)
    }

    fn mapping(&self) -> Option<MappedMemory<'_>> {
        self.memory.view()
    }

    fn wake(&self) {
        let mut to_device = self.to_device.lock().unwrap_or_else(PoisonError::into_inner);
        let (socket, wakes) = &mut *to_device;
        // On an error the wake is sent anyway. The next copy will report unreachable memory.
        if host_end(&self.memory).wake_device(wakes).unwrap_or(true) {
            socket.send_wake();
        }
    }
}

fn read_at(file: BorrowedFd<'_>, mut offset: u64, mut bytes: &mut [u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match pread(file, &mut *bytes, offset) {
            // The file is sealed, so it cannot end inside the range.
            Ok(0) => return Err(Errno::IO),
            Ok(count) => {
                bytes = &mut bytes[count..];
                offset += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn write_at(file: BorrowedFd<'_>, mut offset: u64, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match pwrite(file, bytes, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::file;

    const RANGE: DeviceRange = DeviceRange { addr: 0x2000_0000_0000, bytes: 16 << 10 };

    fn memories() -> [HostMemory; 2] {
        [true, false].map(|maps| {
            let file = file::create(RANGE.bytes).unwrap();
            HostMemory::new(RANGE, file, maps).unwrap()
        })
    }

    #[test]
    fn words_are_little_endian_and_aligned() {
        for memory in memories() {
            memory.write_u64(RANGE.addr + 8, 0x0102_0304_0506_0708).unwrap();
            let mut bytes = [0; 10];
            memory.copy_from(RANGE.addr + 7, &mut bytes).unwrap();
            assert_eq!(bytes, [0, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
            assert_eq!(memory.read_u64(RANGE.addr + 8).unwrap(), 0x0102_0304_0506_0708);
            for addr in [RANGE.addr + 4, RANGE.end() - 4] {
                assert!(matches!(memory.read_u64(addr), Err(PlatformError::Misaligned { .. })));
                assert!(matches!(memory.write_u64(addr, 1), Err(PlatformError::Misaligned { .. })));
            }
            assert!(matches!(memory.read_u64(RANGE.end()), Err(PlatformError::OutOfRange { .. })));
        }
    }

    proptest! {
        #[test]
        fn copies_succeed_inside_the_range_and_fail_outside(
            offset in prop_oneof![0..RANGE.bytes + 64, any::<u64>()],
            bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let addr = RANGE.addr.wrapping_add(offset);
            let inside = u128::from(addr) >= u128::from(RANGE.addr)
                && u128::from(addr) + bytes.len() as u128 <= u128::from(RANGE.end());
            for memory in memories() {
                prop_assert_eq!(memory.copy_to(addr, &bytes).is_ok(), inside);
                let mut back = vec![0x5a; bytes.len()];
                prop_assert_eq!(memory.copy_from(addr, &mut back).is_ok(), inside);
                if inside {
                    prop_assert_eq!(&back, &bytes);
                }
            }
        }
    }
}
