use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::net::{Shutdown, shutdown};
use tensortap_abi::DeviceRange;
use tensortap_sync::{
    Flag,
    link::{DeviceEnd, Gate, Passed},
};

use super::DeviceMemory;
use crate::{
    DeviceMode, PlatformError,
    address::RankLease,
    link_page::{self, Bell},
    map::Mapping,
    wire::{self, Message},
};

/// What a device program has of its device: memory, and the host at the other end. Clones are the same link; the
/// memory stays mapped while any of them exists.
#[derive(Clone, Debug)]
pub struct DeviceLink {
    shared: Arc<Shared>,
}

/// Why [`DeviceLink::wait_for_host`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// The host called [`crate::Device::wake`].
    Woken,
    /// It did not, in time.
    TimedOut,
    /// The host has dropped the device and wakes nobody again. The program should end. Only in thread mode: a
    /// device process ends by itself.
    Gone,
}

/// What a link is made of.
pub(crate) struct LinkParts {
    pub(crate) mode: DeviceMode,
    pub(crate) memory: DeviceRange,
    pub(crate) file: OwnedFd,
    pub(crate) socket: OwnedFd,
    pub(crate) to_host: Bell,
    pub(crate) from_host: Bell,
    pub(crate) lease: Option<RankLease>,
}

#[derive(Debug)]
struct Shared {
    mode: DeviceMode,
    memory: DeviceMemory,
    mapping: Mapping,
    socket: OwnedFd,
    to_host: Bell,
    from_host: Bell,
    gate: Gate,
    finished: Flag,
    // Dropped after `mapping`, so that nobody leases a range that is still mapped.
    _lease: Option<RankLease>,
}

impl DeviceLink {
    /// Maps device memory at its address and checks that the host has prepared it.
    pub(crate) fn new(parts: LinkParts) -> Result<DeviceLink, PlatformError> {
        let LinkParts { mode, memory, file, socket, to_host, from_host, lease } = parts;
        let mapping = Mapping::at(memory, &file)?;
        if !link_page::is_initialised(&mapping) {
            return Err(PlatformError::Protocol { what: "memory without a link page".to_owned() });
        }
        let shared = Shared {
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

    /// Process or thread.
    pub fn mode(&self) -> DeviceMode {
        self.shared.mode
    }

    /// Whether a crash here leaves the host alive.
    pub fn crashes_are_contained(&self) -> bool {
        self.shared.mode == DeviceMode::Process
    }

    /// Tells the host that this launch is over. Happens by itself when the program returns; a program that has to
    /// clean up afterwards may say it earlier. Says it once per launch.
    pub fn finished(&self) {
        if self.shared.finished.raise() {
            // A host that cannot be told is gone, and the link thread finds that out.
            let _ = self.send(&Message::Finished);
        }
    }

    /// Wakes the host if it sleeps in [`crate::Device::wait`]; otherwise its next wait returns at once. Cheap to call
    /// often: a system call only when the host sleeps.
    pub fn wake_host(&self) {
        if self.end().is_some_and(|end| end.wake_host()) {
            self.shared.to_host.ring();
        }
    }

    /// How often the host has woken this device. For [`DeviceLink::wait_for_host_since`].
    pub fn host_wakes(&self) -> u64 {
        self.end().map_or(0, |end| end.wakes())
    }

    /// Sleeps until the host wakes the device from now on. A wake between the caller's last look at memory and this
    /// call is missed; where that matters use [`DeviceLink::wait_for_host_since`].
    pub fn wait_for_host(&self, timeout: Duration) -> HostEvent {
        self.wait_for_host_since(self.host_wakes(), timeout)
    }

    /// Sleeps until the host has woken the device more often than `seen` says. Take `seen` from
    /// [`DeviceLink::host_wakes`], then look at memory, then wait: no wake is missed. Any number of threads may
    /// sleep, and all are woken.
    pub fn wait_for_host_since(&self, seen: u64, timeout: Duration) -> HostEvent {
        let Some(end) = self.end() else { return HostEvent::Gone };
        match end.sleep(&self.shared.gate, seen, Instant::now().checked_add(timeout)) {
            Passed::Woken => HostEvent::Woken,
            Passed::TimedOut => HostEvent::TimedOut,
            Passed::HostGone => HostEvent::Gone,
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

    pub(crate) fn host_bell(&self) -> &Bell {
        &self.shared.from_host
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.shared.gate
    }

    /// Lets the host and the link thread see that this device is over, whoever still holds a clone.
    pub(crate) fn hang_up(&self) {
        let _ = shutdown(&self.shared.socket, Shutdown::Both);
    }

    fn end(&self) -> Option<DeviceEnd<'_>> {
        link_page::device_end(&self.shared.mapping)
    }
}
