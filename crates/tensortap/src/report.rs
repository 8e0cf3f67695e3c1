use std::time::Duration;

use tensortap_runtime::RunFailure;
use tensortap_scene::{Comparison, HostTensor};

/// What the golden says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Golden {
    /// Every output is within its tolerance.
    Pass,
    /// Some output is not.
    Fail,
    /// There is nothing to compare with, or the run did not get that far.
    None,
}

impl Golden {
    /// Spelled as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Golden::Pass => "pass",
            Golden::Fail => "fail",
            Golden::None => "none",
        }
    }
}

/// One output held against the golden.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputVerdict {
    /// Name of the scene's argument.
    pub name: String,
    /// What came of the comparison; `None` when it could not be made.
    pub comparison: Option<Comparison>,
}

impl OutputVerdict {
    /// Whether it was compared and is within its tolerance.
    pub fn passed(&self) -> bool {
        self.comparison.is_some_and(|c| c.passed())
    }
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
    /// From launch to the end, without input generation and golden.
    pub wall: Duration,
    /// What the golden says.
    pub golden: Golden,
    /// Each output, when the run was complete and there is a golden.
    pub outputs: Vec<OutputVerdict>,
    /// Outputs and in-outs of the orchestration, as the device left them.
    pub results: Vec<HostTensor>,
    /// Why the run ended early, if it did.
    pub failure: Option<RunFailure>,
}

impl RunReport {
    /// `complete`, `crashed`, `stalled`, `killed` or `interrupted`.
    pub fn status(&self) -> &'static str {
        self.failure.as_ref().map_or("complete", RunFailure::status)
    }

    /// Tasks per second of wall time.
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub fn tasks_per_s(&self) -> f64 {
        self.tasks as f64 / self.wall.as_secs_f64().max(1e-9)
    }
}
