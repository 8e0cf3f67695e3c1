//! The part of OpenCL's binary interface that the layer uses. The numbers are those of the Khronos headers.

use std::ffi::{c_char, c_void};

/// A handle of the driver.
pub type Handle = *mut c_void;
/// `cl_context`.
pub type Context = Handle;
/// `cl_device_id`.
pub type Device = Handle;
/// `cl_command_queue`.
pub type Queue = Handle;
/// `cl_mem`.
pub type Mem = Handle;
/// `cl_program`.
pub type Program = Handle;
/// `cl_kernel`.
pub type Kernel = Handle;
/// `cl_event`.
pub type Event = Handle;
/// `cl_int`: a status.
pub type Status = i32;
/// `cl_bitfield`.
pub type Bits = u64;

/// Called by the driver when an event reaches a state.
pub type EventCallback = unsafe extern "C" fn(Event, i32, *mut c_void);
/// Called by the driver for an error in a context: a text, driver-specific bytes and their number, and the
/// program's data.
pub type ContextCallback = Option<unsafe extern "C" fn(*const c_char, *const c_void, usize, *mut c_void)>;
/// Called by the driver when a program was built.
pub type BuildCallback = Option<unsafe extern "C" fn(Program, *mut c_void)>;
/// The function of a native kernel.
pub type NativeFunction = Option<unsafe extern "C" fn(*mut c_void)>;
/// Called by the driver to free shared memory.
pub type FreeCallback = Option<unsafe extern "C" fn(Queue, u32, *mut *mut c_void, *mut c_void)>;
/// Called by the driver when it destroys a memory object.
pub type MemCallback = Option<unsafe extern "C" fn(Mem, *mut c_void)>;

pub const SUCCESS: Status = 0;
pub const INVALID_VALUE: Status = -30;
pub const INVALID_BUILD_OPTIONS: Status = -43;
pub const INVALID_EVENT_WAIT_LIST: Status = -57;
pub const INVALID_OPERATION: Status = -59;
pub const INVALID_COMPILER_OPTIONS: Status = -66;

pub const DEVICE_TYPE: u32 = 0x1000;
pub const DEVICE_MAX_WORK_GROUP_SIZE: u32 = 0x1004;
pub const DEVICE_MAX_MEM_ALLOC_SIZE: u32 = 0x1010;
pub const DEVICE_GLOBAL_MEM_SIZE: u32 = 0x101F;
pub const DEVICE_DOUBLE_FP_CONFIG: u32 = 0x1032;
pub const DEVICE_TYPE_CPU: Bits = 2;
pub const DEVICE_NAME: u32 = 0x102B;
pub const DRIVER_VERSION: u32 = 0x102D;
pub const DEVICE_EXECUTION_CAPABILITIES: u32 = 0x1029;
pub const EXEC_NATIVE_KERNEL: Bits = 2;

pub const QUEUE_CONTEXT: u32 = 0x1090;
pub const QUEUE_DEVICE: u32 = 0x1091;
pub const QUEUE_PROPERTIES: u32 = 0x1093;
pub const QUEUE_OUT_OF_ORDER: Bits = 1;

pub const MEM_READ_WRITE: Bits = 1;
pub const MEM_WRITE_ONLY: Bits = 1 << 1;
pub const MEM_FLAGS: u32 = 0x1101;
pub const MEM_REFERENCE_COUNT: u32 = 0x1105;
pub const MEM_USE_HOST_PTR: Bits = 1 << 3;
pub const MEM_COPY_HOST_PTR: Bits = 1 << 5;
pub const MEM_SVM_FINE_GRAIN: Bits = 1 << 10;

pub const MAP_WRITE: Bits = 2;
pub const MAP_WRITE_INVALIDATE: Bits = 4;

pub const PROGRAM_SOURCE: u32 = 0x1164;
pub const PROGRAM_BINARY_SIZES: u32 = 0x1165;
pub const PROGRAM_BINARIES: u32 = 0x1166;
pub const PROGRAM_IL: u32 = 0x1169;
pub const PROGRAM_DEVICES: u32 = 0x1163;
pub const PROGRAM_BUILD_OPTIONS: u32 = 0x1182;
pub const PROGRAM_BUILD_GLOBALS: u32 = 0x1185;

