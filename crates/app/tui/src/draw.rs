//! Drawing of the tabs. Only visible rows are formatted.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect, Size};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};
use tensortap::analysis::graph::TaskGraph;
use tensortap_query::blame_words::label_counts;
use tensortap_query::number::{counted, grouped, significant, time};
use tensortap_query::words::{kernels_text, printable, run_title, step_task, task_words};
use tensortap_query::wrap::shorten;
use tensortap_query::{Neighbor, Times};

use crate::app::{App, LoadState, Tab};
use crate::request::TaskFilter;
use crate::tensor_tab::{NUMBER_MARGIN, NUMBER_WIDTH, Picture};

/// Smallest window that is drawn.
const LEAST: (u16, u16) = (30, 6);

/// Lines around the picture of a tensor: tabs, name and facts above it, message and keys below.
const AROUND_PICTURE: u16 = 5;

/// Lines and columns available for the picture of a tensor.
pub(crate) fn picture_size(window: Size) -> (usize, usize) {
    (window.height.saturating_sub(AROUND_PICTURE).into(), window.width.into())
}

const HELP: &str = "\
1 2 3 4 5, Tab   tabs: tasks, task, tensor, diff, graph
Esc              back; in tasks, clear the filter
q, Ctrl-C        quit
/                selectors: softmax, func:mul*, scope:'layer 1', nan
Up Down PgUp PgDn Home End, or j k, or the wheel: move
Enter, or a click on the selected row: open
tasks            s sorts by order, start, time, kernel; g shows the graph
task             Left Right: previous, next task; Enter: a tensor
tensor           arrows move, m numbers or heat map, t before, after or
                 minus the golden, [ ] previous, next slice
diff             tasks by label; --golden names what to compare with
graph            Left: producers, Right: consumers; Enter goes there,
                 Backspace goes back, t shows the task
any key closes this";

