//! What all handles of one attachment share.
#![expect(unsafe_code, reason = "the region lies in a mapping that its users keep alive")]

use std::{
    io::Write as _,
    mem,
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
};

use rustix::event::{PollFd, PollFlags, poll};
use tensortap_abi::LaneRecord;
use tensortap_collector::{CollectError, Summary};
use tensortap_platform::{LINK_PAGE_BYTES, attach::Attachment};
use tensortap_recorder::{Counters, LaneRecorder, Memory, Region, RegionError};
use tensortap_sync::{Counter, Flag, SharedU64};

use crate::{
    RecordError,
    folder::Collecting,
    kernels::MeantKernels,
    link::Link,
    names::{Key, Names},
    sanitizer,
};

const GONE: &str = "the recorder is gone: nothing more is recorded of this process, which goes on without it";

/// One lane, to record in.
pub(crate) type Lane = LaneRecorder<'static, Link>;

/// The memory between this process and its recorder, and what its users share.
pub(crate) struct Core {
    /// Lies in the attachment's memory. Whatever comes from it has a [`CoreRef`] in its link, and so does not outlive that.
    region: Region<'static>,
    pub attachment: Attachment,
    pub names: Names,
    /// Kernels that the recorder means by name.
    pub kernels: Option<MeantKernels>,
    tasks: Counter,
    closed: Flag,
    said: Flag,
    /// Whether the recorder was found gone.
    pub gone: Flag,
    /// Handles that found no lane.
    pub refused: Counter,
    /// Arguments whose view could not be captured.
    pub uncaptured: Counter,
    /// How often the session was opened and not closed; see `registry`.
    pub opens: SharedU64,
    /// The thread that collects, where the session has a folder.
    collecting: Mutex<Option<Collecting>>,
}

impl Core {
    /// Opens the region that the host has set up in the attachment's memory.
    pub fn new(attachment: Attachment, collecting: Option<Collecting>) -> Result<Core, RecordError> {
        let (start, bytes) = (attachment.start().as_ptr(), attachment.memory().len());
        // SAFETY: the mapping lives as long as the attachment, which lives as long as this value, and whatever is made of the region
        // keeps that alive through its link. An attachment is opened here and nowhere else. That buffers can be read is the promise of
        // whoever makes a `Tensor`.
        let memory = unsafe { Memory::of_process(start, bytes) };
        let region = Region::open(memory, LINK_PAGE_BYTES).map_err(RecordError::Region)?;
        let kernels = MeantKernels::new(attachment.kernels());
        Ok(Core {
            region,
            kernels,
            attachment,
            names: Names::default(),
            tasks: Counter::new(),
            closed: Flag::new(),
            said: Flag::new(),
            gone: Flag::new(),
            refused: Counter::new(),
            uncaptured: Counter::new(),
            opens: SharedU64::new(1),
            collecting: Mutex::new(collecting),
        })
    }

    /// Whether this is the process that attached.
    #[inline]
    pub fn is_own_process(&self) -> bool {
        self.attachment.is_own_process()
    }

    /// Whether there is anything to record in. To be asked before the region is touched.
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

    /// A task id that nobody else has, from 1.
    pub fn next_task(&self) -> u64 {
        self.tasks.next() + 1
    }

    /// Counts a call that was refused for what it was given. What of it is in the dump is counted there.
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

    /// Nobody drains the region any more: every lane discards from now on, and that is said once.
    pub fn host_is_gone(&self) {
        self.region.discard();
        if !self.closed.is_raised() {
            self.gone.raise();
            self.say(GONE);
        }
    }

    /// One sentence in the life of a session.
    pub fn say(&self, what: &str) {
        if self.said.raise() {
            say(what);
        }
    }

    /// Ends the session for all of its handles.
    pub fn close(&self) -> Result<Option<Summary>, RecordError> {
        if !self.closed.raise() {
            return Ok(None);
        }
        // Nothing is drained from here on: who still records must not wait.
        self.region.discard();
        if self.attachment.is_host_gone() {
            self.gone.raise();
            self.say(GONE);
            return Err(RecordError::RecorderGone);
        }
        self.attachment.goodbye();
        let collecting = self.collecting.lock().unwrap_or_else(PoisonError::into_inner).take();
        collecting
            .map(Collecting::finish)
            .transpose()
            .map_err(|error: CollectError| RecordError::Collect(error))
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Whatever anybody did with it is done.
        sanitizer::acquire(&raw const *self);
    }
}

/// Writes a line to standard error, unless nobody would read it: that would end a program that did nothing wrong.
pub(crate) fn say(what: &str) {
    let stderr = std::io::stderr();
    let mut files = [PollFd::new(&stderr, PollFlags::OUT)];
    let writable = poll(&mut files, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }))
        .is_ok_and(|ready| ready == 1)
        && files[0].revents() == PollFlags::OUT;
    if writable {
        // Who cannot be told is not.
        let _ = writeln!(stderr.lock(), "tensortap: {what}");
    }
}

/// A share in a [`Core`]. In a process that was forked it is never the last: there the mapping is not, and must not be taken for
/// whatever lies at its address now.
pub(crate) struct CoreRef(Arc<Core>);

impl CoreRef {
    pub fn new(core: Core) -> CoreRef {
        CoreRef(Arc::new(core))
    }

    pub fn share(&self) -> CoreRef {
        CoreRef(Arc::clone(&self.0))
    }

    /// Where it lies, as long as somebody has a share.
    pub fn as_ptr(&self) -> *mut Core {
        Arc::as_ptr(&self.0).cast_mut()
    }

    /// Another share of what [`CoreRef::as_ptr`] gave.
    ///
    /// # Safety
    /// Somebody has a share during this call.
    pub unsafe fn share_of(core: *mut Core) -> CoreRef {
        // SAFETY: the caller's promise; it was made by `Arc::new`.
        unsafe {
            Arc::increment_strong_count(core);
            CoreRef(Arc::from_raw(core))
        }
    }

    /// Leases a lane, and says who has it.
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
        // What the lane's last holder wrote there is this one's now.
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

    /// The number of a text, which is defined in `lane` if it is new, and whether it is defined now.
    pub fn string(&self, lane: &mut Lane, text: &str) -> (u32, bool) {
        let key = Key::String(text.into());
        self.define(&key, lane, |lane, id| lane.define_string(id, text))
    }

    /// The number of anything, which is defined in `lane` if it is new, and whether it is defined now.
    pub fn define(
        &self,
        key: &Key,
        lane: &mut Lane,
        define: impl FnOnce(&mut Lane, u32) -> tensortap_recorder::Outcome,
    ) -> (u32, bool) {
        let (id, is_new) = self.names.number(key);
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
