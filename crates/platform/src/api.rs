use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use tensortap_abi::{DeviceAddr, DeviceRange};

use crate::{Confinement, DeviceLink, MappedMemory, PlatformError, Sanitizer, SanitizerReport};

/// A kind of device.
pub trait Platform: Send + Sync {
    /// The name it is chosen by.
    fn name(&self) -> &'static str;
    /// One sentence for a listing.
    fn about(&self) -> &'static str;
    /// Starts a device that is ready for its first launch.
    fn open(&self, options: &DeviceOptions) -> Result<Box<dyn Device>, PlatformError>;
}

/// Device memory and the device's sleepers, for a thread that has not the device itself: another may wait for the
/// device meanwhile. Memory stays readable as long as any handle exists.
pub trait DeviceAccess: Send + Sync {
    /// As [`Device::memory`].
    fn memory(&self) -> DeviceRange;
    /// As [`Device::copy_to`].
    fn copy_to(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), PlatformError>;
    /// As [`Device::copy_from`].
    fn copy_from(&self, from: DeviceAddr, bytes: &mut [u8]) -> Result<(), PlatformError>;
    /// As [`Device::read_u64`].
    fn read_u64(&self, addr: DeviceAddr) -> Result<u64, PlatformError>;
    /// As [`Device::write_u64`].
    fn write_u64(&self, addr: DeviceAddr, value: u64) -> Result<(), PlatformError>;
    /// As [`Device::mapping`].
    fn mapping(&self) -> Option<MappedMemory<'_>>;
    /// As [`Device::wake`].
    fn wake(&self);
}

/// An open device, as the host sees it. Dropping it ends it.
///
/// Memory stays readable after the device has died, until the device and every [`DeviceAccess`] are dropped.
pub trait Device: Send {
    /// Where device memory lies for the device, and how much there is.
    fn memory(&self) -> DeviceRange;

    /// A handle for other threads to reach device memory through.
    fn access(&self) -> Arc<dyn DeviceAccess>;

    /// Hands out `bytes` of device memory, aligned to at least 64 bytes. `what` names the use in a refusal.
    /// Memory is zero the first time it is handed out; what was freed before comes back with its old content.
    fn allocate(&mut self, bytes: u64, align: u64, what: &str) -> Result<DeviceAddr, PlatformError>;

    /// Hands out a given range, or refuses when any byte of it is in use or outside of device memory: nothing is ever
    /// covered. Gives the address to free, which is the range's first rounded down to 64 bytes.
    fn allocate_at(&mut self, range: DeviceRange, what: &str) -> Result<DeviceAddr, PlatformError>;

    /// Takes back what [`Device::allocate`] or [`Device::allocate_at`] returned.
    fn free(&mut self, addr: DeviceAddr) -> Result<(), PlatformError>;

    /// Copies to the device. No order is promised between the bytes of one copy; a copy comes after those
    /// that returned before it.
    fn copy_to(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), PlatformError>;

    /// Copies from the device. The same promise as [`Device::copy_to`].
    fn copy_from(&self, from: DeviceAddr, bytes: &mut [u8]) -> Result<(), PlatformError>;

    /// Reads one aligned word, whole. Reads that follow see at least what the device wrote before the word.
    fn read_u64(&self, addr: DeviceAddr) -> Result<u64, PlatformError>;

    /// Writes one aligned word, whole. A device that sees it sees the host's earlier copies too.
    fn write_u64(&self, addr: DeviceAddr, value: u64) -> Result<(), PlatformError>;

    /// Device memory as the host has mapped it; `None` where the platform only copies.
    fn mapping(&self) -> Option<MappedMemory<'_>>;

    /// Calls the device program once with `args`. One launch at a time.
    fn launch(&mut self, args: DeviceAddr) -> Result<(), PlatformError>;

    /// Sleeps until something happens or `timeout` has passed. A device that died says so every time.
    fn wait(&mut self, timeout: Duration) -> Result<DeviceEvent, PlatformError>;

    /// Wakes device threads that sleep on the host. Costs a system call only when one does.
    fn wake(&self);

    /// Ends the device process at once and reaps it. A device in thread mode cannot be ended: it is left behind
    /// (see [`crate::abandoned_devices`]). Either way the device counts as dead afterwards.
    fn kill(&mut self);

    /// Whether a crash of the device program leaves the host alive.
    fn survives_kernel_faults(&self) -> bool;

