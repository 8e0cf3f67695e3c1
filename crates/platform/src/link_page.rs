//! The first page of device memory: who sleeps, and who was woken. The allocator never hands it out.
//!
//! Each direction has a word that says "I sleep" and a word that says "you were woken". The waker writes the second,
//! then reads the first; the sleeper writes the first, then reads the second. With a full fence between the two
//! steps on both sides at least one sees the other, so no wake is lost and a wake costs a system call only when
//! the other side sleeps. A program that scribbles here delays wakes until a timeout and does nothing worse.

use std::{
    mem::offset_of,
    sync::atomic::{AtomicU64, Ordering, fence},
};

use crate::{PlatformError, host_memory::HostMemory, map::Mapping};

/// Bytes at the start of device memory that belong to the link between host and device.
pub const LINK_PAGE_BYTES: u64 = 4096;

const LINK_MAGIC: u64 = 0x5454_4c49_4e4b_3031;

/// One word per cache line, so that the two sides do not share lines they write.
#[repr(C, align(64))]
struct LinkPage {
    /// [`LINK_MAGIC`], written by the host before the device starts.
    magic: u64,
    reserved0: [u64; 7],
    /// 1 while the host sleeps in `wait`. Written by the host.
    host_sleeps: u64,
    reserved1: [u64; 7],
    /// 1 once the device has woken the host. Set by the device, cleared by the host.
    host_woken: u64,
    reserved2: [u64; 7],
    /// Device threads that sleep on the host. Written by the device.
    device_sleepers: u64,
    reserved3: [u64; 7],
    /// How often the host has woken the device. Written by the host.
    device_wakes: u64,
    reserved4: [u64; 479],
}

const _: () = {
    assert!(size_of::<LinkPage>() as u64 == LINK_PAGE_BYTES);
    assert!(align_of::<LinkPage>() == 64);
    assert!(offset_of!(LinkPage, magic) == 0);
    assert!(offset_of!(LinkPage, host_sleeps) == 64);
    assert!(offset_of!(LinkPage, host_woken) == 128);
    assert!(offset_of!(LinkPage, device_sleepers) == 192);
    assert!(offset_of!(LinkPage, device_wakes) == 256);
};

/// The host's side.
pub(crate) struct HostPage<'a>(pub(crate) &'a HostMemory);

impl HostPage<'_> {
    pub(crate) fn initialise(&self) -> Result<(), PlatformError> {
        self.write(offset_of!(LinkPage, magic), LINK_MAGIC)
    }

    /// Says that the host sleeps; tells whether it was woken already. Pairs with [`DevicePage::wake_host`].
    pub(crate) fn fall_asleep(&self) -> Result<bool, PlatformError> {
        self.write(offset_of!(LinkPage, host_sleeps), 1)?;
        fence(Ordering::SeqCst);
        Ok(self.read(offset_of!(LinkPage, host_woken))? != 0)
    }

    pub(crate) fn get_up(&self) -> Result<(), PlatformError> {
        self.write(offset_of!(LinkPage, host_sleeps), 0)
    }

    /// Clears the wake. What the device wrote before a wake that is lost by this is visible afterwards.
    pub(crate) fn take_wake(&self) -> Result<(), PlatformError> {
        self.write(offset_of!(LinkPage, host_woken), 0)?;
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Wakes the device; tells whether the bell has to ring. Pairs with [`DevicePage::fall_asleep`]. One thread at a
    /// time: a count that two of them raise to the same number is one wake lost.
    pub(crate) fn wake_device(&self) -> Result<bool, PlatformError> {
        let wakes = self.read(offset_of!(LinkPage, device_wakes))?;
        self.write(offset_of!(LinkPage, device_wakes), wakes.wrapping_add(1))?;
        fence(Ordering::SeqCst);
        Ok(self.read(offset_of!(LinkPage, device_sleepers))? != 0)
    }

    fn read(&self, offset: usize) -> Result<u64, PlatformError> {
        self.0.read_u64(self.0.range().addr + offset as u64)
    }

    fn write(&self, offset: usize, value: u64) -> Result<(), PlatformError> {
        self.0.write_u64(self.0.range().addr + offset as u64, value)
    }
}

