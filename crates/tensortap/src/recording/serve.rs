//! Takes calls of processes, and serves each of them from a thread of its own.

use std::collections::HashMap;
use std::process::ExitStatus;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, SystemTime};

use tensortap_format::timestamp;
use tensortap_platform::attach::{AttachListener, Caller};
use tensortap_sync::Flag;

use super::command::Ended;
use super::roster::Roster;
use super::run_file::{ProcessEntry, RUNNING};
use super::session::{Closed, Ending, NotOpened, Plan, Session};
use crate::Warn;

/// Processes that are recorded at the same time. Each costs three threads and about ten open files.
const MAX_SESSIONS: usize = 256;
/// Calls that may be without an answer at the same time, of all processes and of one.
const MAX_PENDING: usize = 64;
const MAX_PENDING_OF_ONE: usize = 4;
/// A caller says who it is right after it has called.
const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// When many call, it has done so when its call is taken.
const SPEAK_LIMIT: Duration = Duration::from_millis(50);
/// How long it waits until others are done, which takes them moments, or `HELLO_LIMIT` if they say nothing. The process waits 10 s.
const ROOM_LIMIT: Duration = Duration::from_secs(8);
/// How often a session looks whether the recorder is to end; and how long calls wait when none can be taken.
const LOOK: Duration = Duration::from_millis(100);
/// The command's own end is known as soon as its process has ended.
const STATUS_LIMIT: Duration = Duration::from_secs(5);

/// What other threads tell the one that keeps the books.
pub enum News {
    /// The command has ended.
    CommandEnded(ExitStatus),
    /// A signal is to be passed on to the command.
    PassOn(i32),
    /// Every dump is to be closed now, whatever the processes do.
    Close,
    /// Somebody calls. Exactly one of `Attached`, `TurnedAway` and `Refused` follows.
    Called,
    /// It has a folder, and is welcomed once `run.json` says so: then whoever finds what it recorded finds it there, too.
    Attaching(Box<ProcessEntry>, SyncSender<()>),
    /// The process of this folder is being recorded.
    Attached { folder: String },
    /// It is not, because of what it did itself; `folder` if it was attaching.
    TurnedAway { pid: u32, why: String, folder: Option<String> },
    /// It is not, because the recorder cannot.
    Refused { pid: u32, why: String, folder: Option<String> },
    /// The session in this folder is over.
    Left { folder: String, closed: Box<Closed> },
    /// What should be heard at once of the session in this folder.
    Warning { folder: String, what: String },
    /// Calls cannot be taken for the moment.
    Deaf(String),
    /// No more calls come.
    NoMoreCalls,
}

/// What the threads share.
pub struct Serving {
    pub plan: Plan,
    pub listener: AttachListener,
    /// Raised when dumps are to be closed, whatever their processes do.
    pub closing: Flag,
    /// Process of the command once it was started, and how it ended.
    command: OnceLock<u32>,
    ended: Arc<Ended>,
    books: Sender<News>,
    roster: Mutex<Roster>,
    /// Sessions and, of each process, calls without an answer.
    load: Mutex<Load>,
    /// A call has had its answer.
    answered: Condvar,
}

#[derive(Default)]
struct Load {
    sessions: usize,
    pending: HashMap<u32, usize>,
}

impl Load {
    /// Counts a call among those without an answer, if there are not too many.
    fn admit(&mut self, pid: u32) -> Result<(), NotAdmitted> {
        if self.pending.values().sum::<usize>() >= MAX_PENDING {
            return Err(NotAdmitted::TooMany);
        }
        let of_it = self.pending.entry(pid).or_default();
        if *of_it >= MAX_PENDING_OF_ONE {
            return Err(NotAdmitted::SaidNothing);
        }
        *of_it += 1;
        Ok(())
    }
}

/// Why a call is not heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotAdmitted {
    /// As many others are being answered as can be.
    TooMany,
    /// Its process has called before and said nothing yet.
    SaidNothing,
}

/// Why a call is not heard, in words for its process, and whether that is the recorder's doing.
const CALLED_BEFORE: &str = "this process has called before, and those calls have no answer yet";
const BUSY_AND_SILENT: &str =
    "it does not say who it is, while as many others attach as can at the same time";
const BUSY: &str =
    "as many processes are attaching as can be at the same time, and none of them is done; call again";

/// A call without an answer, counted until it has one.
struct Pending<'s> {
    serving: &'s Serving,
    pid: u32,
}

impl Drop for Pending<'_> {
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

/// A session, counted while it lasts.
struct Seat<'s>(&'s Serving);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.load().sessions -= 1;
    }
}

impl Serving {
    pub fn new(plan: Plan, listener: AttachListener, ended: Arc<Ended>, books: Sender<News>) -> Serving {
        Serving {
            plan,
            listener,
            closing: Flag::new(),
            command: OnceLock::new(),
            ended,
            books,
            roster: Mutex::default(),
            load: Mutex::default(),
            answered: Condvar::new(),
        }
    }

    /// Which process the command is.
    pub fn command_is(&self, pid: u32) {
        let _ = self.command.set(pid);
    }

    /// Takes calls until the listener is closed, in a thread of its own.
    pub fn start(self: &Arc<Serving>) -> std::io::Result<JoinHandle<()>> {
        let serving = Arc::clone(self);
        Builder::new().name("tt-attach".into()).spawn(move || serving.take_calls())
    }

