//! The text output of `record`.

use std::fmt::Write;
use std::path::Path;

use tensortap::analysis::graph::load;
use tensortap::format::{Dump, DumpCounters};
use tensortap::{DumpLevel, NoDumpReason, ProcessEntry, RecordingLibrary, RecordingReport};
use tensortap_query::number::{bytes, counted, counted_in, grouped, time};
use tensortap_query::summary::in_flight_words;
use tensortap_query::words::{ended_words, printable};

use crate::dump_path::{dump_operand, quoted};
use crate::output::verdict;
use crate::program::program;
use crate::verbs::loss_words;

/// Width of the labels on the left.
const LABEL: usize = 9;
/// Processes that the summary lists.
const NAMED: usize = 16;

/// A note about libraries that were not found, and what is not recorded because of that.
pub fn missing(libraries: &[RecordingLibrary]) -> Option<String> {
    let files: Vec<&str> = libraries.iter().map(|library| library.file()).collect();
    let names = match files[..] {
        [] => return None,
        [one] => one.to_owned(),
        [ref others @ .., last] => format!("{} and {last}", others.join(", ")),
    };
    let what = libraries.iter().map(|library| match library {
        RecordingLibrary::OpenCl => "OpenCL",
        RecordingLibrary::Cuda => "CUDA",
        RecordingLibrary::Program => "programs that do not link libtensortap.so",
    });
    let executable = std::env::current_exe().ok();
    Some(format!(
        "{names} not found next to this executable or in ../lib, so this recording leaves out {}; {}",
        what.collect::<Vec<_>>().join(" and "),
        remedy(libraries, executable.as_deref().and_then(Path::parent))
    ))
}

/// What to type so that the libraries are found. `folder` contains the executable.
fn remedy(libraries: &[RecordingLibrary], folder: Option<&Path>) -> String {
    let Some(folder) = folder.filter(|folder| folder.join(".fingerprint").is_dir()) else {
        return "scripts/install PREFIX installs the command with its libraries, and --library FILE names \
                libtensortap.so"
            .into();
    };
    // Cargo built the command, in a folder with the name of the profile.
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => String::new(),
        Some("release") => " --release".into(),
        Some(other) => format!(" --profile {other}"),
    };
    let packages: String = libraries.iter().map(|library| format!(" -p {}", library.package())).collect();
    format!("to build what is missing, run: cargo build{profile}{packages}")
}

/// A note about a process whose dump was closed.
pub fn left(process: &ProcessEntry) -> String {
    format!("{}: {}", process.words(), outcome(process))
}

/// A note about processes that a recording still waits for.
pub fn waiting(processes: &[&ProcessEntry]) -> String {
    let names: Vec<String> = processes.iter().take(NAMED).map(|process| process.words()).collect();
    let more = processes.len() - names.len();
    let more = if more > 0 { format!(" and {} more", grouped(more as u64)) } else { String::new() };
    format!("the command has ended; waiting for {}{more}", names.join(", "))
}

/// The summary of a recording.
pub fn of(report: &RecordingReport, missing: &[RecordingLibrary], left_out: &[&str]) -> String {
    let processes = &report.run.processes;
    let all = total(processes);
    if processes.is_empty() {
        return nothing(report, missing, left_out);
    }
    let (count, records) =
        (counted_in(processes.len() as u64, "process", "processes"), counted(all.records, "record"));
    let mut text = format!("recorded {count}, {records} in {}\n", time(report.wall));
    let name = |process: &ProcessEntry| process.folder.clone();
    let width = processes.iter().take(NAMED).map(|process| name(process).len()).max().unwrap_or(0).max(LABEL);
    for process in processes.iter().take(NAMED) {
        let _ = writeln!(text, "  {:width$} {}", name(process), outcome(process));
    }
    if processes.len() > NAMED {
        let more = processes.len() - NAMED;
        let _ = writeln!(
            text,
            "  {:width$} in {}",
            format!("{} more", grouped(more as u64)),
            tensortap::RUN_FILE
        );
    }
    if let Some(ended) = ended_words(report.run.exit_code, report.run.signal) {
        let _ = writeln!(text, "  {:width$} {ended}", "ended");
    }
    for (process, words) in in_flight(report) {
        let _ = writeln!(text, "  {:width$} {process}{words}", "in flight");
    }
    if all.filtered_records > 0 || all.filtered_bytes > 0 {
        let _ = writeln!(text, "  {:width$} {}", "filtered", kept_out(&all));
    }
    let _ = writeln!(text, "  {:width$} {}", "losses", losses(report).unwrap_or_else(|| "none".into()));
    let _ = writeln!(text, "  {:width$} {}", "folder", quoted(&report.dir));
    if all.records > 0 {
        let (program, named) = (program(), dump_operand(&report.dir));
        let _ = writeln!(text, "  {:width$} {program} list{named}", "next");
        let _ = writeln!(text, "  {:width$} {program} blame{named} --golden RIGHT", "or");
    }
    text
}

