//! Every room, drawn without a terminal: what is seen is what the dump says, whatever is pressed, clicked or resized.

use std::path::Path;
use std::sync::Arc;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::style::{Color, Modifier};
use tensortap::format::Dump;
use tensortap::{DeviceMode, DumpConfig, DumpLevel, RunConfig};
use tensortap_tui::{App, Event, Look, Looked, Room};

/// A viewer with a window of its own.
struct Seen {
    app: App,
    looked: Looked,
    terminal: Terminal<TestBackend>,
    _folder: Arc<tempfile::TempDir>,
}

fn dumped(dir: &Path) {
    let mut config = RunConfig::new("vector_example");
    config.device_mode = DeviceMode::Thread;
    config.dump = Some(DumpConfig::new(DumpLevel::Full));
    config.out = Some(dir.to_owned());
    tensortap::run(&config).expect("a run");
}

impl Seen {
    fn new(colours: bool) -> Seen {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let (dir, golden) = (folder.path().join("d"), folder.path().join("g"));
        dumped(&dir);
        dumped(&golden);
        let dump = Arc::new(Dump::open(&dir).expect("a dump"));
        let looked = Looked { dump, golden: Some(golden), registry: tensortap::builtin() };
        let app = App::new(looked.clone(), Look { colours });
        let terminal = Terminal::new(TestBackend::new(80, 24)).expect("a window");
        Seen { app, looked, terminal, _folder: folder }
    }

    /// Does what is asked for, as the loop would, and draws.
    fn screen(&mut self) -> String {
        let window = self.terminal.size().expect("a size");
        self.app.prepare(window);
        while let Some(request) = self.app.take_request() {
            self.app.update(request.answer(&self.looked));
            self.app.prepare(window);
        }
        self.drawn()
    }

    /// What is seen as things are.
    fn drawn(&mut self) -> String {
        self.terminal.draw(|frame| self.app.draw(frame)).expect("drawn");
        let buffer = self.terminal.backend().buffer();
        let rows = buffer.content.chunks(buffer.area.width.into());
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned() + "\n")
            .collect()
    }

    fn press(&mut self, keys: impl IntoIterator<Item = KeyCode>) -> String {
        for key in keys {
            self.app.update(Event::Key(KeyEvent::new(key, KeyModifiers::NONE)));
            self.screen();
        }
        self.screen()
    }

    fn words(&mut self, text: &str) -> String {
        self.press(text.chars().map(KeyCode::Char))
    }

    fn mouse(&mut self, kind: MouseEventKind, column: u16, row: u16) -> String {
        self.app.update(Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
        self.screen()
    }

    fn click(&mut self, column: u16, row: u16) -> String {
        self.mouse(MouseEventKind::Down(MouseButton::Left), column, row)
    }
}

#[test]
fn tasks_are_listed_selected_and_sorted() {
    let mut seen = Seen::new(false);
    let waiting = {
        seen.terminal.draw(|frame| seen.app.draw(frame)).unwrap();
        seen.terminal.backend().to_string()
    };
    assert!(waiting.contains("reading the dump"), "{waiting}");
    let all = seen.screen();
    assert!(
        all.contains("5 tasks, by dependency order") && all.contains(" t0") && all.contains(" t4"),
        "{all}"
    );
    assert!(all.contains("? help") && all.contains("q quit"), "keys stand at the bottom: {all}");
    seen.words("/func:mul");
    let typed = seen.screen();
    assert!(typed.contains("/func:mul_"), "{typed}");
    let one = seen.press([KeyCode::Enter]);
    assert!(one.contains("1 of 5 tasks: func:mul") && one.contains(" t3") && !one.contains(" t0"), "{one}");
    seen.words("/--frobnicate");
    let refused = seen.press([KeyCode::Enter]);
    assert!(refused.contains("frobnicate") && refused.contains(" t3"), "the rows stay: {refused}");
    let back = seen.press([KeyCode::Esc]);
    assert!(back.contains("5 tasks"), "{back}");
    assert!(seen.words("s").contains("by start") && seen.words("s").contains("longest first"));
}

#[test]
fn a_task_its_tensors_and_its_neighbours_are_what_the_dump_says() {
    let mut seen = Seen::new(false);
    seen.screen();
    seen.words("/t3");
    seen.press([KeyCode::Enter]);
    let task = seen.press([KeyCode::Enter]);
    assert_eq!(seen.app.room(), Room::Task);
    assert!(task.contains(": mul") && task.contains("given by") && task.contains("argument 0"), "{task}");
    // What it multiplies: the first element of each argument, read from the payload file.
    let first = |stage: tensortap::DumpStage, arg: u16| {
        let dump = &seen.looked.dump;
        let is_it = |r: &tensortap::format::Record| {
            r.arg_index == arg
                && r.stage == stage
                && dump.info().kernel_name(r.func_ids().next().unwrap()) == "mul"
        };
        let record = dump.records().map(|r| r.unwrap()).find(is_it).unwrap();
        f32::from_le_bytes(dump.payload(&record).unwrap()[..4].try_into().unwrap())
    };
    let expected = first(tensortap::DumpStage::BeforeDispatch, 0);
    let tensor = seen.press([KeyCode::Enter]);
    assert!(tensor.contains(&format!("(0, 0) = {expected}")), "{expected}: {tensor}");
    let moved = seen.press([KeyCode::Right, KeyCode::Right]);
    assert!(moved.contains("(0, 2) = "), "{moved}");
    let map = seen.words("m");
    assert!(map.contains(['░', '▒', '▓', '█']), "{map}");
    let near = seen.words("5");
    assert!(near.contains("given by 2 tasks") && near.contains("taken by 1 task"), "{near}");
    let walked = seen.press([KeyCode::Right, KeyCode::Enter]);
    assert!(walked.contains("came from mul") && walked.contains("t4"), "{walked}");
    let back = seen.press([KeyCode::Backspace]);
    assert!(back.contains("taken by 1 task") && !back.contains("came from"), "{back}");
}

