//! Every tab, drawn without a terminal: the viewer shows what the dump contains, whatever is pressed, clicked
//! or resized.

use std::path::Path;
use std::sync::Arc;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::style::{Color, Modifier};
use tensortap::format::Dump;
use tensortap::{DeviceMode, DumpConfig, DumpLevel, RunConfig};
use tensortap_tui::{App, Event, Tab, Theme, ViewerInput};

/// A viewer with a test window.
struct TestViewer {
    app: App,
    input: ViewerInput,
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

impl TestViewer {
    fn new(colors: bool) -> TestViewer {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let (dir, golden) = (folder.path().join("d"), folder.path().join("g"));
        dumped(&dir);
        dumped(&golden);
        let dump = Arc::new(Dump::open(&dir).expect("a dump"));
        let input = ViewerInput { dump, golden: Some(golden), registry: tensortap::builtin() };
        let app = App::new(input.clone(), Theme { colors });
        let terminal = Terminal::new(TestBackend::new(80, 24)).expect("a window");
        TestViewer { app, input, terminal, _folder: folder }
    }

    /// Answers all requests, as the main loop would, and draws.
    fn screen(&mut self) -> String {
        let window = self.terminal.size().expect("a size");
        self.app.prepare(window);
        while let Some(request) = self.app.take_request() {
            self.app.update(request.answer(&self.input));
            self.app.prepare(window);
        }
        self.drawn()
    }

