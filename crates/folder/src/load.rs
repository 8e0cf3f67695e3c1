//! Loads libraries into this process and finds functions in them. Only devices and workers do.

use std::ffi::{CStr, c_char};

use tensortap_abi::KernelEntry;
use tensortap_library::Library;

use crate::bridge::OrchestrationEntry;
use crate::library::ABI_VERSION;
use crate::plan::PlannedLibrary;

/// A library that stays loaded: kernels may run until the process ends.
#[derive(Clone, Copy, Debug)]
pub struct Loaded {
    library: Library,
}

/// `tt_host` of the header.
#[repr(C)]
struct HostTable {
    abi_version: u32,
    bytes: u32,
    fail: extern "C" fn(*const c_char),
    log: extern "C" fn(u32, *const c_char),
}
const _: () = assert!(size_of::<HostTable>() == 24);

static HOST: HostTable = HostTable { abi_version: ABI_VERSION, bytes: 24, fail, log };

extern "C" fn fail(text: *const c_char) {
    tensortap_scene::note_failure(&text_at(text).unwrap_or_else(|| "failed without a reason".into()));
}

extern "C" fn log(_level: u32, text: *const c_char) {
    eprintln!("{}", text_at(text).unwrap_or_default());
}

/// Text that C code passes; `None` for a null pointer.
pub(crate) fn text_at(text: *const c_char) -> Option<String> {
    // SAFETY: the header says that texts end with a zero, and they are valid during the call.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

impl Loaded {
    /// Loads a library, if it is the build that was planned.
    pub fn open(library: &PlannedLibrary) -> Result<Loaded, String> {
        let named = |why: String| format!("{}: {why}", library.path.display());
        let now = crate::build_id(&library.path).map_err(|error| named(error.to_string()))?;
        if now != library.build_id {
            return Err(named("it was built again since the run began; start again".into()));
        }
        // Loading runs the library's initialisers, which is what the user asked for.
        let opened = Library::open(&library.path).map_err(|why| not_loaded(&why.0))?;
        let loaded = Loaded { library: opened };
        if let Some(host) = opened.find("tensortap_host") {
            // SAFETY: the header defines a pointer of this name in every library that includes it, and the table lives for ever.
            unsafe { host.cast::<*const HostTable>().write(&raw const HOST) };
        }
        Ok(loaded)
    }

    /// # Safety
    /// As [`Library::function`].
    unsafe fn function<F: Copy>(&self, symbol: &str) -> Result<F, String> {
        // SAFETY: the caller's promise.
        let found = unsafe { self.library.function(symbol) };
        found.ok_or_else(|| format!("the library has no function `{symbol}`"))
    }

    /// A kernel, a reference or a golden.
    pub fn kernel(&self, symbol: &str) -> Result<KernelEntry, String> {
        // SAFETY: the description says that this is a function `void (uint64_t *)`; no more is known of a symbol.
        unsafe { self.function(symbol) }
    }

    /// An orchestration.
    pub(crate) fn orchestration(&self, symbol: &str) -> Result<OrchestrationEntry, String> {
        // SAFETY: the description says that this is a function `int (tt_orch *)`; no more is known of a symbol.
        unsafe { self.function(symbol) }
    }
}

/// What the loader says, and what to do about a function that is nowhere.
fn not_loaded(said: &str) -> String {
    let remedy = if said.contains("undefined symbol") {
        "; link what defines it into the library, in a scene folder with `ldflags` under [build]"
    } else {
        ""
    };
    format!("cannot load {said}{remedy}")
}
