//! The order of rows: as captured, or by the keys asked for.

use std::collections::HashMap;

use tensortap::format::{Dump, FormatError, Record, ScalarValue};

use super::column::{ALL, Cells, Column};
use super::foot::Foot;
use tensortap_query::Selection;

/// One key, smallest first unless descending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    column: Column,
    descending: bool,
}

/// Reads `bytes` or, for the largest first, `-bytes`.
pub fn parse_sort_key(text: &str) -> Result<SortKey, String> {
    let (name, descending) = match text.strip_prefix('-') {
        Some(name) => (name, true),
        None => (text.strip_prefix('+').unwrap_or(text), false),
    };
    let sortable = |column: &&Column| !matches!(column, Column::Strides | Column::Name);
    let found = ALL.iter().filter(sortable).find(|column| column.name() == name);
    let column = *found.ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().filter(sortable).map(|column| column.name()).collect();
        format!("a key is one of {}; -KEY has the largest first", names.join(", "))
    })?;
    Ok(SortKey { column, descending })
}

/// What a record without a value sorts as: last, in both directions.
const MISSING: u64 = u64::MAX;

/// Positions of the selected records in the order of the keys, and the counts over them. Ties keep the dump's order.
pub fn sorted(dump: &Dump, selection: &Selection, sort: &[SortKey]) -> Result<(Vec<u64>, Foot), FormatError> {
    let mut foot = Foot::default();
    let mut keys: Vec<u64> = Vec::new();
    let mut positions: Vec<u64> = Vec::new();
    let mut names = Names::default();
    let mut cells = Cells::new(dump.info());
    for record in selection.records(dump) {
        let record = record?;
        foot.add(&record);
        positions.push(record.index);
        keys.extend(sort.iter().map(|key| key_of(key.column, &record, &mut cells, &mut names)));
    }
    names.rank(&mut keys, sort);
    for (key, place) in keys.iter_mut().zip(sort.iter().cycle()) {
        if place.descending && *key != MISSING {
            *key = MISSING - 1 - *key;
        }
    }
    let keys_of = |row: usize| &keys[row * sort.len()..(row + 1) * sort.len()];
    let mut rows: Vec<usize> = (0..positions.len()).collect();
    rows.sort_unstable_by(|&a, &b| keys_of(a).cmp(keys_of(b)).then(a.cmp(&b)));
    Ok((rows.into_iter().map(|row| positions[row]).collect(), foot))
}

/// A number that sorts as the column does; of kernels, the number of their name, to be ranked later.
fn key_of(column: Column, record: &Record, cells: &mut Cells<'_>, names: &mut Names) -> u64 {
    let key = match column {
        Column::Index => record.index,
        Column::Task | Column::Name => record.task_id,
        Column::Kernel => names.number(cells.kernels(record)),
        Column::Stage => record.stage as u64,
        Column::Role => record.role.tag().into(),
        Column::Arg => record.arg_index.into(),
        Column::Kind => u64::from(record.value().is_some()),
        Column::Dtype => record.dtype.tag().into(),
        Column::Shape | Column::Strides | Column::Numel => record.numel,
        Column::Bytes => record.content_bytes(),
        Column::Hash => {
            return record.hash.map_or(MISSING, |hash| u64::try_from(hash >> 64).unwrap_or(MISSING));
        }
        Column::Flags => {
            let words = tensortap_query::words::flag_words(record);
            words.iter().fold(0, |bits, word| bits * 2 + u64::from(!word.is_empty()))
        }
        Column::Value => return record.value().map_or(MISSING, |value| ordered(as_float(value))),
        Column::Payload => record.payload as u64,
        Column::StartOffset => record.start_offset,
        Column::Address => record.address,
        Column::BinOffset => record.bin_offset,
        Column::BinSize => record.bin_size,
        Column::Thread => record.thread.into(),
        Column::Min
        | Column::Max
        | Column::Mean
        | Column::Std
        | Column::Zeros
        | Column::Nan
        | Column::Inf => {
            return column.statistic(record).map_or(MISSING, ordered);
        }
    };
    key.min(MISSING - 1)
}

#[expect(clippy::cast_precision_loss, reason = "a place in an order, not a value")]
fn as_float(value: ScalarValue) -> f64 {
    match value {
        ScalarValue::Float(value) => value,
        ScalarValue::Int(value) | ScalarValue::Int64(value) => value as f64,
        ScalarValue::UInt(value) | ScalarValue::UInt64(value) => value as f64,
        ScalarValue::Bool(value) => f64::from(u8::from(value)),
    }
}

/// A number that sorts as the float does; NaN has no place among them.
fn ordered(value: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    let bits = value.to_bits();
    if value.is_nan() {
        MISSING
    } else if bits & SIGN == 0 {
        bits | SIGN
    } else {
        !bits
    }
}

/// Names of kernels, numbered as they come.
#[derive(Default)]
struct Names {
    numbers: HashMap<String, u64>,
}

impl Names {
    fn number(&mut self, name: &str) -> u64 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.numbers.len() as u64;
        self.numbers.insert(name.into(), number);
        number
    }

    /// Replaces numbers by places in the order of the names.
    fn rank(&self, keys: &mut [u64], sort: &[SortKey]) {
        let mut names: Vec<(&str, u64)> =
            self.numbers.iter().map(|(name, number)| (name.as_str(), *number)).collect();
        names.sort_unstable();
        let ranks: HashMap<u64, u64> =
            names.iter().enumerate().map(|(rank, (_, number))| (*number, rank as u64)).collect();
        for (key, place) in keys.iter_mut().zip(sort.iter().cycle()) {
            if place.column == Column::Kernel {
                *key = ranks.get(key).copied().unwrap_or(MISSING);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_is_a_column_with_or_without_a_minus() {
        let key = |column, descending| Ok(SortKey { column, descending });
        assert_eq!(parse_sort_key("bytes"), key(Column::Bytes, false));
        assert_eq!(parse_sort_key("-bytes"), key(Column::Bytes, true));
        assert_eq!(parse_sort_key("+task"), key(Column::Task, false));
        for text in ["", "-", "size", "strides", "--bytes"] {
            assert!(parse_sort_key(text).unwrap_err().contains("bytes"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn floats_sort_as_numbers(a: f64, b: f64) {
            prop_assume!(!a.is_nan() && !b.is_nan());
            prop_assert_eq!(ordered(a).cmp(&ordered(b)), a.total_cmp(&b));
            prop_assert!(ordered(a) < MISSING);
        }
    }
}
