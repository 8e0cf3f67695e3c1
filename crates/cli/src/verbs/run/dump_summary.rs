//! What `run` says about the dump.

use tensortap::format::KERNEL_ARGS_FILE;
use tensortap::{DumpLevel, DumpReport, Golden, RunReport};

use super::live_args;
use crate::dump_arg::newest_or;
use crate::losses::by_reason;
use tensortap_query::number::{byte_rate, bytes, counted, counted_in, significant, time};

/// Labels and values of the summary's lines; without a dump, what to do about a wrong result. `again` is the command that
/// repeats the run with a dump.
pub fn lines(report: &RunReport, again: &str) -> Vec<(&'static str, String)> {
    let Some(dump) = &report.dump else {
        let failed = report.golden == Golden::Fail;
        return if failed { recorded("next", again) } else { Vec::new() };
    };
    let mut lines = vec![("dump", contents(dump))];
    if dump.level != DumpLevel::Off {
        lines.push(("  bytes", sizes(dump)));
        if dump.dump_args {
            lines.push(("  args", format!("of {}", dispatches(dump.dispatches))));
        }
    }
    if dump.bytes_captured > 0 {
        lines.push(("  rate", rate(dump, report)));
    }
    lines.push(("  held up", format!("{} of device time", time(dump.held_up))));
    lines.push(("  losses", losses(dump).unwrap_or_else(|| "none".into())));
    if dump.filtered_records > 0 || dump.filtered_bytes > 0 {
        lines.push(("  filters", format!("kept out {}", kept_out(dump))));
    }
    if let Some(live) = &dump.live {
        lines.extend(live_args::lines(live, report.tasks));
    }
    lines.push(("  folder", dump.dir.display().to_string()));
    lines.extend(next(dump, report, again));
    lines
}

/// What filters removed; the content of arguments that were not looked at is not known.
fn kept_out(dump: &DumpReport) -> String {
    let records = |count| match (dump.level, dump.dump_args) {
        (DumpLevel::Off, _) => dispatches(count),
        (_, false) => counted(count, "argument"),
        (_, true) => counted(count, "record"),
    };
    let arguments = (dump.filtered_records > 0).then(|| records(dump.filtered_records));
    let content = (dump.filtered_bytes > 0).then(|| format!("{} of content", bytes(dump.filtered_bytes)));
    arguments.into_iter().chain(content).collect::<Vec<_>>().join(" and ")
}

fn contents(dump: &DumpReport) -> String {
    let level = dump.level.name();
    if dump.level == DumpLevel::Off {
        return format!("arguments of {}", dispatches(dump.dispatches));
    }
    if dump.records == 0 {
        return match dump.level {
            DumpLevel::Marked if dump.filtered_records == 0 => {
                format!("empty, level {level}: the orchestration marks no argument with dump(..)")
            }
            _ => format!("empty, level {level}"),
        };
    }
    let records = counted(dump.records, "record");
    let (tensors, scalars) = (counted(dump.tensors, "tensor"), counted(dump.scalars, "scalar"));
    format!("{records}, level {level}: {tensors}, {scalars}")
}

fn dispatches(count: u64) -> String {
    counted_in(count, "dispatch", "dispatches")
}

fn sizes(dump: &DumpReport) -> String {
    if dump.bytes_captured == 0 {
        return "no payload captured".into();
    }
    let (captured, written) = (bytes(dump.bytes_captured), bytes(dump.bytes_written));
    let share = share(dump.deduplicated_bytes, dump.bytes_captured);
    format!("{captured} captured, {written} written, {share} % saved by deduplication")
}

#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn share(part: u64, whole: u64) -> String {
    if part == 0 { "0".into() } else { significant(part as f64 / whole.max(part) as f64 * 100.0, 3) }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(dump: &DumpReport, report: &RunReport) -> String {
    let per_s = dump.bytes_captured as f64 / report.wall.as_secs_f64().max(1e-9);
    format!("{} captured over the wall time", byte_rate(per_s))
}

