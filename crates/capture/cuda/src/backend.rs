//! The CUDA backend: the driver, the recording session, and the program's objects.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use tensortap_queue::{NumberMap, ProcessSession, number_from_environment, print_note};
use tensortap_record::{DumpLevel, DumpStage, QueueId, RecordError, ThreadRecorder};

use crate::{
    allocations::{Allocations, Device},
    calls::{graphs::Graphs, kernels::KernelFacts, launch_cache::LaunchCache, modules::Modules},
    library::{Driver, SUCCESS, number_of},
    pinned_pool::PinnedPool,
    snapshot::{Snapshots, StreamScratch},
    stream_guard::Gate,
    streams::{ContextId, Stream, Streams},
    table::Textures,
};

/// Default limit for the captured bytes of one range.
const MAX_RANGE: u64 = 64 << 20;
const MAX_RANGE_VARIABLE: &str = "TENSORTAP_MAX_RANGE";
/// Default size of the pinned staging memory, which is used for devices without the backend's kernels.
const RING: u64 = 256 << 20;
const RING_VARIABLE: &str = "TENSORTAP_CUDA_RING";
pub const NO_ROOM: &str = "content of some arguments is not captured: the staging memory is full. \
    Set TENSORTAP_CUDA_RING to more bytes, or limit the size of ranges with --max-range";

/// The CUDA backend of this process. It exists only if the process is recorded.
pub struct CudaBackend {
    /// Functions of the driver.
    pub driver: Driver,
    /// The recording session.
    pub session: ProcessSession,
    /// Never locked while a function of the driver is called.
    state: Mutex<State>,
    pool: OnceLock<Option<PinnedPool>>,
    /// The context for which the staging memory was pinned.
    registered: Mutex<Option<usize>>,
    /// Limit for the captured bytes of one range.
    pub max_range: u64,
    /// Whether the level records content, hashes or statistics.
    pub wants_content: bool,
    /// Snapshots that devices take.
    pub snapshots: Snapshots,
}

/// The program's objects.
#[derive(Default)]
pub struct State {
    /// Memory that is allocated now.
    pub allocations: Allocations,
    /// The order of streams and events.
    pub streams: Streams,
    /// Streams with their numbers in the dump.
    pub stream_states: NumberMap<Stream, Arc<StreamState>>,
    /// Kernels that were launched.
    pub kernels: NumberMap<usize, Arc<KernelFacts>>,
    /// Arguments of launches that may be repeated with the same parameters.
    pub launch_cache: LaunchCache,
    /// Loaded modules.
    pub modules: Modules,
    /// Graphs that can be launched.
    pub graphs: Graphs,
    /// Handles of textures and surfaces, with their contexts.
    pub textures: HashMap<(Textures, u64), usize>,
    stream_count: u64,
}

impl State {
    /// Whether a value may contain the handle of a texture or a surface. Handles are small numbers, so other
    /// values may look like one.
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
    /// Number of its device.
    pub device: Device,
    /// Its context, by handle and by number.
    pub context: (usize, ContextId),
    /// A number that no other stream of this process has or had.
    pub number: u64,
    /// Device memory in which snapshots of this stream work.
    pub(crate) scratch: Mutex<StreamScratch>,
    pub(crate) gate: Gate,
}

impl StreamState {
    pub(crate) fn scratch(&self) -> MutexGuard<'_, StreamScratch> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

static BACKEND: OnceLock<CudaBackend> = OnceLock::new();

/// Runs when the process exits normally, after all exit handlers of the program.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = process_ends;

extern "C" fn process_ends() {
    if let Some(backend) = BACKEND.get() {
        backend.snapshots.close();
        backend.session.close();
    }
    crate::nvtx::close();
}

impl CudaBackend {
    /// Starts recording. None if the process is not recorded.
    pub fn start() -> Option<&'static CudaBackend> {
        let session = ProcessSession::attach("CUDA", NO_ROOM)?;
        let Some(driver) = Driver::find() else {
            print_note(
                "CUDA is not recorded: its driver lacks functions that recording needs. Use CUDA 11 or later",
            );
            return None;
        };
        let level = session.session().level().unwrap_or(DumpLevel::Full);
        Some(BACKEND.get_or_init(|| CudaBackend {
            driver,
            snapshots: Snapshots::new(
                level == DumpLevel::Full,
                session.skips_stored_content(),
                session.session().wants_all_tasks().unwrap_or(false),
            ),
            session,
            state: Mutex::default(),
            pool: OnceLock::new(),
            registered: Mutex::default(),
            max_range:
                number_from_environment(MAX_RANGE_VARIABLE).filter(|&bytes| bytes > 0).unwrap_or(MAX_RANGE),
            wants_content: matches!(level, DumpLevel::Full | DumpLevel::Hash),
        }))
    }

