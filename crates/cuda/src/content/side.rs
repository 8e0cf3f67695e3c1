//! One side of a command: the kernels that go into its stream, and where they leave what they find.

use std::sync::Arc;

use tensortap_device_kernels::{
    Build, FEW, Hashing, Keeping, Kept, MANY, Many, Measured, ORDER_BESIDE, ORDER_LETS_NEXT, Plan,
    Range as DeviceRange, Side, Source,
};
use tensortap_queue::{Range, Room, Rooms};
use tensortap_record::{DType, DumpStage, MemorySpace, UncapturedReason};
use zerocopy::{FromZeros as _, IntoBytes as _};

use super::{
    Contents,
    device::{Device, MOST_RANGES},
    pending::{InRing, Pending, RESULT_BYTES, Seen, Slots, WORD_BYTES, word_at},
    scratch::{Working, hold},
};
use crate::{
    door::{Door, Taken},
    library::{SUCCESS, Status},
    probe::{Shared, Target},
};

/// What content of the ring is moved by so that it lies as its source does.
const SHIFT: u64 = 16;

/// Whether our kernels can look at ranges on the device they are on: its own memory, in one piece each.
pub fn can_be_seen(ranges: &[Range]) -> bool {
    let can_be = |range: &Range| {
        range.space == MemorySpace::Device
            && range.ndims == 1
            && range.strides[0] == 1
            && range.start == 0
            && range.dtype.unwrap_or(DType::UInt8).packed_bytes(range.shape[0]) == Some(range.bytes)
    };
    ranges.len() <= MOST_RANGES && ranges.iter().all(can_be)
}

/// Whether ranges are on a device.
pub fn are_on(door: &Door, device: i32, ranges: &[Range]) -> bool {
    let is_there = |range: &Range| door.driver.device_of(range.base) == Some(device);
    !door.contents.has_several() || ranges.iter().all(is_there)
}

/// Why nothing is looked at.
#[derive(Clone, Copy, Debug)]
pub enum NotSeen {
    /// There is no room for what would be found.
    NoRoom,
    /// The driver refuses.
    Refused,
}

impl NotSeen {
    /// As it stands in the dump.
    pub fn reason(self) -> UncapturedReason {
        match self {
            NotSeen::NoRoom => UncapturedReason::NoRoom,
            NotSeen::Refused => UncapturedReason::NoAccess,
        }
    }
}

/// How our kernels look at ranges: by the memory they are, in as few launches as can be.
#[derive(Default)]
pub struct Sight {
    /// Which finding is whose.
    pub slots: Slots,
    /// Whether statistics are taken.
    pub is_measured: bool,
    launches: Vec<Plan>,
    /// Bundles of the largest launch.
    bundles: u64,
}

impl Sight {
    /// How a device looks at these ranges.
    ///
    /// # Errors
    /// When they are more than it can look at.
    pub fn new(contents: &Contents, device: &Device, ranges: &[Range]) -> Result<Sight, NotSeen> {
        // Statistics of bytes that nobody knows the type of say nothing, and take several times as long as a hash.
        let is_measured = !contents.wants_payloads && ranges.iter().any(|range| range.dtype.is_some());
        // Where all content is to be stored, each range brings its own.
        let slots = Slots::new(ranges, !contents.wants_payloads || device.stored.is_some());
        let sources = slots.firsts().iter().map(|&first| source(&ranges[first], is_measured));
        let sources: Vec<Source> = sources.collect();
        let (launches, bundles) = launches(&sources)?;
        Ok(Sight { slots, is_measured, launches, bundles })
    }

    /// Findings that there will be.
    fn findings(&self) -> usize {
        self.slots.firsts().len()
    }

    /// The ranges that findings are of.
    fn ranges(&self) -> impl Iterator<Item = &DeviceRange> {
        self.launches.iter().flat_map(Plan::ranges)
    }
}

/// A side that is to be put into its stream.
pub struct Asked<'a> {
    /// The device.
    pub device: &'a Arc<Device>,
    /// Where it goes.
    pub target: Target,
    /// The command.
    pub shared: &'a Arc<Shared>,
    /// Which side of it.
    pub stage: DumpStage,
    /// How it is looked at.
    pub sight: Arc<Sight>,
}

