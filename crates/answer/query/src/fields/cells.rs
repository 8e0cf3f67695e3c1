//! Writes cells. The frequent ones need no allocation.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt::Write;

use tensortap::abi::{SLOTS_PER_TASK, TensorStats};
use tensortap::format::{Details, Dump, Names, Record, TaskDetails};

use super::{Field, Row, STATISTIC_DIGITS};
pub(super) use crate::number::push_number;
use crate::number::{push_grouped, significant};
use crate::observed::ObservedRoles;
use crate::rows::Part;
use crate::words::{kernels_text, printable};

/// The text for unknown kernels.
pub(super) const NO_KERNELS: &str = "-";

/// Context of the cells of one dump.
pub struct Cells<'d> {
    dump: &'d Dump,
    /// Rank of the dump among several.
    pub rank: Option<u64>,
    /// The recorded process.
    pub(super) pid: Option<u64>,
    /// Details from a recorded program, read on first use. If they cannot be read, they are empty.
    details: OnceCell<Details>,
    roles: ObservedRoles<'d>,
    /// Whether task ids are written without leading zeros.
    pub short_tasks: bool,
    /// Whether the hash column shows the value of scalars.
    pub values_for_hashes: bool,
    /// Cache: a dump has few sets of kernels and many records.
    labels: BTreeMap<[u32; SLOTS_PER_TASK], String>,
}

