//! The recorder of one lane.

mod define;
mod digest;
mod payload;
mod reservation;

pub use digest::{ContentDigest, PiecewisePayload};
pub use reservation::{PayloadReservation, ReserveError};

use core::fmt;

use tensortap_abi::{
    AttributeRecord, CollectiveRecord, DumpLevel, DumpRecord, EdgeRecord, FinishedRecord, RECORD_HAS_HASH,
    RECORD_HAS_PAYLOAD, RECORD_PAYLOAD_DROPPED, RECORD_PAYLOAD_FILTERED, TaskRecord, TensorDesc,
    TensorRecord, UncapturedReason, UncapturedRecord,
};
use tensortap_geometry::{Layout, dense_bytes};
use tensortap_sync::signs;
use tensortap_values::{LEAF_BYTES, content_hash};
use zerocopy::IntoBytes;

use crate::capture::{
    dispatch_record, orchestration_arg_record, scalar_record, tensor_record, uncaptured_record,
};
use crate::counters::Ledger;
use crate::filter::{Depth, Rules};
use crate::gather::DenseContent;
use crate::host::HostWatch;
use crate::lane::{Lane, Reservation, ReserveRefusal, SpaceRequest};
use crate::region::{LiveWords, Memory, Parts};
use crate::{
    Counters, DispatchCapture, DropReason, EdgeCapture, Gather, HostLink, OrchestrationArgCapture,
    ScalarCapture, TaskHead, TensorCapture, TensorDetails, UncapturedArg,
};

/// Outcome of a request to record something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It is committed, with all parts that level and filter allow.
    Recorded,
    /// It cannot be captured because its descriptor is damaged; a record states that.
    Uncaptured,
    /// The level does not want it. It counts nowhere.
    NotWanted,
    /// A filter excluded it.
    Filtered,
    /// It was dropped, or only its payload was and the metadata is recorded.
    Dropped(DropReason),
}

/// Records for one device thread, in the lane that it has leased. Made by
/// [`Region::recorder`](crate::Region::recorder).
///
/// For each task and stage, the thread that handles the stage calls [`task`](Self::task) first, then
/// records the arguments in order. Each call may wait for the host, according to the loss policy. It
/// returns when the record is committed or lost.
///
/// ```
/// use core::time::Duration;
/// use tensortap_abi::*;
/// use tensortap_recorder::*;
///
/// struct NoHost;
/// impl HostLink for NoHost {
///     fn wake_host(&self) {}
///     fn pause(&self, _limit: Duration) {}
///     fn now_ns(&self) -> u64 { 0 }
///     fn waiting(&self, _waiting: bool) {}
/// }
///
/// // Device memory, with the region at its start.
/// #[repr(align(64))]
/// #[derive(Clone)]
/// struct CacheLine([u8; 64]);
/// let mut lines = vec![CacheLine([0; 64]); 2000];
/// let base = lines.as_mut_ptr().expose_provenance() as u64;
/// let geometry = DumpGeometry { lanes: 1, buffers: 2, records: 8, arena_bytes: 16 << 10 };
/// let setup = setup_bytes(geometry, &SetupOptions {
///     base,
///     run_id: 1,
///     level: DumpLevel::Full,
///     policy: DumpPolicy::Block,
///     collect: DumpCollect::Live,
///     liveness_ms: 30_000,
///     filter: DumpFilter::ALL,
///     of_process: false,
/// })?;
/// setup.write(|offset, bytes| {
///     for (at, &byte) in (offset as usize..).zip(bytes) {
///         lines[at / 64].0[at % 64] = byte;
///     }
/// });
///
/// // SAFETY: the lines outlive the region, and nothing else uses them.
/// let memory = unsafe { Memory::new(DeviceRange { addr: base, bytes: 2000 * 64 }) };
/// let region = Region::open(memory, base)?;
/// let mut recorder = region.recorder(0, NoHost)?;
/// let scalar = ScalarCapture {
///     task_id: 7,
///     stage: DumpStage::BeforeDispatch,
///     arg_index: 2,
///     dtype: DType::UInt32,
///     bits: 16_384,
///     is_local: false,
///     marked: false,
///     name: 0,
/// };
/// assert_eq!(recorder.scalar(&scalar), Outcome::Recorded);
/// recorder.flush();
/// assert_eq!(recorder.counters().records, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LaneRecorder<'m, H> {
    lane: Lane<'m>,
    ledger: Ledger<'m>,
    memory: Memory<'m>,
    live: LiveWords<'m>,
    rules: Rules,
    watch: HostWatch,
    link: H,
    /// Nesting depth of open calls. The outermost one reads the clock.
    depth: u32,
    /// Start time of the outermost call.
    began_ns: u64,
}