    /// The backend. It exists before any callback can run.
    pub fn get() -> Option<&'static CudaBackend> {
        BACKEND.get()
    }

    /// The program's objects.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pinned staging memory. The first call allocates it. It is pinned as long as the context lives for
    /// which it was pinned.
    pub fn pool(&self, context: usize) -> Option<&PinnedPool> {
        let pool = self.pool.get_or_init(|| PinnedPool::new(ring_bytes().unwrap_or(RING))).as_ref()?;
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        if registered.is_none() {
            *registered = Some(context);
            drop(registered);
            let (start, bytes) = pool.memory();
            let status = self.driver.register(start, bytes);
            if status != SUCCESS {
                self.note_once(
                    "memory for content could not be pinned, so copies from the device are slower",
                );
            }
        }
        Some(pool)
    }

    /// The staging memory, if it was allocated.
    pub fn known_pool(&self) -> Option<&PinnedPool> {
        self.pool.get()?.as_ref()
    }

    /// A context is destroyed, and the driver unpins the memory that was pinned for it.
    pub fn context_destroyed(&self, context: usize) {
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        if *registered == Some(context) {
            *registered = None;
        }
        drop(registered);
        self.remove_streams_of(context);
        self.snapshots.context_destroyed(context);
    }

    /// Forgets the streams and events of a context: a new context may get the same handles.
    fn remove_streams_of(&self, context: usize) {
        let mut state = self.state();
        let State { stream_states, streams, textures, graphs, .. } = &mut *state;
        textures.retain(|_, of| *of != context);
        graphs.forget_context(context);
        stream_states.retain(|stream, line| {
            let stays = line.context.0 != context;
            if !stays {
                streams.forget(*stream);
                streams.forget_context(line.context.1);
            }
            stays
        });
    }

    /// The stream that a call uses. A new stream is added.
    pub fn stream(&self, stream: Stream, context: (usize, ContextId)) -> Option<Arc<StreamState>> {
        let known = self.state().stream_states.get(&stream).map(Arc::clone);
        known.or_else(|| self.add_stream(stream, context))
    }

    fn add_stream(&self, stream: Stream, context: (usize, ContextId)) -> Option<Arc<StreamState>> {
        let is_blocking = match stream {
            Stream::Made(handle) => self.driver.is_blocking(handle),
            Stream::Legacy(_) | Stream::OfThread(..) => true,
        };
        let (device, device_name, context) = self.home(stream, context);
        let number = {
            let mut state = self.state();
            state.stream_count += 1;
            state.stream_count
        };
        let name = match stream {
            Stream::Legacy(_) => format!("stream {number} ({device_name}, legacy default)"),
            Stream::OfThread(..) => format!("stream {number} ({device_name}, default of a thread)"),
            Stream::Made(_) if is_blocking => format!("stream {number} ({device_name})"),
            Stream::Made(_) => format!("stream {number} ({device_name}, non-blocking)"),
        };
        let id = self.record(|recorder| recorder.queue(&name))?;
        let (scratch, gate) = (Mutex::default(), Gate::default());
        let met = Arc::new(StreamState { id, device, context, number, scratch, gate });
        let mut state = self.state();
        // Another thread may have added it in the meantime.
        if !state.streams.meet(stream, context.1, is_blocking) {
            return state.stream_states.get(&stream).map(Arc::clone);
        }
        state.stream_states.insert(stream, Arc::clone(&met));
        Some(met)
    }

    /// Device and context of a stream. A call may use a stream of another context than the current one.
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

    /// Whether the filters let the content of an argument pass at a stage.
    pub fn wants_argument(&self, stage: DumpStage, arg: u16) -> bool {
        self.session.session().wants_argument(stage, arg).unwrap_or(false)
    }

    /// Records in this thread, if that is possible.
    pub fn record<T>(&self, call: impl FnOnce(&mut ThreadRecorder) -> Result<T, RecordError>) -> Option<T> {
        self.session.record(call)
    }

    /// Prints a note, once.
    pub fn note_once(&self, note: &str) {
        self.session.note_once(note, "");
    }

    /// Prints a note with a reason, once.
    pub fn note_once_because(&self, note: &str, reason: &str) {
        self.session.note_once(note, reason);
    }
}

/// Size of the device ring in bytes, if the user has set it.
pub fn ring_bytes() -> Option<u64> {
    number_from_environment(RING_VARIABLE).filter(|&bytes| bytes > 0)
}
