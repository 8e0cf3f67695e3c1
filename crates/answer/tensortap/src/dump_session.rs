//! The dump of one scene run, from the region to the closed files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tensortap_abi::{
    DeviceAddr, DeviceRange, DumpLevel, DumpStage, EdgeCause, EdgeRecord, FIRST_DECLARED_ID, KernelArg,
    KernelRecord, RECORD_IN_FLIGHT, Role, ScopeRecord, TaskRecord,
};
use tensortap_collector::{CollectError, Collection, Collector, DeviceRegion, DumpSetup, RunEnd};
use tensortap_format::{
    DumpCounters, DumpWriter, GoldenVerdict, InFlightTask as InFlightEntry, IndexRecord, KernelInfo,
    KernelTolerance, RunInfo, Status, choose_dir, timestamp,
};
use tensortap_platform::DeviceAccess;
use tensortap_recorder::{TensorCapture, TensorDetails, UncapturedArg, tensor_record, uncaptured_record};
use tensortap_runtime::{
    DumpSession, Fault, HostGraph, HostNames, HostScope, InFlightTask, RegionPlan, RunError, RunFailure,
};
use tensortap_scene::{ArgSpec, KernelDef, KernelLibrary, Params, ScalarArg, Scene};

use tensortap_analysis::blame::LIVE_GOLDEN_KEY;

use crate::build_id;
use crate::dump_files::Files;
use crate::dump_plan::{OUTPUTS, dump_setup, dump_writer, folder_bytes, listener, remove_empty_dump};
use crate::in_flight::gather;
use crate::live::{LiveComparison, LiveState};
use crate::{DiskGate, DumpConfig, DumpReport, Error, Request, RunConfig, Warn};

/// How often the collector and the run's owner check whether a live comparison wants to end the run. A
/// wrong task ends the run at most two such intervals after its last record, plus the time of the
/// comparison.
const STOP_LOOK: Duration = Duration::from_millis(2);

/// Collects the records of a run.
pub struct Session<'a> {
    config: &'a DumpConfig,
    scene: &'static dyn Scene,
    writer: Option<DumpWriter>,
    dir: PathBuf,
    setup: DumpSetup,
    collection: Option<Collection<DeviceRegion, Files>>,
    /// The collector after everything was drained, or the error that prevented that.
    drained: Option<Result<Collector<DeviceRegion, Files>, CollectError>>,
    access: Option<Arc<dyn DeviceAccess>>,
    warn: Option<Warn>,
    gate: Option<Arc<dyn DiskGate>>,
    live: Option<LiveComparison>,
    state: LiveState,
}

