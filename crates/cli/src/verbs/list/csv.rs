//! The records as CSV: one line each, nothing shortened, no foot.

use std::io::Write;

use super::column::{Cells, Column};
use super::rows::Rows;

/// Writes the names of the columns, then a line per record.
pub fn write(out: &mut dyn Write, rows: &Rows<'_>, columns: &[Column]) -> anyhow::Result<()> {
    let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
    writeln!(out, "{}", names.join(","))?;
    let mut cells = Cells::new(rows.dump().info());
    let mut line = String::new();
    rows.for_each(|record| {
        line.clear();
        for (place, column) in columns.iter().enumerate() {
            if place > 0 {
                line.push(',');
            }
            let start = line.len();
            column.write_for_machines(&mut cells, record, &mut line);
            quote(&mut line, start);
        }
        line.push('\n');
        Ok(out.write_all(line.as_bytes())?)
    })?;
    Ok(())
}

/// Puts the cell that starts at `start` in quotes where it would not be read as one cell.
fn quote(line: &mut String, start: usize) {
    if line[start..].contains([',', '"', '\n', '\r']) {
        let cell = line.split_off(start).replace('"', "\"\"");
        line.push('"');
        *line += &cell;
        line.push('"');
    }
}

#[cfg(test)]
mod tests {
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
}
