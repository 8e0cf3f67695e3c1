//! The columns of the list, and how they fit the terminal.

use tensortap::format::Dump;
use tensortap_query::fields::{Field, LIST, LIST_DISPATCHES, fields};
use tensortap_query::{Part, Rows};

use crate::table::{Column, Fit, Layout, Overflow};

/// Widest column in a file. A longer cell pushes its row to the right.
const MOST: usize = 40;
/// Columns that a narrow terminal leaves out first: the other columns tell most of what they show.
const DISPENSABLE: [&str; 3] = ["kind", "bytes", "role"];
/// Columns that are left out if shortened names and shapes still need too much room.
const LAST_TO_GO: [&str; 5] = ["task_name", "dtype", "hash", "flags", "value"];
/// Columns that are shortened.
const SHORTENED: [&str; 4] = ["task_name", "kernel", "shape", "strides"];

/// Which columns a table shows.
#[derive(Clone, Copy)]
pub enum ColumnChoice<'a> {
    /// The default columns; a narrow terminal leaves some of them out.
    Default(&'a [&'static Field]),
    /// Exactly these.
    Explicit(&'a [&'static Field]),
}

/// Columns that distinguish the dumps of several processes.
const RANK: &str = "rank";
const PID: &str = "pid";
/// Column that distinguishes the runs in one dump.
const STEP: &str = "step";

