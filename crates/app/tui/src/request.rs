//! Slow work, requested by the viewer and done on other threads. Its result returns as an event. Requests
//! that depend on what the user looks at run one at a time: when one finishes, only the newest of those made
//! meanwhile runs.

use std::sync::Arc;

use tensortap::analysis::blame::Blame;
use tensortap::analysis::graph::{TaskGraph, load};
use tensortap::format::{Dump, Record};
use tensortap_query::golden::Golden;
use tensortap_query::picture::{Frame, PictureInput, Source, Tile};
use tensortap_query::words::task_words;
use tensortap_query::{LabelSource, QueryError, Selectors, Slice, TaskComparison, TaskIndex, Times};

use crate::ViewerInput;
use crate::app::{Event, Sort};
use crate::task_tab::TaskTab;
use crate::tensor_tab::{Picture, Viewport};

/// Slow work. [`Request::answer`] does it and may run on any thread.
pub struct Request(pub(crate) RequestKind);

/// The result of a request.
pub struct Answer(pub(crate) Box<AnswerKind>);

/// The tasks of a dump, with an index shared by the pages of tasks.
pub(crate) struct LoadedTasks {
    pub graph: TaskGraph,
    pub index: TaskIndex,
}

/// Labels of all tasks, and what the dump was compared with.
pub(crate) struct Labels {
    pub blame: Blame,
    pub label_source: LabelSource,
}

/// Filter and order of the task list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskFilter {
    pub filter: String,
    pub sort: Sort,
}

/// A part of a tensor, or of the difference of two tensors.
#[derive(Clone)]
pub(crate) struct PictureRequest {
    /// Identifies the request when its result arrives.
    pub view: Viewport,
    pub record: Record,
    /// The record of the golden that is subtracted.
    pub less: Option<(Arc<Labels>, Record)>,
}

pub(crate) enum RequestKind {
    Graph,
    Labels,
    Rows(Arc<LoadedTasks>, TaskFilter),
    /// The page of the task at this place, with its label if labels are loaded.
    Page(Arc<LoadedTasks>, Option<Arc<Labels>>, usize),
    Picture(Box<PictureRequest>),
}

pub(crate) enum AnswerKind {
    Graph(Result<Arc<LoadedTasks>, String>),
    Labels(Result<Arc<Labels>, String>),
    Rows(TaskFilter, Result<Vec<usize>, String>),
    Page(usize, Result<Box<TaskTab>, String>),
    Picture(Viewport, Result<Box<Picture>, String>),
}

/// One kind of request: at most one is running, and only the newest waiting one is kept.
pub(crate) struct LatestRequest<T> {
    is_running: bool,
    next: Option<T>,
}

impl<T> Default for LatestRequest<T> {
    fn default() -> LatestRequest<T> {
        LatestRequest { is_running: false, next: None }
    }
}

impl<T> LatestRequest<T> {
    /// Submits a request. Returns it if it should start now; otherwise it waits and replaces an older waiting
    /// one.
    pub fn submit(&mut self, request: T) -> Option<T> {
        if self.is_running {
            self.next = Some(request);
            return None;
        }
        self.is_running = true;
        Some(request)
    }

    /// Marks the running request as finished. Returns the waiting request, which should start now.
    pub fn finish(&mut self) -> Option<T> {
        self.is_running = false;
        self.next.take().and_then(|next| self.submit(next))
    }
}

impl Labels {
    fn of(input: &ViewerInput) -> Result<Labels, QueryError> {
        let label_source = LabelSource::open(&input.registry, &input.dump, input.golden.as_deref())?;
        let blame = label_source.blame(&input.dump, &[])?;
        Ok(Labels { blame, label_source })
    }

    pub fn golden(&self) -> Option<&Dump> {
        self.label_source.golden().and_then(Golden::dump)
    }
}

impl Request {
    /// Does the work. Pass the event to [`App::update`](crate::App::update).
    #[must_use]
    pub fn answer(self, input: &ViewerInput) -> Event {
        let dump = &input.dump;
        Event::Answer(Answer(Box::new(match self.0 {
            RequestKind::Graph => AnswerKind::Graph(in_words(read(dump)).map(Arc::new)),
            RequestKind::Labels => AnswerKind::Labels(in_words(Labels::of(input)).map(Arc::new)),
            RequestKind::Rows(read, listed) => {
                let rows = listed.rows(dump, &read.graph);
                AnswerKind::Rows(listed, rows)
            }
            RequestKind::Page(read, labels, place) => {
                let tab = in_words(page(dump, &read, labels.as_deref(), place));
                AnswerKind::Page(place, tab.map(Box::new))
            }
            RequestKind::Picture(pictured) => {
                let picture = in_words(pictured.read(dump)).map(Box::new);
                AnswerKind::Picture(pictured.view, picture)
            }
        })))
    }
}

fn in_words<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

fn read(dump: &Dump) -> Result<LoadedTasks, tensortap::format::FormatError> {
    let graph = load(dump, &[])?;
    let index = TaskIndex::of(dump, &graph)?;
    Ok(LoadedTasks { graph, index })
}

fn page(
    dump: &Dump,
    read: &LoadedTasks,
    labels: Option<&Labels>,
    place: usize,
) -> Result<TaskTab, QueryError> {
    let key = read.graph.task(place).key();
    let labeled = labels.and_then(|labels| Some((labels, labels.blame.graph.position(key)?)));
    let comparison = match labeled {
        Some((Labels { blame, label_source }, place)) => {
            let (against, options) = (label_source.against(dump)?, label_source.options(dump, &[]));
            Some(TaskComparison::of(blame, dump, &against, &options, place)?)
        }
        None => None,
    };
    Ok(TaskTab::open(dump, read, place, comparison.as_ref())?)
}

impl TaskFilter {
    fn rows(&self, dump: &Dump, graph: &TaskGraph) -> Result<Vec<usize>, String> {
        let mut rows = match self.filter.is_empty() {
            true => (0..graph.len()).collect(),
            false => selected(dump, graph, &self.filter)?,
        };
        let took = |place: usize| Times::since(None, graph.task(place)).took;
        match self.sort {
            Sort::Order => rows.sort_unstable(),
            Sort::Start => rows.sort_by_key(|&place| (graph.task(place).start_time(), place)),
            Sort::Time => rows.sort_by_key(|&place| (std::cmp::Reverse(took(place)), place)),
            Sort::Kernel => rows.sort_by_cached_key(|&place| (task_words(graph.task(place)), place)),
        }
        Ok(rows)
    }
}

/// Places of the tasks that have a record matching the selectors.
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

impl PictureRequest {
    fn read(&self, dump: &Dump) -> Result<Picture, QueryError> {
        let source = Source::of_record(dump, &self.record);
        let less = self.less.as_ref().and_then(|(labels, record)| Some((labels.golden()?, record)));
        let less = less.map(|(golden, record)| Source::of_record(golden, record));
        let subject = match &less {
            Some(less) => PictureInput::difference(&source, less)?,
            None => PictureInput::tensor(&source),
        };
        let ndims = self.record.shape().len();
        let axes = (ndims.checked_sub(2), ndims.checked_sub(1));
        let Viewport { slice, at, lines, across, .. } = &self.view;
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
    fn one_request_runs_and_the_newest_waiting_one_follows() {
        let mut requests = LatestRequest::default();
        assert_eq!(requests.submit(1), Some(1));
        assert_eq!((requests.submit(2), requests.submit(3)), (None, None));
        assert_eq!(requests.finish(), Some(3), "the request between them was dropped");
        assert_eq!(requests.finish(), None);
        assert_eq!(requests.submit(4), Some(4));
    }
}
