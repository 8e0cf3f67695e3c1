//! What a dump records about its run at the end, and the counters of index and manifest.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tensortap_abi::{DumpStage, RecordKind, Role};

use crate::{IndexRecord, PayloadState, json};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Every task ran.
    Complete,
    /// A kernel or the device died.
    Crashed,
    /// No progress within the stall limit.
    Stalled,
    /// The host was killed and did not close the dump.
    Killed,
    /// The user ended it.
    Interrupted,
    /// The run continued, but its dump failed.
    DumpFailed,
}

impl Status {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Status::Complete => "complete",
            Status::Crashed => "crashed",
            Status::Stalled => "stalled",
            Status::Killed => "killed",
            Status::Interrupted => "interrupted",
            Status::DumpFailed => "dump_failed",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Verdict of the scene's own golden on the run's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GoldenVerdict {
    /// Every output is within its tolerance.
    Pass,
    /// Some output is not.
    Fail,
    /// There is no golden, or the run ended too early.
    None,
}

impl GoldenVerdict {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            GoldenVerdict::Pass => "pass",
            GoldenVerdict::Fail => "fail",
            GoldenVerdict::None => "none",
        }
    }
}

/// Records that one thread lost for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Device thread.
    pub thread: u32,
    /// For example `no_buffer`, `no_space`, `no_host`, [`Loss::MISSING`] or [`Loss::PAYLOAD_MISSING`].
    pub reason: String,
    /// Records.
    pub records: u64,
    /// Number of payload bytes, if known.
    pub bytes: u64,
}

impl Loss {
    /// Reason: no frame of the index covers these sequence numbers.
    pub const MISSING: &'static str = "missing";
    /// Reason: the payload file is shorter than the index requires. Found by repair.
    pub const PAYLOAD_MISSING: &'static str = "payload_missing";
}

/// A task that was dispatched but had not completed when the run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlightTask {
    /// Task.
    #[serde(with = "json::hex")]
    pub task_id: u64,
    /// Its kernels.
    pub func_id: Vec<u32>,
    /// Its blocks.
    pub block_num: u32,
}

/// Where the sequence of a thread ended. Records missing before it were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadEnd {
    /// Device thread.
    pub thread: u32,
    /// First sequence number that the index does not account for.
    pub next_seq: u64,
}

/// Information that the end of a run adds. The writer sets `totals` and `threads` and replaces a caller's
/// values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Footer {
    /// How the run ended.
    pub status: Status,
    /// UTC, as [`crate::timestamp`] formats it; `None` if the end was not observed.
    #[serde(default)]
    pub finished_at: Option<String>,
    /// Description of the failure.
    #[serde(default)]
    pub message: Option<String>,
    /// Verdict of the run's own golden; `None` if the outputs were not judged because the run or its host
    /// ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub golden: Option<GoldenVerdict>,
    /// Losses by thread and reason.
    #[serde(default)]
    pub losses: Vec<Loss>,
    /// Records that the collector rejected.
    #[serde(default)]
    pub corrupt_records: u64,
    /// Tasks in flight. `None` means: taken from the index if the run did not complete.
    #[serde(default)]
    pub in_flight: Option<Vec<InFlightTask>>,
    /// Records of arguments and dispatches that a filter excluded.
    #[serde(default)]
    pub filtered_records: u64,
    /// Payload bytes that a filter or cap excluded.
    #[serde(default)]
    pub filtered_bytes: u64,
    /// Time that all device threads together spent in capture.
    #[serde(default)]
    pub held_up_ns: u64,
    /// Counters over the index.
    #[serde(default)]
    pub totals: Totals,
    /// Where the sequence of each thread ended.
    #[serde(default)]
    pub threads: Vec<ThreadEnd>,
    /// Keys this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Footer {
    /// The end of the message of a process that exited or was replaced without closing its session.
    pub const UNCLOSED_SESSION: &str = "without closing its session";

    /// Whether the recorded process left without closing its session. Its last records may be missing.
    #[must_use]
    pub fn process_left_early(&self) -> bool {
        self.message.as_deref().is_some_and(|message| message.ends_with(Footer::UNCLOSED_SESSION))
    }

    /// A footer without losses.
    #[must_use]
    pub fn new(status: Status) -> Footer {
        Footer {
            status,
            finished_at: None,
            message: None,
            golden: None,
            losses: Vec::new(),
            corrupt_records: 0,
            in_flight: None,
            filtered_records: 0,
            filtered_bytes: 0,
            held_up_ns: 0,
            totals: Totals::default(),
            threads: Vec::new(),
            extra: Map::new(),
        }
    }

    /// Number of lost records over all threads and reasons.
    #[must_use]
    pub fn dropped_records(&self) -> u64 {
        self.losses.iter().fold(0, |sum, loss| sum.saturating_add(loss.records))
    }
}

