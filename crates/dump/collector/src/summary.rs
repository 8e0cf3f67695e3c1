//! The result of a dump.

use tensortap_abi::DumpBufferState;
use tensortap_format::{DumpCounters, Footer, GoldenVerdict, InFlightTask, Loss, Status, Totals};
use tensortap_sync::lease::Tenancy;

use crate::{StreamError, WriteError};

/// Counters come from the device and go into JSON, whose numbers are exact up to this limit.
const COUNT_LIMIT: u64 = (1 << 53) - 1;

/// How the run ended, as far as the host knows without the dump.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnd {
    /// Status of the run. [`Status::Complete`] becomes [`Status::DumpFailed`] if the files could not store
    /// everything.
    pub status: Status,
    /// Description of the failure.
    pub message: Option<String>,
    /// UTC time in the format's notation.
    pub finished_at: Option<String>,
    /// Tasks in flight; `None` means those that the index shows.
    pub in_flight: Option<Vec<InFlightTask>>,
    /// Verdict of the run's own golden, if the outputs were judged.
    pub golden: Option<GoldenVerdict>,
    /// Further keys for the footer and the manifest.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl RunEnd {
    /// An end with this status and no further details.
    pub fn new(status: Status) -> RunEnd {
        let (message, finished_at, in_flight, golden, extra) = Default::default();
        RunEnd { status, message, finished_at, in_flight, golden, extra }
    }
}

/// One lane's own counters, and what the collector has of it.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneSummary {
    /// Lane.
    pub lane: u32,
    /// Number of durable records, by sequence number.
    pub acknowledged: u64,
    /// Records the device committed.
    pub committed_records: u64,
    /// Time that its threads spent in the dump.
    pub held_up_ns: u64,
    /// Losses by reason.
    pub losses: Vec<Loss>,
    /// Why its records ended early.
    pub ended: Option<StreamError>,
    /// Whether it is leased at the end; `None` if its word was damaged.
    pub tenancy: Option<Tenancy>,
    /// Names of counters with impossible values. The real values are not known.
    pub damaged_counters: Vec<&'static str>,
}

/// How the arenas were used, if they could grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaUse {
    /// Bytes that the thread with the largest arena could use in the end; 0 if arenas could not grow.
    pub largest_bytes: u64,
    /// Bytes by which all arenas together grew.
    pub grown_bytes: u64,
    /// Whether a thread found no space after the budget was used up.
    pub wanted_more: bool,
}

/// Content and losses of a dump.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// How the run ended, for the manifest.
    pub status: Status,
    /// Why the files are incomplete, for users.
    pub failure: Option<String>,
    /// Content and losses, as numbers.
    pub counters: DumpCounters,
    /// Number of payloads stored again because their first copy was forgotten; a lower bound.
    pub missed_duplicates: u64,
    /// Time that device threads spent in the dump, in total.
    pub held_up_ns: u64,
    /// The same time for the lane whose threads spent most.
    pub held_up_max_ns: u64,
    /// How the arenas were used.
    pub arena: ArenaUse,
    /// Each lane.
    pub lanes: Vec<LaneSummary>,
}

impl Summary {
    pub(crate) fn new(status: Status, entries: u64, missed_duplicates: u64) -> Summary {
        Summary {
            status,
            failure: None,
            counters: DumpCounters { entries, ..DumpCounters::default() },
            missed_duplicates,
            held_up_ns: 0,
            held_up_max_ns: 0,
            arena: ArenaUse::default(),
            lanes: Vec::new(),
        }
    }

    /// A run that succeeded gets status `dump_failed`. If the run failed itself, its own failure is more
    /// important.
    pub(crate) fn fail(&mut self, error: &WriteError) {
        if self.status == Status::Complete {
            self.status = Status::DumpFailed;
        }
        self.failure.get_or_insert_with(|| error.to_string());
    }

    /// Counts everything that was stored, including tasks that have left the window since.
    pub(crate) fn set_entered(&mut self, totals: &Totals) {
        self.counters.bytes_captured = totals.stored_bytes + totals.deduplicated_bytes;
        self.counters.bytes_written = totals.stored_bytes;
        self.counters.deduplicated_bytes = totals.deduplicated_bytes;
        self.counters.dropped_overwrite = totals.dropped_overwrite;
        self.set_arguments(totals);
    }

    /// Counts the final content of the files, which is less if older tasks left the window.
    pub(crate) fn set_kept(&mut self, footer: &Footer) {
        self.counters.filtered_records = footer.filtered_records;
        self.counters.filtered_bytes = footer.filtered_bytes;
        self.set_arguments(&footer.totals);
    }

    /// Counts the arguments in the files.
    pub(crate) fn set_arguments(&mut self, totals: &Totals) {
        self.counters.records = totals.total_tensors;
        self.counters.scalars = totals.scalars;
        self.counters.tensors = totals.total_tensors.saturating_sub(totals.scalars);
        self.counters.dispatches = totals.dispatches;
        self.counters.truncated_tensors = totals.truncated_tensors;
        self.counters.uncaptured = totals.uncaptured;
    }

