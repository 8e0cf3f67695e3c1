//! The state of the viewer and its transitions, independent of a terminal.

mod keys;

use std::sync::Arc;

use ratatui::crossterm::event::{KeyEvent, KeyEventKind, MouseEvent};
use ratatui::layout::{Rect, Size};
use tensortap::DumpStage;
use tensortap::analysis::graph::TaskGraph;
use tensortap::analysis::labels::Finding;
use tensortap_query::Neighbor;
use tensortap_query::blame::wrong_first;

use crate::list::Cursor;
use crate::request::{
    Answer, AnswerKind, Labels, LatestRequest, LoadedTasks, PictureRequest, Request, RequestKind, TaskFilter,
};
use crate::task_tab::TaskTab;
use crate::tensor_tab::TensorTab;
use crate::{Theme, ViewerInput};

/// A tab of the viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    /// All tasks, or the selected ones.
    Tasks,
    /// One task.
    Task,
    /// One tensor.
    Tensor,
    /// Tasks with their labels, wrong ones first.
    Diff,
    /// The direct neighbors of a task in the graph.
    Graph,
}

impl Tab {
    /// All tabs, in the order of their number keys.
    pub const ALL: [Tab; 5] = [Tab::Tasks, Tab::Task, Tab::Tensor, Tab::Diff, Tab::Graph];

    /// The name that is shown.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Tab::Tasks => "tasks",
            Tab::Task => "task",
            Tab::Tensor => "tensor",
            Tab::Diff => "diff",
            Tab::Graph => "graph",
        }
    }
}

/// An input of the viewer.
pub enum Event {
    /// A key.
    Key(KeyEvent),
    /// The mouse.
    Mouse(MouseEvent),
    /// The size of the window changed.
    Resized,
    /// The result of a [`Request`].
    Answer(Answer),
}

/// A value that is requested once and loaded in the background.
pub(crate) enum LoadState<T> {
    NotRequested,
    Waiting,
    Ready(T),
    Failed(String),
}

impl<T> LoadState<T> {
    pub fn ready(&self) -> Option<&T> {
        if let LoadState::Ready(value) = self { Some(value) } else { None }
    }
}

/// How tasks are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Order,
    Start,
    Time,
    Kernel,
}

impl Sort {
    const ALL: [Sort; 4] = [Sort::Order, Sort::Start, Sort::Time, Sort::Kernel];

    pub const fn name(self) -> &'static str {
        match self {
            Sort::Order => "dependency order",
            Sort::Start => "start",
            Sort::Time => "time, longest first",
            Sort::Kernel => "kernel",
        }
    }
}

/// The direct neighbors of a task in the graph.
pub(crate) struct Neighborhood {
    pub place: usize,
    pub producers: Vec<Neighbor>,
    pub consumers: Vec<Neighbor>,
    /// Whether the cursor is in the list of consumers; otherwise it is in the list of producers.
    pub on_right: bool,
    pub cursor: Cursor,
    /// The tasks visited before this one, oldest first.
    pub way: Vec<usize>,
}

impl Neighborhood {
    pub fn chosen(&self) -> &[Neighbor] {
        if self.on_right { &self.consumers } else { &self.producers }
    }
}

/// Screen areas of the last frame, for mouse clicks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Areas {
    pub tabs: Vec<(Rect, Tab)>,
    /// Rows of the list in the current tab.
    pub list: Rect,
}

/// The viewer.
pub struct App {
    pub(crate) input: ViewerInput,
    pub(crate) theme: Theme,
    pub(crate) tab: Tab,
    pub(crate) read: LoadState<Arc<LoadedTasks>>,
    pub(crate) labels: LoadState<Arc<Labels>>,
    /// Places of the listed tasks in the graph.
    pub(crate) rows: Vec<usize>,
    pub(crate) listed: TaskFilter,
    /// The filter whose rows are being loaded.
    pub(crate) loading_rows: Option<TaskFilter>,
    /// The filter text while the user types it.
    pub(crate) typing: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) tasks: Cursor,
    /// Place of the open task; `task` is filled when its page has been read.
    pub(crate) opened: Option<usize>,
    pub(crate) task: Option<TaskTab>,
    /// Whether to open an argument as soon as the task's page has been read.
    opens_tensor: bool,
    pub(crate) tensor: Option<TensorTab>,
    /// Places of tasks, wrong ones first.
    pub(crate) diff_rows: Vec<usize>,
    pub(crate) diff: Cursor,
    pub(crate) near: Option<Neighborhood>,
    pub(crate) helps: bool,
    pub(crate) areas: Areas,
    requests: Vec<Request>,
    rows_requests: LatestRequest<TaskFilter>,
    page_requests: LatestRequest<usize>,
    picture_requests: LatestRequest<Box<PictureRequest>>,
    quits: bool,
}

