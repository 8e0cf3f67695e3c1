//! Which columns of a table fit the terminal, and how wide each of them is.

use tensortap::format::Dump;
use tensortap_query::fields::Field;

use super::text::{self, Cut};

/// Spaces between columns.
const GAP: usize = 2;
/// A shortened cell keeps at least this many columns.
const SHORTEST: usize = 12;
/// A last column that continues on further lines keeps at least this many columns.
const SHORTEST_LAST: usize = 20;

/// What happens to a cell that is wider than its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The cell is printed whole and pushes the rest of its row to the right.
    Keep,
    /// On a terminal the end of the cell is cut off.
    CutEnd,
    /// On a terminal the middle of the cell is cut out.
    CutMiddle,
    /// On a terminal the cell continues on further lines if its column is the last one, and is cut otherwise.
    Continue,
    /// The cell continues on further lines, in a file as well. Line breaks in it are kept.
    Wrap,
}

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// How [`Fit`] and the line about missing columns call it.
    pub name: &'static str,
    pub heading: &'static str,
    /// Least width in characters.
    pub width: usize,
    /// Whether cells are aligned at their end.
    pub right: bool,
    pub overflow: Overflow,
}

impl Column {
    /// A left-aligned column that gives way on a narrow terminal.
    pub const fn text(heading: &'static str, width: usize) -> Column {
        Column { name: heading, heading, width, right: false, overflow: Overflow::Continue }
    }

    /// A right-aligned column whose cells are never cut.
    pub const fn number(heading: &'static str, width: usize) -> Column {
        Column { right: true, overflow: Overflow::Keep, ..Column::text(heading, width) }
    }

    /// The column of a record's field.
    pub fn of(field: &Field) -> Column {
        let column = if field.is_number { Column::number } else { Column::text };
        column(field.heading, field.width)
    }
}

/// How much room a table has, and what it does without if that is not enough. Columns are given by name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fit {
    /// Columns of the terminal. `None` in a pipe or file: nothing is left out or cut.
    pub width: Option<usize>,
    /// Columns to leave out, in this order, before any text is shortened other than a last one that can continue below.
    pub drop_first: &'static [&'static str],
    /// Columns to leave out, in this order, if shortened texts are still too wide.
    pub drop_last: &'static [&'static str],
    /// Columns to shorten, in this order. If empty: all texts, from right to left.
    pub shorten: &'static [&'static str],
    /// Spaces before every line.
    pub indent: usize,
    /// Columns that have nothing to show.
    pub hidden: [Option<&'static str>; 4],
}

impl Fit {
    /// Fits the terminal on standard output, if there is one.
    pub fn terminal(drop_first: &'static [&'static str]) -> Fit {
        Fit { width: crate::output::terminal_width(), drop_first, ..Fit::default() }
    }

    /// Hides the column NAME if the tasks of the dump have no names.
    pub fn of(self, dump: &Dump) -> Fit {
        self.hide("NAME", !dump.has_names())
    }

    /// Hides a column if `hides` is true.
    pub fn hide(mut self, column: &'static str, hides: bool) -> Fit {
        if let Some(free) = self.hidden.iter_mut().find(|hidden| hides && hidden.is_none()) {
            *free = Some(column);
        }
        self
    }

    /// Indents every line.
    pub fn indented(self, indent: usize) -> Fit {
        Fit { indent, ..self }
    }
}

/// Settled columns: which of them are shown, and how wide.
#[derive(Clone, Debug)]
pub struct Layout {
    columns: Vec<Column>,
    /// `None` for a column that is hidden or left out.
    widths: Vec<Option<usize>>,
    /// In the order in which they were left out.
    left_out: Vec<&'static str>,
    fit: Fit,
}

impl Layout {
    /// Columns of their least width.
    pub fn new(columns: &[Column], fit: Fit) -> Layout {
        let width = |column: &Column| column.width.max(text::width(column.heading));
        Layout::with_widths(columns.to_vec(), columns.iter().map(width).collect(), fit)
    }

    /// Columns of these widths, less where there is no room for that.
    pub fn with_widths(columns: Vec<Column>, widths: Vec<usize>, fit: Fit) -> Layout {
        let is_shown = |column: &Column| !fit.hidden.contains(&Some(column.name));
        let widths =
            columns.iter().zip(widths).map(|(column, width)| is_shown(column).then_some(width)).collect();
        let mut layout = Layout { columns, widths, left_out: Vec::new(), fit };
        if let Some(width) = fit.width {
            layout.leave_out(fit.drop_first, |layout| layout.with_narrow_last() <= width);
            layout.leave_out(fit.drop_last, |layout| layout.least() <= width);
            layout.shorten(width);
        }
        layout
    }

