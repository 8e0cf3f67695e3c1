//! Our code and our memory in one context.

use std::{
    cell::Cell,
    ffi::{CStr, CString},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tensortap_device_kernels::{
    Code, HASH_LEAVES, HASH_MANY, HASH_SPREAD, Hashing, KEEP, MEASURE_LEAVES, StoredHashes,
};
use tensortap_queue::{GRAIN, Rooms};
use tensortap_sync::Flag;

use super::Contents;
use crate::{
    door::Door,
    library::{Driver, SUCCESS, Status},
};

/// Bundles that launches of all streams work in at a time: 8 GiB of content. 1,348 bytes each.
const BUNDLES: u64 = 32 << 10;
/// Pieces of it are of so many bundles, or a multiple: 64 MiB of content.
const PIECE: u64 = GRAIN;
/// Each piece has words of its own, by where it begins.
const PIECES: u64 = BUNDLES / PIECE;
/// Bytes of the counts that a piece has.
const COUNTS_BYTES: u64 = 64;
/// Ranges that a side may have.
pub const MOST_RANGES: usize = 1024;
const DECISIONS_BYTES: u64 = MOST_RANGES as u64 * 4;
/// Hashes that the device knows: fewer than the collector remembers.
const STORED: u32 = 1 << 16;
/// Bytes of the ring: a thirty-second of the device's memory, within these.
const RING: std::ops::RangeInclusive<u64> = (64 << 20)..=(1 << 30);
/// The decision that content is new, as it stands where nothing is compared.
const IS_NEW: u32 = 1;

thread_local! {
    static LOADS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread loads our own code: it is no module of the program's.
pub fn is_loading() -> bool {
    LOADS.try_with(Cell::get).unwrap_or(false)
}

/// Loads our own code in this thread.
pub fn loading<T>(load: impl FnOnce() -> T) -> T {
    let _ = LOADS.try_with(|loads| loads.set(true));
    let loaded = load();
    let _ = LOADS.try_with(|loads| loads.set(false));
    loaded
}

/// Code and memory in a context.
pub struct Device {
    /// The context.
    pub context: usize,
    /// Kernels that hash: with a bundle for each group, with several groups for a bundle, the same of many ranges, and with statistics.
    hash: [usize; 4],
    /// The kernel that copies what is new.
    pub keep: usize,
    /// What is added to an address of findings so that the device finds them.
    pub findings_at: u64,
    /// Whether a launch may begin while the one before it in its stream runs, if both say so.
    overlaps: bool,
    /// Memory that launches work in: leaf hashes, sums, parts, gates.
    scratch: [u64; 4],
    /// Its bundles.
    pub bundles: Rooms,
    /// Counts of every piece of them, and what was decided of the ranges of a side that works in it.
    words: [u64; 2],
    /// Hashes of what is stored: where they lie, and their mask.
    pub stored: Option<(u64, u32)>,
    /// Where new content is kept until it is copied: where it begins, and its bytes.
    pub ring: Option<(u64, Rooms)>,
    /// The stream of ours that copies.
    pub copies: usize,
    /// Events of this context that nobody waits for.
    pub events: Mutex<Vec<usize>>,
    /// Whether this context was told of the memory that content goes to.
    pub knows_memory: Flag,
    /// Held while our thread calls the driver for this context; whether it is gone.
    calls: Mutex<bool>,
}

impl Device {
    /// Puts our code and memory into a context.
    ///
    /// # Errors
    /// Why that cannot be.
    pub fn load(door: &Door, contents: &Contents, context: usize) -> Result<Device, String> {
        let driver = &door.driver;
        let findings = contents.findings().ok_or("there is no memory for what it finds")?;
        let loaded = driver.within(context, || {
            let code = Code::for_device(driver.capability());
            let overlaps = code.overlaps && driver.launches_early();
            let text = CString::new(code.text).unwrap_or_default();
            let names = [HASH_LEAVES, HASH_SPREAD, HASH_MANY, MEASURE_LEAVES, KEEP]
                .map(|name| CString::new(name).unwrap_or_default());
            let names = names.each_ref().map(CString::as_c_str);
            let loaded = Device::load_here(driver, contents, context, (&text, names), findings.memory());
            loaded.map(|device| Device { overlaps, ..device })
        });
        let said = |what: &str, status: Status| format!("{what}: status {status}");
        loaded
            .map_err(|status| said("its context cannot be used", status))?
            .map_err(|(what, status)| said(what, status))
    }

    fn load_here(
        driver: &Driver,
        contents: &Contents,
        context: usize,
        (code, names): (&CStr, [&CStr; 5]),
        findings: (usize, u64),
    ) -> Result<Device, (&'static str, Status)> {
        let failed = |what| move |status| (what, status);
        let [hash, spread, many, measure, keep] =
            driver.load_code(code, names).map_err(failed("the driver does not load it"))?;
        let registered = driver.register(findings.0, findings.1);
        let findings_device = driver.device_pointer(findings.0).map_err(|status| {
            (
                "memory of this process cannot be written by it",
                if registered == SUCCESS { status } else { registered },
            )
        })?;
        let memory = "there is no device memory for it";
        let allocate = |bytes| driver.allocate(bytes).map_err(failed(memory));
        let mut scratch = [0; 4];
        for (place, bytes) in scratch.iter_mut().zip([1024, 256, 64, 4]) {
            *place = allocate(BUNDLES * bytes)?;
        }
        let words = [allocate((PIECES + 1) * COUNTS_BYTES)?, allocate(PIECES * DECISIONS_BYTES)?];
        let copies = driver.make_stream().map_err(failed("the driver makes no stream"))?;
        let (mut stored, mut ring) = (None, None);
        if contents.wants_payloads {
            let set = StoredHashes::with_room(STORED);
            let bytes = set.slots().len() as u64 * 16;
            stored = contents.compares.then(|| Ok((allocate(bytes)?, set.mask()))).transpose()?;
            ring = Some(make_ring(driver).map_err(failed(memory))?);
        }
        let device = Device {
            context,
            hash: [hash, spread, many, measure],
            keep,
            overlaps: false,
            findings_at: findings_device.wrapping_sub(findings.0 as u64),
            scratch,
            // In units of its pieces' grain: a bundle is one of its bytes.
            bundles: Rooms::new(BUNDLES),
            words,
            stored,
            ring,
            copies,
            events: Mutex::default(),
            knows_memory: Flag::new(),
            calls: Mutex::new(false),
        };
        device.clear(driver).map_err(failed(memory))?;
        Ok(device)
    }

    /// Everything that has to be zero is.
    fn clear(&self, driver: &Driver) -> Result<(), Status> {
        let first = if self.stored.is_none() { IS_NEW } else { 0 };
        // SAFETY: memory that was allocated just now, as much of it.
        let cleared = unsafe {
            [
                driver.fill(self.scratch[3], 0, BUNDLES, self.copies),
                driver.fill(self.words[0], 0, PIECES * COUNTS_BYTES / 4, self.copies),
                // Where nothing is compared, everything is new.
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

    /// Lets the device take nothing for stored any more: some of it was lost.
    pub fn forget_stored(&self, driver: &Driver) -> Status {
        let Some((at, mask)) = self.stored else { return SUCCESS };
        // SAFETY: the whole set, which is ours. Whoever inserts meanwhile leaves words that are no hash, or content that is stored.
        unsafe { driver.fill(at, 0, (u64::from(mask) + 1) * 4, self.copies) }
    }

    /// Whether sides may overlap: where content is kept, what is new has to be decided first.
    pub fn overlaps_sides(&self) -> bool {
        self.overlaps && self.ring.is_none()
    }

    /// A kernel that hashes.
    pub fn kernel(&self, hashing: Hashing) -> usize {
        let [bundles, spread, many, measured] = self.hash;
        match hashing {
            Hashing::Bundles => bundles,
            Hashing::Spread => spread,
            Hashing::Many => many,
            Hashing::Measured => measured,
        }
    }

    /// Counts and decisions of the piece that begins at a bundle.
    pub fn words(&self, bundle: u64) -> [u64; 2] {
        let piece = bundle / PIECE;
        let [counts, decisions] = self.words;
        [counts + piece * COUNTS_BYTES, decisions + piece * DECISIONS_BYTES]
    }

    /// A word that nothing is done with, behind all counts.
    pub fn idle_word(&self) -> u64 {
        self.words[0] + PIECES * COUNTS_BYTES
    }

    /// Memory to work in from a bundle on: leaf hashes, sums, parts, gates.
    pub fn scratch(&self, bundle: u64) -> [u64; 4] {
        let [hashes, sums, parts, gates] = self.scratch;
        [hashes + bundle * 1024, sums + bundle * 256, parts + bundle * 64, gates + bundle * 4]
    }

    fn calls(&self) -> MutexGuard<'_, bool> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the driver for this context in our thread. None once the context is gone.
    pub fn call<T>(&self, driver: &Driver, call: impl FnOnce() -> T) -> Option<T> {
        let gone = self.calls();
        if *gone || driver.set_context(self.context) != SUCCESS {
            return None;
        }
        Some(call())
    }

    /// The context goes: nothing of it is used from now on.
    pub fn goes(&self) {
        *self.calls() = true;
    }
}

/// The ring, or half of it where there is less memory, and so on.
fn make_ring(driver: &Driver) -> Result<(u64, Rooms), Status> {
    let wanted = crate::door::ring_bytes()
        .unwrap_or_else(|| (driver.memory_bytes() / 32).clamp(*RING.start(), *RING.end()));
    let mut bytes = wanted.max(4096);
    loop {
        match driver.allocate(bytes) {
            Ok(at) => return Ok((at, Rooms::new(bytes))),
            Err(_) if bytes / 2 >= *RING.start() => bytes /= 2,
            Err(status) => return Err(status),
        }
    }
}
