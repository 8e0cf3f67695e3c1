//! Functions of CUDA's driver and of CUPTI, found at run time in the libraries that the program has loaded.

mod cupti;
mod launch;

use std::{
    ffi::{CStr, CString, c_char, c_void},
    ptr,
};

use tensortap_library::Library;

use crate::raw::LaunchConfig;

pub use cupti::{MULTIPLE_SUBSCRIBERS, SubscribeError, number_of, subscribe};

/// The status that a function of either library returns. 0 is success.
pub type Status = i32;
/// The status of success.
pub const SUCCESS: Status = 0;

/// A function that a stream calls.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);
/// A function that CUPTI calls with user data, domain, id and call data.
pub type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);

macro_rules! functions {
    ($(#[$of:meta])* $table:ident { $($field:ident: $symbol:literal fn($($arg:ty),*);)* }) => {
        $(#[$of])*
        pub struct $table {
            $($field: Option<unsafe extern "C" fn($($arg),*) -> Status>,)*
        }

        impl $table {
            fn of(library: Library) -> $table {
                // SAFETY: the library declares each function with this signature.
                $table { $($field: unsafe { library.function($symbol) },)* }
            }
        }
    };
}

functions! {
    /// Functions of the driver. Handles are numbers, because the backend never follows them.
    Driver {
        copy_to_host: "cuMemcpyDtoHAsync_v2" fn(usize, u64, usize, usize);
        host_function: "cuLaunchHostFunc" fn(usize, HostFunction, *mut c_void);
        is_capturing: "cuStreamIsCapturing" fn(usize, *mut i32);
        stream_flags: "cuStreamGetFlags" fn(usize, *mut u32);
        stream_context: "cuStreamGetCtx" fn(usize, *mut usize);
        exchange_capture_mode: "cuThreadExchangeStreamCaptureMode" fn(*mut i32);
        register: "cuMemHostRegister_v2" fn(usize, usize, u32);
        context_device: "cuCtxGetDevice" fn(*mut i32);
        device_name: "cuDeviceGetName" fn(*mut c_char, i32, i32);
        function_parameter: "cuFuncGetParamInfo" fn(usize, usize, *mut usize, *mut usize);
        kernel_parameter: "cuKernelGetParamInfo" fn(usize, usize, *mut usize, *mut usize);
        kernel_function: "cuKernelGetFunction" fn(*mut usize, usize);
        load_function: "cuFuncLoad" fn(usize);
        function_name: "cuFuncGetName" fn(*mut *const c_char, usize);
        kernel_name: "cuKernelGetName" fn(*mut *const c_char, usize);
        address_range: "cuMemGetAddressRange_v2" fn(*mut u64, *mut usize, u64);
        function_module: "cuFuncGetModule" fn(*mut usize, usize);
        module_variable: "cuModuleGetGlobal_v2" fn(*mut u64, *mut usize, usize, *const c_char);
        capture_info: "cuStreamGetCaptureInfo_v2" fn(usize, *mut i32, *mut u64, *mut usize, *mut *const usize, *mut usize);
        graph_nodes: "cuGraphGetNodes" fn(usize, *mut usize, *mut usize);
        node_kind: "cuGraphNodeGetType" fn(usize, *mut i32);
        kernel_node: "cuGraphKernelNodeGetParams_v2" fn(usize, *mut u64);
        old_kernel_node: "cuGraphKernelNodeGetParams" fn(usize, *mut u64);
        copy_node: "cuGraphMemcpyNodeGetParams" fn(usize, *mut u64);
        fill_node: "cuGraphMemsetNodeGetParams" fn(usize, *mut u64);
        child_graph: "cuGraphChildGraphNodeGetGraph" fn(usize, *mut usize);
        load_module: "cuModuleLoadData" fn(*mut usize, *const c_void);
        module_function: "cuModuleGetFunction" fn(*mut usize, usize, *const c_char);
        allocate: "cuMemAlloc_v2" fn(*mut u64, usize);
        memory_info: "cuMemGetInfo_v2" fn(*mut usize, *mut usize);
        fill: "cuMemsetD32Async" fn(u64, u32, usize, usize);
        launch_with: "cuLaunchKernelEx" fn(*const LaunchConfig, usize, *mut *const c_void, *mut *mut c_void);
        device_attribute: "cuDeviceGetAttribute" fn(*mut i32, i32, i32);
        launch: "cuLaunchKernel" fn(usize, u32, u32, u32, u32, u32, u32, u32, usize, *mut *const c_void, *mut *mut c_void);
        push_context: "cuCtxPushCurrent_v2" fn(usize);
        pop_context: "cuCtxPopCurrent_v2" fn(*mut usize);
        set_context: "cuCtxSetCurrent" fn(usize);
        make_stream: "cuStreamCreate" fn(*mut usize, u32);
        wait_stream: "cuStreamSynchronize" fn(usize);
        make_event: "cuEventCreate" fn(*mut usize, u32);
        record_event: "cuEventRecord" fn(usize, usize);
        ask_event: "cuEventQuery" fn(usize);
        device_pointer: "cuMemHostGetDevicePointer_v2" fn(*mut u64, usize, u32);
        pointer_attribute: "cuPointerGetAttribute" fn(*mut c_void, i32, u64);
    }
}

functions! {
    /// Functions of CUPTI.
    Cupti {
        subscribe: "cuptiSubscribe" fn(*mut usize, Callback, *mut c_void);
        enable: "cuptiEnableCallback" fn(u32, usize, u32, u32);
        context_id: "cuptiGetContextId" fn(usize, *mut u32);
    }
}

/// The status for a function that the library does not have.
const NOT_FOUND: Status = 500;
/// Registered memory is registered for every context, and kernels may write it.
const REGISTER_PORTABLE_MAPPED: u32 = 1 | 2;
/// Flag of an event without a timestamp. The backend only asks whether it has occurred.
const EVENT_WITHOUT_TIMES: u32 = 2;
/// The status of an event that has not occurred.
const NOT_READY: Status = 600;
/// Attribute: the major compute capability of a device.
const CAPABILITY_MAJOR: i32 = 75;
/// Attribute: the device that owns memory.
const POINTER_DEVICE: i32 = 9;
/// Calls of this thread do not invalidate the capture of another thread.
const CAPTURE_RELAXED: i32 = 2;
/// Flag of a stream that is not ordered with the legacy stream.
const STREAM_NON_BLOCKING: u32 = 1;
/// No kernel has more parameters.
const MAX_PARAMETERS: usize = 8192;

impl Driver {
    /// The driver that loaded this library.
    pub fn find() -> Option<Driver> {
        // The library is loaded already, so this opens the same one.
        let library = Library::open("libcuda.so.1").ok()?;
        let driver = Driver::of(library);
        let is_whole = driver.copy_to_host.is_some() && driver.host_function.is_some();
        (is_whole && driver.is_capturing.is_some()).then_some(driver)
    }

    /// Puts a copy from the device into a stream. It is complete when the stream has come that far.
    ///
    /// # Safety
    /// Until then, the memory at `to` lives, and nothing else uses it.
    pub unsafe fn copy_to_host(&self, to: usize, from: u64, bytes: u64, stream: usize) -> Status {
        let (Some(call), Ok(bytes)) = (self.copy_to_host, usize::try_from(bytes)) else { return NOT_FOUND };
        // SAFETY: the caller's guarantee.
        unsafe { call(to, from, bytes, stream) }
    }

    /// Puts a function of this process into a stream.
    ///
    /// # Safety
    /// Any thread may call the function with `data`, once. The function does not call CUDA.
    pub unsafe fn host_function(&self, stream: usize, function: HostFunction, data: *mut c_void) -> Status {
        // SAFETY: the caller's guarantee.
        self.host_function.map_or(NOT_FOUND, |call| unsafe { call(stream, function, data) })
    }

    /// Whether the stream is captured into a graph, or rejects commands because another capture is active.
    pub fn is_capturing(&self, stream: usize) -> bool {
        let mut captures = 0;
        // SAFETY: the stream of the program's call, and a local variable.
        let asked = self.is_capturing.map_or(NOT_FOUND, |call| unsafe { call(stream, &raw mut captures) });
        asked != SUCCESS || captures != 0
    }

    /// Whether a stream is ordered with the legacy stream.
    pub fn is_blocking(&self, stream: usize) -> bool {
        let mut flags = 0;
        // SAFETY: as above.
        let asked = self.stream_flags.map_or(NOT_FOUND, |call| unsafe { call(stream, &raw mut flags) });
        asked == SUCCESS && flags & STREAM_NON_BLOCKING == 0
    }

    /// The context in which a stream was created.
    pub fn stream_context(&self, stream: usize) -> Option<usize> {
        let mut context = 0;
        // SAFETY: as above.
        let asked = self.stream_context.map_or(NOT_FOUND, |call| unsafe { call(stream, &raw mut context) });
        (asked == SUCCESS && context != 0).then_some(context)
    }

    /// Runs `call` so that its calls do not invalidate the capture of another thread.
    pub fn relaxed<T>(&self, call: impl FnOnce() -> T) -> T {
        let mut mode = CAPTURE_RELAXED;
        let exchange = |mode: &mut i32| {
            // SAFETY: the pointer is a local variable.
            self.exchange_capture_mode.map_or(NOT_FOUND, |call| unsafe { call(mode) })
        };
        let relaxed = exchange(&mut mode) == SUCCESS;
        let answer = call();
        if relaxed {
            exchange(&mut mode);
        }
        answer
    }

    /// Pins memory of this process, so that devices can write it directly. Copies to unpinned memory are
    /// slower.
    pub fn register(&self, start: usize, bytes: u64) -> Status {
        let (Some(call), Ok(bytes)) = (self.register, usize::try_from(bytes)) else { return NOT_FOUND };
        // SAFETY: the memory lives until the process ends.
        self.relaxed(|| unsafe { call(start, bytes, REGISTER_PORTABLE_MAPPED) })
    }

    /// The device address of pinned memory of this process.
    pub fn device_pointer(&self, start: usize) -> Result<u64, Status> {
        let mut address = 0;
        // SAFETY: the pointer is a local variable.
        let asked = self.device_pointer.map_or(NOT_FOUND, |call| unsafe { call(&raw mut address, start, 0) });
        succeeded(asked, address)
    }

    /// Runs `call` with this context as the current one.
    pub fn within<T>(&self, context: usize, call: impl FnOnce() -> T) -> Result<T, Status> {
        // SAFETY: the context lives.
        let pushed = self.push_context.map_or(NOT_FOUND, |push| unsafe { push(context) });
        succeeded(pushed, ())?;
        let answer = self.relaxed(call);
        let mut popped = 0;
        // SAFETY: the pointer is a local variable.
        let _ = self.pop_context.map_or(NOT_FOUND, |pop| unsafe { pop(&raw mut popped) });
        Ok(answer)
    }

    /// Makes a context the current one of this thread.
    pub fn set_context(&self, context: usize) -> Status {
        // SAFETY: the context lives, or the driver refuses it.
        self.set_context.map_or(NOT_FOUND, |call| unsafe { call(context) })
    }

    /// Loads code and finds its kernels. The code is a text that ends with a zero byte.
    pub fn load_code<const N: usize>(&self, code: &CStr, names: [&CStr; N]) -> Result<[usize; N], Status> {
        let mut module = 0;
        // SAFETY: the text ends with a zero byte, and the pointer is a local variable.
        let loaded =
            self.load_module.map_or(NOT_FOUND, |call| unsafe { call(&raw mut module, code.as_ptr().cast()) });
        succeeded(loaded, ())?;
        let mut kernels = [0; N];
        for (kernel, name) in kernels.iter_mut().zip(names) {
            // SAFETY: the module stays loaded, the name ends with a zero byte, and the pointer is a local
            // variable.
            let found = self
                .module_function
                .map_or(NOT_FOUND, |call| unsafe { call(&raw mut *kernel, module, name.as_ptr()) });
            succeeded(found, ())?;
        }
        Ok(kernels)
    }

    /// Allocates memory of the current device. It is never freed.
    pub fn allocate(&self, bytes: u64) -> Result<u64, Status> {
        let (mut address, bytes) = (0, usize::try_from(bytes).unwrap_or(usize::MAX));
        // SAFETY: the pointer is a local variable.
        let allocated = self.allocate.map_or(NOT_FOUND, |call| unsafe { call(&raw mut address, bytes) });
        succeeded(allocated, address)
    }

    /// Size of the memory of the current device in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let (mut free, mut all) = (0, 0);
        // SAFETY: the pointers are local variables.
        let asked = self.memory_info.map_or(NOT_FOUND, |call| unsafe { call(&raw mut free, &raw mut all) });
        if asked == SUCCESS { all as u64 } else { 0 }
    }

    /// The device that owns memory.
    pub fn device_of(&self, address: u64) -> Option<i32> {
        let mut device = -1_i32;
        // SAFETY: the pointer is a local variable of the attribute's type.
        let asked = self
            .pointer_attribute
            .map_or(NOT_FOUND, |call| unsafe { call((&raw mut device).cast(), POINTER_DEVICE, address) });
        (asked == SUCCESS).then_some(device)
    }

    /// Fills words of 32 bits, in stream order.
    ///
    /// # Safety
    /// The backend owns this many words of device memory there.
    pub unsafe fn fill(&self, at: u64, word: u32, words: u64, stream: usize) -> Status {
        let words = usize::try_from(words).unwrap_or(usize::MAX);
        // SAFETY: the caller's guarantee.
        self.fill.map_or(NOT_FOUND, |call| unsafe { call(at, word, words, stream) })
    }

    /// The major compute capability of the current device. 0 if unknown.
    pub fn capability(&self) -> u32 {
        let (mut device, mut major) = (0, 0);
        // SAFETY: the pointer is a local variable.
        let asked = self.context_device.map_or(NOT_FOUND, |call| unsafe { call(&raw mut device) });
        let call = self.device_attribute.filter(|_| asked == SUCCESS);
        // SAFETY: as above.
        let result = call.map_or(NOT_FOUND, |call| unsafe { call(&raw mut major, CAPABILITY_MAJOR, device) });
        if result == SUCCESS { u32::try_from(major).unwrap_or(0) } else { 0 }
    }

    /// Creates a stream that is not ordered with any other.
    pub fn make_stream(&self) -> Result<usize, Status> {
        let mut stream = 0;
        // SAFETY: the pointer is a local variable.
        let made =
            self.make_stream.map_or(NOT_FOUND, |call| unsafe { call(&raw mut stream, STREAM_NON_BLOCKING) });
        succeeded(made, stream)
    }

    /// Waits for a stream of the backend.
    pub fn wait_stream(&self, stream: usize) -> Status {
        // SAFETY: the stream lives.
        self.wait_stream.map_or(NOT_FOUND, |call| unsafe { call(stream) })
    }

    /// Creates an event.
    pub fn make_event(&self) -> Result<usize, Status> {
        let mut event = 0;
        // SAFETY: the pointer is a local variable.
        let made =
            self.make_event.map_or(NOT_FOUND, |call| unsafe { call(&raw mut event, EVENT_WITHOUT_TIMES) });
        succeeded(made, event)
    }

    /// Records an event in a stream. It occurs when the stream has come that far.
    pub fn record_event(&self, event: usize, stream: usize) -> Status {
        // SAFETY: event and stream are the backend's.
        self.record_event.map_or(NOT_FOUND, |call| unsafe { call(event, stream) })
    }

    /// Whether an event has occurred.
    pub fn has_happened(&self, event: usize) -> Result<bool, Status> {
        // SAFETY: the event is the backend's.
        match self.ask_event.map_or(NOT_FOUND, |call| unsafe { call(event) }) {
            SUCCESS => Ok(true),
            NOT_READY => Ok(false),
            status => Err(status),
        }
    }

    /// The device of the current context, and its name.
    pub fn device(&self) -> (i32, String) {
        let mut device = 0;
        // SAFETY: the pointer is a local variable.
        let asked = self.context_device.map_or(NOT_FOUND, |call| unsafe { call(&raw mut device) });
        let mut name = [0_u8; 256];
        let named = self.device_name.filter(|_| asked == SUCCESS).map_or(NOT_FOUND, |call| {
            // SAFETY: the buffer has room for this many bytes.
            unsafe { call(name.as_mut_ptr().cast(), 255, device) }
        });
        let name = CStr::from_bytes_until_nul(&name).ok().filter(|_| named == SUCCESS);
        (device, name.map_or_else(|| "device".to_owned(), |name| name.to_string_lossy().into_owned()))
    }

    /// Start and size of the allocation that contains an address.
    pub fn range_of(&self, address: u64) -> Option<(u64, u64)> {
        let (mut start, mut bytes) = (0, 0);
        // SAFETY: the pointers are local variables.
        let asked = self
            .address_range
            .map_or(NOT_FOUND, |call| unsafe { call(&raw mut start, &raw mut bytes, address) });
        (asked == SUCCESS).then_some((start, bytes as u64))
    }

    /// The module of a function. 0 if unknown.
    pub fn module(&self, function: usize) -> usize {
        let mut module = 0;
        // SAFETY: the program launches this handle, and the pointer is a local variable.
        let asked = self.function_module.map_or(NOT_FOUND, |call| unsafe { call(&raw mut module, function) });
        if asked == SUCCESS { module } else { 0 }
    }

    /// Address and size of a variable of a module.
    pub fn variable(&self, module: usize, name: &str) -> Option<(u64, u64)> {
        let (call, name) = (self.module_variable?, CString::new(name).ok()?);
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: a module of the program, a name that ends with a zero byte, and local variables.
        let asked = unsafe { call(&raw mut address, &raw mut bytes, module, name.as_ptr()) };
        (asked == SUCCESS && address != 0).then_some((address, bytes as u64))
    }

    /// Makes the driver load the code of a kernel, if it has not done so. Returns the function of the kernel.
    pub fn load(&self, function: usize) -> usize {
        let mut of_kernel = 0;
        // SAFETY: the program launches this handle of either kind, and the pointer is a local variable.
        let asked =
            self.kernel_function.map_or(NOT_FOUND, |call| unsafe { call(&raw mut of_kernel, function) });
        let function = if asked == SUCCESS { of_kernel } else { function };
        if let Some(call) = self.load_function {
            // SAFETY: as above. If the code cannot be loaded now, the launch loads it.
            let _ = unsafe { call(function) };
        }
        function
    }

    /// Offset and size of each parameter of a kernel. None if the driver does not support the question. The
    /// handle may be a function or a kernel.
    pub fn parameters(&self, function: usize) -> Option<Vec<(usize, usize)>> {
        let asks = [self.function_parameter, self.kernel_parameter];
        asks.iter().all(Option::is_some).then_some(())?;
        let of = |ask: unsafe extern "C" fn(usize, usize, *mut usize, *mut usize) -> Status| {
            let place = |index| {
                let (mut offset, mut size) = (0, 0);
                // SAFETY: the program launches this handle, and the pointers are local variables.
                let status = unsafe { ask(function, index, &raw mut offset, &raw mut size) };
                (status == SUCCESS).then_some((offset, size))
            };
            (0..MAX_PARAMETERS).map_while(place).collect::<Vec<_>>()
        };
        let found = asks.into_iter().flatten().map(of).find(|places| !places.is_empty());
        Some(found.unwrap_or_default())
    }

    /// The graph that a stream is captured into, and a number that no other capture has.
    pub fn captured_graph(&self, stream: usize) -> (usize, u64) {
        let (mut status, mut id, mut graph) = (0, 0, 0);
        let (mut before, mut count) = (ptr::null(), 0);
        let asked = self.capture_info.map_or(NOT_FOUND, |call| {
            // SAFETY: the stream of the program's call, and local variables.
            unsafe {
                call(stream, &raw mut status, &raw mut id, &raw mut graph, &raw mut before, &raw mut count)
            }
        });
        if asked == SUCCESS { (graph, id) } else { (0, 0) }
    }

    /// The nodes of a graph. None if unknown.
    pub fn graph_nodes(&self, graph: usize) -> Option<Vec<usize>> {
        let (call, mut count) = (self.graph_nodes?, 0);
        // SAFETY: a graph of the program, and a local variable.
        let asked = unsafe { call(graph, ptr::null_mut(), &raw mut count) };
        let mut nodes = vec![0; count];
        // SAFETY: as above. The vector has room for that many nodes.
        let result =
            asked == SUCCESS && unsafe { call(graph, nodes.as_mut_ptr(), &raw mut count) } == SUCCESS;
        nodes.truncate(count);
        result.then_some(nodes)
    }

    /// The kind of a graph node.
    pub fn node_kind(&self, node: usize) -> Option<i32> {
        let mut kind = 0;
        // SAFETY: a node of the program, and a local variable.
        let asked = self.node_kind.map_or(NOT_FOUND, |call| unsafe { call(node, &raw mut kind) });
        (asked == SUCCESS).then_some(kind)
    }

    /// The parameters of a graph node, in at least as many words as the driver's structure has.
    pub fn node_parameters(&self, node: usize, what: NodeKind) -> Option<[u64; NODE_WORDS]> {
        let mut words = [0; NODE_WORDS];
        let calls = match what {
            NodeKind::Kernel => [self.kernel_node, self.old_kernel_node],
            NodeKind::Copy => [self.copy_node, None],
            NodeKind::Fill => [self.fill_node, None],
        };
        let call = calls.into_iter().flatten().next()?;
        // SAFETY: a node of the program of this kind, and room for the driver's structure.
        let asked = unsafe { call(node, words.as_mut_ptr()) };
        (asked == SUCCESS).then_some(words)
    }

    /// The graph of a child graph node.
    pub fn child_graph(&self, node: usize) -> Option<usize> {
        let mut graph = 0;
        // SAFETY: a node of the program, and a local variable.
        let asked = self.child_graph.map_or(NOT_FOUND, |call| unsafe { call(node, &raw mut graph) });
        (asked == SUCCESS).then_some(graph)
    }

    /// The name of a kernel.
    pub fn name(&self, function: usize) -> Option<String> {
        let asks = [self.function_name, self.kernel_name].into_iter().flatten();
        let mut names = asks.filter_map(|ask| {
            let mut name = ptr::null();
            // SAFETY: the program launches this handle, and the pointer is a local variable.
            let status = unsafe { ask(&raw mut name, function) };
            (status == SUCCESS && !name.is_null()).then_some(name)
        });
        // SAFETY: a text of the driver that lives as long as the kernel.
        names.next().map(|name| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }
}

/// Room for the parameters of any node. The largest structure, that of a copy, has 25 words.
pub const NODE_WORDS: usize = 64;

/// Kinds of graph nodes whose parameters the driver reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A kernel launch.
    Kernel,
    /// A copy.
    Copy,
    /// A fill.
    Fill,
}

fn succeeded<T>(status: Status, answer: T) -> Result<T, Status> {
    if status == SUCCESS { Ok(answer) } else { Err(status) }
}