impl<'a> Session<'a> {
    /// Creates the files of a dump. Checks names and sizes first.
    pub fn create(
        run: &RunConfig,
        config: &'a DumpConfig,
        request: &Request,
        device_base: DeviceAddr,
    ) -> Result<Session<'a>, Error> {
        let filter = config.filter(request.scene)?;
        let geometry = config.geometry(tensortap_runtime::recording_threads(run.schedulers))?;
        let setup = dump_setup(config, std::process::id(), geometry, filter);
        let info = RunInfo {
            device_base,
            kernels: kernel_infos(request.scene, &build_id::of_device(run)),
            ..run_info(config, request, &setup)
        };
        let state = LiveState::default();
        let live = config.live.as_ref();
        let live = live.map(|l| LiveComparison::open(l, &info, state.clone())).transpose()?;
        let dir = choose_dir(run.out.as_deref(), OUTPUTS.as_ref(), setup.started())?;
        let writer = dump_writer(config, &dir, &info)?;
        Ok(Session {
            live,
            state,
            config,
            scene: request.scene,
            writer: Some(writer),
            dir,
            setup,
            collection: None,
            drained: None,
            access: None,
            warn: run.warn.clone(),
            gate: run.disk.clone(),
        })
    }

    /// The state of the live comparison, updated while it runs.
    pub fn live_state(&self) -> LiveState {
        self.state.clone()
    }

    /// Removes the files of a run that was not launched.
    pub fn abandon(mut self) {
        self.collection.take();
        self.writer.take();
        remove_empty_dump(&self.dir);
    }

    /// Drains the remaining records and adds data from the memory of a dead device. All payloads are
    /// written afterwards.
    pub fn drain(&mut self, failure: Option<&RunFailure>) {
        let Some(collection) = self.collection.take() else { return };
        let drained = collection.stop().and_then(|mut collector| {
            while collector.step()?.records > 0 {}
            let in_flight = failure.map(|f| f.in_flight.as_slice()).unwrap_or_default();
            self.record_in_flight(&mut collector, in_flight)?;
            Ok(collector)
        });
        self.drained = Some(drained);
    }

    /// Closes the files with the final information on the run, including the golden's verdict.
    pub fn close(mut self, failure: Option<&RunFailure>, golden: Option<GoldenVerdict>) -> DumpReport {
        let Some(drained) = self.drained.take() else {
            return self.empty_report("the run did not start");
        };
        let outcome = drained.and_then(|collector| {
            let written = Instant::now();
            let end = RunEnd { golden, ..run_end(failure) };
            Ok((collector.finish(&end)?, written.elapsed()))
        });
        let interrupted = failure.is_some_and(|failure| failure.interrupted);
        let live = self.config.live.is_some().then(|| self.state.report(interrupted));
        match outcome {
            Ok((summary, closing)) => {
                let unflushed = unflushed(&summary.unflushed());
                let mut counters = summary.counters;
                if let Some(live) = &live {
                    counters.bytes_written = live.kept_bytes;
                    counters.deduplicated_bytes = live.shared_bytes;
                }
                DumpReport {
                    closing,
                    live,
                    counters,
                    held_up: Duration::from_nanos(summary.held_up_ns),
                    losses: summary.lanes.into_iter().flat_map(|lane| lane.losses).collect(),
                    problem: summary.failure.or_else(|| failure.is_none().then_some(unflushed).flatten()),
                    ..self.empty_report("")
                }
            }
            Err(error) => self.empty_report(&error.to_string()),
        }
    }

    fn empty_report(&self, problem: &str) -> DumpReport {
        DumpReport {
            dir: self.dir.clone(),
            level: self.config.level,
            dump_args: self.config.dump_args,
            counters: DumpCounters::default(),
            folder_bytes: folder_bytes(&self.dir),
            held_up: Duration::ZERO,
            closing: Duration::ZERO,
            live: None,
            losses: Vec::new(),
            problem: Some(problem.to_string()).filter(|p| !p.is_empty()),
        }
    }

    /// Stores what tasks had written when their device died, from its surviving memory.
    fn record_in_flight(
        &self,
        collector: &mut Collector<DeviceRegion, Files>,
        tasks: &[InFlightTask],
    ) -> Result<(), CollectError> {
        let Some(access) = &self.access else { return Ok(()) };
        for task in tasks.iter().filter(|t| t.slot.captured != 0) {
            collector.record_task(&task_record(task))?;
            let tensors = if self.config.level == DumpLevel::Off { &[] } else { &task.tensors[..] };
            for (arg_index, (desc, role)) in (0_u16..).zip(tensors) {
                if !role.writes() {
                    continue;
                }
                match gather(&**access, desc) {
                    Ok(content) => {
                        let record = tensor_record(&TensorCapture {
                            task_id: task.slot.task_id,
                            stage: DumpStage::AfterCompletion,
                            role: *role,
                            arg_index,
                            desc,
                            marked: task.slot.dump_marks & 1 << arg_index != 0,
                            in_flight: true,
                            details: TensorDetails::default(),
                        });
                        collector.record_tensor(&record, &content)?;
                    }
                    Err(reason) => {
                        let (task_id, stage) = (task.slot.task_id, DumpStage::AfterCompletion);
                        let arg = UncapturedArg {
                            task_id,
                            stage,
                            role: *role,
                            arg_index,
                            reason,
                            marked: false,
                            name: 0,
                        };
                        collector.record_uncaptured(&uncaptured_record(&arg))?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl DumpSession for Session<'_> {
    fn plan(&mut self, threads: u32) -> Result<RegionPlan, RunError> {
        let dump = |error: Error| RunError::Dump(error.to_string());
        let geometry = self.config.geometry(threads).map_err(dump)?;
        self.setup.collector.geometry = geometry;
        let options = self.setup.region();
        Ok(RegionPlan { geometry, options, enable: self.config.enable() })
    }

    fn begin(
        &mut self,
        device: Arc<dyn DeviceAccess>,
        region: DeviceRange,
        graph: &HostGraph,
    ) -> Result<(), RunError> {
        let dump = |message: &str| RunError::Dump(message.into());
        let mut writer = self.writer.take().ok_or_else(|| dump("the dump has already started"))?;
        self.setup.collector.device_memory = device.memory();
        let failed = |error: &dyn std::error::Error| RunError::Dump(error.to_string());
        // After the numbers of the device's threads and of the host's own records.
        let thread = self.setup.collector.geometry.lanes + 1;
        let mut records = kernel_definitions(self.scene.kernels());
        records.extend(graph_records(graph));
        for (first, chunk) in (0_u64..).step_by(RECORDS_PER_FRAME).zip(records.chunks(RECORDS_PER_FRAME)) {
            writer.append(thread, first..first + chunk.len() as u64, chunk).map_err(|e| failed(&e))?;
        }
        self.access = Some(device.clone());
        // After that number.
        let live = self.live.take().map(|live| live.entering_as(thread + 1));
        let files = Files { writer, gate: self.gate.clone(), reserved: 0, live };
        let listener = listener(self.warn.clone());
        let collection = self.setup.collect(device, region, files, listener, self.check_interval());
        self.collection = Some(collection.map_err(|e| failed(&e))?);
        Ok(())
    }

    fn woken(&mut self) {
        if let Some(collection) = &self.collection {
            collection.notify();
        }
    }

    fn check_interval(&self) -> Option<Duration> {
        self.config.live.as_ref().filter(|live| live.stop_at_first).map(|_| STOP_LOOK)
    }
}

/// The problem of a successful run with unflushed lanes. Every device thread that can record leases a lane
/// and returns it when it has recorded everything.
fn unflushed(lanes: &[u32]) -> Option<String> {
    let lanes: Vec<String> = lanes.iter().map(u32::to_string).collect();
    (!lanes.is_empty()).then(|| {
        format!(
            "lane {} was not flushed: its thread may have recorded more than the dump contains",
            lanes.join(", ")
        )
    })
}

/// Number of records that the host writes per frame.
const RECORDS_PER_FRAME: usize = 4096;

/// Definitions of every kernel with its name and the names of its arguments.
fn kernel_definitions(kernels: &[KernelDef]) -> Vec<IndexRecord> {
    let mut records = Vec::new();
    let mut strings: Vec<&str> = Vec::new();
    let mut number = |text: &'static str, records: &mut Vec<IndexRecord>| {
        let known = strings.iter().position(|known| *known == text);
        let place = known.unwrap_or(strings.len());
        let id = FIRST_DECLARED_ID + u32::try_from(place).unwrap_or(0);
        if known.is_none() {
            strings.push(text);
            records.push(IndexRecord::string(id, text));
        }
        id
    };
    for kernel in kernels {
        let name = number(kernel.name, &mut records);
        let args: Vec<KernelArg> = kernel
            .signature
            .iter()
            .map(|arg| KernelArg {
                name: number(arg.name(), &mut records),
                kind: KernelArg::tag(Some(arg.kind())),
                ..KernelArg::default()
            })
            .collect();
        let core_type = KernelRecord::core_tag(Some(kernel.core_type));
        let record = KernelRecord { func_id: kernel.func_id, name, core_type, ..KernelRecord::default() };
        records.push(IndexRecord::kernel(&record, &args));
    }
    records
}

/// Records of a graph that the host has built: names, then dependencies.
fn graph_records(graph: &HostGraph) -> impl Iterator<Item = IndexRecord> + '_ {
    let HostGraph { edges, names: HostNames { strings, scopes } } = graph;
    let strings = strings.iter().map(|(id, text)| IndexRecord::string(*id, text));
    let scopes = scopes.iter().map(|&HostScope { id, name, parent }| {
        IndexRecord::plain(&ScopeRecord { id, name, parent, ..ScopeRecord::default() })
    });
    let edges = edges
        .iter()
        .map(|(from, to)| IndexRecord::plain(&EdgeRecord::new(from.0, to.0, EdgeCause::Explicit, 0)));
    strings.chain(scopes).chain(edges)
}

fn task_record(task: &InFlightTask) -> TaskRecord {
    TaskRecord {
        task_id: task.slot.task_id,
        func_id: task.slot.func_id,
        block_num: task.slot.block_num,
        started_ns: task.slot.dispatched_ns,
        tensor_count: task.slot.tensor_count.into(),
        scalar_count: task.slot.scalar_count.into(),
        name: task.slot.task_name,
        scope: task.slot.scope,
        flags: RECORD_IN_FLIGHT,
        ..TaskRecord::default()
    }
}

fn run_info(config: &DumpConfig, request: &Request, setup: &DumpSetup) -> RunInfo {
    let mut extra = serde_json::Map::new();
    // With a byte cap, a payload may be missing for that reason too. A missing payload would then not prove
    // that its task agreed with the golden.
    if let Some(live) = config.live.as_ref().filter(|_| config.max_bytes.is_none()) {
        extra.insert(LIVE_GOLDEN_KEY.into(), live.golden.display().to_string().into());
    }
    let params = request.params.iter().map(|(key, value)| (key.to_string(), value.into())).collect();
    RunInfo {
        platform: request.platform.name().into(),
        runtime: request.runtime.name().into(),
        scene: request.scene.name().into(),
        params,
        dump_args: config.dump_args,
        args: declared_args(request.scene, &request.params),
        inject_fault: request.fault.map(|fault| fault_words(request.scene, fault)),
        scene_folder: request.scene.folder().map(|folder| folder.display().to_string()),
        extra,
        ..setup.run_info()
    }
}

/// `KERNEL=KIND`, as on the command line.
fn fault_words(scene: &dyn Scene, fault: Fault) -> String {
    let kernel = scene.kernels().iter().find(|kernel| kernel.func_id == fault.func_id);
    format!("{}={}", kernel.map_or("", |kernel| kernel.name), fault.kind)
}

/// The orchestration's tensors, then its scalars with their values, which are known before the run.
fn declared_args(scene: &dyn Scene, params: &Params) -> Vec<serde_json::Value> {
    let scalars = scene.scalar_args(params);
    let scalars = scalars.iter().map(|(name, ScalarArg { bits, dtype })| {
        serde_json::json!({"name": name, "role": Role::Input.name(), "kind": "scalar", "dtype": dtype.name(),
            "shape": [], "bits": format!("{bits:#018x}")})
    });
    scene.args(params).iter().map(declared_arg).chain(scalars).collect()
}

/// One of the orchestration's own arguments, as the scene declares it.
fn declared_arg(arg: &ArgSpec) -> serde_json::Value {
    let ArgSpec { name, dtype, shape, role } = arg;
    serde_json::json!({"name": name, "role": role.name(), "dtype": dtype.name(), "shape": shape})
}

fn kernel_infos(scene: &dyn Scene, build_id: &str) -> Vec<KernelInfo> {
    scene.kernels().iter().map(|kernel| kernel_info(scene, kernel, build_id)).collect()
}

/// The dump's description of a kernel.
pub(crate) fn kernel_info(scene: &dyn Scene, kernel: &KernelDef, build_id: &str) -> KernelInfo {
    let version = env!("CARGO_PKG_VERSION");
    let (code, build_id) = match scene.library(kernel.func_id) {
        Some(library) => {
            let KernelLibrary { symbol, build_id, .. } = library;
            (format!("library {} {symbol} {build_id}", kernel.name), build_id.as_str())
        }
        None => (format!("builtin {} {version} {build_id}", kernel.name), build_id),
    };
    KernelInfo {
        func_id: kernel.func_id,
        name: kernel.name.into(),
        core_type: kernel.core_type.name().into(),
        signature: kernel.signature.iter().map(|arg| arg.kind().name().to_string()).collect(),
        arg_names: kernel.signature.iter().map(|arg| arg.name().to_string()).collect(),
        code: code.trim_end().into(),
        version: version.into(),
        build_id: build_id.into(),
        tolerance: kernel.tolerance.map(|t| KernelTolerance { rtol: t.rtol, atol: t.atol }),
        ..KernelInfo::default()
    }
}

fn run_end(failure: Option<&RunFailure>) -> RunEnd {
    let status = match failure.map(RunFailure::status) {
        None => Status::Complete,
        Some("stalled") => Status::Stalled,
        Some("killed") => Status::Killed,
        Some("interrupted") => Status::Interrupted,
        Some(_) => Status::Crashed,
    };
    let mut end = RunEnd::new(status);
    end.message = failure.map(ToString::to_string);
    end.finished_at = Some(timestamp(SystemTime::now()));
    let in_flight = failure.map(|f| &f.in_flight).filter(|tasks| !tasks.is_empty());
    end.in_flight = in_flight.map(|tasks| tasks.iter().map(in_flight_entry).collect());
    end
}

fn in_flight_entry(task: &InFlightTask) -> InFlightEntry {
    let kernels = task.slot.func_id.into_iter().filter(|&id| id != tensortap_abi::NO_KERNEL);
    InFlightEntry { task_id: task.slot.task_id, func_id: kernels.collect(), block_num: task.slot.block_num }
}