/// The device's side.
pub(crate) struct DevicePage<'a> {
    magic: &'a AtomicU64,
    host_sleeps: &'a AtomicU64,
    host_woken: &'a AtomicU64,
    device_sleepers: &'a AtomicU64,
    device_wakes: &'a AtomicU64,
}

impl<'a> DevicePage<'a> {
    /// `None` when the memory is too small for a link page.
    pub(crate) fn of(mapping: &'a Mapping) -> Option<DevicePage<'a>> {
        Some(DevicePage {
            magic: mapping.word(offset_of!(LinkPage, magic))?,
            host_sleeps: mapping.word(offset_of!(LinkPage, host_sleeps))?,
            host_woken: mapping.word(offset_of!(LinkPage, host_woken))?,
            device_sleepers: mapping.word(offset_of!(LinkPage, device_sleepers))?,
            device_wakes: mapping.word(offset_of!(LinkPage, device_wakes))?,
        })
    }

    /// Whether the host has prepared this memory. Asked once, before the device program can overwrite it.
    pub(crate) fn is_initialised(&self) -> bool {
        self.magic.load(Ordering::Acquire) == LINK_MAGIC
    }

    /// Wakes the host; tells whether the bell has to ring. Pairs with [`HostPage::fall_asleep`] and
    /// [`HostPage::take_wake`].
    pub(crate) fn wake_host(&self) -> bool {
        // What the caller wrote comes before the wake, and before finding that one is under way: the host clears
        // it before it looks.
        fence(Ordering::SeqCst);
        if self.host_woken.load(Ordering::Relaxed) != 0 {
            return false;
        }
        self.host_woken.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.host_sleeps.load(Ordering::Relaxed) != 0
    }

    /// Counts one more sleeper. Pairs with [`HostPage::wake_device`]; read [`DevicePage::wakes`] afterwards.
    pub(crate) fn fall_asleep(&self) {
        self.device_sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn get_up(&self) {
        self.device_sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// How often the host has woken the device.
    pub(crate) fn wakes(&self) -> u64 {
        self.device_wakes.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use tensortap_abi::DeviceRange;

    use super::*;
    use crate::file;

    /// Both sides over one file: the host copies, or maps as well.
    fn with_both_sides(maps: bool, test: impl Fn(&HostPage<'_>, &DevicePage<'_>)) {
        let range = DeviceRange { addr: 0x2000_0000_0000, bytes: 2 * LINK_PAGE_BYTES };
        let memory = HostMemory::new(range, file::create(range.bytes).unwrap(), maps).unwrap();
        let mapping = Mapping::anywhere(memory.file(), range.bytes).unwrap();
        let (host, device) = (HostPage(&memory), DevicePage::of(&mapping).unwrap());
        assert!(!device.is_initialised());
        host.initialise().unwrap();
        assert!(device.is_initialised());
        test(&host, &device);
    }

    #[test]
    fn the_bell_rings_for_a_sleeping_host_only_and_once() {
        for maps in [true, false] {
            with_both_sides(maps, |host, device| {
                assert!(!device.wake_host(), "nobody sleeps");
                assert!(host.fall_asleep().unwrap(), "the wake was kept");
                host.take_wake().unwrap();
                assert!(!host.fall_asleep().unwrap(), "the wake was taken");
                assert!(device.wake_host());
                assert!(!device.wake_host(), "one ring is under way");
                host.get_up().unwrap();
                host.take_wake().unwrap();
                assert!(!device.wake_host(), "the host is up");
            });
        }
    }

    #[test]
    fn the_bell_rings_for_sleeping_device_threads_only() {
        for maps in [true, false] {
            with_both_sides(maps, |host, device| {
                assert_eq!(device.wakes(), 0);
                assert!(!host.wake_device().unwrap(), "nobody sleeps");
                assert_eq!(device.wakes(), 1, "the wake was kept");
                device.fall_asleep();
                device.fall_asleep();
                assert!(host.wake_device().unwrap());
                device.get_up();
                assert!(host.wake_device().unwrap(), "one still sleeps");
                device.get_up();
                assert!(!host.wake_device().unwrap(), "all are up");
                assert_eq!(device.wakes(), 4);
            });
        }
    }
}
