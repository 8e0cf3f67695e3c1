//! The records as a table that is printed while it is read: columns are as wide as their type and the first records
//! ask for, so that no later one has to be known.

use std::io::Write;

use tensortap::DumpLevel;
use tensortap::format::{Dump, Record, RunInfo};

use super::foot;
use super::layout::{Choice, Column, Layout};
use crate::fit::left_out_line;
use tensortap_query::Rows;
use tensortap_query::fields::{Cells, Row};
use tensortap_query::words::printable;

/// Records that have a say in the widths.
const MEASURED_RECORDS: usize = 512;

/// Writes head, rows and foot. `width` is that of the terminal, if there is one.
pub fn write(
    out: &mut dyn Write,
    rows: &Rows<'_>,
    choice: Choice<'_>,
    width: Option<usize>,
) -> anyhow::Result<()> {
    let dump = rows.dump();
    writeln!(out, "{}\n", title(dump))?;
    let mut table = Table::new(dump, choice, width);
    let counts = rows.for_each(|record| table.add(out, record))?;
    table.end(out)?;
    if counts.records() == 0 {
        writeln!(out, "{}{}", foot::none_text(dump), rows.selection().why_empty(dump)?)?;
    } else {
        write!(out, "{}", foot::text(&counts, dump))?;
    }
    if let Some(doubt) = rows.selection().doubt() {
        writeln!(out, "{doubt}.")?;
    }
    if let Some(left_out) = table.left_out() {
        writeln!(out, "{left_out}")?;
    }
    Ok(write!(out, "{}", foot::state_lines(dump))?)
}

/// What was dumped. A dump of another project does not say what ran, or how it ended.
fn title(dump: &Dump) -> String {
    let RunInfo { scene, platform, runtime, dump_level, .. } = dump.info();
    let level = DumpLevel::from_tag(*dump_level).map_or("unknown", DumpLevel::name);
    let text = if dump.format().is_foreign() {
        format!("{}, level {level}", dump.format().name())
    } else {
        let status = dump.status().map_or("running", |status| status.name());
        format!("{scene} on {platform}, {runtime}, level {level}, {status}")
    };
    format!("{}: {}", dump.dir().display(), printable(&text))
}

/// A table being written.
struct Table<'a> {
    dump: &'a Dump,
    choice: Choice<'a>,
    width: Option<usize>,
    cells: Cells<'a>,
    /// Records that wait for the widths.
    first: Vec<Record>,
    layout: Option<Layout>,
    line: String,
    cell: String,
}

impl<'a> Table<'a> {
    fn new(dump: &'a Dump, choice: Choice<'a>, width: Option<usize>) -> Table<'a> {
        let mut cells = Cells::new(dump.info());
        cells.values_for_hashes = true;
        let (line, cell) = (String::new(), String::new());
        Table { dump, choice, width, cells, first: Vec::new(), layout: None, line, cell }
    }

    fn add(&mut self, out: &mut dyn Write, record: &Record) -> anyhow::Result<()> {
        if self.layout.is_some() {
            return self.write_record(out, record);
        }
        self.first.push(*record);
        if self.first.len() == MEASURED_RECORDS { self.begin(out) } else { Ok(()) }
    }

    /// Writes what still waits.
    fn end(&mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.first.is_empty() { Ok(()) } else { self.begin(out) }
    }

    /// Columns that a narrow terminal has no room for.
    fn left_out(&self) -> Option<String> {
        let names: Vec<&str> =
            self.layout.as_ref()?.left_out.iter().map(|column| column.short.unwrap_or(column.key)).collect();
        left_out_line(&names, self.width, "--columns chooses")
    }

    /// Settles the layout, then writes the head and the records that waited.
    fn begin(&mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        let first = std::mem::take(&mut self.first);
        let (choice, width) = (self.choice, self.width);
        let layout = Layout::fitting(choice, width, |column, short_tasks| {
            self.cells.short_tasks = short_tasks;
            self.measure(column, &first)
        });
        self.cells.short_tasks = layout.short_tasks;
        self.layout = Some(layout);
        self.write_line(out, |column, cells, cell| *cell += cells.heading(column))?;
        first.iter().try_for_each(|record| self.write_record(out, record))
    }

    /// The widest cell of a column among the first records.
    fn measure(&mut self, column: Column, first: &[Record]) -> usize {
        let mut widest = column.width.max(self.cells.heading(column).len());
        if column.key == "index" {
            widest = widest.max(self.dump.len().saturating_sub(1).to_string().len());
        }
        for record in first {
            self.cell.clear();
            column.write_for_people(&mut self.cells, &Row::of(record), &mut self.cell);
            widest = widest.max(width_of(&self.cell));
        }
        // An empty last column needs no heading to be wide, but it has one.
        widest
    }

    fn write_record(&mut self, out: &mut dyn Write, record: &Record) -> anyhow::Result<()> {
        self.write_line(out, |column, cells, cell| {
            column.write_for_people(cells, &Row::of(record), cell);
        })
    }

    /// Writes one line without spaces at its end.
    fn write_line(
        &mut self,
        out: &mut dyn Write,
        fill: impl Fn(Column, &mut Cells<'a>, &mut String),
    ) -> anyhow::Result<()> {
        let Table { layout: Some(layout), cells, line, cell, .. } = self else { return Ok(()) };
        line.clear();
        for (place, &(column, width)) in layout.columns.iter().enumerate() {
            cell.clear();
            fill(column, cells, cell);
            if layout.narrowed {
                super::layout::shorten(column, cell, width);
            }
            let missing = width.saturating_sub(width_of(cell));
            if place > 0 {
                *line += "  ";
            }
            if column.is_number {
                pad(line, missing);
                *line += cell;
            } else {
                *line += cell;
                pad(line, missing);
            }
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        Ok(out.write_all(line.as_bytes())?)
    }
}

fn pad(line: &mut String, spaces: usize) {
    line.extend(std::iter::repeat_n(' ', spaces));
}

/// Characters; nearly every cell is ASCII.
pub fn width_of(cell: &str) -> usize {
    if cell.is_ascii() { cell.len() } else { cell.chars().count() }
}
