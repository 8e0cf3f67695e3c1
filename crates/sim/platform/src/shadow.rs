//! The address sanitizer of a device process. It is preloaded, so its functions are looked up at run time.

use std::ffi::{CStr, c_void};

use tensortap_abi::DeviceRange;

type SetRegion = unsafe extern "C" fn(*const c_void, usize);

/// Marks memory that kernels must not touch, for the address sanitizer.
#[derive(Clone, Copy, Debug)]
pub struct Shadow {
    poison: SetRegion,
    unpoison: SetRegion,
}

impl Shadow {
    /// The address sanitizer of this process, or `None` if none is loaded.
    #[must_use]
    pub fn find() -> Option<Shadow> {
        let poison = find(c"__asan_poison_memory_region")?;
        let unpoison = find(c"__asan_unpoison_memory_region")?;
        Some(Shadow { poison, unpoison })
    }

    /// Forbids access to a range, for code that was compiled with the sanitizer.
    pub fn poison(self, range: DeviceRange) {
        call(self.poison, range);
    }

    /// Allows access to a range again.
    pub fn unpoison(self, range: DeviceRange) {
        call(self.unpoison, range);
    }
}

fn find(name: &CStr) -> Option<SetRegion> {
    // SAFETY: the name is zero-terminated, and looking up a symbol runs no code.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: both functions have the type `void (void const volatile *, size_t)`, according to the
    // sanitizer's header.
    (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, SetRegion>(found) })
}

fn call(function: SetRegion, range: DeviceRange) {
    let at = usize::try_from(range.addr).map(std::ptr::without_provenance);
    if let (Ok(at), Ok(bytes)) = (at, usize::try_from(range.bytes)) {
        // SAFETY: the function changes the sanitizer's table for these addresses and never the memory itself.
        unsafe { function(at, bytes) };
    }
}
