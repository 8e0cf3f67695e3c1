use std::path::PathBuf;
use std::time::Duration;

use tensortap_abi::DumpLevel;
use tensortap_format::{DumpCounters, GoldenVerdict, Loss};
use tensortap_judge::{Evidence, Metrics, Outcome, WorstElement};
use tensortap_runtime::RunFailure;
use tensortap_scene::HostTensor;

use crate::LiveReport;

/// One output compared with the golden.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputVerdict {
    /// Name of the scene's argument.
    pub name: String,
    /// The result; unknown, with a reason, if it could not be compared.
    pub outcome: Outcome,
    /// The first element outside its tolerance.
    pub first_outside: Option<WorstElement>,
}

impl OutputVerdict {
    /// Whether it was compared and is within tolerance.
    pub fn passed(&self) -> bool {
        self.outcome.passes()
    }

    /// Differences of its elements from the golden; `None` if it could not be compared.
    pub fn metrics(&self) -> Option<&Metrics> {
        match &self.outcome.evidence {
            Evidence::Full(metrics) => Some(metrics),
            _ => None,
        }
    }
}

/// The result of a dump.
#[derive(Clone, Debug, PartialEq)]
pub struct DumpReport {
    /// Its folder.
    pub dir: PathBuf,
    /// The requested level.
    pub level: DumpLevel,
    /// Whether the arguments of dispatches were to be recorded.
    pub dump_args: bool,
    /// Content and losses, as numbers.
    pub counters: DumpCounters,
    /// Size of all files in the folder: payloads, index, manifest and graph.
    pub folder_bytes: u64,
    /// Time that all device threads together spent in capture.
    pub held_up: Duration,
    /// Time for writing manifest and graph after the last payload; not part of [`RunReport::wall`].
    pub closing: Duration,
    /// Result of a live comparison.
    pub live: Option<LiveReport>,
    /// Losses by thread and reason.
    pub losses: Vec<Loss>,
    /// Why the dump is incomplete, if it is; for example a full disk.
    pub problem: Option<String>,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// Scene that ran.
    pub scene: &'static str,
    /// Platform it ran on.
    pub platform: &'static str,
    /// Runtime it ran with.
    pub runtime: &'static str,
    /// Number of blocks of the device.
    pub blocks: u32,
    /// Number of scheduler threads.
    pub schedulers: u32,
    /// Number of completed tasks.
    pub tasks: u64,
    /// Number of finished dispatches.
    pub dispatches: u64,
    /// Time from launch to the last written payload, without input generation and golden.
    pub wall: Duration,
    /// The golden's verdict.
    pub golden: GoldenVerdict,
    /// Each output, if the run completed and there is a golden.
    pub outputs: Vec<OutputVerdict>,
    /// Outputs and in-outs of the orchestration after the run.
    pub results: Vec<HostTensor>,
    /// The dump, if something was recorded.
    pub dump: Option<DumpReport>,
    /// Why the run ended early, if it did.
    pub failure: Option<RunFailure>,
}

impl RunReport {
    /// `complete`, `crashed`, `stalled`, `killed`, `interrupted` or `dump_failed`.
    pub fn status(&self) -> &'static str {
        match &self.failure {
            Some(failure) => failure.status(),
            None if self.dump.as_ref().is_some_and(|d| d.problem.is_some()) => "dump_failed",
            None => "complete",
        }
    }

    /// Whether the run or its dump did not complete: [`RunReport::status`] is not `complete`.
    pub fn ended_early(&self) -> bool {
        self.failure.is_some() || self.dump.as_ref().is_some_and(|dump| dump.problem.is_some())
    }

    /// Tasks per second of wall time.
    #[expect(clippy::cast_precision_loss, reason = "the rate is only displayed")]
    pub fn tasks_per_s(&self) -> f64 {
        self.tasks as f64 / self.wall.as_secs_f64().max(1e-9)
    }
}