impl<'m, H: HostLink> LaneRecorder<'m, H> {
    pub(crate) fn new(
        parts: Parts<'m>,
        memory: Memory<'m>,
        live: LiveWords<'m>,
        rules: Rules,
        run_id: u64,
        lane: u32,
        link: H,
    ) -> Self {
        let ledger = Ledger::new(parts.state);
        let mut recorder = Self {
            lane: Lane::new(parts, run_id, lane, rules.batch),
            ledger,
            memory,
            live,
            rules,
            watch: HostWatch::new(rules.liveness_ms, signs::pulse(live.heartbeat())),
            link,
            depth: 0,
            began_ns: 0,
        };
        while let Some(range) = recorder.lane.soon() {
            recorder.link.soon(range);
        }
        recorder
    }

    /// Whether the filter lets a task pass. Call it once per task, in the thread that handles its first
    /// stage; the answer holds for all records of the task. The records of a rejected task count as
    /// filtered.
    pub fn wants_task(&mut self, task: &TaskHead) -> bool {
        let passes = self.rules.passes_task(task.task_id, &task.func_ids) && self.claims_first_task();
        if !passes {
            self.ledger.filtered(task.records.into(), 0);
        }
        passes
    }

    /// Whether the filter may let a task pass, before anything is prepared for it. A rejected task is
    /// counted as in [`LaneRecorder::wants_task`]. For a task that may pass, call that function too.
    pub fn may_want_task(&mut self, task: &TaskHead) -> bool {
        let most = self.rules.filter.first_tasks;
        let is_early = most == u64::MAX || self.live.tasks_captured().get() < most;
        let may_pass = is_early && self.rules.passes_task(task.task_id, &task.func_ids);
        if !may_pass {
            self.ledger.filtered(task.records.into(), 0);
        }
        may_pass
    }

    /// Counts records that a filter removed before they came here.
    pub fn count_filtered(&mut self, records: u64) {
        self.ledger.filtered(records, 0);
    }

    /// Records a task at one of its stages.
    pub fn task(&mut self, task: &TaskRecord) -> Outcome {
        self.timed(|recorder| recorder.record_plain(*task))
    }

    /// Records a tensor argument: its payload, its hash and statistics, or only its metadata, according to
    /// level and filter.
    pub fn tensor(&mut self, capture: &TensorCapture<'_>) -> Outcome {
        self.timed(|recorder| recorder.record_tensor(capture))
    }

    /// Records a scalar argument.
    pub fn scalar(&mut self, scalar: &ScalarCapture) -> Outcome {
        let &ScalarCapture { stage, arg_index, marked, .. } = scalar;
        if !self.rules.wants_plain(marked) {
            return Outcome::NotWanted;
        }
        if !self.rules.passes_arg(stage, arg_index) {
            self.ledger.filtered(1, 0);
            return Outcome::Filtered;
        }
        self.timed(|recorder| recorder.record_plain(scalar_record(scalar)))
    }

    /// Records that an argument cannot be captured, with the reason.
    pub fn uncaptured(&mut self, arg: &UncapturedArg) -> Outcome {
        let &UncapturedArg { stage, arg_index, marked, .. } = arg;
        if !self.rules.wants_plain(marked) {
            return Outcome::NotWanted;
        }
        if !self.rules.passes_arg(stage, arg_index) {
            self.ledger.filtered(1, 0);
            return Outcome::Filtered;
        }
        self.timed(|recorder| recorder.record_plain(uncaptured_record(arg)))
    }

    /// Records a dependency.
    pub fn edge(&mut self, edge: &EdgeCapture) -> Outcome {
        let &EdgeCapture { consumer, producer, cause, arg_index } = edge;
        let record = EdgeRecord::new(producer, consumer, cause, arg_index);
        self.timed(|recorder| recorder.record_plain(record))
    }

