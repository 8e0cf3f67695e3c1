//! How a table is made to fit a terminal: the least important columns are left out, in an order that the table states,
//! and it is said which. In a pipe or a file nothing is left out.

use tensortap::format::Dump;

/// Spaces between columns.
pub const GAP: usize = 2;
/// A column whose cells are cut keeps at least this much.
pub const SHORTEST: usize = 12;

/// The last column of texts, which goes on in further lines, keeps at least this much.
const SHORTEST_LAST: usize = 20;

/// A column: its name, the width that its type asks for, and whether its cells end under one another.
pub type Column = (&'static str, usize, bool);

/// What there is room for, and what to do without.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fit {
    /// Characters in a line; `None` for as many as it takes.
    pub width: Option<usize>,
    /// Names of columns that a narrow terminal goes without, the first before the others.
    pub dispensable: &'static [&'static str],
    /// Spaces before every line.
    pub indent: usize,
    /// Columns that have nothing to show.
    hidden: [Option<&'static str>; 4],
}

impl Fit {
    /// To the terminal that standard output is, if it is one.
    pub fn terminal(dispensable: &'static [&'static str]) -> Fit {
        Fit { width: crate::output::terminal_width(), dispensable, indent: 0, hidden: [None; 4] }
    }

    /// The same for rows of a dump: one without names has no column for them.
    pub fn of(self, dump: &Dump) -> Fit {
        self.hide("NAME", !dump.has_names())
    }

    /// The same without a column that has nothing to show.
    pub fn hide(mut self, column: &'static str, hides: bool) -> Fit {
        if let Some(free) = self.hidden.iter_mut().find(|hidden| hides && hidden.is_none()) {
            *free = Some(column);
        }
        self
    }

    /// The same with spaces before every line.
    pub fn indented(self, indent: usize) -> Fit {
        Fit { indent, ..self }
    }
}

/// Characters that columns of these widths take.
pub fn total(widths: impl Iterator<Item = usize> + Clone) -> usize {
    widths.clone().sum::<usize>() + GAP * widths.count().saturating_sub(1)
}

/// Says which columns a width had no room for; nothing when there was room for all.
pub fn left_out_line(names: &[&str], width: Option<usize>, remedy: &str) -> Option<String> {
    let width = width.filter(|_| !names.is_empty())?;
    Some(format!("Left out to fit {width} columns: {}; {remedy}.", names.join(", ").to_lowercase()))
}

/// Columns of settled widths, as far as they fit.
#[derive(Clone, Debug)]
pub struct Line<const N: usize> {
    columns: [Column; N],
    /// `None` for a column that is left out.
    widths: [Option<usize>; N],
    /// In the order in which they were left out.
    left_out: Vec<&'static str>,
    fit: Fit,
}

impl<const N: usize> Line<N> {
    /// Columns as wide as their types ask for.
    pub fn of(columns: [Column; N], fit: Fit) -> Line<N> {
        Line::fitting(columns, columns.map(|(name, least, _)| least.max(name.chars().count())), fit)
    }

    /// Columns that are this wide where there is room.
    pub fn fitting(columns: [Column; N], widths: [usize; N], fit: Fit) -> Line<N> {
        let mut line = Line { columns, widths: widths.map(Some), left_out: Vec::new(), fit };
        for (width, column) in line.widths.iter_mut().zip(&columns) {
            *width = width.filter(|_| !fit.hidden.contains(&Some(column.0)));
        }
        let Some(width) = fit.width else { return line };
        for name in fit.dispensable {
            if line.least() <= width {
                break;
            }
            if let Some(place) = columns.iter().position(|column| column.0 == *name) {
                line.widths[place] = None;
                line.left_out.push(name);
            }
        }
        line.shorten(width);
        line
    }

    /// Characters in a line, the last column as narrow as it may be.
    fn least(&self) -> usize {
        let last = self.last();
        let width =
            |(place, width): (usize, usize)| if Some(place) == last { self.at_least(place) } else { width };
        self.fit.indent + total(self.shown().map(width))
    }

    /// What a column has to have: a number all of it, a text so much that it can be told.
    fn at_least(&self, place: usize) -> usize {
        let (name, _, number) = self.columns[place];
        let width = self.widths[place].unwrap_or(0);
        let shortest = if Some(place) == self.last() { SHORTEST_LAST } else { SHORTEST };
        if number { width } else { width.min(shortest.max(name.chars().count())) }
    }

    fn shown(&self) -> impl Iterator<Item = (usize, usize)> + Clone {
        self.widths.iter().enumerate().filter_map(|(place, width)| Some((place, (*width)?)))
    }

