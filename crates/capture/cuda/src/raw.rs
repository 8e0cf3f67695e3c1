//! Reads the data of CUPTI's callbacks and of the program's calls in place.

use std::ffi::{CStr, c_char, c_void};

/// The callback before a function. The other one is after it.
pub const ENTER: u32 = 0;

/// CUPTI's data for a call of a driver function.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CallData {
    /// Before or after the call.
    pub site: u32,
    function_name: *const c_char,
    params: *const u64,
    status: *const i32,
    symbol: *const c_char,
    /// The current context.
    pub context: usize,
    /// Number of the current context.
    pub context_id: u32,
    correlation_data: *mut u64,
    /// A number that both callbacks of a call share, and no other call has.
    pub correlation: u32,
}
const _: () = assert!(size_of::<CallData>() == 72 && std::mem::offset_of!(CallData, correlation) == 64);

/// CUPTI's data for a context or module.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ResourceData {
    /// The context.
    pub context: usize,
    stream: usize,
    descriptor: *const ModuleData,
}

/// CUPTI's description of a module.
#[repr(C)]
#[derive(Clone, Copy)]
struct ModuleData {
    id: u32,
    bytes: usize,
    image: *const u8,
}
const _: () = assert!(size_of::<ResourceData>() == 24 && size_of::<ModuleData>() == 24);

/// A call of a driver function, during its callback.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// CUPTI's data for it.
    pub data: &'a CallData,
}

impl Call<'_> {
    /// The call of this callback.
    ///
    /// # Safety
    /// `data` is from a callback of the driver domain and lives as long as the result.
    pub unsafe fn of<'a>(data: *const c_void) -> Call<'a> {
        // SAFETY: the caller's guarantee.
        Call { data: unsafe { &*data.cast() } }
    }

    /// One word of the parameters. The upper bits of narrower parameters have no meaning.
    ///
    /// # Safety
    /// The call has that many words.
    pub unsafe fn word(self, at: usize) -> u64 {
        // SAFETY: the caller's guarantee. CUPTI keeps the parameters as C does, in words.
        unsafe { self.data.params.add(at).read_unaligned() }
    }

    /// The status that the call returned. 0 before the call.
    pub fn status(self) -> i32 {
        if self.data.site == ENTER || self.data.status.is_null() {
            return 0;
        }
        // SAFETY: CUPTI guarantees this after a call.
        unsafe { self.data.status.read() }
    }

    /// The name of the launched kernel.
    pub fn symbol(self) -> Option<String> {
        // SAFETY: CUPTI's text, or null.
        unsafe { text(self.data.symbol) }
    }
}

unsafe fn text(at: *const c_char) -> Option<String> {
    // SAFETY: a text or null.
    (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
}

impl ResourceData {
    /// The resource of this callback.
    ///
    /// # Safety
    /// `data` is from a callback of the resource domain.
    pub unsafe fn of(data: *const c_void) -> ResourceData {
        // SAFETY: the caller's guarantee.
        unsafe { data.cast::<ResourceData>().read() }
    }

    /// The module of this callback.
    ///
    /// # Safety
    /// The resource is a module, and the result is not used after the callback.
    pub unsafe fn module<'a>(&self) -> Option<LoadedImage<'a>> {
        if self.descriptor.is_null() {
            return None;
        }
        // SAFETY: the caller's guarantee.
        let ModuleData { id: number, bytes, image } = unsafe { self.descriptor.read() };
        let image = if image.is_null() {
            &[]
        } else {
            // SAFETY: the caller's guarantee.
            unsafe { std::slice::from_raw_parts(image, bytes) }
        };
        Some(LoadedImage { number, image })
    }
}

/// A module with CUPTI's number for it, and its image.
#[derive(Clone, Copy)]
pub struct LoadedImage<'a> {
    /// CUPTI's number.
    pub number: u32,
    /// Its image. Empty if CUPTI does not report it.
    pub image: &'a [u8],
}

/// A value at an address of the program.
///
/// # Safety
/// A valid value is there.
pub unsafe fn at<T: Copy>(address: u64) -> T {
    let start = std::ptr::with_exposed_provenance::<T>(usize::try_from(address).unwrap_or(0));
    // SAFETY: the caller's guarantee.
    unsafe { start.read_unaligned() }
}

/// Bytes at an address of the program. Empty if the address or the size is 0.
///
/// # Safety
/// That many bytes are there, and they do not change until the call returns.
pub unsafe fn bytes<'a>(address: u64, bytes: usize) -> &'a [u8] {
    if address == 0 || bytes == 0 {
        return &[];
    }
    let start = std::ptr::with_exposed_provenance(usize::try_from(address).unwrap_or(0));
    // SAFETY: the caller's guarantee.
    unsafe { std::slice::from_raw_parts(start, bytes) }
}
