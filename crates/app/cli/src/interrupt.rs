//! Signals that end the process: Ctrl-C, `kill`, and a closed terminal.

use std::fs;
use std::io;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use tensortap::SignalFlag;

use crate::error::Exit;

/// Time that the process may take to end by itself. Some work, such as computing a golden, does not check for signals.
pub const GRACE: Duration = Duration::from_secs(2);

/// The same if a dump must be closed, which waits for the disk.
pub const CLOSING_GRACE: Duration = Duration::from_secs(60);

/// The handled signals.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Which of [`SIGNALS`] has been received, for the exit status.
static RECEIVED: OnceLock<[SignalFlag; SIGNALS.len()]> = OnceLock::new();

/// Whether the user wants to stop. The first signal raises the flag, and ends the process after a grace period if it
/// has not ended by then. A second signal ends it at once. The device always ends with the process.
#[derive(Clone, Debug)]
pub struct Interrupt {
    requested: SignalFlag,
}

impl Interrupt {
    /// Handles SIGINT, SIGTERM and SIGHUP until the process ends. A signal that the process ignored when it started
    /// stays ignored, as `nohup` requires. The exception is SIGINT, which shells ignore for background jobs.
    pub fn install(grace: Duration) -> io::Result<Interrupt> {
        let requested = SignalFlag::default();
        let received = RECEIVED.get_or_init(Default::default);
        let ignored = ignored_signals();
        let handled: Vec<i32> =
            SIGNALS.into_iter().filter(|&signal| signal == SIGINT || !ignored(signal)).collect();
        for (&signal, received) in SIGNALS.iter().zip(received).filter(|(signal, _)| handled.contains(signal))
        {
            // The order matters: the first signal finds the flag unset and sets it, a second one finds it set. The
            // received signal is stored before the flag is raised.
            let exit = ended_by(signal).code().into();
            flag::register_conditional_shutdown(signal, exit, requested.for_handler())?;
            flag::register(signal, received.for_handler())?;
            flag::register(signal, requested.for_handler())?;
        }
        let mut signals = Signals::new(handled)?;
        thread::Builder::new().name("interrupt".into()).spawn(move || {
            if let Some(signal) = signals.forever().next() {
                thread::sleep(grace);
                std::process::exit(ended_by(signal).code().into());
            }
        })?;
        Ok(Interrupt { requested })
    }

    /// Whether the user wants to stop.
    pub fn requested(&self) -> bool {
        self.requested.is_raised()
    }
}

/// The exit status after an interruption: that of the received signal, or of Ctrl-C if a verb was stopped differently.
pub fn exit() -> Exit {
    let received = RECEIVED.get().into_iter().flatten().zip(SIGNALS).find(|(flag, _)| flag.is_raised());
    ended_by(received.map_or(SIGINT, |(_, signal)| signal))
}

fn ended_by(signal: i32) -> Exit {
    // Signal numbers are 1 to 64.
    Exit::Interrupted { signal: u8::try_from(signal).unwrap_or_default() }
}

/// The signals that this process ignored when it started; none if the system does not report them.
pub fn ignored_signals() -> impl Fn(i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = ignored_mask(&status);
    move |signal| (1..=64).contains(&signal) && mask >> (signal - 1) & 1 == 1
}

fn ignored_mask(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