impl App {
    /// Draws the current tab and remembers the areas for mouse clicks.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let all = frame.area();
        if all.width < LEAST.0 || all.height < LEAST.1 {
            frame.render_widget(Paragraph::new("window too small"), all);
            return;
        }
        let [top, body, status, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(1),
            Constraint::Length(1),
        ])
        .areas(all);
        self.draw_tabs(frame, top);
        match self.tab {
            Tab::Tasks => self.draw_tasks(frame, body),
            Tab::Task => self.draw_task(frame, body),
            Tab::Tensor => self.draw_tensor(frame, body),
            Tab::Diff => self.draw_diff(frame, body),
            Tab::Graph => self.draw_graph(frame, body),
        }
        let line = match (&self.typing, &self.message) {
            (Some(typed), _) => Line::from(format!("/{}_", printable(typed))).style(self.theme.title()),
            (None, Some(message)) => Line::from(printable(message).into_owned()).style(self.theme.title()),
            (None, None) => Line::from(self.status_line()).style(self.theme.quiet()),
        };
        frame.render_widget(Paragraph::new(line), status);
        frame.render_widget(Paragraph::new(Line::from(self.keys()).style(self.theme.chosen())), keys);
        if self.helps {
            self.draw_help(frame, body);
        }
    }

    fn draw_tabs(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let mut x = area.x;
        self.areas.tabs.clear();
        for (number, tab) in (1..).zip(Tab::ALL) {
            let text = format!(" {number} {} ", tab.name());
            let width = u16::try_from(text.len()).unwrap_or(u16::MAX).min(area.right().saturating_sub(x));
            let area = Rect::new(x, area.y, width, 1);
            let style = if tab == self.tab { self.theme.chosen() } else { Style::new() };
            frame.render_widget(Paragraph::new(Line::from(text).style(style)), area);
            self.areas.tabs.push((area, tab));
            x += width;
        }
        let rest = Rect::new(x, area.y, area.right().saturating_sub(x), 1);
        let name = shorten(&run_title(&self.input.dump), usize::from(rest.width).saturating_sub(1));
        frame.render_widget(Paragraph::new(Line::from(name).right_aligned().style(self.theme.quiet())), rest);
    }

    /// The status line when there is no message.
    fn status_line(&self) -> String {
        match (self.tab, &self.read) {
            (_, LoadState::Waiting | LoadState::NotRequested) => {
                format!("reading {}…", counted(self.input.dump.len(), "record"))
            }
            (_, LoadState::Failed(why)) => printable(why).into_owned(),
            (Tab::Tasks, LoadState::Ready(_)) if self.loading_rows.is_some() => "searching tasks…".into(),
            (Tab::Tasks, LoadState::Ready(read)) => {
                let (of, TaskFilter { filter, sort }) =
                    (counted(read.graph.len() as u64, "task"), &self.listed);
                let shown = match filter.is_empty() {
                    true => of,
                    false => format!("{} of {of}: {}", grouped(self.rows.len() as u64), printable(filter)),
                };
                format!("{shown}, by {}", sort.name())
            }
            (Tab::Diff, _) => self.label_counts(),
            _ => String::new(),
        }
    }

    fn label_counts(&self) -> String {
        let LoadState::Ready(labels) = &self.labels else { return String::new() };
        let of = format!("compared {} of {}", grouped(labels.blame.compared), grouped(labels.blame.of));
        format!("{}; {of}", label_counts(&labels.blame))
    }

    fn keys(&self) -> String {
        let own = match self.tab {
            Tab::Tasks => "Enter task  / select  s sort  g graph",
            Tab::Task => "Enter tensor  ←→ next task  g graph",
            Tab::Tensor => "arrows move  m map  t before/after  [ ] slice",
            Tab::Diff => "Enter task  g graph",
            Tab::Graph => "←→ side  Enter go  Backspace back  t task",
        };
        let typing = "Enter select  Esc leave";
        let own = if self.typing.is_some() { typing } else { own };
        format!(" {own}  Esc back  ? help  q quit")
    }

    fn draw_help(&self, frame: &mut Frame<'_>, body: Rect) {
        let lines = u16::try_from(HELP.lines().count()).unwrap_or(u16::MAX);
        let width = body.width.min(76);
        let height = body.height.min(lines + 2);
        let x = body.x + (body.width - width) / 2;
        let area = Rect::new(x, body.y + (body.height - height) / 2, width, height);
        frame.render_widget(Clear, area);
        frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" keys ")), area);
    }

    fn draw_loading(&self, frame: &mut Frame<'_>, body: Rect) -> bool {
        let text = match &self.read {
            LoadState::Ready(_) => return false,
            LoadState::Failed(why) => printable(why).into_owned(),
            LoadState::Waiting | LoadState::NotRequested => "reading the dump…".into(),
        };
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), body);
        true
    }

    fn draw_tasks(&mut self, frame: &mut Frame<'_>, body: Rect) {
        if self.draw_loading(frame, body) {
            return;
        }
        let [head, list] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(body);
        self.areas.list = list;
        let title = task_columns("TASK", "TIME", "KERNEL", "NAME", "SCOPE");
        frame.render_widget(Paragraph::new(Line::from(title).style(self.theme.title())), head);
        let visible = self.tasks.visible(self.rows.len(), list.height.into());
        let Some(graph) = self.graph() else { return };
        let lines = visible.map(|row| {
            let style = if row == self.tasks.at { self.theme.chosen() } else { Style::new() };
            Line::from(task_row(graph, self.rows[row])).style(style)
        });
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), list);
    }

    fn draw_task(&mut self, frame: &mut Frame<'_>, body: Rect) {
        self.areas.list = body;
        let Some(task) = &mut self.task else {
            frame.render_widget(Paragraph::new(self.loading_text()), body);
            return;
        };
        task.wrap(body.width.into());
        task.show_chosen(body.height.into());
        let lines = task.lines();
        let visible = lines.iter().skip(task.scroll).take(body.height.into());
        let drawn = visible.map(|(arg, text)| {
            let is_title = arg.is_some() && text.starts_with("argument ");
            let style = match (*arg == Some(task.cursor.at), is_title) {
                (true, true) => self.theme.chosen(),
                (_, true) => self.theme.title(),
                _ => Style::new(),
            };
            Line::from((*text).to_owned()).style(style)
        });
        frame.render_widget(Paragraph::new(drawn.collect::<Vec<_>>()), body);
    }

    /// Text shown until a task or its tensor is loaded.
    fn loading_text(&self) -> String {
        match (self.opened, self.graph()) {
            (Some(place), Some(graph)) => format!("reading {}…", task_words(graph.task(place))),
            _ => "choose an argument in tab 2 and press Enter".into(),
        }
    }

    fn draw_tensor(&mut self, frame: &mut Frame<'_>, body: Rect) {
        let [head, facts, picture] =
            Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Min(0)]).areas(body);
        self.areas.list = picture;
        let Some(tensor) = &self.tensor else {
            frame.render_widget(Paragraph::new(self.loading_text()), body);
            return;
        };
        let title = format!("{}, {}", tensor.title, tensor.words());
        frame.render_widget(Paragraph::new(Line::from(title).style(self.theme.title())), head);
        let text = match tensor.drawn() {
            Some(Ok(picture)) => tensor_facts(picture, tensor.row.at, tensor.column.at),
            Some(Err(why)) => printable(why).into_owned(),
            None => "reading…".into(),
        };
        frame.render_widget(Paragraph::new(Line::from(text)), facts);
        if let Some(Ok(read)) = tensor.drawn() {
            let lines = if tensor.as_heat {
                heat_lines(self.theme, read, (tensor.row.at, tensor.column.at))
            } else {
                number_lines(
                    self.theme,
                    read,
                    (tensor.row.at, tensor.column.at),
                    (tensor.row.top, tensor.column.top),
                )
            };
            frame.render_widget(Paragraph::new(lines), picture);
        }
    }

    fn draw_diff(&mut self, frame: &mut Frame<'_>, body: Rect) {
        if self.draw_loading(frame, body) {
            return;
        }
        let text = match &self.labels {
            LoadState::Ready(_) => None,
            LoadState::NotRequested | LoadState::Waiting => Some("comparing…".into()),
            LoadState::Failed(why) => Some(format!(
                "{}\n\nto compare with a correct run, quit with q and add --golden DUMP",
                printable(why)
            )),
        };
        if let Some(text) = text {
            frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), body);
            return;
        }
        self.areas.list = body;
        let visible = self.diff.visible(self.diff_rows.len(), body.height.into());
        let Some(graph) = self.graph() else { return };
        let lines = visible.map(|row| {
            let place = self.diff_rows[row];
            let Some(finding) = self.finding(place) else { return Line::default() };
            let reason = finding.reason.as_deref().map(printable).unwrap_or_default();
            let said = format!(" {}  {reason}", short_words(graph, place));
            let style = if row == self.diff.at { self.theme.chosen() } else { Style::new() };
            let label =
                Span::styled(format!("{:<10}", finding.label.name()), self.theme.label(finding.label));
            Line::from(vec![label, Span::styled(said, style)])
        });
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), body);
    }

    fn draw_graph(&mut self, frame: &mut Frame<'_>, body: Rect) {
        if self.draw_loading(frame, body) {
            return;
        }
        let (LoadState::Ready(read), Some(near)) = (&self.read, &mut self.near) else {
            frame.render_widget(Paragraph::new("choose a task in tab 1 and press g"), body);
            return;
        };
        let graph = &read.graph;
        let [middle, sides] = Layout::vertical([Constraint::Length(2), Constraint::Min(0)]).areas(body);
        let task = graph.task(near.place);
        let title = format!("{} {}", step_task(task.step, task.task_id), task_words(task));
        let way = near.way.iter().rev().take(4).map(|&place| kernels_text(&graph.task(place).kernel_names()));
        let way: Vec<String> = way.collect();
        let way =
            if way.is_empty() { String::new() } else { format!("came from {}", way.join(", before that ")) };
        let head =
            vec![Line::from(title).style(self.theme.title()), Line::from(way).style(self.theme.quiet())];
        frame.render_widget(Paragraph::new(head), middle);
        let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(sides);
        let boxes = [("producer", left, false), ("consumer", right, true)];
        for (name, area, on_right) in boxes {
            let list = if on_right { &near.consumers } else { &near.producers };
            let is_chosen = on_right == near.on_right;
            let style = if is_chosen { self.theme.title() } else { Style::new() };
            let title = format!(" {} ", counted(list.len() as u64, name));
            let block = Block::bordered().title(title).border_style(style);
            let inside = block.inner(area);
            frame.render_widget(block, area);
            let mut cursor = if is_chosen { near.cursor } else { crate::list::Cursor::default() };
            let visible = cursor.visible(list.len(), inside.height.into());
            if is_chosen {
                near.cursor = cursor;
                self.areas.list = inside;
            }
            let lines = visible.map(|row| {
                let style = if is_chosen && row == cursor.at { self.theme.chosen() } else { Style::new() };
                Line::from(neighbor_row(graph, list[row])).style(style)
            });
            frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), inside);
        }
    }
}

