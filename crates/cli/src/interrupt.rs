//! Ctrl-C.

use std::io;
use std::thread;
use std::time::Duration;

use signal_hook::consts::SIGINT;
use signal_hook::flag;
use signal_hook::iterator::Signals;
use tensortap::SignalFlag;

use crate::error::Exit;

/// How long the process may take to end by itself. A golden, for one, is computed without looking up.
pub const GRACE: Duration = Duration::from_secs(2);

/// The same when a dump is to be closed, which waits for a disk.
pub const CLOSING_GRACE: Duration = Duration::from_secs(60);

/// Knows whether the user wants to stop. The first Ctrl-C asks, and ends the process after its grace; a second one
/// ends it at once. The device ends with the process in any case.
#[derive(Clone, Debug)]
pub struct Interrupt {
    requested: SignalFlag,
}

impl Interrupt {
    /// Takes over SIGINT for the rest of the process's life.
    pub fn install(grace: Duration) -> io::Result<Interrupt> {
        let requested = SignalFlag::default();
        // In this order: the first signal finds the flag unset and sets it, the second finds it set.
        flag::register_conditional_shutdown(
            SIGINT,
            Exit::Interrupted.code().into(),
            requested.for_handler(),
        )?;
        flag::register(SIGINT, requested.for_handler())?;
        let mut signals = Signals::new([SIGINT])?;
        thread::Builder::new().name("interrupt".into()).spawn(move || {
            if signals.forever().next().is_some() {
                thread::sleep(grace);
                std::process::exit(Exit::Interrupted.code().into());
            }
        })?;
        Ok(Interrupt { requested })
    }

    /// Whether the user wants to stop.
    pub fn requested(&self) -> bool {
        self.requested.is_raised()
    }
}
