//! Signals that ask the process to end: Ctrl-C, `kill` and a terminal that is closed.

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

/// How long the process may take to end by itself. A golden, for one, is computed without looking up.
pub const GRACE: Duration = Duration::from_secs(2);

/// The same when a dump is to be closed, which waits for a disk.
pub const CLOSING_GRACE: Duration = Duration::from_secs(60);

/// What asks.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Which of [`SIGNALS`] has come, for the exit status.
static CAME: OnceLock<[SignalFlag; SIGNALS.len()]> = OnceLock::new();

/// Knows whether the user wants to stop. The first signal asks, and ends the process after its grace; a second one
/// ends it at once. The device ends with the process in any case.
#[derive(Clone, Debug)]
pub struct Interrupt {
    requested: SignalFlag,
}

impl Interrupt {
    /// Takes over SIGINT, SIGTERM and SIGHUP for the rest of the process's life. One that the process was started to ignore
    /// stays ignored (`nohup` does that), but for SIGINT, which shells ignore in whatever they start in the background.
    pub fn install(grace: Duration) -> io::Result<Interrupt> {
        let requested = SignalFlag::default();
        let came = CAME.get_or_init(Default::default);
        let ignored = ignored_signals();
        let taken: Vec<i32> =
            SIGNALS.into_iter().filter(|&signal| signal == SIGINT || !ignored(signal)).collect();
        for (&signal, came) in SIGNALS.iter().zip(came).filter(|(signal, _)| taken.contains(signal)) {
            // In this order: the first signal finds the flag unset and sets it, the second finds it set; and whoever
            // sees it set knows which came.
            let exit = ended_by(signal).code().into();
            flag::register_conditional_shutdown(signal, exit, requested.for_handler())?;
            flag::register(signal, came.for_handler())?;
            flag::register(signal, requested.for_handler())?;
        }
        let mut signals = Signals::new(taken)?;
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

/// How the process ends after what has come; as after Ctrl-C where a verb was ended by other means.
pub fn exit() -> Exit {
    let came = CAME.get().into_iter().flatten().zip(SIGNALS).find(|(came, _)| came.is_raised());
    ended_by(came.map_or(SIGINT, |(_, signal)| signal))
}

fn ended_by(signal: i32) -> Exit {
    // Signals are numbered from 1 to 64.
    Exit::Interrupted { signal: u8::try_from(signal).unwrap_or_default() }
}

/// What this process ignores, as it was started; nothing where the system does not say.
pub fn ignored_signals() -> impl Fn(i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = ignored_mask(&status);
    move |signal| (1..=64).contains(&signal) && mask >> (signal - 1) & 1 == 1
}

fn ignored_mask(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
