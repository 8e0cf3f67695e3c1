//! What a process has with its recorder.

use std::path::Path;

use tensortap_abi::{DumpLevel, DumpStage};
use tensortap_collector::Summary;
use tensortap_platform::attach::{Attachment, Hello};

use crate::{
    FolderOptions, RecordError, ThreadRecorder,
    core::{Core, CoreRef},
    environment, folder, registry,
};

/// The recording of one process, until it is closed or dropped. Clones are the same session, which ends with the last of them.
///
/// It may be used by any number of threads at a time.
pub struct Session {
    core: CoreRef,
    is_open: bool,
}

/// What a session has recorded and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// Records that were made.
    pub recorded: u64,
    /// Records, or payloads of records, that were dropped: the recorder was gone or its files full, or nobody may wait for it.
    pub dropped: u64,
    /// Payload bytes that were recorded.
    pub bytes: u64,
    /// Payload bytes that were dropped.
    pub lost_bytes: u64,
    /// Arguments that a filter kept out.
    pub filtered: u64,
    /// Handles that found no lane.
    pub refused: u64,
    /// Arguments that could not be captured: their view left its memory.
    pub uncaptured: u64,
}

impl Session {
    /// Attaches to the recorder that the environment names; none if it names none. Where this process is attached already, that
    /// session is opened once more.
    ///
    /// The socket's path must be absolute, and is ignored in a program that has more rights than whoever started it.
    ///
    /// # Errors
    /// When the recorder cannot be reached or refuses.
    pub fn attach() -> Result<Option<Session>, RecordError> {
        environment::socket().map(|socket| Session::attach_to(&socket)).transpose()
    }

    /// Attaches to the recorder that listens at `socket`, or opens the session once more that this process has.
    ///
    /// # Errors
    /// As [`Session::attach`].
    pub fn attach_to(socket: &Path) -> Result<Session, RecordError> {
        let hello = || Hello::of_this_process(environment::rank());
        let make = || Core::new(Attachment::new(socket, &hello()).map_err(RecordError::Attach)?, None);
        Ok(Session { core: registry::open(make)?, is_open: true })
    }

    /// A session that collects into a folder of its own, with a thread of this process. The folder must not exist or be empty.
    ///
    /// # Errors
    /// When the folder cannot be written or the memory cannot be had.
    pub fn in_folder(dir: &Path, options: &FolderOptions) -> Result<Session, RecordError> {
        let (attachment, collecting) = folder::start(dir, options)?;
        let core = CoreRef::new(Core::new(attachment, Some(collecting))?);
        Ok(Session { core, is_open: true })
    }

    /// A recorder for this thread, named after it.
    ///
    /// # Errors
    /// When all lanes are taken, which is counted, or the session is closed.
    pub fn thread(&self) -> Result<ThreadRecorder, RecordError> {
        self.named_thread(std::thread::current().name().unwrap_or_default())
    }

    /// A recorder for a thread, or for anything else that records one thing after another. Where it goes, it records; what it is called stands in the
    /// dump.
    ///
    /// # Errors
    /// As [`Session::thread`].
    pub fn named_thread(&self, name: &str) -> Result<ThreadRecorder, RecordError> {
        ThreadRecorder::new(self.core.share(), name)
    }

    /// How much is recorded.
    ///
    /// # Errors
    /// In a process that was forked.
    pub fn level(&self) -> Result<DumpLevel, RecordError> {
        self.core.check()?;
        Ok(self.core.region().level())
    }

    /// Whether filters let every task pass.
    ///
    /// # Errors
    /// In a process that was forked.
    pub fn wants_all_tasks(&self) -> Result<bool, RecordError> {
        self.core.check()?;
        Ok(self.core.region().wants_all_tasks())
    }

    /// Whether a filter lets an argument pass at a stage, of a task that it lets pass.
    ///
    /// # Errors
    /// In a process that was forked.
    pub fn wants_argument(&self, stage: DumpStage, arg_index: u16) -> Result<bool, RecordError> {
        self.core.check()?;
        Ok(self.core.region().wants_argument(stage, arg_index))
    }

    /// What was recorded and lost so far, by all threads.
    ///
    /// # Errors
    /// In a process that was forked.
    pub fn counters(&self) -> Result<SessionCounters, RecordError> {
        if !self.core.is_own_process() {
            return Err(RecordError::Forked);
        }
        let counters = self.core.counters();
        Ok(SessionCounters {
            recorded: counters.records,
            dropped: counters.dropped_no_buffer + counters.dropped_no_space + counters.dropped_no_host,
            bytes: counters.payload_bytes,
            lost_bytes: counters.dropped_bytes,
            filtered: counters.filtered_records,
            refused: self.core.refused.count(),
            uncaptured: self.core.uncaptured.count(),
        })
    }

    /// Whether handles can record. Not so in a process that was forked, nor once the session was closed.
    pub fn is_alive(&self) -> bool {
        self.core.check().is_ok()
    }

    /// Whether both are one session.
    pub fn is_same(&self, other: &Session) -> bool {
        self.is_core(&other.core)
    }

    pub(crate) fn is_core(&self, core: &CoreRef) -> bool {
        self.core.as_ptr() == core.as_ptr()
    }

    /// The same session, without keeping it open: it ends as if this were not there, and this is closed then.
    #[must_use]
    pub fn for_a_while(&self) -> Session {
        Session { core: self.core.share(), is_open: false }
    }

    /// Whether nobody else has the session open, so that to close this ends it.
    pub fn is_last(&self) -> bool {
        self.core.opens.get() == 1
    }

    /// Closes the session; if it was opened several times, the last close counts. Then the recorder is told that nothing more comes, and handles
    /// that are left record nothing. A session with a folder of its own has closed its files when this returns, and says what they hold.
    ///
    /// # Errors
    /// When the recorder was gone by then, or the files could not be closed.
    pub fn close(mut self) -> Result<Option<Summary>, RecordError> {
        self.end()
    }

    fn end(&mut self) -> Result<Option<Summary>, RecordError> {
        let is_last =
            std::mem::take(&mut self.is_open) && self.core.is_own_process() && registry::close(&self.core);
        if is_last { self.core.close() } else { Ok(None) }
    }
}

impl Clone for Session {
    fn clone(&self) -> Session {
        // A session that is dead in this process stays so.
        let is_open = self.core.is_own_process();
        let core = if is_open { registry::open_again(&self.core) } else { self.core.share() };
        Session { core, is_open }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Who wants to know closes it.
        let _ = self.end();
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("alive", &self.is_alive()).finish_non_exhaustive()
    }
}
