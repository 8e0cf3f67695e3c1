//! What there is to see and to do, without a terminal.

mod keys;

use std::sync::Arc;

use ratatui::crossterm::event::{KeyEvent, KeyEventKind, MouseEvent};
use ratatui::layout::{Rect, Size};
use tensortap::DumpStage;
use tensortap::analysis::graph::TaskGraph;
use tensortap::analysis::labels::Finding;
use tensortap_query::Neighbour;
use tensortap_query::blame::wrong_first;

use crate::list::Cursor;
use crate::request::{Answer, Answered, Asked, Labels, Listed, Newest, Pictured, Read, Request};
use crate::task_room::TaskRoom;
use crate::tensor_room::TensorRoom;
use crate::{Look, Looked};

/// A room of the viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Every task, or those that are selected.
    Tasks,
    /// One task.
    Task,
    /// One tensor.
    Tensor,
    /// Tasks by their labels.
    Diff,
    /// What is near a task.
    Graph,
}

impl Room {
    /// Every room, in the order of their numbers.
    pub const ALL: [Room; 5] = [Room::Tasks, Room::Task, Room::Tensor, Room::Diff, Room::Graph];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Room::Tasks => "tasks",
            Room::Task => "task",
            Room::Tensor => "tensor",
            Room::Diff => "diff",
            Room::Graph => "graph",
        }
    }
}

/// What happens to the viewer.
pub enum Event {
    /// A key.
    Key(KeyEvent),
    /// The mouse.
    Mouse(MouseEvent),
    /// The window has another size.
    Resized,
    /// What came of a [`Request`].
    Answer(Answer),
}

/// Something that is asked for once.
pub(crate) enum Awaited<T> {
    NotAsked,
    Asked,
    Here(T),
    Failed(String),
}

impl<T> Awaited<T> {
    pub fn here(&self) -> Option<&T> {
        if let Awaited::Here(here) = self { Some(here) } else { None }
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

/// What is near a task.
pub(crate) struct Near {
    pub place: usize,
    pub producers: Vec<Neighbour>,
    pub consumers: Vec<Neighbour>,
    /// Whether the consumers are chosen from.
    pub on_right: bool,
    pub cursor: Cursor,
    /// The way that was walked.
    pub way: Vec<usize>,
}

impl Near {
    pub fn chosen(&self) -> &[Neighbour] {
        if self.on_right { &self.consumers } else { &self.producers }
    }
}

/// Where things were drawn, for the mouse.
#[derive(Clone, Debug, Default)]
pub(crate) struct Areas {
    pub tabs: Vec<(Rect, Room)>,
    /// Rows of the list of the room.
    pub list: Rect,
}

/// The viewer.
pub struct App {
    pub(crate) looked: Looked,
    pub(crate) look: Look,
    pub(crate) room: Room,
    pub(crate) read: Awaited<Arc<Read>>,
    pub(crate) labels: Awaited<Arc<Labels>>,
    /// Places of the tasks that are listed, and which these are.
    pub(crate) rows: Vec<usize>,
    pub(crate) listed: Listed,
    /// What is to be listed and is being looked for.
    pub(crate) looks_for: Option<Listed>,
    /// A filter that is being typed.
    pub(crate) typing: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) tasks: Cursor,
    /// The task that is opened, by its place; what is to be seen of it comes later.
    pub(crate) opened: Option<usize>,
    pub(crate) task: Option<TaskRoom>,
    /// An argument of it is to be opened as soon as it is there.
    opens_tensor: bool,
    pub(crate) tensor: Option<TensorRoom>,
    /// Places of tasks, those first that are wrong.
    pub(crate) diff_rows: Vec<usize>,
    pub(crate) diff: Cursor,
    pub(crate) near: Option<Near>,
    pub(crate) helps: bool,
    pub(crate) areas: Areas,
    requests: Vec<Request>,
    asked_rows: Newest<Listed>,
    asked_page: Newest<usize>,
    asked_picture: Newest<Box<Pictured>>,
    quits: bool,
}

impl App {
    /// A viewer that has seen nothing yet, and asks for the tasks.
    #[must_use]
    pub fn new(looked: Looked, look: Look) -> App {
        App {
            looked,
            look,
            room: Room::Tasks,
            read: Awaited::Asked,
            labels: Awaited::NotAsked,
            rows: Vec::new(),
            listed: Listed { filter: String::new(), sort: Sort::Order },
            looks_for: None,
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
            requests: vec![Request(Asked::Graph)],
            asked_rows: Newest::default(),
            asked_page: Newest::default(),
            asked_picture: Newest::default(),
            quits: false,
        }
    }

    /// The next of what is to be done meanwhile; each is given out once.
    pub fn take_request(&mut self) -> Option<Request> {
        if self.requests.is_empty() { None } else { Some(self.requests.remove(0)) }
    }

    /// Whether the user has seen enough.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.quits
    }

    /// The room that is seen.
    #[must_use]
    pub fn room(&self) -> Room {
        self.room
    }

