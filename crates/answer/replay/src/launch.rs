//! Runs one launch: copies a batch of tasks to device memory, runs it and compares the outputs.

use tensortap_abi::{DeviceAddr, DeviceRange};
use tensortap_format::Argument;
use tensortap_platform::{Confinement, Device, DeviceOptions, Platform, PlatformError};
use tensortap_runtime::{
    BuildMode, CallOptions, DEFAULT_RING_SLOTS, Fault, GraphProgram, GuardOptions, LaunchOptions, PlacedTask,
    RunError, RunFailure, TasksReport, execute_tasks,
};
use tensortap_scene::Scene;
use tensortap_sync::parallel::cpu_count;

use crate::batch::Batch;
use crate::image::{FillError, GUARD_BYTES, Image};
use crate::item::Item;
use crate::judge::Judge;
use crate::spans::{ALIGN, View};
use crate::{OnOutput, Outcome, Placement, ReplayConfig, ReplayError};

/// An open device.
pub struct OpenDevice {
    device: Box<dyn Device>,
    platform: &'static str,
    /// Memory of earlier images for reuse, because fresh pages are slow.
    spare: [Vec<u8>; 2],
}

impl OpenDevice {
    /// Opens a device of a platform.
    pub fn open(config: &ReplayConfig, platform: &'static dyn Platform) -> Result<OpenDevice, ReplayError> {
        let program = GraphProgram::new(config.registry.clone());
        let mut options = DeviceOptions::new(std::sync::Arc::new(program));
        options.mode = config.device_mode;
        options.confined = !config.trust;
        options.memory_bytes = config.device_memory;
        options.program_data = config.registry.plans();
        options.executable.clone_from(&config.device_executable);
        options.sanitizer.clone_from(&config.sanitizer);
        Ok(OpenDevice {
            device: platform.open(&options)?,
            platform: platform.name(),
            spare: Default::default(),
        })
    }

    /// Its confinement.
    pub fn confinement(&self) -> Confinement {
        self.device.confinement()
    }

    /// Its platform.
    pub fn platform(&self) -> &'static str {
        self.platform
    }
}

/// How a launch ended.
pub enum LaunchEnd {
    /// Every task completed.
    Completed,
    /// The observer canceled the launch.
    Interrupted,
    /// The device failed and must not be used again.
    Failed(Box<RunFailure>),
    /// The tasks do not fit into device memory, with the reason.
    TooLarge(String),
}

/// Runs a batch once. Tasks whose arguments cannot be prepared are refused. A single task gets its captured
/// addresses if they are free.
pub fn round(
    config: &ReplayConfig,
    open: &mut OpenDevice,
    batch: &mut Batch<'_>,
    round: u32,
    observe: &mut dyn FnMut(u64) -> bool,
    on_output: OnOutput<'_>,
) -> Result<LaunchEnd, ReplayError> {
    let needed = batch.works.iter().map(|w| w.item.bytes).fold(0, u64::saturating_add);
    let have = open.device.memory().bytes;
    if needed > have {
        return Ok(LaunchEnd::TooLarge(format!(
            "its arguments need {needed} bytes, but device memory has {have}; raise it with --device-memory"
        )));
    }
    // A single dispatch leaves most of its outputs unchanged, so the pattern must be the same in each round.
    let pattern = if batch.works.iter().any(|w| w.item.dispatch.is_some()) { 0 } else { round };
    let Some(image) = filled(batch, pattern, std::mem::take(&mut open.spare[0])) else {
        return Ok(LaunchEnd::TooLarge(format!("the host is out of memory for {needed} bytes of arguments")));
    };
    if batch.alive().next().is_none() {
        return Ok(LaunchEnd::Completed);
    }
    match run(config, open, batch, &image, observe)? {
        RunEnd::Completed(after, addresses, report) => {
            let platform = open.platform;
            for (index, work) in batch.works.iter_mut().enumerate().filter(|(_, work)| !work.dead) {
                work.placed(addresses.placement());
                let (image, after, hashed) = (&image, after.as_slice(), config.repeat > 1);
                let spans = 0..work.item.spans.spans.len();
                let guarded: Vec<bool> = spans.map(|span| addresses.has_guard(span)).collect();
                let judge = Judge { platform, image, after, hashed, guarded: &guarded, on_output };
                work.conclude(judge.task(index, &work.item));
                if config.bench {
                    work.timed(report.kernel_time, report.wall);
                }
            }
            open.spare = [image.bytes, after];
            Ok(LaunchEnd::Completed)
        }
        RunEnd::Stopped(ended) => Ok(ended),
    }
}