impl App {
    /// A new viewer, whose first request loads the tasks.
    #[must_use]
    pub fn new(input: ViewerInput, theme: Theme) -> App {
        App {
            input,
            theme,
            tab: Tab::Tasks,
            read: LoadState::Waiting,
            labels: LoadState::NotRequested,
            rows: Vec::new(),
            listed: TaskFilter { filter: String::new(), sort: Sort::Order },
            loading_rows: None,
            typing: None,
            message: None,
            tasks: Cursor::default(),
            opened: None,
            task: None,
            opens_tensor: false,
            tensor: None,
            diff_rows: Vec::new(),
            diff: Cursor::default(),
            near: None,
            helps: false,
            areas: Areas::default(),
            requests: vec![Request(RequestKind::Graph)],
            rows_requests: LatestRequest::default(),
            page_requests: LatestRequest::default(),
            picture_requests: LatestRequest::default(),
            quits: false,
        }
    }

    /// Takes the next pending request. Each request is returned once.
    pub fn take_request(&mut self) -> Option<Request> {
        if self.requests.is_empty() { None } else { Some(self.requests.remove(0)) }
    }

    /// Whether the user has quit.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.quits
    }

    /// The current tab.
    #[must_use]
    pub fn tab(&self) -> Tab {
        self.tab
    }

    /// Applies an event.
    pub fn update(&mut self, event: Event) {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(key),
            Event::Mouse(mouse) => self.mouse(mouse),
            Event::Key(_) | Event::Resized => {}
            Event::Answer(Answer(answered)) => self.take(*answered),
        }
    }

    fn take(&mut self, answered: AnswerKind) {
        match answered {
            AnswerKind::Graph(Ok(read)) => {
                self.rows = (0..read.graph.len()).collect();
                self.read = LoadState::Ready(read);
            }
            AnswerKind::Graph(Err(why)) => self.read = LoadState::Failed(why),
            AnswerKind::Labels(Ok(labels)) => self.take_labels(labels),
            AnswerKind::Labels(Err(why)) => self.labels = LoadState::Failed(why),
            AnswerKind::Rows(listed, rows) => {
                let next = self.rows_requests.finish();
                self.take_rows(listed, rows);
                next.into_iter().for_each(|next| self.request_rows(next));
            }
            AnswerKind::Page(place, page) => {
                let next = self.page_requests.finish();
                self.take_page(place, page);
                next.into_iter().for_each(|next| self.request_page(next));
            }
            AnswerKind::Picture(view, picture) => {
                let next = self.picture_requests.finish();
                if let Some(tensor) = &mut self.tensor {
                    tensor.picture = Some((view, picture));
                }
                next.into_iter().for_each(|next| self.requests.push(Request(RequestKind::Picture(next))));
            }
        }
    }

    fn take_labels(&mut self, labels: Arc<Labels>) {
        let Some(graph) = self.graph() else { return };
        let mut places: Vec<usize> = (0..labels.blame.findings.len()).collect();
        wrong_first(&labels.blame, &mut places);
        let own = |place: usize| graph.position(labels.blame.graph.task(place).key());
        self.diff_rows = places.into_iter().filter_map(own).collect();
        self.labels = LoadState::Ready(labels);
    }

    /// Shows the rows that were loaded, unless another filter has been requested since.
    fn take_rows(&mut self, listed: TaskFilter, rows: Result<Vec<usize>, String>) {
        if self.loading_rows.as_ref() != Some(&listed) {
            return;
        }
        self.loading_rows = None;
        match rows {
            Ok(rows) => {
                let chosen = self.rows.get(self.tasks.at).copied();
                (self.rows, self.listed) = (rows, listed);
                self.tasks = Cursor::default();
                self.tasks.at = self.rows.iter().position(|row| Some(*row) == chosen).unwrap_or(0);
            }
            Err(why) => self.message = Some(why),
        }
    }

    fn take_page(&mut self, place: usize, page: Result<Box<TaskTab>, String>) {
        if self.opened != Some(place) {
            return;
        }
        match page {
            Ok(page) => {
                self.task = Some(*page);
                if std::mem::take(&mut self.opens_tensor) {
                    self.open_tensor();
                }
            }
            Err(why) => (self.opened, self.message) = (None, Some(why)),
        }
    }

    /// The task graph, once it is loaded.
    pub(crate) fn graph(&self) -> Option<&TaskGraph> {
        self.read.ready().map(|read| &read.graph)
    }

    /// Requests data that a window of this size shows and that is not loaded yet. Call it before
    /// [`App::draw`].
    pub fn prepare(&mut self, window: Size) {
        let (lines, width) = crate::draw::picture_size(window);
        let golden = self.labels.ready().map(Arc::clone);
        let Some(tensor) = self.tensor.as_mut().filter(|_| self.tab == Tab::Tensor) else { return };
        let Some(wanted) = tensor.wanted(lines, width, golden) else { return };
        if let Some(asked) = self.picture_requests.submit(Box::new(wanted)) {
            self.requests.push(Request(RequestKind::Picture(asked)));
        }
    }

    /// The labels, and the place of a task in their graph.
    fn labeled(&self, place: usize) -> Option<(&Labels, usize)> {
        let labels = self.labels.ready()?;
        let key = self.graph()?.task(place).key();
        Some((labels, labels.blame.graph.position(key)?))
    }

    /// The finding of a task, once labels are loaded.
    pub(crate) fn finding(&self, place: usize) -> Option<&Finding> {
        self.labeled(place).and_then(|(labels, place)| labels.blame.findings.get(place))
    }

    fn open_task(&mut self, place: Option<usize>) {
        let (Some(_), Some(place)) = (self.graph(), place) else { return };
        (self.task, self.tensor, self.tab) = (None, None, Tab::Task);
        (self.opened, self.opens_tensor) = (Some(place), false);
        if let Some(asked) = self.page_requests.submit(place) {
            self.request_page(asked);
        }
    }

    fn request_page(&mut self, place: usize) {
        if let Some(read) = self.read.ready().map(Arc::clone) {
            let labels = self.labels.ready().map(Arc::clone);
            self.requests.push(Request(RequestKind::Page(read, labels, place)));
        }
    }

    fn request_rows(&mut self, listed: TaskFilter) {
        if let Some(read) = self.read.ready().map(Arc::clone) {
            self.requests.push(Request(RequestKind::Rows(read, listed)));
        }
    }

    fn open_tensor(&mut self) {
        let Some(task) = &self.task else { return };
        let Some(arg) = task.args.get(task.cursor.at) else {
            self.message = Some("no argument of this task was captured".into());
            return;
        };
        let Some(mut tab) = TensorTab::new(arg.title.clone(), arg.before, arg.after) else {
            self.message = Some("this argument was not captured".into());
            return;
        };
        tab.golden =
            self.golden_of(task.place, arg.after.or(arg.before).map_or(0, |record| record.arg_index));
        (self.tensor, self.tab) = (Some(tab), Tab::Tensor);
    }

    /// The golden's record of an argument: after the task if it was captured, else before it.
    fn golden_of(&self, place: usize, arg_index: u16) -> Option<(DumpStage, tensortap::format::Record)> {
        let (labels, place) = self.labeled(place)?;
        let partner = (*labels.blame.matching.partner.get(place)?)?;
        let arg = labels.blame.golden.as_ref()?.task(partner).argument(arg_index)?;
        let record = |stage| {
            let captured = arg.captured(stage)?;
            Some((stage, labels.golden()?.record(captured.record).ok()?))
        };
        record(DumpStage::AfterCompletion).or_else(|| record(DumpStage::BeforeDispatch))
    }

    fn show_neighbors(&mut self, place: Option<usize>) {
        let (Some(read), Some(place)) = (self.read.ready(), place) else { return };
        let (producers, consumers) = read.index.around(&read.graph, place);
        let on_right = producers.is_empty();
        let (cursor, way) = Default::default();
        self.near = Some(Neighborhood { place, producers, consumers, on_right, cursor, way });
        self.tab = Tab::Graph;
    }

    /// Requests the rows of a filter and shows them when they arrive.
    fn list(&mut self, listed: TaskFilter) {
        if self.graph().is_none() {
            return;
        }
        self.loading_rows = Some(listed.clone());
        if let Some(asked) = self.rows_requests.submit(listed) {
            self.request_rows(asked);
        }
    }

    /// Lists the tasks that have a record matching the typed selectors.
    fn select(&mut self, typed: &str) {
        let sort = self.listed.sort;
        self.list(TaskFilter { filter: typed.trim().to_owned(), sort });
    }
}
