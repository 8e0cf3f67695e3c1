//! Rows are printed as they are measured, so every width is fixed beforehand.

use super::measure::{CallLoop, Measured};
use super::rates::Rates;
use crate::number::{counted, grouped, rate, significant};
use crate::verbs::bench::machine::Machine;

/// What was measured on what.
pub fn head(machine: &Machine, tasks: u64, repeat: u32) -> String {
    let runs = counted(repeat.into(), "run");
    format!("{}\n{} empty tasks, median of {runs}\n", machine.describe(), grouped(tasks))
}

/// Begins the rows of a shape.
pub fn call_loop(call_loop: &CallLoop) -> String {
    let CallLoop { shape, rates } = call_loop;
    let head = cells(["PLATFORM", "RUNTIME", "BLOCKS", "SCHEDULERS", "TASKS/S", "MIN – MAX", "RATIO"]);
    let loops = cells(["", "call loop", "", "", &rate(rates.median), &spread(rates), "1"]);
    format!("\n{shape}\n{head}{loops}")
}

/// One case.
pub fn row(measured: &Measured) -> String {
    let Measured { platform, runtime, blocks, schedulers, rates, ratio, .. } = measured;
    let (blocks, schedulers) = (blocks.to_string(), schedulers.to_string());
    let (tasks_per_s, ratio) = (rate(rates.median), significant(*ratio, 3));
    cells([platform, runtime, &blocks, &schedulers, &tasks_per_s, &spread(rates), &ratio])
}

/// What to keep in mind.
pub fn foot(notes: &[&str]) -> String {
    notes.iter().fold("\n".into(), |text, note| text + note + "\n")
}

fn spread(rates: &Rates) -> String {
    format!("{} – {}", rate(rates.min), rate(rates.max))
}

fn cells(cells: [&str; 7]) -> String {
    let [platform, runtime, blocks, schedulers, tasks_per_s, spread, ratio] = cells;
    format!(
        "  {platform:8}  {runtime:24}  {blocks:>6}  {schedulers:>10}  {tasks_per_s:>7}  {spread:>17}  {ratio:>8}\n"
    )
}
