//! Informs ThreadSanitizer about synchronization that it cannot see: a program built with it also checks this
//! library's copies, but does not know the atomics that order them. Without the sanitizer, each call tests
//! one word. Calls are made only when memory changes its owner.
#![expect(unsafe_code, reason = "functions of the sanitizer are looked up by name")]

use std::{
    ffi::{CStr, c_void},
    sync::OnceLock,
};

type TsanHook = unsafe extern "C" fn(*mut c_void);

struct Functions {
    acquire: TsanHook,
    release: TsanHook,
}

fn functions() -> Option<&'static Functions> {
    static FOUND: OnceLock<Option<Functions>> = OnceLock::new();
    let look = || Some(Functions { acquire: find(c"__tsan_acquire")?, release: find(c"__tsan_release")? });
    FOUND.get_or_init(look).as_ref()
}

fn find(name: &CStr) -> Option<TsanHook> {
    // SAFETY: looks up a name in the program.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: the sanitizer reserves these names for functions of this type.
    (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, TsanHook>(found) })
}

/// This thread now owns what was [released](release) at this address.
pub(crate) fn acquire<T>(at: *const T) {
    if let Some(Functions { acquire, .. }) = functions() {
        // SAFETY: the function uses the address only as a key.
        unsafe { acquire(at.cast_mut().cast()) };
    }
}

/// The next thread that [acquires](acquire) this address owns what this thread used.
pub(crate) fn release<T>(at: *const T) {
    if let Some(Functions { release, .. }) = functions() {
        // SAFETY: as above.
        unsafe { release(at.cast_mut().cast()) };
    }
}
