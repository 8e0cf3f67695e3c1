//! The functions of OpenCL that a launch needs, in a library that is found at run time.
#![expect(unsafe_code, reason = "functions of a C library")]

use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;

/// Names the library; without it, the system's loader is meant.
pub(crate) const LIBRARY_VARIABLE: &str = "TENSORTAP_OPENCL";
const SYSTEM_LIBRARY: &str = "libOpenCL.so.1";

/// What OpenCL hands out: a platform, a device, a context and so on.
pub(crate) type Handle = *mut c_void;
pub(crate) type Status = i32;

macro_rules! functions {
    ($($(#[$meta:meta])* $field:ident = $symbol:literal: fn($($arg:ty),* $(,)?) $(-> $result:ty)?;)+) => {
        /// The functions, each as `CL/cl.h` declares it.
        pub(crate) struct Library {
            $($(#[$meta])* pub $field: unsafe extern "C" fn($($arg),*) $(-> $result)?,)+
            /// Makes programs of SPIR-V, where the library can.
            pub create_program_with_il: Option<unsafe extern "C" fn(Handle, *const u8, usize, *mut Status) -> Handle>,
        }

        impl Library {
            /// Loads it; the error is for people. It is never unloaded.
            pub fn load() -> Result<Library, String> {
                let named = std::env::var_os(LIBRARY_VARIABLE);
                let path = named.as_deref().unwrap_or(OsStr::new(SYSTEM_LIBRARY));
                let library = open(path)?;
                Ok(Library {
                    $($field: {
                        let found = find(library, $symbol)
                            .ok_or_else(|| format!("{} has no function {}", path.display(), $symbol))?;
                        // SAFETY: the standard declares the function of this name with these types.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $result)?>(found) }
                    },)+
                    create_program_with_il: find(library, "clCreateProgramWithIL").map(|found| {
                        // SAFETY: as above.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn(Handle, *const u8, usize, *mut Status) -> Handle,
                            >(found)
                        }
                    }),
                })
            }
        }
    };
}

functions! {
    get_platform_ids = "clGetPlatformIDs": fn(u32, *mut Handle, *mut u32) -> Status;
    get_platform_info = "clGetPlatformInfo": fn(Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    get_device_ids = "clGetDeviceIDs": fn(Handle, u64, u32, *mut Handle, *mut u32) -> Status;
    get_device_info = "clGetDeviceInfo": fn(Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    create_context = "clCreateContext": fn(*const isize, u32, *const Handle, *const c_void, *mut c_void, *mut Status) -> Handle;
    create_queue = "clCreateCommandQueue": fn(Handle, Handle, u64, *mut Status) -> Handle;
    create_program_with_source = "clCreateProgramWithSource": fn(Handle, u32, *const *const c_char, *const usize, *mut Status) -> Handle;
    create_program_with_binary = "clCreateProgramWithBinary": fn(Handle, u32, *const Handle, *const usize, *const *const u8, *mut Status, *mut Status) -> Handle;
    build_program = "clBuildProgram": fn(Handle, u32, *const Handle, *const c_char, *const c_void, *mut c_void) -> Status;
    get_program_build_info = "clGetProgramBuildInfo": fn(Handle, Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    release_program = "clReleaseProgram": fn(Handle) -> Status;
    create_kernel = "clCreateKernel": fn(Handle, *const c_char, *mut Status) -> Handle;
    release_kernel = "clReleaseKernel": fn(Handle) -> Status;
    set_kernel_arg = "clSetKernelArg": fn(Handle, u32, usize, *const c_void) -> Status;
    get_kernel_info = "clGetKernelInfo": fn(Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    create_buffer = "clCreateBuffer": fn(Handle, u64, usize, *mut c_void, *mut Status) -> Handle;
    create_sub_buffer = "clCreateSubBuffer": fn(Handle, u64, u32, *const c_void, *mut Status) -> Handle;
    release_mem_object = "clReleaseMemObject": fn(Handle) -> Status;
    enqueue_nd_range_kernel = "clEnqueueNDRangeKernel": fn(Handle, Handle, u32, *const usize, *const usize, *const usize, u32, *const Handle, *mut Handle) -> Status;
    enqueue_read_buffer = "clEnqueueReadBuffer": fn(Handle, Handle, u32, usize, usize, *mut c_void, u32, *const Handle, *mut Handle) -> Status;
    finish = "clFinish": fn(Handle) -> Status;
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
        "there is no OpenCL here ({why}); install a loader, or name one in {LIBRARY_VARIABLE}: a program that was recorded may have brought its own, as pyopencl does \
         (pyopencl/.libs/libOpenCL*, or pyopencl.libs, where Python's packages are)"
    ))
}

fn find(library: *mut c_void, symbol: &str) -> Option<*mut c_void> {
    let name = CString::new(symbol).ok()?;
    // SAFETY: the library is never closed; the name ends with a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
