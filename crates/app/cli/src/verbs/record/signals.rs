//! Signals during a recording. Terminals send signals to the program as well, so these are not passed on. Signals that
//! only this process receives are.

use std::fs::File;
use std::io;
use std::thread;

use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use tensortap::RecordingControl;

use crate::error::Exit;
use crate::interrupt::ignored_signals;

/// Signals that users send and that end a process by default.
const HANDLED: [i32; 7] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM];

/// Received signals that wait to be handled.
pub struct Signals {
    received: SignalsInfo<WithRawSiginfo>,
    has_terminal: bool,
}

impl Signals {
    /// Handles the signals that would end this process. Signals that it ignored when it started stay ignored; the program
    /// inherits that.
    pub fn take_over() -> io::Result<Signals> {
        let is_ignored = ignored_signals();
        let handled = HANDLED.into_iter().filter(|&signal| !is_ignored(signal));
        Ok(Signals { received: SignalsInfo::new(handled)?, has_terminal: has_terminal() })
    }

    /// Handles signals until the process ends. The first interrupt belongs to the program, the second closes the dumps,
    /// and the third ends this process at once.
    pub fn serve(self, control: RecordingControl) {
        let Signals { mut received, has_terminal: had_terminal } = self;
        // Without the thread, signals are ignored and the program ends by itself.
        let _ = thread::Builder::new().name("signals".into()).spawn(move || {
            let mut interrupts = 0;
            for info in received.forever() {
                let signal = info.si_signo;
                // The terminal signals every foreground process: through the kernel, or through the shell when it closes.
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