    /// Leaves columns out, one after the other, until the rest fits.
    fn leave_out(&mut self, names: &[&'static str], fits: impl Fn(&Layout) -> bool) {
        for name in names {
            if fits(self) {
                return;
            }
            if let Some(place) = self.place(name).filter(|&place| self.widths[place].is_some()) {
                self.widths[place] = None;
                self.left_out.push(name);
            }
        }
    }

    /// Narrows texts until the table fits.
    fn shorten(&mut self, width: usize) {
        let order: Vec<usize> = match self.fit.shorten {
            [] => (0..self.columns.len()).rev().collect(),
            names => names.iter().filter_map(|name| self.place(name)).collect(),
        };
        for place in order {
            let excess = self.total().saturating_sub(width);
            let least = self.at_least(place);
            if let Some(own) = &mut self.widths[place] {
                *own = own.saturating_sub(excess).max(least);
            }
        }
    }

    /// Gives a column the room that is left on the terminal.
    pub fn stretch(&mut self, name: &str) {
        let room = self.fit.width.map_or(0, |width| width.saturating_sub(self.total()));
        if let Some(own) = self.place(name).and_then(|place| self.widths[place].as_mut()) {
            *own += room;
        }
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Columns of the terminal that a full row takes.
    fn total(&self) -> usize {
        self.sum(|_, width| width)
    }

    /// The same if a last text that can continue below is as narrow as possible.
    fn with_narrow_last(&self) -> usize {
        let narrows =
            |place: usize| self.columns[place].overflow == Overflow::Continue && Some(place) == self.last();
        self.sum(|place, width| if narrows(place) { self.at_least(place) } else { width })
    }

    /// The same after every text has been shortened as far as possible.
    fn least(&self) -> usize {
        self.sum(|place, _| self.at_least(place))
    }

    fn sum(&self, width: impl Fn(usize, usize) -> usize) -> usize {
        let widths = self.shown().map(|(place, own)| width(place, own) + GAP);
        self.fit.indent + widths.sum::<usize>().saturating_sub(GAP)
    }

    /// The least width of a column: numbers stay whole, texts stay recognizable.
    fn at_least(&self, place: usize) -> usize {
        let (column, width) = (&self.columns[place], self.widths[place].unwrap_or(0));
        let shortest = match column.overflow {
            Overflow::Keep => return width,
            Overflow::Continue if Some(place) == self.last() => SHORTEST_LAST,
            _ => SHORTEST,
        };
        width.min(shortest.max(text::width(column.heading)))
    }

    fn shown(&self) -> impl Iterator<Item = (usize, usize)> {
        self.widths.iter().enumerate().filter_map(|(place, width)| Some((place, (*width)?)))
    }

    fn last(&self) -> Option<usize> {
        self.widths.iter().rposition(Option::is_some)
    }

    /// The line with the headings.
    pub fn head(&self) -> String {
        let mut line = String::new();
        self.write_head(&mut line);
        line
    }

    /// Appends the line with the headings.
    pub fn write_head(&self, line: &mut String) {
        self.write_row(line, |place, line| *line += self.columns[place].heading);
    }

    /// One row from the cells of all columns.
    pub fn row(&self, cells: &[impl AsRef<str>]) -> String {
        let mut line = String::new();
        self.write_row(&mut line, |place, line| *line += cells[place].as_ref());
        line
    }

    /// Appends one row; `fill` appends the cell of the column with this number. Lines have no spaces at their end.
    pub fn write_row(&self, line: &mut String, mut fill: impl FnMut(usize, &mut String)) {
        let (begin, last) = (line.len(), self.last());
        let mut column_start = self.fit.indent;
        text::pad(line, begin, column_start);
        let mut below: Vec<(usize, Vec<String>)> = Vec::new();
        for (place, width) in self.shown() {
            let start = line.len();
            fill(place, line);
            let column = &self.columns[place];
            match column.overflow {
                Overflow::Wrap => below.push((column_start, wrap_cell(line, start, width))),
                Overflow::Continue if self.fit.width.is_some() && Some(place) == last => {
                    below.push((column_start, wrap_cell(line, start, width)));
                }
                Overflow::Continue | Overflow::CutEnd if self.fit.width.is_some() => {
                    text::shorten(line, start, width, Cut::End);
                }
                Overflow::CutMiddle if self.fit.width.is_some() => {
                    text::shorten(line, start, width, Cut::Middle);
                }
                _ => {}
            }
            let missing = width.saturating_sub(text::width(&line[start..]));
            text::pad(line, if column.right { start } else { line.len() }, missing);
            text::pad(line, line.len(), GAP);
            column_start += width + GAP;
        }
        end_line(line, begin);
        for number in 0..below.iter().map(|(_, rows)| rows.len()).max().unwrap_or(0) {
            let begin = line.len();
            for (column_start, rows) in &below {
                let Some(row) = rows.get(number) else { continue };
                let missing = (begin + column_start).saturating_sub(begin + text::width(&line[begin..]));
                text::pad(line, line.len(), missing);
                *line += row;
            }
            end_line(line, begin);
        }
    }

    /// The names of the columns that did not fit.
    pub fn left_out(&self) -> &[&'static str] {
        &self.left_out
    }

    /// A line that names the columns that did not fit, with a sentence about where they can be seen. Empty if all fit.
    pub fn left_out_line(&self, remedy: &str) -> String {
        match self.fit.width.filter(|_| !self.left_out.is_empty()) {
            None => String::new(),
            Some(width) => {
                let names = self.left_out.join(", ").to_lowercase();
                format!("Left out to fit {width} columns: {names}. {remedy}\n")
            }
        }
    }

    /// [`Layout::left_out_line`] for a table whose columns cannot be chosen.
    pub fn left_out_note(&self) -> String {
        self.left_out_line("A wider terminal or a pipe shows every column.")
    }
}

/// Keeps the first row of the cell that starts at byte `start`, and returns the rows that belong below it.
fn wrap_cell(line: &mut String, start: usize, width: usize) -> Vec<String> {
    let cell = line.split_off(start);
    let mut rows = cell.split('\n').flat_map(|part| text::wrap(part, width, 0));
    *line += &rows.next().unwrap_or_default();
    rows.collect()
}

fn end_line(line: &mut String, begin: usize) {
    let length = line[begin..].trim_end_matches(' ').len();
    line.truncate(begin + length);
    line.push('\n');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::text("NAME", 0),
        Column::number("SIZE", 8),
        Column::text("KIND", 10),
        Column::text("WHY", 0),
    ];

    fn layout(width: usize) -> Layout {
        let fit = Fit { width: Some(width), drop_first: &["KIND", "SIZE"], ..Fit::default() };
        Layout::with_widths(COLUMNS.into(), vec![20, 8, 10, 30], fit)
    }

    #[test]
    fn leaves_out_as_few_columns_as_needed_in_the_stated_order() {
        assert_eq!(layout(74).left_out(), [""; 0]);
        assert_eq!(layout(64).left_out(), [""; 0], "the last column is narrower");
        assert_eq!(layout(63).left_out(), ["KIND"]);
        assert_eq!(layout(51).left_out(), ["KIND", "SIZE"]);
        assert_eq!(
            layout(51).left_out_note(),
            "Left out to fit 51 columns: kind, size. A wider terminal or a pipe shows every column.\n"
        );
        assert_eq!(layout(200).left_out_note(), "");
    }

    #[test]
    fn drops_some_columns_before_it_shortens_others() {
        let columns: Vec<Column> = ["a", "b", "c"].map(|name| Column::text(name, 0)).into();
        let fit = Fit { width: Some(62), drop_first: &["a"], shorten: &["b"], ..Fit::default() };
        let layout = Layout::with_widths(columns, vec![10, 40, 30], fit);
        assert_eq!(
            (layout.left_out(), layout.widths.as_slice()),
            (&["a"][..], &[None, Some(30), Some(30)][..])
        );
    }

    #[test]
    fn cuts_names_and_continues_the_last_column_below() {
        let text = layout(40).row(&["a_name_that_is_longer_than_that", "1", "x", "one two three four five"]);
        assert_eq!(text, "a_name_that_is_lo…  one two three four\n                    five\n");
    }

    #[test]
    fn cuts_nothing_without_a_width() {
        let fit = Fit { width: None, ..layout(1).fit };
        let layout = Layout::with_widths(COLUMNS.into(), vec![4, 8, 10, 3], fit);
        let cells = ["longer than four", "1", "a kind of ten or more", "one two"];
        assert_eq!(layout.row(&cells), "longer than four         1  a kind of ten or more  one two\n");
        assert_eq!(layout.head(), "NAME      SIZE  KIND        WHY\n");
    }

    #[test]
    fn wrapped_columns_continue_below_themselves() {
        let wrap = |name| Column { overflow: Overflow::Wrap, ..Column::text(name, 0) };
        let columns = vec![Column::text("A", 0), wrap("B"), wrap("C")];
        let layout = Layout::with_widths(columns, vec![2, 5, 3], Fit::default().indented(1));
        assert_eq!(layout.row(&["a", "one two three", "x\ny"]), " a   one    x\n     two    y\n     three\n");
    }

    proptest! {
        #[test]
        fn rows_fit_where_the_columns_can_fit(
            width in 34_usize..100, name in "[a-z]{0,40}", why in "[a-z]{0,12}( [a-z]{0,12}){0,9}"
        ) {
            let row = layout(width).row(&[name.as_str(), "12345678", "0123456789", &why]);
            prop_assert!(row.lines().all(|line| text::width(line) <= width), "{row}");
        }
    }
}
