//! Kernel launches.

use std::{borrow::Cow, sync::Arc};

use tensortap_queue::Range;
use tensortap_record::{
    LAUNCH_COOPERATIVE, LAUNCH_EARLY, RecordError, StringId, TaskInfo, ThreadRecorder, UncapturedReason,
};

use super::{graphs, kernels::KernelFacts, launch_cache::CachedLaunch, modules::Code};
use crate::{
    allocations::{AddressableRange, BlockEnd, Device},
    backend::{CudaBackend, State},
    calls::{handle, stream_of, target},
    command::{CommandArgs, CommandRequest, CommandSpec},
    enqueue::{PendingCommand, StreamTarget},
    library::{LaunchAttribute, LaunchConfig},
    parameters::{self, Argument, ParameterLayout},
    raw::{self, Call},
    stream_guard::StreamGuard,
    table::Function,
    values::SubmittedValues,
};

/// The parameters of a launch call.
pub struct Launch {
    /// Handle of the kernel.
    pub function: usize,
    /// Two sizes in each word: grid size in three dimensions, then block size.
    pub sizes: [u64; 3],
    /// Address of the pointers to the parameters, or 0.
    pub parameters: u64,
    /// Address of settings that contain the parameters, or 0.
    pub extra: u64,
    /// Further options.
    pub details: LaunchOptions,
}

/// The options of a launch, except its sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchOptions {
    /// Dynamic shared memory per block in bytes.
    pub shared_bytes: u32,
    /// Cluster size in each dimension, in blocks. 0 if there are no clusters.
    pub cluster: [u8; 3],
    /// `LAUNCH_…` flags of the task.
    pub flags: u8,
}

impl LaunchOptions {
    /// Options with this shared memory size, which is in the lower half of the word.
    pub fn shared(word: u64) -> LaunchOptions {
        LaunchOptions {
            shared_bytes: u32::try_from(word & 0xffff_ffff).unwrap_or(0),
            ..LaunchOptions::default()
        }
    }

    /// Adds an attribute. Attributes that do not change the result of a kernel are ignored.
    fn with(mut self, attribute: &LaunchAttribute) -> LaunchOptions {
        let [first, ..] = attribute.value;
        match attribute.id {
            LaunchAttribute::COOPERATIVE if first != 0 => self.flags |= LAUNCH_COOPERATIVE,
            LaunchAttribute::PROGRAMMATIC if first != 0 => self.flags |= LAUNCH_EARLY,
            LaunchAttribute::CLUSTER => {
                let [x, y, z, ..] = attribute.value;
                self.cluster = [x, y, z].map(|size| u8::try_from(size).unwrap_or(u8::MAX));
            }
            _ => {}
        }
        self
    }
}

/// At most this many attributes are read.
const MAX_ATTRIBUTES: u32 = 64;

/// The options of a launch with attributes.
///
/// # Safety
/// As the program's launch: the attributes can be read.
unsafe fn details(config: &LaunchConfig) -> LaunchOptions {
    let count = if config.attributes.is_null() { 0 } else { config.attribute_count.min(MAX_ATTRIBUTES) };
    let details = LaunchOptions { shared_bytes: config.shared_bytes, ..LaunchOptions::default() };
    (0..count as usize).fold(details, |details, at| {
        // SAFETY: the caller's guarantee.
        let attribute = unsafe { config.attributes.add(at).read_unaligned() };
        details.with(&attribute)
    })
}

/// A launch whose sizes and stream are in a structure.
pub fn launch_ex(backend: &CudaBackend, function: &Function, call: Call<'_>) -> Option<PendingCommand> {
    // SAFETY: the function has four words.
    let [config, kernel, parameters, extra] = [0, 1, 2, 3].map(|at| unsafe { call.word(at) });
    if config == 0 {
        return None;
    }
    // SAFETY: the program's launch passes it there.
    let config: LaunchConfig = unsafe { raw::at(config) };
    // SAFETY: the program's launch passes them there.
    let details = unsafe { details(&config) };
    let ([grid_x, grid_y, grid_z], [group_x, group_y, group_z]) = (config.grid, config.group);
    let sizes = [(grid_x, grid_y), (grid_z, group_x), (group_y, group_z)];
    let sizes = sizes.map(|(low, high)| u64::from(low) | u64::from(high) << 32);
    let launch = Launch { function: handle(kernel), sizes, parameters, extra, details };
    self::launch(backend, function, call, config.stream, &launch)
}