    fn take_calls(self: &Arc<Serving>) {
        loop {
            match self.listener.accept(Duration::MAX) {
                Ok(Some(caller)) => self.answer(caller),
                Ok(None) => break,
                Err(error) => {
                    // Too many open files, perhaps: others may close some.
                    self.tell(News::Deaf(error.to_string()));
                    if self.closing.is_raised() {
                        break;
                    }
                    thread::sleep(LOOK);
                }
            }
        }
        self.tell(News::NoMoreCalls);
    }

    /// Does not wait for what the caller says, which a thread of its own hears; only for room, when as many are attaching as can.
    fn answer(self: &Arc<Serving>, caller: Caller) {
        self.tell(News::Called);
        let pid = caller.pid();
        let refuse = |why: &str| {
            caller.refuse(why);
            (pid, why.to_owned(), None)
        };
        match self.admit(&caller) {
            Ok(()) => {}
            Err(why @ BUSY) => {
                let (pid, why, folder) = refuse(why);
                return self.tell(News::Refused { pid, why, folder });
            }
            Err(why) => {
                let (pid, why, folder) = refuse(why);
                return self.tell(News::TurnedAway { pid, why, folder });
            }
        }
        let serving = Arc::clone(self);
        let started = Builder::new().name(format!("tt-process-{pid}")).spawn(move || serving.serve(caller));
        if let Err(error) = started {
            drop(Pending { serving: self, pid });
            let why = format!("no thread could be started for it: {error}");
            self.tell(News::Refused { pid, why, folder: None });
        }
    }

    /// Counts a call. When there are as many as can be, whoever has said who it is waits until one of them has its answer: others that
    /// call meanwhile wait in `connect`.
    fn admit(&self, caller: &Caller) -> Result<(), &'static str> {
        let first = self.load().admit(caller.pid());
        match first {
            Ok(()) => return Ok(()),
            Err(NotAdmitted::SaidNothing) => return Err(CALLED_BEFORE),
            Err(NotAdmitted::TooMany) if !caller.has_spoken(SPEAK_LIMIT) => return Err(BUSY_AND_SILENT),
            Err(NotAdmitted::TooMany) => {}
        }
        let mut admitted = Err(NotAdmitted::TooMany);
        let is_full = |load: &mut Load| {
            admitted = load.admit(caller.pid());
            admitted == Err(NotAdmitted::TooMany) && !self.closing.is_raised()
        };
        let waited = self.answered.wait_timeout_while(self.load(), ROOM_LIMIT, is_full);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        admitted.map_err(|why| if why == NotAdmitted::TooMany { BUSY } else { CALLED_BEFORE })
    }

    fn take_seat(&self) -> Option<Seat<'_>> {
        let mut load = self.load();
        (load.sessions < MAX_SESSIONS).then(|| {
            load.sessions += 1;
            Seat(self)
        })
    }

    /// The whole life of one call.
    fn serve(&self, mut caller: Caller) {
        let pid = caller.pid();
        let pending = Pending { serving: self, pid };
        let hello = match caller.hello(HELLO_LIMIT) {
            Ok(hello) => hello,
            Err(error) => {
                return self.tell(News::TurnedAway { pid, why: error.to_string(), folder: None });
            }
        };
        let Some(_seat) = self.take_seat() else {
            let why = format!("{MAX_SESSIONS} processes are being recorded already");
            caller.refuse(&why);
            return self.tell(News::Refused { pid, why, folder: None });
        };
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
        let opened =
            Session::open(caller, &hello, &self.plan, &folder, self.warn(&folder), || self.enter(entry));
        drop(pending);
        let session = match opened {
            Ok(session) => session,
            Err(NotOpened::CallerGone(why)) => {
                return self.tell(News::TurnedAway { pid, why, folder: Some(folder) });
            }
            Err(NotOpened::Failed(why)) => {
                return self.tell(News::Refused { pid, why, folder: Some(folder) });
            }
        };
        self.tell(News::Attached { folder: folder.clone() });
        let ending = match session.serve(LOOK, || self.closing.is_raised()) {
            Ending::Ended(_) if self.command.get() == Some(&pid) => {
                Ending::Ended(self.ended.wait(STATUS_LIMIT))
            }
            other => other,
        };
        let closed = Box::new(session.close(&ending));
        self.tell(News::Left { folder, closed });
    }

    /// Waits until `run.json` has the process, unless there are so many that it is written now and then.
    fn enter(&self, entry: ProcessEntry) {
        let (written, is_written) = sync_channel(1);
        self.tell(News::Attaching(Box::new(entry), written));
        // Whoever keeps the books says it, or has ended.
        let _ = is_written.recv();
    }

    fn warn(&self, folder: &str) -> Warn {
        let (books, folder) = (self.books.clone(), folder.to_owned());
        Arc::new(move |what| {
            let _ = books.send(News::Warning { folder: folder.clone(), what: what.to_owned() });
        })
    }

    fn tell(&self, news: News) {
        // Who keeps the books ends last; if it has ended, nobody wants to know.
        let _ = self.books.send(news);
    }

    fn load(&self) -> MutexGuard<'_, Load> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_calls_too_often_is_told_from_who_finds_the_recorder_busy() {
        let mut load = Load::default();
        let calls = u32::try_from(MAX_PENDING_OF_ONE).unwrap();
        assert!((0..calls).all(|_| load.admit(1).is_ok()));
        assert_eq!(load.admit(1), Err(NotAdmitted::SaidNothing), "its own doing");
        let left = u32::try_from(MAX_PENDING).unwrap() - calls;
        assert!((0..left).all(|other| load.admit(2 + other).is_ok()));
        assert_eq!(load.admit(1000), Err(NotAdmitted::TooMany), "it waits for room");
    }
}
