//! The options of `run` that compare it with a golden while it lasts, and what it prints about that.

use std::path::PathBuf;

use clap::Args;
use tensortap::{LiveConfig, LiveReport, WrongTask};

use crate::output::verdict;
use crate::size;
use tensortap_query::number::{bytes, counted, grouped};
use tensortap_query::words::{printable, short_task};

/// Wrong tasks that the summary names.
const NAMED: usize = 3;

/// What is compared, and when to stop.
#[derive(Args)]
#[command(next_help_heading = "Comparing while running")]
pub struct LiveArgs {
    /// Compare with this dump of the same scene, parameters and runtime, and keep only the payloads of tasks that differ;
    /// records everything without --dump-tensor
    #[arg(long, value_name = "GOLDEN")]
    live: Option<PathBuf>,

    /// End the run at the first task that is wrong although its inputs are right, some milliseconds after it
    #[arg(long, requires = "live")]
    stop_at_first: bool,

    /// Payload bytes that may wait for a verdict; beyond them tasks are kept without one [default: 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, requires = "live")]
    live_scratch: Option<u64>,
}

impl LiveArgs {
    /// Whether to compare.
    pub fn is_given(&self) -> bool {
        self.live.is_some()
    }

    /// What to compare with.
    pub fn config(&self) -> Option<LiveConfig> {
        let mut config = LiveConfig::new(self.live.as_ref()?);
        config.stop_at_first = self.stop_at_first;
        config.scratch_bytes = self.live_scratch.unwrap_or(config.scratch_bytes);
        Some(config)
    }
}

/// Labels and values of the summary's lines; `ran` is how many tasks the run completed.
pub fn lines(report: &LiveReport, ran: u64) -> Vec<(&'static str, String)> {
    let (judged, of) = (grouped(report.judged), counted(report.of, "task"));
    let word = if report.agrees() { verdict("PASS", true) } else { verdict("FAIL", false) };
    let mut lines =
        vec![("live", format!("{word}, compared {judged} of {of} with {}", report.golden.display()))];
    if report.differing > 0 {
        lines.push(("  differ", format!("{}{}", counted(report.differing, "task"), first_wrong(report))));
    }
    lines.extend(stop(report, ran).map(|said| ("  stop", said)));
    for (count, what) in [
        (report.unmatched, "not in the golden"),
        (report.unjudged, "kept without a verdict: not completed, or too much was waiting (--live-scratch)"),
    ] {
        if count > 0 {
            lines.push(("  other", format!("{} {what}", counted(count, "task"))));
        }
    }
    lines.push(("  dropped", format!("{} of payloads that agree", bytes(report.released_bytes))));
    lines
}

fn first_wrong(report: &LiveReport) -> String {
    if report.wrong_here.is_empty() {
        return String::new();
    }
    let named: Vec<String> = report.wrong_here.iter().take(NAMED).map(name).collect();
    let more = report.wrong_here_count.saturating_sub(named.len() as u64);
    let more = if more > 0 { format!(" and {} more", grouped(more)) } else { String::new() };
    let count = grouped(report.wrong_here_count);
    format!(", {count} of them although their inputs agree: {}{more}", named.join(", "))
}

/// What came of `--stop-at-first`; `None` when no task was wrong, or it was not asked for.
fn stop(report: &LiveReport, ran: u64) -> Option<String> {
    let first = report.wrong_here.first().filter(|_| report.stop_found)?;
    let found = format!("at task {}", name(first));
    Some(if report.stopped {
        let (ran, of) = (grouped(ran), counted(report.of, "task"));
        format!("{found}, when {ran} of {of} had run and {} were compared", grouped(report.judged))
    } else {
        format!("{found}, but the run had completed by then")
    })
}

/// `0x100000002 (mul)`.
fn name(task: &WrongTask) -> String {
    let kernels: Vec<_> = task.kernels.iter().map(|kernel| printable(kernel)).collect();
    format!("{} ({})", short_task(task.task_id), kernels.join("+"))
}
