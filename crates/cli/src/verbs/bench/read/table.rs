use std::time::Duration;

use super::Pairs;
use super::export::ExportRatio;
use super::list::Listed;
use super::stats::StatsRatio;
use crate::number::{byte_rate, bytes, counted, grouped, significant, time};
use crate::verbs::bench::machine::Machine;
use crate::verbs::bench::spread::Spread;

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
    let head = cells(["WHAT", "AGAINST", "PLAIN", "TENSORTAP", "RATIO", "MIN – MAX", "TARGET"]);
    format!("\npayload: {} in tensors of 1 MiB, median of {runs}\n{head}", bytes(total))
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
    cells([
        what,
        against,
        &byte_rate(pairs.plain_bytes_per_s.median),
        &byte_rate(pairs.tensortap_bytes_per_s.median),
        &significant(pairs.ratio.median, 3),
        &ends(&pairs.ratio),
        &format!("{} {}", pairs.target_ratio, met_word(pairs.met)),
    ])
}

fn cells(cells: [&str; 7]) -> String {
    let [what, against, plain, ours, ratio, ends, target] = cells;
    format!("  {what:19}  {against:18}  {plain:>9}  {ours:>9}  {ratio:>6}  {ends:>15}  {target}\n")
}

/// What to keep in mind.
pub fn foot(notes: &[&str], load: Option<f64>) -> String {
    let notes = notes.iter().fold("\n".to_string(), |text, note| text + note + "\n");
    format!("{notes}{}", load_text(load, " at the end\n"))
}

fn load_text(load: Option<f64>, then: &str) -> String {
    load.map_or(String::new(), |load| format!("load average {load:.2}{then}"))
}

fn ends(spread: &Spread) -> String {
    format!("{} – {}", significant(spread.min, 3), significant(spread.max, 3))
}

fn met_word(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}
