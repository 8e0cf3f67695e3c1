//! What the library has: the driver, the session, and what it knows of the program's objects.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use tensortap_queue::{Attached, ByNumber, say};
use tensortap_record::{DumpLevel, DumpStage, QueueId, RecordError, ThreadRecorder};

use crate::{
    allocations::{Allocations, Device},
    calls::{graphs::Graphs, kernels::KernelFacts, modules::Modules, repeats::Repeats},
    content::{Contents, Scratch},
    library::{Driver, SUCCESS, number_of},
    rooms::Pool,
    streams::{ContextId, Stream, Streams},
    table::Textures,
};

/// Bytes of a range that are captured at most, unless the variable says otherwise.
const MAX_RANGE: u64 = 64 << 20;
const MAX_RANGE_VARIABLE: &str = "TENSORTAP_MAX_RANGE";
/// Bytes that may be on their way from devices that our code is not in.
const RING: u64 = 256 << 20;
const RING_VARIABLE: &str = "TENSORTAP_CUDA_RING";

/// The library in this process, once it records.
pub struct Door {
    /// Functions of the driver.
    pub driver: Driver,
    attached: Attached,
    /// Held for a moment, and never while a function of the driver is called.
    state: Mutex<State>,
    pool: OnceLock<Option<Pool>>,
    /// The context for which the pool is registered.
    registered: Mutex<Option<usize>>,
    /// Bytes of a range that are captured at most.
    pub max_range: u64,
    /// Whether content is wanted of anything.
    pub wants_content: bool,
    /// What devices find out about content.
    pub contents: Contents,
}

/// What is known of the program's objects.
#[derive(Default)]
pub struct State {
    /// Memory that lives.
    pub allocations: Allocations,
    /// Streams and events.
    pub streams: Streams,
    /// Streams, as they stand in the dump.
    pub lines: ByNumber<Stream, Arc<StreamState>>,
    /// Kernels that were launched.
    pub kernels: ByNumber<usize, Arc<KernelFacts>>,
    /// Launches that may come again.
    pub repeats: Repeats,
    /// Modules that were loaded.
    pub modules: Modules,
    /// Graphs that can be launched.
    pub graphs: Graphs,
    /// Handles of textures and surfaces, with the contexts that they go with.
    pub textures: HashMap<(Textures, u64), usize>,
    lines_met: u64,
    told: HashSet<&'static str>,
}

impl State {
    /// Whether a value may hold the handle of a texture or a surface. Handles are small numbers, so other values may look like them.
    pub fn may_be_texture(&self, value: &[u8]) -> bool {
        let is_known = |word: &[u8; 8]| {
            let handle = u64::from_le_bytes(*word);
            [Textures::Read, Textures::Written]
                .iter()
                .any(|&kind| self.textures.contains_key(&(kind, handle)))
        };
        !self.textures.is_empty() && value.as_chunks().0.iter().any(is_known)
    }
}

/// A stream.
#[derive(Debug)]
pub struct StreamState {
    /// Its number in the dump.
    pub id: QueueId,
    /// The device it is of.
    pub device: Device,
    /// The context it is of, by handle and by number.
    pub context: (usize, ContextId),
    /// A number that no other stream of this process has, or had.
    pub line: u64,
    /// What it has of the device to work in.
    scratch: Mutex<Scratch>,
    gate: Gate,
}

impl StreamState {
    fn scratch(&self) -> MutexGuard<'_, Scratch> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

static DOOR: OnceLock<Door> = OnceLock::new();

/// Called when the process ends by itself, behind everything that the program lets be called then.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = process_ends;

extern "C" fn process_ends() {
    if let Some(door) = DOOR.get() {
        door.contents.close();
        door.attached.close();
    }
}

/// Lets what is under way be recorded when the process ends by itself, before the driver is gone.
pub fn at_exit() {
    extern "C" fn ends() {
        let ended = std::panic::catch_unwind(|| {
            if let Some(door) = DOOR.get() {
                door.contents.close();
            }
        });
        drop(ended);
    }
    // SAFETY: a function that may be called then.
    let _ = unsafe { libc::atexit(ends) };
}

impl Door {
    /// Begins to record. None where nobody does.
    pub fn open() -> Option<&'static Door> {
        let attached = Attached::new("CUDA")?;
        let Some(driver) = Driver::find() else {
            say(
                "nothing of CUDA is recorded: its driver lacks functions that recording needs (CUDA 11 or later has them)",
            );
            return None;
        };
        let level = attached.session().level().unwrap_or(DumpLevel::Full);
        Some(DOOR.get_or_init(|| Door {
            driver,
            contents: Contents::new(
                level == DumpLevel::Full,
                attached.leaves_out_stored(),
                attached.session().wants_all_tasks().unwrap_or(false),
            ),
            attached,
            state: Mutex::default(),
            pool: OnceLock::new(),
            registered: Mutex::default(),
            max_range: bytes_of(MAX_RANGE_VARIABLE, MAX_RANGE),
            wants_content: matches!(level, DumpLevel::Full | DumpLevel::Hash),
        }))
    }

