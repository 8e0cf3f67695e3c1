//! Kernels and graphs are launched.

use std::sync::Arc;

use tensortap_queue::Range;
use tensortap_record::{
    LAUNCH_COOPERATIVE, LAUNCH_EARLY, RecordError, StringId, TaskInfo, ThreadRecorder, UncapturedReason,
};

use super::{graphs, kernels::KernelFacts, modules::Code};
use crate::{
    allocations::{Device, Reach},
    calls::{handle, place, stream_of},
    door::{Door, State, Taken},
    enqueue::{Begun, Place, Work},
    parameters::{self, Given},
    raw::{self, Call},
    table::Function,
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
    fn with(mut self, attribute: &Attribute) -> Details {
        let [first, ..] = attribute.value;
        match attribute.id {
            COOPERATIVE if first != 0 => self.flags |= LAUNCH_COOPERATIVE,
            PROGRAMMATIC if first != 0 => self.flags |= LAUNCH_EARLY,
            CLUSTER => {
                let [x, y, z, ..] = attribute.value;
                self.cluster = [x, y, z].map(|size| u8::try_from(size).unwrap_or(u8::MAX));
            }
            _ => {}
        }
        self
    }
}

/// Sizes, the stream and attributes of `cuLaunchKernelEx`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Config {
    sizes: [u64; 3],
    shared: u64,
    stream: u64,
    attributes: u64,
    attribute_count: u32,
}
const _: () = assert!(std::mem::offset_of!(Config, stream) == 32);
const _: () = assert!(std::mem::offset_of!(Config, attribute_count) == 48);

/// One attribute of `cuLaunchKernelEx`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Attribute {
    id: u32,
    padding: u32,
    value: [u32; 16],
}
const _: () = assert!(size_of::<Attribute>() == 72);

const COOPERATIVE: u32 = 2;
const CLUSTER: u32 = 4;
const PROGRAMMATIC: u32 = 6;
/// Attributes that a launch has at most.
const MOST_ATTRIBUTES: u32 = 64;

impl Config {
    /// # Safety
    /// As the program's launch: attributes lie where it says.
    unsafe fn details(&self) -> Details {
        let count = if self.attributes == 0 { 0 } else { self.attribute_count.min(MOST_ATTRIBUTES) };
        (0..count).fold(Details::shared(self.shared), |details, at| {
            // SAFETY: the caller's promise.
            let attribute: Attribute = unsafe { raw::at(self.attributes + 72 * u64::from(at)) };
            details.with(&attribute)
        })
    }
}

/// A launch whose sizes and stream stand in a structure.
pub fn launch_ex(door: &Door, function: &Function, call: Call<'_>) -> Option<Begun> {
    // SAFETY: the four words of this function.
    let [config, kernel, parameters, extra] = [0, 1, 2, 3].map(|at| unsafe { call.word(at) });
    if config == 0 {
        return None;
    }
    // SAFETY: the program's launch has it there.
    let config: Config = unsafe { raw::at(config) };
    // SAFETY: the program's launch has them there.
    let details = unsafe { config.details() };
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
    let given = unsafe { given(door, &facts, launch) };
    Begun::new(door, &place, taken, |recorder| {
        let info = TaskInfo { id, ..info(facts.id(recorder)?, launch) };
        let mut work = Work { info, kernel: Some(Arc::clone(&facts)), ..Work::default() };
        match given {
            Some(given) => work.give(door, recorder, (&facts, given), device)?,
            None => work.unread.push((0, recorder.string("parameters")?, UncapturedReason::Opaque)),
        }
        work.give_variables(door, recorder, &facts.code, device)?;
        work.give_textures(door);
        Ok(work)
    })
}

