//! The report of `test` as text: a line for each scene, and for failures what is wrong and where it began.

use std::fmt::Write;
use std::time::Duration;

use tensortap::suite::TrialReport;
use tensortap_query::number::{counted, grouped, time};
use tensortap_query::suite::{RAN_ONLY, TrialVerdict, what_is_wrong, where_it_began};

use crate::output::verdict;

/// Different failures that are listed for a scene. Equal failures are listed once.
const LISTED: usize = 4;

/// The report of a suite. `next` returns the suggested commands for a failed trial.
pub fn of(reports: &[TrialReport], wall: Duration, next: &dyn Fn(&TrialReport) -> Vec<String>) -> String {
    let mut text = String::new();
    let mut rest = reports;
    let width = reports.iter().map(|report| report.trial.scene.name().len()).max().unwrap_or(0);
    while let Some(first) = rest.first() {
        let scene = first.trial.scene.name();
        let end = rest.iter().position(|report| report.trial.scene.name() != scene).unwrap_or(rest.len());
        let (own, others) = rest.split_at(end);
        text += &scene_lines(own, width, next);
        rest = others;
    }
    text + &total(reports, wall)
}

fn scene_lines(reports: &[TrialReport], width: usize, next: &dyn Fn(&TrialReport) -> Vec<String>) -> String {
    let passed = reports.iter().filter(|report| report.passed()).count();
    let took: Duration = reports.iter().map(|report| report.wall).sum();
    let all = passed == reports.len();
    let word = if all { verdict("PASS", true) } else { verdict("FAIL", false) };
    let name = reports.first().map_or("", |report| report.trial.scene.name());
    let of = counted(reports.len() as u64, "trial");
    let ran_only =
        if reports.iter().any(TrialReport::ran_only) { format!(" ({RAN_ONLY})") } else { String::new() };
    let mut text =
        format!("{word}  {name:width$}  {} of {of}, {}{ran_only}\n", grouped(passed as u64), time(took));
    for (first, same) in alike(reports).into_iter().take(LISTED) {
        text += &failure(first, same, next);
    }
    let rest = alike(reports).len().saturating_sub(LISTED);
    if rest > 0 {
        let _ = writeln!(text, "      {} more kinds of failures; --json lists all", grouped(rest as u64));
    }
    text
}

/// Groups equal failures: the first of each group, and the number of others.
fn alike(reports: &[TrialReport]) -> Vec<(&TrialReport, usize)> {
    let mut kinds: Vec<(&TrialReport, usize)> = Vec::new();
    let failure_of = |report: &TrialReport| (what_is_wrong(report), where_it_began(report));
    for report in reports.iter().filter(|report| !report.passed()) {
        match kinds.iter_mut().find(|(first, _)| failure_of(first) == failure_of(report)) {
            Some((_, more)) => *more += 1,
            None => kinds.push((report, 0)),
        }
    }
    kinds
}

fn failure(report: &TrialReport, same: usize, next: &dyn Fn(&TrialReport) -> Vec<String>) -> String {
    let trial = &report.trial;
    let mut text = format!("      {} on {}, {}", trial.case.name, trial.platform, trial.runtime);
    if same > 0 {
        let _ = write!(text, ", and {} more trials with the same failure", grouped(same as u64));
    }
    text.push('\n');
    let skipped = TrialVerdict::of(report) == TrialVerdict::Skipped;
    let commands = if skipped { Vec::new() } else { next(report) };
    for line in what_is_wrong(report).into_iter().chain(where_it_began(report)).chain(commands) {
        let _ = writeln!(text, "        {}", line.replace('\n', "\n        "));
    }
    text
}

fn total(reports: &[TrialReport], wall: Duration) -> String {
    let passed = reports.iter().filter(|report| report.passed()).count();
    let all = passed == reports.len();
    let word = if all { verdict("PASS", true) } else { verdict("FAIL", false) };
    let of = counted(reports.len() as u64, "trial");
    match all {
        true => format!("\n{word}: {of} passed in {}\n", time(wall)),
        false => format!("\n{word}: {} of {of} passed in {}\n", grouped(passed as u64), time(wall)),
    }
}
