//! The records as a table that is printed while it is read: columns are as wide as their type and the first records
//! ask for, so that no later one has to be known.

use std::io::Write;

use tensortap::DumpLevel;
use tensortap::format::{Dump, Record};

use super::foot;
use super::layout::{Choice, Column, Layout};
use super::shared_ids::SharedIds;
use crate::fit::left_out_line;
use tensortap_query::fields::{Cells, Row};
use tensortap_query::words::{printable_path, what_ran};
use tensortap_query::{Part, Rows};

/// Records that have a say in the widths.
const MEASURED_RECORDS: usize = 512;

/// Writes head, rows and foot. `width` is that of the terminal, if there is one; `why_limited` says what keeps records back.
pub fn write(
    out: &mut dyn Write,
    rows: &Rows<'_>,
    choice: Choice<'_>,
    width: Option<usize>,
    why_limited: &str,
) -> anyhow::Result<()> {
    for part in rows.parts() {
        writeln!(out, "{}", title(part.dump))?;
    }
    writeln!(out)?;
    let mut table = Table::new(rows.parts(), choice, width);
    let mut ids = SharedIds::among(rows.parts());
    let counts = rows.for_each(|part, record| {
        if let Some(ids) = &mut ids {
            ids.add(part, record);
        }
        table.add(out, part, record)
    })?;
    table.end(out)?;
    if counts.records() == 0 {
        for Part { dump, selection, .. } in rows.parts() {
            writeln!(out, "{}{}", foot::none_text(dump), selection.why_empty(dump)?)?;
        }
    } else {
        write!(out, "{}", foot::text(&counts, rows.parts(), why_limited))?;
    }
    write!(out, "{}", ids.map(|ids| ids.lines()).unwrap_or_default())?;
    for doubt in rows.parts().iter().filter_map(|part| part.selection.doubt()) {
        writeln!(out, "{doubt}.")?;
    }
    for line in table.cells.iter().flat_map(Cells::not_decided) {
        writeln!(out, "{line}.")?;
    }
    if let Some(left_out) = table.left_out() {
        writeln!(out, "{left_out}")?;
    }
    Ok(rows.parts().iter().try_for_each(|part| write!(out, "{}", foot::state_lines(part.dump)))?)
}

/// What was dumped. A dump of another project does not say what ran, or how it ended.
fn title(dump: &Dump) -> String {
    let level = DumpLevel::from_tag(dump.info().dump_level).map_or("unknown", DumpLevel::name);
    let mut text = format!("{}, level {level}", what_ran(dump));
    if !dump.format().is_foreign() {
        text += &format!(", {}", dump.status().map_or("running", |status| status.name()));
    }
    format!("{}: {text}", printable_path(dump.dir()))
}

/// A table being written.
struct Table<'a> {
    /// Records of the longest dump.
    longest: u64,
    choice: Choice<'a>,
    width: Option<usize>,
    /// Of each part.
    cells: Vec<Cells<'a>>,
    /// Records that wait for the widths.
    first: Vec<(usize, Record)>,
    layout: Option<Layout>,
    /// What is being written.
    line: String,
}

impl<'a> Table<'a> {
    fn new(parts: &[Part<'a>], choice: Choice<'a>, width: Option<usize>) -> Table<'a> {
        let mut cells: Vec<Cells<'a>> = parts.iter().map(Cells::of).collect();
        cells.iter_mut().for_each(|cells| cells.values_for_hashes = true);
        let longest = parts.iter().map(|part| part.dump.len()).max().unwrap_or(0);
        Table { longest, choice, width, cells, first: Vec::new(), layout: None, line: String::new() }
    }

    fn add(&mut self, out: &mut dyn Write, part: usize, record: &Record) -> anyhow::Result<()> {
        if self.layout.is_some() {
            return self.write_record(out, part, record);
        }
        self.first.push((part, *record));
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
            self.cells.iter_mut().for_each(|cells| cells.short_tasks = short_tasks);
            self.measure(column, &first)
        });
        self.cells.iter_mut().for_each(|cells| cells.short_tasks = layout.short_tasks);
        self.layout = Some(layout);
        self.write_line(out, 0, |column, cells, line| *line += cells.heading(column))?;
        first.iter().try_for_each(|(part, record)| self.write_record(out, *part, record))
    }

    /// The widest cell of a column among the first records.
    fn measure(&mut self, column: Column, first: &[(usize, Record)]) -> usize {
        let mut widest = column.width.max(self.cells[0].heading(column).len());
        if column.key == "index" {
            widest = widest.max(self.longest.saturating_sub(1).to_string().len());
        }
        for (part, record) in first {
            self.line.clear();
            column.write_for_people(&mut self.cells[*part], &Row::of(record), &mut self.line);
            widest = widest.max(width_of(&self.line));
        }
        // An empty last column needs no heading to be wide, but it has one.
        widest
    }

    fn write_record(&mut self, out: &mut dyn Write, part: usize, record: &Record) -> anyhow::Result<()> {
        let row = Row::of(record);
        self.write_line(out, part, |column, cells, line| column.write_for_people(cells, &row, line))
    }

    /// Writes one line without spaces at its end. `fill` adds a cell to it.
    fn write_line(
        &mut self,
        out: &mut dyn Write,
        part: usize,
        fill: impl Fn(Column, &mut Cells<'a>, &mut String),
    ) -> anyhow::Result<()> {
        let Table { layout: Some(layout), cells, line, .. } = self else { return Ok(()) };
        line.clear();
        for (place, &(column, width)) in layout.columns.iter().enumerate() {
            if place > 0 {
                *line += "  ";
            }
            let start = line.len();
            fill(column, &mut cells[part], line);
            if layout.narrowed {
                let mut cell = line.split_off(start);
                super::layout::shorten(column, &mut cell, width);
                *line += &cell;
            }
            let missing = width.saturating_sub(width_of(&line[start..]));
            pad(line, if column.is_number { start } else { line.len() }, missing);
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        Ok(out.write_all(line.as_bytes())?)
    }
}

/// Puts spaces into a line, mostly at its end.
fn pad(line: &mut String, at: usize, mut spaces: usize) {
    const SPACES: &str = "                                        ";
    while spaces > 0 {
        let some = &SPACES[..spaces.min(SPACES.len())];
        if at == line.len() {
            *line += some;
        } else {
            line.insert_str(at, some);
        }
        spaces -= some.len();
    }
}

/// Characters; nearly every cell is ASCII.
pub fn width_of(cell: &str) -> usize {
    if cell.is_ascii() { cell.len() } else { cell.chars().count() }
}
