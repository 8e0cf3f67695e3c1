use std::{io, path::PathBuf};

use tensortap_abi::{DeviceAddr, DeviceRange};

use crate::{DeathCause, RANKS};

/// Why a platform refused, or what broke.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlatformError {
    /// Device memory is a file, and files may not be that large.
    #[error(
        "device memory of {bytes} bytes is larger than files may be here: {limit} bytes (`ulimit -f`); give the device less \
         with --device-memory, or raise the limit"
    )]
    FileLimit {
        /// Bytes of device memory.
        bytes: u64,
        /// Bytes that a file may have.
        limit: u64,
    },
    /// A socket could not be made or called.
    #[error("the socket {}: {error}", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why not.
        error: rustix::io::Errno,
    },
    /// A process and the host that it attaches to did not understand one another.
    #[error("{what}")]
    Attach {
        /// What one of them said, or failed to say.
        what: String,
    },
    /// A thread of this process was to be confined.
    #[error(
        "a device in a thread of this process cannot be confined; let it be a process, or trust what it is given"
    )]
    ThreadConfined,
    /// A sanitizer for a thread of this process.
    #[error(
        "a sanitizer is loaded when a process starts, and this one runs already; let the device be a process"
    )]
    ThreadSanitized,
    /// No platform of that name.
    #[error("there is no platform `{name}`; known platforms: {known}")]
    UnknownPlatform {
        /// What was asked for.
        name: String,
        /// The names there are, comma separated.
        known: String,
    },
    /// Device memory has no piece that large.
    #[error(
        "device memory is full: {bytes} bytes were asked for {what}; {left} of {capacity} bytes are left, \
         the largest piece has {largest}; give the device more with --device-memory"
    )]
    OutOfDeviceMemory {
        /// What the bytes were for.
        what: String,
        /// Bytes asked for.
        bytes: u64,
        /// Bytes free in all pieces together.
        left: u64,
        /// Bytes of the largest free piece.
        largest: u64,
        /// Bytes that can be handed out in an empty device.
        capacity: u64,
    },
    /// Alignments are powers of two.
    #[error("{what} asks for an alignment of {align} bytes; an alignment is a power of two")]
    BadAlignment {
        /// What the bytes were for.
        what: String,
        /// The alignment asked for.
        align: u64,
    },
    /// The address does not start an allocation.
    #[error("{addr:#x} was not allocated or is free already; free what `allocate` returned, once")]
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
        /// First byte of the range.
        addr: DeviceAddr,
        /// Bytes of the range.
        bytes: u64,
        /// All there is.
        memory: DeviceRange,
    },
    /// A place was asked for that is not free, or not there.
    #[error("{bytes} bytes at {addr:#x} for {what} are not free in device memory; let them lie elsewhere")]
    PlaceTaken {
        /// The use.
        what: String,
        /// First byte asked for.
        addr: DeviceAddr,
        /// Bytes asked for.
        bytes: u64,
    },
    /// A word access needs an 8-byte aligned address.
    #[error("a word is read and written at a multiple of 8 bytes, and {addr:#x} is none")]
    Misaligned {
        /// The address.
        addr: DeviceAddr,
    },
    /// Device memory of that size cannot be.
    #[error("device memory of {bytes} bytes is not possible: --device-memory takes {min} to {max} bytes")]
    BadMemorySize {
        /// Bytes asked for.
        bytes: u64,
        /// Fewest bytes.
        min: u64,
        /// Most bytes.
        max: u64,
    },
    /// A rank has no address range.
    #[error("rank {rank} has no address range; ranks are 0 to {}", RANKS - 1)]
    BadRank {
        /// The rank asked for.
        rank: u32,
    },
    /// Every address range of this process is in use.
    #[error(
        "all {RANKS} address ranges for devices in thread mode are taken ({abandoned} by devices that were \
         dropped while their program ran); close devices first or use process mode"
    )]
    NoFreeRank {
        /// Instances that were left behind.
        abandoned: u32,
    },
    /// Something else lies where device memory belongs.
    #[error(
        "device memory cannot be mapped at {base:#x}: another mapping lies in its {bytes} bytes; \
         use another rank or less --device-memory"
    )]
    AddressTaken {
        /// Where device memory belongs.
        base: DeviceAddr,
        /// Its size.
        bytes: u64,
    },
    /// The child did not answer as a device does.
    #[error(
        "executable {} did not become the device ({why}); call become_device_if_asked at the top of its main, \
         or name the device executable, or use thread mode",
        executable.display()
    )]
    DidNotBecomeDevice {
        /// What was started.
        executable: PathBuf,
        /// What it did instead.
        why: String,
    },
    /// This process was started as a device and goes on as something else.
    #[error(
        "this process was started as a device (its environment has {variable}) and did not become one, so it \
         opens none; call become_device_if_asked at the top of its main, or name the device executable, or use \
         thread mode in the host"
    )]
    StartedAsDevice {
        /// Name of the environment variable.
        variable: &'static str,
    },
    /// The device program cannot take what it was given.
    #[error("{reason}")]
    NotPrepared {
        /// Its words.
        reason: String,
    },
    /// The device process understood, and refused.
    #[error("the device executable {} refused: {reason}", executable.display())]
    RefusedByDevice {
        /// What was started.
        executable: PathBuf,
        /// Its words.
        reason: String,
    },
    /// The device has ended; its memory can still be read.
    #[error(
        "the device has ended ({cause}); its memory can still be read, open a new device to launch again"
    )]
    Dead {
        /// How.
        cause: DeathCause,
    },
    /// One launch at a time.
    #[error("the device still runs the last launch; wait for it to finish before launching again")]
    AlreadyRunning,
    /// The device sent something that is no message, or not due.
    #[error("the device sent {what}, which makes no sense here; its program may have overwritten the link")]
    Protocol {
        /// What came.
        what: String,
    },
    /// The operating system refused.
    #[error("{doing}: {source}")]
    Os {
        /// What was being done.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl PlatformError {
    /// Whether what was asked for would have to be changed: nothing has run, and nothing broke.
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

/// For `map_err`: names what was being done.
pub(crate) fn os<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> PlatformError {
    move |error| PlatformError::Os { doing, source: error.into() }
}
