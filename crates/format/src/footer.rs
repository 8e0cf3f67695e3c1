//! What a dump says about its run once it has ended, and the counters of both.

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
    /// The host was killed: nobody closed the dump.
    Killed,
    /// The user ended it.
    Interrupted,
    /// The run went on, its dump could not.
    DumpFailed,
}

impl Status {
    /// Spelled as in JSON.
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

/// What a run's own golden, that of its scene, says of its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GoldenVerdict {
    /// Every output is within its tolerance.
    Pass,
    /// Some output is not.
    Fail,
    /// There is nothing to compare with, or the run did not get that far.
    None,
}

impl GoldenVerdict {
    /// Spelled as in JSON.
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
    /// Why, for instance `no_buffer`, `no_space`, `no_host`, [`Loss::MISSING`] or [`Loss::PAYLOAD_MISSING`].
    pub reason: String,
    /// Records.
    pub records: u64,
    /// Payload bytes, as far as known.
    pub bytes: u64,
}

impl Loss {
    /// Reason: sequence numbers that no frame of the index covers.
    pub const MISSING: &'static str = "missing";
    /// Reason: the payload file is shorter than the index says; found by repair.
    pub const PAYLOAD_MISSING: &'static str = "payload_missing";
}

/// A task that had been dispatched and had not completed when the run ended.
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

/// Where the sequence of a thread ended; what is missing before it was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadEnd {
    /// Device thread.
    pub thread: u32,
    /// First sequence number that the index never accounted for.
    pub next_seq: u64,
}

/// What the end of a run adds. `totals` and `threads` are the writer's; what a caller puts there is replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Footer {
    /// How the run ended.
    pub status: Status,
    /// UTC, as [`crate::timestamp`] writes it; `None` when nobody was there to see it.
    #[serde(default)]
    pub finished_at: Option<String>,
    /// The failure in words.
    #[serde(default)]
    pub message: Option<String>,
    /// What the run's own golden says; `None` when nobody judged the outputs: the run ended early, or its host did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub golden: Option<GoldenVerdict>,
    /// What was lost, per thread and reason.
    #[serde(default)]
    pub losses: Vec<Loss>,
    /// Records that the collector refused.
    #[serde(default)]
    pub corrupt_records: u64,
    /// Tasks in flight. `None`: taken from the index when the run did not complete.
    #[serde(default)]
    pub in_flight: Option<Vec<InFlightTask>>,
    /// Records, of arguments and dispatches, that a filter kept out.
    #[serde(default)]
    pub filtered_records: u64,
    /// Payload bytes that a filter or cap kept out.
    #[serde(default)]
    pub filtered_bytes: u64,
    /// Time device threads spent in capture, all together.
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

    /// Records lost, all threads and reasons together.
    #[must_use]
    pub fn dropped_records(&self) -> u64 {
        self.losses.iter().fold(0, |sum, loss| sum.saturating_add(loss.records))
    }
}

/// What came of a run's dump, counted once and handed on whole: to the report of the run, and to its JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DumpCounters {
    /// Arguments recorded, scalars among them.
    pub records: u64,
    /// Tensors among the records.
    pub tensors: u64,
    /// Scalars among the records.
    pub scalars: u64,
    /// Dispatches recorded.
    pub dispatches: u64,
    /// Payload bytes that the device captured: what the stored payloads of all records add up to.
    pub bytes_captured: u64,
    /// Payload bytes in the payload file that the index names; what was written before a failure and not named is not
    /// among them.
    pub bytes_written: u64,
    /// Tensors of which only a part was stored.
    pub truncated_tensors: u64,
    /// Records lost, for whatever reason; an argument that lost only its payload counts too.
    pub dropped_records: u64,
    /// Payloads, and arguments of dispatches, that were overwritten before they were read.
    pub dropped_overwrite: u64,
    /// Entries of any kind: arguments, and the tasks, dispatches and dependencies between them.
    pub entries: u64,
    /// Payload bytes that were not written because an equal payload is stored.
    pub deduplicated_bytes: u64,
    /// Records that were not what they claimed to be.
    pub corrupt_records: u64,
    /// Records, of arguments and dispatches, that a filter kept out.
    pub filtered_records: u64,
    /// Payload bytes that a filter or cap kept out.
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
    /// Of them, captured before dispatch.
    pub before_dispatch: u64,
    /// Captured after completion.
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
    /// Payloads, and arguments of dispatches, overwritten before the host read them.
    pub dropped_overwrite: u64,
    /// Payload bytes that were stored already.
    pub deduplicated_bytes: u64,
    /// Payload bytes stored, each once.
    pub stored_bytes: u64,
    /// Records of tasks.
    pub task_records: u64,
    /// Dependencies.
    pub edges: u64,
    /// Arguments that could not be captured.
    pub uncaptured: u64,
    /// Dispatches.
    pub dispatches: u64,
    /// Their arguments, without those that were lost.
    pub dispatch_args: u64,
    /// The orchestration's own arguments.
    pub orchestration_args: u64,
    /// Dispatches of which it is known when they ran.
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
            // Definitions, and what no index holds.
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
