//! The footer below the table: counts, sizes, and whether the dump is complete.

use std::fmt::Write;

use tensortap::format::{Dump, KERNEL_ARGS_FILE, SkipReason, SkippedIndex, Tail};
use tensortap_query::{Counts, Part};

use super::layout::lists_dispatches;
use crate::dump_path::quoted;
use crate::program::program;
use tensortap_query::number::{bytes, counted, counted_in, grouped};
use tensortap_query::summary::{by_reason, early_end, uncaptured_words};
use tensortap_query::words::{capital, losses_by_reason, printable, printable_path};

/// Why fewer records are shown: the option of the user.
pub const LIMIT: &str = "--limit";
/// Why fewer records are shown: the height of the terminal.
pub const SCREEN: &str = "limited to the terminal height; --all shows every record, --limit N shows N";

/// The counts if no record is selected.
pub fn none_text(dump: &Dump) -> String {
    format!("0 of {}. ", counted(dump.len(), "record"))
}

/// The number of selected records, and the sizes of the files.
pub fn text(counts: &Counts, parts: &[Part<'_>], why_limited: &str) -> String {
    let Counts { tensors, scalars, tensor_bytes, kept_back } = *counts;
    let sum = |of: fn(&Dump) -> u64| parts.iter().map(|part| of(part.dump)).sum::<u64>();
    let (selected, all) = (counts.records(), sum(Dump::len));
    let of = if selected == all { String::new() } else { format!("{} of ", grouped(selected)) };
    let (tensors, scalars) = (counted(tensors, "tensor"), counted(scalars, "scalar"));
    let records = counted(all, "record");
    let mut text = format!("\n{of}{records}: {tensors} with {}, {scalars}\n", bytes(tensor_bytes));
    if kept_back > 0 {
        let _ = writeln!(text, "{} shown ({why_limited}).", grouped(selected - kept_back));
    }
    if parts.iter().all(|part| lists_dispatches(part.dump)) {
        let dispatches = counted_in(sum(|dump| dump.totals().dispatches), "dispatch", "dispatches");
        let _ = writeln!(
            text,
            "They are the arguments of {dispatches} (recorded with only --dump-args), without content."
        );
        return text;
    }
    let stored = bytes(sum(|dump| dump.totals().stored_bytes));
    let saved = bytes(sum(|dump| dump.totals().deduplicated_bytes));
    let the_dump = if parts.len() == 1 { "The dump stores" } else { "The dumps store" };
    let _ = writeln!(text, "{the_dump} {stored}; deduplication saved {saved}.");
    let (dispatches, uncaptured) =
        (sum(|dump| dump.totals().dispatches), sum(|dump| dump.totals().uncaptured));
    if dispatches > 0 {
        let dispatches = counted_in(dispatches, "dispatch", "dispatches");
        let _ = writeln!(text, "The arguments of {dispatches} are in {KERNEL_ARGS_FILE}.");
    }
    if let Some(programs) = programs_text(parts) {
        let _ = writeln!(text, "{programs}");
    }
    if uncaptured > 0 {
        let _ = writeln!(text, "{}.", uncaptured_text(parts, uncaptured));
    }
    text
}

/// Arguments that could not be captured, by reason.
fn uncaptured_text(parts: &[Part<'_>], count: u64) -> String {
    let all: Result<Vec<_>, _> = parts.iter().map(|part| part.dump.uncaptured()).collect();
    match all {
        Ok(all) => uncaptured_words(&by_reason(all.iter().flatten().map(|one| one.reason))),
        // If the reasons cannot be read, the count is still known.
        Err(_) => format!("{} could not be captured", counted(count, "argument")),
    }
}

/// The line about stored kernel programs; `None` if the dump has none.
fn programs_text(parts: &[Part<'_>]) -> Option<String> {
    let modules: Vec<_> = parts.iter().flat_map(|part| part.dump.modules()).collect();
    let size = bytes(modules.iter().map(|module| module.bytes).sum());
    let programs = counted(modules.len() as u64, "program");
    (!modules.is_empty()).then(|| {
        format!(
            "The kernels are from {programs} with {size} (column `module`); `{} summary` lists them.",
            program()
        )
    })
}

/// Lines about missing records and the state of the dump; empty for a complete dump.
pub fn state_lines(dump: &Dump) -> String {
    let mut text = String::new();
    if let Some(words) = early_end(dump) {
        let _ = writeln!(text, "{}.", capital(&words));
    }
    let lost = dump.footer().map(|footer| losses_by_reason(&footer.losses)).unwrap_or_default();
    let missing: u64 = dump.gaps().iter().map(|gap| gap.records).sum();
    if !lost.is_empty() {
        let _ = writeln!(text, "Records without payload or missing, by reason: {lost}.");
    } else if missing > 0 {
        let _ = writeln!(text, "{} missing: lost during the run.", counted(missing, "record"));
    }
    match dump.passed_over() {
        Some(SkippedIndex { path, why: SkipReason::Damaged { reason, records } }) => {
            let (path, records) = (printable_path(path), counted(*records, "record"));
            let reason = printable(reason);
            let _ = writeln!(
                text,
                "{path} is damaged ({reason}) after {records}; the list is from the manifest."
            );
            let _ = writeln!(
                text,
                "`{} repair {}` moves the damaged index aside.",
                program(),
                quoted(dump.dir())
            );
        }
        Some(SkippedIndex { path, why: SkipReason::Version(version) }) => {
            let path = printable_path(path);
            let _ = writeln!(
                text,
                "{path} has the unsupported version {version} and is ignored; the list is from the manifest."
            );
        }
        // Later versions may add reasons.
        Some(_) | None => {}
    }
    match dump.tail() {
        Tail::Closed => {}
        Tail::Open => text += "The run is still recording: these are its records so far.\n",
        Tail::Torn { offset, lost_bytes, reason } => {
            let (offset, dir, reason) = (grouped(offset), quoted(dump.dir()), printable(&reason));
            let lost = match lost_bytes {
                0 => String::new(),
                lost => format!("; {} after it lost", counted(lost, "byte")),
            };
            let _ = writeln!(text, "The dump is torn at byte {offset} of its index ({reason}){lost}.");
            let _ = writeln!(text, "`{} repair {dir}` repairs it.", program());
        }
    }
    text
}
