//! The state machine that empties the region into the files.

use std::{sync::Arc, time::Duration};

use tensortap_abi::{
    DeviceRange, DumpCollect, DumpGeometry, LARGE_PAYLOAD_ALIGN, RECORD_HAS_HASH, TaskRecord, TensorRecord,
    UncapturedRecord,
};
use tensortap_format::{IndexRecord, Status};
use tensortap_sync::signs;
use tensortap_values::content_hash;

use crate::{
    CollectError, CollectEvent, LaneSummary, Listener, PayloadPath, RegionMemory, RunEnd, Sink, StreamError,
    Summary, WriteError,
    dedup::ContentKey,
    drain::{DrainError, LaneDrain},
    lane_offsets::DISCARD,
    memory::{RegionWord, SharedRegion},
    payload::WriterPlan,
    stall_timer::StallTimer,
    store::{Store, StoreError, payload_of},
    stream::{RecordBatch, Stream},
    summary::{Account, ArenaUse},
};

/// Default number of payloads that are remembered to find equal ones. Needs about 20 MiB when full.
pub const DEFAULT_DEDUP_ENTRIES: usize = 1 << 18;

/// Maximum number of threads that write a dump, and of its payload files.
pub const MAX_WRITERS: usize = tensortap_format::MAX_PAYLOAD_FILES;

/// Default time that host and device may wait for each other.
const DEFAULT_LIVENESS: Duration = Duration::from_secs(30);

/// If a lane has ended and its thread still waits after this time, the host has nothing left to release for
/// it.
const LET_GO_AFTER: Duration = Duration::from_secs(1);

/// How much of the arenas a device may use. An arena may be much longer than needed: only bytes that were used take
/// memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaGrowth {
    /// Bytes of each arena that may be used from the start, a multiple of [`LARGE_PAYLOAD_ALIGN`]; 0 means all.
    pub start: u64,
    /// Bytes by which all arenas together may grow. An arena whose thread finds no space doubles.
    pub budget: u64,
}

/// Everything that the collector needs to know of a region. All values are the host's own.
#[derive(Clone, Debug)]
pub struct CollectorOptions {
    /// Sizes of the region.
    pub geometry: DumpGeometry,
    /// The run id of the region's header.
    pub run_id: u64,
    /// Device memory, which captured buffers are in.
    pub device_memory: DeviceRange,
    /// Whether to collect while the device runs, or once afterwards.
    pub collect: DumpCollect,
    /// Number of payloads remembered to find equal ones; 0 stores every payload (`--no-dedup`).
    pub dedup_entries: usize,
    /// How payloads are written.
    pub payload_path: PayloadPath,
    /// Number of threads that write large payloads, including the collector's own (`--dump-writers`). 0 means
    /// one, and more for a large dump that arrives fast.
    pub writers: usize,
    /// Number of payload files for large payloads (`--dump-files`). 0 means one, and one for each writer of a large
    /// dump that arrives fast.
    pub files: usize,
    /// How much of the arenas the device may use.
    pub arena: ArenaGrowth,
    /// Sync data, then index, before records are acknowledged (`--dump-sync`).
    pub sync: bool,
    /// How long a device thread may wait for the host although the host finds nothing to do for it
    /// (`--dump-liveness`).
    pub liveness: Duration,
}

impl CollectorOptions {
    /// Options for live collection with deduplication, without direct I/O and without syncing.
    pub fn new(geometry: DumpGeometry, run_id: u64, device_memory: DeviceRange) -> CollectorOptions {
        CollectorOptions {
            geometry,
            run_id,
            device_memory,
            collect: DumpCollect::Live,
            dedup_entries: DEFAULT_DEDUP_ENTRIES,
            payload_path: PayloadPath::default(),
            writers: 0,
            files: 0,
            arena: ArenaGrowth::default(),
            sync: false,
            liveness: DEFAULT_LIVENESS,
        }
    }

    fn check(&self) -> Result<(), CollectError> {
        let DumpGeometry { lanes: _, buffers, records, arena_bytes } = self.geometry;
        let what = match () {
            () if buffers == 0 => "no buffers",
            () if records == 0 => "no records per buffer",
            () if arena_bytes == 0 || !arena_bytes.is_multiple_of(LARGE_PAYLOAD_ALIGN) => {
                "an arena that is not a multiple of 4096 bytes"
            }
            () if !self.arena.start.is_multiple_of(LARGE_PAYLOAD_ALIGN) || self.arena.start > arena_bytes => {
                "a start of the arena that is not a multiple of 4096 bytes of it"
            }
            () => return Ok(()),
        };
        Err(CollectError::Geometry { what })
    }
}

