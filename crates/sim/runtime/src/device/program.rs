//! One launch on the device: checks the launch arguments, starts the threads, and reports the end.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tensortap_abi::{
    DUMP_ARGS, DUMP_TENSORS, DeviceAddr, DeviceRange, DeviceStatus, EdgeNode, FailureKind, KernelArgs,
    KernelName, LAUNCH_MAGIC, LAYOUT_VERSION, MAX_BLOCKS, MAX_SCHEDULERS, NO_KERNEL, SLOTS_PER_TASK,
    TaskSlot, TensorDesc, ThreadState,
};
use tensortap_platform::{DeviceLink, DeviceMemory, DeviceProgram, PlatformError};
use tensortap_recorder::Region;
use tensortap_scene::{FaultKind, GraphError, Location, Orch, Params, PlacedArg, Registry, Scene};
use tensortap_sync::parallel::cpu_count;
use tensortap_sync::park::spins_for;

use super::call::SpecialCall;
use super::capture::{Capture, EdgeCapture, RunHostLink, RunRecorder, record_orchestration_args};
use super::cores::{CoreMailboxes, KernelTable, owner_of_block, owner_of_core, run_core};
use super::crash;
use super::guard::Guard;
use super::memory::{Control, Table, open_region};
use super::monitor;
use super::prefault::Prefaulter;
use super::race::Race;
use super::run::{Failure, Run, ThreadCounts};
use super::scheduler::{Cores, HOOKS_COMPILED_IN, NoHooks, Scheduler};
use crate::runtimes::{self, BuildMode, DeviceBuilder, DeviceSetup, GraphObserver, Runtime};

/// The program of a device: it runs task graphs of the scenes in its registry.
pub struct GraphProgram {
    registry: Registry,
    /// Scenes from libraries that were loaded into this process. Searched before the registry.
    loaded: Mutex<Registry>,
}

impl GraphProgram {
    /// Creates a device program that knows these scenes.
    pub fn new(registry: Registry) -> GraphProgram {
        GraphProgram { registry, loaded: Mutex::default() }
    }
}

impl DeviceProgram for GraphProgram {
    fn prepare(&self, plans: &[u8]) -> Result<(), String> {
        let loaded = self.registry.load_plans(plans)?;
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(())
    }

    fn run(&self, link: &DeviceLink, args: DeviceAddr) {
        let memory = link.memory();
        let registry = self.loaded.lock().unwrap_or_else(PoisonError::into_inner).clone().and(&self.registry);
        match Launch::read(&registry, &memory, args) {
            Ok(launch) => launch.execute(link),
            Err(refusal) => refusal.report(&memory),
        }
    }
}

/// Why a launch cannot start, and where to report it.
struct Refusal {
    control: Option<DeviceRange>,
    message: String,
}

impl Refusal {
    fn report(&self, memory: &DeviceMemory) {
        let control = self.control.and_then(|range| Control::new(memory, range, 0).ok());
        match control {
            Some(control) => {
                let head = control.head();
                head.set_message(&self.message);
                head.failure(0).publish(FailureKind::Launch as u32);
                head.status(0).publish(DeviceStatus::Failed as u32);
            }
            None => eprintln!("tensortap device: {}", self.message),
        }
    }
}

/// Checked launch arguments, with all names resolved.
struct Launch<'m> {
    memory: &'m DeviceMemory,
    args: KernelArgs,
    scene: &'static dyn Scene,
    params: Params,
    runtime: &'static dyn Runtime,
    kernels: KernelTable,
    race: Option<u32>,
    /// The dump region, if the run is dumped.
    region: Option<Region<'m>>,
}