pub const KERNEL_FUNCTION_NAME: u32 = 0x1190;
pub const KERNEL_NUM_ARGS: u32 = 0x1191;
pub const KERNEL_PROGRAM: u32 = 0x1194;
pub const KERNEL_ARG_TYPE_NAME: u32 = 0x1198;
pub const KERNEL_ARG_ADDRESS_QUALIFIER: u32 = 0x1196;
pub const KERNEL_ARG_TYPE_QUALIFIER: u32 = 0x1199;
pub const KERNEL_ARG_NAME: u32 = 0x119A;
pub const ARG_ADDRESS_CONSTANT: u32 = 0x119D;
pub const ARG_TYPE_CONST: u64 = 1;
pub const KERNEL_EXEC_INFO_SVM_PTRS: u32 = 0x11B6;

pub const EVENT_COMMAND_TYPE: u32 = 0x11D1;
pub const EVENT_COMMAND_EXECUTION_STATUS: u32 = 0x11D3;
pub const COMPLETE: i32 = 0;
pub const RUNNING: i32 = 1;

pub const LAYER_API_VERSION: u32 = 0x4240;
pub const LAYER_NAME: u32 = 0x4241;
pub const LAYER_API_VERSION_100: u32 = 100;

/// `cl_buffer_region`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BufferRegion {
    /// Offset in bytes.
    pub origin: usize,
    /// Size in bytes.
    pub size: usize,
}
const _: () = assert!(size_of::<BufferRegion>() == 16);

/// The type of a table entry. Entries without a signature are passed on unchanged.
macro_rules! entry {
    () => { *const c_void };
    (fn($($arg:ty),*) -> $ret:ty) => { Option<unsafe extern "C" fn($($arg),*) -> $ret> };
}

macro_rules! dispatch {
    ($($name:ident $(= fn($($arg:ty),* $(,)?) -> $ret:ty)?;)*) => {
        /// The table through which a loader and its layers call each other: `cl_icd_dispatch`. A function
        /// that the layer does not call has no signature here.
        #[derive(Clone, Copy)]
        #[repr(C)]
        #[allow(non_snake_case, reason = "functions are called as the headers call them")]
        pub struct Dispatch {
            $(pub $name: entry!($(fn($($arg),*) -> $ret)?),)*
        }

        /// Number of entries.
        pub const ENTRIES: usize = [$(stringify!($name)),*].len();
    };
}

type Wait = *const Event;
type Sizes = *const usize;
type Properties = *const u64;

