//! What stands below the table: counts, sizes, and whether the dump is whole.

use std::fmt::Write;

use tensortap::format::{Dump, KERNEL_ARGS_FILE, PassedOver, Tail, WhyPassedOver};
use tensortap_query::{Counts, Part};

use super::layout::lists_dispatches;
use crate::dump_arg::quoted;
use crate::program::program;
use tensortap_query::number::{bytes, counted, counted_in, grouped};
use tensortap_query::summary::{by_reason, uncaptured_words};
use tensortap_query::words::{losses_by_reason, printable, printable_path};

/// What kept records back: what the caller asked for.
pub const LIMIT: &str = "--limit";
/// The same where nobody asked: the screen has no room for more.
pub const SCREEN: &str = "what fits the screen; --all shows every one, --limit N as many";

/// The counts where there is nothing to count.
pub fn none_text(dump: &Dump) -> String {
    format!("0 of {}. ", counted(dump.len(), "record"))
}

/// What is selected of how much, and what the files hold.
pub fn text(counts: &Counts, parts: &[Part<'_>], why_limited: &str) -> String {
    let Counts { tensors, scalars, tensor_bytes, kept_back } = *counts;
    let sum = |of: fn(&Dump) -> u64| parts.iter().map(|part| of(part.dump)).sum::<u64>();
    let (selected, all) = (counts.records(), sum(Dump::len));
    let of = if selected == all { String::new() } else { format!("{} of ", grouped(selected)) };
    let (tensors, scalars) = (counted(tensors, "tensor"), counted(scalars, "scalar"));
    let records = counted(all, "record");
    let mut text = format!("\n{of}{records}: {tensors} with {}, {scalars}\n", bytes(tensor_bytes));
    if kept_back > 0 {
        let _ = writeln!(text, "{} of them shown ({why_limited}).", grouped(selected - kept_back));
    }
    if parts.iter().all(|part| lists_dispatches(part.dump)) {
        let dispatches = counted_in(sum(|dump| dump.totals().dispatches), "dispatch", "dispatches");
        let _ = writeln!(
            text,
            "They are the arguments of {dispatches} (--dump-args alone): no content was stored."
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
        // What cannot be read again is counted all the same.
        Err(_) => format!("{} could not be captured", counted(count, "argument")),
    }
}

/// Where the code of kernels is kept; nothing where the dump has none.
fn programs_text(parts: &[Part<'_>]) -> Option<String> {
    let modules: Vec<_> = parts.iter().flat_map(|part| part.dump.modules()).collect();
    let size = bytes(modules.iter().map(|module| module.bytes).sum());
    let programs = counted(modules.len() as u64, "program");
    (!modules.is_empty()).then(|| {
        format!(
            "Its kernels come from {programs} with {size}, column `module`; `{} summary` names them.",
            program()
        )
    })
}

/// What is missing or still to come; nothing for a dump that is whole.
pub fn state_lines(dump: &Dump) -> String {
    let mut text = String::new();
    let lost = dump.footer().map(|footer| losses_by_reason(&footer.losses)).unwrap_or_default();
    let missing: u64 = dump.gaps().iter().map(|gap| gap.records).sum();
    if !lost.is_empty() {
        let _ = writeln!(text, "Records that lost their payload or are missing, by reason: {lost}.");
    } else if missing > 0 {
        let _ = writeln!(text, "{} missing: lost while the run lasted.", counted(missing, "record"));
    }
    match dump.passed_over() {
        Some(PassedOver { path, why: WhyPassedOver::Damaged { reason, records } }) => {
            let (path, records) = (printable_path(path), counted(*records, "record"));
            let reason = printable(reason);
            let _ = writeln!(
                text,
                "{path} is damaged ({reason}) and has {records}; these are from the manifest."
            );
            let _ = writeln!(text, "`{} repair {}` sets the index aside.", program(), quoted(dump.dir()));
        }
        Some(PassedOver { path, why: WhyPassedOver::Version(version) }) => {
            let path = printable_path(path);
            let _ = writeln!(
                text,
                "{path} is of version {version} and passed over; these are from the manifest."
            );
        }
        // Other reasons will have words of their own.
        Some(_) | None => {}
    }
    match dump.tail() {
        Tail::Closed => {}
        Tail::Open => text += "The run still goes on: these are its records so far.\n",
        Tail::Torn { offset, lost_bytes, reason } => {
            let (offset, dir, reason) = (grouped(offset), quoted(dump.dir()), printable(&reason));
            let lost = match lost_bytes {
                0 => String::new(),
                lost => format!("; {} after it lost", counted(lost, "byte")),
            };
            let _ = writeln!(text, "The dump is torn at byte {offset} of its index ({reason}){lost}.");
            let _ = writeln!(text, "`{} repair {dir}` makes it whole.", program());
        }
    }
    text
}
