//! Signals while a program is recorded. A terminal sends its signals to the program, too, so they are not passed on; what somebody
//! sends to the recorder alone is.

use std::fs::File;
use std::io;
use std::thread;

use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use tensortap::RecordingControl;

use crate::error::Exit;
use crate::interrupt::ignored_signals;

/// Signals that end a process which does not expect them, and that people send.
const TAKEN: [i32; 7] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM];

/// What has come and is yet to be served.
pub struct Signals {
    came: SignalsInfo<WithRawSiginfo>,
    has_terminal: bool,
}

impl Signals {
    /// Takes over what would end this process, but for what it was started to ignore: the program ignores that, too.
    pub fn take_over() -> io::Result<Signals> {
        let is_ignored = ignored_signals();
        let taken = TAKEN.into_iter().filter(|&signal| !is_ignored(signal));
        Ok(Signals { came: SignalsInfo::new(taken)?, has_terminal: has_terminal() })
    }

    /// Serves them for the rest of the process's life. The first interrupt is the program's alone, the second closes the
    /// dumps, the third does not wait for that.
    pub fn serve(self, control: RecordingControl) {
        let Signals { mut came, has_terminal: had_terminal } = self;
        // Without the thread they are ignored, and the program ends as it does.
        let _ = thread::Builder::new().name("signals".into()).spawn(move || {
            let mut interrupts = 0;
            for info in came.forever() {
                let signal = info.si_signo;
                // A terminal tells every process in its foreground: by the kernel, or, when it goes away, by a shell.
                let is_the_programs = info.si_code > 0 || signal == SIGHUP && had_terminal && !has_terminal();
                if matches!(signal, SIGINT | SIGQUIT) {
                    interrupts += 1;
                }
                match interrupts {
                    2 if matches!(signal, SIGINT | SIGQUIT) => control.close(),
                    3.. => std::process::exit(Exit::Interrupted { signal: 2 }.code().into()),
                    _ if is_the_programs => {}
                    _ => control.pass_on(signal),
                }
            }
        });
    }
}

/// Whether a terminal controls this process.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