fn task_row(graph: &TaskGraph, place: usize) -> String {
    let task = graph.task(place);
    let took = Times::since(None, task).took.map(time).unwrap_or_default();
    let id = step_task(task.step, task.task_id);
    let name = task.task_name().map(printable).unwrap_or_default();
    let scope = task.scope().map(printable).unwrap_or_default();
    task_columns(&id, &took, &kernels_text(&task.kernel_names()), &name, &scope)
}

/// A row of the task list. Text that is too long for its column is cut, except in the last column.
fn task_columns(id: &str, took: &str, kernels: &str, name: &str, scope: &str) -> String {
    let (kernels, name) = (shorten(kernels, 16), shorten(name, 15));
    format!("{id:<13} {took:>8} {kernels:<16} {name:<15} {scope}")
}

/// A task in one line. The scope comes last because the line may be cut.
fn short_words(graph: &TaskGraph, place: usize) -> String {
    let task = graph.task(place);
    let kernels = kernels_text(&task.kernel_names());
    let name = task.task_name().map_or(String::new(), |name| format!("{}: ", printable(name)));
    let scope = task.scope().map_or(String::new(), |scope| format!(", {}", printable(scope)));
    format!("{} {name}{kernels}{scope}", step_task(task.step, task.task_id))
}

fn neighbor_row(graph: &TaskGraph, neighbor: Neighbor) -> String {
    let waits = if neighbor.carries { "" } else { "(order only) " };
    format!("{waits}{}", short_words(graph, neighbor.place))
}

