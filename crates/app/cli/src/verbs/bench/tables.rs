//! The tables of `tensortap bench`. Rows are printed as soon as they are measured, so all widths are fixed.

use std::path::Path;
use std::time::Duration;

use tensortap_bench::{
    CallLoop, CaptureCase, DiffBenchReport, DiffCase, DisabledCase, DispatchCase, ExportRatio, ListCost,
    Machine, Overhead, PairedTimes, Rates, RecordCase, ServeCase, ServeMemory, ServeStart, SmallTensors,
    Spread, StatsRatio, Throughput,
};
use tensortap_query::number::{byte_rate, bytes, counted, grouped, rate, significant, time};

use crate::table::{Column, Fit, Layout};

fn describe(machine: &Machine) -> String {
    let Machine { cpus, cpu_model, architecture, os, version, debug_assertions } = machine;
    let model = cpu_model.as_ref().map_or(String::new(), |model| format!(" ({model})"));
    let build = if *debug_assertions {
        "build with debug assertions, slower than a release build"
    } else {
        "release build"
    };
    format!("{}{model}, {architecture} {os}, tensortap {version} {build}", counted(*cpus as u64, "CPU"))
}

/// The notes below the tables.
pub fn foot(notes: &[&str], load: Option<f64>) -> String {
    let notes = notes.iter().fold("\n".to_string(), |text, note| text + note + "\n");
    format!("{notes}{}", load_text(load, " at the end\n"))
}

/// The load average, if the system reports it.
fn load_text(load: Option<f64>, then: &str) -> String {
    load.map_or(String::new(), |load| format!("load average {load:.2}{then}"))
}

/// The range of the measurements.
fn ends(spread: &Spread) -> String {
    format!("{} – {}", significant(spread.min, 3), significant(spread.max, 3))
}

