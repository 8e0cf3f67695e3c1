use std::{fmt, ops::Deref, path::PathBuf, sync::Arc, time::Duration};

use tensortap_abi::{DeviceAddr, DeviceRange};

use crate::{Confinement, DeviceLink, MappedMemory, PlatformError, Sanitizer, SanitizerReport};

/// A kind of device, such as `a2a3sim`.
pub trait Platform: Send + Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;
    /// One sentence for listings.
    fn about(&self) -> &'static str;
    /// Opens a device and waits until it is ready for its first launch.
    fn open(&self, options: &DeviceOptions) -> Result<Box<dyn Device>, PlatformError>;
}

/// Access to the memory of a [`Device`]. A thread that does not own the device has it, too: the owner may be waiting for the
/// device at the same time. Memory stays readable while any handle exists.
pub trait DeviceAccess: Send + Sync {
    /// The address range of device memory, as the device maps it.
    fn memory(&self) -> DeviceRange;

    /// Copies to device memory. The bytes of one copy may arrive in any order. A copy comes after all copies
    /// that returned before it started.
    fn copy_to(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), PlatformError>;

    /// Copies from device memory, with the same ordering as [`DeviceAccess::copy_to`].
    fn copy_from(&self, from: DeviceAddr, bytes: &mut [u8]) -> Result<(), PlatformError>;

    /// Reads one aligned word, never torn. Later reads see at least everything that the device wrote before
    /// this word.
    fn read_u64(&self, addr: DeviceAddr) -> Result<u64, PlatformError>;

    /// Writes one aligned word, never torn. A device that sees the word also sees the host's earlier copies.
    fn write_u64(&self, addr: DeviceAddr, value: u64) -> Result<(), PlatformError>;

    /// The host's mapping of device memory, or `None` on platforms that only copy.
    fn mapping(&self) -> Option<MappedMemory<'_>>;

    /// Wakes device threads that wait for the host. Costs a system call only if a thread sleeps.
    fn wake(&self);
}

/// An open device, as the host sees it: also its own [`DeviceAccess`]. Dropping it ends the device.
///
/// Memory stays readable after the device has died, until the device and every [`DeviceAccess`] are dropped.
pub trait Device: Send {
    /// Access to the memory of the device.
    fn host(&self) -> &(dyn DeviceAccess + 'static);

    /// A handle that gives other threads access to device memory.
    fn access(&self) -> Arc<dyn DeviceAccess>;

    /// Allocates `bytes` of device memory, aligned to at least 64 bytes. `what` names the use in error
    /// messages. Memory is zero when it is allocated for the first time; memory that was freed keeps its old
    /// content.
    fn allocate(&mut self, bytes: u64, align: u64, what: &str) -> Result<DeviceAddr, PlatformError>;

    /// Allocates exactly `range`. Fails if any byte of it is in use or outside of device memory, so nothing
    /// is ever overwritten. Returns the address to free, which is the start of the range rounded down to 64
    /// bytes.
    fn allocate_at(&mut self, range: DeviceRange, what: &str) -> Result<DeviceAddr, PlatformError>;

    /// Frees an address that [`Device::allocate`] or [`Device::allocate_at`] returned.
    fn free(&mut self, addr: DeviceAddr) -> Result<(), PlatformError>;

    /// Starts the device program with `args`. Only one launch may run at a time.
    fn launch(&mut self, args: DeviceAddr) -> Result<(), PlatformError>;

    /// Sleeps until an event or until `timeout` has passed. A dead device returns [`DeviceEvent::Died`] on
    /// every call.
    fn wait(&mut self, timeout: Duration) -> Result<DeviceEvent, PlatformError>;

    /// Ends the device process at once and reaps it. A thread cannot be killed, so in thread mode its threads
    /// are abandoned (see [`crate::abandoned_devices`]). In both modes the device counts as dead afterwards.
    fn kill(&mut self);

    /// Whether the host survives a crash of the device program.
    fn survives_kernel_faults(&self) -> bool;

    /// Whether the device is a process or a thread.
    fn mode(&self) -> DeviceMode;

    /// The process id of the device, in process mode.
    fn process_id(&self) -> Option<u32>;

    /// The report of the [sanitizer](DeviceOptions::sanitizer), once the device has ended. The second call
    /// returns `None`.
    fn take_report(&mut self) -> Option<SanitizerReport> {
        None
    }

    /// The restrictions that are in force if the device was opened with [`DeviceOptions::confined`].
    fn confinement(&self) -> Confinement {
        Confinement::NONE
    }
}

impl Deref for dyn Device + '_ {
    type Target = dyn DeviceAccess;

    fn deref(&self) -> &Self::Target {
        self.host()
    }
}

