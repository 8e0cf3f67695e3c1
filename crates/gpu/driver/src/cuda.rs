//! Functions of the CUDA driver, as `cuda.h` declares them.
#![expect(unsafe_code, reason = "functions of a C library")]

use std::ffi::{CStr, c_char, c_void};

use tensortap_library::Library;

/// File name of the driver.
pub const SYSTEM_LIBRARY: &str = "libcuda.so.1";

/// Result of a call.
pub type Status = i32;
/// The call succeeded.
pub const SUCCESS: Status = 0;
/// Status of a call to a function that this driver does not have: `CUDA_ERROR_NOT_FOUND`.
pub const NOT_FOUND: Status = 500;

/// A context, module, function, kernel, stream, event or graph. The driver owns the object; a handle is never dereferenced.
pub type Handle = usize;
/// An address in device memory.
pub type Address = u64;
/// A function that a stream calls.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemoryLocation {
    /// `CUmemLocationType`.
    pub kind: i32,
    /// Ordinal of the device.
    pub device: i32,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemoryKind {
    /// `CUmemAllocationType`.
    pub kind: i32,
    /// `CUmemAllocationHandleType`.
    pub handle_kinds: i32,
    /// Where the memory is.
    pub location: MemoryLocation,
    /// Zero.
    pub reserved: [u64; 2],
}
const _: () = assert!(size_of::<MemoryKind>() == 32);

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemoryAccess {
    /// The device that gets access.
    pub location: MemoryLocation,
    /// `CUmemAccess_flags`.
    pub flags: i32,
}
const _: () = assert!(size_of::<MemoryAccess>() == 12);

/// `CUlaunchAttribute`.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub struct LaunchAttribute {
    /// `CUlaunchAttributeID`.
    pub id: u32,
    /// Zero.
    padding: u32,
    /// `CUlaunchAttributeValue`.
    pub value: [u32; 16],
}
const _: () = assert!(size_of::<LaunchAttribute>() == 72);

impl LaunchAttribute {
    /// A cooperative launch: all blocks run at the same time.
    pub const COOPERATIVE: u32 = 2;
    /// The size of a cluster, in blocks.
    pub const CLUSTER: u32 = 4;
    /// Programmatic stream serialization: the launch may begin when its predecessor triggers it.
    pub const PROGRAMMATIC: u32 = 6;

    /// An attribute whose value begins with these words. Words after the 16th are ignored.
    #[must_use]
    pub fn new(id: u32, words: &[u32]) -> LaunchAttribute {
        let mut value = [0; 16];
        value.iter_mut().zip(words).for_each(|(to, word)| *to = *word);
        LaunchAttribute { id, padding: 0, value }
    }
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub group: [u32; 3],
    /// Bytes of dynamic shared memory per block.
    pub shared_bytes: u32,
    /// The stream.
    pub stream: Handle,
    /// Array of attributes.
    pub attributes: *const LaunchAttribute,
    /// Length of the array.
    pub attribute_count: u32,
}
const _: () = assert!(size_of::<LaunchConfig>() == 56);
const _: () = assert!(std::mem::offset_of!(LaunchConfig, stream) == 32);
const _: () = assert!(std::mem::offset_of!(LaunchConfig, attribute_count) == 48);

/// Declares the table: one optional function pointer and one method per function.
macro_rules! driver_functions {
    ($(#[$doc:meta])* $table:ident { $($name:ident = $symbol:literal($($arg:ident: $type:ty),* $(,)?);)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $table {
            $($name: Option<unsafe extern "C" fn($($type),*) -> Status>,)+
        }

        impl $table {
            /// Looks up all functions.
            #[must_use]
            pub fn find(library: Library) -> $table {
                // SAFETY: `cuda.h` declares each function with these types.
                unsafe { $table { $($name: library.function($symbol),)+ } }
            }

            /// Whether the driver has a function. False for a name that is not in the table.
            #[must_use]
            pub fn has(&self, symbol: &str) -> bool {
                match symbol {
                    $($symbol => self.$name.is_some(),)+
                    _ => false,
                }
            }

            $(
                #[doc = concat!("Calls `", $symbol, "`.")]
                ///
                /// # Safety
                /// As `cuda.h` requires.
                #[inline]
                #[allow(clippy::too_many_arguments, reason = "as in C")]
                pub unsafe fn $name(&self, $($arg: $type),*) -> Status {
                    // SAFETY: the caller's promise.
                    self.$name.map_or(NOT_FOUND, |call| unsafe { call($($arg),*) })
                }
            )+
        }
    };
}