/// Puts the kernels of a side into its stream, and hands it to whoever records it. The stream is the caller's alone meanwhile.
///
/// # Errors
/// When nothing of it will be told.
pub fn enqueue(door: &Door, taken: &Taken, asked: Asked<'_>) -> Result<Seen, NotSeen> {
    let Asked { device, target, shared, stage, sight } = asked;
    let (contents, line) = (&door.contents, taken.stream.line);
    let held = hold(device, &mut taken.scratch(), stage, sight.bundles)?;
    let (room, start) = room_for(contents, sight.findings())?;
    let kept = keep_all(door, contents, device, (stage, &sight));
    let ticket = contents.tickets.next() + 1;
    word_at(start).set(0);
    let base = (start as u64).wrapping_add(device.findings_at);
    let mut side = side(device, held.bundles, (base, sight.findings() as u64));
    side.order = order(contents, device, taken, (stage, &sight));
    let working = Working::of(held);
    let status = put(door, device, target.stream, &sight.launches, &side, &kept, (base, ticket));
    if status != SUCCESS {
        // Some of it may be in the stream all the same, so what it was given stays its own.
        return Err(NotSeen::Refused);
    }
    if side.order & ORDER_LETS_NEXT != 0 {
        taken.scratch().lets_next = Some(contents.passed_by.count());
    }
    let (shared, device, room) = (Arc::clone(shared), Arc::clone(device), Some(room));
    contents.hand_over(Pending { shared, stage, device, line, sight, kept, room, ticket, working });
    Ok(Seen { start, ticket })
}

/// How a side stands to what is before and behind it in its stream, where the device overlaps launches.
///
/// What is behind one command is looked at while what is before the next is: nothing of the program's runs between the two. What is before a command lets nothing
/// begin beside it, so a launch of the program's never runs beside it, whatever it asks for; and it begins beside nothing but ours, for launches of the program's
/// may let others begin before they are done. Nor does what is behind a launch begin before that is done and wait for it, which would save some more: its groups
/// would take the place of others that the launch may be waiting for.
fn order(contents: &Contents, device: &Device, taken: &Taken, (stage, sight): (DumpStage, &Sight)) -> u32 {
    if !device.overlaps_sides() || !contents.lets_next || sight.launches.len() != 1 {
        return 0;
    }
    match stage {
        DumpStage::BeforeDispatch if taken.lets_next == Some(contents.passed_by.count()) => ORDER_BESIDE,
        DumpStage::BeforeDispatch => 0,
        DumpStage::AfterCompletion => ORDER_LETS_NEXT,
    }
}

/// Lets the next launch of the program's stand behind the last of ours, where nothing else of ours is between the two: it may ask to begin early, and ours would let it. A fill is
/// no launch, and lets nothing begin beside it.
pub fn keep_apart(door: &Door, taken: &Taken, target: Target) {
    let device = taken.lets_next.and_then(|_| door.contents.device(target.context));
    if let Some(device) = device {
        // SAFETY: a word of ours that nobody reads. A stream that does not take it takes no launch.
        let _ = unsafe { door.driver.fill(device.idle_word(), 0, 1, target.stream) };
    }
}

/// Room for so many findings, and where it begins.
fn room_for(contents: &Contents, count: usize) -> Result<(Room, usize), NotSeen> {
    let findings = contents.findings().ok_or(NotSeen::NoRoom)?;
    let bytes = WORD_BYTES + count as u64 * (RESULT_BYTES + 4);
    let room = findings.take_while(bytes, || contents.is_recorder_slow()).ok_or(NotSeen::NoRoom)?;
    Ok((room, findings.start_of(room)))
}

/// What a launch is given that works in these bundles, without its ranges; so many findings go to an address.
fn side(device: &Device, bundles: Room, (base, count): (u64, u64)) -> Side {
    let [leaf_hashes, sums, parts, gates] = device.scratch(bundles.at);
    let [finished, decisions] = device.words(bundles.at);
    let (stored, mask) = device.stored.unwrap_or((0, 0));
    Side {
        leaf_hashes,
        sums,
        parts,
        gates,
        finished,
        results: base + WORD_BYTES,
        decisions,
        told: base + WORD_BYTES + count * RESULT_BYTES,
        stored,
        mask,
        ..Side::new_zeroed()
    }
}

/// Ends a command that is in its stream and of which nothing is looked at behind it.
pub fn end(contents: &Contents, device: &Arc<Device>, line: u64, shared: &Arc<Shared>) {
    contents.hand_over(Pending::end(device, line, shared));
}

/// A range as the planner takes it.
fn source(range: &Range, is_measured: bool) -> Source {
    let dtype = range.dtype.filter(|_| is_measured);
    let measured = dtype.map(|dtype| Measured::whole(dtype, range.bytes));
    Source { buffer: 0, address: range.base, bytes: range.bytes, measured }
}

/// As few launches as their ranges can go with, and the bundles of the largest.
fn launches(sources: &[Source]) -> Result<(Vec<Plan>, u64), NotSeen> {
    let plans = |ranges| -> Result<Vec<Plan>, NotSeen> {
        let plans: Result<_, _> = sources.chunks(ranges).map(Plan::by_address).collect();
        plans.map_err(|_| NotSeen::NoRoom)
    };
    let mut all = plans(MANY)?;
    if all.iter().any(|plan| plan.ranges().len() > FEW && plan.hashing().0 != Hashing::Many) {
        all = plans(FEW)?;
    }
    let most = all.iter().map(|plan| u64::from(plan.bundles())).max().unwrap_or(0);
    Ok((all, most))
}

