//! Kernels and graphs are launched.

use std::{borrow::Cow, sync::Arc};

use tensortap_queue::Range;
use tensortap_record::{
    LAUNCH_COOPERATIVE, LAUNCH_EARLY, RecordError, StringId, TaskInfo, ThreadRecorder, UncapturedReason,
};

use super::{graphs, kernels::KernelFacts, modules::Code, repeats::Repeat};
use crate::{
    allocations::{BlockEnd, Device, Reach},
    calls::{handle, place, stream_of},
    door::{Door, State, Taken},
    enqueue::{Begun, Place as At},
    known::Known,
    parameters::{self, Given, Place},
    raw::{self, Call, LaunchAttribute, LaunchConfig},
    table::Function,
    work::{Request, Subject, Work},
};

/// A launch as it is called.
pub struct Launch {
    /// Handle of the kernel.
    pub function: usize,
    /// Two sizes in each: groups in three directions, then threads.
    pub sizes: [u64; 3],
    /// Where pointers to parameters lie; 0 for none.
    pub parameters: u64,
    /// Where settings lie that say where parameters are; 0 for none.
    pub extra: u64,
    /// How else it is to run.
    pub details: Details,
}

/// How a launch is to run, beside its sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Bytes that each group has for itself beside those which its kernel declares.
    pub shared_bytes: u32,
    /// Groups of a cluster in each direction; 0 for none.
    pub cluster: [u8; 3],
    /// `LAUNCH_…` flags of a task.
    pub flags: u8,
}

impl Details {
    /// With so many bytes of shared memory, of which the word of a call has the lower half.
    pub fn shared(word: u64) -> Details {
        Details { shared_bytes: u32::try_from(word & 0xffff_ffff).unwrap_or(0), ..Details::default() }
    }