fn tensor_facts(picture: &Picture, row: usize, column: usize) -> String {
    let tile = &picture.tile;
    let range = match (tile.min, tile.max) {
        (Some(min), Some(max)) => format!("{} to {}", significant(min, 4), significant(max, 4)),
        _ => "no finite value".into(),
    };
    let mut text = format!("[{}]  visible: {range}", tile.slice);
    for (count, what) in [(tile.nan, "NaN"), (tile.inf, "Inf"), (tile.missing, "not stored")] {
        if count > 0 {
            text += &format!(", {} {what}", grouped(count));
        }
    }
    format!("({row}, {column}) = {}   {text}", picture.value)
}

fn number_lines(
    theme: crate::Theme,
    picture: &Picture,
    at: (usize, usize),
    top: (usize, usize),
) -> Vec<Line<'static>> {
    let tile = &picture.tile;
    let columns = tile.columns.cells;
    let mut head = format!("{:<NUMBER_MARGIN$}", "");
    for column in 0..columns {
        head += &format!("{:>NUMBER_WIDTH$}", top.1 + column);
    }
    let mut lines = vec![Line::from(head).style(theme.quiet())];
    let Some(texts) = &tile.cells.text else { return lines };
    for (row, cells) in texts.chunks(columns.max(1)).enumerate() {
        let mut spans = vec![Span::styled(format!("{:<NUMBER_MARGIN$}", top.0 + row), theme.quiet())];
        for (column, text) in cells.iter().enumerate() {
            let chosen = (top.0 + row, top.1 + column) == at;
            let style = if chosen { theme.chosen() } else { Style::new() };
            let text: String = text.chars().take(NUMBER_WIDTH - 1).collect();
            spans.push(Span::raw(" "));
            spans.push(Span::styled(format!("{text:>width$}", width = NUMBER_WIDTH - 1), style));
        }
        lines.push(Line::from(spans));
    }
    lines
}

fn heat_lines(theme: crate::Theme, picture: &Picture, at: (usize, usize)) -> Vec<Line<'static>> {
    let tile = &picture.tile;
    let most = tile.min.unwrap_or(0.0).abs().max(tile.max.unwrap_or(0.0).abs());
    let cell_of =
        |place: usize, per_cell: u64| place / usize::try_from(per_cell.max(1)).unwrap_or(usize::MAX);
    let chosen = (cell_of(at.0, tile.rows.per_cell), cell_of(at.1, tile.columns.per_cell));
    let columns = tile.columns.cells.max(1);
    let some =
        |counts: &Option<Vec<u64>>, cell: usize| counts.as_ref().is_some_and(|counts| counts[cell] > 0);
    let line = |(row, means): (usize, &[f64])| {
        let cells = means.iter().enumerate().map(|(column, mean)| {
            let cell = row * columns + column;
            let (sign, style) = match mean {
                _ if some(&tile.cells.nan, cell) => ('?', theme.title()),
                _ if some(&tile.cells.inf, cell) => ('!', theme.title()),
                mean if mean.is_finite() && most > 0.0 => theme.heat(mean / most),
                _ => (' ', Style::new()),
            };
            let style = if (row, column) == chosen { style.add_modifier(Modifier::REVERSED) } else { style };
            Span::styled(sign.to_string(), style)
        });
        Line::from(cells.collect::<Vec<_>>())
    };
    tile.cells.mean.chunks(columns).enumerate().map(line).collect()
}
