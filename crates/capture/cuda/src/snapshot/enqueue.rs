//! Puts the kernels of a snapshot into a stream.

use std::sync::Arc;

use tensortap_device_kernels::{
    Build, ContentCopy, FEW_RANGES, HashKernel, KeepArgument, LargeSide, MANY_RANGES, ORDER_BESIDE,
    ORDER_LETS_NEXT, Plan, Range as DeviceRange, RangeElements, Side, Source,
};
use tensortap_queue::{Range, RingAllocator, RingSlice};
use tensortap_record::{DType, DumpStage, MemorySpace, UncapturedReason};
use zerocopy::{FromZeros as _, IntoBytes as _};

use super::{
    Snapshots,
    context::{ContextResources, MAX_RANGES},
    pending::{PendingSnapshot, RESULT_BYTES, ResultSlots, RingSlot, SnapshotTicket, WORD_BYTES, word_at},
    scratch::{ScratchHold, hold},
};
use crate::{
    backend::CudaBackend,
    host_snapshot::{SharedCommand, Target},
    library::{SUCCESS, Status},
    stream_guard::StreamGuard,
};

/// Content in the ring keeps its alignment modulo this number.
const SHIFT: u64 = 16;

/// Whether the backend's kernels can hash these ranges: contiguous device memory.
pub fn can_hash_on_device(ranges: &[Range]) -> bool {
    let can_be = |range: &Range| {
        range.space == MemorySpace::Device
            && range.ndims == 1
            && range.strides[0] == 1
            && range.start == 0
            && range.dtype.unwrap_or(DType::UInt8).packed_bytes(range.shape[0]) == Some(range.bytes)
    };
    ranges.len() <= MAX_RANGES && ranges.iter().all(can_be)
}

/// Whether all ranges are on this device.
pub fn are_on(backend: &CudaBackend, device: i32, ranges: &[Range]) -> bool {
    let is_there = |range: &Range| backend.driver.device_of(range.base) == Some(device);
    !backend.snapshots.has_several() || ranges.iter().all(is_there)
}

/// How the ranges of a snapshot are hashed: equal memory once, in as few launches as possible.
#[derive(Default)]
pub struct SnapshotPlan {
    /// The result slot of each range.
    pub slots: ResultSlots,
    /// Whether statistics are computed.
    pub is_measured: bool,
    launches: Vec<Plan>,
    /// Bundles of the largest launch.
    bundles: u64,
}

impl SnapshotPlan {
    /// Plans the snapshot of these ranges.
    ///
    /// # Errors
    /// If there are more than the device can hash.
    pub fn new(
        snapshots: &Snapshots,
        device: &ContextResources,
        ranges: &[Range],
    ) -> Result<SnapshotPlan, UncapturedReason> {
        // Statistics of bytes of unknown type mean nothing, and take several times as long as a hash.
        let is_measured = !snapshots.wants_payloads && ranges.iter().any(|range| range.dtype.is_some());
        // If all content is to be stored, each range has its own content.
        let slots = ResultSlots::new(ranges, !snapshots.wants_payloads || device.stored.is_some());
        let sources = slots.firsts().iter().map(|&first| source(&ranges[first], is_measured));
        let sources: Vec<Source> = sources.collect();
        let (launches, bundles) = launches(&sources)?;
        Ok(SnapshotPlan { slots, is_measured, launches, bundles })
    }

    /// Number of results.
    fn findings(&self) -> usize {
        self.slots.firsts().len()
    }

    /// The memory of each result.
    fn ranges(&self) -> impl Iterator<Item = &DeviceRange> {
        self.launches.iter().flat_map(Plan::ranges)
    }
}

/// A snapshot to submit.
pub struct SnapshotRequest<'a> {
    /// The context.
    pub device: &'a Arc<ContextResources>,
    /// The stream.
    pub target: Target,
    /// The command.
    pub shared: &'a Arc<SharedCommand>,
    /// Before or after the command.
    pub stage: DumpStage,
    /// How its ranges are hashed.
    pub plan: Arc<SnapshotPlan>,
}