/// The largest dump that is read for the line about tasks in flight.
const MOST_READ: u64 = 100_000;

/// What filters removed: `12 records, 4.00 KiB of content, by filters and limits (--dump-…)`.
fn kept_out(all: &DumpCounters) -> String {
    let records = (all.filtered_records > 0).then(|| counted(all.filtered_records, "record"));
    let content = (all.filtered_bytes > 0).then(|| format!("{} of content", bytes(all.filtered_bytes)));
    let kept_out: Vec<String> = [records, content].into_iter().flatten().collect();
    format!("{}, by filters and limits (--dump-…)", kept_out.join(", "))
}

/// A warning that filters left nothing to read.
pub fn nothing_kept(report: &RecordingReport) -> Option<String> {
    let all = total(&report.run.processes);
    if all.records > 0 {
        return None;
    }
    if all.filtered_records > 0 {
        return Some(format!("the filters removed every record: {}", kept_out(&all)));
    }
    let mut processes = report.run.processes.iter();
    let is_marked = |process: &ProcessEntry| {
        let dump = Dump::open(&report.dir.join(&process.folder));
        dump.is_ok_and(|dump| dump.info().dump_level == DumpLevel::Marked as u32)
    };
    processes.any(is_marked).then(|| {
        "nothing was recorded: --dump-tensor=marked records only marked arguments, and the program marks none; OpenCL and \
         CUDA commands have no marks".into()
    })
}

/// The tasks that were running in processes that ended abnormally, with the folder if there are several processes.
fn in_flight(report: &RecordingReport) -> Vec<(String, String)> {
    let several = report.run.processes.len() > 1;
    // A program can end normally without waiting for its commands. Only the tasks show that, and reading all tasks of a
    // large dump takes too long.
    let is_small =
        |process: &ProcessEntry| process.counts.as_ref().is_some_and(|counts| counts.records <= MOST_READ);
    let processes = report.run.processes.iter();
    let processes = processes.filter(|process| process.status != "complete" || is_small(process)).take(NAMED);
    let words = |process: &ProcessEntry| {
        let dump = Dump::open(&report.dir.join(&process.folder)).ok()?;
        let are_named = dump.footer()?.in_flight.as_ref().is_some_and(|tasks| !tasks.is_empty());
        (are_named || process.status == "complete").then_some(())?;
        let words = in_flight_words(&load(&dump, &[]).ok()?)?;
        Some((if several { format!("{}: ", process.folder) } else { String::new() }, words))
    };
    processes.filter_map(words).collect()
}

/// `complete, 12 records, 4 KiB captured`, and the reason if the process ended abnormally.
fn outcome(process: &ProcessEntry) -> String {
    let counts = process.counts.clone().unwrap_or_default();
    let good = process.status == "complete";
    let status = if good { process.status.clone() } else { verdict(&process.status, false) };
    let content = match counts.bytes_captured {
        0 => String::new(),
        captured => format!(", {} captured, {} written", bytes(captured), bytes(counts.bytes_written)),
    };
    let why = process.message.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    format!("{status}, {}{content}{}{why}", counted(counts.records, "record"), arena(process))
}

