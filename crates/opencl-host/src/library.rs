//! The functions of OpenCL that a launch needs, in a library that is found at run time.
#![expect(unsafe_code, reason = "functions of a C library")]

use std::ffi::{c_char, c_void};

use tensortap_library::{functions, named_or};

/// Names the library; without it, the system's loader is meant.
pub(crate) const LIBRARY_VARIABLE: &str = "TENSORTAP_OPENCL";
const SYSTEM_LIBRARY: &str = "libOpenCL.so.1";

/// What OpenCL hands out: a platform, a device, a context and so on.
pub(crate) type Handle = *mut c_void;
pub(crate) type Status = i32;

functions! {
    /// The functions, each as `CL/cl.h` declares it.
    pub(crate) struct Functions {
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
}

/// A function that makes programs of intermediate code.
type CreateProgramWithIl = unsafe extern "C" fn(Handle, *const u8, usize, *mut Status) -> Handle;

/// The library.
#[derive(Debug)]
pub(crate) struct Library {
    functions: Functions,
    /// Makes programs of SPIR-V, where the library can.
    pub create_program_with_il: Option<CreateProgramWithIl>,
}

impl std::ops::Deref for Library {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.functions
    }
}

impl Library {
    /// Loads it; the error is for people. It is never unloaded.
    pub fn load() -> Result<Library, String> {
        let path = named_or(LIBRARY_VARIABLE, SYSTEM_LIBRARY);
        let library = tensortap_library::Library::open(&path).map_err(|why| {
            format!(
                "there is no OpenCL here ({why}); install a loader, or name one in {LIBRARY_VARIABLE}: a program that was recorded may have brought its own, as pyopencl does \
                 (pyopencl/.libs/libOpenCL*, or pyopencl.libs, where Python's packages are)"
            )
        })?;
        let functions = Functions::find(library)
            .map_err(|missing| format!("{} has no function {missing}", path.display()))?;
        // SAFETY: the standard declares the function of this name with these types.
        let create_program_with_il = unsafe { library.function("clCreateProgramWithIL") };
        Ok(Library { functions, create_program_with_il })
    }
}