/// Puts the kernels of a snapshot into its stream, and hands it over to the harvest thread. The caller has
/// exclusive access to the stream.
///
/// # Errors
/// If nothing of the snapshot will be reported.
pub fn enqueue(
    backend: &CudaBackend,
    guard: &StreamGuard,
    request: SnapshotRequest<'_>,
) -> Result<SnapshotTicket, UncapturedReason> {
    let SnapshotRequest { device, target, shared, stage, plan } = request;
    let (snapshots, stream) = (&backend.snapshots, guard.stream.number);
    let held = hold(device, &mut guard.scratch(), stage, plan.bundles)?;
    let (room, start) = room_for(snapshots, plan.findings())?;
    let kept = keep_all(backend, snapshots, device, (stage, &plan));
    let ticket = snapshots.tickets.next() + 1;
    word_at(start).set(0);
    let base = (start as u64).wrapping_add(device.findings_at);
    let mut side = side(device, held.bundles, (base, plan.findings() as u64));
    side.order = order(snapshots, device, guard, (stage, &plan));
    let working = ScratchHold::of(held);
    let status = put(backend, device, target.stream, &plan.launches, &side, &kept, (base, ticket));
    if status != SUCCESS {
        // Some kernels may be in the stream nevertheless, so the working memory and the results are never
        // reused.
        return Err(UncapturedReason::NoAccess);
    }
    if side.order & ORDER_LETS_NEXT != 0 {
        guard.scratch().lets_next = Some(snapshots.other_calls.count());
    }
    let (shared, device) = (Arc::clone(shared), Arc::clone(device));
    let snapshot = PendingSnapshot { shared, stage, device, stream, plan, kept, room, ticket, working };
    if !snapshots.harvest_thread.hand_over(snapshot) {
        return Err(UncapturedReason::NoAccess);
    }
    Ok(SnapshotTicket { start, ticket })
}

/// Whether a snapshot overlaps with its neighbors in stream order, if the device supports that.
///
/// The after-snapshot of a command may overlap with the before-snapshot of the next one, because no command
/// of the program runs between the two. All other overlaps are forbidden:
/// - A before-snapshot lets nothing overlap with it. So a launch of the program never overlaps with its
///   before-snapshot, whatever the launch asks for.
/// - A before-snapshot overlaps only with the backend's own kernels. A launch of the program may let its
///   successor begin before its results are written.
/// - An after-snapshot does not begin early and then wait for its launch. That would save more time, but its
///   blocks could occupy places that the launch needs to make progress.
fn order(
    snapshots: &Snapshots,
    device: &ContextResources,
    guard: &StreamGuard,
    (stage, plan): (DumpStage, &SnapshotPlan),
) -> u32 {
    if !device.overlaps_sides() || !snapshots.lets_next || plan.launches.len() != 1 {
        return 0;
    }
    match stage {
        DumpStage::BeforeDispatch if guard.lets_next == Some(snapshots.other_calls.count()) => ORDER_BESIDE,
        DumpStage::BeforeDispatch => 0,
        DumpStage::AfterCompletion => ORDER_LETS_NEXT,
    }
}

/// Makes the next launch of the program wait for the last after-snapshot, if nothing else of the backend is
/// between the two. Otherwise the launch could begin early, because the snapshot lets its successor do so. A fill is no launch and
/// lets nothing overlap with it.
pub fn prevent_overlap(backend: &CudaBackend, guard: &StreamGuard, target: Target) {
    let device = guard.lets_next.and_then(|_| backend.snapshots.device(target.context));
    if let Some(device) = device {
        // SAFETY: the word is the backend's and is never read. A stream that rejects the fill also rejects
        // the launch.
        let _ = unsafe { backend.driver.fill(device.idle_word(), 0, 1, target.stream) };
    }
}