/// How far the arenas of a process grew, if they did.
fn arena(process: &ProcessEntry) -> String {
    let Some(largest) = process.arena_bytes.filter(|_| process.arena_grown_bytes > 0) else {
        return String::new();
    };
    let short = if process.arena_is_short { ", all that memory allowed" } else { "" };
    format!(", arena grown to {}{short}", bytes(largest))
}

fn total(processes: &[ProcessEntry]) -> DumpCounters {
    let mut all = DumpCounters::default();
    for counts in processes.iter().filter_map(|process| process.counts.as_ref()) {
        all.records += counts.records;
        all.dropped_records += counts.dropped_records;
        all.dropped_overwrite += counts.dropped_overwrite;
        all.truncated_tensors += counts.truncated_tensors;
        all.corrupt_records += counts.corrupt_records;
        all.uncaptured += counts.uncaptured;
        all.filtered_records += counts.filtered_records;
        all.filtered_bytes += counts.filtered_bytes;
    }
    all
}

/// What was lost, in words; `None` when nothing was.
pub fn losses(report: &RecordingReport) -> Option<String> {
    let all = total(&report.run.processes);
    let dropped =
        (all.dropped_records > 0).then(|| format!("{} dropped", counted(all.dropped_records, "record")));
    let lost = dropped.into_iter().chain(loss_words(&all));
    let parts: Vec<String> = lost.chain(refusals(&report.run.processes)).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// What the processes themselves report as not recorded.
fn refusals(processes: &[ProcessEntry]) -> Vec<String> {
    let sum = |count: fn(&ProcessEntry) -> u64| {
        processes.iter().fold(0, |sum: u64, process| sum.saturating_add(count(process)))
    };
    let (threads, calls) = (sum(|process| process.threads_refused), sum(|process| process.calls_refused));
    let mut parts = Vec::new();
    if threads > 0 {
        let times = counted_in(threads, "time", "times");
        parts.push(format!(
            "{times} a thread could not record because too many threads record at once (--dump-threads N)"
        ));
    }
    if calls > 0 {
        let first = processes.iter().find_map(|process| process.first_refusal.as_deref());
        let first = first.map_or_else(String::new, |why| format!(", the first because: {}", printable(why)));
        parts.push(format!("{} rejected{first}", counted(calls, "call")));
    }
    parts
}

/// The summary if nothing was recorded, with the likely reason.
fn nothing(report: &RecordingReport, missing: &[RecordingLibrary], left_out: &[&str]) -> String {
    let folder = quoted(&report.dir);
    let why = match report.why_nothing {
        None => "processes attached but were rejected or could not be recorded",
        Some(NoDumpReason::Static) => {
            "the program is linked statically, so tensortap_record.h cannot load the library; link libtensortap, or link the \
             program dynamically"
        }
        Some(NoDumpReason::SetUser) => {
            "the program runs with the rights of another user or group, so it ignores the library and the socket in its \
             environment"
        }
        Some(NoDumpReason::Launcher) => {
            "processes on other hosts cannot attach; let the launcher start `tensortap record` on every host"
        }
        Some(NoDumpReason::NoLibrary) if missing == [RecordingLibrary::Program] => {
            "the program does not link libtensortap, and tensortap_record.h found no library; name it with --library FILE"
        }
        Some(_) if !missing.is_empty() => {
            "a library that was not found may be the reason (see the first note)"
        }
        Some(_) => {
            "the program did not use OpenCL, CUDA or tensortap_record.h, or not in a way that tensortap supports (see \
             docs/reference/recording-opencl.md and docs/reference/c-api.md)"
        }
    };
    let left_out = match left_out {
        [] => String::new(),
        left_out => format!("; recording was turned off for {}", left_out.join(" and ")),
    };
    let ended = ended_words(report.run.exit_code, report.run.signal);
    let ended = ended.map_or_else(String::new, |ended| format!("  {:LABEL$} {ended}\n", "ended"));
    format!("nothing was recorded: {why}{left_out}\n{ended}  {:LABEL$} {folder}\n", "folder")
}