/// The program that a device runs.
///
/// In process mode the device process passes its own program to [`crate::become_device_if_asked`]. Nothing
/// crosses by pointer.
pub trait DeviceProgram: Send + Sync + 'static {
    /// Receives [`DeviceOptions::program_data`] before the first launch and before the device process is confined,
    /// so this is the place to load libraries. Not called if `program_data` is empty.
    ///
    /// # Errors
    ///
    /// The reason why the device cannot run, as a message for the user.
    fn prepare(&self, _data: &[u8]) -> Result<(), String> {
        Err("this device program accepts no data before its first launch".to_owned())
    }

    /// Runs one launch on the device's main thread. When it returns, the host learns that the launch is over,
    /// unless the program has already called [`DeviceLink::finished`].
    fn run(&self, link: &DeviceLink, args: DeviceAddr);
}

/// How to open a device.
#[derive(Clone)]
pub struct DeviceOptions {
    /// Whether the device is a process or a thread of this process.
    pub mode: DeviceMode,
    /// Size of device memory, rounded up to whole pages. `None` takes half of the memory that is available
    /// now.
    pub memory_bytes: Option<u64>,
    /// Selects the address of device memory in process mode. Thread mode leases the first free address range
    /// instead.
    pub rank: u32,
    /// The executable to start in process mode. `None` starts this executable again.
    pub executable: Option<PathBuf>,
    /// The program to run in thread mode.
    pub program: Arc<dyn DeviceProgram>,
    /// How long a started process may take to answer.
    pub handshake_timeout: Duration,
    /// Whether to restrict the device process to what kernels need. [`Device::confinement`] says which
    /// restrictions are in force. A thread cannot be confined.
    pub confined: bool,
    /// Data for [`DeviceProgram::prepare`]. Empty means none.
    pub program_data: Vec<u8>,
    /// A sanitizer that watches the kernels. It is loaded first, so it needs a new process.
    /// [`Device::take_report`] returns its report.
    pub sanitizer: Option<Sanitizer>,
}

impl DeviceOptions {
    /// A process of this executable with rank 0, default memory and 10 seconds to answer.
    pub fn new(program: Arc<dyn DeviceProgram>) -> DeviceOptions {
        DeviceOptions {
            mode: DeviceMode::default(),
            memory_bytes: None,
            rank: 0,
            executable: None,
            program,
            handshake_timeout: Duration::from_secs(10),
            confined: false,
            program_data: Vec::new(),
            sanitizer: None,
        }
    }
}

impl fmt::Debug for DeviceOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeviceOptions {
            mode,
            memory_bytes,
            rank,
            executable,
            program: _,
            handshake_timeout,
            confined,
            program_data,
            sanitizer,
        } = self;
        f.debug_struct("DeviceOptions")
            .field("mode", mode)
            .field("memory_bytes", memory_bytes)
            .field("rank", rank)
            .field("executable", executable)
            .field("handshake_timeout", handshake_timeout)
            .field("confined", confined)
            .field("program_data_bytes", &program_data.len())
            .field("sanitizer", sanitizer)
            .finish_non_exhaustive()
    }
}

/// Where a simulated device runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceMode {
    /// In its own process. The host survives crashes, hangs and kills.
    #[default]
    Process,
    /// In threads of the host's process. A crash or hang of the device is also one of the host. The device
    /// program prints to the host's standard output. The device's mapping of its memory appears in the host's
    /// memory map, on every platform.
    Thread,
}

impl DeviceMode {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceMode::Process => "process",
            DeviceMode::Thread => "thread",
        }
    }

    /// The mode with this name.
    ///
    /// ```
    /// # use tensortap_platform::DeviceMode;
    /// assert_eq!(DeviceMode::parse("thread"), Some(DeviceMode::Thread));
    /// assert_eq!(DeviceMode::parse("fiber"), None);
    /// ```
    pub fn parse(text: &str) -> Option<DeviceMode> {
        [DeviceMode::Process, DeviceMode::Thread].into_iter().find(|mode| mode.name() == text)
    }
}

impl fmt::Display for DeviceMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The result of [`Device::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceEvent {
    /// The launch is over.
    Finished,
    /// The device called [`DeviceLink::wake_host`] since the last wait. The host may see one event too many,
    /// but never misses a wake.
    Woken,
    /// Nothing happened within the timeout.
    TimedOut,
    /// The device ended unexpectedly.
    Died(DeathCause),
}

/// How a device ended. Both fields are `None` if the cause is unknown: for a thread, or for a child process
/// that something else reaped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeathCause {
    /// The signal that ended the process.
    pub signal: Option<i32>,
    /// The exit code of the process.
    pub code: Option<i32>,
}

impl fmt::Display for DeathCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.signal, self.code) {
            (Some(signal), _) => match signal_name(signal) {
                Some(name) => write!(f, "ended by signal {signal}, {name}"),
                None => write!(f, "ended by signal {signal}"),
            },
            (None, Some(code)) => write!(f, "exited with code {code}"),
            (None, None) => f.write_str("ended for an unknown reason"),
        }
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        _ => return None,
    };
    Some(name)
}
