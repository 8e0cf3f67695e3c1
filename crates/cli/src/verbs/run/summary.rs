//! What `run` prints for people.

use std::fmt::Write;

use tensortap::scene::{ArgSpec, Comparison};
use tensortap::{Golden, OutputVerdict, RunReport};

use super::dump_summary;
use crate::number::{counted, counted_in, grouped, significant, time};
use crate::output::verdict;

/// Width of the labels on the left.
const LABEL: usize = 9;

/// The summary of a run; `args` are the scene's own arguments, for the shapes of its outputs, `again` the command that
/// repeats it with a dump.
pub fn of(report: &RunReport, args: &[ArgSpec], again: &str) -> String {
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
        text.push_str(&output_lines(output, width, args));
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

fn output_lines(output: &OutputVerdict, width: usize, args: &[ArgSpec]) -> String {
    let name = &output.name;
    let word = if output.passed() { verdict("pass", true) } else { verdict("FAIL", false) };
    let Some(comparison) = output.comparison else {
        return format!("    {name:width$} {word}  could not be compared with the golden\n");
    };
    let mut text = format!("    {name:width$} {word}  {}\n", extent(&comparison));
    if let Some((place, actual, expected)) = comparison.first_outside {
        let shape = args.iter().find(|arg| arg.name == name).map_or(&[][..], |arg| &arg.shape);
        let at = position(place, shape);
        let _ = writeln!(
            text,
            "    {:width$}       first wrong: {name}{at} is {actual:?}, expected {expected:?}",
            ""
        );
    }
    text
}

fn extent(comparison: &Comparison) -> String {
    let Comparison { elements, outside, max_abs_err, .. } = *comparison;
    let error = significant(max_abs_err, 3);
    let all = counted(elements as u64, "element");
    if outside == 0 {
        format!("max error {error}, {all}")
    } else {
        format!("max error {error}, {} of {all} wrong", grouped(outside as u64))
    }
}

/// Coordinates of an element counted in row-major order.
fn position(place: usize, shape: &[u64]) -> String {
    let mut rest = place as u64;
    let mut coordinates: Vec<String> = Vec::with_capacity(shape.len());
    for &size in shape.iter().rev() {
        coordinates.push((rest % size.max(1)).to_string());
        rest /= size.max(1);
    }
    if shape.is_empty() {
        coordinates.push(rest.to_string());
    }
    coordinates.reverse();
    format!("[{}]", coordinates.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_becomes_coordinates_of_the_shape() {
        assert_eq!(position(0, &[4]), "[0]");
        assert_eq!(position(23, &[2, 3, 4]), "[1, 2, 3]");
        assert_eq!(position(7, &[2, 3, 4]), "[0, 1, 3]");
        assert_eq!(position(7, &[]), "[7]");
    }

    #[test]
    fn an_output_that_was_not_compared_says_so() {
        let output = OutputVerdict { name: "f".into(), comparison: None };
        assert!(output_lines(&output, 4, &[]).contains("could not be compared"));
    }
}
