//! What there is to see and to do, without a terminal.

use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::{Position, Rect};
use tensortap::DumpStage;
use tensortap::analysis::blame::Blame;
use tensortap::analysis::graph::TaskGraph;
use tensortap::analysis::labels::Finding;
use tensortap::format::Dump;
use tensortap_query::Labelling;
use tensortap_query::blame::wrong_first;
use tensortap_query::blame_words::label_words;
use tensortap_query::words::task_words;
use tensortap_query::{Neighbour, Selectors, around};

use crate::list::Cursor;
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
    /// What [`Request::Graph`] asked for.
    Graph(Result<Box<TaskGraph>, String>),
    /// What [`Request::Labels`] asked for.
    Labels(Result<Box<Labels>, String>),
}

/// What takes time and is done elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The tasks of the dump.
    Graph,
    /// Their labels.
    Labels,
}

/// Labels of every task, and what they rest on.
pub struct Labels {
    /// The labels.
    pub blame: Blame,
    /// What the dump was held against.
    pub labelling: Labelling,
}

impl Labels {
    /// Labels the tasks of a dump.
    ///
    /// # Errors
    /// In words: there is nothing to hold them against, or a file cannot be read.
    pub fn of(looked: &Looked) -> Result<Labels, String> {
        let labelling = Labelling::open(&looked.registry, &looked.dump, looked.golden.as_deref());
        let labelling = labelling.map_err(|error| error.to_string())?;
        let blame = labelling.blame(&looked.dump, &[]).map_err(|error| error.to_string())?;
        Ok(Labels { blame, labelling })
    }

