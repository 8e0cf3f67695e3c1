//! Accepts calls of processes and serves each of them in a thread of its own.

use std::collections::HashMap;
use std::process::ExitStatus;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, SystemTime};

use tensortap_format::timestamp;
use tensortap_platform::attach::{AttachListener, Caller, Hello, JoinError, MAX_LIBRARIES};
use tensortap_sync::Flag;

use super::command::CommandExit;
use super::folder_names::FolderNames;
use super::recorded_processes::RecordedProcesses;
use super::run_file::{ProcessEntry, RUNNING};
use super::session::{OpenError, RecordingPlan, Session, SessionEnd, SessionReport};
use crate::Warn;

/// Maximum number of processes that are recorded at the same time. Each needs three threads and about ten
/// open files.
const MAX_SESSIONS: usize = 256;
/// Maximum number of unanswered calls at the same time: of all processes, and of one.
const MAX_PENDING: usize = 64;
const MAX_PENDING_OF_ONE: usize = 4;
/// A caller identifies itself right after the call.
const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// If many processes call, the caller should have done so when its call is accepted.
const SPEAK_LIMIT: Duration = Duration::from_millis(50);
/// How long a caller waits until others are done. That usually takes moments, or `HELLO_LIMIT` if they send
/// nothing. The process itself waits 10 s.
const ROOM_LIMIT: Duration = Duration::from_secs(8);
/// How often a session checks whether the recorder must end; and how long calls wait if none can be
/// accepted.
const LOOK: Duration = Duration::from_millis(100);
/// The end of the command is known as soon as its process has ended.
const STATUS_LIMIT: Duration = Duration::from_secs(5);

/// An update from another thread to the ledger.
pub enum RunUpdate {
    /// The command has ended.
    CommandEnded(ExitStatus),
    /// A signal must be passed on to the command.
    PassOn(i32),
    /// Every dump must be closed now.
    Close,
    /// A process calls. Exactly one of `Attached`, `Joined`, `TurnedAway` and `Refused` follows.
    Called,
    /// The process has a folder. It is accepted once it is in `run.json`, so that its dump can always be
    /// found there.
    Attaching {
        /// The process.
        entry: Box<ProcessEntry>,
        /// Number of ranks of its program, if it knows it.
        ranks: Option<u32>,
        /// Confirms that it is in the file.
        written: SyncSender<()>,
    },
    /// The process of this folder is being recorded.
    Attached { folder: String },
    /// Another library of a process that is being recorded records into the same dump.
    Joined,
    /// The process is rejected because of its own behavior; `folder` if it was attaching.
    TurnedAway { pid: u32, why: String, folder: Option<String> },
    /// The process is not recorded because the recorder failed.
    Refused { pid: u32, why: String, folder: Option<String> },
    /// The session of this folder has ended.
    Left { folder: String, closed: Box<SessionReport> },
    /// A warning of the session of this folder.
    Warning { folder: String, what: String },
    /// Calls cannot be accepted at the moment.
    Deaf(String),
    /// No more calls will come.
    NoMoreCalls,
}

/// State that the threads share.
pub struct SessionServer {
    pub plan: RecordingPlan,
    pub listener: AttachListener,
    /// Raised when all dumps must be closed.
    pub closing: Flag,
    /// Process id of the command after its start, and how it ended.
    command: OnceLock<u32>,
    ended: Arc<CommandExit>,
    ledger: Sender<RunUpdate>,
    roster: Mutex<FolderNames>,
    processes: RecordedProcesses,
    /// Sessions, and unanswered calls per process.
    load: Mutex<Load>,
    /// Signaled when a call is answered.
    answered: Condvar,
}

#[derive(Default)]
struct Load {
    sessions: usize,
    pending: HashMap<u32, usize>,
}

impl Load {
    /// Counts an unanswered call unless there are too many.
    fn admit(&mut self, pid: u32) -> Result<(), AdmissionError> {
        if self.pending.values().sum::<usize>() >= MAX_PENDING {
            return Err(AdmissionError::TooMany);
        }
        let of_it = self.pending.entry(pid).or_default();
        if *of_it >= MAX_PENDING_OF_ONE {
            return Err(AdmissionError::SaidNothing);
        }
        *of_it += 1;
        Ok(())
    }
}

/// Why a call is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdmissionError {
    /// Too many other calls are unanswered.
    TooMany,
    /// The process has called before and not identified itself yet.
    SaidNothing,
}

/// Reasons for rejecting a call, for the process and for the ledger.
const CALLED_BEFORE: &str = "this process has called before, and those calls are still unanswered";
const BUSY_AND_SILENT: &str = "it did not identify itself while too many other processes are attaching";
const BUSY: &str = "too many processes are attaching at the same time, and none of them is done; try again";

