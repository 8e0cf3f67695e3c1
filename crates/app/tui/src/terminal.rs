//! Connects the viewer to a terminal, and restores the terminal at the end, after a panic and after a signal.

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
use crate::{Request, Theme, TuiError, ViewerInput};

/// Time between checks for messages from other threads.
const TICK: Duration = Duration::from_millis(50);

/// Requests that finish within this time are shown without a loading message.
const AT_ONCE: Duration = Duration::from_millis(20);

/// Whether the viewer currently owns the terminal.
static OWNED: Mutex<bool> = Mutex::new(false);

/// Why the viewer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// The user quit.
    ByUser,
    /// This signal arrived.
    BySignal(i32),
}

/// Owns the terminal. Dropping it restores the terminal.
struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    fn take() -> io::Result<Screen> {
        enable_raw_mode()?;
        *OWNED.lock().unwrap_or_else(PoisonError::into_inner) = true;
        let entered = execute!(stdout(), EnterAlternateScreen, EnableMouseCapture);
        entered
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())))
            .map(Screen)
            .inspect_err(|_| restore())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal, once. Continues after a failing step.
fn restore() {
    let owned = std::mem::take(&mut *OWNED.lock().unwrap_or_else(PoisonError::into_inner));
    if owned {
        let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// Shows a dump until the user quits or a signal arrives.
///
/// # Errors
/// There is no terminal, or an operation on it fails.
pub fn run(input: &ViewerInput, theme: Theme) -> Result<ExitReason, TuiError> {
    if !stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(TuiError::NoTerminal);
    }
    let (send, messages) = channel();
    send_signals(&send)?;
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // Restore first, so that the panic message stays on the screen.
        restore();
        before(panic);
    }));
    let mut screen = Screen::take()?;
    let mut app = App::new(input.clone(), theme);
    let ended = show(&mut app, &mut screen.0, input, &send, &messages);
    drop(screen);
    Ok(ended?)
}

/// Time that the viewer has to end after a signal.
const GRACE: Duration = Duration::from_secs(1);

/// A message from another thread.
enum ThreadMessage {
    Event(Event),
    Signal(i32),
}

fn send_signals(send: &Sender<ThreadMessage>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let send = send.clone();
    thread::Builder::new().name("tt-signals".into()).spawn(move || {
        for signal in signals.forever() {
            let _ = send.send(ThreadMessage::Signal(signal));
            thread::sleep(GRACE);
            if *OWNED.lock().unwrap_or_else(PoisonError::into_inner) {
                // The terminal is gone: the main loop reads end-of-file forever and never handles signals.
                restore();
                std::process::exit(128 + signal);
            }
        }
    })?;
    Ok(())
}

fn show(
    app: &mut App,
    terminal: &mut Terminal<CrosstermBackend<Stdout>>,
    input: &ViewerInput,
    send: &Sender<ThreadMessage>,
    messages: &Receiver<ThreadMessage>,
) -> io::Result<ExitReason> {
    let mut needs_draw = true;
    loop {
        if needs_draw {
            let window = terminal.size()?;
            app.prepare(window);
            // Wait briefly, so that fast results appear without a loading message first.
            while let Some(request) = app.take_request() {
                answer(request, input, send)?;
                match messages.recv_timeout(AT_ONCE) {
                    Ok(ThreadMessage::Event(event)) => app.update(event),
                    Ok(ThreadMessage::Signal(signal)) => return Ok(ExitReason::BySignal(signal)),
                    Err(_) => {}
                }
                app.prepare(window);
            }
            terminal.draw(|frame| app.draw(frame))?;
            needs_draw = false;
        }
        if event::poll(TICK)? {
            // Handle all waiting events before the next draw.
            while event::poll(Duration::ZERO)? {
                match event::read()? {
                    event::Event::Key(key) => app.update(Event::Key(key)),
                    event::Event::Mouse(mouse) => app.update(Event::Mouse(mouse)),
                    event::Event::Resize(..) => app.update(Event::Resized),
                    _ => continue,
                }
                needs_draw = true;
            }
            panic_if_asked();
        }
        while let Ok(message) = messages.try_recv() {
            match message {
                ThreadMessage::Event(event) => app.update(event),
                ThreadMessage::Signal(signal) => return Ok(ExitReason::BySignal(signal)),
            }
            needs_draw = true;
        }
        if app.is_over() {
            return Ok(ExitReason::ByUser);
        }
    }
}

/// Runs a request on its own thread.
fn answer(request: Request, input: &ViewerInput, send: &Sender<ThreadMessage>) -> io::Result<()> {
    let (input, send) = (input.clone(), send.clone());
    thread::Builder::new().name("tt-reads".into()).spawn(move || {
        // The viewer may have ended already.
        let _ = send.send(ThreadMessage::Event(request.answer(&input)));
    })?;
    Ok(())
}

/// Lets a test check that a panic restores the terminal. Release builds do not contain it.
#[cfg(debug_assertions)]
fn panic_if_asked() {
    assert!(std::env::var_os("TENSORTAP_TUI_PANIC").is_none(), "a panic that a test asked for");
}

#[cfg(not(debug_assertions))]
fn panic_if_asked() {}
