//! State shared by all handles of one attachment.
#![expect(unsafe_code, reason = "the region is in a mapping that its users keep alive")]

use std::{
    io::Write as _,
    mem,
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
};

use rustix::event::{PollFd, PollFlags, poll};
use tensortap_abi::LaneRecord;
use tensortap_platform::{LINK_PAGE_BYTES, attach::Attachment};
use tensortap_recorder::{Counters, LaneRecorder, Memory, Region, RegionError};
use tensortap_sync::{Counter, Flag, SharedU64};

use crate::{
    RecordError,
    enclosure::OpenTasks,
    folder::{FinishDump, Summary},
    kernels::KernelNameFilter,
    link::Link,
    names::{Key, Names},
    sanitizer,
    task_ids::TaskIds,
};

const GONE: &str = "the recorder has exited: this process continues without recording";

/// One lane for recording.
pub(crate) type Lane = LaneRecorder<'static, Link>;

/// The memory shared with the recorder, and the state shared by its users.
pub(crate) struct Core {
    /// The region in the attachment's memory. Everything made from it has a [`CoreRef`] in its link, so it
    /// does not outlive the memory.
    region: Region<'static>,
    pub attachment: Attachment,
    pub names: Names,
    ids: TaskIds,
    pub open: OpenTasks,
    /// Kernels that the recorder selects by name.
    pub kernels: Option<KernelNameFilter>,
    closed: Flag,
    said: Flag,
    /// Whether the recorder has exited.
    pub gone: Flag,
    /// Number of handles that got no lane.
    pub refused: Counter,
    /// Number of arguments that could not be captured.
    pub uncaptured: Counter,
    /// Number of open sessions; see `registry`.
    pub opens: SharedU64,
    /// Waits for the collector of a session with its own folder. A closure keeps the collector out of libraries that
    /// never open such a session, whatever features cargo builds them with.
    finish_dump: Mutex<Option<FinishDump>>,
}

impl Core {
    /// Opens the region that the host prepared in the attachment's memory.
    pub fn new(attachment: Attachment, finish_dump: Option<FinishDump>) -> Result<Core, RecordError> {
        let (start, bytes) = (attachment.start().as_ptr(), attachment.memory().len());
        // SAFETY: the mapping lives as long as the attachment, which lives as long as this value; everything
        // made from the region keeps it alive through its link. Only this function opens an attachment, and
        // other libraries of the process join the region. The maker of a `Tensor` promises that its buffer is
        // readable.
        let memory = unsafe { Memory::of_process(start, bytes) };
        let region = match attachment.is_shared() {
            true => Region::join(memory, LINK_PAGE_BYTES),
            false => Region::open(memory, LINK_PAGE_BYTES),
        };
        let region = region.map_err(RecordError::Region)?;
        let kernels = KernelNameFilter::new(attachment.kernels());
        Ok(Core {
            region,
            kernels,
            attachment,
            names: Names::default(),
            ids: TaskIds::default(),
            open: OpenTasks::default(),
            closed: Flag::new(),
            said: Flag::new(),
            gone: Flag::new(),
            refused: Counter::new(),
            uncaptured: Counter::new(),
            opens: SharedU64::new(1),
            finish_dump: Mutex::new(finish_dump),
        })
    }

    /// Whether this is the process that attached, not a fork of it.
    #[inline]
    pub fn is_own_process(&self) -> bool {
        self.attachment.is_own_process()
    }

    /// Checks that recording is possible. Must be called before the region is accessed.
    #[inline]
    pub fn check(&self) -> Result<(), RecordError> {
        if !self.is_own_process() {
            return Err(RecordError::Forked);
        }
        if self.closed.is_raised() { Err(RecordError::Closed) } else { Ok(()) }
    }

    pub fn region(&self) -> &Region<'static> {
        &self.region
    }

    /// A task id, from 1. No other library of this process gets it.
    #[inline]
    pub fn next_task(&self) -> u64 {
        self.ids.assign(&self.region)
    }

    /// The id in the dump of a task whose id the program sets.
    #[inline]
    pub fn task_id(&self, id: u64) -> u64 {
        self.ids.in_dump(id, &self.region, self.attachment.earlier())
    }

    /// Counts a call that was refused because of its arguments. Arguments in the dump are counted there.
    pub fn refuse(&self, error: &RecordError) {
        let is_for_its_arguments = matches!(
            error,
            RecordError::BadArgument { .. } | RecordError::TooLarge { .. } | RecordError::NotReserved { .. }
        );
        if is_for_its_arguments && self.is_own_process() {
            self.attachment.refuse_call(error);
        }
    }

    pub fn counters(&self) -> Counters {
        self.region.counters()
    }

    /// The recorder has exited: every lane discards its records from now on. Reported once.
    pub fn host_is_gone(&self) {
        self.region.discard();
        if !self.closed.is_raised() {
            self.gone.raise();
            self.say(GONE);
        }
    }

    /// Prints a message, at most one per session.
    pub fn say(&self, what: &str) {
        if self.said.raise() {
            say(what);
        }
    }

    /// Ends the session for all its handles.
    pub fn close(&self) -> Result<Option<Summary>, RecordError> {
        if !self.closed.raise() {
            return Ok(None);
        }
        self.leave_all(None);
        if self.attachment.is_host_gone() {
            self.gone.raise();
            self.say(GONE);
            return Err(RecordError::RecorderGone);
        }
        self.attachment.goodbye();
        let finish_dump = self.finish_dump.lock().unwrap_or_else(PoisonError::into_inner).take();
        finish_dump.map(|finish| finish()).transpose()
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // All other uses have ended.
        sanitizer::acquire(&raw const *self);
    }
}