/// A launch whose parameters were set before, by functions that are not told of.
pub fn launch_unknown(
    door: &Door,
    call: Call<'_>,
    place: &Place,
    taken: Taken,
    function: usize,
) -> Option<Begun> {
    let facts = KernelFacts::of(door, Some(call), function);
    Begun::new(door, place, taken, |recorder| {
        let info = TaskInfo::of(facts.id(recorder)?);
        let parameters = (0, recorder.string("parameters")?, UncapturedReason::Opaque);
        let kernel = Some(Arc::clone(&facts));
        Ok(Work { info, kernel, unread: vec![parameters], ..Work::default() })
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

/// What a launch is given; none where the driver does not say what its parameters are.
///
/// # Safety
/// As the program's launch: parameters lie where it says.
pub unsafe fn given(door: &Door, facts: &KernelFacts, launch: &Launch) -> Option<Vec<Given>> {
    let places = facts.parameters.as_deref();
    if launch.parameters != 0 {
        let places = places?;
        let state = door.state();
        let each = places.iter().enumerate().map(|(at, place)| {
            // SAFETY: the caller's promise.
            let start: u64 = unsafe { raw::at(launch.parameters + 8 * at as u64) };
            // SAFETY: the caller's promise.
            unsafe { raw::bytes(start, place.size) }
        });
        return Some(parameters::scan(each, live(&state)));
    }
    // SAFETY: the caller's promise.
    let buffer = unsafe { buffer(launch.extra) };
    let state = door.state();
    match places {
        Some(places) => {
            let each =
                places.iter().map(|place| buffer.get(place.offset..place.offset + place.size).unwrap_or(&[]));
            Some(parameters::scan(each, live(&state)))
        }
        // All of them as one: words in it point wherever they do.
        None if !buffer.is_empty() => Some(parameters::scan([buffer].into_iter(), live(&state))),
        None => None,
    }
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
        let mut args = self.behind()..u16::MAX;
        for (variable, reach) in code.variables.iter().zip(reaches(door, code, device)) {
            let (Some(arg), name) = (args.next(), variable.name(recorder)?) else { break };
            match reach {
                Some((address, bytes, reach)) => {
                    let range = Range::dense((address, reach.bytes), 0, reach.bytes, None);
                    let is_exact = reach.bytes == bytes;
                    self.ranges.push(Range { arg, name, space: reach.space, is_exact, ..range });
                }
                None => self.unread.push((arg, name, UncapturedReason::NoAccess)),
            }
        }
        if let Some(arg) = args.next().filter(|_| code.has_more) {
            self.unread.push((
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
        if self.values.iter().any(|(_, bytes)| state.may_be_texture(bytes)) {
            self.unread.push((self.behind(), StringId::NONE, UncapturedReason::Texture));
        }
    }

    /// The position behind all that it was given.
    fn behind(&self) -> u16 {
        let known = self.ranges.iter().map(|range| range.arg).chain(self.values.iter().map(|(arg, _)| *arg));
        let known = known.chain(self.unread.iter().map(|(arg, ..)| *arg));
        known.max().map_or(0, |last| last.saturating_add(1))
    }

    /// Gives it what a launch is given.
    fn give(
        &mut self,
        door: &Door,
        recorder: &mut ThreadRecorder,
        (facts, given): (&KernelFacts, Vec<Given>),
        device: Device,
    ) -> Result<(), RecordError> {
        let extents = extents(door, &given, device);
        for (given, extent) in given.into_iter().zip(extents) {
            let (arg, address, name) = match given {
                Given::Value { arg, bytes } => {
                    self.values.push((arg, bytes));
                    continue;
                }
                Given::Pointer { arg, address } => (arg, address, StringId::NONE),
                Given::Inside { arg, of: (of, at), address } => {
                    (arg, address, facts.name_inside(recorder, (of, at))?)
                }
            };
            match extent {
                Some(extent) if extent.is_readable => {
                    let range = Range::dense((address, extent.bytes), 0, extent.bytes, None);
                    let Reach { space, is_exact, .. } = extent;
                    self.ranges.push(Range { arg, name, space, is_exact, ..range });
                }
                _ => self.unread.push((arg, name, UncapturedReason::NoAccess)),
            }
        }
        Ok(())
    }
}

/// How far each of a launch's pointers reaches.
fn extents(door: &Door, given: &[Given], device: Device) -> Vec<Option<Reach>> {
    let state = door.state();
    let extent = |given: &Given| match *given {
        Given::Value { .. } => None,
        Given::Pointer { address, .. } | Given::Inside { address, .. } => {
            state.allocations.extent(address, device, door.max_range)
        }
    };
    given.iter().map(extent).collect()
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
