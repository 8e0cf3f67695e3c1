//! One side of a command: the kernels that go into its stream, and where they leave what they find.

use std::{
    cell::Cell,
    fmt,
    mem::ManuallyDrop,
    sync::{Arc, Weak},
};

use tensortap_device_kernels::{
    Build, Decision, FEW, Keeping, Kept, Measured, Plan, Range as DeviceRange, RangeResult, Side, Source,
};
use tensortap_queue::{Range, Room};
use tensortap_record::{DType, DumpStage, Found};
use tensortap_sync::SharedU64;
use zerocopy::{FromZeros as _, IntoBytes as _};

use super::{Contents, device::Device, device::MOST_RANGES};
use crate::{
    door::Door,
    library::{SUCCESS, Status},
    probe::{Shared, Target},
};

/// Bytes before the findings: the word that says that they are there.
const WORD_BYTES: usize = 64;
const RESULT_BYTES: u64 = size_of::<RangeResult>() as u64;
/// What content of the ring is moved by so that it lies as its source does.
const SHIFT: u64 = 16;

/// What a stream has of a device while sides of it are under way. They come one after the other, so that all of them work in the same memory.
#[derive(Debug, Default)]
pub struct Scratch {
    held: Weak<Held>,
}

/// Memory of a device that sides of one stream work in. It goes back when all of them were seen.
struct Held {
    device: Arc<Device>,
    bundles: Room,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("bundles", &self.bundles).finish_non_exhaustive()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.device.bundles.give([self.bundles]);
    }
}

/// The memory, as a side has it. Of a side that nobody has seen it stays taken: the device may write there yet.
struct Working(Cell<Option<Arc<Held>>>);

impl Working {
    fn is_over(&self) {
        drop(self.0.take());
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let _stays = ManuallyDrop::new(self.0.take());
    }
}

/// A side that is in its stream.
pub struct Pending {
    /// The command.
    pub shared: Arc<Shared>,
    /// Which side of it.
    pub stage: DumpStage,
    /// The device.
    pub device: Arc<Device>,
    /// The stream, by a number that no other has.
    pub line: u64,
    /// Where new content of each range lies in the ring; none where it is not kept.
    pub kept: Vec<Option<InRing>>,
    /// Types of the ranges, as far as they are known.
    dtypes: Vec<Option<DType>>,
    /// Whether statistics are taken.
    is_measured: bool,
    /// Where its findings are; none where there are none.
    room: Option<Room>,
    ticket: u64,
    working: Working,
}

/// Content in the ring.
#[derive(Clone, Copy, Debug)]
pub struct InRing {
    /// What it has of the ring.
    pub room: Room,
    /// Its address.
    pub at: u64,
    /// Its size.
    pub bytes: u64,
}

/// What says that a side was seen.
#[derive(Clone, Copy)]
pub struct Seen {
    word: usize,
    ticket: u64,
}

impl Seen {
    /// Whether it was, or whether its word is another's by now.
    pub fn is_over(&self) -> bool {
        let word = word_at(self.word).see();
        word == self.ticket
    }
}

/// The word that lies at the beginning of findings.
fn word_at(address: usize) -> &'static SharedU64 {
    let word = std::ptr::with_exposed_provenance::<SharedU64>(address);
    // SAFETY: memory of the findings' pool, which is there until the process ends; rooms begin at multiples of 256.
    unsafe { &*word }
}

/// Whether our kernels can look at the ranges of a command: device memory in one piece each, on this device.
pub fn can_see(door: &Door, contents: &Contents, device: i32, ranges: &[Range]) -> bool {
    let is_dense = |range: &Range| {
        range.ndims == 1
            && range.strides[0] == 1
            && range.start == 0
            && range.dtype.unwrap_or(DType::UInt8).packed_bytes(range.shape[0]) == Some(range.bytes)
    };
    let is_here = |range: &Range| {
        range.space == tensortap_record::MemorySpace::Device
            && (!contents.has_several() || door.driver.device_of(range.base) == Some(device))
    };
    ranges.len() <= MOST_RANGES && ranges.iter().all(|range| is_dense(range) && is_here(range))
}

/// Why a side is not in its stream.
pub enum NotSeen {
    /// There is no room for what it would find.
    NoRoom,
    /// The driver refuses.
    Refused,
}

