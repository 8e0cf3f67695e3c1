//! The summary of `run` as text: the run, its dump, and the comparison with a golden.

use std::fmt::Write;

use tensortap::judge::{Metrics, WorstElement};
use tensortap::values::Value;
use tensortap::{DumpLevel, DumpReport, GoldenVerdict, LiveReport, OutputVerdict, RunReport, WrongTask};
use tensortap_query::number::{byte_rate, bytes, counted, counted_in, grouped, significant, time};
use tensortap_query::words::{losses_by_reason, named_task, short_task};

use crate::dump_path::dump_operand;
use crate::output::verdict;
use crate::program::program;
use crate::verbs::loss_words;

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
    for (label, value) in dump_lines(report, again) {
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
        GoldenVerdict::Pass => verdict("PASS", true),
        GoldenVerdict::Fail => verdict("FAIL", false),
        GoldenVerdict::None if report.failure.is_some() => "none: the run did not complete".into(),
        GoldenVerdict::None => "none: the scene has no golden".into(),
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
    if let Some(WorstElement { coordinate, dump, golden, .. }) = &output.first_outside {
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
    let mut text = format!("max error {error}, ");
    text += &match metrics.failing {
        0 => all,
        outside => format!("{} of {all} wrong", grouped(outside)),
    };
    if metrics.mismatched > 0 {
        let among = if metrics.unmatched_nan > 0 {
            format!("{} by NaN", grouped(metrics.unmatched_nan))
        } else {
            format!("{} by infinities", grouped(metrics.mismatched))
        };
        text += &format!(", {among}");
        if let Some(finite) = metrics.max_finite_err() {
            text += &format!("; of finite values {}", significant(finite, 3));
        }
    }
    text
}

/// Coordinates of an element; `[0]` for the only element of a tensor without dimensions.
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
        Value::Complex(real, imaginary) => format!("({real:?}, {imaginary:?})"),
    }
}

/// Labels and values of the lines about the dump. Without a dump: what to do about a wrong result. `again` is the
/// command that repeats the run with a dump.
fn dump_lines(report: &RunReport, again: &str) -> Vec<(&'static str, String)> {
    let Some(dump) = &report.dump else {
        let failed = report.golden == GoldenVerdict::Fail;
        return if failed { recorded("next", again) } else { Vec::new() };
    };
    let mut lines = vec![("dump", contents(dump))];
    if dump.level != DumpLevel::Off {
        lines.push(("  bytes", sizes(dump)));
        if dump.dump_args {
            lines.push(("  args", format!("of {}", dispatches(dump.counters.dispatches))));
        }
    }
    if dump.counters.bytes_captured > 0 {
        lines.push(("  rate", rate(dump, report)));
    }
    lines.push(("  waited", format!("the device waited {} for the dump", time(dump.held_up))));
    lines.push(("  losses", losses(dump).unwrap_or_else(|| "none".into())));
    if dump.counters.filtered_records > 0 || dump.counters.filtered_bytes > 0 {
        lines.push(("  filters", format!("removed {}", kept_out(dump))));
    }
    if let Some(live) = &dump.live {
        lines.extend(live_lines(live, report.tasks));
    }
    lines.push(("  folder", folder(dump)));
    lines.extend(next(dump, report, again));
    lines
}

/// What filters removed. The content of skipped arguments is unknown.
fn kept_out(dump: &DumpReport) -> String {
    let records = |count| match (dump.level, dump.dump_args) {
        (DumpLevel::Off, _) => dispatches(count),
        (_, false) => counted(count, "argument"),
        (_, true) => counted(count, "record"),
    };
    let arguments = (dump.counters.filtered_records > 0).then(|| records(dump.counters.filtered_records));
    let content = (dump.counters.filtered_bytes > 0)
        .then(|| format!("{} of content", bytes(dump.counters.filtered_bytes)));
    arguments.into_iter().chain(content).collect::<Vec<_>>().join(" and ")
}

