use std::sync::{Mutex, PoisonError};

use tensortap_abi::{DeviceAddr, DeviceRange};

use crate::{
    DeviceAccess, MappedMemory, PlatformError, bell::Bell, host_memory::HostMemory, link_page::HostPage,
};

/// What the device itself and every handle to it share.
#[derive(Debug)]
pub(crate) struct HostAccess {
    memory: HostMemory,
    /// Held while the device is woken.
    to_device: Mutex<Bell>,
}

impl HostAccess {
    pub(crate) fn new(memory: HostMemory, to_device: Bell) -> HostAccess {
        HostAccess { memory, to_device: Mutex::new(to_device) }
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
        let bell = self.to_device.lock().unwrap_or_else(PoisonError::into_inner);
        // Memory that cannot be reached is an error of the next copy; when in doubt, ring.
        if HostPage(&self.memory).wake_device().unwrap_or(true) {
            bell.ring();
        }
    }
}