/// Allocates room for results, and returns its address.
fn room_for(snapshots: &Snapshots, count: usize) -> Result<(RingSlice, usize), UncapturedReason> {
    let findings = snapshots.findings().ok_or(UncapturedReason::NoRoom)?;
    let bytes = WORD_BYTES + count as u64 * (RESULT_BYTES + 4);
    let room =
        findings.allocate_while(bytes, || snapshots.is_recorder_slow()).ok_or(UncapturedReason::NoRoom)?;
    Ok((room, findings.start_of(room)))
}

/// The parameters of launches that work in these bundles and write `count` results to an address. The ranges
/// are added later.
fn side(device: &ContextResources, bundles: RingSlice, (base, count): (u64, u64)) -> Side {
    let [leaf_hashes, sums, parts, gates] = device.scratch(bundles.offset);
    let [finished, decisions] = device.words(bundles.offset);
    let (stored, mask) = device.stored.unwrap_or((0, 0));
    Side {
        leaf_hashes,
        sums,
        parts,
        gates,
        finished,
        results: base + WORD_BYTES,
        decisions,
        host_decisions: base + WORD_BYTES + count * RESULT_BYTES,
        stored,
        mask,
        ..Side::new_zeroed()
    }
}

/// A range as the planner expects it.
fn source(range: &Range, is_measured: bool) -> Source {
    let dtype = range.dtype.filter(|_| is_measured);
    let measured = dtype.and_then(|dtype| RangeElements::whole(dtype, range.bytes));
    Source { buffer: 0, address: range.base, bytes: range.bytes, measured }
}

/// Plans as few launches as possible, and returns the bundles of the largest one.
fn launches(sources: &[Source]) -> Result<(Vec<Plan>, u64), UncapturedReason> {
    let plans = |ranges| -> Result<Vec<Plan>, UncapturedReason> {
        let plans: Result<_, _> = sources.chunks(ranges).map(Plan::by_address).collect();
        plans.map_err(|_| UncapturedReason::NoRoom)
    };
    let mut all = plans(MANY_RANGES)?;
    if all.iter().any(|plan| plan.ranges().len() > FEW_RANGES && plan.hash_kernel().0 != HashKernel::Many) {
        all = plans(FEW_RANGES)?;
    }
    let most = all.iter().map(|plan| u64::from(plan.bundles())).max().unwrap_or(0);
    Ok((all, most))
}

/// Allocates room in the ring for all ranges. Empty if no payloads are recorded. Ranges that filters leave
/// out get no room: otherwise the device would treat their content as stored.
fn keep_all(
    backend: &CudaBackend,
    snapshots: &Snapshots,
    device: &ContextResources,
    (stage, plan): (DumpStage, &SnapshotPlan),
) -> Vec<Option<RingSlot>> {
    let Some(ring) = &device.ring else { return Vec::new() };
    let is_wanted = |slot| plan.slots.args(slot).any(|arg| backend.wants_argument(stage, arg));
    let kept = plan
        .ranges()
        .enumerate()
        .map(|(slot, range)| if is_wanted(slot) { keep(backend, snapshots, ring, range) } else { None });
    kept.collect()
}

/// Allocates room in the ring for one range.
fn keep(
    backend: &CudaBackend,
    snapshots: &Snapshots,
    (start, space): &(u64, RingAllocator),
    range: &DeviceRange,
) -> Option<RingSlot> {
    if range.bytes == 0 {
        return None;
    }
    let Some(room) = space.allocate_while(range.bytes + SHIFT, || {}, || snapshots.is_recorder_slow()) else {
        backend.session.note_no_room();
        return None;
    };
    Some(RingSlot { slice: room, address: start + room.offset + range.address % SHIFT, bytes: range.bytes })
}

