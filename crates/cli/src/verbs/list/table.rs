//! The records as a table that can be printed while it is read: columns are as wide as their type and the first
//! records ask for, so that no later one has to be known.

use std::io::Write;

use tensortap::DumpLevel;
use tensortap::format::{Dump, RunInfo};

use super::foot::{Foot, state_lines};
use super::row::{COLUMNS, HEAD, cells};
use crate::select::Selection;

/// Records that have a say in the widths.
const MEASURED_RECORDS: usize = 512;
/// Widths that the types of the columns ask for.
const LEAST: [usize; COLUMNS] = [5, 18, 6, 6, 6, 3, 6, 8, 8, 9, 13, 0];
/// No column takes more; a longer cell pushes its row to the right.
const MOST: usize = 40;
/// Columns of numbers, which end under one another.
const NUMBERS: [bool; COLUMNS] =
    [true, false, false, false, false, true, false, false, false, true, false, false];

/// Writes head, rows and foot.
pub fn write(out: &mut dyn Write, dump: &Dump, selection: &Selection<'_>) -> anyhow::Result<()> {
    let info = dump.info();
    writeln!(out, "{}\n", title(dump))?;
    let mut foot = Foot::default();
    let mut first: Vec<[String; COLUMNS]> = Vec::new();
    let mut widths = None;
    for record in dump.records() {
        let record = record?;
        if !selection.holds(&record) {
            continue;
        }
        foot.add(&record);
        let row = cells(&record, info);
        match &widths {
            Some(widths) => write_row(out, widths, &row)?,
            None => first.push(row),
        }
        if first.len() == MEASURED_RECORDS {
            widths = Some(write_measured(out, dump, &std::mem::take(&mut first))?);
        }
    }
    if !first.is_empty() {
        write_measured(out, dump, &first)?;
    }
    write!(out, "{}", foot.text(dump))?;
    Ok(write!(out, "{}", state_lines(dump))?)
}

fn title(dump: &Dump) -> String {
    let RunInfo { scene, platform, runtime, dump_level, .. } = dump.info();
    let level = DumpLevel::from_tag(*dump_level).map_or("unknown", DumpLevel::name);
    let status = dump.status().map_or("running", |status| status.name());
    format!("{}: {scene} on {platform}, {runtime}, level {level}, {status}", dump.dir().display())
}

/// Writes the column names and the rows that set the widths.
fn write_measured(
    out: &mut dyn Write,
    dump: &Dump,
    rows: &[[String; COLUMNS]],
) -> anyhow::Result<[usize; COLUMNS]> {
    let mut widths = LEAST;
    widths[0] = widths[0].max(dump.len().to_string().len());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count().min(MOST));
        }
    }
    write_row(out, &widths, &HEAD)?;
    rows.iter().try_for_each(|row| write_row(out, &widths, row))?;
    Ok(widths)
}

/// Writes one row without spaces at its end.
fn write_row<T: AsRef<str>>(
    out: &mut dyn Write,
    widths: &[usize; COLUMNS],
    row: &[T; COLUMNS],
) -> anyhow::Result<()> {
    let filled = row.iter().rposition(|cell| !cell.as_ref().is_empty()).map_or(0, |last| last + 1);
    let mut line = String::with_capacity(widths.iter().sum::<usize>() + 2 * COLUMNS);
    for (column, cell) in row[..filled].iter().map(AsRef::as_ref).enumerate() {
        let space = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
        let last = column + 1 == filled;
        if NUMBERS[column] {
            line += &space;
            line += cell;
        } else {
            line += cell;
            line += if last { "" } else { &space };
        }
        line += if last { "\n" } else { "  " };
    }
    Ok(out.write_all(line.as_bytes())?)
}
