//! Handling of keys and the mouse.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use super::{App, LoadState, Sort, Tab};
use crate::list::Cursor;
use crate::request::{Request, RequestKind, TaskFilter};

impl App {
    pub(super) fn key(&mut self, key: KeyEvent) {
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
            KeyCode::Tab => self.enter(next_tab(self.tab, 1)),
            KeyCode::BackTab => self.enter(next_tab(self.tab, Tab::ALL.len() - 1)),
            KeyCode::Char(digit @ '1'..='5') => {
                self.enter(Tab::ALL[digit.to_digit(10).unwrap_or(1) as usize - 1]);
            }
            KeyCode::Char('/') => {
                self.enter(Tab::Tasks);
                self.typing = Some(self.listed.filter.clone());
            }
            key => match self.tab {
                Tab::Tasks => self.key_in_tasks(key, page),
                Tab::Task => self.key_in_task(key, page),
                Tab::Tensor => {
                    if let Some(tensor) = &mut self.tensor {
                        tensor.key(key, page);
                    }
                }
                Tab::Diff => self.key_in_diff(key, page),
                Tab::Graph => self.key_in_graph(key, page),
            },
        }
    }

    fn back(&mut self) {
        match self.tab {
            Tab::Tasks if !self.listed.filter.is_empty() => self.select(""),
            Tab::Tasks => {}
            Tab::Tensor => self.tab = Tab::Task,
            _ => self.tab = Tab::Tasks,
        }
    }

    fn enter(&mut self, tab: Tab) {
        match tab {
            Tab::Task if self.opened.is_none() => self.open_task(self.chosen_place()),
            Tab::Tensor if self.tensor.is_none() => {
                if self.opened.is_none() {
                    self.open_task(self.chosen_place());
                }
                match self.task {
                    Some(_) => self.open_tensor(),
                    None => (self.opens_tensor, self.tab) = (true, Tab::Tensor),
                }
            }
            Tab::Graph => self.show_neighbors(self.opened.or(self.chosen_place())),
            Tab::Diff => {
                if matches!(self.labels, LoadState::NotRequested) {
                    self.labels = LoadState::Waiting;
                    self.requests.push(Request(RequestKind::Labels));
                }
                self.tab = Tab::Diff;
            }
            tab => self.tab = tab,
        }
    }

    /// Place of the selected task in the current tab.
    fn chosen_place(&self) -> Option<usize> {
        match self.tab {
            Tab::Diff => self.diff_rows.get(self.diff.at).copied(),
            Tab::Graph => self.near.as_ref().map(|near| near.place),
            _ => self.rows.get(self.tasks.at).copied(),
        }
    }

    fn key_in_tasks(&mut self, key: KeyCode, page: usize) {
        match key {
            KeyCode::Enter => self.open_task(self.chosen_place()),
            KeyCode::Char('g') => self.show_neighbors(self.chosen_place()),
            KeyCode::Char('s') => {
                let TaskFilter { filter, sort } =
                    self.loading_rows.clone().unwrap_or_else(|| self.listed.clone());
                let at = Sort::ALL.iter().position(|known| *known == sort).unwrap_or(0);
                self.list(TaskFilter { filter, sort: Sort::ALL[(at + 1) % Sort::ALL.len()] });
            }
            key => drop(self.tasks.key(key, self.rows.len(), page)),
        }
    }

    fn key_in_task(&mut self, key: KeyCode, page: usize) {
        let place = self.opened;
        match key {
            KeyCode::Enter => self.open_tensor(),
            KeyCode::Char('g') => self.show_neighbors(place),
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
            KeyCode::Char('g') => self.show_neighbors(self.chosen_place()),
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
                let Some(to) = near.chosen().get(near.cursor.at).map(|neighbor| neighbor.place) else {
                    return;
                };
                let (on_right, mut way) = (near.on_right, std::mem::take(&mut near.way));
                way.push(near.place);
                self.show_neighbors(Some(to));
                if let Some(near) = &mut self.near {
                    (near.on_right, near.way) = (on_right, way);
                }
            }
            KeyCode::Backspace => {
                let mut way = std::mem::take(&mut near.way);
                if let Some(before) = way.pop() {
                    self.show_neighbors(Some(before));
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

    pub(super) fn mouse(&mut self, mouse: MouseEvent) {
        let at = Position::new(mouse.column, mouse.row);
        match mouse.kind {
            MouseEventKind::ScrollUp => (0..3).for_each(|_| self.command(KeyCode::Up)),
            MouseEventKind::ScrollDown => (0..3).for_each(|_| self.command(KeyCode::Down)),
            MouseEventKind::Down(MouseButton::Left) if self.typing.is_none() => {
                self.helps = false;
                let clicked = self.areas.tabs.iter().find(|(area, _)| area.contains(at)).map(|(_, tab)| *tab);
                if let Some(tab) = clicked {
                    self.enter(tab);
                } else if self.areas.list.contains(at) {
                    self.click(usize::from(at.y - self.areas.list.y));
                }
            }
            _ => {}
        }
    }

    /// Selects the clicked row, or opens it if it is already selected.
    fn click(&mut self, row: usize) {
        let (cursor, len) = match self.tab {
            Tab::Tasks => (&mut self.tasks, self.rows.len()),
            Tab::Diff => (&mut self.diff, self.diff_rows.len()),
            Tab::Graph => match &mut self.near {
                Some(near) => {
                    let len = near.chosen().len();
                    (&mut near.cursor, len)
                }
                None => return,
            },
            Tab::Task => {
                let Some(task) = &mut self.task else { return };
                let arg = task.lines().get(task.scroll + row).and_then(|(arg, _)| *arg);
                match arg {
                    Some(arg) if arg == task.cursor.at => self.open_tensor(),
                    Some(arg) => task.cursor.at = arg,
                    None => {}
                }
                return;
            }
            Tab::Tensor => return,
        };
        let clicked = cursor.top + row;
        if clicked == cursor.at {
            self.command(KeyCode::Enter);
        } else if clicked < len {
            cursor.at = clicked;
        }
    }
}

fn next_tab(tab: Tab, by: usize) -> Tab {
    let at = Tab::ALL.iter().position(|other| *other == tab).unwrap_or(0);
    Tab::ALL[(at + by) % Tab::ALL.len()]
}
