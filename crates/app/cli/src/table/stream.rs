//! A table that is printed while its rows are made. The headings and the first rows decide how wide columns are.

use std::io::Write;

use super::text;
use super::{Column, Fit, Layout};

/// Rows that are kept back to measure the columns.
const MEASURED_ROWS: usize = 512;
/// Widest column. A longer cell is cut, or pushes its row to the right.
const MOST: usize = 40;

/// Takes rows and prints them. A table without rows prints nothing.
pub struct StreamTable {
    columns: Vec<Column>,
    fit: Fit,
    first: Vec<Vec<String>>,
    layout: Option<Layout>,
}

impl StreamTable {
    /// A table of these columns.
    pub fn new(columns: impl Into<Vec<Column>>, fit: Fit) -> StreamTable {
        StreamTable { columns: columns.into(), fit, first: Vec::new(), layout: None }
    }

    /// Takes the cells of all columns, and prints them as soon as the widths are settled.
    pub fn row(&mut self, out: &mut dyn Write, row: impl Into<Vec<String>>) -> anyhow::Result<()> {
        let row = row.into();
        if let Some(layout) = &self.layout {
            return Ok(write!(out, "{}", layout.row(&row))?);
        }
        self.first.push(row);
        if self.first.len() == MEASURED_ROWS { self.print_first(out).map(drop) } else { Ok(()) }
    }

    /// Prints the rows that were kept back, and which columns did not fit.
    pub fn finish(mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        let layout = match self.layout.take() {
            Some(layout) => layout,
            None if self.first.is_empty() => return Ok(()),
            None => self.print_first(out)?,
        };
        Ok(write!(out, "{}", layout.left_out_note())?)
    }

    fn print_first(&mut self, out: &mut dyn Write) -> anyhow::Result<Layout> {
        let own = |column: &Column| column.width.max(text::width(column.heading));
        let mut widths: Vec<usize> = self.columns.iter().map(own).collect();
        for row in &self.first {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(text::width(cell).min(MOST));
            }
        }
        let layout = Layout::with_widths(self.columns.clone(), widths, self.fit);
        write!(out, "{}", layout.head())?;
        for row in std::mem::take(&mut self.first) {
            write!(out, "{}", layout.row(&row))?;
        }
        self.layout = Some(layout.clone());
        Ok(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let columns = [Column::text("NAME", 0), Column::number("N", 3), Column::text("X", 0)];
        let mut table = StreamTable::new(columns, Fit::default());
        let mut out = Vec::new();
        for (name, number) in [("a", "1"), ("longer", "22")] {
            table.row(&mut out, [name.into(), number.into(), String::new()]).unwrap();
        }
        table.finish(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "NAME      N  X\na         1\nlonger   22\n");
    }

    #[test]
    fn rows_after_the_measured_ones_are_printed_too() {
        let mut table = StreamTable::new([Column::number("A", 0)], Fit::default());
        let mut out = Vec::new();
        for number in 0..MEASURED_ROWS * 2 {
            table.row(&mut out, [number.to_string()]).unwrap();
        }
        table.finish(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), MEASURED_ROWS * 2 + 1);
    }
}
