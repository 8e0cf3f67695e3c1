//! Without `--dump-tensor` and `--dump-args`, nothing is allocated for a dump, neither on the device nor on
//! the host.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tensortap::{BuildMode, DeviceMode, DumpConfig, DumpLevel, RUNTIMES, RunConfig, RunFailure};
use tensortap_abi::{
    DUMP_ARGS, DUMP_TENSORS, DeviceAddr, DeviceRange, DumpCollect, DumpFilter, DumpGeometry, DumpPolicy,
    KernelArgs,
};
use tensortap_platform::{Device, DeviceAccess, DeviceEvent, DeviceOptions, PLATFORMS, PlatformError};
use tensortap_recorder::SetupOptions;
use tensortap_runtime::{
    DumpSession, GraphProgram, GuardOptions, HostGraph, LaunchOptions, RegionPlan, RunError, execute,
};
use tensortap_scene::Params;

/// A device that records the calls it receives.
struct DeviceSpy {
    device: Box<dyn Device>,
    allocations: Vec<(String, u64)>,
    launched: Vec<KernelArgs>,
}

impl Device for DeviceSpy {
    fn allocate(&mut self, bytes: u64, align: u64, what: &str) -> Result<DeviceAddr, PlatformError> {
        self.allocations.push((what.to_string(), bytes));
        self.device.allocate(bytes, align, what)
    }
    fn launch(&mut self, args: DeviceAddr) -> Result<(), PlatformError> {
        let mut bytes = [0; size_of::<KernelArgs>()];
        self.device.copy_from(args, &mut bytes)?;
        self.launched.push(zerocopy::FromBytes::read_from_bytes(&bytes).expect("the sizes agree"));
        self.device.launch(args)
    }
    fn host(&self) -> &(dyn DeviceAccess + 'static) {
        self.device.host()
    }
    fn access(&self) -> Arc<dyn DeviceAccess> {
        self.device.access()
    }
    fn allocate_at(&mut self, range: DeviceRange, what: &str) -> Result<DeviceAddr, PlatformError> {
        self.allocations.push((what.to_string(), range.bytes));
        self.device.allocate_at(range, what)
    }
    fn free(&mut self, addr: DeviceAddr) -> Result<(), PlatformError> {
        self.device.free(addr)
    }
    fn wait(&mut self, timeout: Duration) -> Result<DeviceEvent, PlatformError> {
        self.device.wait(timeout)
    }
    fn kill(&mut self) {
        self.device.kill();
    }
    fn survives_kernel_faults(&self) -> bool {
        self.device.survives_kernel_faults()
    }
    fn mode(&self) -> DeviceMode {
        self.device.mode()
    }
    fn process_id(&self) -> Option<u32> {
        self.device.process_id()
    }
}

const GEOMETRY: fn(u32) -> DumpGeometry =
    |threads| DumpGeometry { lanes: threads, buffers: 2, records: 64, arena_bytes: 64 << 10 };

/// A dump without a collector.
struct UncollectedDump {
    enable: u32,
}

impl DumpSession for UncollectedDump {
    fn plan(&mut self, threads: u32) -> Result<RegionPlan, RunError> {
        let options = SetupOptions {
            base: 0,
            run_id: 1,
            level: if self.enable & DUMP_TENSORS != 0 { DumpLevel::Full } else { DumpLevel::Off },
            policy: DumpPolicy::Drop,
            collect: DumpCollect::Live,
            liveness_ms: 0,
            filter: DumpFilter::ALL,
            of_process: false,
        };
        Ok(RegionPlan { geometry: GEOMETRY(threads), options, enable: self.enable })
    }
    fn begin(
        &mut self,
        _device: Arc<dyn DeviceAccess>,
        _region: DeviceRange,
        _graph: &HostGraph,
    ) -> Result<(), RunError> {
        Ok(())
    }
    fn woken(&mut self) {}
}