    /// Process or thread.
    fn mode(&self) -> DeviceMode;

    /// The device's process, in process mode.
    fn process_id(&self) -> Option<u32>;

    /// What the [sanitizer](DeviceOptions::sanitizer) of a device that has ended said of it, once.
    fn take_report(&mut self) -> Option<SanitizerReport> {
        None
    }

    /// What the device is kept from, if it was to be [confined](DeviceOptions::confined).
    fn confinement(&self) -> Confinement {
        Confinement::NONE
    }
}

/// The program a device runs.
///
/// In process mode the device process brings its own, through [`crate::become_device_if_asked`]; nothing
/// crosses by pointer.
pub trait DeviceProgram: Send + Sync + 'static {
    /// Takes what the host [gives](DeviceOptions::given), before the first launch and before a device process is confined: this
    /// is where libraries are loaded. It is not called when nothing is given.
    ///
    /// # Errors
    /// Why the device cannot be had, in words for the user.
    fn prepare(&self, _given: &[u8]) -> Result<(), String> {
        Err("this device program takes nothing from its host".to_owned())
    }

    /// Runs one launch, on the device's main thread. When it returns, the host hears that the launch is over,
    /// unless it was told before with [`DeviceLink::finished`].
    fn run(&self, link: &DeviceLink, args: DeviceAddr);
}

/// How a device is opened.
#[derive(Clone)]
pub struct DeviceOptions {
    /// A process of its own, or a thread in this one.
    pub mode: DeviceMode,
    /// Size of device memory, rounded up to whole pages; `None` takes half of the memory available now.
    pub memory_bytes: Option<u64>,
    /// Chooses the address of device memory in process mode. Thread mode leases the first free one.
    pub rank: u32,
    /// What to start in process mode; `None` starts this executable again.
    pub executable: Option<PathBuf>,
    /// What to run in thread mode.
    pub program: Arc<dyn DeviceProgram>,
    /// How long a started process may take to answer.
    pub handshake_timeout: Duration,
    /// Keep a device process from everything that kernels do not need; [`Device::confinement`] says what came of it. A thread
    /// cannot be confined.
    pub confined: bool,
    /// What the device program is to [prepare](DeviceProgram::prepare) before its first launch; empty for nothing.
    pub given: Vec<u8>,
    /// What watches its kernels: it is loaded first, and [`Device::take_report`] gives what it says. It cannot be loaded into a
    /// process that runs already.
    pub sanitizer: Option<Sanitizer>,
}

impl DeviceOptions {
    /// A process running this executable, rank 0, default memory, 10 seconds to answer.
    pub fn new(program: Arc<dyn DeviceProgram>) -> DeviceOptions {
        DeviceOptions {
            mode: DeviceMode::default(),
            memory_bytes: None,
            rank: 0,
            executable: None,
            program,
            handshake_timeout: Duration::from_secs(10),
            confined: false,
            given: Vec::new(),
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
            given,
            sanitizer,
        } = self;
        f.debug_struct("DeviceOptions")
            .field("mode", mode)
            .field("memory_bytes", memory_bytes)
            .field("rank", rank)
            .field("executable", executable)
            .field("handshake_timeout", handshake_timeout)
            .field("confined", confined)
            .field("given_bytes", &given.len())
            .field("sanitizer", sanitizer)
            .finish_non_exhaustive()
    }
}

/// Where a simulated device lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceMode {
    /// Its own process: the host survives whatever happens in it.
    #[default]
    Process,
    /// Threads of the host's process: a crash or a hang is the host's too, output of the device program goes to the
    /// host's own standard output, and the device's mapping of its memory is in the host's memory map on every
    /// platform.
    Thread,
}

impl DeviceMode {
    /// Spelling on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceMode::Process => "process",
            DeviceMode::Thread => "thread",
        }
    }

    /// The mode spelled `text`.
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

/// What [`Device::wait`] waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceEvent {
    /// The launch is over.
    Finished,
    /// The device called [`DeviceLink::wake_host`] since the last wait. May come once too often, never once too
    /// seldom.
    Woken,
    /// Nothing happened in time.
    TimedOut,
    /// The device has ended, and not because it was asked to.
    Died(DeathCause),
}

/// How a device ended. Both are `None` when nobody knows: a thread, or a child that somebody else reaped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeathCause {
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The exit code it ended with.
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
            (None, None) => f.write_str("ended without a code"),
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
