//! The recorder of one lane.

mod define;
mod found;
mod later;
mod payload;

pub use found::{Found, Pieces};
pub use later::{NotReserved, Reserved};

use core::fmt;

use tensortap_abi::{
    DumpLevel, DumpRecord, EdgeRecord, FinishedRecord, RECORD_HAS_HASH, RECORD_HAS_PAYLOAD,
    RECORD_PAYLOAD_DROPPED, RECORD_PAYLOAD_FILTERED, TaskRecord, TensorDesc, TensorRecord, UncapturedReason,
    UncapturedRecord,
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
use crate::gather::Dense;
use crate::host::Patience;
use crate::lane::{Lane, Need, Refused, Reservation};
use crate::region::{LiveWords, Memory, Parts};
use crate::{
    Counters, DispatchCapture, DropReason, EdgeCapture, Gather, HostLink, Known, OrchestrationArgCapture,
    ScalarCapture, TaskHead, TensorCapture, UncapturedArg,
};

/// What became of a record that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It is committed, with everything that level and filter leave of it.
    Recorded,
    /// It cannot be captured, for its descriptor is damaged; that is recorded.
    Uncaptured,
    /// The level does not want it, so it was not asked for and counts nowhere.
    NotWanted,
    /// A filter kept it out.
    Filtered,
    /// It was dropped, or its payload was and the metadata stays.
    Dropped(DropReason),
}

