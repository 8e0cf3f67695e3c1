use std::time::Duration;

use super::Pairs;
use super::export::ExportRatio;
use super::list::Listed;
use super::stats::StatsRatio;
use crate::fit::{Fit, Line};
use crate::verbs::bench::machine::Machine;
use crate::verbs::bench::words::{ends, load_text, met_word};
use tensortap_query::number::{byte_rate, bytes, counted, grouped, significant, time};

/// What was measured on what.
pub fn head(machine: &Machine, load: Option<f64>) -> String {
    format!("{}\n{}", machine.describe(), load_text(load, "\n"))
}

/// Listing.
pub fn list(row: &Listed) -> String {
    let Listed { records, seconds, anonymous_bytes, target_s, target_bytes, met } = row;
    let seconds_text = time(Duration::from_secs_f64(seconds.median));
    let targets = format!("{target_s} s, {}", bytes(*target_bytes));
    format!(
        "\nlist of {} records: {seconds_text} ({} s), {} of anonymous memory; target below {targets}: {}\n",
        grouped(*records),
        ends(seconds),
        bytes(*anonymous_bytes),
        met_word(*met),
    )
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

/// Rows are printed as they are measured, so every width is fixed beforehand.
fn ratios() -> Line<7> {
    let columns = [
        ("WHAT", 19, false),
        ("AGAINST", 18, false),
        ("PLAIN", 9, true),
        ("TENSORTAP", 9, true),
        ("RATIO", 6, true),
        ("MIN – MAX", 15, true),
        ("TARGET", 10, false),
    ];
    Line::of(columns, Fit::terminal(&["MIN – MAX", "PLAIN", "AGAINST"]).indented(2))
}