dispatch! {
    clGetPlatformIDs;
    clGetPlatformInfo;
    clGetDeviceIDs;
    clGetDeviceInfo = fn(Device, u32, usize, *mut c_void, *mut usize) -> Status;
    clCreateContext = fn(*const isize, u32, *const Device, ContextCallback, *mut c_void, *mut Status) -> Context;
    clCreateContextFromType = fn(*const isize, Bits, ContextCallback, *mut c_void, *mut Status) -> Context;
    clRetainContext = fn(Context) -> Status;
    clReleaseContext = fn(Context) -> Status;
    clGetContextInfo;
    clCreateCommandQueue = fn(Context, Device, Bits, *mut Status) -> Queue;
    clRetainCommandQueue = fn(Queue) -> Status;
    clReleaseCommandQueue = fn(Queue) -> Status;
    clGetCommandQueueInfo = fn(Queue, u32, usize, *mut c_void, *mut usize) -> Status;
    clSetCommandQueueProperty;
    clCreateBuffer = fn(Context, Bits, usize, *mut c_void, *mut Status) -> Mem;
    clCreateImage2D = fn(Context, Bits, *const c_void, usize, usize, usize, *mut c_void, *mut Status) -> Mem;
    clCreateImage3D = fn(Context, Bits, *const c_void, usize, usize, usize, usize, usize, *mut c_void, *mut Status) -> Mem;
    clRetainMemObject = fn(Mem) -> Status;
    clReleaseMemObject = fn(Mem) -> Status;
    clGetSupportedImageFormats;
    clGetMemObjectInfo = fn(Mem, u32, usize, *mut c_void, *mut usize) -> Status;
    clGetImageInfo;
    clCreateSampler;
    clRetainSampler;
    clReleaseSampler;
    clGetSamplerInfo;
    clCreateProgramWithSource = fn(Context, u32, *const *const c_char, *const usize, *mut Status) -> Program;
    clCreateProgramWithBinary;
    clRetainProgram;
    clReleaseProgram = fn(Program) -> Status;
    clBuildProgram = fn(Program, u32, *const Device, *const c_char, BuildCallback, *mut c_void) -> Status;
    clUnloadCompiler;
    clGetProgramInfo = fn(Program, u32, usize, *mut c_void, *mut usize) -> Status;
    clGetProgramBuildInfo = fn(Program, Device, u32, usize, *mut c_void, *mut usize) -> Status;
    clCreateKernel = fn(Program, *const c_char, *mut Status) -> Kernel;
    clCreateKernelsInProgram = fn(Program, u32, *mut Kernel, *mut u32) -> Status;
    clRetainKernel = fn(Kernel) -> Status;
    clReleaseKernel = fn(Kernel) -> Status;
    clSetKernelArg = fn(Kernel, u32, usize, *const c_void) -> Status;
    clGetKernelInfo = fn(Kernel, u32, usize, *mut c_void, *mut usize) -> Status;
    clGetKernelWorkGroupInfo = fn(Kernel, Device, u32, usize, *mut c_void, *mut usize) -> Status;
    clWaitForEvents = fn(u32, Wait) -> Status;
    clGetEventInfo = fn(Event, u32, usize, *mut c_void, *mut usize) -> Status;
    clRetainEvent = fn(Event) -> Status;
    clReleaseEvent = fn(Event) -> Status;
    clGetEventProfilingInfo = fn(Event, u32, usize, *mut c_void, *mut usize) -> Status;
    clFlush = fn(Queue) -> Status;
    clFinish = fn(Queue) -> Status;
    clEnqueueReadBuffer = fn(Queue, Mem, u32, usize, usize, *mut c_void, u32, Wait, *mut Event) -> Status;
    clEnqueueWriteBuffer = fn(Queue, Mem, u32, usize, usize, *const c_void, u32, Wait, *mut Event) -> Status;
    clEnqueueCopyBuffer = fn(Queue, Mem, Mem, usize, usize, usize, u32, Wait, *mut Event) -> Status;
    clEnqueueReadImage = fn(Queue, Mem, u32, Sizes, Sizes, usize, usize, *mut c_void, u32, Wait, *mut Event) -> Status;
    clEnqueueWriteImage = fn(Queue, Mem, u32, Sizes, Sizes, usize, usize, *const c_void, u32, Wait, *mut Event) -> Status;
    clEnqueueCopyImage = fn(Queue, Mem, Mem, Sizes, Sizes, Sizes, u32, Wait, *mut Event) -> Status;
    clEnqueueCopyImageToBuffer = fn(Queue, Mem, Mem, Sizes, Sizes, usize, u32, Wait, *mut Event) -> Status;
    clEnqueueCopyBufferToImage = fn(Queue, Mem, Mem, usize, Sizes, Sizes, u32, Wait, *mut Event) -> Status;
    clEnqueueMapBuffer = fn(Queue, Mem, u32, Bits, usize, usize, u32, Wait, *mut Event, *mut Status) -> *mut c_void;
    clEnqueueMapImage = fn(Queue, Mem, u32, Bits, Sizes, Sizes, *mut usize, *mut usize, u32, Wait, *mut Event, *mut Status) -> *mut c_void;
    clEnqueueUnmapMemObject = fn(Queue, Mem, *mut c_void, u32, Wait, *mut Event) -> Status;
    clEnqueueNDRangeKernel = fn(Queue, Kernel, u32, Sizes, Sizes, Sizes, u32, Wait, *mut Event) -> Status;
    clEnqueueTask = fn(Queue, Kernel, u32, Wait, *mut Event) -> Status;
    clEnqueueNativeKernel = fn(Queue, NativeFunction, *mut c_void, usize, u32, *const Mem, *const *const c_void, u32, Wait, *mut Event) -> Status;
    clEnqueueMarker = fn(Queue, *mut Event) -> Status;
    clEnqueueWaitForEvents = fn(Queue, u32, Wait) -> Status;
    clEnqueueBarrier = fn(Queue) -> Status;
    clGetExtensionFunctionAddress = fn(*const c_char) -> *mut c_void;
    clCreateFromGLBuffer;
    clCreateFromGLTexture2D;
    clCreateFromGLTexture3D;
    clCreateFromGLRenderbuffer;
    clGetGLObjectInfo;
    clGetGLTextureInfo;
    clEnqueueAcquireGLObjects;
    clEnqueueReleaseGLObjects;
    clGetGLContextInfoKHR;
    clGetDeviceIDsFromD3D10KHR;
    clCreateFromD3D10BufferKHR;
    clCreateFromD3D10Texture2DKHR;
    clCreateFromD3D10Texture3DKHR;
    clEnqueueAcquireD3D10ObjectsKHR;
    clEnqueueReleaseD3D10ObjectsKHR;
    clSetEventCallback = fn(Event, i32, Option<EventCallback>, *mut c_void) -> Status;
    clCreateSubBuffer = fn(Mem, Bits, u32, *const c_void, *mut Status) -> Mem;
    clSetMemObjectDestructorCallback = fn(Mem, MemCallback, *mut c_void) -> Status;
    clCreateUserEvent;
    clSetUserEventStatus;
    clEnqueueReadBufferRect = fn(Queue, Mem, u32, Sizes, Sizes, Sizes, usize, usize, usize, usize, *mut c_void, u32, Wait, *mut Event) -> Status;
    clEnqueueWriteBufferRect = fn(Queue, Mem, u32, Sizes, Sizes, Sizes, usize, usize, usize, usize, *const c_void, u32, Wait, *mut Event) -> Status;
    clEnqueueCopyBufferRect = fn(Queue, Mem, Mem, Sizes, Sizes, Sizes, usize, usize, usize, usize, u32, Wait, *mut Event) -> Status;
    clCreateSubDevicesEXT;
    clRetainDeviceEXT;
    clReleaseDeviceEXT;
    clCreateEventFromGLsyncKHR;
    clCreateSubDevices;
    clRetainDevice;
    clReleaseDevice;
    clCreateImage = fn(Context, Bits, *const c_void, *const c_void, *mut c_void, *mut Status) -> Mem;
    clCreateProgramWithBuiltInKernels;
    clCompileProgram = fn(Program, u32, *const Device, *const c_char, u32, *const Program, *const *const c_char, BuildCallback, *mut c_void) -> Status;
    clLinkProgram = fn(Context, u32, *const Device, *const c_char, u32, *const Program, BuildCallback, *mut c_void, *mut Status) -> Program;
    clUnloadPlatformCompiler;
    clGetKernelArgInfo = fn(Kernel, u32, u32, usize, *mut c_void, *mut usize) -> Status;
    clEnqueueFillBuffer = fn(Queue, Mem, *const c_void, usize, usize, usize, u32, Wait, *mut Event) -> Status;
    clEnqueueFillImage = fn(Queue, Mem, *const c_void, Sizes, Sizes, u32, Wait, *mut Event) -> Status;
    clEnqueueMigrateMemObjects = fn(Queue, u32, *const Mem, Bits, u32, Wait, *mut Event) -> Status;
    clEnqueueMarkerWithWaitList = fn(Queue, u32, Wait, *mut Event) -> Status;
    clEnqueueBarrierWithWaitList = fn(Queue, u32, Wait, *mut Event) -> Status;
    clGetExtensionFunctionAddressForPlatform = fn(Handle, *const c_char) -> *mut c_void;
    clCreateFromGLTexture;
    clGetDeviceIDsFromD3D11KHR;
    clCreateFromD3D11BufferKHR;
    clCreateFromD3D11Texture2DKHR;
    clCreateFromD3D11Texture3DKHR;
    clCreateFromDX9MediaSurfaceKHR;
    clEnqueueAcquireD3D11ObjectsKHR;
    clEnqueueReleaseD3D11ObjectsKHR;
    clGetDeviceIDsFromDX9MediaAdapterKHR;
    clEnqueueAcquireDX9MediaSurfacesKHR;
    clEnqueueReleaseDX9MediaSurfacesKHR;
    clCreateFromEGLImageKHR;
    clEnqueueAcquireEGLObjectsKHR;
    clEnqueueReleaseEGLObjectsKHR;
    clCreateEventFromEGLSyncKHR;
    clCreateCommandQueueWithProperties = fn(Context, Device, Properties, *mut Status) -> Queue;
    clCreatePipe = fn(Context, Bits, u32, u32, *const c_void, *mut Status) -> Mem;
    clGetPipeInfo;
    clSVMAlloc = fn(Context, Bits, usize, u32) -> *mut c_void;
    clSVMFree = fn(Context, *mut c_void) -> ();
    clEnqueueSVMFree = fn(Queue, u32, *mut *mut c_void, FreeCallback, *mut c_void, u32, Wait, *mut Event) -> Status;
    clEnqueueSVMMemcpy = fn(Queue, u32, *mut c_void, *const c_void, usize, u32, Wait, *mut Event) -> Status;
    clEnqueueSVMMemFill = fn(Queue, *mut c_void, *const c_void, usize, usize, u32, Wait, *mut Event) -> Status;
    clEnqueueSVMMap = fn(Queue, u32, Bits, *mut c_void, usize, u32, Wait, *mut Event) -> Status;
    clEnqueueSVMUnmap = fn(Queue, *mut c_void, u32, Wait, *mut Event) -> Status;
    clCreateSamplerWithProperties;
    clSetKernelArgSVMPointer = fn(Kernel, u32, *const c_void) -> Status;
    clSetKernelExecInfo = fn(Kernel, u32, usize, *const c_void) -> Status;
    clGetKernelSubGroupInfoKHR;
    clCloneKernel = fn(Kernel, *mut Status) -> Kernel;
    clCreateProgramWithIL;
    clEnqueueSVMMigrateMem = fn(Queue, u32, *const *const c_void, *const usize, Bits, u32, Wait, *mut Event) -> Status;
    clGetDeviceAndHostTimer;
    clGetHostTimer;
    clGetKernelSubGroupInfo;
    clSetDefaultDeviceCommandQueue;
    clSetProgramReleaseCallback;
    clSetProgramSpecializationConstant;
    clCreateBufferWithProperties = fn(Context, Properties, Bits, usize, *mut c_void, *mut Status) -> Mem;
    clCreateImageWithProperties = fn(Context, Properties, Bits, *const c_void, *const c_void, *mut c_void, *mut Status) -> Mem;
    clSetContextDestructorCallback;
}

// The table contains only addresses.
const _: () = assert!(size_of::<Dispatch>() == ENTRIES * size_of::<usize>() && ENTRIES == 149);

impl Dispatch {
    /// A table without functions. A loader then calls the next layer or the driver directly.
    pub const EMPTY: Dispatch = {
        // SAFETY: every entry is an address or none, and zero means none.
        unsafe { std::mem::zeroed() }
    };

    /// The first entries of a table with another number of entries.
    ///
    /// # Safety
    /// `table` has `entries` entries.
    pub unsafe fn first(table: *const Dispatch, entries: usize) -> Dispatch {
        let mut dispatch = Dispatch::EMPTY;
        let (from, to) = (table.cast::<usize>(), (&raw mut dispatch).cast::<usize>());
        // SAFETY: both tables have this many words, and any word is an address or none.
        unsafe { std::ptr::copy_nonoverlapping(from, to, entries.min(ENTRIES)) };
        dispatch
    }
}