impl<'m> Launch<'m> {
    fn read(registry: &Registry, memory: &'m DeviceMemory, addr: DeviceAddr) -> Result<Launch<'m>, Refusal> {
        let refuse = |control, message: String| Refusal { control, message };
        let bytes = size_of::<KernelArgs>() as u64;
        let table = Table::<KernelArgs>::new(memory, DeviceRange { addr, bytes });
        let args = table.map_err(|e| refuse(None, e.to_string()))?.read(0);
        if args.magic != LAUNCH_MAGIC || args.layout_version != LAYOUT_VERSION {
            return Err(refuse(
                None,
                format!("launch arguments at {addr:#x} do not have layout version {LAYOUT_VERSION}"),
            ));
        }
        Self::resolve(registry, memory, args).map_err(|message| refuse(Some(args.control), message))
    }

    fn resolve(
        registry: &Registry,
        memory: &'m DeviceMemory,
        args: KernelArgs,
    ) -> Result<Launch<'m>, String> {
        if args.blocks == 0 || args.blocks as usize > MAX_BLOCKS {
            return Err(format!("the launch has {} blocks; valid values are 1 to {MAX_BLOCKS}", args.blocks));
        }
        if args.schedulers == 0 || args.schedulers as usize > MAX_SCHEDULERS {
            return Err(format!(
                "the launch has {} schedulers; valid values are 1 to {MAX_SCHEDULERS}",
                args.schedulers
            ));
        }
        let scene_name = read_text(memory, args.scene)?;
        let scene = registry.find(&scene_name).ok_or_else(|| {
            format!("this device executable has no scene `{scene_name}`; use executables of one build")
        })?;
        let lines = read_text(memory, args.params)?;
        let pairs = lines.lines().filter_map(|line| line.split_once('='));
        let params = Params::resolve(scene.name(), scene.params(), pairs).map_err(|e| e.to_string())?;
        let runtime_name = read_text(memory, args.runtime)?;
        let runtime = runtimes::find(&runtime_name).ok_or(format!("unknown runtime `{runtime_name}`"))?;
        check_kernels(memory, &args, scene)?;
        let fault = FaultKind::from_tag(args.fault_kind).filter(|_| args.fault_func_id != NO_KERNEL);
        let kernels =
            KernelTable::new(scene, fault.map(|kind| (args.fault_func_id, kind)), SpecialCall::of(&args));
        let race = (fault == Some(FaultKind::Race)).then_some(args.fault_func_id);
        // Only the enable word says whether there is a dump.
        let is_dumped = args.dump_enable & (DUMP_TENSORS | DUMP_ARGS) != 0;
        if is_dumped && !HOOKS_COMPILED_IN {
            return Err(
                "this device executable was built without hooks and cannot dump; rebuild it without the cfg \
                         tensortap_without_hooks"
                    .into(),
            );
        }
        let region = is_dumped
            .then(|| open_region(memory, args.dump_data_base).map_err(|e| e.to_string()))
            .transpose()?;
        Ok(Launch { memory, args, scene, params, runtime, kernels, race, region })
    }

    fn execute(self, link: &DeviceLink) {
        let control =
            Control::new(self.memory, self.args.control, self.args.blocks as usize * SLOTS_PER_TASK);
        let setup = control.and_then(|control| Ok((control, self.tables()?)));
        let (control, (slots, edges)) = match setup {
            Ok(parts) => parts,
            Err(error) => {
                return Refusal { control: Some(self.args.control), message: error.to_string() }
                    .report(self.memory);
            }
        };
        let rings = self.runtime.rings(&self.args);
        let mut run = Run::new(slots, edges, control, rings, self.race.map(Race::new), self.thread_counts());
        run.prefaulter = Some(Prefaulter::new(*self.memory));
        run.guard = match Guard::of(self.memory, &self.args) {
            Ok(guard) => guard,
            Err(error) => {
                return Refusal { control: Some(self.args.control), message: error.to_string() }
                    .report(self.memory);
            }
        };
        let watched = crash::watch_run(&run.control);
        run.mark_started();
        self.run_threads(&run, link);
        run.mark_ended();
        drop(watched);
    }

    fn tables(&self) -> Result<(Table<'m, TaskSlot>, Table<'m, EdgeNode>), PlatformError> {
        Ok((Table::new(self.memory, self.args.tasks)?, Table::new(self.memory, self.args.edges)?))
    }

    fn thread_counts(&self) -> ThreadCounts {
        let KernelArgs { blocks, schedulers, .. } = self.args;
        let threads = 1 + schedulers as usize + blocks as usize * SLOTS_PER_TASK;
        ThreadCounts { blocks, schedulers, spins: spins_for(threads, cpu_count()) }
    }

    /// Starts the threads of the run and waits for its end. A hanging kernel blocks its thread, and so this
    /// function, forever. In that case `end_failed` reports the end first, and the host then kills the
    /// device.
    fn run_threads(&self, run: &Run<'m>, link: &DeviceLink) {
        let stall_limit = Some(self.args.stall_timeout_ms).filter(|&ms| ms > 0).map(Duration::from_millis);
        let sequential = BuildMode::from_tag(self.args.build_mode) == BuildMode::Sequential;
        thread::scope(|scope| {
            if let Some(prefaulter) = &run.prefaulter {
                // Without this thread the run is slower, so an error is ignored.
                let _ =
                    thread::Builder::new().name("tt-pages".into()).spawn_scoped(scope, || prefaulter.serve());
            }
            for core in 0..run.control.cores() {
                let scheduler = owner_of_core(core, self.args.schedulers);
                let body = move || run_core(run, &self.kernels, core, scheduler);
                spawn(scope, run, format!("tt-core-{core}"), body);
            }
            let orchestrator = self
                .runtime
                .builds_on_device()
                .then(|| spawn(scope, run, "tt-orch".into(), || self.orchestrate(run, link)));
            if sequential && let Some(Some(orchestrator)) = orchestrator {
                let _ = orchestrator.join();
            }
            if !self.runtime.builds_on_device() {
                self.record_host_orchestration(run, link);
                self.runtime.seed(&self.setup(), run);
            }
            for index in 0..self.args.schedulers {
                spawn(scope, run, format!("tt-sched-{index}"), move || self.schedule(run, link, index));
            }
            monitor::watch(run, stall_limit);
            run.prefaulter.iter().for_each(Prefaulter::stop);
            if run.failure().is_some() {
                self.end_failed(run, link);
            } else {
                self.flush_idle_recorder(run, link);
            }
            run.stop();
        });
    }

