//! Content that is hashed, measured, compared and kept where it lies: on the device.
//!
//! Before and behind a command one kernel of ours goes into its stream and puts hash and statistics of every range into memory of this process, with a word that says so
//! (`side.rs`). Where payloads are wanted, it also decides which content is new, and a second kernel copies just that into a ring on the device. A thread of ours (`harvest.rs`) looks for those
//! words, records what they tell, and lets new content be copied from the ring into the recording's own memory by a stream of ours (`moving.rs`). Nothing waits for the device.

mod device;
mod harvest;
mod moving;
mod pending;
mod scratch;
mod side;

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use tensortap_queue::ByNumber;
use tensortap_record::{RecordError, ThreadRecorder};
use tensortap_sync::{Counter, Flag};

use crate::{door::Door, rooms::Pool};

pub use device::{Device, is_loading};
use pending::Pending;
pub use pending::Seen;
pub use scratch::Scratch;
pub use side::{Asked, NotSeen, Sight, are_on, can_be_seen, end, enqueue, keep_apart};

/// Bytes of words and findings on their way.
const FINDINGS: u64 = 16 << 20;

/// What is known of a context.
enum Context {
    /// It is there, and our code is not in it yet.
    New,
    /// Our code is in it.
    Ready(Arc<Device>),
    /// Our code cannot be in it.
    Without,
}

/// Everything about content of all contexts.
pub struct Contents {
    /// Whether payloads are wanted.
    pub wants_payloads: bool,
    /// Whether the device may take content for stored: not where equal content is stored more than once.
    compares: bool,
    /// Whether a side may let the next begin beside it: not where filters leave launches out, which may ask for that and then run beside it.
    lets_next: bool,
    contexts: Mutex<ByNumber<usize, Context>>,
    /// Whether there is more than one context.
    has_several: Flag,
    /// Calls that may have put something into a stream of which nothing of ours is before or behind.
    passed_by: Counter,
    /// Whether a context waits for our code.
    has_new: Flag,
    findings: OnceLock<Option<Pool>>,
    tickets: Counter,
    inbox: Mutex<Inbox>,
    /// Told when something comes into the inbox, and when the last of it was recorded.
    changed: Condvar,
    closing: Flag,
    /// Up while our thread waits for the recorder, which is alive as long as it does: what it has frees what others wait for.
    waits_for_recorder: Flag,
    process: u32,
}

/// What goes to the thread that records.
#[derive(Default)]
struct Inbox {
    sides: Vec<Pending>,
    /// Whether the thread waits for more.
    sleeps: bool,
    is_started: bool,
    /// Whether it has ended, or never was.
    is_over: bool,
    /// How often something was recorded.
    progress: u64,
}

/// At the end of the process, what is under way is waited for so long without anything of it being recorded.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long a process that ends waits for one call of the driver: pinning the memory that content goes to takes longer than a short program runs.
const STUCK: Duration = Duration::from_secs(5);

impl Contents {
    /// Nothing yet: whether payloads are wanted, whether what is stored is left out, and whether every launch is looked at.
    pub fn new(wants_payloads: bool, compares: bool, sees_all: bool) -> Contents {
        Contents {
            wants_payloads,
            compares,
            lets_next: sees_all,
            contexts: Mutex::default(),
            has_several: Flag::new(),
            passed_by: Counter::new(),
            has_new: Flag::new(),
            findings: OnceLock::new(),
            tickets: Counter::new(),
            inbox: Mutex::default(),
            changed: Condvar::new(),
            closing: Flag::new(),
            waits_for_recorder: Flag::new(),
            process: std::process::id(),
        }
    }

