//! The address sanitizer of a device process, if there is one: it is preloaded, so its functions are looked for at run time.

use std::ffi::{CStr, c_void};

use tensortap_abi::DeviceRange;

type SetRegion = unsafe extern "C" fn(*const c_void, usize);

/// Tells an address sanitizer which memory kernels may not touch.
#[derive(Clone, Copy, Debug)]
pub struct Shadow {
    poison: SetRegion,
    unpoison: SetRegion,
}

impl Shadow {
    /// That of this process; `None` when it has no address sanitizer.
    #[must_use]
    pub fn find() -> Option<Shadow> {
        let poison = find(c"__asan_poison_memory_region")?;
        let unpoison = find(c"__asan_unpoison_memory_region")?;
        Some(Shadow { poison, unpoison })
    }

    /// Memory that nobody may touch from now on, as far as code was compiled with the sanitizer.
    pub fn poison(self, range: DeviceRange) {
        call(self.poison, range);
    }

    /// Memory that everybody may touch again.
    pub fn unpoison(self, range: DeviceRange) {
        call(self.unpoison, range);
    }
}

fn find(name: &CStr) -> Option<SetRegion> {
    // SAFETY: the name ends with a zero; looking for it in what is loaded runs no code.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: both functions of these names are `void (void const volatile *, size_t)`, as the sanitizer's header says.
    (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, SetRegion>(found) })
}

fn call(function: SetRegion, range: DeviceRange) {
    let at = usize::try_from(range.addr).map(std::ptr::without_provenance);
    if let (Ok(at), Ok(bytes)) = (at, usize::try_from(range.bytes)) {
        // SAFETY: the function changes only what the sanitizer knows of these addresses, never the memory itself.
        unsafe { function(at, bytes) };
    }
}