    pub(crate) fn add_lane(&mut self, lane: LaneSummary, state: &DumpBufferState) {
        let lost = lane.losses.iter().fold(0, |sum, loss| total(sum, loss.records));
        let plausible = |count: u64| if count > COUNT_LIMIT { 0 } else { count };
        let counters = &mut self.counters;
        counters.dropped_records = total(counters.dropped_records, lost);
        counters.filtered_records = total(counters.filtered_records, plausible(state.filtered_records));
        counters.filtered_bytes = total(counters.filtered_bytes, plausible(state.filtered_bytes));
        self.held_up_ns = total(self.held_up_ns, lane.held_up_ns);
        self.held_up_max_ns = self.held_up_max_ns.max(lane.held_up_ns);
        self.lanes.push(lane);
    }

    /// Lanes that are not returned at the end: a thread did not flush its recorder.
    #[must_use]
    pub fn unflushed(&self) -> Vec<u32> {
        let unflushed = |lane: &&LaneSummary| lane.tenancy != Some(Tenancy::Returned);
        self.lanes.iter().filter(unflushed).map(|lane| lane.lane).collect()
    }

    pub(crate) fn footer(&self, end: &RunEnd) -> Footer {
        let damaged = self.lanes.iter().filter_map(LaneSummary::damage);
        let said = [&end.message, &self.failure].into_iter().flatten().cloned();
        let said: Vec<String> = said.chain(damaged).collect();
        let message = (!said.is_empty()).then(|| said.join("; "));
        Footer {
            finished_at: end.finished_at.clone(),
            message,
            losses: self.lanes.iter().flat_map(|lane| lane.losses.iter().cloned()).collect(),
            corrupt_records: self.counters.corrupt_records,
            in_flight: end.in_flight.clone(),
            golden: end.golden,
            filtered_records: self.counters.filtered_records,
            filtered_bytes: self.counters.filtered_bytes,
            held_up_ns: self.held_up_ns,
            extra: end.extra.clone(),
            ..Footer::new(self.status)
        }
    }
}

/// What the collector knows about a lane's records, by sequence number.
pub(crate) struct Account {
    /// Records missing in the sequence.
    pub(crate) missing: u64,
    /// All sequence numbers below this are settled: stored, rejected, or missing.
    pub(crate) collected: u64,
    /// Payloads that started and never ended.
    pub(crate) unfinished: u64,
    pub(crate) acknowledged: u64,
}

impl LaneSummary {
    pub(crate) fn new(
        lane: u32,
        state: &DumpBufferState,
        account: &Account,
        ended: Option<StreamError>,
        tenancy: Option<Tenancy>,
    ) -> LaneSummary {
        let &Account { missing, collected, unfinished, acknowledged } = account;
        let mut damaged_counters = Vec::new();
        let mut plausible = |name, count: u64| {
            let good = count <= COUNT_LIMIT;
            if !good {
                damaged_counters.push(name);
            }
            good.then_some(count)
        };
        let seen = collected - missing.min(collected);
        let committed_records = plausible("records", state.records).unwrap_or(seen);
        let held_up_ns = plausible("held_up_ns", state.held_up_ns).unwrap_or(0);
        let dropped_no_space = plausible("dropped_no_space", state.dropped_no_space).unwrap_or(0);
        let dropped_no_host = plausible("dropped_no_host", state.dropped_no_host).unwrap_or(0);
        let dropped_no_buffer = plausible("dropped_no_buffer", state.dropped_no_buffer).unwrap_or(0);
        let mut dropped_bytes = plausible("dropped_bytes", state.dropped_bytes).unwrap_or(0);
        plausible("payload_bytes", state.payload_bytes);
        plausible("filtered_records", state.filtered_records);
        plausible("filtered_bytes", state.filtered_bytes);
        // Committed by the device but never stored: the files were full, or the lane could not be followed.
        let uncollected = committed_records.saturating_sub(seen);
        let mut losses = Vec::new();
        for (reason, records, carries_bytes) in [
            ("no_space", dropped_no_space, true),
            ("no_host", dropped_no_host, true),
            ("no_buffer", dropped_no_buffer, true),
            (Loss::MISSING, missing, false),
            ("unfinished", unfinished, false),
            ("not_collected", uncollected, false),
        ] {
            if records > 0 {
                // The device counts bytes over all reasons together; they are listed with the first reason
                // that has any.
                let bytes = if carries_bytes { std::mem::take(&mut dropped_bytes) } else { 0 };
                losses.push(Loss {
                    thread: lane,
                    reason: reason.into(),
                    records: records.min(COUNT_LIMIT),
                    bytes,
                });
            }
        }
        LaneSummary {
            lane,
            acknowledged,
            committed_records,
            held_up_ns,
            losses,
            ended,
            tenancy,
            damaged_counters,
        }
    }

    /// Describes the counters with impossible values.
    #[must_use]
    pub fn damage(&self) -> Option<String> {
        let Self { lane, damaged_counters, .. } = self;
        (!damaged_counters.is_empty()).then(|| {
            let names = damaged_counters.join(", ");
            format!(
                "the counters {names} of lane {lane} are damaged and ignored: a kernel may have written there"
            )
        })
    }
}

/// A sum that JSON can represent.
fn total(sum: u64, more: u64) -> u64 {
    sum.saturating_add(more).min(COUNT_LIMIT)
}