/// A kernel launch. A launch that a filter leaves out gets no snapshots and no place in the order: commands
/// after it are ordered directly after the commands before it.
pub fn launch(
    backend: &CudaBackend,
    function: &Function,
    call: Call<'_>,
    stream: usize,
    launch: &Launch,
) -> Option<PendingCommand> {
    let facts = KernelFacts::of(backend, Some(call), launch.function);
    let id = facts.claim(backend)?;
    let Some(target) = target(backend, function, call, stream, false) else {
        // SAFETY: the program's launch passes its parameters there until it returns.
        unsafe {
            let captured = (stream_of(function, call, stream).handle(), call.data.context);
            graphs::note(backend, captured, &facts, launch);
        }
        return None;
    };
    let guard = StreamGuard::new(backend.stream(target.stream, target.context)?);
    let device = guard.stream.device;
    // SAFETY: the program's launch passes its parameters there until it returns.
    let parameters = unsafe { parameters(&facts, launch) };
    PendingCommand::new(backend, &target, guard, |recorder| {
        let info = TaskInfo { id, ..info(facts.id(recorder)?, launch) };
        let args = args(backend, recorder, (&facts, launch.function), parameters, device)?;
        Ok(CommandRequest { info, name: "", kernel: Some(facts), args })
    })
}

/// The arguments of a launch: cached, or found out now.
fn args(
    backend: &CudaBackend,
    recorder: &mut ThreadRecorder,
    (facts, function): (&KernelFacts, usize),
    parameters: Option<Cow<'_, [u8]>>,
    device: Device,
) -> Result<Arc<CommandArgs>, RecordError> {
    let mut work = CommandSpec::default();
    let Some(parameters) = parameters else {
        work.known.unread.push((0, recorder.string("parameters")?, UncapturedReason::Opaque));
        work.add_variables(backend, recorder, &facts.code, device)?;
        return Ok(CommandArgs::new(work.ranges, work.known));
    };
    let (changes, has_textures) = {
        let mut state = backend.state();
        let State { launch_cache, allocations, textures, .. } = &mut *state;
        let has_textures = !textures.is_empty();
        let known = launch_cache.find((function, &parameters), allocations, device);
        if let Some(known) = known.filter(|_| !has_textures) {
            return Ok(known);
        }
        (allocations.changes(), has_textures)
    };
    let given = scan(backend, facts, &parameters);
    let pointers = work.give(backend, recorder, (facts, &given), device)?;
    work.add_variables(backend, recorder, &facts.code, device)?;
    work.add_textures(backend);
    let args = CommandArgs::new(work.ranges, work.known);
    if !has_textures {
        // With the state from before the arguments were found out: if memory has changed since, the entry is
        // not valid.
        let repeat = CachedLaunch { device, changes, pointers, args: Arc::clone(&args) };
        backend.state().launch_cache.keep(function, parameters.into(), repeat);
    }
    Ok(args)
}

/// A launch whose parameters were set earlier, by functions that the backend does not see.
pub fn launch_unknown(
    backend: &CudaBackend,
    call: Call<'_>,
    target: &StreamTarget,
    guard: StreamGuard,
    function: usize,
) -> Option<PendingCommand> {
    let facts = KernelFacts::of(backend, Some(call), function);
    PendingCommand::new(backend, target, guard, |recorder| {
        let info = TaskInfo::of(facts.id(recorder)?);
        let parameters = (0, recorder.string("parameters")?, UncapturedReason::Opaque);
        let known = SubmittedValues { unread: vec![parameters], ..SubmittedValues::default() };
        let args = CommandArgs::new(Vec::new(), known);
        Ok(CommandRequest { info, name: "", kernel: Some(facts), args })
    })
}

/// The task of a launch.
fn info(kernel: tensortap_record::KernelId, launch: &Launch) -> TaskInfo {
    let half = |word: u64, at: u32| u32::try_from(word >> (32 * at) & 0xffff_ffff).unwrap_or(0);
    let [x, y, z] = launch.sizes;
    let grid = [half(x, 0), half(x, 1), half(y, 0)];
    let group = [half(y, 1), half(z, 0), half(z, 1)];
    let LaunchOptions { shared_bytes, cluster, flags: launch_flags } = launch.details;
    TaskInfo { grid, group, work_dims: 3, shared_bytes, cluster, launch_flags, ..TaskInfo::of(kernel) }
}