    /// The screen without answering requests first.
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
fn lists_selects_and_sorts_tasks() {
    let mut viewer = TestViewer::new(false);
    let waiting = {
        viewer.terminal.draw(|frame| viewer.app.draw(frame)).unwrap();
        viewer.terminal.backend().to_string()
    };
    assert!(waiting.contains("reading the dump"), "{waiting}");
    let all = viewer.screen();
    assert!(
        all.contains("5 tasks, by dependency order") && all.contains(" t0") && all.contains(" t4"),
        "{all}"
    );
    assert!(all.contains("? help") && all.contains("q quit"), "keys are at the bottom: {all}");
    viewer.words("/func:mul");
    let typed = viewer.screen();
    assert!(typed.contains("/func:mul_"), "{typed}");
    let one = viewer.press([KeyCode::Enter]);
    assert!(one.contains("1 of 5 tasks: func:mul") && one.contains(" t3") && !one.contains(" t0"), "{one}");
    viewer.words("/--frobnicate");
    let refused = viewer.press([KeyCode::Enter]);
    assert!(refused.contains("frobnicate") && refused.contains(" t3"), "the rows stay: {refused}");
    let back = viewer.press([KeyCode::Esc]);
    assert!(back.contains("5 tasks"), "{back}");
    assert!(viewer.words("s").contains("by start") && viewer.words("s").contains("longest first"));
}

#[test]
fn shows_a_task_its_tensors_and_its_neighbors() {
    let mut viewer = TestViewer::new(false);
    viewer.screen();
    viewer.words("/t3");
    viewer.press([KeyCode::Enter]);
    let task = viewer.press([KeyCode::Enter]);
    assert_eq!(viewer.app.tab(), Tab::Task);
    assert!(task.contains(": mul") && task.contains("producers") && task.contains("argument 0"), "{task}");
    // The kernel's input: its first element, read from the payload file.
    let first = |stage: tensortap::DumpStage, arg: u16| {
        let dump = &viewer.input.dump;
        let is_it = |r: &tensortap::format::Record| {
            r.arg_index == arg
                && r.stage == stage
                && dump.info().kernel_name(r.func_ids().next().unwrap()) == "mul"
        };
        let record = dump.records().map(|r| r.unwrap()).find(is_it).unwrap();
        f32::from_le_bytes(dump.payload(&record).unwrap()[..4].try_into().unwrap())
    };
    let expected = first(tensortap::DumpStage::BeforeDispatch, 0);
    let tensor = viewer.press([KeyCode::Enter]);
    assert!(tensor.contains(&format!("(0, 0) = {expected}")), "{expected}: {tensor}");
    let moved = viewer.press([KeyCode::Right, KeyCode::Right]);
    assert!(moved.contains("(0, 2) = "), "{moved}");
    let map = viewer.words("m");
    assert!(map.contains(['░', '▒', '▓', '█']), "{map}");
    let near = viewer.words("5");
    assert!(near.contains("2 producers") && near.contains("1 consumer"), "{near}");
    let walked = viewer.press([KeyCode::Right, KeyCode::Enter]);
    assert!(walked.contains("came from mul") && walked.contains("t4"), "{walked}");
    let back = viewer.press([KeyCode::Backspace]);
    assert!(back.contains("1 consumer") && !back.contains("came from"), "{back}");
}

#[test]
fn requests_labels_once_and_shows_a_difference() {
    let mut viewer = TestViewer::new(true);
    viewer.screen();
    let labels = viewer.words("4");
    assert!(labels.contains("5 ok; compared 18 of 18"), "{labels}");
    let cell = viewer.terminal.backend().buffer().cell((0, 1)).unwrap().clone();
    assert!(matches!(cell.bg, Color::Rgb(..)) && labels.contains("ok"), "a color and its word");
    assert!(viewer.app.take_request().is_none());
    viewer.press([KeyCode::Enter, KeyCode::Enter]);
    let difference = viewer.words("t");
    let difference = if difference.contains("dump minus golden") { difference } else { viewer.words("t") };
    assert!(
        difference.contains("dump minus golden") && difference.contains("visible: 0 to 0"),
        "{difference}"
    );
}

#[test]
fn handles_the_mouse_and_any_window_size() {
    let mut viewer = TestViewer::new(false);
    viewer.screen();
    viewer.click(5, 4);
    let row: String = (0..80)
        .map(|x| viewer.terminal.backend().buffer().cell((x, 4)).unwrap().symbol().to_owned())
        .collect();
    let chosen = viewer.terminal.backend().buffer().cell((0, 4)).unwrap().modifier;
    assert!(chosen.contains(Modifier::REVERSED), "{row}");
    viewer.click(5, 4);
    assert_eq!(viewer.app.tab(), Tab::Task, "a click on the selected row opens it");
    viewer.click(2, 0);
    assert_eq!(viewer.app.tab(), Tab::Tasks, "tab names can be clicked");
    viewer.mouse(MouseEventKind::ScrollDown, 5, 5);
    for (width, height) in [(1, 1), (29, 5), (30, 6), (200, 60), (80, 24)] {
        viewer.terminal.backend_mut().resize(width, height);
        viewer.terminal.resize(ratatui::layout::Rect::new(0, 0, width, height)).unwrap();
        for tab in ["1", "2", "3", "4", "5", "?"] {
            viewer.words(tab);
        }
        viewer.press([KeyCode::Esc]);
    }
    assert!(!viewer.app.is_over());
    viewer.words("q");
    assert!(viewer.app.is_over());
}

#[test]
fn handles_keys_while_loading_and_drops_outdated_requests() {
    let mut viewer = TestViewer::new(false);
    viewer.screen();
    let key = |viewer: &mut TestViewer, key: KeyCode| {
        viewer.app.update(Event::Key(KeyEvent::new(key, KeyModifiers::NONE)))
    };
    key(&mut viewer, KeyCode::Enter);
    assert!(viewer.drawn().contains("reading t0: add…"), "{}", viewer.drawn());
    let slow = viewer.app.take_request().expect("the page of t0");
    key(&mut viewer, KeyCode::Right);
    key(&mut viewer, KeyCode::Right);
    assert!(viewer.app.take_request().is_none(), "one is running");
    assert!(viewer.drawn().contains("reading inner / t"), "{}", viewer.drawn());
    viewer.app.update(slow.answer(&viewer.input));
    assert!(
        viewer.drawn().contains("reading inner / t"),
        "an outdated page is not shown: {}",
        viewer.drawn()
    );
    let next = viewer.app.take_request().expect("the newest request");
    assert!(viewer.app.take_request().is_none(), "skipped tasks are not read");
    viewer.app.update(next.answer(&viewer.input));
    assert!(viewer.drawn().contains(": add_scalar\n"), "{}", viewer.drawn());

    key(&mut viewer, KeyCode::Enter);
    let window = viewer.terminal.size().expect("a size");
    viewer.app.prepare(window);
    let slow = viewer.app.take_request().expect("a picture");
    assert!(viewer.drawn().contains("reading…"), "{}", viewer.drawn());
    for _ in 0..3 {
        key(&mut viewer, KeyCode::Right);
        viewer.app.prepare(window);
    }
    assert!(viewer.app.take_request().is_none(), "one is running");
    viewer.app.update(slow.answer(&viewer.input));
    assert!(viewer.drawn().contains("reading…"), "an outdated picture is not shown: {}", viewer.drawn());
    let screen = viewer.screen();
    assert!(screen.contains("(0, 3) = ") && !screen.contains("reading…"), "{screen}");
    // The user can quit while a request runs.
    key(&mut viewer, KeyCode::Char('m'));
    viewer.app.prepare(window);
    let _unanswered = viewer.app.take_request().expect("a heat map");
    key(&mut viewer, KeyCode::Char('q'));
    assert!(viewer.app.is_over());
}