    pub(crate) fn golden(&self) -> Option<&Dump> {
        self.labelling.golden().and_then(tensortap_query::golden::Golden::dump)
    }
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
    pub(crate) graph: Awaited<TaskGraph>,
    pub(crate) labels: Awaited<Box<Labels>>,
    /// Places of the tasks that are listed.
    pub(crate) rows: Vec<usize>,
    pub(crate) sort: Sort,
    pub(crate) filter: String,
    /// A filter that is being typed.
    pub(crate) typing: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) tasks: Cursor,
    pub(crate) task: Option<TaskRoom>,
    pub(crate) tensor: Option<TensorRoom>,
    /// Places of tasks, those first that are wrong.
    pub(crate) diff_rows: Vec<usize>,
    pub(crate) diff: Cursor,
    pub(crate) near: Option<Near>,
    pub(crate) helps: bool,
    pub(crate) areas: Areas,
    requests: Vec<Request>,
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
            graph: Awaited::Asked,
            labels: Awaited::NotAsked,
            rows: Vec::new(),
            sort: Sort::Order,
            filter: String::new(),
            typing: None,
            message: None,
            tasks: Cursor::default(),
            task: None,
            tensor: None,
            diff_rows: Vec::new(),
            diff: Cursor::default(),
            near: None,
            helps: false,
            areas: Areas::default(),
            requests: vec![Request::Graph],
            quits: false,
        }
    }

    /// What is to be done meanwhile; each is given out once.
    pub fn take_requests(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
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
            Event::Graph(Ok(graph)) => {
                self.rows = (0..graph.len()).collect();
                self.graph = Awaited::Here(*graph);
            }
            Event::Graph(Err(why)) => self.graph = Awaited::Failed(why),
            Event::Labels(Ok(labels)) => self.take_labels(labels),
            Event::Labels(Err(why)) => self.labels = Awaited::Failed(why),
        }
    }

    fn take_labels(&mut self, labels: Box<Labels>) {
        let Some(graph) = self.graph.here() else { return };
        let mut places: Vec<usize> = (0..labels.blame.findings.len()).collect();
        wrong_first(&labels.blame, &mut places);
        let own = |place: usize| graph.position(labels.blame.graph.task(place).key());
        self.diff_rows = places.into_iter().filter_map(own).collect();
        self.labels = Awaited::Here(labels);
    }

    /// Where a task stands among those that have labels.
    fn labelled(&self, place: usize) -> Option<(&Labels, usize)> {
        let labels = self.labels.here()?;
        let key = self.graph.here()?.task(place).key();
        Some((labels, labels.blame.graph.position(key)?))
    }

    /// The label of a task, once there are labels.
    pub(crate) fn finding(&self, place: usize) -> Option<&Finding> {
        self.labelled(place).and_then(|(labels, place)| labels.blame.findings.get(place))
    }

    fn key(&mut self, key: KeyEvent) {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && matches!(key.code, KeyCode::Char('c')) {
            self.quits = true;
        } else if self.typing.is_some() {
            self.type_key(key.code);
        } else if self.helps {
            self.helps = false;
        } else {
            self.message = None;
            self.command(key.code);
        }
    }

    fn type_key(&mut self, key: KeyCode) {
        let Some(typed) = &mut self.typing else { return };
        match key {
            KeyCode::Enter => {
                let typed = self.typing.take().unwrap_or_default();
                self.select(&typed);
            }
            KeyCode::Esc => self.typing = None,
            KeyCode::Backspace => drop(typed.pop()),
            KeyCode::Char(c) => typed.push(c),
            _ => {}
        }
    }

    fn command(&mut self, key: KeyCode) {
        let page = usize::from(self.areas.list.height);
        match key {
            KeyCode::Char('q') => self.quits = true,
            KeyCode::Char('?') => self.helps = true,
            KeyCode::Esc => self.back(),
            KeyCode::Tab => self.enter(next_room(self.room, 1)),
            KeyCode::BackTab => self.enter(next_room(self.room, Room::ALL.len() - 1)),
            KeyCode::Char(digit @ '1'..='5') => {
                self.enter(Room::ALL[digit.to_digit(10).unwrap_or(1) as usize - 1]);
            }
            KeyCode::Char('/') => {
                self.enter(Room::Tasks);
                self.typing = Some(self.filter.clone());
            }
            key => match self.room {
                Room::Tasks => self.key_in_tasks(key, page),
                Room::Task => self.key_in_task(key, page),
                Room::Tensor => {
                    if let Some(tensor) = &mut self.tensor {
                        tensor.key(key, page);
                    }
                }
                Room::Diff => self.key_in_diff(key, page),
                Room::Graph => self.key_in_graph(key, page),
            },
        }
    }

    fn back(&mut self) {
        match self.room {
            Room::Tasks if !self.filter.is_empty() => self.select(""),
            Room::Tasks => {}
            Room::Tensor => self.room = Room::Task,
            _ => self.room = Room::Tasks,
        }
    }

    fn enter(&mut self, room: Room) {
        match room {
            Room::Task if self.task.is_none() => self.open_task(self.chosen_place()),
            Room::Tensor if self.tensor.is_none() => {
                if self.task.is_none() {
                    self.open_task(self.chosen_place());
                }
                self.open_tensor();
            }
            Room::Graph => {
                self.look_around(self.task.as_ref().map(|task| task.place).or(self.chosen_place()))
            }
            Room::Diff => {
                if matches!(self.labels, Awaited::NotAsked) {
                    self.labels = Awaited::Asked;
                    self.requests.push(Request::Labels);
                }
                self.room = Room::Diff;
            }
            room => self.room = room,
        }
    }

    /// The task that is chosen in the room that is seen.
    fn chosen_place(&self) -> Option<usize> {
        match self.room {
            Room::Diff => self.diff_rows.get(self.diff.at).copied(),
            Room::Graph => self.near.as_ref().map(|near| near.place),
            _ => self.rows.get(self.tasks.at).copied(),
        }
    }

    fn key_in_tasks(&mut self, key: KeyCode, page: usize) {
        match key {
            KeyCode::Enter => self.open_task(self.chosen_place()),
            KeyCode::Char('g') => self.look_around(self.chosen_place()),
            KeyCode::Char('s') => {
                let at = Sort::ALL.iter().position(|sort| *sort == self.sort).unwrap_or(0);
                self.sort = Sort::ALL[(at + 1) % Sort::ALL.len()];
                self.sort_rows();
            }
            key => drop(self.tasks.key(key, self.rows.len(), page)),
        }
    }

    fn key_in_task(&mut self, key: KeyCode, page: usize) {
        let place = self.task.as_ref().map(|task| task.place);
        match key {
            KeyCode::Enter => self.open_tensor(),
            KeyCode::Char('g') => self.look_around(place),
            KeyCode::Left | KeyCode::Right => {
                let Some(at) = self.rows.iter().position(|row| Some(*row) == place) else { return };
                let next = if key == KeyCode::Left { at.checked_sub(1) } else { at.checked_add(1) };
                if let Some(&place) = next.and_then(|next| self.rows.get(next)) {
                    self.tasks.at = next.unwrap_or(at);
                    self.open_task(Some(place));
                }
            }
            key => {
                if let Some(task) = &mut self.task {
                    task.cursor.key(key, task.args.len(), page);
                }
            }
        }
    }

    fn key_in_diff(&mut self, key: KeyCode, page: usize) {
        match key {
            KeyCode::Enter => self.open_task(self.chosen_place()),
            KeyCode::Char('g') => self.look_around(self.chosen_place()),
            key => drop(self.diff.key(key, self.diff_rows.len(), page)),
        }
    }

    fn key_in_graph(&mut self, key: KeyCode, page: usize) {
        let Some(near) = &mut self.near else { return };
        match key {
            KeyCode::Left | KeyCode::Right => {
                let on_right = key == KeyCode::Right;
                if on_right != near.on_right {
                    (near.on_right, near.cursor) = (on_right, Cursor::default());
                }
            }
            KeyCode::Enter => {
                let Some(to) = near.chosen().get(near.cursor.at).map(|neighbour| neighbour.place) else {
                    return;
                };
                let (on_right, mut way) = (near.on_right, std::mem::take(&mut near.way));
                way.push(near.place);
                self.look_around(Some(to));
                if let Some(near) = &mut self.near {
                    (near.on_right, near.way) = (on_right, way);
                }
            }
            KeyCode::Backspace => {
                let mut way = std::mem::take(&mut near.way);
                if let Some(before) = way.pop() {
                    self.look_around(Some(before));
                    self.near.iter_mut().for_each(|near| near.way = std::mem::take(&mut way));
                }
            }
            KeyCode::Char('t') => {
                let place = near.place;
                self.open_task(Some(place));
            }
            key => {
                let len = near.chosen().len();
                near.cursor.key(key, len, page);
            }
        }
    }

    fn mouse(&mut self, mouse: MouseEvent) {
        let at = Position::new(mouse.column, mouse.row);
        match mouse.kind {
            MouseEventKind::ScrollUp => (0..3).for_each(|_| self.command(KeyCode::Up)),
            MouseEventKind::ScrollDown => (0..3).for_each(|_| self.command(KeyCode::Down)),
            MouseEventKind::Down(MouseButton::Left) if self.typing.is_none() => {
                self.helps = false;
                let tab = self.areas.tabs.iter().find(|(area, _)| area.contains(at)).map(|(_, room)| *room);
                if let Some(room) = tab {
                    self.enter(room);
                } else if self.areas.list.contains(at) {
                    self.click(usize::from(at.y - self.areas.list.y));
                }
            }
            _ => {}
        }
    }

    /// Chooses a row that is seen; one that is chosen already is opened.
    fn click(&mut self, row: usize) {
        let (cursor, len) = match self.room {
            Room::Tasks => (&mut self.tasks, self.rows.len()),
            Room::Diff => (&mut self.diff, self.diff_rows.len()),
            Room::Graph => match &mut self.near {
                Some(near) => {
                    let len = near.chosen().len();
                    (&mut near.cursor, len)
                }
                None => return,
            },
            Room::Task => {
                let Some(task) = &mut self.task else { return };
                let arg = task.lines().get(task.scroll + row).and_then(|(arg, _)| *arg);
                match arg {
                    Some(arg) if arg == task.cursor.at => self.open_tensor(),
                    Some(arg) => task.cursor.at = arg,
                    None => {}
                }
                return;
            }
            Room::Tensor => return,
        };
        let clicked = cursor.top + row;
        if clicked == cursor.at {
            self.command(KeyCode::Enter);
        } else if clicked < len {
            cursor.at = clicked;
        }
    }

    fn open_task(&mut self, place: Option<usize>) {
        let (Some(graph), Some(place)) = (self.graph.here(), place) else { return };
        let label = self.labelled(place).map(|(labels, place)| label_words(&labels.blame, place));
        match TaskRoom::open(&self.looked.dump, graph, place, label.as_deref()) {
            Ok(room) => {
                (self.task, self.tensor, self.room) = (Some(room), None, Room::Task);
            }
            Err(error) => self.message = Some(error.to_string()),
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
        let (Some(graph), Some(place)) = (self.graph.here(), place) else { return };
        let (producers, consumers) = around(graph, place);
        let on_right = producers.is_empty();
        let (cursor, way) = Default::default();
        self.near = Some(Near { place, producers, consumers, on_right, cursor, way });
        self.room = Room::Graph;
    }

    /// Lists the tasks with a record that is selected.
    fn select(&mut self, typed: &str) {
        let Some(graph) = self.graph.here() else { return };
        let chosen = self.chosen_place();
        if typed.trim().is_empty() {
            self.rows = (0..graph.len()).collect();
        } else {
            match selected(&self.looked.dump, graph, typed) {
                Ok(rows) => self.rows = rows,
                Err(why) => {
                    self.message = Some(why);
                    return;
                }
            }
        }
        self.filter = typed.trim().to_owned();
        self.sort_rows();
        self.tasks = Cursor::default();
        self.tasks.at = self.rows.iter().position(|row| Some(*row) == chosen).unwrap_or(0);
    }

    fn sort_rows(&mut self) {
        let Some(graph) = self.graph.here() else { return };
        let took = |place: usize| {
            let task = graph.task(place);
            task.end_time().zip(task.start_time()).map_or(0, |(end, start)| end.saturating_sub(start))
        };
        match self.sort {
            Sort::Order => self.rows.sort_unstable(),
            Sort::Start => self.rows.sort_by_key(|&place| (graph.task(place).start_time(), place)),
            Sort::Time => self.rows.sort_by_key(|&place| (std::cmp::Reverse(took(place)), place)),
            Sort::Kernel => self.rows.sort_by_cached_key(|&place| (task_words(graph.task(place)), place)),
        }
    }
}

fn next_room(room: Room, by: usize) -> Room {
    let at = Room::ALL.iter().position(|other| *other == room).unwrap_or(0);
    Room::ALL[(at + by) % Room::ALL.len()]
}

fn selected(dump: &Dump, graph: &TaskGraph, typed: &str) -> Result<Vec<usize>, String> {
    let selectors: Selectors =
        typed.parse().map_err(|error: tensortap_query::SelectorError| error.to_string())?;
    let selection = selectors.selection(dump, &|_, _| {}).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for record in selection.records(dump) {
        let record = record.map_err(|error| error.to_string())?;
        rows.extend(graph.position(record.task_key()));
    }
    rows.sort_unstable();
    rows.dedup();
    if rows.is_empty() {
        Err(selection.why_empty(dump).unwrap_or_else(|error| error.to_string()))
    } else {
        Ok(rows)
    }
}
