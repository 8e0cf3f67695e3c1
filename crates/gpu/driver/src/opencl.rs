//! Functions of OpenCL, as `CL/cl.h` declares them.
#![expect(unsafe_code, reason = "functions of a C library")]

use std::ffi::{c_char, c_void};

use tensortap_library::{Library, functions};

/// Environment variable with the path of the OpenCL loader.
pub const LIBRARY_VARIABLE: &str = "TENSORTAP_OPENCL";
/// File name of the system's OpenCL loader.
pub const SYSTEM_LIBRARY: &str = "libOpenCL.so.1";

/// A platform, device, context, queue, program, kernel or buffer. OpenCL owns the object.
pub type Handle = *mut c_void;
/// Result of a call; 0 is success.
pub type Status = i32;

functions! {
    /// The functions that every OpenCL 1.2 loader has.
    #[expect(missing_docs, reason = "`CL/cl.h` documents them")]
    pub struct Functions {
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

/// `clCreateProgramWithIL`.
pub type CreateProgramWithIl = unsafe extern "C" fn(Handle, *const u8, usize, *mut Status) -> Handle;

/// An OpenCL loader.
#[derive(Clone, Copy, Debug)]
pub struct OpenCl {
    functions: Functions,
    /// Makes programs from SPIR-V, if the loader supports it.
    pub create_program_with_il: Option<CreateProgramWithIl>,
}

impl std::ops::Deref for OpenCl {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.functions
    }
}

impl OpenCl {
    /// Looks up all functions.
    ///
    /// # Errors
    /// The name of a required function that the library lacks.
    pub fn find(library: Library) -> Result<OpenCl, &'static str> {
        // SAFETY: the OpenCL standard declares the function with these types.
        let create_program_with_il = unsafe { library.function("clCreateProgramWithIL") };
        Ok(OpenCl { functions: Functions::find(library)?, create_program_with_il })
    }
}