/// Whether a target was met.
fn met_word(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

fn seconds(seconds: f64) -> String {
    time(Duration::from_secs_f64(seconds))
}

// Dispatch

/// The machine and the kind of measurement.
pub fn dispatch_head(machine: &Machine, tasks: u64, repeat: u32) -> String {
    let runs = counted(repeat.into(), "run");
    format!("{}\n{} empty tasks, median of {runs}\n", describe(machine), grouped(tasks))
}

/// The headings of [`call_loop`].
pub fn call_loop_head() -> String {
    format!("\nbaseline: a plain loop that calls the kernels in this process\n{}", call_loops().head())
}

/// The baseline of a shape.
pub fn call_loop(call_loop: &CallLoop) -> String {
    let CallLoop { shape, rates } = call_loop;
    call_loops().row(&[shape, rate(rates.median).as_str(), &rates_ends(rates)])
}

/// The headings of a runtime.
pub fn runtime_head(runtime: &str) -> String {
    let table = dispatch_cases();
    format!("\n{runtime}\n{}", head_of(&table))
}

/// One case.
pub fn dispatch_case(measured: &DispatchCase) -> String {
    let DispatchCase { shape, platform, blocks, schedulers, rates, ratio, .. } = measured;
    let (blocks, schedulers) = (blocks.to_string(), schedulers.to_string());
    let (tasks_per_s, ratio) = (rate(rates.median), significant(*ratio, 3));
    dispatch_cases().row(&[shape, *platform, &blocks, &schedulers, &tasks_per_s, &rates_ends(rates), &ratio])
}

fn rates_ends(rates: &Rates) -> String {
    format!("{} – {}", rate(rates.min), rate(rates.max))
}

fn call_loops() -> Layout {
    let columns = [Column::text("SHAPE", 11), Column::number("TASKS/S", 7), Column::number("MIN – MAX", 15)];
    Layout::new(&columns, Fit::terminal(&[]).indented(2))
}

fn dispatch_cases() -> Layout {
    let columns = [
        Column::text("SHAPE", 11),
        Column::text("PLATFORM", 8),
        Column::number("BLOCKS", 6),
        Column::number("SCHEDULERS", 10),
        Column::number("TASKS/S", 7),
        Column::number("MIN – MAX", 15),
        Column::number("RATIO", 8),
    ];
    Layout::new(&columns, Fit::terminal(&["MIN – MAX", "PLATFORM"]).indented(2))
}

// Capture

/// The machine and the headings of [`capture_case`].
pub fn capture_head(machine: &Machine, load: Option<f64>, repeat: u32) -> String {
    let rounds = counted(repeat.into(), "round");
    let head = head_of(&capture_cases());
    format!(
        "{}\n{}median of {rounds}\n\nnanoseconds per record\n{head}",
        describe(machine),
        load_text(load, ", ")
    )
}

/// The row for one size, dtype and view.
pub fn capture_case(row: &CaptureCase) -> String {
    let ns = |spread: &Spread| significant(spread.median, 3);
    capture_cases().row(&[
        row.view,
        row.dtype,
        &bytes(row.bytes),
        &ns(&row.record_ns),
        &ns(&row.copy_ns),
        &ns(&row.limit_ns),
        &significant(row.of_the_limit.median, 2),
        &ends(&row.of_the_limit),
        &byte_rate(row.bytes_per_s),
    ])
}

fn capture_cases() -> Layout {
    let columns = [
        Column::text("VIEW", 10),
        Column::text("DTYPE", 13),
        Column::number("BYTES", 9),
        Column::number("RECORD", 7),
        Column::number("COPY", 7),
        Column::number("LIMIT", 7),
        Column::number("OF LIMIT", 12),
        Column::number("MIN – MAX", 15),
        Column::number("RATE", 9),
    ];
    Layout::new(&columns, Fit::terminal(&["MIN – MAX", "RATE"]).indented(2))
}

// Record

/// The machine and the headings of [`off_case`].
pub fn record_head(machine: &Machine, load: Option<f64>, repeat: u32) -> String {
    let rounds = counted(repeat.into(), "round");
    let head = head_of(&off_cases());
    let about = "nanoseconds per call without a recorder";
    format!("{}\n{}median of {rounds}\n\n{about}\n{head}", describe(machine), load_text(load, ", "))
}

/// The row for calls without a recorder.
pub fn off_case(row: &DisabledCase) -> String {
    let met = met_word(row.met);
    off_cases().row(&[
        row.program,
        &significant(row.call_ns.median, 2),
        &ends(&row.call_ns),
        &format!("{} {met}", row.goal_ns),
    ])
}

fn off_cases() -> Layout {
    let columns = [
        Column::text("PROGRAM", 10),
        Column::number("CALL", 7),
        Column::number("MIN – MAX", 15),
        Column::number("GOAL", 10),
    ];
    Layout::new(&columns, Fit::terminal(&[]).indented(2))
}

/// The headings of [`record_case`].
pub fn record_cases_head() -> String {
    format!("\nnanoseconds per record with a recorder\n{}", head_of(&record_cases()))
}

/// The row for records of one size.
pub fn record_case(row: &RecordCase) -> String {
    let ns = |spread: &Spread| significant(spread.median, 3);
    record_cases().row(&[
        &bytes(row.bytes),
        &ns(&row.alone_ns),
        &ns(&row.among_four_ns),
        &ns(&row.copy_ns),
        &ns(&row.limit_ns),
        &significant(row.of_the_limit, 2),
    ])
}

fn record_cases() -> Layout {
    let columns = [
        Column::number("BYTES", 9),
        Column::number("SINGLE", 8),
        Column::number("OF FOUR", 8),
        Column::number("COPY", 8),
        Column::number("LIMIT", 8),
        Column::number("OF LIMIT", 12),
    ];
    Layout::new(&columns, Fit::terminal(&[]).indented(2))
}

// Dump

/// The machine and the kind of measurement.
pub fn dump_head(machine: &Machine, load: Option<f64>, dir: &Path, free_bytes: u64) -> String {
    let (dir, free) = (dir.display(), bytes(free_bytes));
    format!("{}\n{}writing to {dir}, {free} free\n", describe(machine), load_text(load, ", "))
}

/// The headings of [`throughput`].
pub fn throughput_head(total: u64, pairs: u32) -> String {
    let runs = counted(pairs.into(), "pair");
    let head = head_of(&throughputs());
    format!(
        "\npayloads: {} in tensors of 1 MiB, no deduplication, median of {runs}; the limit is the plain write\n{head}",
        bytes(total)
    )
}

/// The row that compares a dump with a plain write.
pub fn throughput(row: &Throughput) -> String {
    let target = format!("{} {}", row.target_ratio, met_word(row.met));
    throughputs().row(&[
        &row.platform,
        &row.files.to_string(),
        &byte_rate(row.plain_bytes_per_s.median),
        &byte_rate(row.dump_bytes_per_s.median),
        &significant(row.ratio.median, 3),
        &ends(&row.ratio),
        &seconds(row.held_up_s.median),
        &target,
    ])
}

fn throughputs() -> Layout {
    let columns = [
        Column::text("PLATFORM", 8),
        Column::number("FILES", 5),
        Column::number("PLAIN WRITE", 11),
        Column::number("DUMP", 9),
        Column::number("OF LIMIT", 8),
        Column::number("MIN – MAX", 15),
        Column::number("HELD UP", 8),
        Column::text("TARGET", 10),
    ];
    fitting(&columns)
}

/// The headings of [`overhead`].
pub fn overhead_head(pairs: u32) -> String {
    let runs = counted(pairs.into(), "pair");
    let head = head_of(&overheads());
    format!("\nrun time with and without a dump, median of {runs}\n{head}")
}

/// The row that compares runs with and without a dump.
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

fn overheads() -> Layout {
    let columns = [
        Column::text("SCENE", 15),
        Column::text("PLATFORM", 8),
        Column::number("WITHOUT", 8),
        Column::number("WITH DUMP", 9),
        Column::number("RATIO", 6),
        Column::number("MIN – MAX", 15),
        Column::number("HELD UP", 8),
    ];
    fitting(&columns)
}

/// The headings of [`small`].
pub fn small_head(tasks: u64, pairs: u32) -> String {
    let runs = counted(pairs.into(), "pair");
    let head = head_of(&smalls());
    format!("\ntensors of 256 bytes: {} tasks of two, median of {runs}\n{head}", grouped(tasks))
}

/// The row for small records per second, and what limits them.
pub fn small(row: &SmallTensors) -> String {
    let target = format!("{} {}", rate(row.target_records_per_s), met_word(row.met));
    let cells = smalls().row(&[
        &row.platform,
        &rate(row.records_per_s.median),
        &format!("{} – {}", rate(row.records_per_s.min), rate(row.records_per_s.max)),
        &rate(row.records_per_s_closed.median),
        &rate(row.records_per_s_captured.median),
        &target,
    ]);
    format!("{cells}            limited by {}\n", row.bound)
}

fn smalls() -> Layout {
    let columns = [
        Column::text("PLATFORM", 8),
        Column::number("RECORDS/S", 9),
        Column::number("MIN – MAX", 17),
        Column::number("CLOSED", 8),
        Column::number("IN CAPTURE", 10),
        Column::text("TARGET", 12),
    ];
    fitting(&columns)
}

fn fitting(columns: &[Column]) -> Layout {
    Layout::new(columns, Fit::terminal(&["MIN – MAX", "HELD UP", "CLOSED"]).indented(2))
}

fn head_of(table: &Layout) -> String {
    table.left_out_note() + &table.head()
}

// Read

/// The machine and the kind of measurement.
pub fn read_head(machine: &Machine, load: Option<f64>) -> String {
    format!("{}\n{}", describe(machine), load_text(load, "\n"))
}

/// The line about listing.
pub fn list(row: &ListCost) -> String {
    let ListCost { records, seconds, anonymous_bytes, target_s, target_bytes, met } = row;
    let seconds_text = self::seconds(seconds.median);
    let targets = format!("{target_s} s, {}", bytes(*target_bytes));
    format!(
        "\nlist of {} records: {seconds_text} ({} s), {} of anonymous memory; target below {targets}: {}\n",
        grouped(*records),
        ends(seconds),
        bytes(*anonymous_bytes),
        met_word(*met),
    )
}

/// How long a server takes to start, and the headings of [`serve_case`].
pub fn serve_start(records: u64, start: &ServeStart) -> String {
    let ServeStart { address_s, first_rows_s, tasks_s } = *start;
    let [address, rows, tasks] = [address_s, first_rows_s, tasks_s].map(seconds);
    let head = head_of(&serve_cases());
    let records = grouped(records);
    format!(
        "\nserving {records} records: address after {address}, first rows after {rows}, tasks after {tasks}\n\n{head}"
    )
}

/// The row for responses of one kind.
pub fn serve_case(row: &ServeCase) -> String {
    let ServeCase { what, asked, median_s, p99_s, met, .. } = *row;
    let [median, p99] = [median_s, p99_s].map(seconds);
    serve_cases().row(&[what, &grouped(asked.into()), &median, &p99, met_word(met)])
}

fn serve_cases() -> Layout {
    let columns = [
        Column::text("ANSWER", 26),
        Column::number("ASKED", 7),
        Column::number("MEDIAN", 9),
        Column::number("P99", 9),
        Column::text("MEDIAN BELOW 100 ms", 0),
    ];
    Layout::new(&columns, Fit::terminal(&[]))
}

/// The line about the memory of a server and its page.
pub fn serve_memory(memory: &ServeMemory) -> String {
    let ServeMemory { anonymous_bytes, peak_bytes, page_bytes } = *memory;
    let [anonymous, peak] = [anonymous_bytes, peak_bytes].map(bytes);
    let page = page_bytes.map_or("not measured, chromium is not installed".into(), bytes);
    format!("\nserver memory: {anonymous} anonymous, peak {peak}; page memory: {page}\n")
}

/// The headings of [`stats`] and [`export`].
pub fn ratio_head(total: u64, pairs: u32) -> String {
    let runs = counted(pairs.into(), "pair");
    let head = head_of(&ratios());
    format!("\npayload: {} in tensors of 1 MiB, median of {runs}\n{head}", bytes(total))
}

/// The row that compares statistics with plain reads.
pub fn stats(row: &StatsRatio) -> String {
    ratio(&format!("stats {}", row.dtype), "read() of 1 MiB", &row.pairs)
}

/// The row that compares an export with a copy.
pub fn export(row: &ExportRatio) -> String {
    ratio("export npy", "cp --reflink=never", &row.pairs)
}

fn ratio(what: &str, against: &str, pairs: &PairedTimes) -> String {
    ratios().row(&[
        what,
        against,
        &byte_rate(pairs.plain_bytes_per_s.median),
        &byte_rate(pairs.tensortap_bytes_per_s.median),
        &significant(pairs.ratio.median, 3),
        &ends(&pairs.ratio),
        &format!("{} {}", pairs.target_ratio, met_word(pairs.met)),
    ])
}

fn ratios() -> Layout {
    let columns = [
        Column::text("WHAT", 19),
        Column::text("LIMIT", 18),
        Column::number("PLAIN", 9),
        Column::number("TENSORTAP", 9),
        Column::number("OF LIMIT", 8),
        Column::number("MIN – MAX", 15),
        Column::text("TARGET", 10),
    ];
    Layout::new(&columns, Fit::terminal(&["MIN – MAX", "PLAIN", "LIMIT"]).indented(2))
}

// Diff

/// The whole report of `bench diff`.
pub fn diff_text(report: &DiffBenchReport) -> String {
    let DiffBenchReport { machine, instructions, bytes_per_side, repeat, numpy, cases, notes, .. } = report;
    let load = report.load_average_before.map_or(String::new(), |load| format!(", load average {load:.2}"));
    let rounds = counted((*repeat).into(), "round");
    let size = bytes(*bytes_per_side);
    let mut text = format!(
        "{}\nfloat32, {size} on each side, {instructions}, median of {rounds}{load}\n\n",
        describe(machine)
    );
    let table = diff_cases();
    text += &head_of(&table);
    cases.iter().for_each(|case| text += &table.row(&diff_case(case)));
    if let Some(numpy) = numpy {
        let name = format!("numpy {}", numpy.version);
        let (took, rate) = (seconds(numpy.seconds.median), byte_rate(numpy.bytes_per_s.median));
        text += &table.row(&[&name, "1", &took, &rate, "", "1", "", "1", ""]);
    }
    text += "\n";
    notes.iter().for_each(|note| text += &format!("{note}\n"));
    text
}

fn diff_case(case: &DiffCase) -> [String; 9] {
    let none = || "-".to_string();
    let ratio = case.numpy_ratio.map_or_else(none, |ratio| significant(ratio.median, 3));
    let target = match (case.target_ratio, case.met) {
        (Some(target), Some(met)) => format!("{target} {}", met_word(met)),
        _ => String::new(),
    };
    [
        case.set.into(),
        case.threads.to_string(),
        seconds(case.seconds.median),
        byte_rate(case.bytes_per_s.median),
        significant(case.share_of_reading, 2),
        ratio,
        case.numpy_ratio.map_or_else(none, |ratio| ends(&ratio)),
        case.numpy_ratio_per_core.map_or_else(none, |ratio| significant(ratio, 3)),
        target,
    ]
}

fn diff_cases() -> Layout {
    let columns = [
        Column::text("SET", 13),
        Column::number("THREADS", 7),
        Column::number("TIME", 7),
        Column::number("BOTH SIDES", 10),
        Column::number("OF LIMIT", 8),
        Column::number("SPEEDUP", 12),
        Column::number("MIN – MAX", 13),
        Column::number("PER CORE", 8),
        Column::text("TARGET", 9),
    ];
    Layout::new(&columns, Fit::terminal(&["MIN – MAX", "OF LIMIT", "PER CORE"]).indented(2))
}
