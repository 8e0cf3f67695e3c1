//! Rows are printed as they are measured, so every width is fixed beforehand.

use super::measure::{CallLoop, Measured};
use super::rates::Rates;
use crate::fit::{Fit, Line};
use crate::verbs::bench::machine::Machine;
use tensortap_query::number::{counted, grouped, rate, significant};

/// What was measured on what.
pub fn head(machine: &Machine, tasks: u64, repeat: u32) -> String {
    let runs = counted(repeat.into(), "run");
    format!("{}\n{} empty tasks, median of {runs}\n", machine.describe(), grouped(tasks))
}

/// Begins the rows of [`call_loop`].
pub fn call_loop_head() -> String {
    format!("\na plain loop that calls the kernels in this process\n{}", call_loops().head())
}

/// The yardstick of a shape.
pub fn call_loop(call_loop: &CallLoop) -> String {
    let CallLoop { shape, rates } = call_loop;
    call_loops().row(&[shape, rate(rates.median).as_str(), &spread(rates)])
}

/// Begins the rows of a runtime.
pub fn runtime_head(runtime: &str) -> String {
    let table = cases();
    format!("\n{runtime}\n{}{}", table.left_out(), table.head())
}

/// One case.
pub fn row(measured: &Measured) -> String {
    let Measured { shape, platform, blocks, schedulers, rates, ratio, .. } = measured;
    let (blocks, schedulers) = (blocks.to_string(), schedulers.to_string());
    let (tasks_per_s, ratio) = (rate(rates.median), significant(*ratio, 3));
    cases().row(&[shape, *platform, &blocks, &schedulers, &tasks_per_s, &spread(rates), &ratio])
}

/// What to keep in mind.
pub fn foot(notes: &[&str]) -> String {
    notes.iter().fold("\n".into(), |text, note| text + note + "\n")
}

fn spread(rates: &Rates) -> String {
    format!("{} – {}", rate(rates.min), rate(rates.max))
}

fn call_loops() -> Line<3> {
    let columns = [("SHAPE", 11, false), ("TASKS/S", 7, true), ("MIN – MAX", 15, true)];
    Line::of(columns, Fit::terminal(&[]).indented(2))
}

fn cases() -> Line<7> {
    let columns = [
        ("SHAPE", 11, false),
        ("PLATFORM", 8, false),
        ("BLOCKS", 6, true),
        ("SCHEDULERS", 10, true),
        ("TASKS/S", 7, true),
        ("MIN – MAX", 15, true),
        ("RATIO", 8, true),
    ];
    Line::of(columns, Fit::terminal(&["MIN – MAX", "PLATFORM"]).indented(2))
}