/// The allocations and launch arguments of a run of `mixed_example`.
fn asked(platform: &str, runtime: &str, enable: u32) -> (Vec<(String, u64)>, KernelArgs) {
    let registry = tensortap::builtin();
    let scene = registry.find("mixed_example").expect("a built-in scene");
    let mut options = DeviceOptions::new(Arc::new(GraphProgram::new(registry.clone())));
    options.mode = DeviceMode::Thread;
    options.memory_bytes = Some(1 << 30);
    let platform = PLATFORMS.iter().find(|p| p.name() == platform).expect("a platform");
    let device = platform.open(&options).expect("it opens");
    let mut device = DeviceSpy { device, allocations: Vec::new(), launched: Vec::new() };
    let params = Params::resolve(scene.name(), scene.params(), []).expect("defaults are valid");
    let launch = LaunchOptions {
        blocks: 2,
        schedulers: 1,
        build: BuildMode::default(),
        ring_slots: 256,
        ring_heap_bytes: Some(1 << 20),
        stall_timeout: None,
        fault: None,
        poison: None,
        guarding: GuardOptions::default(),
    };
    let mut session = UncollectedDump { enable };
    let dump = (enable != 0).then_some(&mut session as &mut dyn DumpSession);
    let runtime = tensortap_runtime::find(runtime).expect("a runtime");
    let inputs = scene.host_args(&params);
    execute(&mut device, scene, &params, runtime, launch, &inputs, dump, &mut |_| true).expect("it runs");
    (device.allocations, device.launched[0])
}

#[test]
fn the_device_reserves_a_region_when_either_is_recorded_and_nothing_otherwise() {
    for platform in PLATFORMS {
        for runtime in RUNTIMES {
            let label = format!("{}, {}", platform.name(), runtime.name());
            let (without, args) = asked(platform.name(), runtime.name(), 0);
            assert_eq!((args.dump_enable, args.dump_data_base), (0, 0), "{label}");
            assert!(without.iter().all(|(what, _)| !what.contains("dump")), "{label}: {without:?}");
            for enable in [DUMP_TENSORS, DUMP_ARGS, DUMP_TENSORS | DUMP_ARGS] {
                let (with, args) = asked(platform.name(), runtime.name(), enable);
                assert_eq!((args.dump_enable, args.dump_data_base != 0), (enable, true), "{label}");
                let extra: Vec<_> = with.iter().filter(|allocation| !without.contains(allocation)).collect();
                let bytes = GEOMETRY(tensortap_runtime::recording_threads(1)).bytes();
                assert_eq!(extra.len(), 1, "{label}: {extra:?}");
                assert!(extra[0].0.contains("dump region") && extra[0].1 == bytes, "{label}: {extra:?}");
                assert_eq!(with.len(), without.len() + 1, "{label}");
            }
        }
    }
}

/// Names of this process's threads.
fn threads() -> BTreeSet<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let names = tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("comm")));
    names.flatten().map(|name| name.trim().to_string()).collect()
}

/// Threads of a dump on the host.
const HELPERS: [&str; 2] = ["tt-collector", "tt-heartbeat"];
/// How long a run is watched for these threads, both if they are expected and if not.
const LONGEST: Duration = Duration::from_secs(20);
const MOMENT: Duration = Duration::from_millis(300);

/// Threads seen during a run. If they are `expected`, stops once those of a dump were seen.
fn threads_of_a_run(dump: Option<DumpConfig>, expected: bool) -> BTreeSet<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = RunConfig::new("hang");
    config.registry = tensortap_test_scenes::all();
    config.device_mode = DeviceMode::Thread;
    config.device_memory = Some(1 << 30);
    config.stall_timeout = None;
    config.dump = dump;
    config.out = Some(folder.path().join("dump"));
    // A thread sets its own name, possibly late. Expected threads get some time to appear, all others a
    // moment.
    let (mut seen, began) = (BTreeSet::new(), Instant::now());
    let report = tensortap::run_observed(&config, &mut |_| {
        seen.extend(threads());
        let has_all = HELPERS.iter().all(|name| seen.contains(*name));
        !has_all && began.elapsed() < if expected { LONGEST } else { MOMENT }
    });
    let status = report
        .or_else(tensortap::Error::into_report)
        .expect("it began")
        .failure
        .as_ref()
        .map(RunFailure::status);
    assert_eq!(status, Some("interrupted"));
    seen
}

#[test]
fn the_host_starts_no_collector_without_a_dump() {
    // In this order: a hanging thread is left over.
    let helpers = |seen: &BTreeSet<String>| HELPERS.map(|name| seen.contains(name));
    let without = threads_of_a_run(None, false);
    assert!(without.iter().any(|name| name.starts_with("tt-sched")), "{without:?}");
    assert_eq!(helpers(&without), [false, false], "{without:?}");
    let nothing = threads_of_a_run(Some(DumpConfig::new(DumpLevel::Off)), false);
    assert_eq!(helpers(&nothing), [false, false], "{nothing:?}");
    assert_eq!(helpers(&threads_of_a_run(Some(DumpConfig::args_only()), true)), [true, true]);
}