fn contents(dump: &DumpReport) -> String {
    let level = dump.level.name();
    if dump.level == DumpLevel::Off {
        return format!("arguments of {}", dispatches(dump.counters.dispatches));
    }
    if dump.counters.records == 0 {
        return match dump.level {
            DumpLevel::Marked if dump.counters.filtered_records == 0 => {
                format!("empty, level {level}: the orchestration marks no arguments with dump(..)")
            }
            _ => format!("empty, level {level}"),
        };
    }
    let records = counted(dump.counters.records, "record");
    let (tensors, scalars) =
        (counted(dump.counters.tensors, "tensor"), counted(dump.counters.scalars, "scalar"));
    format!("{records}, level {level}: {tensors}, {scalars}")
}

/// The folder of the dump and its size, including index, manifest and graph.
fn folder(dump: &DumpReport) -> String {
    let (dir, all) = (dump.dir.display(), bytes(dump.folder_bytes));
    match dump.counters.bytes_written {
        0 => format!("{dir}, {all}"),
        written => format!("{dir}, {all} in all, {} of them payloads", bytes(written)),
    }
}

fn dispatches(count: u64) -> String {
    counted_in(count, "dispatch", "dispatches")
}

fn sizes(dump: &DumpReport) -> String {
    if dump.counters.bytes_captured == 0 {
        return "no payload captured".into();
    }
    let (captured, written) = (bytes(dump.counters.bytes_captured), bytes(dump.counters.bytes_written));
    let share = share(dump.counters.deduplicated_bytes, dump.counters.bytes_captured);
    format!("{captured} captured, {written} written, {share} % saved by deduplication")
}

#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn share(part: u64, whole: u64) -> String {
    if part == 0 { "0".into() } else { significant(part as f64 / whole.max(part) as f64 * 100.0, 3) }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(dump: &DumpReport, report: &RunReport) -> String {
    let per_s = dump.counters.bytes_captured as f64 / report.wall.as_secs_f64().max(1e-9);
    format!("{} over the run", byte_rate(per_s))
}

