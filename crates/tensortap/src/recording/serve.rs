//! Takes calls of processes, and serves each of them from a thread of its own.

use std::collections::HashMap;
use std::process::ExitStatus;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, SystemTime};

use tensortap_format::timestamp;
use tensortap_platform::attach::{AttachListener, Caller};
use tensortap_sync::Flag;

use super::command::Ended;
use super::roster::Roster;
use super::run_file::{ProcessEntry, RUNNING};
use super::session::{Closed, Ending, Plan, Session};
use crate::Warn;

/// Processes that are recorded at the same time. Each costs three threads and about ten open files.
const MAX_SESSIONS: usize = 256;
/// Calls that may be without an answer at the same time, of all processes and of one.
const MAX_PENDING: usize = 64;
const MAX_PENDING_OF_ONE: usize = 4;
/// A caller says who it is right after it has called.
const HELLO_LIMIT: Duration = Duration::from_secs(5);
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
    /// Somebody calls. Exactly one of the next three follows.
    Called,
    /// It is being recorded.
    Attached(Box<ProcessEntry>),
    /// It is not, because of what it said itself.
    TurnedAway { pid: u32, why: String },
    /// It is not, because the recorder cannot.
    Refused { pid: u32, why: String },
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
    /// As many others are being answered as can be: the recorder's doing.
    TooMany,
    /// Its process has called before and said nothing yet: its own.
    SaidNothing,
}

impl NotAdmitted {
    fn words(self) -> &'static str {
        match self {
            NotAdmitted::TooMany => "as many processes are attaching as can be at the same time; call again",
            NotAdmitted::SaidNothing => "this process has called before, and those calls have no answer yet",
        }
    }
}

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

    /// Never waits for the caller: what it says is heard by a thread of its own.
    fn answer(self: &Arc<Serving>, caller: Caller) {
        self.tell(News::Called);
        let pid = caller.pid();
        let admitted = self.load().admit(pid);
        if let Err(not_admitted) = admitted {
            let why = not_admitted.words();
            caller.refuse(why);
            let why = why.into();
            return self.tell(match not_admitted {
                NotAdmitted::TooMany => News::Refused { pid, why },
                NotAdmitted::SaidNothing => News::TurnedAway { pid, why },
            });
        }
        let serving = Arc::clone(self);
        let started = Builder::new().name(format!("tt-process-{pid}")).spawn(move || serving.serve(caller));
        if let Err(error) = started {
            drop(Pending { serving: self, pid });
            self.tell(News::Refused { pid, why: format!("no thread could be started for it: {error}") });
        }
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
            Err(error) => return self.tell(News::TurnedAway { pid, why: error.to_string() }),
        };
        let Some(_seat) = self.take_seat() else {
            let why = format!("{MAX_SESSIONS} processes are being recorded already");
            caller.refuse(&why);
            return self.tell(News::Refused { pid, why });
        };
        let attached_at = timestamp(SystemTime::now());
        let folder = self.roster.lock().unwrap_or_else(PoisonError::into_inner).name(pid, hello.rank);
        let opened = Session::open(caller, &hello, &self.plan, &folder, self.warn(&folder));
        drop(pending);
        let session = match opened {
            Ok(session) => session,
            Err(why) => return self.tell(News::Refused { pid, why }),
        };
        self.tell(News::Attached(Box::new(ProcessEntry {
            folder: folder.clone(),
            pid,
            rank: hello.rank,
            name: hello.name,
            status: RUNNING.into(),
            attached_at,
            ..ProcessEntry::default()
        })));
        let ending = match session.serve(LOOK, || self.closing.is_raised()) {
            Ending::Ended(_) if self.command.get() == Some(&pid) => {
                Ending::Ended(self.ended.wait(STATUS_LIMIT))
            }
            other => other,
        };
        let closed = Box::new(session.close(&ending));
        self.tell(News::Left { folder, closed });
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
        assert_eq!(load.admit(1000), Err(NotAdmitted::TooMany), "the recorder's: the status says so");
    }
}