/// The image of a batch; `None` if memory runs out.
fn filled(batch: &mut Batch<'_>, round: u32, memory: Vec<u8>) -> Option<Image> {
    let mut packed = Vec::new();
    let mut image = Image::new(batch.works.iter().map(|w| &w.item), round, memory)?;
    for (index, work) in batch.works.iter_mut().enumerate().filter(|(_, work)| !work.dead) {
        match image.fill(index, &work.item, &mut packed) {
            Ok(()) => {}
            Err(FillError::Refused(why)) => work.end(Outcome::Refused(why)),
            Err(FillError::Read(error)) => work.end(Outcome::Refused(error.to_string())),
        }
    }
    Some(image)
}

/// How a launch ended. A completed launch has the memory after it.
enum RunEnd {
    Completed(Vec<u8>, Addresses, TasksReport),
    Stopped(LaunchEnd),
}

fn run(
    config: &ReplayConfig,
    open: &mut OpenDevice,
    batch: &Batch<'_>,
    image: &Image,
    observe: &mut dyn FnMut(u64) -> bool,
) -> Result<RunEnd, ReplayError> {
    let device = &mut *open.device;
    let addresses = match Addresses::find(device, batch, image, guarding(config)) {
        Ok(addresses) => addresses,
        Err(error) => return Ok(RunEnd::Stopped(LaunchEnd::TooLarge(error.to_string()))),
    };
    addresses.copy_to(device, batch, image)?;
    let tasks = placed_tasks(batch, image, &addresses, device.memory());
    let Some(first) = batch.alive().next() else { return Ok(RunEnd::Stopped(LaunchEnd::Completed)) };
    let (scene, context) = (first.item.scene, first.item.context());
    let call = CallOptions { timed: config.bench, announced: config.stop_at_kernel, context };
    let options = launch_options(config, scene);
    let guards = addresses.guards();
    let ran = execute_tasks(device, scene, options, call, &tasks, &guards, &mut |now| observe(now.completed));
    let report = match ran {
        Ok(report) => report,
        Err(RunError::Failed(failure)) if failure.interrupted => {
            return Ok(RunEnd::Stopped(LaunchEnd::Interrupted));
        }
        Err(RunError::Failed(failure)) => return Ok(RunEnd::Stopped(LaunchEnd::Failed(failure))),
        Err(RunError::Platform(error @ PlatformError::OutOfDeviceMemory { .. })) => {
            addresses.free(device)?;
            return Ok(RunEnd::Stopped(LaunchEnd::TooLarge(error.to_string())));
        }
        Err(error) => return Err(error.into()),
    };
    let mut after = std::mem::take(&mut open.spare[1]);
    after.resize(image.bytes.len(), 0);
    addresses.copy_from(device, batch, image, &mut after)?;
    addresses.free(device)?;
    Ok(RunEnd::Completed(after, addresses, report))
}

fn launch_options(config: &ReplayConfig, scene: &'static dyn Scene) -> LaunchOptions {
    let blocks =
        u32::try_from(cpu_count()).unwrap_or(u32::MAX).clamp(1, MAX_DEFAULT_BLOCKS).max(config.schedulers);
    let fault = config.inject_fault.as_ref().and_then(|(name, kind)| {
        let kernel = scene.kernels().iter().find(|k| k.name == name)?;
        Some(Fault { func_id: kernel.func_id, kind: *kind })
    });
    LaunchOptions {
        blocks: config.blocks.unwrap_or(blocks),
        schedulers: config.schedulers,
        build: BuildMode::default(),
        ring_slots: DEFAULT_RING_SLOTS,
        ring_heap_bytes: None,
        stall_timeout: config.stall_timeout,
        fault,
        poison: None,
        guarding: guarding(config),
    }
}