/// What was lost, in words; `None` when nothing was.
pub fn losses(dump: &DumpReport) -> Option<String> {
    let mut parts = Vec::new();
    if dump.counters.dropped_records > 0 {
        // Entries that the host never read can also be tasks and dependencies, which do not count as records.
        let of_any_kind = dump.losses.iter().any(|loss| loss.reason == "not_collected");
        let dropped = match of_any_kind {
            true => counted_in(dump.counters.dropped_records, "entry of any kind", "entries of any kind"),
            false => counted(dump.counters.dropped_records, "record"),
        };
        parts.push(format!("{dropped} dropped{}", reasons(dump)));
    }
    parts.extend(loss_words(&dump.counters));
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn reasons(dump: &DumpReport) -> String {
    let reasons = losses_by_reason(&dump.losses);
    if reasons.is_empty() { reasons } else { format!(" ({reasons})") }
}

/// The suggested next command. After a wrong result, it finds the task. References need content, a golden does not.
fn next(dump: &DumpReport, report: &RunReport, again: &str) -> Vec<(&'static str, String)> {
    let named = dump_operand(&dump.dir);
    let differs = dump.live.as_ref().is_some_and(|live| live.differing > 0);
    let wrong = report.golden == GoldenVerdict::Fail || differs;
    match (dump.level, wrong) {
        (DumpLevel::Off, true) => recorded("  next", again),
        (_, false) => vec![("  next", format!("{} list{named}", program()))],
        (DumpLevel::Full, true) => vec![("  next", format!("{} blame{named} --reference", program()))],
        (DumpLevel::Marked | DumpLevel::Meta | DumpLevel::Hash, true) => {
            let golden = format!("{} blame{named} --golden RIGHT, with the dump of a correct run", program());
            let mut lines = vec![("  next", golden)];
            lines.extend(recorded("  or", again));
            lines
        }
    }
}

/// The commands that run again with a dump and then find the task.
fn recorded(label: &'static str, again: &str) -> Vec<(&'static str, String)> {
    vec![(label, again.into()), ("  then", format!("{} blame --reference", program()))]
}

/// Wrong tasks that the summary lists.
const NAMED: usize = 3;

/// Labels and values of the lines about `--live`. `ran` is the number of completed tasks.
fn live_lines(report: &LiveReport, ran: u64) -> Vec<(&'static str, String)> {
    let (judged, of) = (grouped(report.judged), counted(report.of, "task"));
    let word = if report.agrees() { verdict("PASS", true) } else { verdict("FAIL", false) };
    let mut lines =
        vec![("live", format!("{word}, compared {judged} of {of} with {}", report.golden.display()))];
    if report.differing > 0 {
        lines.push(("  differ", format!("{}{}", counted(report.differing, "task"), first_wrong(report))));
    }
    lines.extend(stop(report, ran).map(|line| ("  stop", line)));
    for (count, what) in [
        (report.unmatched, "not in the golden"),
        (
            report.unjudged,
            "kept without a verdict: not completed, or too many payloads were waiting (--live-scratch)",
        ),
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
    let named: Vec<String> = report.wrong_here.iter().take(NAMED).map(task_words).collect();
    let more = report.wrong_here_count.saturating_sub(named.len() as u64);
    let more = if more > 0 { format!(" and {} more", grouped(more)) } else { String::new() };
    let although = match (report.wrong_here_count, report.differing) {
        (1, 1) => "although its inputs agree".into(),
        (all, differing) if all == differing => "although their inputs agree".into(),
        (1, _) => "1 of them although its inputs agree".into(),
        (some, _) => format!("{} of them although their inputs agree", grouped(some)),
    };
    format!(", {although}: {}{more}", named.join(", "))
}

/// The result of `--stop-at-first`; `None` if no task was wrong or the option was not given.
fn stop(report: &LiveReport, ran: u64) -> Option<String> {
    let first = report.wrong_here.first().filter(|_| report.stop_found)?;
    let found = format!("at task {}", task_words(first));
    Some(if report.stopped {
        let (ran, of) = (grouped(ran), counted(report.of, "task"));
        format!("{found}, after {ran} of {of} had run and {} were compared", grouped(report.judged))
    } else {
        format!("{found}, but the run had already completed")
    })
}

/// `0x100000002 (layer 1 / k_proj: mul)`.
fn task_words(task: &WrongTask) -> String {
    let words = named_task(task.scope.as_deref(), task.task_name.as_deref(), &task.kernels);
    format!("{} ({words})", short_task(task.task_id))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tensortap::format::{DumpCounters, Loss};
    use tensortap::judge::Outcome;

    use super::*;

    #[test]
    fn formats_positions_as_coordinates() {
        assert_eq!(position(&[1, 2, 3]), "[1, 2, 3]");
        assert_eq!(position(&[]), "[0]");
    }

    #[test]
    fn an_output_that_was_not_compared_states_the_reason() {
        let output =
            OutputVerdict { name: "f".into(), outcome: Outcome::unknown("it is gone"), first_outside: None };
        assert!(output_lines(&output, 4).contains("could not be compared with the golden: it is gone"));
    }

    fn dump() -> DumpReport {
        DumpReport {
            dir: "outputs/tensor_dump_20260415_101500".into(),
            level: DumpLevel::Full,
            dump_args: false,
            counters: DumpCounters {
                records: 18,
                entries: 34,
                tensors: 13,
                scalars: 5,
                bytes_captured: 13 << 16,
                bytes_written: 7 << 16,
                deduplicated_bytes: 6 << 16,
                ..DumpCounters::default()
            },
            folder_bytes: 8 << 16,
            held_up: Duration::from_micros(1500),
            closing: Duration::ZERO,
            live: None,
            losses: Vec::new(),
            problem: None,
        }
    }

    fn with(change: impl FnOnce(&mut DumpCounters)) -> DumpReport {
        let mut dump = dump();
        change(&mut dump.counters);
        dump
    }

    #[test]
    fn deduplication_is_a_share_of_the_captured_bytes() {
        assert_eq!(sizes(&dump()), "832 KiB captured, 448 KiB written, 46.2 % saved by deduplication");
        assert_eq!((share(0, 0), share(5, 0)), ("0".into(), "100".into()));
        assert_eq!(sizes(&with(|counters| counters.bytes_captured = 0)), "no payload captured");
    }

    #[test]
    fn an_empty_dump_of_marked_arguments_states_the_reason() {
        let mut empty = with(|counters| counters.records = 0);
        empty.level = DumpLevel::Marked;
        assert!(contents(&empty).contains("marks no arguments"), "{}", contents(&empty));
        let mut filtered = empty;
        filtered.counters.filtered_records = 3;
        assert_eq!(contents(&filtered), "empty, level marked");
    }

    #[test]
    fn counts_dispatch_arguments_with_and_without_tensors() {
        let one = with(|counters| counters.dispatches = 1);
        let mut alone = DumpReport { level: DumpLevel::Off, dump_args: true, ..one };
        assert_eq!(contents(&alone), "arguments of 1 dispatch");
        alone.counters.filtered_records = 3;
        assert_eq!(kept_out(&alone), "3 dispatches");
        let both = DumpReport { level: DumpLevel::Full, ..alone };
        assert_eq!(kept_out(&both), "3 records");
        assert_eq!(contents(&both), contents(&dump()));
    }

    #[test]
    fn suggests_commands_that_the_recorded_level_allows() {
        let report = |golden| RunReport {
            scene: "s",
            platform: "p",
            runtime: "r",
            blocks: 1,
            schedulers: 1,
            tasks: 1,
            dispatches: 1,
            wall: Duration::ZERO,
            golden,
            outputs: Vec::new(),
            results: Vec::new(),
            dump: None,
            failure: None,
        };
        let lines_for = |level, golden| {
            let lines = next(&DumpReport { level, ..dump() }, &report(golden), "AGAIN");
            lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(lines_for(DumpLevel::Full, GoldenVerdict::Fail), "tensortap blame --reference");
        assert_eq!(lines_for(DumpLevel::Hash, GoldenVerdict::Pass), "tensortap list");
        let hashes = lines_for(DumpLevel::Hash, GoldenVerdict::Fail);
        assert!(hashes.starts_with("tensortap blame --golden RIGHT") && hashes.contains("AGAIN"), "{hashes}");
        let without: Vec<_> = dump_lines(&report(GoldenVerdict::Fail), "AGAIN");
        assert_eq!(without, [("next", "AGAIN".into()), ("  then", "tensortap blame --reference".into())]);
        assert_eq!(dump_lines(&report(GoldenVerdict::Pass), "AGAIN"), []);
    }

    #[test]
    fn lists_every_kind_of_loss() {
        assert_eq!(losses(&dump()), None);
        let losses = losses(&DumpReport {
            counters: DumpCounters {
                dropped_records: 3,
                dropped_overwrite: 1,
                truncated_tensors: 2,
                corrupt_records: 1,
                uncaptured: 4,
                ..dump().counters
            },
            losses: vec![Loss { thread: 1, reason: "no_space".into(), records: 3, bytes: 0 }],
            ..dump()
        });
        let expected = "3 records dropped (no_space 3), 1 payload overwritten, 2 tensors truncated, 1 record damaged, 4 arguments not captured";
        assert_eq!(losses.as_deref(), Some(expected));
    }

    #[test]
    fn entries_that_the_host_never_read_are_not_called_records() {
        let lost = Loss { thread: 1, reason: "not_collected".into(), records: 754, bytes: 0 };
        let losses =
            losses(&DumpReport { losses: vec![lost], ..with(|counters| counters.dropped_records = 754) });
        assert_eq!(losses.as_deref(), Some("754 entries of any kind dropped (not_collected 754)"));
    }
}