    /// With an attribute. Those which change nothing that a kernel computes are not kept.
    fn with(mut self, attribute: &LaunchAttribute) -> Details {
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

/// Attributes that a launch has at most.
const MOST_ATTRIBUTES: u32 = 64;

/// How a launch is to run that has attributes.
///
/// # Safety
/// As the program's launch: attributes lie where it says.
unsafe fn details(config: &LaunchConfig) -> Details {
    let count = if config.attributes == 0 { 0 } else { config.attribute_count.min(MOST_ATTRIBUTES) };
    (0..count).fold(Details::shared(config.shared), |details, at| {
        let place = config.attributes + u64::from(at) * size_of::<LaunchAttribute>() as u64;
        // SAFETY: the caller's promise.
        let attribute: LaunchAttribute = unsafe { raw::at(place) };
        details.with(&attribute)
    })
}

/// A launch whose sizes and stream stand in a structure.
pub fn launch_ex(door: &Door, function: &Function, call: Call<'_>) -> Option<Begun> {
    // SAFETY: the four words of this function.
    let [config, kernel, parameters, extra] = [0, 1, 2, 3].map(|at| unsafe { call.word(at) });
    if config == 0 {
        return None;
    }
    // SAFETY: the program's launch has it there.
    let config: LaunchConfig = unsafe { raw::at(config) };
    // SAFETY: the program's launch has them there.
    let details = unsafe { details(&config) };
    let launch = Launch { function: handle(kernel), sizes: config.sizes, parameters, extra, details };
    self::launch(door, function, call, handle(config.stream), &launch)
}

/// A launch of a kernel. What a filter leaves out is left alone: it is in nobody's order, and what stands behind it stands behind what is before it.
pub fn launch(
    door: &Door,
    function: &Function,
    call: Call<'_>,
    stream: usize,
    launch: &Launch,
) -> Option<Begun> {
    let facts = KernelFacts::of(door, Some(call), launch.function);
    let id = facts.claim(door)?;
    let Some(place) = place(door, function, call, stream, false) else {
        // SAFETY: the program's launch has its parameters where it says, until it returns.
        unsafe {
            let captured = (stream_of(function, call, stream).handle(), call.data.context);
            graphs::note(door, captured, &facts, launch);
        }
        return None;
    };
    let taken = Taken::new(door.stream(place.stream, place.context)?);
    let device = taken.stream.device;
    // SAFETY: the program's launch has its parameters where it says, until it returns.
    let parameters = unsafe { parameters(&facts, launch) };
    Begun::new(door, &place, taken, |recorder| {
        let info = TaskInfo { id, ..info(facts.id(recorder)?, launch) };
        let subject = subject(door, recorder, (&facts, launch.function), parameters, device)?;
        Ok(Request { info, name: "", kernel: Some(facts), subject })
    })
}

/// What a launch is given: as when it came before, or found out now.
fn subject(
    door: &Door,
    recorder: &mut ThreadRecorder,
    (facts, function): (&KernelFacts, usize),
    parameters: Option<Cow<'_, [u8]>>,
    device: Device,
) -> Result<Arc<Subject>, RecordError> {
    let mut work = Work::default();
    let Some(parameters) = parameters else {
        work.known.unread.push((0, recorder.string("parameters")?, UncapturedReason::Opaque));
        work.give_variables(door, recorder, &facts.code, device)?;
        return Ok(Subject::new(work.ranges, work.known));
    };
    let (changes, has_textures) = {
        let mut state = door.state();
        let State { repeats, allocations, textures, .. } = &mut *state;
        let has_textures = !textures.is_empty();
        let known = repeats.find((function, &parameters), allocations, device);
        if let Some(known) = known.filter(|_| !has_textures) {
            return Ok(known);
        }
        (allocations.changes(), has_textures)
    };
    let given = scan(door, facts, &parameters);
    let pointers = work.give(door, recorder, (facts, &given), device)?;
    work.give_variables(door, recorder, &facts.code, device)?;
    work.give_textures(door);
    let subject = Subject::new(work.ranges, work.known);
    if !has_textures {
        // As they were when it was found out: whatever has changed since makes it another.
        let repeat = Repeat { device, changes, pointers, subject: Arc::clone(&subject) };
        door.state().repeats.keep(function, parameters.into(), repeat);
    }
    Ok(subject)
}

/// A launch whose parameters were set before, by functions that are not told of.
pub fn launch_unknown(
    door: &Door,
    call: Call<'_>,
    place: &At,
    taken: Taken,
    function: usize,
) -> Option<Begun> {
    let facts = KernelFacts::of(door, Some(call), function);
    Begun::new(door, place, taken, |recorder| {
        let info = TaskInfo::of(facts.id(recorder)?);
        let parameters = (0, recorder.string("parameters")?, UncapturedReason::Opaque);
        let known = Known { unread: vec![parameters], ..Known::default() };
        let subject = Subject::new(Vec::new(), known);
        Ok(Request { info, name: "", kernel: Some(facts), subject })
    })
}

/// The task of a launch.
fn info(kernel: tensortap_record::KernelId, launch: &Launch) -> TaskInfo {
    let half = |word: u64, at: u32| u32::try_from(word >> (32 * at) & 0xffff_ffff).unwrap_or(0);
    let [x, y, z] = launch.sizes;
    let grid = [half(x, 0), half(x, 1), half(y, 0)];
    let group = [half(y, 1), half(z, 0), half(z, 1)];
    let Details { shared_bytes, cluster, flags: launch_flags } = launch.details;
    TaskInfo { grid, group, work_dims: 3, shared_bytes, cluster, launch_flags, ..TaskInfo::of(kernel) }
}

/// Says of an address whether memory is there. Most words of parameters are far from any.
fn live(state: &State) -> impl Fn(u64) -> bool {
    let span = state.allocations.span();
    move |address| span.contains(&address) && state.allocations.holds(address)
}

/// The bytes of all parameters of a launch, each where the driver has it; none where the driver does not say what they are.
///
/// # Safety
/// As the program's launch: parameters lie where it says, and stay as they are until it returns.
unsafe fn parameters<'p>(facts: &KernelFacts, launch: &'p Launch) -> Option<Cow<'p, [u8]>> {
    if launch.parameters == 0 {
        // SAFETY: the caller's promise.
        let buffer = unsafe { buffer(launch.extra) };
        return (facts.parameters.is_some() || !buffer.is_empty()).then_some(Cow::Borrowed(buffer));
    }
    let places = facts.parameters.as_deref()?;
    let end = places.iter().map(|place| place.offset.saturating_add(place.size)).max().unwrap_or(0);
    let mut all = vec![0; end.min(MOST_BYTES)];
    for (at, place) in places.iter().enumerate() {
        // SAFETY: the caller's promise.
        let start: u64 = unsafe { raw::at(launch.parameters + 8 * at as u64) };
        // SAFETY: the caller's promise.
        let bytes = unsafe { raw::bytes(start, place.size) };
        if let Some(to) = all.get_mut(place.offset..place.offset.saturating_add(bytes.len())) {
            to.copy_from_slice(bytes);
        }
    }
    Some(Cow::Owned(all))
}

