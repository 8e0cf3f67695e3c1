//! What takes time: asked for by the viewer, done beside it, and given back as an event. Of what depends on where one looks, one question
//! is under way at a time, and the newest of those that came up meanwhile is the next.

use std::sync::Arc;

use tensortap::analysis::blame::Blame;
use tensortap::analysis::graph::{TaskGraph, load};
use tensortap::format::{Dump, Record};
use tensortap_query::golden::Golden;
use tensortap_query::picture::{Frame, Source, Subject, Tile};
use tensortap_query::words::task_words;
use tensortap_query::{HeldTask, Labelling, QueryError, Selectors, Slice, TaskIndex};

use crate::Looked;
use crate::app::{Event, Sort};
use crate::task_room::TaskRoom;
use crate::tensor_room::{Picture, View};

/// Something that takes time. [`Request::answer`] does it, on any thread.
pub struct Request(pub(crate) Asked);

/// What came of a request.
pub struct Answer(pub(crate) Box<Answered>);

/// The tasks of a dump, and what pages of them share.
pub(crate) struct Read {
    pub graph: TaskGraph,
    pub index: TaskIndex,
}

/// Labels of every task, and what they rest on.
pub(crate) struct Labels {
    pub blame: Blame,
    pub labelling: Labelling,
}

/// Which tasks are listed, in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub filter: String,
    pub sort: Sort,
}

/// A part of a tensor, or of the difference of two.
#[derive(Clone)]
pub(crate) struct Pictured {
    /// By what it is known again.
    pub view: View,
    pub record: Record,
    /// What is taken from it.
    pub less: Option<(Arc<Labels>, Record)>,
}

pub(crate) enum Asked {
    Graph,
    Labels,
    Rows(Arc<Read>, Listed),
    /// The page of the task at this place, with its label where there are labels.
    Page(Arc<Read>, Option<Arc<Labels>>, usize),
    Picture(Box<Pictured>),
}

pub(crate) enum Answered {
    Graph(Result<Arc<Read>, String>),
    Labels(Result<Arc<Labels>, String>),
    Rows(Listed, Result<Vec<usize>, String>),
    Page(usize, Result<Box<TaskRoom>, String>),
    Picture(View, Result<Box<Picture>, String>),
}

/// A kind of question of which the newest matters.
pub(crate) struct Newest<T> {
    is_under_way: bool,
    next: Option<T>,
}

impl<T> Default for Newest<T> {
    fn default() -> Newest<T> {
        Newest { is_under_way: false, next: None }
    }
}

impl<T> Newest<T> {
    /// Takes a question; it is given back when it is to be asked now.
    pub fn ask(&mut self, question: T) -> Option<T> {
        if self.is_under_way {
            self.next = Some(question);
            return None;
        }
        self.is_under_way = true;
        Some(question)
    }

    /// An answer came: the question that is to be asked next.
    pub fn came(&mut self) -> Option<T> {
        self.is_under_way = false;
        self.next.take().and_then(|next| self.ask(next))
    }
}

impl Labels {
    fn of(looked: &Looked) -> Result<Labels, QueryError> {
        let labelling = Labelling::open(&looked.registry, &looked.dump, looked.golden.as_deref())?;
        let blame = labelling.blame(&looked.dump, &[])?;
        Ok(Labels { blame, labelling })
    }

    pub fn golden(&self) -> Option<&Dump> {
        self.labelling.golden().and_then(Golden::dump)
    }
}

impl Request {
    /// Does it. The event is for [`App::update`](crate::App::update).
    #[must_use]
    pub fn answer(self, looked: &Looked) -> Event {
        let dump = &looked.dump;
        Event::Answer(Answer(Box::new(match self.0 {
            Asked::Graph => Answered::Graph(in_words(read(dump)).map(Arc::new)),
            Asked::Labels => Answered::Labels(in_words(Labels::of(looked)).map(Arc::new)),
            Asked::Rows(read, listed) => {
                let rows = listed.rows(dump, &read.graph);
                Answered::Rows(listed, rows)
            }
            Asked::Page(read, labels, place) => {
                let room = in_words(page(dump, &read, labels.as_deref(), place));
                Answered::Page(place, room.map(Box::new))
            }
            Asked::Picture(pictured) => {
                let picture = in_words(pictured.read(dump)).map(Box::new);
                Answered::Picture(pictured.view, picture)
            }
        })))
    }
}