/// What was lost, in words; `None` when nothing was.
pub fn losses(dump: &DumpReport) -> Option<String> {
    let mut parts = Vec::new();
    if dump.dropped_records > 0 {
        // What the host never took may be anything: arguments, but also tasks and dependencies, which `records` leaves out.
        let of_any_kind = dump.losses.iter().any(|loss| loss.reason == "not_collected");
        let dropped = match of_any_kind {
            true => counted_in(dump.dropped_records, "entry of any kind", "entries of any kind"),
            false => counted(dump.dropped_records, "record"),
        };
        parts.push(format!("{dropped} dropped{}", reasons(dump)));
    }
    for (count, what, fate) in [
        (dump.dropped_overwrite, "payload", "overwritten"),
        (dump.truncated_tensors, "tensor", "truncated"),
        (dump.corrupt_records, "record", "damaged"),
    ] {
        if count > 0 {
            parts.push(format!("{} {fate}", counted(count, what)));
        }
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn reasons(dump: &DumpReport) -> String {
    let reasons = by_reason(&dump.losses);
    if reasons.is_empty() { reasons } else { format!(" ({reasons})") }
}

/// What to try now; after a wrong result, the command that names the task. References need content, a golden does not.
fn next(dump: &DumpReport, report: &RunReport, again: &str) -> Vec<(&'static str, String)> {
    let named = newest_or(&dump.dir);
    let differs = dump.live.as_ref().is_some_and(|live| live.differing > 0);
    let wrong = report.golden == Golden::Fail || differs;
    let read = || format!("read {}", dump.dir.join(KERNEL_ARGS_FILE).display());
    match (dump.level, wrong) {
        (DumpLevel::Off, false) => vec![("  next", read())],
        (DumpLevel::Off, true) => recorded("  next", again),
        (_, false) => vec![("  next", format!("tensortap list{named}"))],
        (DumpLevel::Full, true) => vec![("  next", format!("tensortap blame{named} --reference"))],
        (DumpLevel::Marked | DumpLevel::Meta | DumpLevel::Hash, true) => {
            let golden =
                format!("tensortap blame{named} --golden RIGHT, with the dump of a run that was right");
            let mut lines = vec![("  next", golden)];
            lines.extend(recorded("  or", again));
            lines
        }
    }
}

/// To run again with a dump, and then to find the task.
fn recorded(label: &'static str, again: &str) -> Vec<(&'static str, String)> {
    vec![(label, again.into()), ("  then", "tensortap blame --reference".into())]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tensortap::format::Loss;

    use super::*;

    fn dump() -> DumpReport {
        DumpReport {
            dir: "outputs/tensor_dump_20260415_101500".into(),
            level: DumpLevel::Full,
            dump_args: false,
            records: 18,
            entries: 34,
            dispatches: 0,
            tensors: 13,
            scalars: 5,
            bytes_captured: 13 << 16,
            bytes_written: 7 << 16,
            deduplicated_bytes: 6 << 16,
            truncated_tensors: 0,
            dropped_records: 0,
            dropped_overwrite: 0,
            corrupt_records: 0,
            filtered_records: 0,
            filtered_bytes: 0,
            held_up: Duration::from_micros(1500),
            closing: Duration::ZERO,
            live: None,
            losses: Vec::new(),
            problem: None,
        }
    }

    #[test]
    fn the_share_saved_is_that_of_what_was_captured() {
        assert_eq!(sizes(&dump()), "832 KiB captured, 448 KiB written, 46.2 % saved by deduplication");
        assert_eq!((share(0, 0), share(5, 0)), ("0".into(), "100".into()));
        assert_eq!(sizes(&DumpReport { bytes_captured: 0, ..dump() }), "no payload captured");
    }

    #[test]
    fn an_empty_dump_says_why_when_nothing_is_marked() {
        let empty = DumpReport { records: 0, level: DumpLevel::Marked, ..dump() };
        assert!(contents(&empty).contains("marks no argument"), "{}", contents(&empty));
        let filtered = DumpReport { filtered_records: 3, ..empty };
        assert_eq!(contents(&filtered), "empty, level marked");
    }

    #[test]
    fn arguments_of_dispatches_are_told_alone_and_beside_tensors() {
        let alone = DumpReport { level: DumpLevel::Off, dump_args: true, dispatches: 1, ..dump() };
        assert_eq!(contents(&alone), "arguments of 1 dispatch");
        let filtered = DumpReport { filtered_records: 3, ..alone };
        assert_eq!(kept_out(&filtered), "3 dispatches");
        let both = DumpReport { level: DumpLevel::Full, ..filtered };
        assert_eq!(kept_out(&both), "3 records");
        assert_eq!(contents(&both), contents(&dump()));
    }

    #[test]
    fn what_comes_next_can_be_done_with_what_was_recorded() {
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
        let said = |level, golden| {
            let lines = next(&DumpReport { level, ..dump() }, &report(golden), "AGAIN");
            lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(said(DumpLevel::Full, Golden::Fail), "tensortap blame --reference");
        assert_eq!(said(DumpLevel::Hash, Golden::Pass), "tensortap list");
        let hashes = said(DumpLevel::Hash, Golden::Fail);
        assert!(hashes.starts_with("tensortap blame --golden RIGHT") && hashes.contains("AGAIN"), "{hashes}");
        let without: Vec<_> = lines(&report(Golden::Fail), "AGAIN");
        assert_eq!(without, [("next", "AGAIN".into()), ("  then", "tensortap blame --reference".into())]);
        assert_eq!(lines(&report(Golden::Pass), "AGAIN"), []);
    }

    #[test]
    fn every_kind_of_loss_is_told() {
        assert_eq!(losses(&dump()), None);
        let losses = losses(&DumpReport {
            dropped_records: 3,
            dropped_overwrite: 1,
            truncated_tensors: 2,
            corrupt_records: 1,
            losses: vec![Loss { thread: 1, reason: "no_space".into(), records: 3, bytes: 0 }],
            ..dump()
        });
        let told =
            "3 records dropped (no_space 3), 1 payload overwritten, 2 tensors truncated, 1 record damaged";
        assert_eq!(losses.as_deref(), Some(told));
    }

    #[test]
    fn what_the_host_never_took_is_not_called_records() {
        let lost = Loss { thread: 1, reason: "not_collected".into(), records: 754, bytes: 0 };
        let told = losses(&DumpReport { dropped_records: 754, losses: vec![lost], ..dump() });
        assert_eq!(told.as_deref(), Some("754 entries of any kind dropped (not_collected 754)"));
    }
}