/// Guard settings. The replay writes its own pattern around the arguments and compares it after the launch.
fn guarding(config: &ReplayConfig) -> GuardOptions {
    let shadow = config.sanitizer.as_ref().is_some_and(|sanitizer| sanitizer.address);
    GuardOptions { pages: config.guard, shadow, ..GuardOptions::default() }
}

/// Limit on the default number of blocks.
const MAX_DEFAULT_BLOCKS: u32 = 64;

/// Addresses of a batch's spans in device memory.
enum Addresses {
    /// Each at its captured address.
    Captured(Vec<CapturedSpan>),
    /// All spans in sequence from this address, as in the image.
    Relocated(DeviceAddr),
    /// Each span on its own pages, by task.
    Guarded(Vec<Vec<GuardedSpan>>),
}

/// A span at its captured address.
struct CapturedSpan {
    /// The allocation to free.
    allocated: DeviceAddr,
    /// Whether the line after it was free and holds a guard.
    has_guard: bool,
}

/// A span on its own pages.
struct GuardedSpan {
    /// From its first byte to the last byte of an argument.
    tensor: DeviceRange,
    /// The allocation to free.
    allocated: DeviceAddr,
}

impl Addresses {
    fn find(
        device: &mut dyn Device,
        batch: &Batch<'_>,
        image: &Image,
        guarding: GuardOptions,
    ) -> Result<Addresses, PlatformError> {
        if guarding.is_on() {
            let spans = batch.works.iter().map(|work| allocate_guarded(device, &work.item, guarding));
            return Ok(Addresses::Guarded(spans.collect::<Result<_, _>>()?));
        }
        if let [work] = batch.works.as_slice()
            && device.memory().addr == work.item.capture.run().device_base
            && let Some(allocated) = allocate_captured(device, &work.item)?
        {
            return Ok(Addresses::Captured(allocated));
        }
        let bytes = image.bytes.len() as u64;
        Ok(Addresses::Relocated(device.allocate(bytes, ALIGN, "the arguments of the tasks")?))
    }

    fn of(&self, item: &Item<'_>, image: &Image, task: usize, span: usize) -> DeviceAddr {
        match self {
            Addresses::Captured(_) => item.spans.spans[span].start,
            Addresses::Relocated(base) => base + image.offset(task, span) as u64,
            Addresses::Guarded(spans) => spans[task][span].tensor.addr,
        }
    }

    fn copy_to(&self, device: &dyn Device, batch: &Batch<'_>, image: &Image) -> Result<(), PlatformError> {
        match self {
            Addresses::Relocated(base) => device.copy_to(*base, &image.bytes),
            Addresses::Captured(_) | Addresses::Guarded(_) => self
                .each_span(batch, image)
                .try_for_each(|(addr, range)| device.copy_to(addr, &image.bytes[range])),
        }
    }

    /// Copies all memory back, in the layout of the image.
    fn copy_from(
        &self,
        device: &dyn Device,
        batch: &Batch<'_>,
        image: &Image,
        after: &mut [u8],
    ) -> Result<(), PlatformError> {
        match self {
            Addresses::Relocated(base) => device.copy_from(*base, after),
            Addresses::Captured(_) | Addresses::Guarded(_) => self
                .each_span(batch, image)
                .try_for_each(|(addr, range)| device.copy_from(addr, &mut after[range])),
        }
    }

    fn free(&self, device: &mut dyn Device) -> Result<(), PlatformError> {
        match self {
            Addresses::Relocated(base) => device.free(*base),
            Addresses::Captured(spans) => spans.iter().try_for_each(|span| device.free(span.allocated)),
            Addresses::Guarded(spans) => {
                spans.iter().flatten().try_for_each(|span| device.free(span.allocated))
            }
        }
    }

    fn placement(&self) -> Placement {
        match self {
            Addresses::Captured(_) => Placement::Captured,
            Addresses::Relocated(_) | Addresses::Guarded(_) => Placement::Relocated,
        }
    }

