//! Tells ThreadSanitizer what it cannot see: a program that was built with it runs its checks over this library's copies, and knows nothing of the
//! atomics that order them. Where there is no sanitizer, each call is a test of one word; and they are made where memory changes hands only.
#![expect(unsafe_code, reason = "functions of the sanitizer are found by name")]

use std::{
    ffi::{CStr, c_void},
    sync::OnceLock,
};

type Tell = unsafe extern "C" fn(*mut c_void);

struct Functions {
    acquire: Tell,
    release: Tell,
}

fn functions() -> Option<&'static Functions> {
    static FOUND: OnceLock<Option<Functions>> = OnceLock::new();
    let look = || Some(Functions { acquire: find(c"__tsan_acquire")?, release: find(c"__tsan_release")? });
    FOUND.get_or_init(look).as_ref()
}

fn find(name: &CStr) -> Option<Tell> {
    // SAFETY: looks a name up among what the program has loaded.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: the sanitizer's interface has functions of this type by these names, and nobody else may use them.
    (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, Tell>(found) })
}

/// What was [released](release) at this address before is this thread's to use.
pub(crate) fn acquire<T>(at: *const T) {
    if let Some(Functions { acquire, .. }) = functions() {
        // SAFETY: an address is all that it is.
        unsafe { acquire(at.cast_mut().cast()) };
    }
}

/// Whoever [acquires](acquire) this address next may use what this thread used.
pub(crate) fn release<T>(at: *const T) {
    if let Some(Functions { release, .. }) = functions() {
        // SAFETY: as above.
        unsafe { release(at.cast_mut().cast()) };
    }
}
