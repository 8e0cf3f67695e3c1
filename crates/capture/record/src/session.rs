//! Sessions: the recording of one process.

use std::path::Path;

use tensortap_abi::{DumpLevel, DumpStage};
use tensortap_platform::attach::{Attachment, Hello};

#[cfg(feature = "folder")]
use crate::{FolderOptions, folder};
use crate::{
    RecordError, Summary, ThreadRecorder,
    core::{Core, CoreRef},
    environment, registry,
};

/// The recording of one process, until it is closed or dropped. Clones share one session, which ends with the
/// last of them.
///
/// Any number of threads may use it at the same time.
pub struct Session {
    core: CoreRef,
    is_open: bool,
}

/// Counters of recorded and lost data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// Recorded records.
    pub recorded: u64,
    /// Dropped records or payloads: the recorder has exited, its files are full, or a wait limit was reached.
    pub dropped: u64,
    /// Recorded payload bytes.
    pub bytes: u64,
    /// Dropped payload bytes.
    pub lost_bytes: u64,
    /// Filtered arguments.
    pub filtered: u64,
    /// Handles that got no lane.
    pub refused: u64,
    /// Arguments that could not be captured because their view exceeds its memory.
    pub uncaptured: u64,
}

impl Session {
    /// Attaches to the recorder in the environment; `None` without one. If the process is attached already,
    /// opens that session again.
    ///
    /// The path of the socket must be absolute. It is ignored in a program with more privileges than its
    /// caller.
    ///
    /// # Errors
    /// If the recorder cannot be reached or refuses.
    pub fn attach() -> Result<Option<Session>, RecordError> {
        environment::socket().map(|socket| Session::attach_to(&socket)).transpose()
    }

    /// Attaches to the recorder at `socket`, or opens the existing session of this process again.
    ///
    /// # Errors
    /// As [`Session::attach`].
    pub fn attach_to(socket: &Path) -> Result<Session, RecordError> {
        let hello = || Hello::of_this_process(environment::rank(), environment::ranks());
        let make = || Core::new(Attachment::new(socket, &hello()).map_err(RecordError::Attach)?, None);
        Ok(Session { core: registry::open(make)?, is_open: true })
    }

    /// Opens a session with its own folder and a collector thread in this process. The folder must not exist
    /// or must be empty.
    ///
    /// # Errors
    /// If the folder cannot be written or memory runs out.
    #[cfg(feature = "folder")]
    pub fn in_folder(dir: &Path, options: &FolderOptions) -> Result<Session, RecordError> {
        let (attachment, finish_dump) = folder::start(dir, options)?;
        let core = CoreRef::new(Core::new(attachment, Some(finish_dump))?);
        Ok(Session { core, is_open: true })
    }

    /// A recorder for this thread, with the thread's name.
    ///
    /// # Errors
    /// If all lanes are in use, which is counted, or if the session is closed.
    pub fn thread(&self) -> Result<ThreadRecorder, RecordError> {
        self.named_thread(std::thread::current().name().unwrap_or_default())
    }

    /// A recorder for a thread, or for anything else that records sequentially, such as a queue. The dump
    /// contains the name.
    ///
    /// # Errors
    /// As [`Session::thread`].
    pub fn named_thread(&self, name: &str) -> Result<ThreadRecorder, RecordError> {
        ThreadRecorder::new(self.core.share(), name)
    }

    /// How much is recorded.
    ///
    /// # Errors
    /// In a forked process.
    pub fn level(&self) -> Result<DumpLevel, RecordError> {
        self.core.check()?;
        Ok(self.core.region().level())
    }

    /// Whether every task passes the filter.
    ///
    /// # Errors
    /// In a forked process.
    pub fn wants_all_tasks(&self) -> Result<bool, RecordError> {
        self.core.check()?;
        Ok(self.core.region().wants_all_tasks())
    }

    /// Whether an argument of a passing task passes the filter at a stage.
    ///
    /// # Errors
    /// In a forked process.
    pub fn wants_argument(&self, stage: DumpStage, arg_index: u16) -> Result<bool, RecordError> {
        self.core.check()?;
        Ok(self.core.region().wants_argument(stage, arg_index))
    }

    /// Counters of all threads.
    ///
    /// # Errors
    /// In a forked process.
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

    /// Whether handles can record: not in a forked process, and not after the session was closed.
    pub fn is_alive(&self) -> bool {
        self.core.check().is_ok()
    }

    /// Whether both are the same session.
    pub fn is_same(&self, other: &Session) -> bool {
        self.is_core(&other.core)
    }

    pub(crate) fn is_core(&self, core: &CoreRef) -> bool {
        self.core.as_ptr() == core.as_ptr()
    }

    /// The same session without keeping it open: other handles may end it, and this one is then closed.
    #[must_use]
    pub fn for_a_while(&self) -> Session {
        Session { core: self.core.share(), is_open: false }
    }

    /// Whether this is the only open handle, so that closing it ends the session.
    pub fn is_last(&self) -> bool {
        self.core.opens.get() == 1
    }

    /// Closes the session. The last close ends it: the recorder is notified, and remaining handles record
    /// nothing. A session with its own folder closes its files and returns a summary.
    ///
    /// # Errors
    /// If the recorder has exited, or the files could not be closed.
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
        // A parent's session stays closed in a forked process.
        let is_open = self.core.is_own_process();
        let core = if is_open { registry::open_again(&self.core) } else { self.core.share() };
        Session { core, is_open }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // To see errors, call `close`.
        let _ = self.end();
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("alive", &self.is_alive()).finish_non_exhaustive()
    }
}
