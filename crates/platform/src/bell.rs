use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::{PlatformError, error::os};

/// An event file: rung by one side, heard by the other with poll. Rings that nobody has heard yet count as one.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> Result<Bell, PlatformError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        eventfd(0, flags).map(Bell).map_err(os("creating an event file"))
    }

    pub(crate) fn try_clone(&self) -> Result<Bell, PlatformError> {
        self.0.try_clone().map(Bell).map_err(os("duplicating an event file"))
    }

    /// Never blocks. It can only fail when the count is full, and then it rings already.
    pub(crate) fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Forgets the rings so far.
    pub(crate) fn silence(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

impl From<OwnedFd> for Bell {
    fn from(fd: OwnedFd) -> Bell {
        Bell(fd)
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
