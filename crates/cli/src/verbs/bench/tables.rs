//! What the measurements say to people. Rows are printed as they are measured, so every width is fixed beforehand.

use std::path::Path;
use std::time::Duration;

use tensortap_bench::{
    CallLoop, CaptureCase, DiffBenchReport, DiffCase, DispatchCase, ExportRatio, Listed, Machine, OffCase,
    Overhead, Pairs, Rates, RecordCase, ServeCase, ServeMemory, ServeStart, Small, Spread, StatsRatio,
    Throughput,
};
use tensortap_query::number::{byte_rate, bytes, counted, grouped, rate, significant, time};

use crate::fit::{Column, Fit, Line};

fn describe(machine: &Machine) -> String {
    let Machine { cpus, cpu_model, architecture, os, version, debug_assertions } = machine;
    let model = cpu_model.as_ref().map_or(String::new(), |model| format!(" ({model})"));
    let build = if *debug_assertions {
        "with debug assertions, slower than a release build"
    } else {
        "release build"
    };
    format!("{}{model}, {architecture} {os}, tensortap {version} {build}", counted(*cpus as u64, "CPU"))
}

/// What to keep in mind.
pub fn foot(notes: &[&str], load: Option<f64>) -> String {
    let notes = notes.iter().fold("\n".to_string(), |text, note| text + note + "\n");
    format!("{notes}{}", load_text(load, " at the end\n"))
}

/// How busy the machine is, if it says so.
fn load_text(load: Option<f64>, then: &str) -> String {
    load.map_or(String::new(), |load| format!("load average {load:.2}{then}"))
}

/// The least and the greatest measurement.
fn ends(spread: &Spread) -> String {
    format!("{} – {}", significant(spread.min, 3), significant(spread.max, 3))
}

