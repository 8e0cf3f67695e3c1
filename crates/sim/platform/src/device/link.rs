use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::net::{Shutdown, shutdown};
use tensortap_abi::DeviceRange;
use tensortap_sync::{
    Flag,
    link::{DeviceEnd, Gate, WakeReason},
};

use super::DeviceMemory;
use crate::{
    DeviceMode, PlatformError,
    address::RankLease,
    link_page::{self, WakeSocket},
    map::Mapping,
    wire::{self, Message},
};

/// A device program's access to its device: device memory, and the host at the other end. Clones share one
/// link. The memory stays mapped while any clone exists.
#[derive(Clone, Debug)]
pub struct DeviceLink {
    shared: Arc<LinkState>,
}

/// Why a wait for the host returned ([`DeviceLink::wait_for_host`], [`crate::attach::Attachment::wait`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// The host woke the device ([`crate::Device::wake`]).
    Woken,
    /// The host did not wake the device within the timeout.
    TimedOut,
    /// The host is gone and will never wake the device again, so the program should end. A device process
    /// never sees this value, because it ends by itself.
    Gone,
}

/// The parts of a new link.
pub(crate) struct LinkParts {
    pub(crate) mode: DeviceMode,
    pub(crate) memory: DeviceRange,
    pub(crate) file: OwnedFd,
    pub(crate) socket: OwnedFd,
    pub(crate) to_host: WakeSocket,
    pub(crate) from_host: WakeSocket,
    pub(crate) lease: Option<RankLease>,
}

#[derive(Debug)]
struct LinkState {
    mode: DeviceMode,
    memory: DeviceMemory,
    mapping: Mapping,
    socket: OwnedFd,
    to_host: WakeSocket,
    from_host: WakeSocket,
    gate: Gate,
    finished: Flag,
    // Dropped after `mapping`: a range must not be leased again while it is still mapped.
    _lease: Option<RankLease>,
}

impl DeviceLink {
    /// Maps device memory at its address and checks that the host has initialized it.
    pub(crate) fn new(parts: LinkParts) -> Result<DeviceLink, PlatformError> {
        let LinkParts { mode, memory, file, socket, to_host, from_host, lease } = parts;
        let mapping = Mapping::at(memory, &file)?;
        if !link_page::is_initialized(&mapping) {
            return Err(PlatformError::Protocol {
                what: "memory without an initialized link page".to_owned(),
            });
        }
        let shared = LinkState {
            mode,
            memory: DeviceMemory::new(memory),
            mapping,
            socket,
            to_host,
            from_host,
            gate: Gate::default(),
            finished: Flag::raised(),
            _lease: lease,
        };
        Ok(DeviceLink { shared: Arc::new(shared) })
    }

    /// Device memory.
    pub fn memory(&self) -> DeviceMemory {
        self.shared.memory
    }

    /// Whether the device is a process or a thread.
    pub fn mode(&self) -> DeviceMode {
        self.shared.mode
    }

    /// Whether the host survives a crash of the device program.
    pub fn crashes_are_contained(&self) -> bool {
        self.shared.mode == DeviceMode::Process
    }

    /// Tells the host that this launch is over. This happens automatically when the program returns; a
    /// program that cleans up afterwards can call it earlier. Only the first call of a launch has an effect.
    pub fn finished(&self) {
        if self.shared.finished.raise() {
            // If sending fails, the host is gone, which the link thread notices.
            let _ = self.send(&Message::Finished);
        }
    }

    /// Wakes the host if it sleeps in [`crate::Device::wait`]. Otherwise its next wait returns at once. Cheap
    /// to call often, because it makes a system call only if the host sleeps.
    pub fn wake_host(&self) {
        if self.end().is_some_and(|end| end.wake_host()) {
            self.shared.to_host.send_wake();
        }
    }

    /// How often the host has woken this device, for [`DeviceLink::wait_for_host_since`].
    pub fn host_wakes(&self) -> u64 {
        self.end().map_or(0, |end| end.wakes())
    }

    /// Sleeps until the host wakes the device. A wake that came before this call does not count. Use
    /// [`DeviceLink::wait_for_host_since`] if the caller has read memory before.
    pub fn wait_for_host(&self, timeout: Duration) -> HostEvent {
        self.wait_for_host_since(self.host_wakes(), timeout)
    }

    /// Sleeps until the host has woken the device more than `seen` times. To miss no wake, take `seen` from
    /// [`DeviceLink::host_wakes`], then look at memory, then wait. Any number of threads may wait. A wake
    /// reaches all of them.
    pub fn wait_for_host_since(&self, seen: u64, timeout: Duration) -> HostEvent {
        let Some(end) = self.end() else { return HostEvent::Gone };
        match end.sleep(&self.shared.gate, seen, Instant::now().checked_add(timeout)) {
            WakeReason::Woken => HostEvent::Woken,
            WakeReason::TimedOut => HostEvent::TimedOut,
            WakeReason::HostGone => HostEvent::Gone,
        }
    }

    pub(crate) fn begin_launch(&self) {
        self.shared.finished.lower();
    }

    pub(crate) fn send(&self, message: &Message) -> Result<(), rustix::io::Errno> {
        wire::send(&self.shared.socket, message, &[])
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.shared.socket.as_fd()
    }

    pub(crate) fn host_wake_socket(&self) -> &WakeSocket {
        &self.shared.from_host
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.shared.gate
    }

    /// Closes the connection, so that the host and the link thread notice that this device is over, even if
    /// clones of this link remain.
    pub(crate) fn hang_up(&self) {
        let _ = shutdown(&self.shared.socket, Shutdown::Both);
    }

    fn end(&self) -> Option<DeviceEnd<'_>> {
        link_page::device_end(&self.shared.mapping)
    }
}
