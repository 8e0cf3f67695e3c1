//! One dump, from the region to the closed files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tensortap_abi::{
    DeviceAddr, DeviceRange, DumpLevel, DumpStage, EdgeCause, EdgeRecord, FIRST_DECLARED_ID, KernelArg,
    KernelRecord, RECORD_IN_FLIGHT, Role, ScopeRecord, TaskRecord,
};
use tensortap_collector::{CollectError, Collection, Collector, CollectorOptions, DeviceRegion, RunEnd};
use tensortap_format::{
    DumpCounters, DumpWriter, GoldenVerdict, InFlightTask as InFlightEntry, IndexRecord, KernelInfo,
    KernelTolerance, RunInfo, Status, WriterOptions, choose_dir, role_name, timestamp,
};
use tensortap_platform::DeviceAccess;
use tensortap_recorder::{Known, TensorCapture, UncapturedArg, tensor_record, uncaptured_record};
use tensortap_runtime::{
    DumpSession, Fault, HostGraph, HostNames, HostScope, InFlightTask, RegionPlan, RunError, RunFailure,
};
use tensortap_scene::{ArgSpec, KernelDef, KernelLibrary, Params, ScalarArg, Scene};

use tensortap_analysis::blame::LIVE_GOLDEN_KEY;

use crate::build_id;
use crate::dump_files::Files;
use crate::dump_plan::{
    OUTPUTS, collector_options, folder_bytes, listener, monotonic_at, run_id, setup_options,
};
use crate::in_flight::gather;
use crate::live::{Live, LiveState};
use crate::{DiskGate, DumpConfig, DumpReport, Error, Request, RunConfig, Warn};

/// How often a run that is to end at its first wrong task is looked at, by the collector and by who can end it: a wrong
/// task ends the run at most twice this, and the time its judgement takes, after its last record was made.
const STOP_LOOK: Duration = Duration::from_millis(2);

/// Collects what a run records.
pub struct Session<'a> {
    config: &'a DumpConfig,
    scene: &'static dyn Scene,
    writer: Option<DumpWriter>,
    dir: PathBuf,
    run_id: u64,
    options: Option<CollectorOptions>,
    collection: Option<Collection<DeviceRegion, Files>>,
    /// What is to be closed once everything was collected, or why that could not be done.
    drained: Option<Result<Collector<DeviceRegion, Files>, CollectError>>,
    access: Option<Arc<dyn DeviceAccess>>,
    warn: Option<Warn>,
    gate: Option<Arc<dyn DiskGate>>,
    live: Option<Live>,
    state: LiveState,
}

impl<'a> Session<'a> {
    /// Creates the files of a dump. Names and sizes are checked before anything is created.
    pub fn create(
        run: &RunConfig,
        config: &'a DumpConfig,
        request: &Request,
        device_base: DeviceAddr,
    ) -> Result<Session<'a>, Error> {
        config.filter(request.scene)?;
        config.geometry(tensortap_runtime::recording_threads(run.schedulers))?;
        let started = SystemTime::now();
        let run_id = run_id(started);
        let info = RunInfo {
            device_base,
            kernels: kernel_infos(request.scene, &build_id::of_device(run)),
            ..run_info(config, request, run_id, started)
        };
        let state = LiveState::default();
        let live = config.live.as_ref();
        let live = live.map(|l| Live::open(l, &info, state.clone())).transpose()?;
        let dir = choose_dir(run.out.as_deref(), OUTPUTS.as_ref(), started)?;
        let options = WriterOptions { keep_last_tasks: config.last, sync: config.sync };
        let writer = DumpWriter::create_with(&dir, &info, options)?;
        Ok(Session {
            live,
            state,
            config,
            scene: request.scene,
            writer: Some(writer),
            dir,
            run_id,
            options: None,
            collection: None,
            drained: None,
            access: None,
            warn: run.warn.clone(),
            gate: run.disk.clone(),
        })
    }

    /// What a live comparison finds, while it is found.
    pub fn live_state(&self) -> LiveState {
        self.state.clone()
    }

    /// Takes back the files of a run that was not launched.
    pub fn abandon(mut self) {
        self.collection.take();
        self.writer.take();
        // A folder that holds anything else is left alone.
        let _ = std::fs::remove_file(self.dir.join(tensortap_format::INDEX_FILE));
        let _ = std::fs::remove_dir(&self.dir);
    }

    /// Drains what is left and adds what a dead device left behind: all payloads are written then.
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

    /// Closes the files with what is known of the run now, its golden's verdict among it.
    pub fn close(mut self, failure: Option<&RunFailure>, golden: Option<GoldenVerdict>) -> DumpReport {
        let Some(drained) = self.drained.take() else {
            return self.empty_report("the run did not begin");
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

    /// What tasks had written when their device died, from its surviving memory.
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
                            known: Known::default(),
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
        let filter = self.config.filter(self.scene).map_err(dump)?;
        let options = setup_options(self.config, self.run_id, filter);
        let collector = collector_options(self.config, geometry, self.run_id);
        self.options = Some(collector);
        Ok(RegionPlan { geometry, options, enable: self.config.enable() })
    }

    fn begin(
        &mut self,
        device: Arc<dyn DeviceAccess>,
        region: DeviceRange,
        graph: &HostGraph,
    ) -> Result<(), RunError> {
        let dump = |message: &str| RunError::Dump(message.into());
        let mut options = self.options.clone().ok_or_else(|| dump("the region was not planned"))?;
        let mut writer = self.writer.take().ok_or_else(|| dump("it was begun before"))?;
        options.device_memory = device.memory();
        let failed = |error: &dyn std::error::Error| RunError::Dump(error.to_string());
        // Behind the device's threads and the host's own records.
        let thread = options.geometry.lanes + 1;
        let mut records = kernel_definitions(self.scene.kernels());
        records.extend(graph_records(graph));
        for (first, chunk) in (0_u64..).step_by(RECORDS_PER_FRAME).zip(records.chunks(RECORDS_PER_FRAME)) {
            writer.append(thread, first..first + chunk.len() as u64, chunk).map_err(|e| failed(&e))?;
        }
        self.access = Some(device.clone());
        let memory =
            DeviceRegion::new(device, region).ok_or_else(|| dump("the region lies outside device memory"))?;
        let listener = listener(self.warn.clone());
        // Behind those.
        let live = self.live.take().map(|live| live.entering_as(thread + 1));
        let files = Files { writer, gate: self.gate.clone(), reserved: 0, live };
        let collector = Collector::new(memory, files, &options, listener).map_err(|e| failed(&e))?;
        let started = match self.look() {
            Some(look) => Collection::start_looking(collector, look),
            None => Collection::start(collector),
        };
        self.collection = Some(started.map_err(|e| failed(&e))?);
        Ok(())
    }

    fn woken(&mut self) {
        if let Some(collection) = &self.collection {
            collection.notify();
        }
    }

    fn look(&self) -> Option<Duration> {
        self.config.live.as_ref().filter(|live| live.stop_at_first).map(|_| STOP_LOOK)
    }
}

