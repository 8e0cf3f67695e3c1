//! Opens a dump. The region, the run information and the collector of one dump must agree on its run id, its
//! geometry and its settings. So all of them are derived from one [`DumpSetup`].

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tensortap_abi::{DeviceRange, DumpFilter, DumpLevel, DumpPolicy};
use tensortap_format::{HOST_PLATFORM, RECORD_RUNTIME, RunInfo, monotonic_ns, timestamp};
use tensortap_platform::{DeviceAccess, LINK_PAGE_BYTES, PlatformError};
use tensortap_recorder::{SetupBytes, SetupError, SetupOptions, setup_bytes};

use crate::{CollectError, Collection, Collector, CollectorOptions, DeviceRegion, Listener, Sink};

/// Where tensors of a recorded program may be: anywhere. Their addresses are the process's own, or those of
/// devices that it uses.
pub const ANY_MEMORY: DeviceRange = DeviceRange { addr: 0, bytes: u64::MAX };

/// A dump that is about to start.
#[derive(Clone, Debug)]
pub struct DumpSetup {
    started: SystemTime,
    level: DumpLevel,
    policy: DumpPolicy,
    filter: DumpFilter,
    /// Settings of the collector. The geometry and the device memory may be set until collecting starts.
    pub collector: CollectorOptions,
}

impl DumpSetup {
    /// A dump that starts now. Draws its run id; `process` is the process that records or is recorded, which
    /// distinguishes dumps that start at the same moment.
    #[must_use]
    pub fn new(
        process: u32,
        level: DumpLevel,
        policy: DumpPolicy,
        filter: DumpFilter,
        mut collector: CollectorOptions,
    ) -> DumpSetup {
        let started = SystemTime::now();
        collector.run_id = run_id(started, process);
        DumpSetup { started, level, policy, filter, collector }
    }

    /// Distinguishes this dump from others.
    #[must_use]
    pub fn run_id(&self) -> u64 {
        self.collector.run_id
    }

    /// When the dump started.
    #[must_use]
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// The run information that follows from the settings.
    #[must_use]
    pub fn run_info(&self) -> RunInfo {
        RunInfo {
            run_id: self.run_id(),
            started_at: timestamp(self.started),
            started_monotonic_ns: monotonic_at(self.started).to_string(),
            dump_level: self.level as u32,
            dump_policy: self.policy.name().into(),
            dump_collect: self.collector.collect.name().into(),
            filters: self.filter.names().map(str::to_owned).collect(),
            ..RunInfo::default()
        }
    }

    /// The run information of a recorded process with this name.
    #[must_use]
    pub fn process_info(&self, name: &str) -> RunInfo {
        RunInfo {
            platform: HOST_PLATFORM.into(),
            runtime: RECORD_RUNTIME.into(),
            scene: name.into(),
            ..self.run_info()
        }
    }

    /// Settings of the region of a device. The platform sets the base address.
    #[must_use]
    pub fn region(&self) -> SetupOptions {
        SetupOptions {
            base: 0,
            run_id: self.run_id(),
            level: self.level,
            policy: self.policy,
            collect: self.collector.collect,
            liveness_ms: u64::try_from(self.collector.liveness.as_millis()).unwrap_or(u64::MAX),
            filter: self.filter,
            of_process: false,
        }
    }

    /// The content of the region of a process that records itself, to be written with [`write_to_process`].
    ///
    /// # Errors
    /// If no region can have these sizes.
    pub fn process_region(&self) -> Result<SetupBytes, SetupError> {
        let options = SetupOptions { base: LINK_PAGE_BYTES, of_process: true, ..self.region() };
        let mut setup = setup_bytes(self.collector.geometry, &options)?;
        setup.state.arena_limit = self.collector.arena.start;
        Ok(setup)
    }

    /// Starts to collect from the region of a device. With `look`, drains it at least that often.
    ///
    /// # Errors
    /// If the region is outside the device's memory, its sizes are invalid, or a thread cannot be started.
    pub fn collect<S: Sink + Send + 'static>(
        &self,
        device: Arc<dyn DeviceAccess>,
        region: DeviceRange,
        sink: S,
        listener: Listener,
        look: Option<Duration>,
    ) -> Result<Collection<DeviceRegion, S>, CollectError> {
        let region = DeviceRegion::new(device, region).ok_or(CollectError::OutsideMemory)?;
        let collector = Collector::new(region, sink, &self.collector, listener)?;
        match look {
            Some(look) => Collection::start_looking(collector, look),
            None => Collection::start(collector),
        }
    }

    /// Starts to collect from the region of a process that records itself; `memory` is shared with it.
    ///
    /// # Errors
    /// As for [`collect`](Self::collect).
    pub fn collect_process<S: Sink + Send + 'static>(
        &self,
        memory: Arc<dyn DeviceAccess>,
        sink: S,
        listener: Listener,
    ) -> Result<Collection<DeviceRegion, S>, CollectError> {
        let mut setup = self.clone();
        setup.collector.device_memory = ANY_MEMORY;
        let region = DeviceRange { addr: LINK_PAGE_BYTES, bytes: self.collector.geometry.bytes() };
        setup.collect(memory, region, sink, listener, None)
    }
}

/// Writes a region from [`DumpSetup::process_region`] to the memory that is shared with the process. The region
/// follows the link page.
///
/// # Errors
/// If the memory cannot be written.
pub fn write_to_process(setup: &SetupBytes, memory: &dyn DeviceAccess) -> Result<(), PlatformError> {
    setup.try_write(|offset, bytes| memory.copy_to(LINK_PAGE_BYTES + offset, bytes))
}

/// Distinguishes the dumps of one machine by their start and their process.
fn run_id(started: SystemTime, process: u32) -> u64 {
    let nanos = started.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    u64::try_from(nanos & u128::from(u64::MAX)).unwrap_or(1) ^ u64::from(process) << 40
}

/// The monotonic clock at the time `then`, a moment ago.
fn monotonic_at(then: SystemTime) -> u64 {
    let since = SystemTime::now().duration_since(then).map_or(0, |since| since.as_nanos());
    monotonic_ns().saturating_sub(u64::try_from(since).unwrap_or(0))
}
