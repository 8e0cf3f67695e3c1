//! Keeps the ledger of a recording: which processes attached and ended, and what went wrong. Decides when
//! the recording is over.

use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant, SystemTime};

use tensortap_format::timestamp;

use super::command::{NoDumpReason, ProcessSignaler, shell_status, why_nothing};
use super::run_file::{ProcessEntry, RUNNING, RunFile};
use super::serve::{RunUpdate, SessionServer};
use super::session::SessionReport;
use super::socket_dir::SocketDir;

/// With more processes than this, `run.json` is not written at every change.
const MANY: usize = 64;
const WRITE_EVERY: Duration = Duration::from_millis(200);
/// After this time, the recording reports which processes it still waits for.
const SAY_WAITING: Duration = Duration::from_secs(5);
/// Maximum number of rejected processes that are remembered, to name each once.
const MAX_NAMED: usize = 4096;
/// Maximum number of problems that are stored as text.
const MAX_PROBLEMS: usize = 100;

/// An event during a recording.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RecordingEvent<'a> {
    /// A process is being recorded.
    Attached(&'a ProcessEntry),
    /// A process's dump is closed.
    Left(&'a ProcessEntry),
    /// A process was rejected because of its own behavior. Reported once per process.
    TurnedAway {
        /// The process.
        pid: u32,
        /// The reason.
        why: &'a str,
    },
    /// A problem of the recording. The program continues.
    Problem(&'a str),
    /// The command ended some time ago, but these processes are still running.
    Waiting(Vec<&'a ProcessEntry>),
}

/// The result of a recording.
#[derive(Clone, Debug)]
pub struct RecordingReport {
    /// Run folder.
    pub dir: PathBuf,
    /// The content of its `run.json`.
    pub run: RunFile,
    /// How the command ended; `None` if the recording was ended before it.
    pub ended: Option<ExitStatus>,
    /// Whether some process that should have been recorded was not.
    pub failed: bool,
    /// Number of rejected processes.
    pub turned_away: u64,
    /// If no process attached, the most likely reason.
    pub why_nothing: Option<NoDumpReason>,
    /// Time from the start of the program to the last closed dump.
    pub wall: Duration,
}

impl RecordingReport {
    /// The exit status for this result: that of the program; 125 if that is 0 but recording failed; 130 if
    /// the recording was ended before the program.
    pub fn status(&self) -> u8 {
        match self.ended.map(shell_status) {
            None => 130,
            Some(0) if self.failed => 125,
            Some(status) => status,
        }
    }
}

/// The ledger and everything that ends with the recording.
pub struct RunLedger {
    run: RunFile,
    library: Option<PathBuf>,
    serving: Arc<SessionServer>,
    signaller: Option<ProcessSignaler>,
    /// Owns the socket's folder.
    _place: SocketDir,
    begun: Instant,
    ended: Option<(ExitStatus, Instant)>,
    closing: bool,
    /// Number of unanswered calls and of sessions.
    pending: u64,
    sessions: u64,
    no_more_calls: bool,
    said_waiting: bool,
    named: HashSet<u32>,
    turned_away: u64,
    failed: bool,
    /// Whether `run.json` is out of date.
    stale: bool,
    /// Whether the user named the number of ranks.
    are_ranks_given: bool,
    written: Instant,
    /// Threads that wait until their process is in the file.
    entered: Vec<SyncSender<()>>,
}

impl RunLedger {
    pub fn new(
        run: RunFile,
        library: Option<PathBuf>,
        serving: Arc<SessionServer>,
        signaller: Option<ProcessSignaler>,
        place: SocketDir,
    ) -> RunLedger {
        let are_ranks_given = run.expected_ranks.is_some();
        RunLedger {
            run,
            library,
            serving,
            signaller,
            _place: place,
            begun: Instant::now(),
            ended: None,
            closing: false,
            pending: 0,
            sessions: 0,
            no_more_calls: false,
            said_waiting: false,
            named: HashSet::new(),
            turned_away: 0,
            failed: false,
            stale: true,
            are_ranks_given,
            written: Instant::now(),
            entered: Vec::new(),
        }
    }

    pub fn dir(&self) -> &Path {
        &self.serving.plan.dir
    }

    pub fn library(&self) -> Option<&Path> {
        self.library.as_deref()
    }

    /// Runs until the recording is over.
    pub fn keep(
        mut self,
        news: &Receiver<RunUpdate>,
        mut observe: impl FnMut(&RecordingEvent<'_>),
    ) -> RecordingReport {
        self.write(&mut observe);
        while !self.is_over() {
            match news.recv_timeout(self.patience()) {
                Ok(news) => self.enter(news, &mut observe),
                Err(RecvTimeoutError::Timeout) => {}
                // Cannot happen while the serving threads exist.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.tell_of_waiting(&mut observe);
            if self.until_written() == Some(Duration::ZERO) {
                self.write(&mut observe);
            }
            if self.has_all_ended() {
                self.serving.listener.close();
            }
        }
        self.close(&mut observe)
    }

    /// Whether the command and every attached process have ended, as far as is known. A process may be
    /// calling right now.
    fn has_all_ended(&self) -> bool {
        (self.ended.is_some() || self.closing) && self.pending == 0 && self.sessions == 0
    }

    fn is_over(&self) -> bool {
        self.has_all_ended() && self.no_more_calls
    }

    /// How long to wait for the next update.
    fn patience(&self) -> Duration {
        let waiting = self.ended.filter(|_| !self.said_waiting);
        let until_said = waiting.map(|(_, since)| SAY_WAITING.saturating_sub(since.elapsed()));
        self.until_written().into_iter().chain(until_said).min().unwrap_or(SAY_WAITING)
    }

    /// When `run.json` must be written, if it must.
    fn until_written(&self) -> Option<Duration> {
        let every = if self.run.processes.len() > MANY { WRITE_EVERY } else { Duration::ZERO };
        self.stale.then(|| every.saturating_sub(self.written.elapsed()))
    }

    fn enter(&mut self, news: RunUpdate, observe: &mut impl FnMut(&RecordingEvent<'_>)) {
        match news {
            RunUpdate::CommandEnded(status) => {
                self.ended = Some((status, Instant::now()));
                (self.run.exit_code, self.run.signal) = (status.code(), status.signal());
                self.stale = true;
            }
            RunUpdate::PassOn(signal) => self.signaller.iter().for_each(|command| command.send(signal)),
            RunUpdate::Close => {
                self.closing = true;
                self.serving.closing.raise();
                self.serving.listener.close();
            }
            RunUpdate::Called => self.pending += 1,
            RunUpdate::Attaching { entry, ranks, written } => {
                if !self.are_ranks_given {
                    self.run.expected_ranks = self.run.expected_ranks.max(ranks);
                }
                // Serving threads may report in a different order than the processes attached.
                let place =
                    self.run.processes.partition_point(|earlier| earlier.attached_at <= entry.attached_at);
                self.run.processes.insert(place, *entry);
                self.stale = true;
                match self.run.processes.len() > MANY {
                    true => _ = written.send(()),
                    false => self.entered.push(written),
                }
            }
            RunUpdate::Attached { folder } => {
                self.pending -= 1;
                self.sessions += 1;
                if let Some(entry) = self.run.processes.iter().rev().find(|entry| entry.folder == folder) {
                    observe(&RecordingEvent::Attached(entry));
                }
            }
            RunUpdate::Joined => self.pending -= 1,
            RunUpdate::TurnedAway { pid, why, folder } => {
                self.pending -= 1;
                self.turned_away += 1;
                self.withdraw(folder.as_deref());
                if self.named.len() < MAX_NAMED && self.named.insert(pid) {
                    observe(&RecordingEvent::TurnedAway { pid, why: &why });
                }
            }
            RunUpdate::Refused { pid, why, folder } => {
                self.pending -= 1;
                self.withdraw(folder.as_deref());
                self.problem(format!("process {pid} is not recorded: {why}"), observe);
            }
            RunUpdate::Left { folder, closed } => self.leave(&folder, *closed, observe),
            RunUpdate::Warning { folder, what } => {
                observe(&RecordingEvent::Problem(&format!("{folder}: {what}")))
            }
            RunUpdate::Deaf(why) => {
                self.problem(format!("no process can attach at the moment: {why}"), observe)
            }
            RunUpdate::NoMoreCalls => self.no_more_calls = true,
        }
    }

    /// Removes a process that has a folder but is not recorded.
    fn withdraw(&mut self, folder: Option<&str>) {
        let Some(folder) = folder else { return };
        self.run.processes.retain(|entry| entry.folder != folder);
        self.stale = true;
    }

    fn leave(&mut self, folder: &str, closed: SessionReport, observe: &mut impl FnMut(&RecordingEvent<'_>)) {
        self.sessions -= 1;
        self.stale = true;
        let SessionReport { status, message, problem, counters, arena, errors } = closed;
        if let Some(problem) = &problem {
            self.problem(format!("the dump in {folder} is incomplete: {problem}"), observe);
        }
        let Some(entry) = self.run.processes.iter_mut().rev().find(|entry| entry.folder == folder) else {
            return;
        };
        entry.status = status.name().into();
        entry.message = problem.or(message);
        entry.ended_at = Some(timestamp(SystemTime::now()));
        entry.counts = Some(counters);
        entry.arena_bytes = Some(arena.largest_bytes).filter(|bytes| *bytes > 0);
        (entry.arena_grown_bytes, entry.arena_is_short) = (arena.grown_bytes, arena.wanted_more);
        entry.threads_refused = errors.threads_refused;
        entry.calls_refused = errors.calls_refused;
        entry.first_refusal = errors.first;
        observe(&RecordingEvent::Left(entry));
    }

    /// Reports a problem of the recording, each one once.
    fn problem(&mut self, what: String, observe: &mut impl FnMut(&RecordingEvent<'_>)) {
        self.failed = true;
        if self.run.problems.len() < MAX_PROBLEMS && !self.run.problems.contains(&what) {
            observe(&RecordingEvent::Problem(&what));
            self.run.problems.push(what);
            self.stale = true;
        }
    }

    fn tell_of_waiting(&mut self, observe: &mut impl FnMut(&RecordingEvent<'_>)) {
        let long_ago = self.ended.is_some_and(|(_, since)| since.elapsed() >= SAY_WAITING);
        if long_ago && !self.said_waiting && self.sessions > 0 {
            self.said_waiting = true;
            let running = self.run.processes.iter().filter(|entry| entry.status == RUNNING);
            observe(&RecordingEvent::Waiting(running.collect()));
        }
    }

    fn write(&mut self, observe: &mut impl FnMut(&RecordingEvent<'_>)) {
        self.written = Instant::now();
        self.stale = false;
        if let Err(error) = self.run.write(&self.serving.plan.dir) {
            self.problem(format!("cannot update run.json: {error}"), observe);
        }
        self.entered.drain(..).for_each(|written| _ = written.send(()));
    }

    fn close(mut self, observe: &mut impl FnMut(&RecordingEvent<'_>)) -> RecordingReport {
        let ended = self.ended.map(|(status, _)| status);
        self.run.status = if ended.is_some() { "complete" } else { "interrupted" }.into();
        self.run.finished_at = Some(timestamp(SystemTime::now()));
        self.write(observe);
        let program = self.run.command.first().map(String::as_str).unwrap_or_default();
        let nothing = self.run.processes.is_empty() && !self.failed && self.turned_away == 0;
        RecordingReport {
            why_nothing: nothing.then(|| why_nothing(program.as_ref(), self.library.as_deref())),
            dir: self.serving.plan.dir.clone(),
            ended,
            failed: self.failed,
            turned_away: self.turned_away,
            wall: self.begun.elapsed(),
            run: self.run,
        }
    }
}
