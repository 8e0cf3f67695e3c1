//! What `record` says to people.

use std::fmt::Write;

use tensortap::analysis::graph::load;
use tensortap::format::{Dump, DumpCounters};
use tensortap::{DumpLevel, ProcessEntry, RecordingLibrary, RecordingReport, WhyNothing};
use tensortap_query::number::{bytes, counted, counted_in, grouped, time};
use tensortap_query::summary::in_flight_words;
use tensortap_query::words::{ended_words, printable};

use crate::dump_arg::{newest_or, quoted};
use crate::output::verdict;
use crate::program::program;

/// Width of the labels on the left.
const LABEL: usize = 9;
/// Processes that the summary names.
const NAMED: usize = 16;

/// Libraries that were not found, and what is not recorded for it.
pub fn missing(libraries: &[RecordingLibrary]) -> Option<String> {
    let files: Vec<&str> = libraries.iter().map(|library| library.file()).collect();
    let names = match files[..] {
        [] => return None,
        [one] => format!("{one} is"),
        [ref others @ .., last] => format!("{} and {last} are", others.join(", ")),
    };
    let what = libraries.iter().map(|library| match library {
        RecordingLibrary::OpenCl => "OpenCL",
        RecordingLibrary::Cuda => "CUDA",
        RecordingLibrary::Program => {
            "programs that call tensortap_record.h and do not link it (--library FILE names it)"
        }
    });
    Some(format!(
        "{names} neither beside this program nor in ../lib: nothing is recorded of {}; scripts/install PREFIX puts command and \
         libraries where they belong",
        what.collect::<Vec<_>>().join(", nor of ")
    ))
}

/// One dump was closed.
pub fn left(process: &ProcessEntry) -> String {
    format!("{}: {}", process.words(), outcome(process))
}

/// What a recording still waits for.
pub fn waiting(processes: &[&ProcessEntry]) -> String {
    let names: Vec<String> = processes.iter().take(NAMED).map(|process| process.words()).collect();
    let more = processes.len() - names.len();
    let more = if more > 0 { format!(" and {} more", grouped(more as u64)) } else { String::new() };
    format!("the command has ended; waiting for {}{more} to end, too", names.join(", "))
}

/// The summary of a recording, for which some things were left out.
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
        let _ = writeln!(text, "  {:width$} {}", "kept out", kept_out(&all));
    }
    let _ = writeln!(text, "  {:width$} {}", "losses", losses(report).unwrap_or_else(|| "none".into()));
    let _ = writeln!(text, "  {:width$} {}", "folder", quoted(&report.dir));
    let _ = writeln!(text, "  {:width$} {}", "next", next(report));
    text
}

/// Records of a dump that is read for its closing line at most.
const MOST_READ: u64 = 100_000;

/// `12 records, 4.00 KiB of content, by filters and limits (--dump-…)`.
fn kept_out(all: &DumpCounters) -> String {
    let records = (all.filtered_records > 0).then(|| counted(all.filtered_records, "record"));
    let content = (all.filtered_bytes > 0).then(|| format!("{} of content", bytes(all.filtered_bytes)));
    let kept_out: Vec<String> = [records, content].into_iter().flatten().collect();
    format!("{}, by filters and limits (--dump-…)", kept_out.join(", "))
}

/// That filters have left nothing, where they have.
pub fn nothing_kept(report: &RecordingReport) -> Option<String> {
    let all = total(&report.run.processes);
    if all.records > 0 {
        return None;
    }
    if all.filtered_records > 0 {
        return Some(format!("nothing is left to read; kept out: {}", kept_out(&all)));
    }
    let mut processes = report.run.processes.iter();
    let is_marked = |process: &ProcessEntry| {
        let dump = Dump::open(&report.dir.join(&process.folder));
        dump.is_ok_and(|dump| dump.info().dump_level == DumpLevel::Marked as u32)
    };
    processes.any(is_marked).then(|| {
        "the program marked nothing, and nothing else is recorded with --dump-tensor=marked; commands of OpenCL and CUDA have no marks".into()
    })
}