#[test]
fn labels_are_asked_for_once_and_a_difference_is_seen() {
    let mut seen = Seen::new(true);
    seen.screen();
    let labels = seen.words("4");
    assert!(labels.contains("ok 5; compared 18 of 18"), "{labels}");
    let cell = seen.terminal.backend().buffer().cell((0, 1)).unwrap().clone();
    assert!(matches!(cell.bg, Color::Rgb(..)) && labels.contains("ok"), "a colour and its word");
    assert!(seen.app.take_request().is_none());
    seen.press([KeyCode::Enter, KeyCode::Enter]);
    let difference = seen.words("t");
    let difference = if difference.contains("dump less golden") { difference } else { seen.words("t") };
    assert!(difference.contains("dump less golden") && difference.contains("seen: 0 to 0"), "{difference}");
}

#[test]
fn the_mouse_chooses_opens_and_scrolls_and_any_window_will_do() {
    let mut seen = Seen::new(false);
    seen.screen();
    seen.click(5, 4);
    let row: String =
        (0..80).map(|x| seen.terminal.backend().buffer().cell((x, 4)).unwrap().symbol().to_owned()).collect();
    let chosen = seen.terminal.backend().buffer().cell((0, 4)).unwrap().modifier;
    assert!(chosen.contains(Modifier::REVERSED), "{row}");
    seen.click(5, 4);
    assert_eq!(seen.app.room(), Room::Task, "a click on what is chosen opens it");
    seen.click(2, 0);
    assert_eq!(seen.app.room(), Room::Tasks, "names of rooms can be clicked");
    seen.mouse(MouseEventKind::ScrollDown, 5, 5);
    for (width, height) in [(1, 1), (29, 5), (30, 6), (200, 60), (80, 24)] {
        seen.terminal.backend_mut().resize(width, height);
        seen.terminal.resize(ratatui::layout::Rect::new(0, 0, width, height)).unwrap();
        for room in ["1", "2", "3", "4", "5", "?"] {
            seen.words(room);
        }
        seen.press([KeyCode::Esc]);
    }
    assert!(!seen.app.is_over());
    seen.words("q");
    assert!(seen.app.is_over());
}

#[test]
fn keys_are_answered_while_a_task_and_a_tensor_are_read_and_what_is_no_longer_wanted_is_not_asked_for() {
    let mut seen = Seen::new(false);
    seen.screen();
    let key =
        |seen: &mut Seen, key: KeyCode| seen.app.update(Event::Key(KeyEvent::new(key, KeyModifiers::NONE)));
    key(&mut seen, KeyCode::Enter);
    assert!(seen.drawn().contains("reading t0: add…"), "{}", seen.drawn());
    let slow = seen.app.take_request().expect("the page of t0");
    key(&mut seen, KeyCode::Right);
    key(&mut seen, KeyCode::Right);
    assert!(seen.app.take_request().is_none(), "one is under way");
    assert!(seen.drawn().contains("reading inner / t"), "{}", seen.drawn());
    seen.app.update(slow.answer(&seen.looked));
    assert!(seen.drawn().contains("reading inner / t"), "not what is wanted now: {}", seen.drawn());
    let next = seen.app.take_request().expect("the newest");
    assert!(seen.app.take_request().is_none(), "what was passed by is not read");
    seen.app.update(next.answer(&seen.looked));
    assert!(seen.drawn().contains(": add_scalar\n"), "{}", seen.drawn());

    key(&mut seen, KeyCode::Enter);
    let window = seen.terminal.size().expect("a size");
    seen.app.prepare(window);
    let slow = seen.app.take_request().expect("a picture");
    assert!(seen.drawn().contains("reading…"), "{}", seen.drawn());
    for _ in 0..3 {
        key(&mut seen, KeyCode::Right);
        seen.app.prepare(window);
    }
    assert!(seen.app.take_request().is_none(), "one is under way");
    seen.app.update(slow.answer(&seen.looked));
    assert!(seen.drawn().contains("reading…"), "that of another place is not shown: {}", seen.drawn());
    let screen = seen.screen();
    assert!(screen.contains("(0, 3) = ") && !screen.contains("reading…"), "{screen}");
    // Leaving is possible meanwhile.
    key(&mut seen, KeyCode::Char('m'));
    seen.app.prepare(window);
    let _unanswered = seen.app.take_request().expect("a heat map");
    key(&mut seen, KeyCode::Char('q'));
    assert!(seen.app.is_over());
}
