//! The simulated platforms.

use std::{sync::Arc, time::Duration};

use tensortap_abi::{DeviceAddr, DeviceRange};

use crate::{
    Confinement, Device, DeviceAccess, DeviceEvent, DeviceMode, DeviceOptions, LINK_PAGE_BYTES, Platform,
    PlatformError, SanitizerReport,
    address::{RankLease, base_of_rank},
    alloc::Allocator,
    connection::{Connection, Runner},
    file,
    host_memory::{HostAccess, HostMemory},
    link_page::{self, WakeSocket},
    make_file_limits_errors, process, thread,
};

/// The default platform.
pub const DEFAULT_PLATFORM: &str = A2A3SIM.name;

/// All platforms.
pub static PLATFORMS: &[&dyn Platform] = &[&A2A3SIM, &A5SIM];

const A2A3SIM: SimulatedPlatform = SimulatedPlatform {
    name: "a2a3sim",
    about: "simulated device with shared memory: the host maps device memory and reads it while the device runs",
    maps: true,
};

const A5SIM: SimulatedPlatform = SimulatedPlatform {
    name: "a5sim",
    about: "simulated device without host mapping: the host copies the ranges it asks for",
    maps: false,
};

/// The platform with this name.
///
/// ```
/// use tensortap_platform::find;
/// assert_eq!(find("a5sim")?.name(), "a5sim");
/// assert!(find("a6sim").err().unwrap().to_string().contains("a2a3sim, a5sim"));
/// # Ok::<(), tensortap_platform::PlatformError>(())
/// ```
pub fn find(name: &str) -> Result<&'static dyn Platform, PlatformError> {
    PLATFORMS.iter().copied().find(|platform| platform.name() == name).ok_or_else(|| {
        let known: Vec<_> = PLATFORMS.iter().map(|platform| platform.name()).collect();
        PlatformError::UnknownPlatform { name: name.to_owned(), known: known.join(", ") }
    })
}

/// A simulated platform. `maps` says whether the host maps device memory. In thread mode the device's own
/// mapping is in the host's process too, on both platforms.
struct SimulatedPlatform {
    name: &'static str,
    about: &'static str,
    maps: bool,
}

impl Platform for SimulatedPlatform {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn open(&self, options: &DeviceOptions) -> Result<Box<dyn Device>, PlatformError> {
        let device = match options.mode {
            DeviceMode::Process => {
                let memory = self.create_memory(options, options.rank)?;
                SimulatedDevice::new(process::start(options, &memory)?, memory)
            }
            DeviceMode::Thread if options.confined => return Err(PlatformError::ThreadConfined),
            DeviceMode::Thread if options.sanitizer.is_some() => return Err(PlatformError::ThreadSanitized),
            DeviceMode::Thread => {
                let lease = RankLease::first_free()?;
                let memory = self.create_memory(options, lease.rank())?;
                SimulatedDevice::new(thread::start(options, &memory, lease)?, memory)
            }
        };
        Ok(Box::new(device))
    }
}

impl SimulatedPlatform {
    fn create_memory(&self, options: &DeviceOptions, rank: u32) -> Result<HostMemory, PlatformError> {
        make_file_limits_errors();
        let addr = base_of_rank(rank)?;
        let bytes = file::choose_size(options.memory_bytes)?;
        let memory = HostMemory::new(DeviceRange { addr, bytes }, file::create(bytes)?, self.maps)?;
        link_page::initialize(&memory)?;
        Ok(memory)
    }
}

struct SimulatedDevice {
    connection: Connection,
    allocator: Allocator,
    access: Arc<HostAccess>,
}

impl SimulatedDevice {
    fn new((connection, to_device): (Connection, WakeSocket), memory: HostMemory) -> SimulatedDevice {
        let DeviceRange { addr, bytes } = memory.range();
        let allocatable = DeviceRange { addr: addr + LINK_PAGE_BYTES, bytes: bytes - LINK_PAGE_BYTES };
        let access = Arc::new(HostAccess::new(memory, to_device));
        SimulatedDevice { connection, allocator: Allocator::new(allocatable), access }
    }
}

impl Device for SimulatedDevice {
    fn host(&self) -> &(dyn DeviceAccess + 'static) {
        &*self.access
    }

    fn access(&self) -> Arc<dyn DeviceAccess> {
        self.access.clone()
    }

    fn allocate(&mut self, bytes: u64, align: u64, what: &str) -> Result<DeviceAddr, PlatformError> {
        self.allocator.allocate(bytes, align, what)
    }

    fn allocate_at(&mut self, range: DeviceRange, what: &str) -> Result<DeviceAddr, PlatformError> {
        self.allocator.allocate_at(range, what)
    }

    fn free(&mut self, addr: DeviceAddr) -> Result<(), PlatformError> {
        self.allocator.free(addr)
    }

    fn launch(&mut self, args: DeviceAddr) -> Result<(), PlatformError> {
        let memory = self.access.memory();
        if !(memory.addr..memory.end()).contains(&args) {
            return Err(PlatformError::OutOfRange { addr: args, bytes: 1, memory });
        }
        self.connection.launch(args)
    }

    fn wait(&mut self, timeout: Duration) -> Result<DeviceEvent, PlatformError> {
        self.connection.wait(self.access.host_memory(), timeout)
    }

    fn kill(&mut self) {
        self.connection.kill();
    }

    fn survives_kernel_faults(&self) -> bool {
        self.mode() == DeviceMode::Process
    }

    fn mode(&self) -> DeviceMode {
        match self.connection.runner {
            Runner::Process(_) => DeviceMode::Process,
            Runner::Thread(_) => DeviceMode::Thread,
        }
    }

    fn confinement(&self) -> Confinement {
        match &self.connection.runner {
            Runner::Process(process) => process.confinement(),
            Runner::Thread(_) => Confinement::NONE,
        }
    }

    fn take_report(&mut self) -> Option<SanitizerReport> {
        match &mut self.connection.runner {
            Runner::Process(process) => process.take_report(),
            Runner::Thread(_) => None,
        }
    }

    fn process_id(&self) -> Option<u32> {
        match &self.connection.runner {
            Runner::Process(process) => Some(process.id()),
            Runner::Thread(_) => None,
        }
    }
}