    /// The library, which records since before any of its functions could be called.
    pub fn get() -> Option<&'static Door> {
        DOOR.get()
    }

    /// What is known of the program's objects.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for content on its way. It is made when first needed, and known to the driver as long as a context is.
    pub fn pool(&self, context: usize) -> Option<&Pool> {
        let pool = self.pool.get_or_init(|| Pool::new(bytes_of(RING_VARIABLE, RING))).as_ref()?;
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        if registered.is_none() {
            *registered = Some(context);
            drop(registered);
            let (start, bytes) = pool.memory();
            let status = self.driver.register(start, bytes);
            if status != SUCCESS {
                self.tell_once("memory for content could not be pinned: copies from the device are slower");
            }
        }
        Some(pool)
    }

    /// Content came from the pool; its room is free.
    pub fn known_pool(&self) -> Option<&Pool> {
        self.pool.get()?.as_ref()
    }

    /// A context goes, and with it that memory was registered for it.
    pub fn context_goes(&self, context: usize) {
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        if *registered == Some(context) {
            *registered = None;
        }
        drop(registered);
        self.streams_go(context);
        self.contents.context_goes(context);
    }

    /// Streams and events of a context go with it: the next context may have the same handles.
    fn streams_go(&self, context: usize) {
        let mut state = self.state();
        let State { lines, streams, textures, graphs, .. } = &mut *state;
        textures.retain(|_, of| *of != context);
        graphs.forget_context(context);
        lines.retain(|stream, line| {
            let stays = line.context.0 != context;
            if !stays {
                streams.forget(*stream);
                streams.forget_context(line.context.1);
            }
            stays
        });
    }

    /// The stream that a call means, met if it is new.
    pub fn stream(&self, stream: Stream, context: (usize, ContextId)) -> Option<Arc<StreamState>> {
        let known = self.state().lines.get(&stream).map(Arc::clone);
        known.or_else(|| self.meet(stream, context))
    }

    fn meet(&self, stream: Stream, context: (usize, ContextId)) -> Option<Arc<StreamState>> {
        let is_blocking = match stream {
            Stream::Made(handle) => self.driver.is_blocking(handle),
            Stream::Legacy(_) | Stream::OfThread(..) => true,
        };
        let (device, device_name, context) = self.home(stream, context);
        let number = {
            let mut state = self.state();
            state.lines_met += 1;
            state.lines_met
        };
        let name = match stream {
            Stream::Legacy(_) => format!("stream {number} ({device_name}, legacy default)"),
            Stream::OfThread(..) => format!("stream {number} ({device_name}, default of a thread)"),
            Stream::Made(_) if is_blocking => format!("stream {number} ({device_name})"),
            Stream::Made(_) => format!("stream {number} ({device_name}, non-blocking)"),
        };
        let id = self.record(|recorder| recorder.queue(&name))?;
        let (scratch, gate) = (Mutex::default(), Gate::default());
        let met = Arc::new(StreamState { id, device, context, line: number, scratch, gate });
        let mut state = self.state();
        // Another thread may have met it meanwhile.
        if !state.streams.meet(stream, context.1, is_blocking) {
            return state.lines.get(&stream).map(Arc::clone);
        }
        state.lines.insert(stream, Arc::clone(&met));
        Some(met)
    }

    /// The device and the context of a stream that a call means in some context, which may be another: copies go into streams of any.
    fn home(&self, stream: Stream, current: (usize, ContextId)) -> (Device, String, (usize, ContextId)) {
        let made_in = match stream {
            Stream::Made(handle) => self.driver.stream_context(handle),
            Stream::Legacy(_) | Stream::OfThread(..) => None,
        };
        let other = made_in.filter(|&context| context != current.0).and_then(|context| {
            let number = number_of(context)?;
            let (device, name) = self.driver.within(context, || self.driver.device()).ok()?;
            Some((device, name, (context, number)))
        });
        other.unwrap_or_else(|| {
            let (device, name) = self.driver.device();
            (device, name, current)
        })
    }

    /// Whether content of an argument is recorded at a stage, as far as filters say.
    pub fn wants_argument(&self, stage: DumpStage, arg: u16) -> bool {
        self.attached.session().wants_argument(stage, arg).unwrap_or(false)
    }

    /// Records in this thread, where that can be.
    pub fn record<T>(&self, call: impl FnOnce(&mut ThreadRecorder) -> Result<T, RecordError>) -> Option<T> {
        self.attached.record(call)
    }

    /// This thread records no more.
    pub fn record_no_more(&self) {
        self.attached.leave();
    }

    /// Says something that need not be said again.
    pub fn tell_once(&self, what: &'static str) {
        if self.state().told.insert(what) {
            say(what);
        }
    }

    /// The same, with a reason.
    pub fn tell_once_because(&self, what: &'static str, why: &str) {
        if self.state().told.insert(what) {
            say(&format!("{what}: {why}"));
        }
    }

    /// There was no room for content on its way.
    pub fn no_room(&self) {
        self.tell_once(
            "content of some arguments is not captured: there is no room for it on its way from the device; \
             give more with TENSORTAP_CUDA_RING, in bytes, or shorten ranges with --max-range",
        );
    }
}