    /// Records values of an attribute of a task, at any level.
    pub fn attribute(&mut self, attribute: &AttributeRecord) -> Outcome {
        self.timed(|recorder| recorder.record_plain(*attribute))
    }

    /// Records that a task is a part of a collective operation, at any level.
    pub fn collective(&mut self, collective: &CollectiveRecord) -> Outcome {
        self.timed(|recorder| recorder.record_plain(*collective))
    }

    /// Records a dispatch with the final `args[]` of its kernel, whatever the level.
    ///
    /// The payload is `words`, 8 bytes little endian each, built by
    /// [`DispatchWords`](tensortap_abi::DispatchWords).
    pub fn dispatch(&mut self, dispatch: &DispatchCapture, words: &[u64]) -> Outcome {
        self.timed(|recorder| recorder.record_dispatch(dispatch, words))
    }

    /// Records when a dispatch ran, at any level.
    pub fn finished(&mut self, finished: &FinishedRecord) -> Outcome {
        self.timed(|recorder| recorder.record_plain(*finished))
    }

    /// Records one of the orchestration's own arguments, at any level and with any filter.
    pub fn orchestration_arg(&mut self, arg: &OrchestrationArgCapture<'_>) -> Outcome {
        self.timed(|recorder| recorder.record_plain(orchestration_arg_record(arg)))
    }

    /// Ends recording in this thread: publishes all records, returns the lane and wakes the host.
    pub fn flush(&mut self) {
        self.lane.give_back();
        self.link.wake_host();
    }

    /// Waits until the host has acknowledged everything recorded so far, under any loss policy. Returns
    /// whether it has. It returns false if the host accepts no more data: everything recorded since then
    /// was dropped.
    pub fn settle(&mut self) -> bool {
        self.timed(|recorder| {
            recorder.link.wake_host();
            let safe = |recorder: &mut Self| recorder.lane.is_acknowledged();
            if !safe(recorder) && !recorder.watch.is_gone() {
                recorder.wait_until(safe);
            }
            safe(recorder) && !recorder.discards() && !recorder.watch.is_gone()
        })
    }

    /// Limits how long a call may wait for the host. Data that has no room by then is dropped and counted.
    /// `None`, the default, waits as long as the host is alive. Calls never wait for a host that is gone.
    pub fn set_max_wait(&mut self, most: Option<core::time::Duration>) {
        self.watch.set_most(most);
    }

    /// The number of its lane.
    pub fn lane(&self) -> u32 {
        self.lane.number()
    }

    /// Runs several calls with one reading of the clock: `held_up_ns` grows by the time that `body` takes.
    pub fn timed<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> R {
        self.begin();
        let result = body(self);
        self.end();
        result
    }

    /// Starts the timing of [`LaneRecorder::timed`] for a caller that cannot use one closure. Returns the
    /// time. Every call needs a matching [`LaneRecorder::end`].
    pub fn begin(&mut self) -> u64 {
        if self.depth == 0 {
            self.began_ns = self.link.now_ns();
        }
        self.depth += 1;
        self.began_ns
    }

    /// Ends the timing that [`LaneRecorder::begin`] started. Returns its duration, or 0 if it is nested in
    /// another timing.
    pub fn end(&mut self) -> u64 {
        self.depth = self.depth.saturating_sub(1);
        if self.depth != 0 {
            return 0;
        }
        let took_ns = self.link.now_ns().saturating_sub(self.began_ns);
        self.ledger.held_up(took_ns);
        took_ns
    }

    /// How much is captured.
    pub fn level(&self) -> DumpLevel {
        self.rules.level
    }

    /// Counts of recorded and lost data so far.
    pub fn counters(&self) -> Counters {
        self.ledger.counters()
    }

    /// Counts the task in `first_tasks`, unless that many tasks have passed already.
    fn claims_first_task(&self) -> bool {
        let most = self.rules.filter.first_tasks;
        most == u64::MAX || self.live.tasks_captured().add_up_to(1, most)
    }

    /// Counts a payload in `max_bytes`. Returns false if it exceeds the cap; then all later payloads do
    /// too.
    fn claims_bytes(&self, bytes: u64) -> bool {
        let most = self.rules.filter.max_bytes;
        most == u64::MAX || self.live.bytes_captured().add_saturating(bytes) <= most
    }

