//! What `run` prints for people.

use std::fmt::Write;

use tensortap::judge::{Metrics, Worst};
use tensortap::values::Value;
use tensortap::{Golden, OutputVerdict, RunReport};

use super::dump_summary;
use crate::output::verdict;
use tensortap_query::number::{counted, counted_in, grouped, significant, time};

/// Width of the labels on the left.
const LABEL: usize = 9;

/// The summary of a run; `again` is the command that repeats it with a dump.
pub fn of(report: &RunReport, again: &str) -> String {
    let RunReport { scene, platform, runtime, blocks, schedulers, tasks, dispatches, wall, .. } = *report;
    let mut text = format!("{scene} on {platform}\n");
    let (blocks, schedulers) = (counted(blocks.into(), "block"), counted(schedulers.into(), "scheduler"));
    line(&mut text, "runtime", &format!("{runtime}, {blocks}, {schedulers}"));
    let (took, rate) = (time(wall), whole_rate(report));
    let (tasks, dispatches) = (counted(tasks, "task"), counted_in(dispatches, "dispatch", "dispatches"));
    line(&mut text, "ran", &format!("{tasks}, {dispatches} in {took}, {rate} tasks/s"));
    if report.failure.is_some() {
        line(&mut text, "status", &verdict(report.status(), false));
    }
    line(&mut text, "golden", &golden(report));
    let width = report.outputs.iter().map(|output| output.name.len()).max().unwrap_or(0).max(LABEL - 2);
    for output in &report.outputs {
        text.push_str(&output_lines(output, width));
    }
    for (label, value) in dump_summary::lines(report, again) {
        line(&mut text, label, &value);
    }
    text
}

fn line(text: &mut String, label: &str, value: &str) {
    let _ = writeln!(text, "  {label:LABEL$} {value}");
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is positive and far below 2^64"
)]
fn whole_rate(report: &RunReport) -> String {
    grouped(report.tasks_per_s().round() as u64)
}

fn golden(report: &RunReport) -> String {
    match report.golden {
        Golden::Pass => verdict("PASS", true),
        Golden::Fail => verdict("FAIL", false),
        Golden::None if report.failure.is_some() => "none: the run did not complete".into(),
        Golden::None => "none: this scene has nothing to compare".into(),
    }
}

fn output_lines(output: &OutputVerdict, width: usize) -> String {
    let name = &output.name;
    let word = if output.passed() { verdict("pass", true) } else { verdict("FAIL", false) };
    let Some(metrics) = output.metrics() else {
        let why = output.outcome.reason().map_or(String::new(), |reason| format!(": {reason}"));
        return format!("    {name:width$} {word}  could not be compared with the golden{why}\n");
    };
    let mut text = format!("    {name:width$} {word}  {}\n", extent(metrics));
    if let Some(Worst { coordinate, dump, golden, .. }) = &output.first_outside {
        let (at, actual, expected) = (position(coordinate), plain(dump), plain(golden));
        let _ = writeln!(
            text,
            "    {:width$}       first wrong: {name}{at} is {actual}, expected {expected}",
            ""
        );
    }
    text
}

fn extent(metrics: &Metrics) -> String {
    let error = significant(metrics.max_abs_err(), 3);
    let all = counted(metrics.elements, "element");
    match metrics.failing {
        0 => format!("max error {error}, {all}"),
        outside => format!("max error {error}, {} of {all} wrong", grouped(outside)),
    }
}

/// Coordinates of an element; those of one that stands alone are 0.
fn position(coordinate: &[u64]) -> String {
    let places: Vec<String> = coordinate.iter().map(u64::to_string).collect();
    format!("[{}]", if places.is_empty() { "0".into() } else { places.join(", ") })
}

fn plain(value: &Value) -> String {
    match value {
        Value::Float(value) => format!("{value:?}"),
        Value::Int(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use tensortap::judge::Outcome;

    use super::*;

    #[test]
    fn a_place_is_shown_as_coordinates() {
        assert_eq!(position(&[1, 2, 3]), "[1, 2, 3]");
        assert_eq!(position(&[]), "[0]");
    }

    #[test]
    fn an_output_that_was_not_compared_says_so_and_why() {
        let output =
            OutputVerdict { name: "f".into(), outcome: Outcome::unknown("it is gone"), first_outside: None };
        assert!(output_lines(&output, 4).contains("could not be compared with the golden: it is gone"));
    }
}
