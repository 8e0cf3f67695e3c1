//! The functions of CUDA's driver that a launch needs, in a library that is found at run time.
#![expect(unsafe_code, reason = "functions of a C library")]

use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;

/// Names the library; without it, the system's is meant.
pub(crate) const LIBRARY_VARIABLE: &str = "TENSORTAP_LIBCUDA";
const SYSTEM_LIBRARY: &str = "libcuda.so.1";

/// What CUDA hands out: a context, a module, a function.
pub(crate) type Handle = *mut c_void;
pub(crate) type Status = i32;
/// An address of a device.
pub(crate) type Address = u64;

/// Where memory lies.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryLocation {
    pub kind: i32,
    pub device: i32,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryKind {
    pub kind: i32,
    pub handle_kinds: i32,
    pub location: MemoryLocation,
    pub reserved: [u64; 2],
}
const _: () = assert!(size_of::<MemoryKind>() == 32);

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryAccess {
    pub location: MemoryLocation,
    pub may: i32,
}
const _: () = assert!(size_of::<MemoryAccess>() == 12);

/// `CUlaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchAttribute {
    pub id: u32,
    pub padding: u32,
    pub value: [u32; 16],
}
const _: () = assert!(size_of::<LaunchAttribute>() == 72);

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct LaunchConfig {
    pub grid: [u32; 3],
    pub group: [u32; 3],
    pub shared_bytes: u32,
    pub stream: Handle,
    pub attributes: *const LaunchAttribute,
    pub attribute_count: u32,
}
const _: () = assert!(size_of::<LaunchConfig>() == 56);

macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($arg:ty),* $(,)?);)+) => {
        /// The functions, each as `cuda.h` declares it.
        pub(crate) struct Library {
            $(pub $field: unsafe extern "C" fn($($arg),*) -> Status,)+
        }

        impl Library {
            /// Loads it; the error is for people. It is never unloaded.
            pub fn load() -> Result<Library, String> {
                let named = std::env::var_os(LIBRARY_VARIABLE);
                let path = named.as_deref().unwrap_or(OsStr::new(SYSTEM_LIBRARY));
                let library = open(path)?;
                Ok(Library {
                    $($field: {
                        let found = find(library, $symbol).ok_or_else(|| {
                            format!("{} has no function {}; replay needs a driver of CUDA 12.4 or later", path.display(), $symbol)
                        })?;
                        // SAFETY: the driver declares the function of this name with these types.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) -> Status>(found) }
                    },)+
                })
            }
        }
    };
}

functions! {
    init = "cuInit": fn(u32);
    error_name = "cuGetErrorName": fn(Status, *mut *const c_char);
    error_text = "cuGetErrorString": fn(Status, *mut *const c_char);
    device_count = "cuDeviceGetCount": fn(*mut i32);
    device = "cuDeviceGet": fn(*mut i32, i32);
    device_name = "cuDeviceGetName": fn(*mut c_char, i32, i32);
    device_attribute = "cuDeviceGetAttribute": fn(*mut i32, i32, i32);
    retain_context = "cuDevicePrimaryCtxRetain": fn(*mut Handle, i32);
    use_context = "cuCtxSetCurrent": fn(Handle);
    synchronize = "cuCtxSynchronize": fn();
    load_module = "cuModuleLoadData": fn(*mut Handle, *const u8);
    unload_module = "cuModuleUnload": fn(Handle);
    function = "cuModuleGetFunction": fn(*mut Handle, Handle, *const c_char);
    variable = "cuModuleGetGlobal_v2": fn(*mut Address, *mut usize, Handle, *const c_char);
    parameter = "cuFuncGetParamInfo": fn(Handle, usize, *mut usize, *mut usize);
    set_function_attribute = "cuFuncSetAttribute": fn(Handle, i32, i32);
    launch = "cuLaunchKernelEx": fn(*const LaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void);
    copy_to_device = "cuMemcpyHtoD_v2": fn(Address, *const c_void, usize);
    copy_to_host = "cuMemcpyDtoH_v2": fn(*mut c_void, Address, usize);
    fill = "cuMemsetD8_v2": fn(Address, u8, usize);
    granularity = "cuMemGetAllocationGranularity": fn(*mut usize, *const MemoryKind, u32);
    reserve = "cuMemAddressReserve": fn(*mut Address, usize, usize, Address, u64);
    free_address = "cuMemAddressFree": fn(Address, usize);
    create = "cuMemCreate": fn(*mut u64, usize, *const MemoryKind, u64);
    release = "cuMemRelease": fn(u64);
    map = "cuMemMap": fn(Address, usize, usize, u64, u64);
    unmap = "cuMemUnmap": fn(Address, usize);
    set_access = "cuMemSetAccess": fn(Address, usize, *const MemoryAccess, usize);
}

impl Library {
    /// A status in words.
    pub fn failed(&self, what: &str, status: Status) -> String {
        let said = |ask: unsafe extern "C" fn(Status, *mut *const c_char) -> Status| {
            let mut text = std::ptr::null();
            // SAFETY: a place of this call's; the text, where there is one, is the library's own and stays.
            let known = unsafe { ask(status, &raw mut text) } == 0 && !text.is_null();
            // SAFETY: as above, and it ends with a zero.
            known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        match (said(self.error_name), said(self.error_text)) {
            (Some(name), Some(text)) => format!("{what} answers {status} ({name}: {text})"),
            (Some(name), None) => format!("{what} answers {status} ({name})"),
            _ => format!("{what} answers {status}"),
        }
    }

    /// Whether a call went well.
    pub fn good(&self, what: &str, status: Status) -> Result<(), String> {
        if status == 0 { Ok(()) } else { Err(self.failed(what, status)) }
    }
}

fn open(path: &OsStr) -> Result<*mut c_void, String> {
    let name = CString::new(path.as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the name ends with a zero. Loading runs initialisers of a library that the user or the system names.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !library.is_null() {
        return Ok(library);
    }
    // SAFETY: a text of the loader's own, or none, right behind the call that failed.
    let why = unsafe { libc::dlerror() };
    let why = if why.is_null() {
        path.display().to_string()
    } else {
        // SAFETY: it is not null, and such a text ends with a zero.
        unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned()
    };
    Err(format!(
        "there is no CUDA driver here ({why}); launches are replayed on a machine with an NVIDIA GPU, \
         or name its library in {LIBRARY_VARIABLE}"
    ))
}

fn find(library: *mut c_void, symbol: &str) -> Option<*mut c_void> {
    let name = CString::new(symbol).ok()?;
    // SAFETY: the library is never closed; the name ends with a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