fn in_words<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

fn read(dump: &Dump) -> Result<Read, tensortap::format::FormatError> {
    let graph = load(dump, &[])?;
    let index = TaskIndex::of(dump, &graph)?;
    Ok(Read { graph, index })
}

fn page(dump: &Dump, read: &Read, labels: Option<&Labels>, place: usize) -> Result<TaskRoom, QueryError> {
    let key = read.graph.task(place).key();
    let labelled = labels.and_then(|labels| Some((labels, labels.blame.graph.position(key)?)));
    let held = match labelled {
        Some((Labels { blame, labelling }, place)) => {
            let (against, options) = (labelling.against(dump)?, labelling.options(dump, &[]));
            Some(HeldTask::of(blame, dump, &against, &options, place)?)
        }
        None => None,
    };
    Ok(TaskRoom::open(dump, read, place, held.as_ref())?)
}

impl Listed {
    fn rows(&self, dump: &Dump, graph: &TaskGraph) -> Result<Vec<usize>, String> {
        let mut rows = match self.filter.is_empty() {
            true => (0..graph.len()).collect(),
            false => selected(dump, graph, &self.filter)?,
        };
        let took = |place: usize| {
            let task = graph.task(place);
            task.end_time().zip(task.start_time()).map_or(0, |(end, start)| end.saturating_sub(start))
        };
        match self.sort {
            Sort::Order => rows.sort_unstable(),
            Sort::Start => rows.sort_by_key(|&place| (graph.task(place).start_time(), place)),
            Sort::Time => rows.sort_by_key(|&place| (std::cmp::Reverse(took(place)), place)),
            Sort::Kernel => rows.sort_by_cached_key(|&place| (task_words(graph.task(place)), place)),
        }
        Ok(rows)
    }
}

/// The tasks with a record that is selected.
fn selected(dump: &Dump, graph: &TaskGraph, typed: &str) -> Result<Vec<usize>, String> {
    let selectors: Selectors = in_words(typed.parse::<Selectors>())?;
    let selection = in_words(selectors.selection(dump, &|_, _| {}))?;
    let mut rows = Vec::new();
    for record in selection.records(dump) {
        rows.extend(graph.position(in_words(record)?.task_key()));
    }
    rows.sort_unstable();
    rows.dedup();
    if rows.is_empty() {
        Err(selection.why_empty(dump).unwrap_or_else(|error| error.to_string()))
    } else {
        Ok(rows)
    }
}

impl Pictured {
    fn read(&self, dump: &Dump) -> Result<Picture, QueryError> {
        let source = Source::of_record(dump, &self.record);
        let less = self.less.as_ref().and_then(|(labels, record)| Some((labels.golden()?, record)));
        let less = less.map(|(golden, record)| Source::of_record(golden, record));
        let subject = match &less {
            Some(less) => Subject::difference(&source, less)?,
            None => Subject::tensor(&source),
        };
        let ndims = self.record.shape().len();
        let axes = (ndims.checked_sub(2), ndims.checked_sub(1));
        let View { slice, at, lines, across, .. } = &self.view;
        let frame = Frame { rows: (*lines).max(1), columns: (*across).max(1) };
        let tile = Tile::of(subject, &Slice::parse(slice)?, axes, frame)?;
        let one = Frame { rows: 1, columns: 1 };
        let under = Tile::of(subject, &Slice::parse(at)?, (None, None), one)?;
        let value = under.cells.text.and_then(|texts| texts.into_iter().next()).unwrap_or_default();
        Ok(Picture { tile, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_question_is_under_way_and_the_newest_is_next() {
        let mut asked = Newest::default();
        assert_eq!(asked.ask(1), Some(1));
        assert_eq!((asked.ask(2), asked.ask(3)), (None, None));
        assert_eq!(asked.came(), Some(3), "what was asked for between them is no longer wanted");
        assert_eq!(asked.came(), None);
        assert_eq!(asked.ask(4), Some(4));
    }
}