driver_functions! {
    /// The functions of one CUDA driver. Calling a function that the driver lacks returns [`NOT_FOUND`].
    Driver {
        init = "cuInit"(flags: u32);
        get_error_name = "cuGetErrorName"(status: Status, name: *mut *const c_char);
        get_error_string = "cuGetErrorString"(status: Status, text: *mut *const c_char);

        device_get_count = "cuDeviceGetCount"(count: *mut i32);
        device_get = "cuDeviceGet"(device: *mut i32, ordinal: i32);
        device_get_name = "cuDeviceGetName"(name: *mut c_char, bytes: i32, device: i32);
        device_get_attribute = "cuDeviceGetAttribute"(value: *mut i32, attribute: i32, device: i32);
        primary_context_retain = "cuDevicePrimaryCtxRetain"(context: *mut Handle, device: i32);
        context_set_current = "cuCtxSetCurrent"(context: Handle);
        context_push_current = "cuCtxPushCurrent_v2"(context: Handle);
        context_pop_current = "cuCtxPopCurrent_v2"(context: *mut Handle);
        context_get_device = "cuCtxGetDevice"(device: *mut i32);
        context_synchronize = "cuCtxSynchronize"();

        module_load_data = "cuModuleLoadData"(module: *mut Handle, image: *const c_void);
        module_unload = "cuModuleUnload"(module: Handle);
        module_get_function = "cuModuleGetFunction"(function: *mut Handle, module: Handle, name: *const c_char);
        module_get_global = "cuModuleGetGlobal_v2"(address: *mut Address, bytes: *mut usize, module: Handle, name: *const c_char);
        function_get_param_info = "cuFuncGetParamInfo"(function: Handle, index: usize, offset: *mut usize, bytes: *mut usize);
        function_set_attribute = "cuFuncSetAttribute"(function: Handle, attribute: i32, value: i32);
        function_load = "cuFuncLoad"(function: Handle);
        function_get_name = "cuFuncGetName"(name: *mut *const c_char, function: Handle);
        function_get_module = "cuFuncGetModule"(module: *mut Handle, function: Handle);
        kernel_get_param_info = "cuKernelGetParamInfo"(kernel: Handle, index: usize, offset: *mut usize, bytes: *mut usize);
        kernel_get_function = "cuKernelGetFunction"(function: *mut Handle, kernel: Handle);
        kernel_get_name = "cuKernelGetName"(name: *mut *const c_char, kernel: Handle);

        launch_kernel = "cuLaunchKernel"(function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, group_x: u32, group_y: u32, group_z: u32, shared_bytes: u32, stream: Handle, parameters: *mut *mut c_void, extra: *mut *mut c_void);
        launch_kernel_ex = "cuLaunchKernelEx"(config: *const LaunchConfig, function: Handle, parameters: *mut *mut c_void, extra: *mut *mut c_void);
        launch_host_function = "cuLaunchHostFunc"(stream: Handle, function: HostFunction, data: *mut c_void);

        memory_allocate = "cuMemAlloc_v2"(address: *mut Address, bytes: usize);
        memory_free = "cuMemFree_v2"(address: Address);
        memory_get_info = "cuMemGetInfo_v2"(free: *mut usize, total: *mut usize);
        memory_get_address_range = "cuMemGetAddressRange_v2"(base: *mut Address, bytes: *mut usize, address: Address);
        pointer_get_attribute = "cuPointerGetAttribute"(value: *mut c_void, attribute: i32, address: Address);
        host_register = "cuMemHostRegister_v2"(start: usize, bytes: usize, flags: u32);
        host_get_device_pointer = "cuMemHostGetDevicePointer_v2"(address: *mut Address, start: usize, flags: u32);
        copy_to_device = "cuMemcpyHtoD_v2"(to: Address, from: *const c_void, bytes: usize);
        copy_to_host = "cuMemcpyDtoH_v2"(to: *mut c_void, from: Address, bytes: usize);
        copy_to_host_async = "cuMemcpyDtoHAsync_v2"(to: usize, from: Address, bytes: usize, stream: Handle);
        copy_on_device_async = "cuMemcpyDtoDAsync_v2"(to: Address, from: Address, bytes: usize, stream: Handle);
        fill_bytes = "cuMemsetD8_v2"(address: Address, value: u8, bytes: usize);
        fill_words_async = "cuMemsetD32Async"(address: Address, value: u32, words: usize, stream: Handle);

        memory_get_granularity = "cuMemGetAllocationGranularity"(bytes: *mut usize, kind: *const MemoryKind, option: u32);
        address_reserve = "cuMemAddressReserve"(address: *mut Address, bytes: usize, alignment: usize, wanted: Address, flags: u64);
        address_free = "cuMemAddressFree"(address: Address, bytes: usize);
        memory_create = "cuMemCreate"(memory: *mut u64, bytes: usize, kind: *const MemoryKind, flags: u64);
        memory_release = "cuMemRelease"(memory: u64);
        memory_map = "cuMemMap"(address: Address, bytes: usize, offset: usize, memory: u64, flags: u64);
        memory_unmap = "cuMemUnmap"(address: Address, bytes: usize);
        memory_set_access = "cuMemSetAccess"(address: Address, bytes: usize, access: *const MemoryAccess, count: usize);

        stream_create = "cuStreamCreate"(stream: *mut Handle, flags: u32);
        stream_synchronize = "cuStreamSynchronize"(stream: Handle);
        stream_get_flags = "cuStreamGetFlags"(stream: Handle, flags: *mut u32);
        stream_get_context = "cuStreamGetCtx"(stream: Handle, context: *mut Handle);
        stream_is_capturing = "cuStreamIsCapturing"(stream: Handle, state: *mut i32);
        stream_get_capture_info = "cuStreamGetCaptureInfo_v2"(stream: Handle, state: *mut i32, id: *mut u64, graph: *mut Handle, dependencies: *mut *const Handle, count: *mut usize);
        thread_exchange_capture_mode = "cuThreadExchangeStreamCaptureMode"(mode: *mut i32);
        event_create = "cuEventCreate"(event: *mut Handle, flags: u32);
        event_record = "cuEventRecord"(event: Handle, stream: Handle);
        event_query = "cuEventQuery"(event: Handle);
        event_synchronize = "cuEventSynchronize"(event: Handle);
        event_elapsed_time = "cuEventElapsedTime"(milliseconds: *mut f32, begin: Handle, end: Handle);

        graph_get_nodes = "cuGraphGetNodes"(graph: Handle, nodes: *mut Handle, count: *mut usize);
        graph_node_get_type = "cuGraphNodeGetType"(node: Handle, kind: *mut i32);
        graph_kernel_node_get_params = "cuGraphKernelNodeGetParams_v2"(node: Handle, parameters: *mut u64);
        graph_kernel_node_get_params_old = "cuGraphKernelNodeGetParams"(node: Handle, parameters: *mut u64);
        graph_copy_node_get_params = "cuGraphMemcpyNodeGetParams"(node: Handle, parameters: *mut u64);
        graph_fill_node_get_params = "cuGraphMemsetNodeGetParams"(node: Handle, parameters: *mut u64);
        graph_child_node_get_graph = "cuGraphChildGraphNodeGetGraph"(node: Handle, graph: *mut Handle);
    }
}