    fn schedule(&self, run: &Run<'m>, link: &DeviceLink, index: u32) {
        let state = run.control.thread(1 + index);
        state.state().set(ThreadState::Running as u32);
        let KernelArgs { blocks, schedulers, .. } = self.args;
        let mine: Vec<u32> =
            (0..blocks).filter(|&block| owner_of_block(block, schedulers) == index).collect();
        let count = u32::try_from(mine.len()).expect("at most MAX_BLOCKS");
        let cores = CoreMailboxes::new(run, mine.into_iter());
        schedule(run, index, count, cores, self.capture(run, link, 1 + index));
        state.state().set(ThreadState::Idle as u32);
    }

    /// The capture hooks of a thread, if the run is dumped.
    fn capture<'r>(&self, run: &'r Run<'m>, link: &'r DeviceLink, thread: u32) -> Option<Capture<'r, 'm>> {
        let recorder = self.recorder(run, link, thread)?;
        let view = run.control.thread(thread);
        let registered_only = !self.runtime.builds_on_device();
        Some(Capture::new(run, self.memory, view, recorder, self.args.dump_enable, registered_only))
    }

    fn recorder<'r>(
        &self,
        run: &'r Run<'m>,
        link: &'r DeviceLink,
        thread: u32,
    ) -> Option<RunRecorder<'r, 'm>> {
        let host = RunHostLink::new(run, link, run.control.thread(thread));
        self.region.as_ref()?.recorder(thread, host).ok()
    }

    fn setup(&self) -> DeviceSetup<'m> {
        DeviceSetup { memory: self.memory, args: self.args }
    }

    fn orchestrate(&self, run: &Run<'m>, link: &DeviceLink) {
        run.control.thread(0).state().set(ThreadState::Running as u32);
        let setup = self.setup();
        let observer = self
            .orchestration_recorder(run, link)
            .map(|r| Box::new(EdgeCapture::new(run.control.thread(0), r)) as Box<dyn GraphObserver>);
        let built = self.runtime.builder(&setup, run, observer).and_then(|mut builder| {
            let scalars = self.scene.scalar_args(&self.params);
            let mut orch = Orch::new(&mut *builder, self.placed_args()?)?.with_scalars(scalars);
            let outcome = self.scene.orchestrate(&mut orch, &self.params);
            drop(orch);
            finish(&mut *builder, outcome)
        });
        match built {
            Ok(total) => run.seal(total),
            Err(GraphError::Stopped) => {}
            Err(error) => run.fail(&Failure::new(kind_of(&error), error.to_string())),
        }
        run.control.thread(0).state().set(ThreadState::Idle as u32);
    }

    /// The recorder of the thread that orchestrates. It records the arguments of the orchestration first,
    /// because readers use the addresses of its outputs to match tasks with the scene's golden.
    fn orchestration_recorder<'r>(
        &self,
        run: &'r Run<'m>,
        link: &'r DeviceLink,
    ) -> Option<RunRecorder<'r, 'm>> {
        let mut recorder = self.recorder(run, link, 0)?;
        if let Ok(descs) = Table::<TensorDesc>::new(self.memory, self.args.args) {
            let state = run.control.thread(0).state();
            let before = state.get();
            record_orchestration_args(&mut recorder, &descs, &self.scene.args(&self.params));
            // Restore the state: a recorder that had to wait leaves it as capturing.
            state.publish(before);
        }
        Some(recorder)
    }

    /// Records for the host's orchestration. Afterwards no device thread records for the orchestrator.
    fn record_host_orchestration(&self, run: &Run<'m>, link: &DeviceLink) {
        if let Some(mut recorder) = self.orchestration_recorder(run, link) {
            recorder.flush();
        }
    }

    fn placed_args(&self) -> Result<Vec<PlacedArg>, GraphError> {
        let table = Table::<TensorDesc>::new(self.memory, self.args.args)
            .map_err(|error| GraphError::Memory(error.to_string()))?;
        let specs = self.scene.args(&self.params);
        let placed = (0..table.len()).zip(specs);
        Ok(placed
            .map(|(i, spec)| PlacedArg::new(spec, Location::permanent(table.read(i).buffer_addr)))
            .collect())
    }

    /// Reports a failed run. Cores that hang would delay the end of the launch forever, so the end is
    /// reported before waiting for them.
    fn end_failed(&self, run: &Run<'m>, link: &DeviceLink) {
        run.stop();
        let patience = Instant::now() + Duration::from_millis(200);
        while !monitor::is_quiet(run) && Instant::now() < patience {
            thread::sleep(Duration::from_millis(1));
        }
        self.capture_in_flight(run, link);
        if !monitor::is_quiet(run) {
            run.mark_ended();
            link.finished();
        }
    }

    /// The host expects an end from every recording thread, so the monitor sends one although it recorded
    /// nothing.
    fn flush_idle_recorder(&self, run: &Run<'m>, link: &DeviceLink) {
        if let Some(mut recorder) = self.recorder(run, link, 1 + self.args.schedulers) {
            recorder.flush();
        }
    }

    /// Records the current outputs of tasks that did not complete.
    fn capture_in_flight(&self, run: &Run<'m>, link: &DeviceLink) {
        if let Some(mut capture) = self.capture(run, link, 1 + self.args.schedulers) {
            monitor::tasks_in_flight(run).into_iter().for_each(|slot| capture.in_flight(slot));
            capture.flush();
        }
    }
}

