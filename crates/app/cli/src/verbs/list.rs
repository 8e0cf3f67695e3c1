//! `tensortap list`: lists the records of a dump.

mod foot;
mod layout;
mod shared_ids;
mod table;

use std::io::Write;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use layout::ColumnChoice;
pub(super) use layout::which_dump;
use tensortap_query::document::ListDocument;
use tensortap_query::fields::{Cells, FIELDS, Field, FieldSource, LIST_CSV, Row, csv_head, fields};
use tensortap_query::{DumpSet, Rows, SortKey};

use crate::dump_path::DumpPathArg;
use crate::error::Exit;
use crate::output::Output;
use crate::parse::whole;
use crate::program::program;
use crate::select::{SelectArgs, parts};
use crate::types_arg::TypesArg;

/// Arguments of `tensortap list`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap list                                 the newest dump under outputs/\n  \
    tensortap list --stage after --kind tensor     the outputs of every task\n  \
    tensortap list --nan --limit 1                 the first record that contains a NaN\n  \
    tensortap list --sort -bytes --limit 10        the ten largest records\n  \
    tensortap list --columns name,kernel,shape,hash\n  \
    tensortap list --task 1:2 --csv > records.csv\n  \
    tensortap list my_dump --func softmax --json\n  \
    tensortap list my_args --core 0-2 --block 1    a dump recorded with only --dump-args\n\n\
    `tensortap show INDEX` shows one record. For a torn dump, or while a run is still recording, the list ends with the \
    last readable record.")]
pub struct ListArgs {
    #[command(flatten)]
    dump: DumpPathArg,
    /// Sort by these columns; a minus sorts the largest first: task,-bytes [default: order of capture; recorded programs:
    /// by task]
    #[arg(long, value_name = "KEYS", value_delimiter = ',', allow_hyphen_values = true, value_parser = SortKey::parse)]
    sort: Vec<SortKey>,
    /// Show these columns: index, task, kernel, stage, role, arg, kind, dtype, shape, bytes, hash, flags; name, rank, pid, step, step_name,
    /// queue, module, source, value, payload, numel, strides, start_offset, address, bin_offset, bin_size, thread, dispatch, core, block; recorded statistics min, max,
    /// mean, std, zeros, nan, inf
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', ignore_case = true, hide_possible_values = true, value_parser = columns())]
    columns: Vec<&'static Field>,
    /// Show at most this many records; the footer still counts all [default: what fits the terminal; in a pipe or file: all]
    #[arg(long, value_name = "N", value_parser = whole(0_u64..))]
    limit: Option<u64>,
    /// Show every record, also on a terminal
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Print CSV with headings
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Fit the table into this many columns [default: the terminal's width; in a pipe or file: unlimited]
    #[arg(long, value_name = "N", value_parser = whole(0_usize..))]
    width: Option<usize>,
    #[command(flatten)]
    types: TypesArg,
    #[command(flatten)]
    select: SelectArgs,
}

fn columns() -> impl TypedValueParser<Value = &'static Field> {
    let known = FIELDS.iter().filter(|field| field.of == FieldSource::Record);
    let words =
        known.map(|field| PossibleValue::new(field.short.unwrap_or(field.key)).aliases(field.names()));
    PossibleValuesParser::new(words).try_map(|word| Field::named(&word).ok_or("no such column"))
}

/// Lists the records.
pub fn run(args: &ListArgs, output: Output) -> anyhow::Result<Exit> {
    let mut set = args.dump.open_set()?;
    args.types.apply_to_all(&mut set, output)?;
    let selections = args.select.selections(&set, output)?;
    let parts = parts(&set, &selections);
    let screen = args.screen(parts.len(), output);
    let rows = Rows::new(parts, &args.order(&set, output), args.limit.or(screen))?;
    for field in rows.without_values() {
        let key = field.key;
        output.note(format_args!(
            "--sort {key} has no effect: no record has this value; record statistics with --dump-tensor=hash, or compute them with `{} stats`",
            program()
        ));
    }
    if output.json {
        output.stream(|out| ListDocument::of(&rows).write(out))?;
    } else if args.csv {
        let columns = layout::with_rank(&rows, &args.columns, &fields(LIST_CSV));
        output.stream(|out| write_csv(out, &rows, &columns))?;
    } else {
        let usual = layout::usual(&rows);
        let choice = if args.columns.is_empty() {
            ColumnChoice::Default(&usual)
        } else {
            ColumnChoice::Explicit(&args.columns)
        };
        let width = args.width.or_else(crate::output::terminal_width);
        let why_limited = if screen.is_some() { foot::SCREEN } else { foot::LIMIT };
        output.stream(|out| table::write(out, &rows, choice, width, why_limited))?;
    }
    Ok(Exit::Good)
}

/// Lines around the records of one dump: title, headings, footer, and the next prompt.
const AROUND: usize = 10;
/// Records that are shown on the smallest terminal.
const LEAST: usize = 5;

impl ListArgs {
    /// The sort keys. The scalars of a launch are captured when it is submitted, its memory when it runs, which may be
    /// much later. Text output therefore sorts recorded programs by task.
    fn order(&self, set: &DumpSet, output: Output) -> Vec<SortKey> {
        let of_programs = set.members().iter().all(|member| member.dump.info().is_of_program());
        match self.sort.is_empty() && of_programs && !self.csv && !output.json {
            true => SortKey::parse("task").into_iter().collect(),
            false => self.sort.clone(),
        }
    }

    /// Records that fit the terminal, if there is one and no option sets their number.
    fn screen(&self, dumps: usize, output: Output) -> Option<u64> {
        if self.all || self.limit.is_some() || self.csv || output.json {
            return None;
        }
        let rows = crate::output::terminal_height()?;
        Some(rows.saturating_sub(AROUND + dumps - dumps.min(1)).max(LEAST) as u64)
    }
}

/// Writes the headings, then one line for each record. Nothing is shortened, and there is no footer.
fn write_csv(out: &mut dyn Write, rows: &Rows<'_>, columns: &[&Field]) -> anyhow::Result<()> {
    writeln!(out, "{}", csv_head(columns))?;
    let mut cells: Vec<Cells<'_>> = rows.parts().iter().map(Cells::of).collect();
    let mut line = String::new();
    rows.for_each(|part, record| -> anyhow::Result<()> {
        line.clear();
        cells[part].write_csv(columns, &Row::of(record), &mut line);
        line.push('\n');
        Ok(out.write_all(line.as_bytes())?)
    })?;
    Ok(())
}