/// What one step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records taken from the region.
    pub records: u64,
}

/// Empties a dump region into the files of a dump.
///
/// [`Collector::step`] takes everything that is visible and never sleeps; its caller decides when to call
/// it. A [`Collection`](crate::Collection) drives a collector in threads of its own.
pub struct Collector<M, S> {
    memory: Arc<M>,
    store: Store<S>,
    batch: bool,
    liveness: Duration,
    /// Bytes of each arena, and by how many all of them may still grow.
    arena_bytes: u64,
    arena_budget: u64,
    arena_use: ArenaUse,
    lanes: Vec<Lane>,
    /// Number of records that the region can hold, over all lanes.
    capacity: u64,
    /// Number of the lane for records that the host makes itself, and how many it made.
    host_lane: u32,
    host_records: u64,
    taken: RecordBatch,
    failure: Option<WriteError>,
    listener: Listener,
}

/// A lane, and why it has ended, if it has.
struct Lane {
    drain: LaneDrain,
    ended: Option<StreamError>,
    standstill: StallTimer,
}

impl<M: RegionMemory + Send + Sync + 'static, S: Sink> Collector<M, S> {
    /// A collector for a new run. The region must be set up; the device may already run.
    pub fn new(
        memory: M,
        sink: S,
        options: &CollectorOptions,
        listener: Listener,
    ) -> Result<Collector<M, S>, CollectError> {
        options.check()?;
        let &CollectorOptions {
            geometry,
            run_id,
            device_memory,
            collect,
            dedup_entries,
            payload_path,
            writers,
            files,
            arena,
            sync,
            liveness,
        } = options;
        let batch = collect == DumpCollect::Batch;
        let memory = Arc::new(memory);
        let shared: SharedRegion = memory.clone();
        let not_started = |error| CollectError::Thread(format!("could not be started: {error}"));
        let plan = WriterPlan::new(payload_path, shared.clone(), writers, files);
        let store = Store::new(sink, plan, dedup_entries, sync).map_err(not_started)?;
        let lanes = (0..geometry.lanes).map(|lane| {
            let stream = Stream::new(shared.clone(), geometry, lane, run_id, batch, arena.start);
            let drain = LaneDrain::new(geometry, device_memory, stream, batch);
            Lane { drain, ended: None, standstill: StallTimer::default() }
        });
        Ok(Collector {
            memory,
            store,
            batch,
            liveness,
            arena_bytes: geometry.arena_bytes,
            arena_budget: arena.budget,
            arena_use: ArenaUse { largest_bytes: arena.start, ..ArenaUse::default() },
            lanes: lanes.collect(),
            capacity: u64::from(geometry.lanes) * u64::from(geometry.buffers) * u64::from(geometry.records),
            host_lane: geometry.lanes,
            host_records: 0,
            taken: RecordBatch::default(),
            failure: None,
            listener,
        })
    }

    /// The region.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Takes everything visible once, from every lane. In batch mode nothing is taken before the end.
    ///
    /// # Errors
    /// If the region cannot be reached. Damage and write errors go to the listener and are counted instead.
    pub fn step(&mut self) -> Result<Progress, CollectError> {
        if self.batch { Ok(Progress::default()) } else { self.drain_all() }
    }

    /// Checks for lanes whose threads wait for the host although nothing can be taken from them. A stray
    /// write has then changed a word of the lane, and host and device would wait for each other forever.
    /// Call it after a step that took nothing, `interval` after the last step. Such a lane ends like a
    /// damaged one, and the event names the impossible word. If that does not release its thread, producers
    /// discard data from then on.
    ///
    /// # Errors
    /// If the region cannot be reached.
    pub fn idle(&mut self, interval: Duration) -> Result<(), CollectError> {
        for index in 0..self.lanes.len() {
            let Lane { drain, ended, standstill } = &mut self.lanes[index];
            let still = standstill.look(drain.stream.read_waits()?, interval);
            if ended.is_some() && still >= LET_GO_AFTER {
                signs::order_discard(self.word(DISCARD))?;
                self.memory.wake();
            } else if ended.is_none() && still >= self.liveness && !self.liveness.is_zero() {
                let error = drain.stream.standstill()?;
                self.stop_following(index, error)?;
                self.pass_over(index)?;
            }
        }
        Ok(())
    }

    /// Orders producers to discard everything they record from now on, without waiting. For a device that
    /// continues when its dump must be closed.
    ///
    /// # Errors
    /// If the region cannot be reached.
    pub fn dismiss(&self) -> Result<(), CollectError> {
        signs::order_discard(self.word(DISCARD))?;
        self.memory.wake();
        Ok(())
    }

    /// Takes the remaining records (after a device's death: everything that it had committed), closes the
    /// files and returns a summary. Call it when the device has finished or died.
    ///
    /// # Errors
    /// If the region cannot be reached.
    pub fn finish(mut self, end: &RunEnd) -> Result<Summary, CollectError> {
        // A device that continues to record cannot delay this: at most one region full of records existed
        // when this call began.
        let mut left = self.capacity;
        while left > 0 {
            match self.drain_all()?.records {
                0 => break,
                taken => left = left.saturating_sub(taken),
            }
        }
        for index in 0..self.lanes.len() {
            self.end_lane(index)?;
        }
        let mut summary = self.summary(end.status)?;
        let Collector { store, mut listener, .. } = self;
        for lane in summary.lanes.iter().filter(|lane| !lane.damaged_counters.is_empty()) {
            listener(CollectEvent::DamagedCounters(lane));
        }
        let footer = summary.footer(end);
        let mut sink = store.into_sink();
        summary.set_arguments(&sink.settle());
        match sink.finish(&footer) {
            Ok(footer) => summary.set_kept(&footer),
            Err(error) => {
                let error = WriteError::from(error);
                listener(CollectEvent::WriteFailed(&error));
                summary.fail(&error);
            }
        }
        Ok(summary)
    }

    /// Stores a task that the host found in the memory of a dead device.
    ///
    /// # Errors
    /// If the region cannot be reached.
    pub fn record_task(&mut self, task: &TaskRecord) -> Result<(), CollectError> {
        self.record(IndexRecord::plain(task))
    }

    /// Stores the fact that the host could not read an argument from the memory of a dead device.
    ///
    /// # Errors
    /// If the region cannot be reached.
    pub fn record_uncaptured(&mut self, record: &UncapturedRecord) -> Result<(), CollectError> {
        self.record(IndexRecord::plain(record))
    }

    /// Stores a tensor whose content the host read from the memory of a dead device. `record` has the
    /// fields that a device would have written; the hash is computed from `content`.
    ///
    /// # Errors
    /// If the region cannot be reached.
    pub fn record_tensor(&mut self, record: &TensorRecord, content: &[u8]) -> Result<(), CollectError> {
        if self.failure.is_some() {
            return Ok(());
        }
        let (hash, bytes) = (content_hash(content).to_le_bytes(), content.len() as u64);
        let record = TensorRecord { hash, flags: record.flags | RECORD_HAS_HASH, ..*record };
        let key = ContentKey::of(&record, bytes);
        let payload = match self.store.content(key, content) {
            Ok(stored) => payload_of(key, bytes, stored),
            Err(error) => return self.handle_store_error(error),
        };
        self.record(IndexRecord::tensor(&record, payload))
    }

    fn record(&mut self, record: IndexRecord) -> Result<(), CollectError> {
        if self.failure.is_some() {
            return Ok(());
        }
        let seqs = self.host_records..self.host_records + 1;
        self.host_records += 1;
        match self.store.append(self.host_lane, seqs, &[record]) {
            Ok(()) => Ok(()),
            Err(error) => self.handle_store_error(error),
        }
    }

    fn drain_all(&mut self) -> Result<Progress, CollectError> {
        let mut progress = Progress::default();
        for index in 0..self.lanes.len() {
            progress.records += self.drain_lane(index)?;
        }
        Ok(progress)
    }

    fn drain_lane(&mut self, index: usize) -> Result<u64, CollectError> {
        let Lane { drain, ended, standstill } = &mut self.lanes[index];
        if ended.is_some() || self.failure.is_some() {
            return self.pass_over(index);
        }
        let drained = drain.drain(&*self.memory, &mut self.store, &mut self.taken);
        if let Some((seq, fault)) = drain.first_fault.take() {
            let lane = drain.stream.lane();
            (self.listener)(CollectEvent::CorruptRecord { lane, seq, fault });
        }
        match drained {
            Ok(records) => {
                if records > 0 {
                    standstill.moved();
                }
                self.grow_arena(index)?;
                return Ok(records);
            }
            Err(DrainError::Memory(error)) => return Err(error.into()),
            Err(DrainError::Write(error)) => self.fail(error)?,
            Err(DrainError::Damaged(error)) => self.stop_following(index, error)?,
        }
        self.pass_over(index)
    }

    /// Doubles the arena of a lane whose thread found no space in it, as far as the budget allows.
    fn grow_arena(&mut self, index: usize) -> Result<(), CollectError> {
        let stream = &mut self.lanes[index].drain.stream;
        let Some(limit) = stream.arena_limit().filter(|limit| *limit < self.arena_bytes) else {
            return Ok(());
        };
        if !stream.wants_more_arena()? {
            return Ok(());
        }
        let more = limit.min(self.arena_bytes - limit).min(self.arena_budget);
        let more = more - more % LARGE_PAYLOAD_ALIGN;
        if more == 0 {
            self.arena_use.wanted_more = true;
            return Ok(());
        }
        stream.raise_arena_limit(more)?;
        self.arena_budget -= more;
        let ArenaUse { largest_bytes, grown_bytes, .. } = &mut self.arena_use;
        (*largest_bytes, *grown_bytes) = ((*largest_bytes).max(limit + more), *grown_bytes + more);
        self.memory.wake();
        Ok(())
    }

    /// Ends a lane: no more of it is read.
    fn stop_following(&mut self, index: usize, error: StreamError) -> Result<(), CollectError> {
        (self.listener)(CollectEvent::LaneEnded(&error));
        let Lane { ended, standstill, .. } = &mut self.lanes[index];
        *ended = Some(error);
        standstill.moved();
        self.end_lane(index)
    }

    /// Stores the records of a lane whose payloads will never arrive.
    fn end_lane(&mut self, index: usize) -> Result<(), CollectError> {
        if self.failure.is_some() {
            return Ok(());
        }
        match self.lanes[index].drain.end(&mut self.store) {
            Ok(()) => Ok(()),
            Err(error) => self.handle_store_error(error),
        }
    }

    /// Releases the space of a lane that has ended, so that its thread does not wait for it.
    fn pass_over(&mut self, index: usize) -> Result<u64, CollectError> {
        let stream = &mut self.lanes[index].drain.stream;
        let sane = stream.release_unread()?;
        stream.restate()?;
        // A lane whose cursors are impossible too could wait forever.
        if self.failure.is_some() || !sane && !self.batch {
            signs::order_discard(self.word(DISCARD))?;
        }
        self.memory.wake();
        Ok(0)
    }

    fn word(&self, offset: u64) -> RegionWord<&M> {
        RegionWord { memory: &self.memory, offset }
    }

    fn handle_store_error(&mut self, error: StoreError) -> Result<(), CollectError> {
        match error {
            StoreError::Memory(error) => Err(error.into()),
            StoreError::Write(error) => self.fail(error),
        }
    }

    /// The files accept no more data: producers discard from now on and do not wait.
    fn fail(&mut self, error: WriteError) -> Result<(), CollectError> {
        self.store.abandon();
        (self.listener)(CollectEvent::WriteFailed(&error));
        self.failure.get_or_insert(error);
        signs::order_discard(self.word(DISCARD))?;
        self.memory.wake();
        Ok(())
    }

    fn summary(&mut self, status: Status) -> Result<Summary, CollectError> {
        let mut summary = Summary::new(status, self.store.indexed_records(), self.store.missed_duplicates());
        if let Some(error) = &self.failure {
            summary.fail(error);
        }
        for Lane { drain, ended, standstill: _ } in &mut self.lanes {
            let (state, tenancy) = (drain.stream.read_state()?, drain.stream.tenancy()?);
            let account = account(drain, self.failure.is_some());
            summary.counters.corrupt_records += drain.corrupt_records();
            let lane = LaneSummary::new(drain.stream.lane(), &state, &account, ended.clone(), tenancy);
            summary.add_lane(lane, &state);
        }
        summary.set_entered(self.store.totals());
        summary.arena = self.arena_use;
        Ok(summary)
    }
}

fn account(drain: &LaneDrain, failed: bool) -> Account {
    let (missing, acknowledged) = (drain.stream.missing_records(), drain.stream.acknowledged());
    // Payloads that were still arriving when the files were full are lost, with everything that came later.
    let (collected, unfinished) =
        if failed { (acknowledged, 0) } else { (drain.seen(), drain.unfinished_payloads()) };
    Account { missing, collected, unfinished, acknowledged }
}