/// Schedules `blocks` blocks until the run is over. Decides once per thread whether tasks are captured.
pub(crate) fn schedule<'m>(
    run: &Run<'m>,
    index: u32,
    blocks: u32,
    cores: impl Cores,
    capture: Option<Capture<'_, 'm>>,
) {
    match capture {
        None => Scheduler::new(run, index, blocks, cores, NoHooks).run(),
        Some(mut capture) => {
            Scheduler::new(run, index, blocks, cores, &mut capture).run();
            capture.flush();
        }
    }
}

/// Starts a thread. If it panics, the run fails and the other threads do not wait forever.
fn spawn<'scope, 'env, 'm: 'scope>(
    scope: &'scope thread::Scope<'scope, 'env>,
    run: &'scope Run<'m>,
    name: String,
    body: impl FnOnce() + Send + 'scope,
) -> Option<thread::ScopedJoinHandle<'scope, ()>> {
    let label = name.clone();
    let guarded = move || {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        if outcome.is_err() {
            let message = format!("device thread {label} panicked; this is a bug in tensortap");
            run.fail(&Failure::new(FailureKind::Orchestration, message));
        }
    };
    let spawned = thread::Builder::new().name(name).spawn_scoped(scope, guarded);
    spawned
        .inspect_err(|error| {
            run.fail(&Failure::new(FailureKind::Launch, format!("starting a device thread failed: {error}")))
        })
        .ok()
}

/// Finishes the graph. An error of the orchestration has priority over an error of finishing.
fn finish(builder: &mut dyn DeviceBuilder, outcome: Result<(), GraphError>) -> Result<u64, GraphError> {
    let total = builder.finish();
    match (outcome, total) {
        (Err(GraphError::Stopped), Err(error)) | (Err(error), _) => Err(error),
        (Ok(()), total) => total,
    }
}

fn kind_of(error: &GraphError) -> FailureKind {
    match error {
        GraphError::RingDeadlock(_) => FailureKind::RingDeadlock,
        _ => FailureKind::Orchestration,
    }
}

fn read_text(memory: &DeviceMemory, range: DeviceRange) -> Result<String, String> {
    let table = Table::<u8>::new(memory, range).map_err(|e| e.to_string())?;
    let bytes = (0..table.len()).map(|i| table.read(i)).collect();
    String::from_utf8(bytes).map_err(|_| "a text in the launch arguments is not UTF-8".to_string())
}

/// Checks that host and device use the same numbers for the same kernels.
fn check_kernels(memory: &DeviceMemory, args: &KernelArgs, scene: &dyn Scene) -> Result<(), String> {
    let names = Table::<KernelName>::new(memory, args.kernels).map_err(|e| e.to_string())?;
    for index in 0..names.len() {
        let wanted = names.read(index);
        let name = wanted.as_str().ok_or("a kernel name in the launch arguments is invalid")?;
        let known = scene.kernels().iter().any(|k| k.func_id == wanted.func_id && k.name == name);
        if !known {
            return Err(format!(
                "this device executable has no kernel `{name}` with func_id {} in scene `{}`; use executables of one build",
                wanted.func_id,
                scene.name()
            ));
        }
    }
    Ok(())
}