/// Bytes of the ring that were asked for.
pub fn ring_bytes() -> Option<u64> {
    Some(bytes_of(RING_VARIABLE, 0)).filter(|&bytes| bytes > 0)
}

/// Bytes that a variable says.
fn bytes_of(variable: &str, otherwise: u64) -> u64 {
    let said = std::env::var(variable).ok().and_then(|said| said.trim().parse::<u64>().ok());
    said.filter(|&bytes| bytes > 0).unwrap_or(otherwise)
}

/// Lets one command at a time into a stream, with what goes before and behind it.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    opens: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_taken: bool,
    /// Commands that went in although another was going in.
    passed: u64,
    /// Those of them that are going in.
    passing: u64,
    /// Commands that wait: without any nobody is told that it opens, which is a call of the system.
    waiting: u64,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a command waits for another thread's to be in. What holds that up may be something that this thread has yet to do.
const GATE_PATIENCE: Duration = Duration::from_millis(100);

/// A stream, taken until this is dropped.
#[derive(Debug)]
pub struct Taken {
    /// The stream.
    pub stream: Arc<StreamState>,
    is_own: bool,
    /// Commands that had passed others when it was taken.
    passed: u64,
    /// [`Scratch::lets_next`] of the stream when it was taken: what goes in now is the next.
    pub lets_next: Option<u64>,
}

impl Taken {
    /// What the stream has of the device to work in.
    pub fn scratch(&self) -> MutexGuard<'_, Scratch> {
        self.stream.scratch()
    }

    /// Takes a stream, or goes on without after a while.
    pub fn new(stream: Arc<StreamState>) -> Taken {
        let gate = &stream.gate;
        let is_held = |state: &mut GateState| state.is_taken || state.passing > 0;
        let mut state = gate.state();
        if is_held(&mut state) {
            state.waiting += 1;
            let waited = gate.opens.wait_timeout_while(state, GATE_PATIENCE, is_held);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
        let is_own = !is_held(&mut state);
        if is_own {
            state.is_taken = true;
        } else {
            (state.passed, state.passing) = (state.passed + 1, state.passing + 1);
        }
        let passed = state.passed;
        drop(state);
        let lets_next = stream.scratch().lets_next.take();
        Taken { stream, is_own, passed, lets_next }
    }

    /// Whether it goes in although another thread's command is going in.
    pub fn passes(&self) -> bool {
        !self.is_own
    }

    /// Whether nothing of another thread may be between what goes in now and what went in since it was taken.
    pub fn is_alone(&self) -> bool {
        self.is_own && self.stream.gate.state().passed == self.passed
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut state = self.stream.gate.state();
        if self.is_own {
            state.is_taken = false;
        } else {
            state.passing -= 1;
        }
        let is_waited_for = state.waiting > 0;
        drop(state);
        if is_waited_for {
            self.stream.gate.opens.notify_all();
        }
    }
}
