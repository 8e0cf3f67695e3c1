use std::path::PathBuf;
use std::time::Duration;

use tensortap_abi::DumpLevel;
use tensortap_format::{DumpCounters, GoldenVerdict, Loss};
use tensortap_judge::{Evidence, Metrics, Outcome, Worst};
use tensortap_runtime::RunFailure;
use tensortap_scene::HostTensor;

use crate::LiveReport;

/// One output held against the golden.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputVerdict {
    /// Name of the scene's argument.
    pub name: String,
    /// How it compares; unknown, with the reason, when it could not be compared.
    pub outcome: Outcome,
    /// The first element outside its rule.
    pub first_outside: Option<Worst>,
}

impl OutputVerdict {
    /// Whether it was compared and is within its tolerance.
    pub fn passed(&self) -> bool {
        self.outcome.passes()
    }

    /// How far its elements are from the golden; `None` when it could not be compared.
    pub fn metrics(&self) -> Option<&Metrics> {
        match &self.outcome.evidence {
            Evidence::Full(metrics) => Some(metrics),
            _ => None,
        }
    }
}

/// What came of a dump.
#[derive(Clone, Debug, PartialEq)]
pub struct DumpReport {
    /// Its folder.
    pub dir: PathBuf,
    /// How much was to be captured.
    pub level: DumpLevel,
    /// Whether the arguments of dispatches were to be recorded.
    pub dump_args: bool,
    /// What it holds and what it lacks, in numbers.
    pub counters: DumpCounters,
    /// Bytes of all files in the folder: payloads, index, manifest and graph.
    pub folder_bytes: u64,
    /// Time device threads spent in capture, all together.
    pub held_up: Duration,
    /// Writing manifest and graph once the last payload was written; not part of [`RunReport::wall`].
    pub closing: Duration,
    /// What a live comparison found.
    pub live: Option<LiveReport>,
    /// What was lost, per thread and reason.
    pub losses: Vec<Loss>,
    /// Why the dump is not complete, if it is not: a full disk, say.
    pub problem: Option<String>,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// Scene that ran.
    pub scene: &'static str,
    /// Platform it ran on.
    pub platform: &'static str,
    /// Runtime it ran with.
    pub runtime: &'static str,
    /// Blocks of the device.
    pub blocks: u32,
    /// Scheduler threads.
    pub schedulers: u32,
    /// Tasks complete.
    pub tasks: u64,
    /// Dispatches finished.
    pub dispatches: u64,
    /// From launch to the last payload written, without input generation and golden.
    pub wall: Duration,
    /// What the golden says.
    pub golden: GoldenVerdict,
    /// Each output, when the run was complete and there is a golden.
    pub outputs: Vec<OutputVerdict>,
    /// Outputs and in-outs of the orchestration, as the device left them.
    pub results: Vec<HostTensor>,
    /// What was recorded, when something was to be.
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

    /// Whether the run, or its dump, did not get to its end: [`RunReport::status`] is not `complete`.
    pub fn ended_early(&self) -> bool {
        self.failure.is_some() || self.dump.as_ref().is_some_and(|dump| dump.problem.is_some())
    }

    /// Tasks per second of wall time.
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub fn tasks_per_s(&self) -> f64 {
        self.tasks as f64 / self.wall.as_secs_f64().max(1e-9)
    }
}
