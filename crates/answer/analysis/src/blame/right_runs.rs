//! What differs between right runs is no evidence. With more than one golden, these differences are known.

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, Dump, FormatError};
use tensortap_judge::{Evidence, Outcome, Rule, Verdict};

use super::BlameOptions;
use super::golden::match_options;
use crate::evidence::{Spans, all_positions, difference_between};
use crate::graph::{TaskGraph, load_with_progress, steps_of_golden};
use crate::matching::match_tasks;

/// Reason for a record that is within its rule because of another golden.
const DIFFERS_IN_RIGHT_RUNS: &str = "it differs only where right runs differ";

/// Further right runs, matched with the golden.
#[derive(Default)]
pub(crate) struct RightRuns<'r> {
    runs: Vec<RightRun<'r>>,
    across: bool,
}

struct RightRun<'r> {
    dump: &'r Dump,
    graph: TaskGraph,
    /// By task of the golden: its certain partner.
    partner: Vec<Option<usize>>,
}

/// The golden's side of a comparison.
#[derive(Clone, Copy)]
pub(crate) struct GoldenArg<'r> {
    pub dump: &'r Dump,
    /// Position of the task in the golden.
    pub task: usize,
    pub arg: Argument<'r>,
    pub stage: DumpStage,
}

impl<'r> RightRuns<'r> {
    /// Matches all further goldens with the first one.
    pub fn of(
        golden: &Dump,
        graph: &TaskGraph,
        options: &BlameOptions<'r>,
    ) -> Result<RightRuns<'r>, FormatError> {
        let work = options.work;
        let steps: Vec<(u64, u64)> =
            graph.tasks().steps().iter().map(|&step| (step.into(), step.into())).collect();
        let mut runs = Vec::new();
        for &dump in &options.other_goldens {
            let steps = steps_of_golden(dump, &steps, &options.golden_steps);
            let other = load_with_progress(dump, &steps, &|| work.check_canceled())?;
            let options = match_options(golden, dump, options.other_dtypes, work.threads);
            let partner = match_tasks(graph, &other, options).certain().partner;
            runs.push(RightRun { dump, graph: other, partner });
        }
        Ok(RightRuns { runs, across: options.other_dtypes })
    }

    /// Whether there is only one golden.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The positions, in half-bytes, at which some right run is outside the rule.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn differing(&self, golden: GoldenArg<'_>, rule: Rule) -> Result<Spans, FormatError> {
        let mut all = Spans::default();
        let GoldenArg { dump, task, arg, stage } = golden;
        for run in &self.runs {
            let Some(partner) = run.partner[task] else { continue };
            let Some(other) = run.graph.task(partner).counterpart(arg) else { continue };
            let hashes = |arg: Argument<'_>| arg.captured(stage).and_then(|captured| captured.hash());
            let (ours, theirs) = (hashes(arg), hashes(other));
            let is_equal = ours.is_some() && ours == theirs;
            let is_captured = arg.captured(stage).is_some() && other.captured(stage).is_some();
            if arg.is_scalar() && arg.scalar_bits != other.scalar_bits {
                all = all_positions(arg);
            } else if !arg.is_scalar() && is_captured && !is_equal {
                let found = difference_between((dump, arg), (run.dump, other), (stage, rule, self.across))?;
                // Without contents, any part may differ.
                all = all.or(&found.map_or_else(|| all_positions(arg), |found| found.failing));
            }
        }
        Ok(all)
    }

    /// The outcome of a record after differences between right runs are left out.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn settle(
        &self,
        (dump, arg): (&Dump, Argument<'_>),
        golden: GoldenArg<'_>,
        (rule, outcome): (Rule, Outcome),
    ) -> Result<Outcome, FormatError> {
        if self.is_empty() || outcome.verdict != Verdict::Outside {
            return Ok(outcome);
        }
        let noise = self.differing(golden, rule)?;
        if noise.is_empty() {
            return Ok(outcome);
        }
        let settled = (golden.stage, rule, self.across);
        let failing = match arg.is_scalar() {
            true => Some(all_positions(arg)),
            false => difference_between((dump, arg), (golden.dump, golden.arg), settled)?
                .map(|found| found.failing),
        };
        let failing = failing.unwrap_or_else(|| all_positions(arg));
        Ok(match failing.without(&noise).is_empty() {
            true => Outcome {
                verdict: Verdict::Within,
                evidence: Evidence::Statistics(DIFFERS_IN_RIGHT_RUNS.into()),
            },
            false => outcome,
        })
    }
}