/// What a launch is given by its parameters. Where the driver does not say what those are, all of them are one: words in it point wherever they do.
fn scan<'p>(door: &Door, facts: &KernelFacts, all: &'p [u8]) -> Vec<Given<'p>> {
    let state = door.state();
    let whole = [Place { offset: 0, size: all.len() }];
    let places = facts.parameters.as_deref().unwrap_or(&whole);
    let each = places.iter().map(|place| all.get(place.offset..place.offset + place.size).unwrap_or(&[]));
    parameters::scan(each, live(&state))
}

/// The addresses that a launch is given, and whether one of its values may be the handle of a texture or a surface; none where the driver does not say what its parameters are.
///
/// # Safety
/// As the program's launch: parameters lie where it says, and stay as they are until it returns.
pub unsafe fn given(door: &Door, facts: &KernelFacts, launch: &Launch) -> Option<(Vec<u64>, bool)> {
    // SAFETY: the caller's promise.
    let all = unsafe { parameters(facts, launch) }?;
    let given = scan(door, facts, &all);
    let state = door.state();
    let may_be_texture = given.iter().filter_map(Given::value).any(|value| state.may_be_texture(value));
    Some((given.iter().filter_map(Given::address).collect(), may_be_texture))
}

const END: u64 = 0;
const BUFFER: u64 = 1;
const BUFFER_BYTES: u64 = 2;
/// Settings that a launch has at most.
const MOST_SETTINGS: u64 = 16;
/// Bytes of parameters that a launch has at most.
const MOST_BYTES: usize = 1 << 16;

/// Parameters that lie in one buffer.
///
/// # Safety
/// As the program's launch: settings lie there, up to one that ends them.
unsafe fn buffer<'a>(extra: u64) -> &'a [u8] {
    let (mut start, mut bytes) = (0, 0);
    if extra == 0 {
        return &[];
    }
    for at in 0..MOST_SETTINGS {
        // SAFETY: the caller's promise; none lies behind the end.
        match unsafe { raw::at::<u64>(extra + 16 * at) } {
            END => break,
            // SAFETY: as above, a setting has a value.
            BUFFER => start = unsafe { raw::at(extra + 16 * at + 8) },
            // SAFETY: as above, and this one's value is where the size lies.
            BUFFER_BYTES => bytes = unsafe { raw::at::<u64>(raw::at(extra + 16 * at + 8)) },
            _ => {}
        }
    }
    // SAFETY: the caller's promise.
    unsafe { raw::bytes(start, usize::try_from(bytes).unwrap_or(0).min(MOST_BYTES)) }
}