/// What became of a target.
fn met_word(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

fn seconds(seconds: f64) -> String {
    time(Duration::from_secs_f64(seconds))
}

// Dispatch

/// What was measured on what.
pub fn dispatch_head(machine: &Machine, tasks: u64, repeat: u32) -> String {
    let runs = counted(repeat.into(), "run");
    format!("{}\n{} empty tasks, median of {runs}\n", describe(machine), grouped(tasks))
}

/// Begins the rows of [`call_loop`].
pub fn call_loop_head() -> String {
    format!("\na plain loop that calls the kernels in this process\n{}", call_loops().head())
}

/// The yardstick of a shape.
pub fn call_loop(call_loop: &CallLoop) -> String {
    let CallLoop { shape, rates } = call_loop;
    call_loops().row(&[shape, rate(rates.median).as_str(), &rates_ends(rates)])
}

/// Begins the rows of a runtime.
pub fn runtime_head(runtime: &str) -> String {
    let table = dispatch_cases();
    format!("\n{runtime}\n{}{}", table.left_out(), table.head())
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

fn call_loops() -> Line<3> {
    let columns = [("SHAPE", 11, false), ("TASKS/S", 7, true), ("MIN – MAX", 15, true)];
    Line::of(columns, Fit::terminal(&[]).indented(2))
}

fn dispatch_cases() -> Line<7> {
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

// Capture

/// What was measured on what; begins the rows of [`capture_case`].
pub fn capture_head(machine: &Machine, load: Option<f64>, repeat: u32) -> String {
    let rounds = counted(repeat.into(), "round");
    let head = head_of(&capture_cases());
    format!(
        "{}\n{}median of {rounds}\n\nnanoseconds per record\n{head}",
        describe(machine),
        load_text(load, ", ")
    )
}

/// Tensors of one size, dtype and view.
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

fn capture_cases() -> Line<9> {
    let columns = [
        ("VIEW", 10, false),
        ("DTYPE", 13, false),
        ("BYTES", 9, true),
        ("RECORD", 7, true),
        ("COPY", 7, true),
        ("LIMIT", 7, true),
        ("OF THE LIMIT", 12, true),
        ("MIN – MAX", 15, true),
        ("RATE", 9, true),
    ];
    Line::of(columns, Fit::terminal(&["MIN – MAX", "RATE"]).indented(2))
}

// Record

/// What was measured on what; begins the rows of [`off_case`].
pub fn record_head(machine: &Machine, load: Option<f64>, repeat: u32) -> String {
    let rounds = counted(repeat.into(), "round");
    let head = head_of(&off_cases());
    let about = "nanoseconds of a call where nothing records";
    format!("{}\n{}median of {rounds}\n\n{about}\n{head}", describe(machine), load_text(load, ", "))
}

/// A call where nothing records.
pub fn off_case(row: &OffCase) -> String {
    let met = if row.met { "met" } else { "missed" };
    off_cases().row(&[
        row.program,
        &significant(row.call_ns.median, 2),
        &ends(&row.call_ns),
        &format!("{} {met}", row.goal_ns),
    ])
}

fn off_cases() -> Line<4> {
    let columns = [("PROGRAM", 10, false), ("CALL", 7, true), ("MIN – MAX", 15, true), ("GOAL", 10, true)];
    Line::of(columns, Fit::terminal(&[]).indented(2))
}

/// Begins the rows of [`record_case`].
pub fn record_cases_head() -> String {
    format!("\nnanoseconds per record, with a session\n{}", head_of(&record_cases()))
}

/// Records of one size.
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

fn record_cases() -> Line<6> {
    let columns = [
        ("BYTES", 9, true),
        ("ALONE", 8, true),
        ("AMONG 4", 8, true),
        ("COPY", 8, true),
        ("LIMIT", 8, true),
        ("OF THE LIMIT", 12, true),
    ];
    Line::of(columns, Fit::terminal(&[]).indented(2))
}

// Dump

/// What was measured on what.
pub fn dump_head(machine: &Machine, load: Option<f64>, dir: &Path, free_bytes: u64) -> String {
    let (dir, free) = (dir.display(), bytes(free_bytes));
    format!("{}\n{}writing to {dir}, {free} free\n", describe(machine), load_text(load, ", "))
}

/// Begins the rows of [`throughput`].
pub fn throughput_head(total: u64, pairs: u32) -> String {
    let runs = counted(pairs.into(), "pair");
    let head = head_of(&throughputs());
    format!(
        "\npayloads: {} in tensors of 1 MiB, no deduplication, median of {runs}; the limit is the plain write\n{head}",
        bytes(total)
    )
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
        ("OF LIMIT", 8, true),
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

// Read

/// What was measured on what.
pub fn read_head(machine: &Machine, load: Option<f64>) -> String {
    format!("{}\n{}", describe(machine), load_text(load, "\n"))
}

/// Listing.
pub fn list(row: &Listed) -> String {
    let Listed { records, seconds, anonymous_bytes, target_s, target_bytes, met } = row;
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

/// Until a server answers; begins the rows of [`serve_case`].
pub fn serve_start(records: u64, start: &ServeStart) -> String {
    let ServeStart { address_s, first_rows_s, tasks_s } = *start;
    let [address, rows, tasks] = [address_s, first_rows_s, tasks_s].map(seconds);
    format!(
        "\nserve of {} records: address after {address}, first rows after {rows}, tasks after {tasks}\n\n{:<26} {:>7} {:>10} {:>10}  {}\n",
        grouped(records),
        "ANSWER",
        "ASKED",
        "MEDIAN",
        "P99",
        "MEDIAN BELOW 100 ms"
    )
}

/// Answers of one kind.
pub fn serve_case(row: &ServeCase) -> String {
    let ServeCase { what, asked, median_s, p99_s, met, .. } = *row;
    let [median, p99] = [median_s, p99_s].map(seconds);
    format!("{what:<26} {:>7} {median:>10} {p99:>10}  {}\n", grouped(asked.into()), met_word(met))
}

/// Memory of a server and its page.
pub fn serve_memory(memory: &ServeMemory) -> String {
    let ServeMemory { anonymous_bytes, peak_bytes, page_bytes } = *memory;
    let [anonymous, peak] = [anonymous_bytes, peak_bytes].map(bytes);
    let page = page_bytes.map_or("not measured: there is no chromium".into(), bytes);
    format!("\nmemory of the server: {anonymous} anonymous, {peak} at most; of the page: {page}\n")
}

/// Begins the rows of [`stats`] and [`export`].
pub fn ratio_head(total: u64, pairs: u32) -> String {
    let runs = counted(pairs.into(), "pair");
    let table = ratios();
    let (left_out, head) = (table.left_out(), table.head());
    format!("\npayload: {} in tensors of 1 MiB, median of {runs}\n{left_out}{head}", bytes(total))
}

/// Statistics against plain reads.
pub fn stats(row: &StatsRatio) -> String {
    ratio(&format!("stats {}", row.dtype), "read() of 1 MiB", &row.pairs)
}

/// An export against a copy.
pub fn export(row: &ExportRatio) -> String {
    ratio("export npy", "cp --reflink=never", &row.pairs)
}

fn ratio(what: &str, against: &str, pairs: &Pairs) -> String {
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

fn ratios() -> Line<7> {
    let columns = [
        ("WHAT", 19, false),
        ("LIMIT", 18, false),
        ("PLAIN", 9, true),
        ("TENSORTAP", 9, true),
        ("OF LIMIT", 8, true),
        ("MIN – MAX", 15, true),
        ("TARGET", 10, false),
    ];
    Line::of(columns, Fit::terminal(&["MIN – MAX", "PLAIN", "LIMIT"]).indented(2))
}

// Diff

/// Everything for people.
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
    text += &table.left_out();
    text += &table.head();
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

fn diff_cases() -> Line<9> {
    let columns = [
        ("SET", 13, false),
        ("THREADS", 7, true),
        ("TIME", 7, true),
        ("BOTH SIDES", 10, true),
        ("OF LIMIT", 8, true),
        ("NUMPY / OURS", 12, true),
        ("MIN – MAX", 13, true),
        ("PER CORE", 8, true),
        ("TARGET", 9, false),
    ];
    Line::of(columns, Fit::terminal(&["MIN – MAX", "OF LIMIT", "PER CORE"]).indented(2))
}