/// Writes a line to standard error, unless that would fail or block: a broken pipe would end the program.
pub(crate) fn say(what: &str) {
    let stderr = std::io::stderr();
    let mut files = [PollFd::new(&stderr, PollFlags::OUT)];
    let writable = poll(&mut files, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }))
        .is_ok_and(|ready| ready == 1)
        && files[0].revents() == PollFlags::OUT;
    if writable {
        // Nothing to do if the message cannot be written.
        let _ = writeln!(stderr.lock(), "tensortap: {what}");
    }
}

/// A shared reference to a [`Core`]. In a forked process it is never the last one: the mapping does not exist
/// there, and a different mapping at its address must not be unmapped.
pub(crate) struct CoreRef(Arc<Core>);

impl CoreRef {
    pub fn new(core: Core) -> CoreRef {
        CoreRef(Arc::new(core))
    }

    pub fn share(&self) -> CoreRef {
        CoreRef(Arc::clone(&self.0))
    }

    /// Its address, valid while a reference exists.
    pub fn as_ptr(&self) -> *mut Core {
        Arc::as_ptr(&self.0).cast_mut()
    }

    /// Another reference, from the address of [`CoreRef::as_ptr`].
    ///
    /// # Safety
    /// A reference exists during this call.
    pub unsafe fn share_of(core: *mut Core) -> CoreRef {
        // SAFETY: the caller's promise; `Arc::new` created it.
        unsafe {
            Arc::increment_strong_count(core);
            CoreRef(Arc::from_raw(core))
        }
    }

    /// Leases a lane and records its owner.
    pub fn lease(&self, name: &str) -> Result<Lane, RecordError> {
        self.check()?;
        let leased = self.region.lease(Link::new(self.share()));
        let mut lane = leased.map_err(|error| {
            self.refused.next();
            self.attachment.refuse_thread();
            match error {
                RegionError::NoLaneFree { lanes } => RecordError::NoLane { lanes },
                other => RecordError::Region(other),
            }
        })?;
        // Take over the memory written by the lane's previous owner.
        sanitizer::acquire(self.as_ptr());
        let name = if name.is_empty() { 0 } else { self.string(&mut lane, name).0 };
        let (tid, number) = (rustix::thread::gettid().as_raw_nonzero().get(), lane.lane());
        let tid = u64::try_from(tid).unwrap_or(0);
        lane.define(LaneRecord { tid, lane: number, name, ..LaneRecord::default() });
        Ok(lane)
    }

    /// Returns a lane.
    pub fn give_back(&self, lane: &mut Lane) {
        sanitizer::release(self.as_ptr());
        lane.flush();
    }

    /// The number of a text, and whether it is defined. A new text is defined in `lane`.
    pub fn string(&self, lane: &mut Lane, text: &str) -> (u32, bool) {
        let key = Key::String(text.into());
        self.define(&key, lane, |lane, id| lane.define_string(id, text))
    }

    /// The number of a key, and whether it is defined. A new key is defined in `lane`.
    pub fn define(
        &self,
        key: &Key,
        lane: &mut Lane,
        define: impl FnOnce(&mut Lane, u32) -> tensortap_recorder::Outcome,
    ) -> (u32, bool) {
        let (id, is_new) = self.names.number(key, |kind| self.region.next_number(kind));
        let is_lost = is_new && define(lane, id) != tensortap_recorder::Outcome::Recorded;
        if is_lost {
            self.names.lost(key);
        }
        (id, !is_lost)
    }
}

impl Deref for CoreRef {
    type Target = Core;

    #[inline]
    fn deref(&self) -> &Core {
        &self.0
    }
}

impl Drop for CoreRef {
    fn drop(&mut self) {
        if !self.is_own_process() {
            mem::forget(Arc::clone(&self.0));
        }
        sanitizer::release(self.as_ptr());
    }
}