/// An unanswered call; counted until it is dropped.
struct PendingCaller<'s> {
    serving: &'s SessionServer,
    pid: u32,
}

impl Drop for PendingCaller<'_> {
    fn drop(&mut self) {
        let mut load = self.serving.load();
        if let Some(count) = load.pending.get_mut(&self.pid) {
            *count -= 1;
            if *count == 0 {
                load.pending.remove(&self.pid);
            }
        }
        self.serving.answered.notify_all();
    }
}

/// A session; counted until it is dropped.
struct SessionSlot<'s>(&'s SessionServer);

impl Drop for SessionSlot<'_> {
    fn drop(&mut self) {
        self.0.load().sessions -= 1;
    }
}

impl SessionServer {
    pub fn new(
        plan: RecordingPlan,
        listener: AttachListener,
        ended: Arc<CommandExit>,
        ledger: Sender<RunUpdate>,
    ) -> SessionServer {
        SessionServer {
            plan,
            listener,
            closing: Flag::new(),
            command: OnceLock::new(),
            ended,
            ledger,
            roster: Mutex::default(),
            processes: RecordedProcesses::default(),
            load: Mutex::default(),
            answered: Condvar::new(),
        }
    }

    /// Sets the process id of the command.
    pub fn command_is(&self, pid: u32) {
        let _ = self.command.set(pid);
    }

    /// Accepts calls until the listener is closed, in a separate thread.
    pub fn start(self: &Arc<SessionServer>) -> std::io::Result<JoinHandle<()>> {
        let serving = Arc::clone(self);
        Builder::new().name("tt-attach".into()).spawn(move || serving.take_calls())
    }

    fn take_calls(self: &Arc<SessionServer>) {
        loop {
            match self.listener.accept(Duration::MAX) {
                Ok(Some(caller)) => self.answer(caller),
                Ok(None) => break,
                Err(error) => {
                    // Possibly too many open files: others may close some.
                    self.tell(RunUpdate::Deaf(error.to_string()));
                    if self.closing.is_raised() {
                        break;
                    }
                    thread::sleep(LOOK);
                }
            }
        }
        self.tell(RunUpdate::NoMoreCalls);
    }

    /// Does not wait for the caller's hello, which a separate thread reads. Only waits for room if too many
    /// processes are attaching.
    fn answer(self: &Arc<SessionServer>, caller: Caller) {
        self.tell(RunUpdate::Called);
        let pid = caller.pid();
        let refuse = |why: &str| {
            caller.refuse(why);
            (pid, why.to_owned(), None)
        };
        match self.admit(&caller) {
            Ok(()) => {}
            Err(why @ BUSY) => {
                let (pid, why, folder) = refuse(why);
                return self.tell(RunUpdate::Refused { pid, why, folder });
            }
            Err(why) => {
                let (pid, why, folder) = refuse(why);
                return self.tell(RunUpdate::TurnedAway { pid, why, folder });
            }
        }
        let serving = Arc::clone(self);
        let started = Builder::new().name(format!("tt-process-{pid}")).spawn(move || serving.serve(caller));
        if let Err(error) = started {
            drop(PendingCaller { serving: self, pid });
            let why = format!("no thread could be started for it: {error}");
            self.tell(RunUpdate::Refused { pid, why, folder: None });
        }
    }