    fn record_tensor(&mut self, capture: &TensorCapture<'_>) -> Outcome {
        let Some(depth) = self.rules.tensor_depth(capture.marked) else { return Outcome::NotWanted };
        if depth == Depth::Payload
            && self.rules.filter.max_bytes == u64::MAX
            && self.rules.passes_arg(capture.stage, capture.arg_index)
            && let Some(content) = self.small_content(capture.desc)
            && let Some(outcome) = self.record_small(capture, content)
        {
            return outcome;
        }
        let content = self.content(capture.desc);
        if !self.rules.passes_arg(capture.stage, capture.arg_index) {
            let bytes = content.as_ref().map_or(0, Gather::left_bytes);
            self.ledger.filtered(1, if depth == Depth::Payload { bytes } else { 0 });
            return Outcome::Filtered;
        }
        let Some(content) = content else { return self.record_uncaptured(capture) };
        let (record, bytes) = (tensor_record(capture), content.left_bytes());
        match depth {
            Depth::Metadata => self.record_plain(record),
            Depth::Statistics => self.record_statistics(record, content),
            Depth::Payload if self.claims_bytes(bytes) => self.record_payload(record, content),
            Depth::Payload => self.record_capped(record, bytes),
        }
    }

    /// The content of a good descriptor, if it is contiguous and at most one leaf.
    #[inline]
    fn small_content(&self, desc: &TensorDesc) -> Option<DenseContent<'m>> {
        let ndims = usize::from(desc.ndims);
        let (shape, strides) = (desc.shape.get(..ndims)?, desc.strides.get(..ndims)?);
        let part = dense_bytes(shape, strides, desc.start_offset, desc.dtype()?.bits())?;
        if part.end - part.start > LEAF_BYTES as u64 {
            return None;
        }
        self.memory.dense(desc.buffer_addr, desc.buffer_bytes, &part)
    }

    /// The content of a descriptor; `None` if the descriptor is damaged.
    fn content(&self, desc: &TensorDesc) -> Option<Gather<'m>> {
        let dtype = desc.dtype()?;
        if usize::from(desc.ndims) > desc.shape.len() {
            return None;
        }
        let layout = Layout::new(desc.dims(), desc.dim_strides(), desc.start_offset, dtype.bits()).ok()?;
        self.memory.gather(desc.buffer_addr, desc.buffer_bytes, &layout)?.ok()
    }

    fn record_capped(&mut self, mut record: TensorRecord, bytes: u64) -> Outcome {
        record.flags |= RECORD_PAYLOAD_FILTERED;
        let outcome = self.record_plain(record);
        if outcome == Outcome::Recorded {
            self.ledger.filtered(0, bytes);
        }
        outcome
    }

    fn record_dispatch(&mut self, dispatch: &DispatchCapture, words: &[u64]) -> Outcome {
        let bytes = words.as_bytes();
        let words_bytes = u32::try_from(bytes.len()).expect("a task has at most 65,535 arguments");
        let mut record = dispatch_record(dispatch, words_bytes);
        let need = SpaceRequest::whole(bytes.len() as u64, tensortap_abi::SMALL_PAYLOAD_ALIGN);
        match self.reserve(Some(need)) {
            Ok(reservation) => {
                record.hash = content_hash(bytes).to_le_bytes();
                record.flags |= RECORD_HAS_PAYLOAD | RECORD_HAS_HASH;
                record.words_pos = reservation.position();
                self.lane.payload(&reservation).write_copy_of_slice(bytes);
                self.ledger.captured(need.bytes);
                self.commit(reservation, record);
                Outcome::Recorded
            }
            Err(reason) => self.drop_payload(record, reason, need.bytes),
        }
    }

    /// Records something without payload.
    fn record_plain(&mut self, record: impl Into<DumpRecord>) -> Outcome {
        match self.reserve(None) {
            Ok(reservation) => {
                self.commit(reservation, record);
                Outcome::Recorded
            }
            Err(reason) => {
                self.ledger.dropped(reason, 0);
                Outcome::Dropped(reason)
            }
        }
    }

    /// Records that a descriptor is damaged.
    fn record_uncaptured(&mut self, capture: &TensorCapture<'_>) -> Outcome {
        match self.record_plain(bad_descriptor(capture)) {
            Outcome::Recorded => Outcome::Uncaptured,
            lost => lost,
        }
    }

    /// Counts a payload as dropped. Records the metadata if a record slot is free.
    fn drop_payload(&mut self, record: impl Into<DumpRecord>, reason: DropReason, bytes: u64) -> Outcome {
        self.ledger.dropped(reason, bytes);
        if !self.discards()
            && let Ok(reservation) = self.lane.reserve(None)
        {
            let mut record = record.into();
            record.flags |= RECORD_PAYLOAD_DROPPED;
            self.commit(reservation, record);
        }
        Outcome::Dropped(reason)
    }

    /// Reserves a record slot and arena space. Waits for the host if the policy requires it.
    fn reserve(&mut self, need: Option<SpaceRequest>) -> Result<Reservation, DropReason> {
        self.reserve_waiting(need, self.rules.waits)
    }

    /// Reserves a record slot and arena space. With `waits`, it waits until both are free or the host
    /// counts as gone.
    fn reserve_waiting(
        &mut self,
        need: Option<SpaceRequest>,
        waits: bool,
    ) -> Result<Reservation, DropReason> {
        loop {
            if self.discards() {
                return Err(DropReason::NoHost);
            }
            match self.lane.reserve(need) {
                Ok(reservation) => return Ok(reservation),
                Err(_) if waits && !self.watch.is_gone() && self.wait_for(need) => {}
                Err(refused) => return Err(self.reason(refused)),
            }
        }
    }

    fn commit(&mut self, reservation: Reservation, record: impl Into<DumpRecord>) {
        let crowded = self.lane.commit(reservation, &record.into());
        self.ledger.committed();
        if let Some(range) = self.lane.soon() {
            self.link.soon(range);
        }
        if crowded && !self.rules.batch {
            self.link.wake_host();
        }
    }

    /// Returns false if the wait has reached its limit. Returns true, so that the caller tries again, if
    /// the request may now succeed, the host discards or counts as gone, or only this lane's own commits
    /// can make room.
    fn wait_for(&mut self, need: Option<SpaceRequest>) -> bool {
        self.wait_until(|recorder| match recorder.lane.check(need) {
            Ok(()) => true,
            Err(refused) => recorder.lane.is_blocked_by_own_reservations(refused),
        })
    }

    /// Waits until `there` is true, or the host discards or counts as gone. Returns false if the wait
    /// reached its limit first.
    fn wait_until(&mut self, there: impl Fn(&mut Self) -> bool) -> bool {
        self.link.waiting(true);
        self.watch.begin(self.link.now_ns());
        let mut in_time = true;
        while in_time && !there(self) && !self.discards() {
            let heartbeat = signs::pulse(self.live.heartbeat());
            if !self.watch.look(heartbeat, self.link.now_ns()) {
                break;
            }
            // Everything that this thread has committed is visible, so the host can release what this
            // thread waits for.
            self.lane.wait();
            self.link.wake_host();
            in_time = !self.watch.is_over();
            if in_time {
                self.link.pause(self.watch.next_pause());
            }
        }
        self.link.waiting(false);
        in_time
    }

    /// Whether a full arena or queue stops this thread.
    fn waits(&self) -> bool {
        self.rules.waits && !self.watch.is_gone()
    }

    /// Whether the host accepts no more data.
    fn discards(&self) -> bool {
        signs::discards(self.live.discard())
    }

    fn reason(&self, refused: ReserveRefusal) -> DropReason {
        match refused {
            _ if self.watch.is_gone() => DropReason::NoHost,
            ReserveRefusal::NoSpace => DropReason::NoSpace,
            ReserveRefusal::NoPlace | ReserveRefusal::CommitFirst => DropReason::NoBuffer,
        }
    }
}

fn bad_descriptor(capture: &TensorCapture<'_>) -> UncapturedRecord {
    let &TensorCapture {
        task_id, stage, role, arg_index, marked, details: TensorDetails { name, .. }, ..
    } = capture;
    let reason = UncapturedReason::of_view(capture.desc.ndims);
    uncaptured_record(&UncapturedArg { task_id, stage, role, arg_index, reason, marked, name })
}

impl<H> fmt::Debug for LaneRecorder<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneRecorder")
            .field("lane", &self.lane)
            .field("counters", &self.ledger.counters())
            .finish_non_exhaustive()
    }
}
