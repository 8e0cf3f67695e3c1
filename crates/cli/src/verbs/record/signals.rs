//! Signals while a program is recorded. A terminal sends its signals to the program, too, so they are not passed on; what somebody
//! sends to the recorder alone is.

use std::fs::File;
use std::io;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator;
use tensortap::RecordingControl;

use crate::error::Exit;
use crate::interrupt::ignored_signals;

/// What has come and is yet to be served.
pub struct Signals {
    came: iterator::Signals,
    has_terminal: bool,
}

impl Signals {
    /// Takes over what would end this process, but for what it was started to ignore: the program ignores that, too.
    pub fn take_over() -> io::Result<Signals> {
        let is_ignored = ignored_signals();
        let taken = [SIGINT, SIGQUIT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
        Ok(Signals { came: iterator::Signals::new(taken)?, has_terminal: has_terminal() })
    }

    /// Serves them for the rest of the process's life. The first from the keyboard is the program's alone, the second closes the
    /// dumps, the third does not wait for that.
    pub fn serve(self, control: RecordingControl) {
        let Signals { mut came, has_terminal: had_terminal } = self;
        // Without the thread they are ignored, and the program ends as it does.
        let _ = thread::Builder::new().name("signals".into()).spawn(move || {
            let mut from_keyboard = 0;
            for signal in came.forever() {
                match signal {
                    SIGINT | SIGQUIT => {
                        from_keyboard += 1;
                        match from_keyboard {
                            1 => {}
                            2 => control.close(),
                            _ => std::process::exit(Exit::Interrupted { signal: 2 }.code().into()),
                        }
                    }
                    // A terminal that goes away tells every process in its foreground.
                    SIGHUP if had_terminal && !has_terminal() => {}
                    signal => control.pass_on(signal),
                }
            }
        });
    }
}

/// Whether a terminal controls this process.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