impl Work {
    /// Gives it the variables of its kernel's module, behind all else: which of them the kernel uses is not known.
    fn give_variables(
        &mut self,
        door: &Door,
        recorder: &mut ThreadRecorder,
        code: &Code,
        device: Device,
    ) -> Result<(), RecordError> {
        if code.variables.is_empty() && !code.has_more {
            return Ok(());
        }
        let mut args = self.behind()..u16::MAX;
        for (variable, reach) in code.variables.iter().zip(reaches(door, code, device)) {
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

    /// Says that there may be memory behind textures, behind all else.
    fn give_textures(&mut self, door: &Door) {
        let state = door.state();
        if self.known.values.iter().any(|(_, bytes)| state.may_be_texture(bytes)) {
            self.known.unread.push((self.behind(), StringId::NONE, UncapturedReason::Texture));
        }
    }

    /// The position behind all that it was given.
    fn behind(&self) -> u16 {
        let values = self.known.values.iter().map(|(arg, _)| arg);
        let unread = self.known.unread.iter().map(|(arg, ..)| *arg);
        let all = self.ranges.iter().map(|range| range.arg).chain(values).chain(unread);
        all.max().map_or(0, |last| last.saturating_add(1))
    }

    /// Gives it what a launch is given; every address of it, and where the block ends that this lies in.
    fn give(
        &mut self,
        door: &Door,
        recorder: &mut ThreadRecorder,
        (facts, given): (&KernelFacts, &[Given<'_>]),
        device: Device,
    ) -> Result<Vec<(u64, BlockEnd)>, RecordError> {
        let (extents, met) = extents(door, given, device);
        let mut names = facts.names_inside();
        self.ranges.reserve(given.len() + facts.code.variables.len());
        for (given, extent) in given.iter().zip(extents) {
            let (arg, address, name) = match *given {
                Given::Value { arg, bytes } => {
                    self.known.values.push(arg, bytes);
                    continue;
                }
                Given::Pointer { arg, address } => (arg, address, StringId::NONE),
                Given::Inside { arg, of, address } => (arg, address, names.name(recorder, of)?),
            };
            match extent {
                Some(extent) if extent.is_readable => {
                    let range = Range::dense((address, extent.bytes), 0, extent.bytes, None);
                    let Reach { space, is_exact, .. } = extent;
                    self.ranges.push(Range { arg, name, space, is_exact, ..range });
                }
                _ => self.known.unread.push((arg, name, UncapturedReason::NoAccess)),
            }
        }
        Ok(met.into_iter().map(|(address, (_, end))| (address, end)).collect())
    }
}

/// How far a pointer reaches, and where the block ends that it lies in, which says so.
type Extent = (Option<Reach>, BlockEnd);

/// How far each of a launch's pointers reaches, all of them at one time; and the same by addresses. Kernels of libraries are given few pointers, many times each: one that was met is
/// not looked up again.
fn extents(door: &Door, given: &[Given<'_>], device: Device) -> (Vec<Option<Reach>>, Vec<(u64, Extent)>) {
    let state = door.state();
    let mut met: Vec<(u64, Extent)> = Vec::with_capacity(16);
    let extents = given.iter().map(|given| {
        let address = given.address()?;
        if let Some((_, (known, _))) = met.iter().find(|(known, _)| *known == address) {
            return *known;
        }
        let reach = state.allocations.extent(address, device, door.max_range);
        met.push((address, (reach, state.allocations.block_end(address))));
        reach
    });
    (extents.collect(), met)
}

/// Where each variable of a module lies, its size, and how far it can be read; none where it cannot.
fn reaches(door: &Door, code: &Code, device: Device) -> Vec<Option<(u64, u64, Reach)>> {
    if code.variables.is_empty() {
        return Vec::new();
    }
    let state = door.state();
    let variables = code.variables.iter().map(|variable| {
        let (address, bytes) = variable.at?;
        let reach = state.allocations.reach(address, device, bytes.min(door.max_range))?;
        reach.is_readable.then_some((address, bytes, reach))
    });
    variables.collect()
}
