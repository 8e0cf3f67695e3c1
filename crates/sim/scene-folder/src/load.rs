//! Loads libraries into this process and finds functions in them. Only devices and workers do this.

use std::ffi::{CStr, c_char};

use tensortap_abi::KernelEntry;
use tensortap_library::Library;

use crate::bridge::OrchestrationEntry;
use crate::library::ABI_VERSION;
use crate::plan::PlannedLibrary;

/// A loaded library. It is never unloaded, because kernels may run until the process ends.
#[derive(Clone, Copy, Debug)]
pub struct LoadedLibrary {
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
    tensortap_scene::record_failure(
        &text_at(text).unwrap_or_else(|| "the kernel failed without a message".into()),
    );
}

extern "C" fn log(_level: u32, text: *const c_char) {
    eprintln!("{}", text_at(text).unwrap_or_default());
}

/// The text that C code passes, or `None` for a null pointer.
pub(crate) fn text_at(text: *const c_char) -> Option<String> {
    // SAFETY: according to the header, texts are zero-terminated and valid during the call.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

impl LoadedLibrary {
    /// Loads a library, if its build is the planned one.
    pub fn open(library: &PlannedLibrary) -> Result<LoadedLibrary, String> {
        let named = |why: String| format!("{}: {why}", library.path.display());
        let now = crate::build_id(&library.path).map_err(|error| named(error.to_string()))?;
        if now != library.build_id {
            return Err(named("the library was rebuilt since the run started; run again".into()));
        }
        // Loading runs the library's initializers, which the user has consented to.
        let opened = Library::open(&library.path).map_err(|why| not_loaded(&why.0))?;
        let loaded = LoadedLibrary { library: opened };
        if let Some(host) = opened.find("tensortap_host") {
            // SAFETY: the header defines a pointer with this name in every library that includes it. The
            // table lives forever.
            unsafe { host.cast::<*const HostTable>().write(&raw const HOST) };
        }
        Ok(loaded)
    }

    /// # Safety
    ///
    /// As for [`Library::function`].
    unsafe fn function<F: Copy>(&self, symbol: &str) -> Result<F, String> {
        // SAFETY: the caller's promise.
        let found = unsafe { self.library.function(symbol) };
        found.ok_or_else(|| format!("the library has no function `{symbol}`"))
    }

    /// A kernel, reference or golden function.
    pub fn kernel(&self, symbol: &str) -> Result<KernelEntry, String> {
        // SAFETY: the description declares that this is a function `void (uint64_t *)`. A symbol carries no
        // other type information.
        unsafe { self.function(symbol) }
    }

    /// An orchestration function.
    pub(crate) fn orchestration(&self, symbol: &str) -> Result<OrchestrationEntry, String> {
        // SAFETY: the description declares that this is a function `int (tt_orch *)`. A symbol carries no
        // other type information.
        unsafe { self.function(symbol) }
    }
}

/// The loader's message. For an undefined symbol, also says what to do.
fn not_loaded(message: &str) -> String {
    let remedy = if message.contains("undefined symbol") {
        "; link the library that defines this symbol, in a scene folder with `ldflags` under [build]"
    } else {
        ""
    };
    format!("cannot load {message}{remedy}")
}
