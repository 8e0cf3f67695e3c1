//! The functions of CUDA's driver that a launch needs, in a library that is found at run time.
#![expect(unsafe_code, reason = "functions of a C library")]

use std::ffi::{CStr, c_char, c_void};

use tensortap_library::{functions, named_or};

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

functions! {
    /// The functions, each as `cuda.h` declares it.
    pub(crate) struct Library {
        init = "cuInit": fn(u32) -> Status;
        error_name = "cuGetErrorName": fn(Status, *mut *const c_char) -> Status;
        error_text = "cuGetErrorString": fn(Status, *mut *const c_char) -> Status;
        device_count = "cuDeviceGetCount": fn(*mut i32) -> Status;
        device = "cuDeviceGet": fn(*mut i32, i32) -> Status;
        device_name = "cuDeviceGetName": fn(*mut c_char, i32, i32) -> Status;
        device_attribute = "cuDeviceGetAttribute": fn(*mut i32, i32, i32) -> Status;
        retain_context = "cuDevicePrimaryCtxRetain": fn(*mut Handle, i32) -> Status;
        use_context = "cuCtxSetCurrent": fn(Handle) -> Status;
        synchronize = "cuCtxSynchronize": fn() -> Status;
        load_module = "cuModuleLoadData": fn(*mut Handle, *const u8) -> Status;
        unload_module = "cuModuleUnload": fn(Handle) -> Status;
        function = "cuModuleGetFunction": fn(*mut Handle, Handle, *const c_char) -> Status;
        variable = "cuModuleGetGlobal_v2": fn(*mut Address, *mut usize, Handle, *const c_char) -> Status;
        parameter = "cuFuncGetParamInfo": fn(Handle, usize, *mut usize, *mut usize) -> Status;
        set_function_attribute = "cuFuncSetAttribute": fn(Handle, i32, i32) -> Status;
        launch = "cuLaunchKernelEx": fn(*const LaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void) -> Status;
        copy_to_device = "cuMemcpyHtoD_v2": fn(Address, *const c_void, usize) -> Status;
        copy_to_host = "cuMemcpyDtoH_v2": fn(*mut c_void, Address, usize) -> Status;
        fill = "cuMemsetD8_v2": fn(Address, u8, usize) -> Status;
        granularity = "cuMemGetAllocationGranularity": fn(*mut usize, *const MemoryKind, u32) -> Status;
        reserve = "cuMemAddressReserve": fn(*mut Address, usize, usize, Address, u64) -> Status;
        free_address = "cuMemAddressFree": fn(Address, usize) -> Status;
        create = "cuMemCreate": fn(*mut u64, usize, *const MemoryKind, u64) -> Status;
        release = "cuMemRelease": fn(u64) -> Status;
        map = "cuMemMap": fn(Address, usize, usize, u64, u64) -> Status;
        unmap = "cuMemUnmap": fn(Address, usize) -> Status;
        set_access = "cuMemSetAccess": fn(Address, usize, *const MemoryAccess, usize) -> Status;
    }
}

impl Library {
    /// Loads it; the error is for people. It is never unloaded.
    pub fn load() -> Result<Library, String> {
        let path = named_or(LIBRARY_VARIABLE, SYSTEM_LIBRARY);
        let library = tensortap_library::Library::open(&path).map_err(|why| {
            format!(
                "there is no CUDA driver here ({why}); launches are replayed on a machine with an NVIDIA GPU, \
                 or name its library in {LIBRARY_VARIABLE}"
            )
        })?;
        Library::find(library).map_err(|missing| {
            format!(
                "{} has no function {missing}; replay needs a driver of CUDA 12.4 or later",
                path.display()
            )
        })
    }

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
