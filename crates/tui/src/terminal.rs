//! A terminal for the viewer, which is given back as it was: at the end, after a panic, after a signal.

use std::io::{self, IsTerminal, Stdout, stdout};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::app::{App, Event};
use crate::{Look, Looked, Request, TuiError};

/// Between two looks at what came from elsewhere.
const TICK: Duration = Duration::from_millis(50);

/// What takes no longer than this is waited for before anything is drawn.
const AT_ONCE: Duration = Duration::from_millis(20);

/// Whether the terminal is ours at the moment.
static TAKEN: Mutex<bool> = Mutex::new(false);

/// How a viewer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The user had seen enough.
    ByUser,
    /// By this signal.
    BySignal(i32),
}

/// The terminal while it is ours.
struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    fn take() -> io::Result<Screen> {
        enable_raw_mode()?;
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = true;
        let entered = execute!(stdout(), EnterAlternateScreen, EnableMouseCapture);
        entered
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())))
            .map(Screen)
            .inspect_err(|_| give_back())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back, once. Whatever fails, the rest is tried.
fn give_back() {
    let taken = std::mem::take(&mut *TAKEN.lock().unwrap_or_else(PoisonError::into_inner));
    if taken {
        let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// Shows a dump until the user has seen enough, or a signal asks to end.
///
/// # Errors
/// There is no terminal, or it refuses.
pub fn run(looked: &Looked, look: Look) -> Result<Ended, TuiError> {
    if !stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(TuiError::NoTerminal);
    }
    let (send, came) = channel();
    send_signals(&send)?;
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // What a panic says is to be read on the screen that stays.
        give_back();
        before(panic);
    }));
    let mut screen = Screen::take()?;
    let mut app = App::new(looked.clone(), look);
    let ended = show(&mut app, &mut screen.0, looked, &send, &came);
    drop(screen);
    Ok(ended?)
}

/// How long the viewer may take to end when a signal asks it to.
const GRACE: Duration = Duration::from_secs(1);

/// What comes from other threads.
enum Came {
    Event(Event),
    Signal(i32),
}

fn send_signals(send: &Sender<Came>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let send = send.clone();
    thread::Builder::new().name("tt-signals".into()).spawn(move || {
        for signal in signals.forever() {
            let _ = send.send(Came::Signal(signal));
            thread::sleep(GRACE);
            if *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) {
                // Of a terminal that is gone the end is read again and again, and nobody looks at signals.
                give_back();
                std::process::exit(128 + signal);
            }
        }
    })?;
    Ok(())
}

fn show(
    app: &mut App,
    terminal: &mut Terminal<CrosstermBackend<Stdout>>,
    looked: &Looked,
    send: &Sender<Came>,
    came: &Receiver<Came>,
) -> io::Result<Ended> {
    let mut is_new = true;
    loop {
        if is_new {
            let window = terminal.size()?;
            app.prepare(window);
            // What is there at once is drawn at once, without a word that it is being read.
            while let Some(request) = app.take_request() {
                answer(request, looked, send)?;
                match came.recv_timeout(AT_ONCE) {
                    Ok(Came::Event(event)) => app.update(event),
                    Ok(Came::Signal(signal)) => return Ok(Ended::BySignal(signal)),
                    Err(_) => {}
                }
                app.prepare(window);
            }
            terminal.draw(|frame| app.draw(frame))?;
            is_new = false;
        }
        if event::poll(TICK)? {
            // All that came at once is drawn at once.
            while event::poll(Duration::ZERO)? {
                match event::read()? {
                    event::Event::Key(key) => app.update(Event::Key(key)),
                    event::Event::Mouse(mouse) => app.update(Event::Mouse(mouse)),
                    event::Event::Resize(..) => app.update(Event::Resized),
                    _ => continue,
                }
                is_new = true;
            }
            panic_if_asked();
        }
        while let Ok(came) = came.try_recv() {
            match came {
                Came::Event(event) => app.update(event),
                Came::Signal(signal) => return Ok(Ended::BySignal(signal)),
            }
            is_new = true;
        }
        if app.is_over() {
            return Ok(Ended::ByUser);
        }
    }
}

/// Does what takes time, beside the viewer.
fn answer(request: Request, looked: &Looked, send: &Sender<Came>) -> io::Result<()> {
    let (looked, send) = (looked.clone(), send.clone());
    thread::Builder::new().name("tt-reads".into()).spawn(move || {
        // The viewer may be over.
        let _ = send.send(Came::Event(request.answer(&looked)));
    })?;
    Ok(())
}

/// So that a test sees what a defect of ours leaves of a terminal. No build that is released has it.
#[cfg(debug_assertions)]
fn panic_if_asked() {
    assert!(std::env::var_os("TENSORTAP_TUI_PANIC").is_none(), "a panic that a test asked for");
}

#[cfg(not(debug_assertions))]
fn panic_if_asked() {}
