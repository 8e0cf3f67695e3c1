//! What CUPTI hands over, read where it lies.

use std::ffi::{CStr, c_char, c_void};

/// Before a function runs, and behind.
pub const ENTER: u32 = 0;

/// What CUPTI says of a call of the driver.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CallData {
    /// Before or behind.
    pub site: u32,
    function_name: *const c_char,
    params: *const u64,
    status: *const i32,
    symbol: *const c_char,
    /// The context that is current.
    pub context: usize,
    /// Its number.
    pub context_id: u32,
    correlation_data: *mut u64,
    /// The same before and behind one call, and of no other.
    pub correlation: u32,
}
const _: () = assert!(size_of::<CallData>() == 72 && std::mem::offset_of!(CallData, correlation) == 64);

/// What CUPTI says of a resource.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ResourceData {
    /// The context.
    pub context: usize,
    stream: usize,
    descriptor: *const ModuleData,
}

/// A module that was loaded.
#[repr(C)]
#[derive(Clone, Copy)]
struct ModuleData {
    id: u32,
    bytes: usize,
    image: *const u8,
}
const _: () = assert!(size_of::<ResourceData>() == 24 && size_of::<ModuleData>() == 24);

/// A call of the driver, while it is told of.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// What is said of it.
    pub data: &'a CallData,
}

impl Call<'_> {
    /// The call that data tell of.
    ///
    /// # Safety
    /// Data of the driver's domain, as CUPTI gives them, which are there as long as this.
    pub unsafe fn of<'a>(data: *const c_void) -> Call<'a> {
        // SAFETY: the caller's promise.
        Call { data: unsafe { &*data.cast() } }
    }

    /// One of the words that its parameters are made of; narrower ones have bits above that mean nothing.
    ///
    /// # Safety
    /// The call has as many.
    pub unsafe fn word(self, at: usize) -> u64 {
        // SAFETY: the caller's promise; CUPTI keeps parameters of a call as C has them, in words.
        unsafe { self.data.params.add(at).read_unaligned() }
    }

    /// What it has answered, behind it.
    pub fn status(self) -> i32 {
        if self.data.site == ENTER || self.data.status.is_null() {
            return 0;
        }
        // SAFETY: CUPTI's promise behind a call.
        unsafe { self.data.status.read() }
    }

    /// What the kernel is called that is launched.
    pub fn symbol(self) -> Option<String> {
        // SAFETY: a text of CUPTI's, or null.
        unsafe { text(self.data.symbol) }
    }
}

unsafe fn text(at: *const c_char) -> Option<String> {
    // SAFETY: a text or null.
    (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
}

impl ResourceData {
    /// The resource that data tell of.
    ///
    /// # Safety
    /// Data of the domain of resources, as CUPTI gives them.
    pub unsafe fn of(data: *const c_void) -> ResourceData {
        // SAFETY: the caller's promise.
        unsafe { data.cast::<ResourceData>().read() }
    }

    /// A module that was loaded, or goes.
    ///
    /// # Safety
    /// It is told of a module, and the image is read before CUPTI is answered.
    pub unsafe fn module<'a>(&self) -> Option<LoadedImage<'a>> {
        if self.descriptor.is_null() {
            return None;
        }
        // SAFETY: the caller's promise.
        let ModuleData { id: number, bytes, image } = unsafe { self.descriptor.read() };
        let image = if image.is_null() {
            &[]
        } else {
            // SAFETY: the caller's promise.
            unsafe { std::slice::from_raw_parts(image, bytes) }
        };
        Some(LoadedImage { number, image })
    }
}

/// A module, by the number that CUPTI has for it, with its image.
#[derive(Clone, Copy)]
pub struct LoadedImage<'a> {
    /// Its number.
    pub number: u32,
    /// Its image; empty where it is not told.
    pub image: &'a [u8],
}

/// A value of the program's at an address that a call has given.
///
/// # Safety
/// One lies there, and no bits are wrong for it.
pub unsafe fn at<T: Copy>(address: u64) -> T {
    let start = std::ptr::with_exposed_provenance::<T>(usize::try_from(address).unwrap_or(0));
    // SAFETY: the caller's promise.
    unsafe { start.read_unaligned() }
}

/// Sizes, the stream and attributes of `cuLaunchKernelEx`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LaunchConfig {
    /// Two sizes in each: groups in three directions, then threads.
    pub sizes: [u64; 3],
    /// Bytes of shared memory, in the lower half.
    pub shared: u64,
    /// Handle of the stream.
    pub stream: u64,
    /// Where attributes lie.
    pub attributes: u64,
    /// How many there are.
    pub attribute_count: u32,
}
const _: () = assert!(std::mem::offset_of!(LaunchConfig, stream) == 32);
const _: () = assert!(std::mem::offset_of!(LaunchConfig, attribute_count) == 48);

/// One attribute of `cuLaunchKernelEx`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LaunchAttribute {
    /// Which.
    pub id: u32,
    padding: u32,
    /// Its value, as far as it has one.
    pub value: [u32; 16],
}
const _: () = assert!(size_of::<LaunchAttribute>() == 72);

impl LaunchAttribute {
    /// All groups run at a time.
    pub const COOPERATIVE: u32 = 2;
    /// Groups of a cluster.
    pub const CLUSTER: u32 = 4;
    /// It may begin when the launch before it lets it.
    pub const PROGRAMMATIC: u32 = 6;

    /// An attribute that is set.
    pub fn set(id: u32) -> LaunchAttribute {
        let mut value = [0; 16];
        value[0] = 1;
        LaunchAttribute { id, padding: 0, value }
    }
}

/// Bytes of the program's at an address that a call has given.
///
/// # Safety
/// So many lie there, and stay as they are until the call is answered.
pub unsafe fn bytes<'a>(address: u64, bytes: usize) -> &'a [u8] {
    if address == 0 || bytes == 0 {
        return &[];
    }
    let start = std::ptr::with_exposed_provenance(usize::try_from(address).unwrap_or(0));
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start, bytes) }
}