/// Of processes that did not end in order, what was running there, each with its folder where there are several.
fn in_flight(report: &RecordingReport) -> Vec<(String, String)> {
    let several = report.run.processes.len() > 1;
    // A program may end in order and leave commands behind that nobody waited for: only tasks say so, and to read all of a large dump takes a while.
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

fn next(report: &RecordingReport) -> String {
    let named = newest_or(&report.dir);
    format!("{} list{named}", program())
}

/// `complete: 12 records, 4 KiB captured`, and how it ended where that was not in order.
fn outcome(process: &ProcessEntry) -> String {
    let counts = process.counts.clone().unwrap_or_default();
    let good = process.status == "complete";
    let status = if good { process.status.clone() } else { verdict(&process.status, false) };
    let content = match counts.bytes_captured {
        0 => String::new(),
        captured => format!(", {} captured, {} written", bytes(captured), bytes(counts.bytes_written)),
    };
    let why = process.message.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    format!("{status}, {}{content}{why}", counted(counts.records, "record"))
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
    let parts: Vec<String> = [
        (all.dropped_records, "record", "dropped"),
        (all.dropped_overwrite, "payload", "overwritten"),
        (all.truncated_tensors, "tensor", "truncated"),
        (all.corrupt_records, "record", "damaged"),
        (all.uncaptured, "argument", "could not be captured"),
    ]
    .into_iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, what, fate)| format!("{} {fate}", counted(count, what)))
    .chain(refusals(&report.run.processes))
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// What processes could not record, as they say themselves.
fn refusals(processes: &[ProcessEntry]) -> Vec<String> {
    let sum = |count: fn(&ProcessEntry) -> u64| {
        processes.iter().fold(0, |sum: u64, process| sum.saturating_add(count(process)))
    };
    let (threads, calls) = (sum(|process| process.threads_refused), sum(|process| process.calls_refused));
    let mut parts = Vec::new();
    if threads > 0 {
        let times = counted_in(threads, "time", "times");
        parts.push(format!("{times} a thread could not record, as others had all places (--dump-threads N)"));
    }
    if calls > 0 {
        let first = processes.iter().find_map(|process| process.first_refusal.as_deref());
        let first = first.map_or_else(String::new, |why| format!(", the first: {}", printable(why)));
        parts.push(format!("{} refused{first}", counted(calls, "call")));
    }
    parts
}

/// Nothing was recorded, and why that may be.
fn nothing(report: &RecordingReport, missing: &[RecordingLibrary], left_out: &[&str]) -> String {
    let folder = quoted(&report.dir);
    let why = match report.why_nothing {
        None => "what called was turned away or could not be recorded",
        Some(WhyNothing::Static) => {
            "the program is linked statically, so tensortap_record.h loads no library into it: link libtensortap, or link the \
             program dynamically"
        }
        Some(WhyNothing::SetUser) => {
            "the program runs with the rights of another user or group, and then takes neither library nor socket from its \
             environment"
        }
        Some(WhyNothing::Launcher) => {
            "processes on other hosts cannot attach: let the launcher start `tensortap record` on each of them"
        }
        Some(WhyNothing::NoLibrary) if missing == [RecordingLibrary::Program] => {
            "the program does not link libtensortap, and tensortap_record.h was told of none: --library FILE names it"
        }
        Some(_) if !missing.is_empty() => {
            "what would have recorded it may be what was not found, as said at first"
        }
        Some(_) => {
            "the program used neither OpenCL nor CUDA nor tensortap_record.h, or not in a way that is seen (docs/gpu.md and \
             docs/recording.md say which)"
        }
    };
    let left_out = match left_out {
        [] => String::new(),
        left_out => format!("; of {} nothing was to be", left_out.join(" and ")),
    };
    let ended = ended_words(report.run.exit_code, report.run.signal);
    let ended = ended.map_or_else(String::new, |ended| format!("  {:LABEL$} {ended}\n", "ended"));
    format!("nothing was recorded: {why}{left_out}\n{ended}  {:LABEL$} {folder}\n", "folder")
}
