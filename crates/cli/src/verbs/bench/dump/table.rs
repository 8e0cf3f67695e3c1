//! Rows are printed as they are measured, so every width is fixed beforehand.

use std::path::Path;
use std::time::Duration;

use super::overhead::Overhead;
use super::small::Small;
use super::throughput::Throughput;
use crate::number::{byte_rate, bytes, counted, grouped, rate, significant, time};
use crate::verbs::bench::machine::Machine;
use crate::verbs::bench::words::{ends, load_text, met_word};

/// What was measured on what.
pub fn head(machine: &Machine, load: Option<f64>, dir: &Path, free_bytes: u64) -> String {
    let (dir, free) = (dir.display(), bytes(free_bytes));
    format!("{}\n{}writing to {dir}, {free} free\n", machine.describe(), load_text(load, ", "))
}

/// Begins the rows of [`throughput`].
pub fn throughput_head(total: u64, pairs: u32) -> String {
    let runs = counted(pairs.into(), "pair");
    let head =
        throughput_cells(["PLATFORM", "PLAIN WRITE", "DUMP", "RATIO", "MIN – MAX", "HELD UP", "TARGET"]);
    format!("\npayloads: {} in tensors of 1 MiB, no deduplication, median of {runs}\n{head}", bytes(total))
}

/// Dump against plain write.
pub fn throughput(row: &Throughput) -> String {
    let target = format!("{} {}", row.target_ratio, met_word(row.met));
    throughput_cells([
        &row.platform,
        &byte_rate(row.plain_bytes_per_s.median),
        &byte_rate(row.dump_bytes_per_s.median),
        &significant(row.ratio.median, 3),
        &ends(&row.ratio),
        &seconds(row.held_up_s.median),
        &target,
    ])
}

fn throughput_cells(cells: [&str; 7]) -> String {
    let [platform, plain, dump, ratio, ends, held_up, target] = cells;
    format!("  {platform:8}  {plain:>11}  {dump:>9}  {ratio:>6}  {ends:>15}  {held_up:>8}  {target}\n")
}

/// Begins the rows of [`overhead`].
pub fn overhead_head(pairs: u32) -> String {
    let runs = counted(pairs.into(), "pair");
    let head = overhead_cells(["SCENE", "PLATFORM", "WITHOUT", "WITH DUMP", "RATIO", "MIN – MAX", "HELD UP"]);
    format!("\nrun time with a dump over without, median of {runs}\n{head}")
}

/// With a dump against without.
pub fn overhead(row: &Overhead) -> String {
    overhead_cells([
        row.scene,
        &row.platform,
        &seconds(row.without_s.median),
        &seconds(row.with_s.median),
        &significant(row.ratio.median, 3),
        &ends(&row.ratio),
        &seconds(row.held_up_s.median),
    ])
}

fn overhead_cells(cells: [&str; 7]) -> String {
    let [scene, platform, without, with, ratio, ends, held_up] = cells;
    format!("  {scene:15}  {platform:8}  {without:>8}  {with:>9}  {ratio:>6}  {ends:>15}  {held_up:>8}\n")
}

/// Begins the rows of [`small`].
pub fn small_head(tasks: u64, pairs: u32) -> String {
    let runs = counted(pairs.into(), "pair");
    let head = small_cells(["PLATFORM", "RECORDS/S", "MIN – MAX", "CLOSED", "IN CAPTURE", "TARGET"]);
    format!("\ntensors of 256 bytes: {} tasks of two, median of {runs}\n{head}", grouped(tasks))
}

/// Small records per second, and what bounds them.
pub fn small(row: &Small) -> String {
    let target = format!("{} {}", rate(row.target_records_per_s), met_word(row.met));
    let cells = small_cells([
        &row.platform,
        &rate(row.records_per_s.median),
        &format!("{} – {}", rate(row.records_per_s.min), rate(row.records_per_s.max)),
        &rate(row.records_per_s_closed.median),
        &rate(row.records_per_s_captured.median),
        &target,
    ]);
    format!("{cells}            bound by {}\n", row.bound)
}

fn small_cells(cells: [&str; 6]) -> String {
    let [platform, per_s, ends, closed, captured, target] = cells;
    format!("  {platform:8}  {per_s:>9}  {ends:>17}  {closed:>8}  {captured:>10}  {target}\n")
}

fn seconds(seconds: f64) -> String {
    time(Duration::from_secs_f64(seconds))
}
