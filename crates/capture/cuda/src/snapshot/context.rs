//! The backend's code and memory in one context.

use std::{
    cell::Cell,
    ffi::{CStr, CString},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tensortap_device_kernels::{
    Code, HASH_LEAVES, HASH_MANY, HASH_SPREAD, HashKernel, KEEP, MEASURE_LEAVES, StoredHashes,
};
use tensortap_queue::{GRANULARITY, RingAllocator};

use super::Snapshots;
use crate::{
    backend::CudaBackend,
    library::{Driver, SUCCESS, Status},
};

/// Bundles that the launches of all streams may use at a time: enough for 8 GiB of content. A bundle needs
/// 1,348 bytes.
const BUNDLES: u64 = 32 << 10;
/// Bundles are allocated in pieces of this many: enough for 64 MiB of content.
const PIECE: u64 = GRANULARITY;
/// Each piece has its own counters and decisions.
const PIECES: u64 = BUNDLES / PIECE;
/// Size of the counters of a piece in bytes.
const COUNTS_BYTES: u64 = 64;
/// Limit for the ranges of a snapshot.
pub const MAX_RANGES: usize = 1024;
const DECISIONS_BYTES: u64 = MAX_RANGES as u64 * 4;
/// Number of hashes that the device remembers. The collector remembers more.
const STORED: u32 = 1 << 16;
/// Limits for the size of the device ring in bytes. The default is 1/32 of the device's memory.
const RING: std::ops::RangeInclusive<u64> = (64 << 20)..=(1 << 30);
/// The decision that content is new. It is the initial value if contents are not compared.
const IS_NEW: u32 = 1;

thread_local! {
    static LOADS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread loads the backend's code. That code is no module of the program.
pub fn is_loading() -> bool {
    LOADS.try_with(Cell::get).unwrap_or(false)
}

/// Loads the backend's code in this thread.
pub fn loading<T>(load: impl FnOnce() -> T) -> T {
    let _ = LOADS.try_with(|loads| loads.set(true));
    let loaded = load();
    let _ = LOADS.try_with(|loads| loads.set(false));
    loaded
}

/// The backend's code and memory in one context.
pub struct ContextResources {
    /// Handle of the context.
    pub context: usize,
    /// Kernels that hash: one group per bundle, several groups per bundle, the same for many ranges, and with
    /// statistics.
    hash: [usize; 4],
    /// The kernel that copies new content into the ring.
    pub keep: usize,
    /// Added to a host address in the result memory to get its device address.
    pub findings_at: u64,
    /// Whether a launch may overlap with its predecessor in the stream, if both allow it.
    overlaps: bool,
    /// Working memory of launches: leaf hashes, sums, parts, gates.
    scratch: [u64; 4],
    /// The allocator of its bundles.
    pub bundles: RingAllocator,
    /// The counters of each piece, and the decisions about the ranges of a snapshot that uses the piece.
    words: [u64; 2],
    /// The set of stored hashes: its address and its mask.
    pub stored: Option<(u64, u32)>,
    /// The ring for new content: its address and its allocator.
    pub ring: Option<(u64, RingAllocator)>,
    /// The backend's stream for copies.
    pub copies: usize,
    /// Events of this context that are free.
    pub events: Mutex<Vec<usize>>,
    /// Ends of the parts of the recording's memory that were pinned for this context, in order. Its memory grows. A copy
    /// must not cross the end of a part.
    pub pinned: Mutex<Vec<usize>>,
    /// Locked while the harvest thread calls the driver for this context. True once the context is destroyed.
    calls: Mutex<bool>,
}

impl ContextResources {
    /// Loads the backend's code into a context and allocates its memory.
    ///
    /// # Errors
    /// The reason why that is not possible.
    pub fn load(
        backend: &CudaBackend,
        snapshots: &Snapshots,
        context: usize,
    ) -> Result<ContextResources, String> {
        let driver = &backend.driver;
        let findings = snapshots.findings().ok_or("no host memory for its results")?;
        let loaded = driver.within(context, || {
            let code = Code::for_device(driver.capability());
            let overlaps = code.overlaps && driver.launches_early();
            let text = CString::new(code.text).unwrap_or_default();
            let names = [HASH_LEAVES, HASH_SPREAD, HASH_MANY, MEASURE_LEAVES, KEEP]
                .map(|name| CString::new(name).unwrap_or_default());
            let names = names.each_ref().map(CString::as_c_str);
            let loaded =
                ContextResources::load_here(driver, snapshots, context, (&text, names), findings.memory());
            loaded.map(|device| ContextResources { overlaps, ..device })
        });
        let said = |what: &str, status: Status| format!("{what}: status {status}");
        loaded
            .map_err(|status| said("cannot use the context", status))?
            .map_err(|(what, status)| said(what, status))
    }

    fn load_here(
        driver: &Driver,
        snapshots: &Snapshots,
        context: usize,
        (code, names): (&CStr, [&CStr; 5]),
        findings: (usize, u64),
    ) -> Result<ContextResources, (&'static str, Status)> {
        let failed = |what| move |status| (what, status);
        let [hash, spread, many, measure, keep] =
            driver.load_code(code, names).map_err(failed("the driver rejects the code"))?;
        let registered = driver.register(findings.0, findings.1);
        let findings_device = driver.device_pointer(findings.0).map_err(|status| {
            (
                "the device cannot write to host memory",
                if registered == SUCCESS { status } else { registered },
            )
        })?;
        let memory = "not enough device memory";
        let allocate = |bytes| driver.allocate(bytes).map_err(failed(memory));
        let mut scratch = [0; 4];
        for (place, bytes) in scratch.iter_mut().zip([1024, 256, 64, 4]) {
            *place = allocate(BUNDLES * bytes)?;
        }
        let words = [allocate((PIECES + 1) * COUNTS_BYTES)?, allocate(PIECES * DECISIONS_BYTES)?];
        let copies = driver.make_stream().map_err(failed("cannot create a stream"))?;
        let (mut stored, mut ring) = (None, None);
        if snapshots.wants_payloads {
            let set = StoredHashes::with_room(STORED);
            let bytes = set.slots().len() as u64 * 16;
            stored = snapshots.compares.then(|| Ok((allocate(bytes)?, set.mask()))).transpose()?;
            ring = Some(make_ring(driver).map_err(failed(memory))?);
        }
        let device = ContextResources {
            context,
            hash: [hash, spread, many, measure],
            keep,
            overlaps: false,
            findings_at: findings_device.wrapping_sub(findings.0 as u64),
            scratch,
            // The allocator counts bundles instead of bytes.
            bundles: RingAllocator::new(BUNDLES),
            words,
            stored,
            ring,
            copies,
            events: Mutex::default(),
            pinned: Mutex::default(),
            calls: Mutex::new(false),
        };
        device.clear(driver).map_err(failed(memory))?;
        Ok(device)
    }

    /// Initializes the memory.
    fn clear(&self, driver: &Driver) -> Result<(), Status> {
        let first = if self.stored.is_none() { IS_NEW } else { 0 };
        // SAFETY: the memory was just allocated with these sizes.
        let cleared = unsafe {
            [
                driver.fill(self.scratch[3], 0, BUNDLES, self.copies),
                driver.fill(self.words[0], 0, PIECES * COUNTS_BYTES / 4, self.copies),
                // If contents are not compared, all content is new.
                driver.fill(self.words[1], first, PIECES * DECISIONS_BYTES / 4, self.copies),
                self.forget_stored(driver),
            ]
        };
        let cleared = cleared.into_iter().find(|&status| status != SUCCESS).unwrap_or(SUCCESS);
        let waited = driver.wait_stream(self.copies);
        match if cleared == SUCCESS { waited } else { cleared } {
            SUCCESS => Ok(()),
            status => Err(status),
        }
    }

    /// Clears the device's set of stored hashes, because some of that content was lost.
    pub fn forget_stored(&self, driver: &Driver) -> Status {
        let Some((at, mask)) = self.stored else { return SUCCESS };
        // SAFETY: the whole set is the backend's. A kernel that inserts at the same time leaves a word that
        // matches no hash, or the hash of stored content.
        unsafe { driver.fill(at, 0, (u64::from(mask) + 1) * 4, self.copies) }
    }

    /// Whether snapshots may overlap. Not with a ring: the decisions about new content must be made in order.
    pub fn overlaps_sides(&self) -> bool {
        self.overlaps && self.ring.is_none()
    }

    /// The kernel for a way of hashing.
    pub fn kernel(&self, hash_kernel: HashKernel) -> usize {
        let [bundles, spread, many, measured] = self.hash;
        match hash_kernel {
            HashKernel::Bundles => bundles,
            HashKernel::Spread => spread,
            HashKernel::Many => many,
            HashKernel::Measured => measured,
        }
    }

    /// Addresses of counters and decisions of the piece that starts at a bundle.
    pub fn words(&self, bundle: u64) -> [u64; 2] {
        let piece = bundle / PIECE;
        let [counts, decisions] = self.words;
        [counts + piece * COUNTS_BYTES, decisions + piece * DECISIONS_BYTES]
    }

    /// Address of a word after all counters that is never used.
    pub fn idle_word(&self) -> u64 {
        self.words[0] + PIECES * COUNTS_BYTES
    }

    /// Addresses of the working memory from a bundle on: leaf hashes, sums, parts, gates.
    pub fn scratch(&self, bundle: u64) -> [u64; 4] {
        let [hashes, sums, parts, gates] = self.scratch;
        [hashes + bundle * 1024, sums + bundle * 256, parts + bundle * 64, gates + bundle * 4]
    }

    fn calls(&self) -> MutexGuard<'_, bool> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the driver for this context in the harvest thread. None if the context is destroyed.
    pub fn call<T>(&self, driver: &Driver, call: impl FnOnce() -> T) -> Option<T> {
        let gone = self.calls();
        if *gone || driver.set_context(self.context) != SUCCESS {
            return None;
        }
        Some(call())
    }

    /// The context is destroyed. From now on, nothing of it is used.
    pub fn destroyed(&self) {
        *self.calls() = true;
    }
}

/// Allocates the ring. If there is not enough memory, it tries half the size, and so on.
fn make_ring(driver: &Driver) -> Result<(u64, RingAllocator), Status> {
    let wanted = crate::backend::ring_bytes()
        .unwrap_or_else(|| (driver.memory_bytes() / 32).clamp(*RING.start(), *RING.end()));
    let mut bytes = wanted.max(4096);
    loop {
        match driver.allocate(bytes) {
            Ok(at) => return Ok((at, RingAllocator::new(bytes))),
            Err(_) if bytes / 2 >= *RING.start() => bytes /= 2,
            Err(status) => return Err(status),
        }
    }
}
