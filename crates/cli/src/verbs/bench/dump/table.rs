//! Rows are printed as they are measured, so every width is fixed beforehand.

use std::path::Path;
use std::time::Duration;

use super::overhead::Overhead;
use super::small::Small;
use super::throughput::Throughput;
use crate::fit::{Column, Fit, Line};
use crate::verbs::bench::machine::Machine;
use crate::verbs::bench::words::{ends, load_text, met_word};
use tensortap_query::number::{byte_rate, bytes, counted, grouped, rate, significant, time};

/// What was measured on what.
pub fn head(machine: &Machine, load: Option<f64>, dir: &Path, free_bytes: u64) -> String {
    let (dir, free) = (dir.display(), bytes(free_bytes));
    format!("{}\n{}writing to {dir}, {free} free\n", machine.describe(), load_text(load, ", "))
}

/// Begins the rows of [`throughput`].
pub fn throughput_head(total: u64, pairs: u32) -> String {
    let runs = counted(pairs.into(), "pair");
    let head = head_of(&throughputs());
    format!("\npayloads: {} in tensors of 1 MiB, no deduplication, median of {runs}\n{head}", bytes(total))
}

/// Dump against plain write.
pub fn throughput(row: &Throughput) -> String {
    let target = format!("{} {}", row.target_ratio, met_word(row.met));
    throughputs().row(&[
        &row.platform,
        &byte_rate(row.plain_bytes_per_s.median),
        &byte_rate(row.dump_bytes_per_s.median),
        &significant(row.ratio.median, 3),
        &ends(&row.ratio),
        &seconds(row.held_up_s.median),
        &target,
    ])
}

fn throughputs() -> Line<7> {
    let columns = [
        ("PLATFORM", 8, false),
        ("PLAIN WRITE", 11, true),
        ("DUMP", 9, true),
        ("RATIO", 6, true),
        ("MIN – MAX", 15, true),
        ("HELD UP", 8, true),
        ("TARGET", 10, false),
    ];
    fitting(columns)
}

/// Begins the rows of [`overhead`].
pub fn overhead_head(pairs: u32) -> String {
    let runs = counted(pairs.into(), "pair");
    let head = head_of(&overheads());
    format!("\nrun time with a dump over without, median of {runs}\n{head}")
}

/// With a dump against without.
pub fn overhead(row: &Overhead) -> String {
    overheads().row(&[
        row.scene,
        &row.platform,
        &seconds(row.without_s.median),
        &seconds(row.with_s.median),
        &significant(row.ratio.median, 3),
        &ends(&row.ratio),
        &seconds(row.held_up_s.median),
    ])
}

fn overheads() -> Line<7> {
    let columns = [
        ("SCENE", 15, false),
        ("PLATFORM", 8, false),
        ("WITHOUT", 8, true),
        ("WITH DUMP", 9, true),
        ("RATIO", 6, true),
        ("MIN – MAX", 15, true),
        ("HELD UP", 8, true),
    ];
    fitting(columns)
}

/// Begins the rows of [`small`].
pub fn small_head(tasks: u64, pairs: u32) -> String {
    let runs = counted(pairs.into(), "pair");
    let head = head_of(&smalls());
    format!("\ntensors of 256 bytes: {} tasks of two, median of {runs}\n{head}", grouped(tasks))
}

/// Small records per second, and what bounds them.
pub fn small(row: &Small) -> String {
    let target = format!("{} {}", rate(row.target_records_per_s), met_word(row.met));
    let cells = smalls().row(&[
        &row.platform,
        &rate(row.records_per_s.median),
        &format!("{} – {}", rate(row.records_per_s.min), rate(row.records_per_s.max)),
        &rate(row.records_per_s_closed.median),
        &rate(row.records_per_s_captured.median),
        &target,
    ]);
    format!("{cells}            bound by {}\n", row.bound)
}

fn smalls() -> Line<6> {
    let columns = [
        ("PLATFORM", 8, false),
        ("RECORDS/S", 9, true),
        ("MIN – MAX", 17, true),
        ("CLOSED", 8, true),
        ("IN CAPTURE", 10, true),
        ("TARGET", 12, false),
    ];
    fitting(columns)
}

fn fitting<const N: usize>(columns: [Column; N]) -> Line<N> {
    Line::of(columns, Fit::terminal(&["MIN – MAX", "HELD UP", "CLOSED"]).indented(2))
}

fn head_of<const N: usize>(table: &Line<N>) -> String {
    table.left_out() + &table.head()
}

fn seconds(seconds: f64) -> String {
    time(Duration::from_secs_f64(seconds))
}
