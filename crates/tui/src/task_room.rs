//! One task: what `show TASK` says, with an argument chosen.

use tensortap::format::{Dump, FormatError, Record};
use tensortap_query::blame_words::label_words;
use tensortap_query::{HeldTask, TaskPage, argument_lines, page_head};

use crate::list::Cursor;
use crate::request::Read;

/// The page of a task. Lines are made once, when it is opened.
pub(crate) struct TaskRoom {
    pub place: usize,
    pub head: Vec<String>,
    pub args: Vec<ArgLines>,
    pub cursor: Cursor,
    /// Lines scrolled past.
    pub scroll: usize,
    /// All lines as they fit, each with the argument it is about, and for which width.
    wrapped: (usize, Vec<(Option<usize>, String)>),
}

/// An argument with its records.
pub(crate) struct ArgLines {
    pub title: String,
    pub lines: Vec<String>,
    pub before: Option<Record>,
    pub after: Option<Record>,
}

impl TaskRoom {
    /// Reads what the task was given and left.
    pub fn open(
        dump: &Dump,
        Read { graph, index }: &Read,
        place: usize,
        held: Option<&HeldTask<'_>>,
    ) -> Result<TaskRoom, FormatError> {
        let page = TaskPage::among(dump, graph, index, place)?;
        let label = held.map(|held| label_words(held.blame, held.place));
        let head = page_head(graph, &page, label.as_deref()).lines().map(String::from).collect();
        let args = page.args.iter().map(|arg| {
            let lines: Vec<String> = argument_lines(graph, arg, held).lines().map(String::from).collect();
            ArgLines {
                title: lines.first().cloned().unwrap_or_default(),
                lines,
                before: arg.before.as_ref().map(|moment| moment.record),
                after: arg.after.as_ref().map(|moment| moment.record),
            }
        });
        let wrapped = (0, Vec::new());
        Ok(TaskRoom { place, head, args: args.collect(), cursor: Cursor::default(), scroll: 0, wrapped })
    }

    /// Makes lines that fit into so many columns.
    pub fn wrap(&mut self, width: usize) {
        if self.wrapped.0 != width {
            let lines = self.whole_lines().into_iter();
            let lines =
                lines.flat_map(|(arg, line)| folded(line, width).into_iter().map(move |part| (arg, part)));
            self.wrapped = (width, lines.collect());
        }
    }

    /// The lines that fit.
    pub fn lines(&self) -> &[(Option<usize>, String)] {
        &self.wrapped.1
    }

    fn whole_lines(&self) -> Vec<(Option<usize>, &str)> {
        let head = self.head.iter().map(|line| (None, line.as_str()));
        let args = self.args.iter().enumerate().flat_map(|(place, arg)| {
            let lines = arg.lines.iter().map(move |line| (Some(place), line.as_str()));
            std::iter::once((None, "")).chain(lines)
        });
        head.chain(args).collect()
    }

    /// Scrolls so far that the chosen argument is seen on so many lines.
    pub fn show_chosen(&mut self, rows: usize) {
        let lines = self.lines();
        let of_chosen = |(arg, _): &(Option<usize>, String)| *arg == Some(self.cursor.at);
        let first = lines.iter().position(of_chosen).unwrap_or(0);
        let last = lines.iter().rposition(of_chosen).unwrap_or(0);
        let most = lines.len().saturating_sub(rows);
        // The first argument leaves the head in sight where both fit.
        let top = if last < rows && self.cursor.at == 0 { 0 } else { self.scroll.min(first) };
        self.scroll = top.max((last + 1).saturating_sub(rows)).min(most);
    }
}

/// What follows the first part of a line stands further in.
const FURTHER_IN: usize = 10;

/// A line in parts that fit, cut at spaces where there are some, but not inside a small picture between bars.
fn folded(line: &str, width: usize) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut in_picture = false;
    let ends_word = |c: char| {
        in_picture ^= c == '|';
        c == ' ' && !in_picture
    };
    for word in line.split_inclusive(ends_word) {
        let begun = if parts.is_empty() { 0 } else { FURTHER_IN.min(width / 2) };
        let is_long = begun + part.chars().count() + word.trim_end().chars().count() > width;
        if is_long && !part.trim().is_empty() {
            parts.push(format!("{:begun$}{}", "", part.trim_end()));
            part.clear();
        }
        part += word;
    }
    let begun = if parts.is_empty() { 0 } else { FURTHER_IN.min(width / 2) };
    parts.push(format!("{:begun$}{}", "", part.trim_end()));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_go_on_further_in_and_nothing_is_lost() {
        let parts = folded("  before  min -1.865  max 1.877  mean -0.1098", 24);
        assert_eq!(parts, ["  before  min -1.865", "          max 1.877", "          mean -0.1098"]);
        let picture = folded("  after  mean 1.000  |█      █|  to 0x2", 24);
        assert_eq!(
            picture,
            ["  after  mean 1.000", "          |█      █|  to", "          0x2"],
            "a picture stays whole"
        );
        assert_eq!(
            (folded("", 10), folded("a_word_that_is_long", 5)),
            (vec![String::new()], vec!["a_word_that_is_long".into()])
        );
    }
}