/// Returns a function that tells whether an address is in allocated memory. Most words are far from any.
fn live(state: &State) -> impl Fn(u64) -> bool {
    let span = state.allocations.span();
    move |address| span.contains(&address) && state.allocations.holds(address)
}

/// The content of all parameters, at the offsets that the driver reports. None if the driver does not report
/// them.
///
/// # Safety
/// As the program's launch: the parameters can be read and do not change until it returns.
unsafe fn parameters<'p>(facts: &KernelFacts, launch: &'p Launch) -> Option<Cow<'p, [u8]>> {
    if launch.parameters == 0 {
        // SAFETY: the caller's guarantee.
        let buffer = unsafe { buffer(launch.extra) };
        return (facts.parameters.is_some() || !buffer.is_empty()).then_some(Cow::Borrowed(buffer));
    }
    let places = facts.parameters.as_deref()?;
    let end = places.iter().map(|place| place.offset.saturating_add(place.size)).max().unwrap_or(0);
    let mut all = vec![0; end.min(MAX_BYTES)];
    for (at, place) in places.iter().enumerate() {
        // SAFETY: the caller's guarantee.
        let start: u64 = unsafe { raw::at(launch.parameters + 8 * at as u64) };
        // SAFETY: the caller's guarantee.
        let bytes = unsafe { raw::bytes(start, place.size) };
        if let Some(to) = all.get_mut(place.offset..place.offset.saturating_add(bytes.len())) {
            to.copy_from_slice(bytes);
        }
    }
    Some(Cow::Owned(all))
}

/// Classifies the parameters of a launch. If the driver does not report the parameters, they count as one
/// large parameter.
fn scan<'p>(backend: &CudaBackend, facts: &KernelFacts, all: &'p [u8]) -> Vec<Argument<'p>> {
    let state = backend.state();
    let whole = [ParameterLayout { offset: 0, size: all.len() }];
    let places = facts.parameters.as_deref().unwrap_or(&whole);
    let each = places.iter().map(|place| all.get(place.offset..place.offset + place.size).unwrap_or(&[]));
    parameters::scan(each, live(&state))
}

/// The addresses among the parameters of a launch, and whether a value may be the handle of a texture or
/// surface. None if the driver does not report the parameters.
///
/// # Safety
/// As the program's launch: the parameters can be read and do not change until it returns.
pub unsafe fn given(backend: &CudaBackend, facts: &KernelFacts, launch: &Launch) -> Option<(Vec<u64>, bool)> {
    // SAFETY: the caller's guarantee.
    let all = unsafe { parameters(facts, launch) }?;
    let given = scan(backend, facts, &all);
    let state = backend.state();
    let may_be_texture = given.iter().filter_map(Argument::value).any(|value| state.may_be_texture(value));
    Some((given.iter().filter_map(Argument::address).collect(), may_be_texture))
}

const END: u64 = 0;
const BUFFER: u64 = 1;
const BUFFER_BYTES: u64 = 2;
/// At most this many settings are read.
const MAX_SETTINGS: u64 = 16;
/// A launch has at most this many bytes of parameters.
const MAX_BYTES: usize = 1 << 16;

/// The parameters in the buffer of `extra`.
///
/// # Safety
/// As the program's launch: the settings can be read, up to the one that ends them.
unsafe fn buffer<'a>(extra: u64) -> &'a [u8] {
    let (mut start, mut bytes) = (0, 0);
    if extra == 0 {
        return &[];
    }
    for at in 0..MAX_SETTINGS {
        // SAFETY: the caller's guarantee. The loop does not read beyond the last setting.
        match unsafe { raw::at::<u64>(extra + 16 * at) } {
            END => break,
            // SAFETY: as above. A setting has a value.
            BUFFER => start = unsafe { raw::at(extra + 16 * at + 8) },
            // SAFETY: as above. The value of this setting is the address of the size.
            BUFFER_BYTES => bytes = unsafe { raw::at::<u64>(raw::at(extra + 16 * at + 8)) },
            _ => {}
        }
    }
    // SAFETY: the caller's guarantee.
    unsafe { raw::bytes(start, usize::try_from(bytes).unwrap_or(0).min(MAX_BYTES)) }
}