impl Driver {
    /// The first of these functions that the driver lacks.
    #[must_use]
    pub fn missing<'s>(&self, symbols: &[&'s str]) -> Option<&'s str> {
        symbols.iter().copied().find(|symbol| !self.has(symbol))
    }

    /// The error of a call, with the name and text of its status.
    ///
    /// # Errors
    /// If the status is not [`SUCCESS`].
    pub fn check(&self, call: &str, status: Status) -> Result<(), String> {
        if status == SUCCESS {
            return Ok(());
        }
        let ask = |function: Option<unsafe extern "C" fn(Status, *mut *const c_char) -> Status>| {
            let mut text = std::ptr::null();
            // SAFETY: writes a pointer to a static text, or nothing.
            let status = unsafe { function?(status, &raw mut text) };
            let is_known = status == SUCCESS && !text.is_null();
            // SAFETY: a static text that ends with a zero.
            is_known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        Err(match (ask(self.get_error_name), ask(self.get_error_string)) {
            (Some(name), Some(text)) => format!("{call} failed with status {status} ({name}: {text})"),
            (Some(name), None) => format!("{call} failed with status {status} ({name})"),
            _ => format!("{call} failed with status {status}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_functions_return_a_status() {
        let driver = Driver::find(Library::open("libc.so.6").unwrap());
        assert!(!driver.has("cuInit") && !driver.has("strlen"));
        assert_eq!(driver.missing(&["cuInit", "cuMemMap"]), Some("cuInit"));
        // SAFETY: the function does not exist, so nothing is called.
        let status = unsafe { driver.init(0) };
        assert_eq!(driver.check("cuInit", status), Err("cuInit failed with status 500".into()));
        assert_eq!(driver.check("cuInit", SUCCESS), Ok(()));
    }
}