    /// The last column that is shown. Its cells go on in further lines rather than being cut.
    fn last(&self) -> Option<usize> {
        self.widths.iter().rposition(Option::is_some)
    }

    /// Narrows texts from the right, the last column first, as far as needed.
    fn shorten(&mut self, width: usize) {
        for place in (0..N).rev() {
            let all = self.fit.indent + total(self.shown().map(|(_, width)| width));
            let least = self.at_least(place);
            if let Some(own) = &mut self.widths[place] {
                *own = own.saturating_sub(all.saturating_sub(width)).max(least);
            }
        }
    }

    /// The names of the columns.
    pub fn head(&self) -> String {
        self.row(&self.columns.map(|(name, _, _)| name))
    }

    /// One row, without spaces at its end.
    pub fn row(&self, cells: &[impl AsRef<str>; N]) -> String {
        let last = self.last();
        let mut line = " ".repeat(self.fit.indent);
        let mut further: Vec<String> = Vec::new();
        for (place, width) in self.shown() {
            let (cell, number) = (cells[place].as_ref(), self.columns[place].2);
            if Some(place) == last && !number && self.fit.width.is_some() {
                let mut lines = wrap(cell, width).into_iter();
                line += &lines.next().unwrap_or_default();
                further = lines.collect();
                continue;
            }
            let cell = if number || self.fit.width.is_none() { cell.into() } else { cut(cell, width) };
            let space = " ".repeat(width.saturating_sub(cell.chars().count()));
            let (before, after) = if number { (space.as_str(), "") } else { ("", space.as_str()) };
            line.extend([before, &cell, after, "  "]);
        }
        let before_last =
            self.shown().filter(|(place, _)| Some(*place) != last).map(|(_, width)| width + GAP);
        let indent = " ".repeat(self.fit.indent + before_last.sum::<usize>());
        let further: String = further.iter().map(|more| format!("{indent}{more}\n")).collect();
        format!("{}\n{further}", line.trim_end())
    }

    /// What there was no room for, as a line of its own; empty when there was room for all.
    pub fn left_out(&self) -> String {
        let line = left_out_line(&self.left_out, self.fit.width, "a wider terminal or a pipe has all");
        line.map_or(String::new(), |line| line + "\n")
    }
}

/// The beginning of a text that is too long.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// A text in lines of at most so many characters, broken between words where it can be.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let length = word.chars().count();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + length <= width => line.extend([" ", word]),
            _ => lines.push(word.into()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COLUMNS: [Column; 4] =
        [("NAME", 0, false), ("SIZE", 8, true), ("KIND", 10, false), ("WHY", 0, false)];

    fn line(width: usize) -> Line<4> {
        let fit = Fit { width: Some(width), dispensable: &["KIND", "SIZE"], ..Fit::default() };
        Line::fitting(COLUMNS, [20, 8, 10, 30], fit)
    }

    fn left_out(width: usize) -> Vec<&'static str> {
        line(width).left_out
    }

    #[test]
    fn columns_go_in_the_stated_order_and_only_as_many_as_must() {
        assert_eq!(left_out(74), [""; 0]);
        assert_eq!(left_out(64), [""; 0], "the last column is narrower");
        assert_eq!(left_out(63), ["KIND"]);
        assert_eq!(left_out(51), ["KIND", "SIZE"]);
        assert_eq!(
            line(51).left_out(),
            "Left out to fit 51 columns: kind, size; a wider terminal or a pipe has all.\n"
        );
        assert_eq!(line(200).left_out(), "");
    }

    #[test]
    fn a_reason_goes_on_in_the_next_line_and_a_name_is_cut() {
        let text = line(40).row(&["a_name_that_is_longer_than_that", "1", "x", "one two three four five"]);
        assert_eq!(text, "a_name_that_is_lo…  one two three four\n                    five\n");
    }

    #[test]
    fn without_a_width_nothing_is_cut() {
        let line = Line::fitting(COLUMNS, [4, 8, 10, 3], Fit { width: None, ..line(1).fit });
        let cells = ["longer than four", "1", "a kind of ten or more", "one two"];
        assert_eq!(line.row(&cells), "longer than four         1  a kind of ten or more  one two\n");
        assert_eq!(line.head(), "NAME      SIZE  KIND        WHY\n");
    }

    proptest! {
        #[test]
        fn what_fits_at_all_fits(width in 34_usize..100, name in "[a-z]{0,40}", why in "[a-z]{0,12}( [a-z]{0,12}){0,9}") {
            let row = line(width).row(&[name.as_str(), "12345678", "0123456789", &why]);
            prop_assert!(row.lines().all(|line| line.chars().count() <= width), "{row}");
        }
    }
}