/// Room in the ring for all ranges; nothing where no content is wanted, and none for what filters leave out: what is taken for stored would not be.
fn keep_all(
    door: &Door,
    contents: &Contents,
    device: &Device,
    (stage, sight): (DumpStage, &Sight),
) -> Vec<Option<InRing>> {
    let Some(ring) = &device.ring else { return Vec::new() };
    let is_wanted = |slot| sight.slots.args(slot).any(|arg| door.wants_argument(stage, arg));
    let kept = sight
        .ranges()
        .enumerate()
        .map(|(slot, range)| if is_wanted(slot) { keep(door, contents, ring, range) } else { None });
    kept.collect()
}

/// Room in the ring for a range, where there is some.
fn keep(
    door: &Door,
    contents: &Contents,
    (start, space): &(u64, Rooms),
    range: &DeviceRange,
) -> Option<InRing> {
    if range.bytes == 0 {
        return None;
    }
    let Some(room) = space.take_while(range.bytes + SHIFT, || {}, || contents.is_recorder_slow()) else {
        door.no_room();
        return None;
    };
    Some(InRing { room, at: start + room.at + range.address % SHIFT, bytes: range.bytes })
}

fn put(
    door: &Door,
    device: &Device,
    stream: usize,
    launches: &[Plan],
    side: &Side,
    kept: &[Option<InRing>],
    (done, ticket): (u64, u64),
) -> Status {
    let keeps = kept.iter().any(Option::is_some);
    let mut first = 0;
    for (number, plan) in launches.iter().enumerate() {
        let mut side = Side { count: u32::try_from(plan.ranges().len()).unwrap_or(0), ..*side };
        if number + 1 == launches.len() && !keeps {
            (side.done, side.ticket) = (done, ticket);
        }
        let status = launch(door, device, stream, plan, &mut side, (first, kept));
        if status != SUCCESS {
            return status;
        }
        first += plan.ranges().len();
    }
    if keeps { put_keep(door, device, stream, launches, side, kept, (done, ticket)) } else { SUCCESS }
}

/// Puts one launch into the stream, whose ranges have their findings from a place on.
fn launch(
    door: &Door,
    device: &Device,
    stream: usize,
    plan: &Plan,
    side: &mut Side,
    (first, kept): (usize, &[Option<InRing>]),
) -> Status {
    let (hashing, groups) = plan.hashing();
    let groups = (groups, Build::CUDA.group);
    let is_kept = |place: usize| kept.get(place).is_some_and(Option::is_some);
    let fill = |places: &mut [DeviceRange]| {
        for (place, (to, range)) in (first..).zip(places.iter_mut().zip(plan.ranges())) {
            let slot = u32::try_from(place).unwrap_or(u32::MAX);
            *to = DeviceRange { slot, decided: is_kept(place).into(), ..*range };
        }
    };
    let (kernel, is_beside) = (device.kernel(hashing), side.order & ORDER_BESIDE != 0);
    let launch = |given: &[u8]| {
        // SAFETY: as below; what runs beside it is ours, and reads what it reads.
        if is_beside && unsafe { door.driver.launch_early(kernel, groups, stream, given) } == SUCCESS {
            return SUCCESS;
        }
        // Where a driver does not take it so it stands behind all before it, and has nothing to wait for.
        // SAFETY: the kernel takes what is given; its ranges live in the order of this stream, and all else is ours.
        unsafe { door.driver.launch(kernel, groups, stream, given) }
    };
    if hashing == Hashing::Many {
        let mut many = Many { side: *side, ..Many::new_zeroed() };
        fill(&mut many.ranges);
        return launch(many.as_bytes());
    }
    fill(&mut side.few);
    launch(side.as_bytes())
}

fn put_keep(
    door: &Door,
    device: &Device,
    stream: usize,
    launches: &[Plan],
    side: &Side,
    kept: &[Option<InRing>],
    (done, ticket): (u64, u64),
) -> Status {
    let ranges = launches.iter().flat_map(Plan::ranges);
    let contents: Vec<Kept> = (0..)
        .zip(ranges.zip(kept))
        .filter_map(|(slot, (range, kept))| {
            let &InRing { at: to, bytes, .. } = kept.as_ref()?;
            Some(Kept { from: range.address, to, bytes, first_chunk: 0, slot })
        })
        .collect();
    let last = contents.len().div_ceil(FEW);
    for (number, contents) in (1..).zip(contents.chunks(FEW)) {
        let mut keeping =
            Keeping { decisions: side.decisions, finished: side.finished + 4, ..Keeping::of(contents) };
        if number == last {
            (keeping.done, keeping.ticket) = (done, ticket);
        }
        // SAFETY: as above.
        let status = unsafe {
            door.driver.launch(device.keep, (keeping.groups, Build::CUDA.group), stream, keeping.as_bytes())
        };
        if status != SUCCESS {
            return status;
        }
    }
    SUCCESS
}