/// What is wrong with a run that went well and has left lanes unflushed: every thread of a device that can record leases one,
/// and returns it when it has recorded all it will.
fn unflushed(lanes: &[u32]) -> Option<String> {
    let lanes: Vec<String> = lanes.iter().map(u32::to_string).collect();
    (!lanes.is_empty()).then(|| {
        format!("whoever records in lane {} did not say that everything is recorded", lanes.join(", "))
    })
}

/// Records that the host enters at a time.
const RECORDS_PER_FRAME: usize = 4096;

/// Every kernel with its name and those of its arguments.
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

/// What the host knows of a graph that it has built: names, then dependencies.
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

fn run_info(config: &DumpConfig, request: &Request, run_id: u64, started: SystemTime) -> RunInfo {
    let mut extra = serde_json::Map::new();
    // Under a cap a payload may be missing for that reason, too, and absence would not say that a task agreed.
    if let Some(live) = config.live.as_ref().filter(|_| config.max_bytes.is_none()) {
        extra.insert(LIVE_GOLDEN_KEY.into(), live.golden.display().to_string().into());
    }
    let params = request.params.iter().map(|(key, value)| (key.to_string(), value.into())).collect();
    RunInfo {
        run_id,
        started_at: timestamp(started),
        started_monotonic_ns: monotonic_at(started).to_string(),
        platform: request.platform.name().into(),
        runtime: request.runtime.name().into(),
        scene: request.scene.name().into(),
        params,
        dump_level: config.level as u32,
        dump_args: config.dump_args,
        dump_policy: config.policy.name().into(),
        dump_collect: config.collect.name().into(),
        args: declared_args(request.scene, &request.params),
        inject_fault: request.fault.map(|fault| fault_words(request.scene, fault)),
        scene_folder: request.scene.folder().map(|folder| folder.display().to_string()),
        extra,
        ..RunInfo::default()
    }
}

/// `KERNEL=KIND`, as on the command line.
fn fault_words(scene: &dyn Scene, fault: Fault) -> String {
    let kernel = scene.kernels().iter().find(|kernel| kernel.func_id == fault.func_id);
    format!("{}={}", kernel.map_or("", |kernel| kernel.name), fault.kind)
}

/// The orchestration's tensors, then its scalars with their values: what they hold is known before the run.
fn declared_args(scene: &dyn Scene, params: &Params) -> Vec<serde_json::Value> {
    let scalars = scene.scalar_args(params);
    let scalars = scalars.iter().map(|(name, ScalarArg { bits, dtype })| {
        serde_json::json!({"name": name, "role": role_name(Role::Input), "kind": "scalar", "dtype": dtype.name(),
            "shape": [], "bits": format!("{bits:#018x}")})
    });
    scene.args(params).iter().map(declared_arg).chain(scalars).collect()
}

/// One of the orchestration's own arguments, as the scene declares it.
fn declared_arg(arg: &ArgSpec) -> serde_json::Value {
    let ArgSpec { name, dtype, shape, role } = arg;
    serde_json::json!({"name": name, "role": role_name(*role), "dtype": dtype.name(), "shape": shape})
}

fn kernel_infos(scene: &dyn Scene, build_id: &str) -> Vec<KernelInfo> {
    scene.kernels().iter().map(|kernel| kernel_info(scene, kernel, build_id)).collect()
}

/// A kernel as dumps describe it.
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