/// Counters of a run's dump. They are computed once and passed on unchanged to the run's report and its
/// JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DumpCounters {
    /// Recorded arguments, including scalars.
    pub records: u64,
    /// Tensors among the records.
    pub tensors: u64,
    /// Scalars among the records.
    pub scalars: u64,
    /// Recorded dispatches.
    pub dispatches: u64,
    /// Payload bytes that the device captured: the sum of the stored payloads of all records.
    pub bytes_captured: u64,
    /// Bytes of the payload file that the index refers to. Unreferenced bytes, written before a failure, do
    /// not count.
    pub bytes_written: u64,
    /// Tensors with a partly stored payload.
    pub truncated_tensors: u64,
    /// Lost records, for any reason, including arguments that only lost their payload.
    pub dropped_records: u64,
    /// Payloads and dispatch arguments that were overwritten before the host read them.
    pub dropped_overwrite: u64,
    /// Entries of all kinds: arguments, tasks, dispatches and dependencies.
    pub entries: u64,
    /// Payload bytes that were not written because an equal payload is stored.
    pub deduplicated_bytes: u64,
    /// Invalid records.
    pub corrupt_records: u64,
    /// Records of arguments and dispatches that a filter excluded.
    pub filtered_records: u64,
    /// Payload bytes that a filter or cap excluded.
    pub filtered_bytes: u64,
    /// Arguments that could not be captured.
    pub uncaptured: u64,
}

/// Counters over the records of an index. As in the manifest, `total_tensors`, the stages and the roles count
/// scalars too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Arguments: tensors and scalars.
    pub total_tensors: u64,
    /// Arguments captured before dispatch.
    pub before_dispatch: u64,
    /// Arguments captured after completion.
    pub after_completion: u64,
    /// Inputs.
    pub input_tensors: u64,
    /// Outputs.
    pub output_tensors: u64,
    /// In-outs.
    pub inout_tensors: u64,
    /// Scalars.
    pub scalars: u64,
    /// Payloads stored in part.
    pub truncated_tensors: u64,
    /// Payloads and dispatch arguments that were overwritten before the host read them.
    pub dropped_overwrite: u64,
    /// Payload bytes that were already stored.
    pub deduplicated_bytes: u64,
    /// Stored payload bytes, each counted once.
    pub stored_bytes: u64,
    /// Records of tasks.
    pub task_records: u64,
    /// Dependencies.
    pub edges: u64,
    /// Arguments that could not be captured.
    pub uncaptured: u64,
    /// Dispatches.
    pub dispatches: u64,
    /// Arguments of dispatches, without lost ones.
    pub dispatch_args: u64,
    /// The orchestration's own arguments.
    pub orchestration_args: u64,
    /// Dispatches whose start and end are known.
    pub finished: u64,
}

impl Totals {
    /// Counts a record.
    pub fn add(&mut self, record: &IndexRecord) {
        match record.kind() {
            RecordKind::Tensor => self.add_tensor(record),
            RecordKind::Scalar => {
                self.scalars += 1;
                self.add_argument(record);
            }
            RecordKind::Task => self.task_records += 1,
            RecordKind::Edge => self.edges += 1,
            RecordKind::Uncaptured => self.uncaptured += 1,
            RecordKind::Dispatch => self.add_dispatch(record),
            RecordKind::OrchestrationArg => self.orchestration_args += 1,
            RecordKind::Finished => self.finished += 1,
            // Definitions, and kinds that no index contains.
            _ => {}
        }
    }

    fn add_argument(&mut self, record: &IndexRecord) {
        self.total_tensors += 1;
        match record.stage() {
            Some(DumpStage::BeforeDispatch) => self.before_dispatch += 1,
            Some(DumpStage::AfterCompletion) => self.after_completion += 1,
            None => {}
        }
        match record.role() {
            Some(Role::Input) => self.input_tensors += 1,
            Some(Role::Output) => self.output_tensors += 1,
            Some(Role::InOut) => self.inout_tensors += 1,
            None => {}
        }
    }

    fn add_dispatch(&mut self, record: &IndexRecord) {
        self.dispatches += 1;
        self.dropped_overwrite += u64::from(record.payload_state() == PayloadState::Overwritten);
        if let Some(parts) = record.dispatch_parts() {
            self.dispatch_args += (parts.tensor_count() + parts.scalar_count()) as u64;
        }
    }

    fn add_tensor(&mut self, record: &IndexRecord) {
        self.add_argument(record);
        match record.payload_state() {
            PayloadState::Truncated => self.truncated_tensors += 1,
            PayloadState::Overwritten => self.dropped_overwrite += 1,
            PayloadState::Stored
            | PayloadState::None
            | PayloadState::Dropped
            | PayloadState::Missing
            | PayloadState::Gone => {}
        }
        if let Some((_, bytes)) = record.stored_range() {
            let counter =
                if record.is_deduplicated() { &mut self.deduplicated_bytes } else { &mut self.stored_bytes };
            *counter = counter.saturating_add(bytes);
        }
    }
}