    /// Counts a call. If there are too many, a caller that has identified itself waits until another call
    /// is answered. Further callers wait in `connect`.
    fn admit(&self, caller: &Caller) -> Result<(), &'static str> {
        let first = self.load().admit(caller.pid());
        match first {
            Ok(()) => return Ok(()),
            Err(AdmissionError::SaidNothing) => return Err(CALLED_BEFORE),
            Err(AdmissionError::TooMany) if !caller.has_data(SPEAK_LIMIT) => return Err(BUSY_AND_SILENT),
            Err(AdmissionError::TooMany) => {}
        }
        let mut admitted = Err(AdmissionError::TooMany);
        let is_full = |load: &mut Load| {
            admitted = load.admit(caller.pid());
            admitted == Err(AdmissionError::TooMany) && !self.closing.is_raised()
        };
        let waited = self.answered.wait_timeout_while(self.load(), ROOM_LIMIT, is_full);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        admitted.map_err(|why| if why == AdmissionError::TooMany { BUSY } else { CALLED_BEFORE })
    }

    fn take_seat(&self) -> Option<SessionSlot<'_>> {
        let mut load = self.load();
        (load.sessions < MAX_SESSIONS).then(|| {
            load.sessions += 1;
            SessionSlot(self)
        })
    }

    /// Handles one call from start to end.
    fn serve(&self, mut caller: Caller) {
        let pid = caller.pid();
        let pending = PendingCaller { serving: self, pid };
        let hello = match caller.hello(HELLO_LIMIT) {
            Ok(hello) => hello,
            Err(error) => {
                return self.tell(RunUpdate::TurnedAway { pid, why: error.to_string(), folder: None });
            }
        };
        // Of several libraries of one process, the first to call opens the session. The others wait for it here
        // and join.
        let recorded = self.processes.of(pid);
        let mut process = recorded.lock();
        let caller = match process.join(caller) {
            Ok(()) => return self.tell(RunUpdate::Joined),
            Err(JoinError::IsOther(caller)) => caller,
            Err(JoinError::TooMany(caller)) => {
                let why = format!("{MAX_LIBRARIES} libraries of this process are already being recorded");
                caller.refuse(&why);
                return self.tell(RunUpdate::TurnedAway { pid, why, folder: None });
            }
            Err(JoinError::Failed(error)) => {
                return self.tell(RunUpdate::TurnedAway { pid, why: error.to_string(), folder: None });
            }
        };
        let Some(_seat) = self.take_seat() else {
            let why = format!("{MAX_SESSIONS} processes are already being recorded");
            caller.refuse(&why);
            return self.tell(RunUpdate::Refused { pid, why, folder: None });
        };
        let Some((folder, mut session)) = self.open(caller, &hello) else { return };
        process.set(session.process());
        drop(process);
        drop(pending);
        self.tell(RunUpdate::Attached { folder: folder.clone() });
        let ending = match session.serve(LOOK, || self.closing.is_raised()) {
            SessionEnd::Ended(_) if self.command.get() == Some(&pid) => {
                SessionEnd::Ended(self.ended.wait(STATUS_LIMIT))
            }
            other => other,
        };
        let closed = Box::new(session.close(&ending));
        self.tell(RunUpdate::Left { folder, closed });
    }

    /// Opens a session in a new folder. Reports a failure.
    fn open(&self, caller: Caller, hello: &Hello) -> Option<(String, Session)> {
        let pid = caller.pid();
        let attached_at = timestamp(SystemTime::now());
        let folder = self.roster.lock().unwrap_or_else(PoisonError::into_inner).name(pid, hello.rank);
        let entry = ProcessEntry {
            folder: folder.clone(),
            pid,
            rank: hello.rank,
            name: hello.name.clone(),
            status: RUNNING.into(),
            attached_at,
            ..ProcessEntry::default()
        };
        let opened = Session::open(caller, hello, &self.plan, &folder, self.warn(&folder), || {
            self.enter(entry, hello.ranks);
        });
        match opened {
            Ok(session) => return Some((folder, session)),
            Err(OpenError::CallerGone(why)) => {
                self.tell(RunUpdate::TurnedAway { pid, why, folder: Some(folder) });
            }
            Err(OpenError::Failed(why)) => self.tell(RunUpdate::Refused { pid, why, folder: Some(folder) }),
        }
        None
    }

    /// Waits until the process is in `run.json`, unless there are so many processes that the file is only
    /// written from time to time.
    fn enter(&self, entry: ProcessEntry, ranks: Option<u32>) {
        let (written, is_written) = sync_channel(1);
        self.tell(RunUpdate::Attaching { entry: Box::new(entry), ranks, written });
        // The ledger confirms it, or has ended.
        let _ = is_written.recv();
    }

    fn warn(&self, folder: &str) -> Warn {
        let (ledger, folder) = (self.ledger.clone(), folder.to_owned());
        Arc::new(move |what| {
            let _ = ledger.send(RunUpdate::Warning { folder: folder.clone(), what: what.to_owned() });
        })
    }

    fn tell(&self, news: RunUpdate) {
        // The ledger ends last. If it has ended, updates are no longer needed.
        let _ = self.ledger.send(news);
    }

    fn load(&self) -> MutexGuard<'_, Load> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_calls_and_a_busy_recorder_are_distinguished() {
        let mut load = Load::default();
        let calls = u32::try_from(MAX_PENDING_OF_ONE).unwrap();
        assert!((0..calls).all(|_| load.admit(1).is_ok()));
        assert_eq!(load.admit(1), Err(AdmissionError::SaidNothing), "the process's own fault");
        let left = u32::try_from(MAX_PENDING).unwrap() - calls;
        assert!((0..left).all(|other| load.admit(2 + other).is_ok()));
        assert_eq!(load.admit(1000), Err(AdmissionError::TooMany), "it waits for room");
    }
}