impl<'d> Cells<'d> {
    /// The context for rows of one dump.
    #[must_use]
    pub fn new(dump: &'d Dump) -> Cells<'d> {
        Cells {
            dump,
            rank: None,
            pid: dump.info().process(),
            details: OnceCell::new(),
            roles: ObservedRoles::of(dump),
            short_tasks: false,
            values_for_hashes: false,
            labels: BTreeMap::new(),
        }
    }

    /// The context for rows of one of several dumps.
    #[must_use]
    pub fn of(part: &Part<'d>) -> Cells<'d> {
        Cells { rank: part.rank, ..Cells::new(part.dump) }
    }

    /// Details of the task from a recorded program.
    pub(super) fn details(&self, row: &Row<'_>) -> TaskDetails<'_> {
        let details = self.details.get_or_init(|| self.dump.details().unwrap_or_default());
        details.of(row.record.task_key())
    }

    /// Number of the module with the task's code.
    pub(super) fn module(&self, row: &Row<'_>) -> Option<u32> {
        let info = self.dump.info();
        let of =
            |id: u32| info.kernels.iter().find(|kernel| kernel.func_id == id).map(|kernel| kernel.module);
        row.record.func_ids().find_map(of).filter(|&module| module != 0)
    }

    /// The role or, if unknown, the observation.
    pub(super) fn role(&self, row: &Row<'_>) -> &'static str {
        self.roles.choice(row.record).name()
    }

    /// Remarks about undetermined observations in written cells.
    #[must_use]
    pub fn not_decided(&self) -> &[String] {
        self.roles.not_decided()
    }

    /// Name of the argument.
    pub(super) fn arg_name(&self, row: &Row<'_>) -> Option<&'d str> {
        self.dump.arg_name(row.record)
    }

    /// Names of the record and its task.
    pub(super) fn names(&self, row: &Row<'_>) -> Names<'d> {
        self.dump.names(row.record)
    }

    /// The record's kernels as one word; `-` if unknown.
    pub(super) fn kernels(&mut self, row: &Row<'_>) -> &str {
        let (info, record) = (self.dump.info(), row.record);
        self.labels.entry(record.func_id).or_insert_with(|| {
            let names: Vec<String> = record.func_ids().map(|id| info.kernel_name(id)).collect();
            kernels_text(&names)
        })
    }

    /// The table heading of a field.
    #[must_use]
    pub fn heading(&self, field: &Field) -> &'static str {
        if field.key == "hash" && self.values_for_hashes { "HASH OR VALUE" } else { field.heading }
    }

    /// The text of a table cell.
    #[must_use]
    pub fn text(&mut self, field: &Field, row: &Row<'_>) -> String {
        let mut text = String::new();
        field.write_for_people(self, row, &mut text);
        text
    }

    /// Writes a CSV line without its end. Cells with special characters are quoted.
    pub fn write_csv(&mut self, fields: &[&Field], row: &Row<'_>, line: &mut String) {
        for (place, field) in fields.iter().enumerate() {
            if place > 0 {
                line.push(',');
            }
            let start = line.len();
            field.write_for_machines(self, row, line);
            quote(line, start);
        }
    }
}

/// The header line of a CSV file, without its end.
#[must_use]
pub fn csv_head(fields: &[&Field]) -> String {
    fields.iter().map(|field| field.key).collect::<Vec<_>>().join(",")
}

/// Quotes the cell that starts at `start` if it contains special characters.
pub fn quote(line: &mut String, start: usize) {
    if line[start..].contains([',', '"', '\n', '\r']) {
        let cell = line.split_off(start).replace('"', "\"\"");
        line.push('"');
        *line += &cell;
        line.push('"');
    }
}

/// Exact, because counts are below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
pub(super) fn count(count: u64) -> f64 {
    count as f64
}

/// Writing to a text cannot fail.
pub(super) fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

/// Writes the highest `DIGITS` of 32 hex digits. It avoids the formatting machinery, because every row has a
/// hash.
pub(super) fn push_hex<const DIGITS: usize>(out: &mut String, number: u128) {
    const SPELLED: &[u8; 16] = b"0123456789abcdef";
    let bytes = number.to_be_bytes();
    let digits: [u8; DIGITS] = std::array::from_fn(|place| {
        let byte = bytes[place / 2];
        SPELLED[usize::from(if place % 2 == 0 { byte >> 4 } else { byte & 15 })]
    });
    *out += str::from_utf8(&digits).expect("digits");
}

pub(super) fn push_shape(out: &mut String, shape: &[u64]) {
    for (place, &size) in shape.iter().enumerate() {
        if place > 0 {
            out.push('x');
        }
        push_number(out, size);
    }
}

pub(super) fn push_task(out: &mut String, task_id: u64) {
    *out += "0x";
    push_hex::<16>(out, u128::from(task_id) << 64);
}

pub(super) fn push_optional(out: &mut String, number: Option<u64>) {
    if let Some(number) = number {
        push_number(out, number);
    }
}

/// Writes a float with a point or an exponent, so that it is read as a float.
pub(super) fn push_float(out: &mut String, value: Option<f64>) {
    if let Some(value) = value {
        put(out, format_args!("{value:?}"));
    }
}

pub(super) fn push_plain(out: &mut String, value: Option<f64>) {
    if let Some(value) = value {
        put(out, format_args!("{value}"));
    }
}

/// Writes the minimum or maximum; exactly for integers that a float would round.
pub(super) fn push_end(
    out: &mut String,
    row: &Row<'_>,
    of: fn(&TensorStats) -> f64,
    exact: fn((i128, i128)) -> i128,
) {
    match row.summary().and_then(|summary| summary.exact_range) {
        Some(range) => put(out, format_args!("{}", exact(range))),
        None => push_float(out, row.value_stats().map(|stats| of(&stats))),
    }
}

pub(super) fn show_end(
    out: &mut String,
    row: &Row<'_>,
    of: fn(&TensorStats) -> f64,
    exact: fn((i128, i128)) -> i128,
) {
    let value = row.value_stats().map(|stats| of(&stats));
    match (row.summary().and_then(|summary| summary.exact_range), value) {
        (Some(range), _) => put(out, format_args!("{}", exact(range))),
        // Other integers are whole numbers, too.
        (None, Some(value)) if !row.record.dtype.part().is_float() => put(out, format_args!("{value:.0}")),
        (None, value) => show_float(out, value, STATISTIC_DIGITS),
    }
}

/// Adding zero turns -0 into 0.
pub(super) fn show_float(out: &mut String, value: Option<f64>, digits: usize) {
    *out += &value.map_or("-".into(), |value| significant(value + 0.0, digits));
}

/// Maximum characters of a task's name and scope in a table.
const MOST_OF_A_NAME: usize = 40;

/// The end of a long name, which is more specific than its beginning.
pub(super) fn ending(name: &str) -> String {
    // A text has at most as many characters as bytes.
    let end =
        if name.len() <= MOST_OF_A_NAME { None } else { name.char_indices().nth_back(MOST_OF_A_NAME - 2) };
    match end {
        Some((begin, _)) if name[..begin].chars().nth(1).is_some() => format!("…{}", &name[begin..]),
        _ => name.into(),
    }
}

#[cfg(test)]
#[test]
fn keeps_the_end_of_a_long_name() {
    let fits = "é".repeat(MOST_OF_A_NAME);
    assert_eq!(
        (ending(""), ending("softmax"), ending(&fits)),
        (String::new(), "softmax".into(), fits.clone())
    );
    assert_eq!(ending(&format!("ab{}", &fits)), format!("…{}", "é".repeat(MOST_OF_A_NAME - 1)));
    assert_eq!(ending(&format!("a{}", "b".repeat(MOST_OF_A_NAME))).chars().count(), MOST_OF_A_NAME);
}

/// Writes a printable name; `-` for none.
pub(super) fn show_name(out: &mut String, name: Option<&str>) {
    *out += &name.map_or("-".into(), printable);
}

pub(super) fn show_count(out: &mut String, count: Option<u64>) {
    match count {
        Some(count) => push_grouped(out, count),
        None => out.push('-'),
    }
}

pub(super) fn push_words(out: &mut String, words: impl Iterator<Item = &'static str>, between: char) {
    for (place, word) in words.enumerate() {
        if place > 0 {
            out.push(between);
        }
        *out += word;
    }
}

/// Writes the value as in the manifest, without loss.
pub(super) fn push_value(out: &mut String, record: &Record) {
    if let Some(value) = record.value() {
        let text = serde_json::to_string(&value).unwrap_or_default();
        *out += text.trim_matches('"');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_cells_with_special_characters() {
        for (cell, expected) in
            [("plain", "a,plain"), ("x,y", "a,\"x,y\""), ("say \"x\"", "a,\"say \"\"x\"\"\""), ("", "a,")]
        {
            let mut line = format!("a,{cell}");
            quote(&mut line, 2);
            assert_eq!(line, expected);
        }
    }

    proptest! {
        #[test]
        fn numbers_and_hashes_match_the_standard_formatting(number: u64, hash: u128) {
            let mut text = String::new();
            push_number(&mut text, number);
            push_hex::<32>(&mut text, hash);
            prop_assert_eq!(text, format!("{number}{hash:032x}"));
        }
    }
}
