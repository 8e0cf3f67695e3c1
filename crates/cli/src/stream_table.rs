//! A table that is printed while it is made: columns are as wide as their names and the first rows ask for.

use std::io::Write;

pub use crate::fit::Column;
use crate::fit::{Fit, Line};
use tensortap_query::fields::Field;

/// Rows that have a say in the widths.
const MEASURED_ROWS: usize = 512;
/// No column takes more; a longer cell pushes its row to the right.
const MOST: usize = 40;

/// The column of a field.
pub fn column(field: &Field) -> Column {
    (field.heading, field.width, field.is_number)
}

/// Takes rows and prints them. Nothing is printed for a table without rows.
pub struct StreamTable<const N: usize> {
    columns: [Column; N],
    fit: Fit,
    first: Vec<[String; N]>,
    line: Option<Line<N>>,
}

impl<const N: usize> StreamTable<N> {
    /// A table of these columns, as many as fit.
    pub fn new(columns: [Column; N], fit: Fit) -> StreamTable<N> {
        StreamTable { columns, fit, first: Vec::new(), line: None }
    }

    /// Takes a row, and prints it as soon as widths are known.
    pub fn row(&mut self, out: &mut dyn Write, row: [String; N]) -> anyhow::Result<()> {
        if let Some(line) = &self.line {
            return Ok(write!(out, "{}", line.row(&row))?);
        }
        self.first.push(row);
        if self.first.len() == MEASURED_ROWS { self.print_first(out).map(drop) } else { Ok(()) }
    }

    /// Prints what was kept back, and which columns there was no room for.
    pub fn finish(mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        let line = match self.line.take() {
            Some(line) => line,
            None if self.first.is_empty() => return Ok(()),
            None => self.print_first(out)?,
        };
        Ok(write!(out, "{}", line.left_out())?)
    }

    fn print_first(&mut self, out: &mut dyn Write) -> anyhow::Result<Line<N>> {
        let mut widths = self.columns.map(|(name, least, _)| least.max(name.len()));
        for row in &self.first {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count().min(MOST));
            }
        }
        let line = Line::fitting(self.columns, widths, self.fit);
        write!(out, "{}", line.head())?;
        for row in std::mem::take(&mut self.first) {
            write!(out, "{}", line.row(&row))?;
        }
        self.line = Some(line.clone());
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_one_another() {
        let mut table =
            StreamTable::new([("NAME", 0, false), ("N", 3, true), ("X", 0, false)], Fit::default());
        let mut out = Vec::new();
        for (name, number) in [("a", "1"), ("longer", "22")] {
            table.row(&mut out, [name.into(), number.into(), String::new()]).unwrap();
        }
        table.finish(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "NAME      N  X\na         1\nlonger   22\n");
    }

    #[test]
    fn later_rows_keep_the_widths_of_the_first() {
        let mut table = StreamTable::new([("A", 0, true)], Fit::default());
        let mut out = Vec::new();
        for number in 0..MEASURED_ROWS * 2 {
            table.row(&mut out, [number.to_string()]).unwrap();
        }
        table.finish(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), MEASURED_ROWS * 2 + 1);
    }
}
