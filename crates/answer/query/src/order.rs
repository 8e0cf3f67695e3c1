//! Sorting of rows by keys.

use std::collections::HashMap;

use tensortap::format::FormatError;

use crate::SelectorError;
use crate::fields::{Cells, FIELDS, Field, FieldSource, Order, Row};
use crate::rows::{Counts, Part, RecordAt};

/// A sort key; ascending unless `descending`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    field: &'static Field,
    descending: bool,
}

impl SortKey {
    /// Parses `bytes` or, for descending order, `-bytes`.
    ///
    /// ```
    /// use tensortap_query::SortKey;
    /// assert!(SortKey::parse("-bytes").is_ok());
    /// assert!(SortKey::parse("size").unwrap_err().to_string().contains("bytes"));
    /// ```
    pub fn parse(text: &str) -> Result<SortKey, SelectorError> {
        let (name, descending) = match text.strip_prefix('-') {
            Some(name) => (name, true),
            None => (text.strip_prefix('+').unwrap_or(text), false),
        };
        let sortable = |field: &&&Field| field.of == FieldSource::Record && field.is_sortable();
        let all: Vec<&'static Field> = FIELDS.iter().collect();
        let found = all.iter().filter(sortable).find(|field| field.names().any(|known| known == name));
        let field = *found.ok_or_else(|| SelectorError::NoKey {
            keys: all.iter().filter(sortable).map(|field| field.short.unwrap_or(field.key)).collect(),
        })?;
        Ok(SortKey { field, descending })
    }
}

impl SortKey {
    /// The field to sort by.
    #[must_use]
    pub fn field(&self) -> &'static Field {
        self.field
    }
}

/// The key of a record without a value. It comes last in both directions.
const MISSING: u64 = u64::MAX;

/// Sorted rows.
pub(crate) struct SortedRows {
    pub places: Vec<RecordAt>,
    pub counts: Counts,
    /// Sort fields for which no row has a value.
    pub without_values: Vec<&'static Field>,
}

/// Sorts the selected records by the keys and counts them. Ties keep the order of the dumps.
pub(crate) fn sorted(parts: &[Part<'_>], sort: &[SortKey]) -> Result<SortedRows, FormatError> {
    let mut counts = Counts::default();
    let mut keys: Vec<u64> = Vec::new();
    let mut places: Vec<RecordAt> = Vec::new();
    let mut names = Names::default();
    for (place, part) in parts.iter().enumerate() {
        let mut cells = Cells::of(part);
        for record in part.selection.records(part.dump) {
            let record = record?;
            counts.add(&record);
            places.push((place, record.index));
            keys.extend(sort.iter().map(|key| key_of(key.field, &Row::of(&record), &mut cells, &mut names)));
        }
    }
    let is_missing = |place: usize| keys.iter().skip(place).step_by(sort.len()).all(|&key| key == MISSING);
    let without_values = (0..sort.len()).filter(|&place| !places.is_empty() && is_missing(place));
    let without_values = without_values.map(|place| sort[place].field).collect();
    names.rank(&mut keys, sort);
    for (key, place) in keys.iter_mut().zip(sort.iter().cycle()) {
        if place.descending && *key != MISSING {
            *key = MISSING - 1 - *key;
        }
    }
    let keys_of = |row: usize| &keys[row * sort.len()..(row + 1) * sort.len()];
    let mut rows: Vec<usize> = (0..places.len()).collect();
    rows.sort_unstable_by(|&a, &b| keys_of(a).cmp(keys_of(b)).then(a.cmp(&b)));
    let places = rows.into_iter().map(|row| places[row]).collect();
    Ok(SortedRows { places, counts, without_values })
}

/// A number that sorts like the field. For texts, the number of the text, which is replaced by its rank
/// later.
fn key_of(field: &Field, row: &Row<'_>, cells: &mut Cells<'_>, names: &mut Names) -> u64 {
    match field.order {
        Order::None => MISSING,
        Order::Number(of) => of(row).map_or(MISSING, |key| key.min(MISSING - 1)),
        Order::Float(of) => of(row).map_or(MISSING, ordered),
        Order::Text => {
            names.text.clear();
            field.write_for_machines(cells, row, &mut names.text);
            names.number()
        }
    }
}

/// A number that sorts like the float. NaN counts as missing.
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

/// Numbers texts in order of appearance.
#[derive(Default)]
struct Names {
    numbers: HashMap<String, u64>,
    /// The text to look up.
    text: String,
}

impl Names {
    fn number(&mut self) -> u64 {
        if let Some(&number) = self.numbers.get(&self.text) {
            return number;
        }
        let number = self.numbers.len() as u64;
        self.numbers.insert(self.text.clone(), number);
        number
    }

    /// Replaces the numbers of texts by their ranks.
    fn rank(&self, keys: &mut [u64], sort: &[SortKey]) {
        let mut names: Vec<(&str, u64)> =
            self.numbers.iter().map(|(name, number)| (name.as_str(), *number)).collect();
        names.sort_unstable();
        let ranks: HashMap<u64, u64> =
            names.iter().enumerate().map(|(rank, (_, number))| (*number, rank as u64)).collect();
        for (key, place) in keys.iter_mut().zip(sort.iter().cycle()) {
            if matches!(place.field.order, Order::Text) {
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
    fn parses_sort_keys() {
        let key = |name, descending| Ok(SortKey { field: Field::named(name).unwrap(), descending });
        assert_eq!(SortKey::parse("bytes"), key("bytes", false));
        assert_eq!(SortKey::parse("-bytes"), key("bytes", true));
        assert_eq!(SortKey::parse("+task"), key("task_id", false));
        assert_eq!(SortKey::parse("task_id"), key("task_id", false));
        for text in ["", "-", "size", "strides", "verdict", "--bytes"] {
            assert!(SortKey::parse(text).unwrap_err().to_string().contains("bytes"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,12}") {
            let _ = SortKey::parse(&text);
        }

        #[test]
        fn floats_sort_as_numbers(a: f64, b: f64) {
            prop_assume!(!a.is_nan() && !b.is_nan());
            prop_assert_eq!(ordered(a).cmp(&ordered(b)), a.total_cmp(&b));
            prop_assert!(ordered(a) < MISSING);
        }
    }
}
