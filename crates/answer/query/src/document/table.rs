//! Tables that a page sorts and filters itself. Each distinct text of a column is stored once.

use std::collections::HashMap;

use serde::{Serialize, Serializer};

/// A table.
#[derive(Debug, Default, Serialize)]
pub struct TableDocument {
    /// The columns, each with a cell for every row.
    pub columns: Vec<ColumnDocument>,
    /// Number of rows in this table.
    pub rows: usize,
    /// Number of all rows.
    pub of: u64,
    /// Which rows are included, if not all are.
    pub note: Option<String>,
}

/// A column.
#[derive(Debug, Serialize)]
pub struct ColumnDocument {
    /// The key of the column.
    pub key: &'static str,
    /// The title of the column.
    pub title: &'static str,
    /// A description of the column.
    pub about: &'static str,
    /// Whether cells are numbers, which are right-aligned.
    pub end: bool,
    /// Whether cells may be long and are cut.
    pub wide: bool,
    /// Every distinct text.
    words: Vec<String>,
    /// Index of each row's text.
    at: Vec<usize>,
    /// Sort values of the rows, if they are not sorted by text. Null sorts last.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "numbers")]
    value: Vec<Option<f64>>,
}

/// Maximum characters of a cell. Longer text is cut, so that long names do not inflate a page.
const LONGEST: usize = 240;

/// Builds a table row by row.
pub struct TableMaker {
    table: TableDocument,
    known: Vec<HashMap<String, usize>>,
}

/// A cell: its text and its sort value.
pub struct Cell(String, Option<f64>);

impl Cell {
    /// A cell with text only.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell(text.into(), None)
    }

    /// A number with its text.
    pub fn number(text: impl Into<String>, value: f64) -> Cell {
        Cell(text.into(), Some(value))
    }

    /// A number that may be missing.
    pub fn some<T: Copy>(value: Option<T>, text: impl Fn(T) -> String, number: impl Fn(T) -> f64) -> Cell {
        Cell(value.map_or(String::new(), text), value.map(number))
    }
}

/// The definition of a column.
#[derive(Clone, Copy)]
pub struct Column {
    /// The key of the column.
    pub key: &'static str,
    /// The title of the column.
    pub title: &'static str,
    /// A description of the column.
    pub about: &'static str,
    /// How it is laid out.
    pub kind: ColumnKind,
}

/// How a column is laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Short text.
    Text,
    /// Text that may be long.
    Wide,
    /// Numbers.
    Number,
}

impl TableMaker {
    /// A table without rows.
    #[must_use]
    pub fn new(columns: &[Column]) -> TableMaker {
        let column = |column: &Column| ColumnDocument {
            key: column.key,
            title: column.title,
            about: column.about,
            end: column.kind == ColumnKind::Number,
            wide: column.kind == ColumnKind::Wide,
            words: Vec::new(),
            at: Vec::new(),
            value: Vec::new(),
        };
        let columns: Vec<ColumnDocument> = columns.iter().map(column).collect();
        let known = vec![HashMap::new(); columns.len()];
        TableMaker { table: TableDocument { columns, ..TableDocument::default() }, known }
    }

    /// Adds a row. It must have a cell for every column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        for ((column, known), Cell(text, value)) in
            self.table.columns.iter_mut().zip(&mut self.known).zip(cells)
        {
            let text = cut(text);
            let place = *known.entry(text).or_insert_with_key(|text| {
                column.words.push(text.clone());
                column.words.len() - 1
            });
            column.at.push(place);
            if column.end {
                column.value.push(value);
            }
        }
        self.table.rows += 1;
    }

    /// Finishes the table. `of` is the number of all rows.
    #[must_use]
    pub fn finish(mut self, of: u64, note: Option<String>) -> TableDocument {
        self.table.of = of;
        self.table.note = note;
        self.table
    }
}

/// Cuts a text to the maximum length of a cell.
pub fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Writes whole numbers without a fraction, and NaN and infinities as null.
fn numbers<S: Serializer>(values: &[Option<f64>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|value| match value {
        Some(value) if value.fract() == 0.0 && value.abs() < 1e15 => {
            #[expect(clippy::cast_possible_truncation, reason = "whole, and far from the end")]
            let whole = *value as i64;
            serde_json::Value::from(whole)
        }
        Some(value) if value.is_finite() => serde_json::Value::from(*value),
        _ => serde_json::Value::Null,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_each_text_once_and_cuts_long_ones() {
        let columns = [
            Column { key: "name", title: "Name", about: "", kind: ColumnKind::Wide },
            Column { key: "time", title: "Time", about: "", kind: ColumnKind::Number },
        ];
        let mut maker = TableMaker::new(&columns);
        for (name, time) in
            [("a", Some(2.5)), ("b", None), ("a", Some(f64::NAN)), (&"x".repeat(500), Some(7.0))]
        {
            maker.row([Cell::text(name), Cell::some(time, |time| format!("{time} s"), |time| time)]);
        }
        let json = serde_json::to_value(maker.finish(9, Some("note".into()))).expect("JSON");
        assert_eq!(json["columns"][0]["at"], serde_json::json!([0, 1, 0, 2]));
        assert_eq!(json["columns"][0]["words"][2].as_str().expect("text").chars().count(), LONGEST + 1);
        assert_eq!(json["columns"][1]["value"], serde_json::json!([2.5, null, null, 7]));
        assert_eq!(json["columns"][1]["words"], serde_json::json!(["2.5 s", "", "NaN s", "7 s"]));
        assert_eq!((&json["rows"], &json["of"]), (&4.into(), &9.into()));
    }
}