/// A side that is to be put into its stream.
pub struct Asked<'a> {
    /// The device.
    pub device: &'a Arc<Device>,
    /// Where it goes.
    pub target: Target,
    /// The stream's number.
    pub line: u64,
    /// The command.
    pub shared: &'a Arc<Shared>,
    /// Which side of it.
    pub stage: DumpStage,
    /// Its ranges.
    pub ranges: &'a [Range],
}

/// Puts the kernels of a side into its stream, and hands it to whoever records it. The stream is the caller's alone meanwhile.
///
/// # Errors
/// When nothing of it will be told.
pub fn enqueue(
    door: &Door,
    contents: &Contents,
    scratch: &mut Scratch,
    asked: &Asked<'_>,
) -> Result<Seen, NotSeen> {
    let &Asked { device, target, line, shared, stage, ranges } = asked;
    // Statistics of bytes that nobody knows the type of say nothing, and take several times as long as a hash.
    let is_measured = !contents.wants_payloads && ranges.iter().any(|range| range.dtype.is_some());
    let sources: Vec<Source> = ranges.iter().map(|range| source(range, is_measured)).collect();
    let (launches, most) = launches(&sources)?;
    let held = hold(device, scratch, most)?;
    let (words, bundles) = (device.words(held.bundles.at), held.bundles);
    let findings = contents.findings().ok_or(NotSeen::NoRoom)?;
    let count = ranges.len() as u64;
    let slow = || contents.is_recorder_slow();
    let room =
        findings.take_while(WORD_BYTES as u64 + count * (RESULT_BYTES + 4), slow).ok_or(NotSeen::NoRoom)?;
    let start = findings.start_of(room);
    let kept: Vec<Option<InRing>> = ranges.iter().map(|range| keep(door, contents, device, range)).collect();
    let ticket = contents.tickets.next() + 1;
    word_at(start).set(0);
    let base = (start as u64).wrapping_add(device.findings_at);
    let [leaf_hashes, sums, parts, gates] = device.scratch(bundles.at);
    let (stored, mask) = device.stored.unwrap_or((0, 0));
    let side = Side {
        leaf_hashes,
        sums,
        parts,
        gates,
        finished: words[0],
        results: base + WORD_BYTES as u64,
        decisions: words[1],
        told: base + WORD_BYTES as u64 + count * RESULT_BYTES,
        stored,
        mask,
        ..Side::new_zeroed()
    };
    let word = (base, ticket);
    let working = Working(Cell::new(Some(held)));
    let status = put(door, device, target.stream, &launches, &side, &kept, is_measured, word);
    if status != SUCCESS {
        // Some of it may be in the stream all the same, so what it was given stays its own.
        return Err(NotSeen::Refused);
    }
    let (shared, device) = (Arc::clone(shared), Arc::clone(device));
    let dtypes = ranges.iter().map(|range| range.dtype).collect();
    let room = Some(room);
    let side = Pending { shared, stage, device, line, kept, dtypes, is_measured, room, ticket, working };
    contents.hand_over(side);
    Ok(Seen { word: start, ticket })
}

/// Ends a command that is in its stream and of which nothing is looked at behind it.
pub fn end(contents: &Contents, device: &Arc<Device>, line: u64, shared: &Arc<Shared>) {
    contents.hand_over(Pending {
        shared: Arc::clone(shared),
        stage: DumpStage::AfterCompletion,
        device: Arc::clone(device),
        line,
        kept: Vec::new(),
        dtypes: Vec::new(),
        is_measured: false,
        room: None,
        ticket: 0,
        working: Working(Cell::new(None)),
    });
}

/// A range as the planner takes it.
fn source(range: &Range, is_measured: bool) -> Source {
    let dtype = range.dtype.filter(|_| is_measured);
    let measured = dtype.map(|dtype| Measured::whole(dtype, range.bytes));
    Source { buffer: 0, address: range.base, bytes: range.bytes, measured }
}

/// Launches of a few ranges each, and the bundles of the largest.
fn launches(sources: &[Source]) -> Result<(Vec<Plan>, u64), NotSeen> {
    let plans: Result<Vec<Plan>, _> = sources.chunks(FEW).map(Plan::by_address).collect();
    let plans = plans.map_err(|_| NotSeen::NoRoom)?;
    let most = plans.iter().map(|plan| u64::from(plan.bundles())).max().unwrap_or(0);
    Ok((plans, most))
}