/// The chosen columns. Without a choice: the default ones, with the rank of each of several dumps.
pub fn with_rank(
    rows: &Rows<'_>,
    chosen: &[&'static Field],
    usual: &[&'static Field],
) -> Vec<&'static Field> {
    if !chosen.is_empty() {
        return chosen.to_vec();
    }
    which_dump(rows.parts()).into_iter().chain(usual.iter().copied()).collect()
}

/// Columns that distinguish several dumps: the rank, and the process if a dump has no rank.
pub fn which_dump(parts: &[Part<'_>]) -> Vec<&'static Field> {
    if parts.len() < 2 {
        return Vec::new();
    }
    let has_rank = parts.iter().any(|part| part.rank.is_some());
    let is_enough = parts.iter().all(|part| part.rank.is_some());
    let named = [(RANK, has_rank), (PID, !is_enough)];
    named.into_iter().filter(|(_, is_shown)| *is_shown).filter_map(|(name, _)| Field::named(name)).collect()
}

/// Whether the records of a dump are arguments of dispatches, because it was recorded with only `--dump-args`.
pub fn lists_dispatches(dump: &Dump) -> bool {
    dump.totals().total_tensors == 0 && !dump.is_empty()
}

/// The default columns of a table. Names, ranks and steps are only shown if the dumps have them.
pub fn usual(rows: &Rows<'_>) -> Vec<&'static Field> {
    let has_names = rows.parts().iter().any(|part| part.dump.has_names());
    let has_steps = rows.parts().iter().any(|part| part.dump.steps().len() > 1);
    let step = Field::named(STEP).filter(|_| has_steps);
    let of_dispatches = rows.parts().iter().any(|part| lists_dispatches(part.dump));
    let columns = if of_dispatches { fields(LIST_DISPATCHES).to_vec() } else { fields(LIST).to_vec() };
    let others = columns.into_iter().filter(|field| has_names || field.key != "task_name");
    let usual: Vec<&'static Field> = step.into_iter().chain(others).collect();
    with_rank(rows, &[], &usual)
}

/// The settled columns of a table.
pub struct ListLayout {
    pub fields: Vec<&'static Field>,
    pub layout: Layout,
    /// Whether task ids are printed without leading zeros.
    pub short_tasks: bool,
}

impl ListLayout {
    /// Columns that fit `width`, or of any width for a pipe or file. `measure` returns the width of a field's cells,
    /// with task ids in full or short.
    pub fn fitting(
        choice: ColumnChoice<'_>,
        width: Option<usize>,
        heading: impl Fn(&Field) -> &'static str,
        mut measure: impl FnMut(&'static Field, bool) -> usize,
    ) -> ListLayout {
        let (fields, fit) = match choice {
            ColumnChoice::Explicit(fields) => (fields.to_vec(), Fit::default()),
            ColumnChoice::Default(fields) => {
                (fields.to_vec(), Fit { drop_first: &DISPENSABLE, drop_last: &LAST_TO_GO, ..Fit::default() })
            }
        };
        let most = if width.is_some() { usize::MAX } else { MOST };
        let mut widths: Vec<usize> = fields.iter().map(|field| measure(field, false).min(most)).collect();
        let total = widths.iter().map(|width| width + 2).sum::<usize>().saturating_sub(2);
        let short_tasks = width.is_some_and(|width| total > width);
        if let Some(place) = fields.iter().position(|field| short_tasks && field.key == "task_id") {
            widths[place] = measure(fields[place], true);
        }
        let column = |field: &&'static Field| Column {
            name: field.short.unwrap_or(field.key),
            overflow: overflow(field),
            ..Column { heading: heading(field), ..Column::of(field) }
        };
        let columns = fields.iter().map(column).collect();
        let layout = Layout::with_widths(columns, widths, Fit { width, shorten: &SHORTENED, ..fit });
        ListLayout { fields, layout, short_tasks }
    }
}

/// Names are cut at their end, shapes and names of tasks in their middle, where that loses the least.
fn overflow(field: &Field) -> Overflow {
    match field.key {
        "kernels" => Overflow::CutEnd,
        "task_name" | "shape" | "strides" => Overflow::CutMiddle,
        _ => Overflow::Keep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(key: &str) -> &'static Field {
        Field::named(key).unwrap()
    }

    /// Widths as in a dump with long names.
    fn measure(field: &Field, short_tasks: bool) -> usize {
        match field.key {
            "task_id" if short_tasks => 11,
            "task_id" => 18,
            "kernels" => 30,
            "shape" => 20,
            "hash" => 13,
            "bytes" => 9,
            "flags" => 10,
            "index" => 5,
            "arg_index" => 3,
            _ => 6,
        }
    }

    fn fitted(choice: ColumnChoice<'_>, width: usize) -> ListLayout {
        ListLayout::fitting(choice, Some(width), |field| field.heading, measure)
    }

    /// The default columns of a dump without names.
    fn without_names() -> Vec<&'static Field> {
        fields(LIST).into_iter().filter(|field| field.key != "task_name").collect()
    }

    fn fitting(width: usize) -> ListLayout {
        fitted(ColumnChoice::Default(&without_names()), width)
    }

    fn row_width(layout: &ListLayout) -> usize {
        let cells = vec!["x".repeat(100); layout.fields.len()];
        let is_cut = |field: &Field| overflow(field) != Overflow::Keep;
        let cells: Vec<String> = layout
            .fields
            .iter()
            .zip(cells)
            .map(|(field, cell)| match is_cut(field) {
                true => cell,
                false => cell[..measure(field, layout.short_tasks)].into(),
            })
            .collect();
        layout.layout.row(&cells).trim_end().chars().count()
    }

    #[test]
    fn a_wide_terminal_shows_every_column() {
        let layout = fitting(200);
        assert!(!layout.short_tasks && layout.layout.left_out().is_empty());
    }

    #[test]
    fn a_narrower_terminal_shortens_task_ids_then_leaves_columns_out_then_shortens_names() {
        let layout = fitting(153);
        assert!(layout.short_tasks && layout.layout.left_out().is_empty());
        assert_eq!(fitting(146).layout.left_out(), ["kind"]);
        let layout = fitting(100);
        assert_eq!(layout.layout.left_out(), DISPENSABLE);
        assert!(row_width(&layout) <= 100, "{}", row_width(&layout));
    }

    #[test]
    fn rows_never_exceed_eighty_columns() {
        let layout = fitting(80);
        assert!(row_width(&layout) <= 80, "{}", row_width(&layout));
        assert_eq!(layout.layout.left_out(), ["kind", "bytes", "role", "dtype", "hash"]);
        let with_names = fitted(ColumnChoice::Default(&fields(LIST)), 80);
        assert!(row_width(&with_names) <= 80 && with_names.layout.left_out().contains(&"task_name"));
    }

    #[test]
    fn chosen_columns_are_never_left_out() {
        let columns = [column("kind"), column("kernels"), column("bytes")];
        let layout = fitted(ColumnChoice::Explicit(&columns), 40);
        assert!(layout.layout.left_out().is_empty());
        assert!(row_width(&layout) <= 40, "{}", row_width(&layout));
    }
}
