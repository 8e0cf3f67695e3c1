//! Which columns a table has, and how wide they are, so that it fits the terminal.

use tensortap::format::Dump;
use tensortap_query::fields::{Field, LIST, LIST_DISPATCHES, fields};
use tensortap_query::{Part, Rows};

use super::table::width_of;
use crate::fit::{SHORTEST, total};

/// No column takes more of a page that has no end; a longer cell pushes its row to the right.
const MOST: usize = 40;
/// What a narrow terminal goes without, in this order: the other columns tell most of it.
const DISPENSABLE: [&str; 3] = ["kind", "bytes", "role"];
/// What goes, in this order, where shortened names and shapes leave no room for it.
const LAST_TO_GO: [&str; 5] = ["task_name", "dtype", "hash", "flags", "value"];
/// What is shortened.
const SHORTENED: [&str; 4] = ["task_name", "kernels", "shape", "strides"];

/// A field in a column of a table.
pub type Column = &'static Field;

/// The columns asked for.
#[derive(Clone, Copy)]
pub enum Choice<'a> {
    /// The usual ones; some may be left out.
    Usual(&'a [Column]),
    /// Exactly these.
    Columns(&'a [Column]),
}

/// What tells the dumps of several processes apart.
const RANK: &str = "rank";
const PID: &str = "pid";
/// What tells the runs in one dump apart.
const STEP: &str = "step";

/// The columns chosen, or the usual ones, where several dumps are shown with the rank of each.
pub fn with_rank(rows: &Rows<'_>, chosen: &[Column], usual: &[Column]) -> Vec<Column> {
    if !chosen.is_empty() {
        return chosen.to_vec();
    }
    which_dump(rows.parts()).into_iter().chain(usual.iter().copied()).collect()
}

/// The columns that tell several dumps apart: ranks, and processes where one has none.
pub fn which_dump(parts: &[Part<'_>]) -> Vec<Column> {
    if parts.len() < 2 {
        return Vec::new();
    }
    let has_rank = parts.iter().any(|part| part.rank.is_some());
    let is_enough = parts.iter().all(|part| part.rank.is_some());
    let named = [(RANK, has_rank), (PID, !is_enough)];
    named.into_iter().filter(|(_, is_shown)| *is_shown).filter_map(|(name, _)| Field::named(name)).collect()
}

/// Whether the records of a dump are arguments of dispatches: it was made with `--dump-args` alone.
pub fn lists_dispatches(dump: &Dump) -> bool {
    dump.totals().total_tensors == 0 && !dump.is_empty()
}

/// The usual columns of a table: names, where any of the dumps has some, the rank of each of several, and the step where one
/// holds several.
pub fn usual(rows: &Rows<'_>) -> Vec<Column> {
    let has_names = rows.parts().iter().any(|part| part.dump.has_names());
    let has_steps = rows.parts().iter().any(|part| part.dump.steps().len() > 1);
    let step = Field::named(STEP).filter(|_| has_steps);
    let of_dispatches = rows.parts().iter().any(|part| lists_dispatches(part.dump));
    let columns = if of_dispatches { fields(LIST_DISPATCHES).to_vec() } else { fields(LIST).to_vec() };
    let others = columns.into_iter().filter(|field| has_names || field.key != "task_name");
    let usual: Vec<Column> = step.into_iter().chain(others).collect();
    with_rank(rows, &[], &usual)
}

/// A table's columns.
pub struct Layout {
    /// With their widths.
    pub columns: Vec<(Column, usize)>,
    /// Whether tasks go without leading zeros.
    pub short_tasks: bool,
    /// Whether cells are cut to their width.
    pub narrowed: bool,
    /// What there was no room for.
    pub left_out: Vec<Column>,
}

impl Layout {
    /// Columns that fit `width`, which is unlimited when the table goes to a file or a pipe. `measure` says how wide
    /// the cells of a column are, with tasks spelled in full or short.
    pub fn fitting(
        choice: Choice<'_>,
        width: Option<usize>,
        mut measure: impl FnMut(Column, bool) -> usize,
    ) -> Layout {
        let columns = match choice {
            Choice::Usual(columns) | Choice::Columns(columns) => columns.to_vec(),
        };
        let measured = |column| (column, measure(column, false));
        let mut layout = Layout {
            columns: columns.into_iter().map(measured).collect(),
            short_tasks: false,
            narrowed: false,
            left_out: Vec::new(),
        };
        match width {
            Some(width) => layout.narrow(width, !matches!(choice, Choice::Columns(_)), &mut measure),
            None => layout.columns.iter_mut().for_each(|(_, width)| *width = (*width).min(MOST)),
        }
        layout
    }

    fn narrow(&mut self, width: usize, may_leave_out: bool, measure: &mut impl FnMut(Column, bool) -> usize) {
        if self.width() <= width {
            return;
        }
        self.short_tasks = true;
        for (column, width) in &mut self.columns {
            if column.key == "task_id" {
                *width = measure(column, true);
            }
        }
        if may_leave_out {
            self.leave_out(&DISPENSABLE, |layout| layout.width() <= width);
            self.leave_out(&LAST_TO_GO, |layout| layout.least() <= width);
        }
        self.narrowed = self.width() > width;
        for column in SHORTENED {
            let excess = self.width().saturating_sub(width);
            if let Some((_, width)) = self.columns.iter_mut().find(|(other, _)| other.key == column) {
                *width = width.saturating_sub(excess).max(SHORTEST.min(*width));
            }
        }
    }

    /// Goes without columns, one after the other, until it fits.
    fn leave_out(&mut self, keys: &[&str], fits: impl Fn(&Layout) -> bool) {
        for key in keys {
            if fits(self) {
                return;
            }
            let gone = self.columns.extract_if(.., |(other, _)| other.key == *key);
            self.left_out.extend(gone.map(|(column, _)| column));
        }
    }

    fn width(&self) -> usize {
        total(self.columns.iter().map(|(_, width)| *width))
    }

    /// The same when everything is shortened that can be.
    fn least(&self) -> usize {
        let shortest = |&(column, width): &(Column, usize)| {
            if SHORTENED.contains(&column.key) { width.min(SHORTEST) } else { width }
        };
        total(self.columns.iter().map(shortest))
    }
}

/// Cuts a cell to a width where that loses the least: names at their end, shapes and strides in their middle.
pub fn shorten(column: Column, cell: &mut String, width: usize) {
    if !SHORTENED.contains(&column.key) || width_of(cell) <= width || width == 0 {
        return;
    }
    let (head, tail) = match column.key {
        "kernels" => (width - 1, 0),
        _ => (width - 1 - (width - 1) / 2, (width - 1) / 2),
    };
    let chars: Vec<char> = cell.chars().collect();
    let parts = chars[..head].iter().chain(['…'].iter()).chain(&chars[chars.len() - tail..]);
    *cell = parts.collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(key: &str) -> Column {
        Field::named(key).unwrap()
    }

    /// Widths as a dump with long names has them.
    fn measure(column: Column, short_tasks: bool) -> usize {
        match column.key {
            "task_id" => {
                if short_tasks {
                    11
                } else {
                    18
                }
            }
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

    /// Of a dump without names.
    fn fitting(width: usize) -> Layout {
        let columns: Vec<Column> =
            fields(LIST).into_iter().filter(|field| field.key != "task_name").collect();
        Layout::fitting(Choice::Usual(&columns), Some(width), measure)
    }

    #[test]
    fn names_of_tasks_are_shortened_and_go_before_what_cannot_be_told_otherwise() {
        let columns = fields(LIST);
        let layout = Layout::fitting(Choice::Usual(&columns), Some(200), measure);
        assert!(layout.left_out.is_empty());
        let layout = Layout::fitting(Choice::Usual(&columns), Some(80), measure);
        assert!(layout.width() <= 80 && layout.left_out.contains(&column("task_name")));
    }

    #[test]
    fn a_wide_terminal_shows_everything_in_full() {
        let layout = fitting(200);
        assert_eq!(layout.columns.len(), LIST.len() - 1);
        assert!(!layout.short_tasks && !layout.narrowed && layout.left_out.is_empty());
    }

    #[test]
    fn a_narrower_one_shortens_tasks_then_leaves_columns_out_then_cuts_names() {
        let full = fitting(usize::MAX).width();
        let layout = fitting(full - 1);
        assert!(layout.short_tasks && layout.left_out.is_empty() && !layout.narrowed);
        let layout = fitting(full - 8);
        assert_eq!((layout.left_out.as_slice(), layout.narrowed), (&[column("kind")][..], false));
        let layout = fitting(100);
        assert_eq!(layout.left_out, DISPENSABLE.map(column));
        assert!(layout.narrowed && layout.width() <= 100, "{}", layout.width());
    }

    #[test]
    fn eighty_columns_are_never_exceeded() {
        let layout = fitting(80);
        assert!(layout.width() <= 80, "{}", layout.width());
        let left_out = [column("kind"), column("bytes"), column("role"), column("dtype"), column("hash")];
        assert_eq!(layout.left_out, left_out);
    }

    #[test]
    fn columns_that_were_chosen_are_never_left_out() {
        let columns = [column("kind"), column("kernels"), column("bytes")];
        let layout = Layout::fitting(Choice::Columns(&columns), Some(30), measure);
        assert_eq!(layout.columns.iter().map(|(column, _)| *column).collect::<Vec<_>>(), columns);
        assert!(layout.left_out.is_empty() && layout.narrowed);
    }

    #[test]
    fn names_are_cut_at_their_end_and_shapes_in_their_middle() {
        let cut = |column, text: &str, width| {
            let mut cell = text.to_string();
            shorten(column, &mut cell, width);
            cell
        };
        assert_eq!(cut(column("kernels"), "online_update", 8), "online_…");
        assert_eq!(cut(column("shape"), "1x2x3x4x5x6x7", 8), "1x2x…6x7");
        assert_eq!(cut(column("shape"), "1x2", 8), "1x2");
        assert_eq!(cut(column("hash"), "0123456789", 4), "0123456789");
    }
}