fn put(
    backend: &CudaBackend,
    device: &ContextResources,
    stream: usize,
    launches: &[Plan],
    side: &Side,
    kept: &[Option<RingSlot>],
    (done, ticket): (u64, u64),
) -> Status {
    let keeps = kept.iter().any(Option::is_some);
    let mut first = 0;
    for (number, plan) in launches.iter().enumerate() {
        let mut side = Side { count: u32::try_from(plan.ranges().len()).unwrap_or(0), ..*side };
        if number + 1 == launches.len() && !keeps {
            (side.done, side.ticket) = (done, ticket);
        }
        let status = launch(backend, device, stream, plan, &mut side, (first, kept));
        if status != SUCCESS {
            return status;
        }
        first += plan.ranges().len();
    }
    if keeps { put_keep(backend, device, stream, launches, side, kept, (done, ticket)) } else { SUCCESS }
}

/// Puts one launch into the stream. `first` is the result slot of its first range.
fn launch(
    backend: &CudaBackend,
    device: &ContextResources,
    stream: usize,
    plan: &Plan,
    side: &mut Side,
    (first, kept): (usize, &[Option<RingSlot>]),
) -> Status {
    let (hash_kernel, groups) = plan.hash_kernel();
    let groups = (groups, Build::CUDA.group);
    let is_kept = |place: usize| kept.get(place).is_some_and(Option::is_some);
    let fill = |places: &mut [DeviceRange]| {
        for (place, (to, range)) in (first..).zip(places.iter_mut().zip(plan.ranges())) {
            let slot = u32::try_from(place).unwrap_or(u32::MAX);
            *to = DeviceRange { slot, decided: is_kept(place).into(), ..*range };
        }
    };
    let (kernel, is_beside) = (device.kernel(hash_kernel), side.order & ORDER_BESIDE != 0);
    let launch = |given: &[u8]| {
        // SAFETY: as below. It overlaps only with the backend's own kernels, which read the same memory.
        if is_beside && unsafe { backend.driver.launch_early(kernel, groups, stream, given) } == SUCCESS {
            return SUCCESS;
        }
        // If the driver does not support the attribute, the launch waits for its predecessors and has nothing
        // more to wait for.
        // SAFETY: the kernel expects this parameter. Its ranges live in stream order, and all other memory is
        // the backend's.
        unsafe { backend.driver.launch(kernel, groups, stream, given) }
    };
    if hash_kernel == HashKernel::Many {
        let mut many = LargeSide { side: *side, ..LargeSide::new_zeroed() };
        fill(&mut many.ranges);
        return launch(many.as_bytes());
    }
    fill(&mut side.few);
    launch(side.as_bytes())
}

fn put_keep(
    backend: &CudaBackend,
    device: &ContextResources,
    stream: usize,
    launches: &[Plan],
    side: &Side,
    kept: &[Option<RingSlot>],
    (done, ticket): (u64, u64),
) -> Status {
    let ranges = launches.iter().flat_map(Plan::ranges);
    let snapshots: Vec<ContentCopy> = (0..)
        .zip(ranges.zip(kept))
        .filter_map(|(slot, (range, kept))| {
            let &RingSlot { address: to, bytes, .. } = kept.as_ref()?;
            Some(ContentCopy { from: range.address, to, bytes, first_chunk: 0, slot })
        })
        .collect();
    let last = snapshots.len().div_ceil(FEW_RANGES);
    for (number, snapshots) in (1..).zip(snapshots.chunks(FEW_RANGES)) {
        let mut keep_argument = KeepArgument {
            decisions: side.decisions,
            finished: side.finished + 4,
            ..KeepArgument::of(snapshots)
        };
        if number == last {
            (keep_argument.done, keep_argument.ticket) = (done, ticket);
        }
        // SAFETY: as above.
        let status = unsafe {
            backend.driver.launch(
                device.keep,
                (keep_argument.groups, Build::CUDA.group),
                stream,
                keep_argument.as_bytes(),
            )
        };
        if status != SUCCESS {
            return status;
        }
    }
    SUCCESS
}