impl CommandSpec {
    /// Adds the variables of the kernel's module that the kernel may use, after all other arguments.
    fn add_variables(
        &mut self,
        backend: &CudaBackend,
        recorder: &mut ThreadRecorder,
        code: &Code,
        device: Device,
    ) -> Result<(), RecordError> {
        if code.variables.is_empty() && !code.has_more {
            return Ok(());
        }
        let mut args = self.next_position()..u16::MAX;
        for (variable, reach) in code.variables.iter().zip(reaches(backend, code, device)) {
            let (Some(arg), name) = (args.next(), variable.name(recorder)?) else { break };
            match reach {
                Some((address, bytes, reach)) => {
                    let range = Range::dense((address, reach.bytes), 0, reach.bytes, None);
                    let is_exact = reach.bytes == bytes;
                    self.ranges.push(Range { arg, name, space: reach.space, is_exact, ..range });
                }
                None => self.known.unread.push((arg, name, UncapturedReason::NoAccess)),
            }
        }
        if let Some(arg) = args.next().filter(|_| code.has_more) {
            self.known.unread.push((
                arg,
                recorder.string("more variables of the module")?,
                UncapturedReason::Variables,
            ));
        }
        Ok(())
    }

    /// Adds a note, after all other arguments, that the kernel may access memory through textures.
    fn add_textures(&mut self, backend: &CudaBackend) {
        let state = backend.state();
        if self.known.values.iter().any(|(_, bytes)| state.may_be_texture(bytes)) {
            self.known.unread.push((self.next_position(), StringId::NONE, UncapturedReason::Texture));
        }
    }

    /// The position after all arguments.
    fn next_position(&self) -> u16 {
        let values = self.known.values.iter().map(|(arg, _)| arg);
        let unread = self.known.unread.iter().map(|(arg, ..)| *arg);
        let all = self.ranges.iter().map(|range| range.arg).chain(values).chain(unread);
        all.max().map_or(0, |last| last.saturating_add(1))
    }

    /// Adds the arguments of a launch. Returns every address, and the end of its block.
    fn give(
        &mut self,
        backend: &CudaBackend,
        recorder: &mut ThreadRecorder,
        (facts, given): (&KernelFacts, &[Argument<'_>]),
        device: Device,
    ) -> Result<Vec<(u64, BlockEnd)>, RecordError> {
        let (extents, met) = extents(backend, given, device);
        let mut names = facts.inner_names();
        self.ranges.reserve(given.len() + facts.code.variables.len());
        for (given, extent) in given.iter().zip(extents) {
            let (arg, address, name) = match *given {
                Argument::Value { arg, bytes } => {
                    self.known.values.push(arg, bytes);
                    continue;
                }
                Argument::Pointer { arg, address } => (arg, address, StringId::NONE),
                Argument::Inside { arg, of, address } => (arg, address, names.name(recorder, of)?),
            };
            match extent {
                Some(extent) if extent.is_readable => {
                    let range = Range::dense((address, extent.bytes), 0, extent.bytes, None);
                    let AddressableRange { space, is_exact, .. } = extent;
                    self.ranges.push(Range { arg, name, space, is_exact, ..range });
                }
                _ => self.known.unread.push((arg, name, UncapturedReason::NoAccess)),
            }
        }
        Ok(met.into_iter().map(|(address, (_, end))| (address, end)).collect())
    }
}

/// How far a pointer reaches, and the end of its block.
type Extent = (Option<AddressableRange>, BlockEnd);

/// How far each pointer of a launch reaches, all looked up at the same time, and the same by address. Library
/// kernels have few different pointers, each many times, so each is looked up once.
fn extents(
    backend: &CudaBackend,
    given: &[Argument<'_>],
    device: Device,
) -> (Vec<Option<AddressableRange>>, Vec<(u64, Extent)>) {
    let state = backend.state();
    let mut met: Vec<(u64, Extent)> = Vec::with_capacity(16);
    let extents = given.iter().map(|given| {
        let address = given.address()?;
        if let Some((_, (known, _))) = met.iter().find(|(known, _)| *known == address) {
            return *known;
        }
        let reach = state.allocations.extent(address, device, backend.max_range);
        met.push((address, (reach, state.allocations.block_end(address))));
        reach
    });
    (extents.collect(), met)
}

/// Address and size of each variable of a module, and how much of it can be read. None if it cannot be read.
fn reaches(backend: &CudaBackend, code: &Code, device: Device) -> Vec<Option<(u64, u64, AddressableRange)>> {
    if code.variables.is_empty() {
        return Vec::new();
    }
    let state = backend.state();
    let variables = code.variables.iter().map(|variable| {
        let (address, bytes) = variable.at?;
        let reach = state.allocations.reach(address, device, bytes.min(backend.max_range))?;
        reach.is_readable.then_some((address, bytes, reach))
    });
    variables.collect()
}