    fn contexts(&self) -> MutexGuard<'_, ByNumber<usize, Context>> {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn findings(&self) -> Option<&Pool> {
        self.findings.get_or_init(|| Pool::new(FINDINGS)).as_ref()
    }

    /// A context is made. Our code goes into it as soon as the call that made it is over.
    pub fn context_comes(&self, context: usize) {
        let mut contexts = self.contexts();
        contexts.insert(context, Context::New);
        if contexts.len() > 1 {
            // For good: memory of one that has gone may be known yet.
            self.has_several.raise();
        }
        drop(contexts);
        self.has_new.raise();
    }

    /// A context goes, and with it all that lay in it.
    pub fn context_goes(&self, context: usize) {
        let gone = self.contexts().remove(&context);
        if let Some(Context::Ready(device)) = gone {
            device.goes();
        }
    }

    /// A call is over: our code goes into its context, if it is not there.
    pub fn call_over(&self, door: &'static Door, context: usize) {
        if !self.has_new.is_raised() || context == 0 {
            return;
        }
        {
            let mut contexts = self.contexts();
            if !matches!(contexts.get(&context), Some(Context::New)) {
                return;
            }
            // Whoever asks meanwhile goes without.
            contexts.insert(context, Context::Without);
        }
        let loaded = device::loading(|| Device::load(door, self, context));
        let mut contexts = self.contexts();
        match loaded {
            Ok(device) => {
                contexts.insert(context, Context::Ready(Arc::new(device)));
                drop(contexts);
                self.start(door);
            }
            Err(why) => {
                let none_is_new = !contexts.values().any(|context| matches!(context, Context::New));
                if none_is_new {
                    self.has_new.lower();
                }
                drop(contexts);
                door.tell_once_because(
                    "content is copied to this process and hashed here, for our code is not in the device",
                    &why,
                );
                return;
            }
        }
        let contexts = self.contexts();
        if !contexts.values().any(|context| matches!(context, Context::New)) {
            self.has_new.lower();
        }
    }

    /// The device of a context, where our code is.
    pub fn device(&self, context: usize) -> Option<Arc<Device>> {
        if self.closing.is_raised() {
            return None;
        }
        match self.contexts().get(&context) {
            Some(Context::Ready(device)) => Some(Arc::clone(device)),
            _ => None,
        }
    }

    /// All devices that our code is in.
    fn devices(&self) -> Vec<Arc<Device>> {
        let contexts = self.contexts();
        let ready = contexts.values().filter_map(|context| match context {
            Context::Ready(device) => Some(Arc::clone(device)),
            _ => None,
        });
        ready.collect()
    }

    /// Whether memory may lie on another device than that of a command.
    fn has_several(&self) -> bool {
        self.has_several.is_raised()
    }

    /// A call may put something into a stream of which nothing of ours is before or behind.
    pub fn passes_by(&self) {
        self.passed_by.next();
    }

    /// Starts the thread that records.
    fn start(&self, door: &'static Door) {
        let mut inbox = self.inbox();
        if inbox.is_started {
            return;
        }
        inbox.is_started = true;
        let thread = std::thread::Builder::new().name("tt-content".to_owned());
        inbox.is_over = thread.spawn(move || harvest::run(door)).is_err();
        drop(inbox);
        crate::door::at_exit();
    }

    /// Lets our thread record, which may take as long as the recorder lives.
    fn record<T>(
        &self,
        door: &Door,
        call: impl FnOnce(&mut ThreadRecorder) -> Result<T, RecordError>,
    ) -> Option<T> {
        self.waits_for_recorder.raise();
        let recorded = door.record(call);
        self.waits_for_recorder.lower();
        recorded
    }

    /// Whether what is waited for depends on the recorder alone.
    fn is_recorder_slow(&self) -> bool {
        self.waits_for_recorder.is_raised()
    }

    /// Hands a side over that is in its stream.
    fn hand_over(&self, side: Pending) {
        let mut inbox = self.inbox();
        inbox.sides.push(side);
        if inbox.sleeps {
            self.changed.notify_all();
        }
    }

    /// The process ends: what is under way is recorded while it comes, and nothing more is taken.
    pub fn close(&self) {
        if self.process != std::process::id() || !self.closing.raise() {
            return;
        }
        let mut inbox = self.inbox();
        if !inbox.is_started {
            return;
        }
        self.changed.notify_all();
        let mut seen = (inbox.progress, Instant::now());
        while !inbox.is_over {
            let waited = self.changed.wait_timeout(inbox, PATIENCE / 4);
            inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
            if inbox.progress != seen.0 {
                seen = (inbox.progress, Instant::now());
            } else if seen.1.elapsed() > STUCK {
                // It gives up by itself before that, unless a call of the driver does not return.
                return;
            }
        }
    }
}