/// Memory for so many bundles: what the stream works in already, or more. A handle may be that of another context's stream by now, so the device is compared.
fn hold(device: &Arc<Device>, scratch: &mut Scratch, bundles: u64) -> Result<Arc<Held>, NotSeen> {
    let fits = |held: &Arc<Held>| Arc::ptr_eq(&held.device, device) && held.bundles.bytes >= bundles;
    if let Some(held) = scratch.held.upgrade().filter(fits) {
        return Ok(held);
    }
    let bundles = device.bundles.take(bundles, || {}).ok_or(NotSeen::NoRoom)?;
    let held = Arc::new(Held { device: Arc::clone(device), bundles });
    scratch.held = Arc::downgrade(&held);
    Ok(held)
}

/// Room in the ring for a range, where content is wanted and there is some.
fn keep(door: &Door, contents: &Contents, device: &Device, range: &Range) -> Option<InRing> {
    let (start, space) = device.ring.as_ref()?;
    if range.bytes == 0 {
        return None;
    }
    let Some(room) = space.take_while(range.bytes + SHIFT, || {}, || contents.is_recorder_slow()) else {
        door.no_room();
        return None;
    };
    Some(InRing { room, at: start + room.at + range.base % SHIFT, bytes: range.bytes })
}

#[expect(clippy::too_many_arguments, reason = "what a side is made of")]
fn put(
    door: &Door,
    device: &Device,
    stream: usize,
    launches: &[Plan],
    side: &Side,
    kept: &[Option<InRing>],
    is_measured: bool,
    (done, ticket): (u64, u64),
) -> Status {
    let keeps = kept.iter().any(Option::is_some);
    for (number, plan) in launches.iter().enumerate() {
        let is_last = number + 1 == launches.len();
        let mut side = Side { count: u32::try_from(plan.ranges().len()).unwrap_or(0), ..*side };
        let first = number * FEW;
        for (place, (few, range)) in side.few.iter_mut().zip(plan.ranges()).enumerate() {
            let slot = u32::try_from(first + place).unwrap_or(u32::MAX);
            let decided = kept[first + place].is_some().into();
            *few = DeviceRange { slot, decided, ..*range };
        }
        if is_last && !keeps {
            (side.done, side.ticket) = (done, ticket);
        }
        let kernel = if is_measured { device.measure } else { device.hash };
        // SAFETY: the kernel takes a side; its ranges live in the order of this stream, and all else is ours.
        let status = unsafe {
            door.driver.launch(kernel, (plan.bundles(), Build::CUDA.group), stream, side.as_bytes())
        };
        if status != SUCCESS {
            return status;
        }
    }
    if keeps { put_keep(door, device, stream, launches, side, kept, (done, ticket)) } else { SUCCESS }
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

impl Pending {
    fn start(&self, contents: &Contents) -> Option<usize> {
        Some(contents.findings()?.start_of(self.room?))
    }

    /// Whether the stream has come so far.
    pub fn is_seen(&self, contents: &Contents) -> bool {
        self.start(contents).is_none_or(|start| word_at(start).see() == self.ticket)
    }

    /// What was found of each range, now that it was seen.
    pub fn findings(&self, contents: &Contents) -> Vec<(Found, Decision)> {
        let Some(start) = self.start(contents) else { return Vec::new() };
        let results = std::ptr::with_exposed_provenance::<RangeResult>(start + WORD_BYTES);
        let of = |(place, dtype): (usize, &Option<DType>)| {
            // SAFETY: the device has written as many behind the word, and writes them no more.
            let (result, told) = unsafe {
                let told = results.add(self.dtypes.len()).cast::<u32>();
                (results.add(place).read(), told.add(place).read())
            };
            let outcome = result.outcome(dtype.filter(|_| self.is_measured));
            let decision = match self.device.stored {
                Some(_) => Decision::from_word(told).unwrap_or(Decision::Undecided),
                None => Decision::NewUnkept,
            };
            (Found { hash: outcome.hash, stats: outcome.stats }, decision)
        };
        self.dtypes.iter().enumerate().map(of).collect()
    }

    /// Gives back what it worked in. Not the ring: that has content yet.
    pub fn give_back(&self, contents: &Contents) {
        self.working.is_over();
        if let Some(pool) = contents.findings() {
            pool.give(self.room);
        }
    }
}
