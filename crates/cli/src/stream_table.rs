//! A table that is printed while it is made: columns are as wide as their names and the first rows ask for.

use std::io::Write;

/// Rows that have a say in the widths.
const MEASURED_ROWS: usize = 512;
/// No column takes more; a longer cell pushes its row to the right.
const MOST: usize = 40;

/// A column: its name, the width that its type asks for, and whether its cells end under one another.
pub type Column = (&'static str, usize, bool);

/// Takes rows and prints them. Nothing is printed for a table without rows.
pub struct StreamTable<const N: usize> {
    columns: [Column; N],
    first: Vec<[String; N]>,
    widths: Option<[usize; N]>,
}

impl<const N: usize> StreamTable<N> {
    /// A table of these columns.
    pub fn new(columns: [Column; N]) -> StreamTable<N> {
        StreamTable { columns, first: Vec::new(), widths: None }
    }

    /// Takes a row, and prints it as soon as widths are known.
    pub fn row(&mut self, out: &mut dyn Write, row: [String; N]) -> anyhow::Result<()> {
        if let Some(widths) = &self.widths {
            return self.print(out, widths, &row);
        }
        self.first.push(row);
        if self.first.len() == MEASURED_ROWS { self.print_first(out) } else { Ok(()) }
    }

    /// Prints what was kept back.
    pub fn finish(mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.widths.is_none() && !self.first.is_empty() { self.print_first(out) } else { Ok(()) }
    }

    fn print_first(&mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut widths = self.columns.map(|(name, least, _)| least.max(name.len()));
        for row in &self.first {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count().min(MOST));
            }
        }
        self.print(out, &widths, &self.columns.map(|(name, _, _)| name.to_string()))?;
        for row in std::mem::take(&mut self.first) {
            self.print(out, &widths, &row)?;
        }
        self.widths = Some(widths);
        Ok(())
    }

    /// One row, without spaces at its end.
    fn print(&self, out: &mut dyn Write, widths: &[usize; N], row: &[String; N]) -> anyhow::Result<()> {
        let mut line = String::new();
        for ((cell, width), (_, _, number)) in row.iter().zip(widths).zip(&self.columns) {
            let space = " ".repeat(width.saturating_sub(cell.chars().count()));
            let (before, after) = if *number { (space.as_str(), "") } else { ("", space.as_str()) };
            line.extend([before, cell, after, "  "]);
        }
        Ok(writeln!(out, "{}", line.trim_end())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_one_another() {
        let mut table = StreamTable::new([("NAME", 0, false), ("N", 3, true), ("X", 0, false)]);
        let mut out = Vec::new();
        for (name, number) in [("a", "1"), ("longer", "22")] {
            table.row(&mut out, [name.into(), number.into(), String::new()]).unwrap();
        }
        table.finish(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "NAME      N  X\na         1\nlonger   22\n");
    }

    #[test]
    fn later_rows_keep_the_widths_of_the_first() {
        let mut table = StreamTable::new([("A", 0, true)]);
        let mut out = Vec::new();
        for number in 0..MEASURED_ROWS * 2 {
            table.row(&mut out, [number.to_string()]).unwrap();
        }
        table.finish(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), MEASURED_ROWS * 2 + 1);
    }
}
