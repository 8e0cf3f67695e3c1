//! The table of records. It is printed while the dump is read: the type of a column and the first records decide its
//! width.

use std::io::Write;

use tensortap::DumpLevel;
use tensortap::format::{Dump, Record};

use super::foot;
use super::layout::{ColumnChoice, ListLayout};
use super::shared_ids::SharedIds;
use crate::table::text;
use tensortap_query::fields::{Cells, FIELDS, Field, Row};
use tensortap_query::words::{printable_path, run_title};
use tensortap_query::{Part, Rows};

/// Records that are kept back to measure the columns.
const MEASURED_RECORDS: usize = 512;

/// Writes headings, rows and footer. `width` is that of the terminal, if there is one. `why_limited` says why fewer
/// records are shown.
pub fn write(
    out: &mut dyn Write,
    rows: &Rows<'_>,
    choice: ColumnChoice<'_>,
    width: Option<usize>,
    why_limited: &str,
) -> anyhow::Result<()> {
    for part in rows.parts() {
        writeln!(out, "{}", title(part.dump))?;
    }
    writeln!(out)?;
    let mut table = ListTable::new(rows.parts(), choice, width);
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
    write!(out, "{}", table.left_out())?;
    Ok(rows.parts().iter().try_for_each(|part| write!(out, "{}", foot::state_lines(part.dump)))?)
}

/// The title of a dump. Dumps of other projects do not record what ran and how it ended.
fn title(dump: &Dump) -> String {
    let level = DumpLevel::from_tag(dump.info().dump_level).map_or("unknown", DumpLevel::name);
    let mut text = format!("{}, level {level}", run_title(dump));
    if !dump.format().is_foreign() {
        text += &format!(", {}", dump.status().map_or("running", |status| status.name()));
    }
    format!("{}: {text}", printable_path(dump.dir()))
}

/// A table being written.
struct ListTable<'a> {
    /// Records of the longest dump.
    longest: u64,
    choice: ColumnChoice<'a>,
    width: Option<usize>,
    /// One for each part.
    cells: Vec<Cells<'a>>,
    /// Records that are kept back until the widths are settled.
    first: Vec<(usize, Record)>,
    layout: Option<ListLayout>,
    /// The line being written.
    line: String,
}

impl<'a> ListTable<'a> {
    fn new(parts: &[Part<'a>], choice: ColumnChoice<'a>, width: Option<usize>) -> ListTable<'a> {
        let mut cells: Vec<Cells<'a>> = parts.iter().map(Cells::of).collect();
        cells.iter_mut().for_each(|cells| cells.values_for_hashes = true);
        let longest = parts.iter().map(|part| part.dump.len()).max().unwrap_or(0);
        ListTable { longest, choice, width, cells, first: Vec::new(), layout: None, line: String::new() }
    }

    fn add(&mut self, out: &mut dyn Write, part: usize, record: &Record) -> anyhow::Result<()> {
        if self.layout.is_some() {
            return self.write_record(out, part, record);
        }
        self.first.push((part, *record));
        if self.first.len() == MEASURED_RECORDS { self.begin(out) } else { Ok(()) }
    }

    /// Writes the records that are still kept back.
    fn end(&mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.first.is_empty() { Ok(()) } else { self.begin(out) }
    }

    /// The line about columns that did not fit.
    fn left_out(&self) -> String {
        let layout = self.layout.as_ref();
        layout
            .map_or_else(String::new, |layout| layout.layout.left_out_line("Choose columns with --columns."))
    }

    /// Settles the columns, then writes the headings and the records that were kept back.
    fn begin(&mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        let first = std::mem::take(&mut self.first);
        let headings: Vec<_> = FIELDS.iter().map(|field| (field.key, self.cells[0].heading(field))).collect();
        let heading = |field: &Field| {
            let found = headings.iter().find(|(key, _)| *key == field.key);
            found.map_or(field.heading, |(_, heading)| heading)
        };
        let layout = ListLayout::fitting(self.choice, self.width, heading, |field, short_tasks| {
            self.cells.iter_mut().for_each(|cells| cells.short_tasks = short_tasks);
            self.measure(field, &first)
        });
        self.cells.iter_mut().for_each(|cells| cells.short_tasks = layout.short_tasks);
        write!(out, "{}", layout.layout.head())?;
        self.layout = Some(layout);
        first.iter().try_for_each(|(part, record)| self.write_record(out, *part, record))
    }

    /// The widest cell of a field among the first records.
    fn measure(&mut self, field: &'static Field, first: &[(usize, Record)]) -> usize {
        let mut widest = field.width.max(self.cells[0].heading(field).len());
        if field.key == "index" {
            widest = widest.max(self.longest.saturating_sub(1).to_string().len());
        }
        for (part, record) in first {
            self.line.clear();
            field.write_for_people(&mut self.cells[*part], &Row::of(record), &mut self.line);
            widest = widest.max(text::width(&self.line));
        }
        widest
    }

    fn write_record(&mut self, out: &mut dyn Write, part: usize, record: &Record) -> anyhow::Result<()> {
        let ListTable { layout: Some(ListLayout { fields, layout, .. }), cells, line, .. } = self else {
            return Ok(());
        };
        let row = Row::of(record);
        line.clear();
        layout.write_row(line, |place, line| fields[place].write_for_people(&mut cells[part], &row, line));
        Ok(out.write_all(line.as_bytes())?)
    }
}