    /// Whether device memory includes the guard after a span.
    fn has_guard(&self, span: usize) -> bool {
        match self {
            Addresses::Relocated(_) => true,
            Addresses::Captured(spans) => spans[span].has_guard,
            Addresses::Guarded(_) => false,
        }
    }

    /// The tensors that the device must guard.
    fn guards(&self) -> Vec<DeviceRange> {
        match self {
            Addresses::Guarded(spans) => spans.iter().flatten().map(|span| span.tensor).collect(),
            Addresses::Captured(_) | Addresses::Relocated(_) => Vec::new(),
        }
    }

    /// Address of every span with its range in the image, including its guard if there is one.
    fn each_span<'b>(
        &'b self,
        batch: &'b Batch<'_>,
        image: &'b Image,
    ) -> impl Iterator<Item = (DeviceAddr, std::ops::Range<usize>)> + 'b {
        batch.works.iter().enumerate().flat_map(move |(task, work)| {
            let spans = work.item.spans.spans.iter().enumerate();
            spans.map(move |(index, span)| {
                let range = match self.has_guard(index) {
                    true => image.guarded_range(task, index, span),
                    false => image.range(task, index, span),
                };
                (self.of(&work.item, image, task, index), range)
            })
        })
    }
}

/// Allocates each span of a task on its own pages, so that its last argument ends at the page boundary.
fn allocate_guarded(
    device: &mut dyn Device,
    item: &Item<'_>,
    guarding: GuardOptions,
) -> Result<Vec<GuardedSpan>, PlatformError> {
    let ends = |index: usize| {
        let views = item.spans.views.iter().filter(move |view| view.span == Some(index));
        views.map(|view| view.address.saturating_add(view.layout.byte_range().end))
    };
    let spans = item.spans.spans.iter().enumerate();
    spans
        .map(|(index, span)| {
            let end = ends(index).max().unwrap_or(span.start);
            let (tensor, allocated) = guarding.allocate(device, end - span.start, "an argument")?;
            Ok(GuardedSpan { tensor, allocated })
        })
        .collect()
}

/// Allocates the spans of a task at their captured addresses, each followed by a guard if no other span is
/// there. `None` if an address is not free.
fn allocate_captured(
    device: &mut dyn Device,
    item: &Item<'_>,
) -> Result<Option<Vec<CapturedSpan>>, PlatformError> {
    let spans = &item.spans.spans;
    let mut allocated: Vec<CapturedSpan> = Vec::new();
    for span in spans {
        let end = span.start.saturating_add(span.bytes);
        let is_alone =
            !spans.iter().any(|other| (end..end.saturating_add(GUARD_BYTES)).contains(&other.start));
        let mut at =
            |bytes: u64| device.allocate_at(DeviceRange { addr: span.start, bytes }, "captured arguments");
        let guarded = is_alone.then(|| at(span.bytes + GUARD_BYTES).ok()).flatten();
        match guarded.map_or_else(|| at(span.bytes), Ok) {
            Ok(addr) => allocated.push(CapturedSpan { allocated: addr, has_guard: guarded.is_some() }),
            Err(_) => {
                allocated.iter().try_for_each(|span| device.free(span.allocated))?;
                return Ok(None);
            }
        }
    }
    Ok(Some(allocated))
}

fn placed_tasks(
    batch: &Batch<'_>,
    image: &Image,
    addresses: &Addresses,
    memory: DeviceRange,
) -> Vec<PlacedTask> {
    let alive = batch.works.iter().enumerate().filter(|(_, work)| !work.dead);
    alive
        .map(|(index, work)| {
            let item = &work.item;
            let (func_id, block_num) = item.shape();
            let descriptor = |(tensor, view): (&Argument<'_>, &View)| {
                let address = view.span.map_or(0, |span| addresses.of(item, image, index, span));
                (view.descriptor(tensor.dtype, &item.spans.spans, address, memory), tensor.role)
            };
            let tensors = item.tensors.iter().zip(&item.spans.views).map(descriptor).collect();
            PlacedTask { id: item.id(), func_id, block_num, tensors, scalars: item.scalars() }
        })
        .collect()
}
