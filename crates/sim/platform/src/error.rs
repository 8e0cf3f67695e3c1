use std::{io, path::PathBuf};

use tensortap_abi::{DeviceAddr, DeviceRange};

use crate::{DeathCause, RANKS};

/// Why a platform operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlatformError {
    /// The system's limit on file size is smaller than device memory, which is a file.
    #[error(
        "device memory of {bytes} bytes exceeds the file size limit of {limit} bytes (`ulimit -f`); use a smaller \
         --device-memory, or raise the limit"
    )]
    FileLimit {
        /// Size of device memory.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A socket could not be created or connected.
    #[error("the socket {}: {error}", path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// The system's error.
        error: rustix::io::Errno,
    },
    /// A process and the host that it attaches to could not agree.
    #[error("{what}")]
    Attach {
        /// What failed.
        what: String,
    },
    /// Confinement was requested for a device in thread mode.
    #[error("a device in thread mode cannot be confined; use process mode, or run it without confinement")]
    ThreadConfined,
    /// A sanitizer was requested for a device in thread mode.
    #[error(
        "a sanitizer must be loaded when a process starts, so a device in thread mode cannot use one; use process mode"
    )]
    ThreadSanitized,
    /// No platform has this name.
    #[error("unknown platform `{name}`; the platforms are {known}")]
    UnknownPlatform {
        /// The requested name.
        name: String,
        /// The names of all platforms, separated by commas.
        known: String,
    },
    /// No free piece of device memory is large enough.
    #[error(
        "device memory is full: {what} needs {bytes} bytes, but only {left} of {capacity} bytes are free and the largest \
         free piece has {largest}; increase --device-memory"
    )]
    OutOfDeviceMemory {
        /// The use of the allocation.
        what: String,
        /// Requested size.
        bytes: u64,
        /// Free bytes in all pieces.
        left: u64,
        /// Size of the largest free piece.
        largest: u64,
        /// Bytes that can be allocated on an empty device.
        capacity: u64,
    },
    /// An alignment is not a power of two.
    #[error("{what} needs an alignment of {align} bytes, which is not a power of two")]
    BadAlignment {
        /// The use of the allocation.
        what: String,
        /// Requested alignment.
        align: u64,
    },
    /// The address is not the start of an allocation.
    #[error(
        "cannot free {addr:#x}: no allocation starts there; free each address that `allocate` returned once"
    )]
    NotAllocated {
        /// The address.
        addr: DeviceAddr,
    },
    /// The range is not inside device memory.
    #[error(
        "{bytes} bytes at {addr:#x} are not inside device memory, which is {} bytes at {:#x}",
        memory.bytes, memory.addr
    )]
    OutOfRange {
        /// Start of the range.
        addr: DeviceAddr,
        /// Size of the range.
        bytes: u64,
        /// The range of device memory.
        memory: DeviceRange,
    },
    /// A requested range is in use or outside of device memory.
    #[error(
        "{what} cannot be placed at {addr:#x}: its {bytes} bytes are not free in device memory; choose another address"
    )]
    RangeInUse {
        /// The use of the allocation.
        what: String,
        /// Start of the range.
        addr: DeviceAddr,
        /// Size of the range.
        bytes: u64,
    },
    /// A word access needs an address that is a multiple of 8.
    #[error("cannot access a word at {addr:#x}: the address is not a multiple of 8")]
    Misaligned {
        /// The address.
        addr: DeviceAddr,
    },
    /// The size of device memory is out of range.
    #[error("device memory cannot have {bytes} bytes: --device-memory takes {min} to {max} bytes")]
    BadMemorySize {
        /// Requested size.
        bytes: u64,
        /// Smallest size.
        min: u64,
        /// Largest size.
        max: u64,
    },
    /// The rank has no address range.
    #[error("rank {rank} has no address range; ranks are 0 to {}", RANKS - 1)]
    BadRank {
        /// Requested rank.
        rank: u32,
    },
    /// All address ranges for devices in thread mode are in use.
    #[error(
        "all {RANKS} address ranges for devices in thread mode are in use ({abandoned} by devices that were dropped while \
         their program ran); close other devices first, or use process mode"
    )]
    NoFreeRank {
        /// Devices that were abandoned.
        abandoned: u32,
    },
    /// Another mapping exists where device memory belongs.
    #[error(
        "cannot map device memory at {base:#x}: another mapping overlaps its {bytes} bytes; use another rank or a smaller \
         --device-memory"
    )]
    AddressInUse {
        /// Where device memory belongs.
        base: DeviceAddr,
        /// Size of device memory.
        bytes: u64,
    },
    /// The started process did not answer like a device.
    #[error(
        "executable {} did not become the device ({why}); call become_device_if_asked at the top of its main, \
         or name the device executable, or use thread mode",
        executable.display()
    )]
    DidNotBecomeDevice {
        /// The executable.
        executable: PathBuf,
        /// What it did instead.
        why: String,
    },
    /// This process was started as a device but acts as a host.
    #[error(
        "this process cannot open devices: it was started as a device (its environment has {variable}) but did not \
         become one. Call become_device_if_asked at the top of its main, or name the device executable, or use \
         thread mode in the host"
    )]
    StartedAsDevice {
        /// Name of the environment variable.
        variable: &'static str,
    },
    /// The device program rejected its data.
    #[error("{reason}")]
    NotPrepared {
        /// Its message.
        reason: String,
    },
    /// The device process understood the request and refused it.
    #[error("the device executable {} refused to start: {reason}", executable.display())]
    RefusedByDevice {
        /// The executable.
        executable: PathBuf,
        /// Its message.
        reason: String,
    },
    /// The device has ended. Its memory can still be read.
    #[error(
        "the device is gone: it {cause}; its memory is still readable, but a new launch needs a new device"
    )]
    Dead {
        /// How it ended.
        cause: DeathCause,
    },
    /// A launch is still running.
    #[error("the device is still running the previous launch; wait for it to finish before launching again")]
    AlreadyRunning,
    /// The device sent an invalid or unexpected packet.
    #[error(
        "protocol error: the device sent {what}; its program may have overwritten the first page of device memory"
    )]
    Protocol {
        /// What it sent.
        what: String,
    },
    /// A system call failed.
    #[error("{doing} failed: {source}")]
    Os {
        /// The operation.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl PlatformError {
    /// Whether the request must be changed: nothing has run, and nothing broke.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            PlatformError::BadMemorySize { .. }
                | PlatformError::ThreadSanitized
                | PlatformError::NotPrepared { .. }
                | PlatformError::RefusedByDevice { .. }
        )
    }
}

/// Adds the operation to a system error. For `map_err`.
pub(crate) fn os<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> PlatformError {
    move |error| PlatformError::Os { doing, source: error.into() }
}
