//! One task: the text of `show TASK`, with one argument selected.

use tensortap::format::{Dump, FormatError, Record};
use tensortap_query::blame_words::label_words;
use tensortap_query::wrap::wrap;
use tensortap_query::{TaskComparison, TaskPage, argument_lines, page_head};

use crate::list::Cursor;
use crate::request::LoadedTasks;

/// The page of a task. Its text is made once, when the page is opened.
pub(crate) struct TaskTab {
    pub place: usize,
    pub head: Vec<String>,
    pub args: Vec<ArgLines>,
    pub cursor: Cursor,
    /// Number of lines above the visible part.
    pub scroll: usize,
    /// The width, and the lines wrapped to it, each with the argument that it describes.
    wrapped: (usize, Vec<(Option<usize>, String)>),
}

/// The text of an argument, and its records.
pub(crate) struct ArgLines {
    pub title: String,
    pub lines: Vec<String>,
    pub before: Option<Record>,
    pub after: Option<Record>,
}

impl TaskTab {
    /// Reads the task's arguments and formats the page.
    pub fn open(
        dump: &Dump,
        LoadedTasks { graph, index }: &LoadedTasks,
        place: usize,
        comparison: Option<&TaskComparison<'_>>,
    ) -> Result<TaskTab, FormatError> {
        let page = TaskPage::among(dump, graph, index, place)?;
        let label = comparison.map(|one| label_words(one.blame, one.place));
        let head = page_head(graph, &page, label.as_deref()).lines().map(String::from).collect();
        let args = page.args.iter().map(|arg| {
            let lines: Vec<String> =
                argument_lines(graph, arg, comparison).lines().map(String::from).collect();
            ArgLines {
                title: lines.first().cloned().unwrap_or_default(),
                lines,
                before: arg.before.as_ref().map(|snapshot| snapshot.record),
                after: arg.after.as_ref().map(|snapshot| snapshot.record),
            }
        });
        let wrapped = (0, Vec::new());
        Ok(TaskTab { place, head, args: args.collect(), cursor: Cursor::default(), scroll: 0, wrapped })
    }

    /// Wraps the lines to `width` columns.
    pub fn wrap(&mut self, width: usize) {
        if self.wrapped.0 != width {
            let indent = CONTINUATION.min(width / 2);
            let lines = self.whole_lines().into_iter();
            let lines = lines
                .flat_map(|(arg, line)| wrap(line, width, indent).into_iter().map(move |part| (arg, part)));
            self.wrapped = (width, lines.collect());
        }
    }

    /// The wrapped lines.
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

    /// Scrolls so that the selected argument is visible in `rows` lines.
    pub fn show_chosen(&mut self, rows: usize) {
        let lines = self.lines();
        let of_chosen = |(arg, _): &(Option<usize>, String)| *arg == Some(self.cursor.at);
        let first = lines.iter().position(of_chosen).unwrap_or(0);
        let last = lines.iter().rposition(of_chosen).unwrap_or(0);
        let most = lines.len().saturating_sub(rows);
        // Keep the head visible with the first argument if both fit.
        let top = if last < rows && self.cursor.at == 0 { 0 } else { self.scroll.min(first) };
        self.scroll = top.max((last + 1).saturating_sub(rows)).min(most);
    }
}

/// Indentation of continuation lines.
const CONTINUATION: usize = 10;
