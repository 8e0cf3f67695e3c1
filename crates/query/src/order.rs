//! The order of rows: as captured, or by the keys asked for.

use std::collections::HashMap;

use tensortap::format::FormatError;

use crate::SelectorError;
use crate::fields::{Cells, FIELDS, Field, Of, Order, Row};
use crate::rows::{Counts, Part, RecordAt};

/// One key, smallest first unless descending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    field: &'static Field,
    descending: bool,
}

impl SortKey {
    /// Reads `bytes` or, for the largest first, `-bytes`.
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
        let sortable = |field: &&&Field| field.of == Of::Record && field.is_sortable();
        let all: Vec<&'static Field> = FIELDS.iter().collect();
        let found = all.iter().filter(sortable).find(|field| field.names().any(|known| known == name));
        let field = *found.ok_or_else(|| SelectorError::NoKey {
            keys: all.iter().filter(sortable).map(|field| field.short.unwrap_or(field.key)).collect(),
        })?;
        Ok(SortKey { field, descending })
    }
}

impl SortKey {
    /// What rows are sorted by.
    #[must_use]
    pub fn field(&self) -> &'static Field {
        self.field
    }
}

/// What a record without a value sorts as: last, in both directions.
const MISSING: u64 = u64::MAX;

/// Rows in another order than that of the dumps.
pub(crate) struct Sorted {
    pub places: Vec<RecordAt>,
    pub counts: Counts,
    /// Fields to sort by that no row has a value for.
    pub without_values: Vec<&'static Field>,
}

/// Places of the selected records in the order of the keys, and the counts over them. Ties keep the order of the dumps.
pub(crate) fn sorted(parts: &[Part<'_>], sort: &[SortKey]) -> Result<Sorted, FormatError> {
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
    Ok(Sorted { places, counts, without_values })
}

/// A number that sorts as the field does; of texts, the number of the text, to be ranked later.
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

/// Texts, numbered as they come.
#[derive(Default)]
struct Names {
    numbers: HashMap<String, u64>,
    /// The one that is looked up.
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

    /// Replaces numbers by places in the order of the texts.
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
    fn a_key_is_a_field_with_or_without_a_minus() {
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