    /// Takes what happened.
    pub fn update(&mut self, event: Event) {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(key),
            Event::Mouse(mouse) => self.mouse(mouse),
            Event::Key(_) | Event::Resized => {}
            Event::Answer(Answer(answered)) => self.take(*answered),
        }
    }

    fn take(&mut self, answered: Answered) {
        match answered {
            Answered::Graph(Ok(read)) => {
                self.rows = (0..read.graph.len()).collect();
                self.read = Awaited::Here(read);
            }
            Answered::Graph(Err(why)) => self.read = Awaited::Failed(why),
            Answered::Labels(Ok(labels)) => self.take_labels(labels),
            Answered::Labels(Err(why)) => self.labels = Awaited::Failed(why),
            Answered::Rows(listed, rows) => {
                let next = self.asked_rows.came();
                self.take_rows(listed, rows);
                next.into_iter().for_each(|next| self.request_rows(next));
            }
            Answered::Page(place, page) => {
                let next = self.asked_page.came();
                self.take_page(place, page);
                next.into_iter().for_each(|next| self.request_page(next));
            }
            Answered::Picture(view, picture) => {
                let next = self.asked_picture.came();
                if let Some(tensor) = &mut self.tensor {
                    tensor.picture = Some((view, picture));
                }
                next.into_iter().for_each(|next| self.requests.push(Request(Asked::Picture(next))));
            }
        }
    }

    fn take_labels(&mut self, labels: Arc<Labels>) {
        let Some(graph) = self.graph() else { return };
        let mut places: Vec<usize> = (0..labels.blame.findings.len()).collect();
        wrong_first(&labels.blame, &mut places);
        let own = |place: usize| graph.position(labels.blame.graph.task(place).key());
        self.diff_rows = places.into_iter().filter_map(own).collect();
        self.labels = Awaited::Here(labels);
    }

    /// What was looked for is listed, unless it is no longer wanted.
    fn take_rows(&mut self, listed: Listed, rows: Result<Vec<usize>, String>) {
        if self.looks_for.as_ref() != Some(&listed) {
            return;
        }
        self.looks_for = None;
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

    fn take_page(&mut self, place: usize, page: Result<Box<TaskRoom>, String>) {
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

    /// The tasks, once they are read.
    pub(crate) fn graph(&self) -> Option<&TaskGraph> {
        self.read.here().map(|read| &read.graph)
    }

    /// Asks for what a window of this size shows and is not there yet. To be called before [`App::draw`].
    pub fn prepare(&mut self, window: Size) {
        let (lines, width) = crate::draw::picture_size(window);
        let golden = self.labels.here().map(Arc::clone);
        let Some(tensor) = self.tensor.as_mut().filter(|_| self.room == Room::Tensor) else { return };
        let Some(wanted) = tensor.wanted(lines, width, golden) else { return };
        if let Some(asked) = self.asked_picture.ask(Box::new(wanted)) {
            self.requests.push(Request(Asked::Picture(asked)));
        }
    }

    /// Where a task stands among those that have labels.
    fn labelled(&self, place: usize) -> Option<(&Labels, usize)> {
        let labels = self.labels.here()?;
        let key = self.graph()?.task(place).key();
        Some((labels, labels.blame.graph.position(key)?))
    }

    /// The label of a task, once there are labels.
    pub(crate) fn finding(&self, place: usize) -> Option<&Finding> {
        self.labelled(place).and_then(|(labels, place)| labels.blame.findings.get(place))
    }

    fn open_task(&mut self, place: Option<usize>) {
        let (Some(_), Some(place)) = (self.graph(), place) else { return };
        (self.task, self.tensor, self.room) = (None, None, Room::Task);
        (self.opened, self.opens_tensor) = (Some(place), false);
        if let Some(asked) = self.asked_page.ask(place) {
            self.request_page(asked);
        }
    }

    fn request_page(&mut self, place: usize) {
        if let Some(read) = self.read.here().map(Arc::clone) {
            let labels = self.labels.here().map(Arc::clone);
            self.requests.push(Request(Asked::Page(read, labels, place)));
        }
    }

    fn request_rows(&mut self, listed: Listed) {
        if let Some(read) = self.read.here().map(Arc::clone) {
            self.requests.push(Request(Asked::Rows(read, listed)));
        }
    }

    fn open_tensor(&mut self) {
        let Some(task) = &self.task else { return };
        let Some(arg) = task.args.get(task.cursor.at) else {
            self.message = Some("nothing was captured of this task's arguments".into());
            return;
        };
        let Some(mut room) = TensorRoom::new(arg.title.clone(), arg.before, arg.after) else {
            self.message = Some("nothing was captured of this argument".into());
            return;
        };
        room.golden =
            self.golden_of(task.place, arg.after.or(arg.before).map_or(0, |record| record.arg_index));
        (self.tensor, self.room) = (Some(room), Room::Tensor);
    }

    /// The golden's record of an argument, what a task left before what it was given.
    fn golden_of(&self, place: usize, arg_index: u16) -> Option<(DumpStage, tensortap::format::Record)> {
        let (labels, place) = self.labelled(place)?;
        let partner = (*labels.blame.matching.partner.get(place)?)?;
        let arg = labels.blame.golden.as_ref()?.task(partner).argument(arg_index)?;
        let record = |stage| {
            let captured = arg.captured(stage)?;
            Some((stage, labels.golden()?.record(captured.record).ok()?))
        };
        record(DumpStage::AfterCompletion).or_else(|| record(DumpStage::BeforeDispatch))
    }

    fn look_around(&mut self, place: Option<usize>) {
        let (Some(read), Some(place)) = (self.read.here(), place) else { return };
        let (producers, consumers) = read.index.around(&read.graph, place);
        let on_right = producers.is_empty();
        let (cursor, way) = Default::default();
        self.near = Some(Near { place, producers, consumers, on_right, cursor, way });
        self.room = Room::Graph;
    }

    /// Lists these tasks, as soon as they are found.
    fn list(&mut self, listed: Listed) {
        if self.graph().is_none() {
            return;
        }
        self.looks_for = Some(listed.clone());
        if let Some(asked) = self.asked_rows.ask(listed) {
            self.request_rows(asked);
        }
    }

    /// Lists the tasks with a record that is selected.
    fn select(&mut self, typed: &str) {
        let sort = self.listed.sort;
        self.list(Listed { filter: typed.trim().to_owned(), sort });
    }
}
