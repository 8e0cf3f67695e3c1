//! How cells are written: without an allocation for what stands in every row.

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

/// What stands for the kernels of a task of which nobody knows them.
pub(super) const NO_KERNELS: &str = "-";

/// What cells need beside their row.
pub struct Cells<'d> {
    dump: &'d Dump,
    /// Which of several dumps the rows are of.
    pub rank: Option<u64>,
    /// The process that was recorded, as the dump says it.
    pub(super) pid: Option<u64>,
    /// What a program says of its tasks, read when a column asks for it. What cannot be read is not said.
    details: OnceCell<Details>,
    roles: ObservedRoles<'d>,
    /// Whether tasks go without leading zeros.
    pub short_tasks: bool,
    /// Whether a scalar's value stands where a tensor has its hash.
    pub values_for_hashes: bool,
    /// A dump has few sets of kernels and many records.
    labels: BTreeMap<[u32; SLOTS_PER_TASK], String>,
}

impl<'d> Cells<'d> {
    /// For rows of one dump.
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

    /// For rows of one of several dumps.
    #[must_use]
    pub fn of(part: &Part<'d>) -> Cells<'d> {
        Cells { rank: part.rank, ..Cells::new(part.dump) }
    }

    /// What a program says of the task.
    pub(super) fn details(&self, row: &Row<'_>) -> TaskDetails<'_> {
        let details = self.details.get_or_init(|| self.dump.details().unwrap_or_default());
        details.of(row.record.task_key())
    }

    /// Number of the program that the task's code comes from.
    pub(super) fn module(&self, row: &Row<'_>) -> Option<u32> {
        let info = self.dump.info();
        let of =
            |id: u32| info.kernels.iter().find(|kernel| kernel.func_id == id).map(|kernel| kernel.module);
        row.record.func_ids().find_map(of).filter(|&module| module != 0)
    }

    /// The role, or what was observed instead.
    pub(super) fn role(&self, row: &Row<'_>) -> &'static str {
        self.roles.choice(row.record).name()
    }

    /// What is not decided of the roles that were written.
    #[must_use]
    pub fn not_decided(&self) -> &[String] {
        self.roles.not_decided()
    }

    /// What people call the argument.
    pub(super) fn arg_name(&self, row: &Row<'_>) -> Option<&'d str> {
        self.dump.arg_name(row.record)
    }

    /// What people call the record and its task.
    pub(super) fn names(&self, row: &Row<'_>) -> Names<'d> {
        self.dump.names(row.record)
    }

    /// The record's kernels as one word, `-` when nobody knows.
    pub(super) fn kernels(&mut self, row: &Row<'_>) -> &str {
        let (info, record) = (self.dump.info(), row.record);
        self.labels.entry(record.func_id).or_insert_with(|| {
            let names: Vec<String> = record.func_ids().map(|id| info.kernel_name(id)).collect();
            kernels_text(&names)
        })
    }

    /// How a table heads a field.
    #[must_use]
    pub fn heading(&self, field: &Field) -> &'static str {
        if field.key == "hash" && self.values_for_hashes { "HASH OR VALUE" } else { field.heading }
    }

    /// The cell of a table.
    #[must_use]
    pub fn text(&mut self, field: &Field, row: &Row<'_>) -> String {
        let mut text = String::new();
        field.write_for_people(self, row, &mut text);
        text
    }

    /// A line of a CSV file, without its end. Cells that would not be read as one are put in quotes.
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

/// The first line of a CSV file, without its end.
#[must_use]
pub fn csv_head(fields: &[&Field]) -> String {
    fields.iter().map(|field| field.key).collect::<Vec<_>>().join(",")
}

/// Puts the cell that starts at `start` in quotes where it would not be read as one cell.
pub fn quote(line: &mut String, start: usize) {
    if line[start..].contains([',', '"', '\n', '\r']) {
        let cell = line.split_off(start).replace('"', "\"\"");
        line.push('"');
        *line += &cell;
        line.push('"');
    }
}

/// Counts are exact below 2^53, which tensors stay below.
#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
pub(super) fn count(count: u64) -> f64 {
    count as f64
}

/// Writing to a text cannot fail.
pub(super) fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

/// The highest `DIGITS` of 32, without the formatting machinery: hashes stand in every row.
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

/// With a point or an exponent, so that it reads as a float.
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

/// An end of the range of values; of integers that a float would round, exactly.
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
        (None, Some(value)) if !row.record.dtype.is_float() => put(out, format_args!("{value:.0}")),
        (None, value) => show_float(out, value, STATISTIC_DIGITS),
    }
}

/// Adding zero turns -0 into 0.
pub(super) fn show_float(out: &mut String, value: Option<f64>, digits: usize) {
    *out += &value.map_or("-".into(), |value| significant(value + 0.0, digits));
}

/// Characters of a task's name and scope in a table: no column is wider.
const MOST_OF_A_NAME: usize = 40;

/// The end of a long name, which tells more than where it begins.
pub(super) fn ending(name: &str) -> String {
    // As many bytes are no more characters.
    let end =
        if name.len() <= MOST_OF_A_NAME { None } else { name.char_indices().nth_back(MOST_OF_A_NAME - 2) };
    match end {
        Some((begin, _)) if name[..begin].chars().nth(1).is_some() => format!("…{}", &name[begin..]),
        _ => name.into(),
    }
}

#[cfg(test)]
#[test]
fn the_end_of_a_long_name_is_kept_and_a_name_that_fits_whole() {
    let fits = "é".repeat(MOST_OF_A_NAME);
    assert_eq!(
        (ending(""), ending("softmax"), ending(&fits)),
        (String::new(), "softmax".into(), fits.clone())
    );
    assert_eq!(ending(&format!("ab{}", &fits)), format!("…{}", "é".repeat(MOST_OF_A_NAME - 1)));
    assert_eq!(ending(&format!("a{}", "b".repeat(MOST_OF_A_NAME))).chars().count(), MOST_OF_A_NAME);
}

/// A name without what a terminal would act upon; `-` for none.
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

/// As the manifest has it, so that nothing is lost.
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
    fn a_cell_that_would_be_two_is_quoted() {
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
        fn numbers_and_hashes_are_written_as_the_standard_would(number: u64, hash: u128) {
            let mut text = String::new();
            push_number(&mut text, number);
            push_hex::<32>(&mut text, hash);
            prop_assert_eq!(text, format!("{number}{hash:032x}"));
        }
    }
}
