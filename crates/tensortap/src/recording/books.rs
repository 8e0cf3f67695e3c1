//! Keeps the books of a recording: who came, who left, what went wrong; and decides when it is over.

use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant, SystemTime};

use tensortap_format::timestamp;

use super::command::{Signaller, WhyNothing, shell_status, why_nothing};
use super::place::Place;
use super::run_file::{ProcessEntry, RUNNING, RunFile};
use super::serve::{News, Serving};
use super::session::Closed;

/// Once there are more processes than these, `run.json` is written at most so often while they come and go.
const MANY: usize = 64;
const WRITE_EVERY: Duration = Duration::from_millis(200);
/// After so long it is said what a recording still waits for.
const SAY_WAITING: Duration = Duration::from_secs(5);
/// Processes that were turned away are remembered, to name each once.
const MAX_NAMED: usize = 4096;
/// Problems that are kept in words.
const MAX_PROBLEMS: usize = 100;

/// What happens while a program is recorded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RecordingEvent<'a> {
    /// A process is being recorded.
    Attached(&'a ProcessEntry),
    /// Its dump is closed.
    Left(&'a ProcessEntry),
    /// A process was not recorded because of what it said; told once of each.
    TurnedAway {
        /// The process.
        pid: u32,
        /// What was wrong with it.
        why: &'a str,
    },
    /// Something is wrong with recording; the program goes on.
    Problem(&'a str),
    /// The command has ended some time ago, and these processes have not.
    Waiting(Vec<&'a ProcessEntry>),
}

/// What came of a recording.
#[derive(Clone, Debug)]
pub struct RecordingReport {
    /// Run folder.
    pub dir: PathBuf,
    /// What stands in its `run.json`.
    pub run: RunFile,
    /// How the command ended; `None`: the recording was told to end before.
    pub ended: Option<ExitStatus>,
    /// Whether everything that attached and should have been recorded was.
    pub failed: bool,
    /// Processes that were not recorded because of what they said.
    pub turned_away: u64,
    /// When nothing attached, the likeliest reason.
    pub why_nothing: Option<WhyNothing>,
    /// From the start of the program to the last closed dump.
    pub wall: Duration,
}

impl RecordingReport {
    /// The exit status that says this: that of the program; 125 when that is 0 and recording failed; 130 when it was told to end
    /// before the program.
    pub fn status(&self) -> u8 {
        match self.ended.map(shell_status) {
            None => 130,
            Some(0) if self.failed => 125,
            Some(status) => status,
        }
    }
}

/// The books, and what ends with them.
pub struct Books {
    run: RunFile,
    library: Option<PathBuf>,
    serving: Arc<Serving>,
    signaller: Option<Signaller>,
    /// The socket's folder.
    _place: Place,
    begun: Instant,
    ended: Option<(ExitStatus, Instant)>,
    closing: bool,
    /// Calls without an answer, and sessions.
    pending: u64,
    sessions: u64,
    no_more_calls: bool,
    said_waiting: bool,
    named: HashSet<u32>,
    turned_away: u64,
    failed: bool,
    /// `run.json` does not say everything.
    stale: bool,
    written: Instant,
    /// Who waits until it has their process.
    entered: Vec<SyncSender<()>>,
}

impl Books {
    pub fn new(
        run: RunFile,
        library: Option<PathBuf>,
        serving: Arc<Serving>,
        signaller: Option<Signaller>,
        place: Place,
    ) -> Books {
        Books {
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

    /// Keeps them until everything is over.
    pub fn keep(
        mut self,
        news: &Receiver<News>,
        mut observe: impl FnMut(&RecordingEvent<'_>),
    ) -> RecordingReport {
        self.write(&mut observe);
        while !self.is_over() {
            match news.recv_timeout(self.patience()) {
                Ok(news) => self.enter(news, &mut observe),
                Err(RecvTimeoutError::Timeout) => {}
                // Not while those who serve are there.
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

    /// The command and every process that attached have ended, as far as is known: somebody may be calling right now.
    fn has_all_ended(&self) -> bool {
        (self.ended.is_some() || self.closing) && self.pending == 0 && self.sessions == 0
    }

    fn is_over(&self) -> bool {
        self.has_all_ended() && self.no_more_calls
    }

    /// How long nothing has to be done unless there is news.
    fn patience(&self) -> Duration {
        let waiting = self.ended.filter(|_| !self.said_waiting);
        let until_said = waiting.map(|(_, since)| SAY_WAITING.saturating_sub(since.elapsed()));
        self.until_written().into_iter().chain(until_said).min().unwrap_or(SAY_WAITING)
    }

    /// When `run.json` is to be brought up to date, if it is to be.
    fn until_written(&self) -> Option<Duration> {
        let every = if self.run.processes.len() > MANY { WRITE_EVERY } else { Duration::ZERO };
        self.stale.then(|| every.saturating_sub(self.written.elapsed()))
    }

    fn enter(&mut self, news: News, observe: &mut impl FnMut(&RecordingEvent<'_>)) {
        match news {
            News::CommandEnded(status) => {
                self.ended = Some((status, Instant::now()));
                (self.run.exit_code, self.run.signal) = (status.code(), status.signal());
                self.stale = true;
            }
            News::PassOn(signal) => self.signaller.iter().for_each(|command| command.send(signal)),
            News::Close => {
                self.closing = true;
                self.serving.closing.raise();
                self.serving.listener.close();
            }
            News::Called => self.pending += 1,
            News::Attaching(entry, written) => {
                // Threads that serve may tell of theirs in another order than they came.
                let place =
                    self.run.processes.partition_point(|earlier| earlier.attached_at <= entry.attached_at);
                self.run.processes.insert(place, *entry);
                self.stale = true;
                match self.run.processes.len() > MANY {
                    true => _ = written.send(()),
                    false => self.entered.push(written),
                }
            }
            News::Attached { folder } => {
                self.pending -= 1;
                self.sessions += 1;
                if let Some(entry) = self.run.processes.iter().rev().find(|entry| entry.folder == folder) {
                    observe(&RecordingEvent::Attached(entry));
                }
            }
            News::TurnedAway { pid, why, folder } => {
                self.pending -= 1;
                self.turned_away += 1;
                self.withdraw(folder.as_deref());
                if self.named.len() < MAX_NAMED && self.named.insert(pid) {
                    observe(&RecordingEvent::TurnedAway { pid, why: &why });
                }
            }
            News::Refused { pid, why, folder } => {
                self.pending -= 1;
                self.withdraw(folder.as_deref());
                self.problem(format!("process {pid} is not recorded: {why}"), observe);
            }
            News::Left { folder, closed } => self.leave(&folder, *closed, observe),
            News::Warning { folder, what } => observe(&RecordingEvent::Problem(&format!("{folder}: {what}"))),
            News::Deaf(why) => self.problem(format!("no process can attach for the moment: {why}"), observe),
            News::NoMoreCalls => self.no_more_calls = true,
        }
    }

    /// A process that has a folder is not recorded after all.
    fn withdraw(&mut self, folder: Option<&str>) {
        let Some(folder) = folder else { return };
        self.run.processes.retain(|entry| entry.folder != folder);
        self.stale = true;
    }

    fn leave(&mut self, folder: &str, closed: Closed, observe: &mut impl FnMut(&RecordingEvent<'_>)) {
        self.sessions -= 1;
        self.stale = true;
        let Closed { status, message, problem, counters, complaints } = closed;
        if let Some(problem) = &problem {
            self.problem(format!("the dump in {folder} is not complete: {problem}"), observe);
        }
        let Some(entry) = self.run.processes.iter_mut().rev().find(|entry| entry.folder == folder) else {
            return;
        };
        entry.status = status.name().into();
        entry.message = problem.or(message);
        entry.ended_at = Some(timestamp(SystemTime::now()));
        entry.counts = Some(counters);
        entry.threads_refused = complaints.threads_refused;
        entry.calls_refused = complaints.calls_refused;
        entry.first_refusal = complaints.first;
        observe(&RecordingEvent::Left(entry));
    }

    /// Recording failed in part. Each problem is told once.
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
            self.problem(format!("run.json cannot be brought up to date: {error}"), observe);
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