/// Records what one device thread is told, in the lane it has leased. Made by [`Region::recorder`](crate::Region::recorder).
///
/// Per task and stage, the thread that handles that stage calls [`task`](Self::task) first and then the arguments in
/// order. Each call may wait for the host, as the loss policy says, and returns when the record is committed or lost.
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
/// // SAFETY: the lines outlive the region, and nobody else uses them.
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
    patience: Patience,
    link: H,
    /// Calls under way: the clock is read by the outermost.
    depth: u32,
    /// When the outermost began.
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
            patience: Patience::new(rules.liveness_ms, signs::pulse(live.heartbeat())),
            link,
            depth: 0,
            began_ns: 0,
        };
        while let Some(range) = recorder.lane.soon() {
            recorder.link.soon(range);
        }
        recorder
    }

    /// Whether the filter lets a task pass. To be asked once per task, by whoever handles its first stage; the answer
    /// holds for all of its records. A refused task's records are counted as filtered.
    pub fn wants_task(&mut self, task: &TaskHead) -> bool {
        let passes = self.rules.passes_task(task.task_id, &task.func_ids) && self.claims_first_task();
        if !passes {
            self.ledger.filtered(task.records.into(), 0);
        }
        passes
    }

    /// Whether the filter may let a task pass, before anything is made for it. A refused one is counted as [`LaneRecorder::wants_task`] does; one that may
    /// pass is still to be asked for there.
    pub fn may_want_task(&mut self, task: &TaskHead) -> bool {
        let most = self.rules.filter.first_tasks;
        let is_early = most == u64::MAX || self.live.tasks_captured().get() < most;
        let may_pass = is_early && self.rules.passes_task(task.task_id, &task.func_ids);
        if !may_pass {
            self.ledger.filtered(task.records.into(), 0);
        }
        may_pass
    }

    /// Records a task at one of its stages.
    pub fn task(&mut self, task: &TaskRecord) -> Outcome {
        self.timed(|recorder| recorder.record_plain(*task))
    }

    /// Records a tensor argument: its payload, its hash and statistics, or its metadata, as level and filter say.
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

    /// Records that an argument cannot be captured, and why.
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

    /// Records a dispatch with the final `args[]` of its kernel, whatever the level.
    ///
    /// The payload is `words`, 8 bytes little endian each, made by [`DispatchWords`](tensortap_abi::DispatchWords).
    pub fn dispatch(&mut self, dispatch: &DispatchCapture, words: &[u64]) -> Outcome {
        self.timed(|recorder| recorder.record_dispatch(dispatch, words))
    }

    /// Records when a dispatch ran, whatever the level.
    pub fn finished(&mut self, finished: &FinishedRecord) -> Outcome {
        self.timed(|recorder| recorder.record_plain(*finished))
    }

    /// Records one of the orchestration's own arguments, whatever level and filter.
    pub fn orchestration_arg(&mut self, arg: &OrchestrationArgCapture<'_>) -> Outcome {
        self.timed(|recorder| recorder.record_plain(orchestration_arg_record(arg)))
    }

    /// Says that this thread has recorded all it will, and wakes the host to take it.
    pub fn flush(&mut self) {
        self.lane.give_back();
        self.link.wake_host();
    }

    /// Waits until everything recorded so far is safe on the host's side, whatever the loss policy; whether it is. With a host that
    /// takes no more it is not: what was asked for since then was dropped.
    pub fn settle(&mut self) -> bool {
        self.timed(|recorder| {
            recorder.link.wake_host();
            let safe = |recorder: &mut Self| recorder.lane.is_acknowledged();
            if !safe(recorder) && !recorder.patience.is_gone() {
                recorder.wait_until(safe);
            }
            safe(recorder) && !recorder.discards() && !recorder.patience.is_gone()
        })
    }

    /// Lets no call wait longer than this for the host: what has no room by then is dropped, and counted. None, as at first:
    /// calls wait as long as the host lives. Without a host that lives nobody waits.
    pub fn set_max_wait(&mut self, most: Option<core::time::Duration>) {
        self.patience.set_most(most);
    }

    /// The number of its lane.
    pub fn lane(&self) -> u32 {
        self.lane.number()
    }

    /// Runs several calls under one reading of the clock: `held_up_ns` grows by the time `body` takes.
    pub fn timed<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> R {
        self.begin();
        let result = body(self);
        self.end();
        result
    }

    /// Begins what [`LaneRecorder::timed`] does for a caller that cannot put it into one closure, and tells the time.
    /// Every call wants its [`LaneRecorder::end`].
    pub fn begin(&mut self) -> u64 {
        if self.depth == 0 {
            self.began_ns = self.link.now_ns();
        }
        self.depth += 1;
        self.began_ns
    }

    /// Ends what [`LaneRecorder::begin`] began, and tells how long that took; 0 inside of another.
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

    /// What was recorded and lost so far.
    pub fn counters(&self) -> Counters {
        self.ledger.counters()
    }

    /// Counts the task against `first_tasks`, unless that many have passed.
    fn claims_first_task(&self) -> bool {
        let most = self.rules.filter.first_tasks;
        most == u64::MAX || self.live.tasks_captured().add_up_to(1, most)
    }

    /// Counts a payload against `max_bytes`; false when it exceeds the cap. What follows then does so too.
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

    /// The content that a good descriptor names, where it is at most one leaf without gaps.
    #[inline]
    fn small_content(&self, desc: &TensorDesc) -> Option<Dense<'m>> {
        let ndims = usize::from(desc.ndims);
        let (shape, strides) = (desc.shape.get(..ndims)?, desc.strides.get(..ndims)?);
        let part = dense_bytes(shape, strides, desc.start_offset, desc.dtype()?.bits())?;
        if part.end - part.start > LEAF_BYTES as u64 {
            return None;
        }
        self.memory.dense(desc.buffer_addr, desc.buffer_bytes, &part)
    }

    /// The content that a descriptor names; none when it is damaged.
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
        let need = Need::whole(bytes.len() as u64, tensortap_abi::SMALL_PAYLOAD_ALIGN);
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

    /// Records what has no payload.
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

    /// Counts a payload as dropped, and keeps the metadata if there is a place for it.
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

    /// Reserves a place and space, waiting for the host if the policy says so.
    fn reserve(&mut self, need: Option<Need>) -> Result<Reservation, DropReason> {
        self.reserve_waiting(need, self.rules.waits)
    }

    /// Reserves a place and space; `waits`: when there is none, until there is or the host counts as gone.
    fn reserve_waiting(&mut self, need: Option<Need>, waits: bool) -> Result<Reservation, DropReason> {
        loop {
            if self.discards() {
                return Err(DropReason::NoHost);
            }
            match self.lane.reserve(need) {
                Ok(reservation) => return Ok(reservation),
                Err(_) if waits && !self.patience.is_gone() && self.wait_for(need) => {}
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

    /// Returns when the need may be met, the host discards, it counts as gone, this lane holds up itself, or the wait has taken
    /// as long as one may, which is the only case in which there is no more to be tried.
    fn wait_for(&mut self, need: Option<Need>) -> bool {
        self.wait_until(|recorder| match recorder.lane.check(need) {
            Ok(()) => true,
            Err(refused) => recorder.lane.is_held_up_by_itself(refused),
        })
    }

    /// Whether `there` comes true, the host discards or counts as gone before a wait has taken as long as it may.
    fn wait_until(&mut self, there: impl Fn(&mut Self) -> bool) -> bool {
        self.link.waiting(true);
        self.patience.begin(self.link.now_ns());
        let mut in_time = true;
        while in_time && !there(self) && !self.discards() {
            let heartbeat = signs::pulse(self.live.heartbeat());
            if !self.patience.look(heartbeat, self.link.now_ns()) {
                break;
            }
            // Everything this thread has committed is visible, so the host can free what is waited for.
            self.lane.wait();
            self.link.wake_host();
            in_time = !self.patience.is_over();
            if in_time {
                self.link.pause(self.patience.next_pause());
            }
        }
        self.link.waiting(false);
        in_time
    }

    /// Whether a full arena or queue stops this thread.
    fn waits(&self) -> bool {
        self.rules.waits && !self.patience.is_gone()
    }

    /// Whether the host takes no more.
    fn discards(&self) -> bool {
        signs::discards(self.live.discard())
    }

    fn reason(&self, refused: Refused) -> DropReason {
        match refused {
            _ if self.patience.is_gone() => DropReason::NoHost,
            Refused::NoSpace => DropReason::NoSpace,
            Refused::NoPlace | Refused::CommitFirst => DropReason::NoBuffer,
        }
    }
}

fn bad_descriptor(capture: &TensorCapture<'_>) -> UncapturedRecord {
    let &TensorCapture { task_id, stage, role, arg_index, marked, known: Known { name, .. }, .. } = capture;
    let reason = UncapturedReason::BadDescriptor;
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
