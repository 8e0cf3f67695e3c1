//! Functions of CUDA's driver and of CUPTI, found at run time in the libraries that the program has loaded.

mod cupti;
mod launch;

use std::{
    ffi::{CStr, CString, c_void},
    ptr,
};

use tensortap_driver::cuda::{self, NOT_FOUND};
use tensortap_library::Library;

pub use cupti::{MULTIPLE_SUBSCRIBERS, SubscribeError, number_of, subscribe};
pub use tensortap_driver::cuda::{HostFunction, LaunchAttribute, LaunchConfig, SUCCESS, Status};

/// A function that CUPTI calls with user data, domain, id and call data.
pub type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);

/// The driver of this process. It answers questions about handles and addresses of the program, and runs the backend's commands.
pub struct Driver {
    functions: cuda::Driver,
}

/// Functions without which nothing is recorded.
const REQUIRED: [&str; 3] = ["cuMemcpyDtoHAsync_v2", "cuLaunchHostFunc", "cuStreamIsCapturing"];
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
        let functions = cuda::Driver::find(Library::open(cuda::SYSTEM_LIBRARY).ok()?);
        functions.missing(&REQUIRED).is_none().then_some(Driver { functions })
    }

    /// Puts a copy from the device into a stream. It is complete when the stream has come that far.
    ///
    /// # Safety
    /// Until then, the memory at `to` lives, and nothing else uses it.
    pub unsafe fn copy_to_host(&self, to: usize, from: u64, bytes: u64, stream: usize) -> Status {
        let Ok(bytes) = usize::try_from(bytes) else { return NOT_FOUND };
        // SAFETY: the caller's guarantee.
        unsafe { self.functions.copy_to_host_async(to, from, bytes, stream) }
    }

    /// Puts a function of this process into a stream.
    ///
    /// # Safety
    /// Any thread may call the function with `data`, once. The function does not call CUDA.
    pub unsafe fn host_function(&self, stream: usize, function: HostFunction, data: *mut c_void) -> Status {
        // SAFETY: the caller's guarantee.
        unsafe { self.functions.launch_host_function(stream, function, data) }
    }

    /// Whether the stream is captured into a graph, or rejects commands because another capture is active.
    pub fn is_capturing(&self, stream: usize) -> bool {
        let mut captures = 0;
        // SAFETY: the stream of the program's call, and a local variable.
        let asked = unsafe { self.functions.stream_is_capturing(stream, &raw mut captures) };
        asked != SUCCESS || captures != 0
    }

    /// Whether a stream is ordered with the legacy stream.
    pub fn is_blocking(&self, stream: usize) -> bool {
        let mut flags = 0;
        // SAFETY: as above.
        let asked = unsafe { self.functions.stream_get_flags(stream, &raw mut flags) };
        asked == SUCCESS && flags & STREAM_NON_BLOCKING == 0
    }

    /// The context in which a stream was created.
    pub fn stream_context(&self, stream: usize) -> Option<usize> {
        let mut context = 0;
        // SAFETY: as above.
        let asked = unsafe { self.functions.stream_get_context(stream, &raw mut context) };
        (asked == SUCCESS && context != 0).then_some(context)
    }

    /// Runs `call` so that its calls do not invalidate the capture of another thread.
    pub fn relaxed<T>(&self, call: impl FnOnce() -> T) -> T {
        let mut mode = CAPTURE_RELAXED;
        let exchange = |mode: &mut i32| {
            // SAFETY: the pointer is a local variable.
            unsafe { self.functions.thread_exchange_capture_mode(mode) }
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
        let Ok(bytes) = usize::try_from(bytes) else { return NOT_FOUND };
        // SAFETY: the memory lives until the process ends.
        self.relaxed(|| unsafe { self.functions.host_register(start, bytes, REGISTER_PORTABLE_MAPPED) })
    }

    /// The device address of pinned memory of this process.
    pub fn device_pointer(&self, start: usize) -> Result<u64, Status> {
        let mut address = 0;
        // SAFETY: the pointer is a local variable.
        let asked = unsafe { self.functions.host_get_device_pointer(&raw mut address, start, 0) };
        succeeded(asked, address)
    }

    /// Runs `call` with this context as the current one.
    pub fn within<T>(&self, context: usize, call: impl FnOnce() -> T) -> Result<T, Status> {
        // SAFETY: the context lives.
        let pushed = unsafe { self.functions.context_push_current(context) };
        succeeded(pushed, ())?;
        let answer = self.relaxed(call);
        let mut popped = 0;
        // SAFETY: the pointer is a local variable.
        let _ = unsafe { self.functions.context_pop_current(&raw mut popped) };
        Ok(answer)
    }

    /// Makes a context the current one of this thread.
    pub fn set_context(&self, context: usize) -> Status {
        // SAFETY: the context lives, or the driver refuses it.
        unsafe { self.functions.context_set_current(context) }
    }

    /// Loads code and finds its kernels. The code is a text that ends with a zero byte.
    pub fn load_code<const N: usize>(&self, code: &CStr, names: [&CStr; N]) -> Result<[usize; N], Status> {
        let mut module = 0;
        // SAFETY: the text ends with a zero byte, and the pointer is a local variable.
        let loaded = unsafe { self.functions.module_load_data(&raw mut module, code.as_ptr().cast()) };
        succeeded(loaded, ())?;
        let mut kernels = [0; N];
        for (kernel, name) in kernels.iter_mut().zip(names) {
            // SAFETY: the module stays loaded, the name ends with a zero byte, and the pointer is a local
            // variable.
            let found =
                unsafe { self.functions.module_get_function(&raw mut *kernel, module, name.as_ptr()) };
            succeeded(found, ())?;
        }
        Ok(kernels)
    }

    /// Allocates memory of the current device. It is never freed.
    pub fn allocate(&self, bytes: u64) -> Result<u64, Status> {
        let (mut address, bytes) = (0, usize::try_from(bytes).unwrap_or(usize::MAX));
        // SAFETY: the pointer is a local variable.
        let allocated = unsafe { self.functions.memory_allocate(&raw mut address, bytes) };
        succeeded(allocated, address)
    }

    /// Size of the memory of the current device in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let (mut free, mut all) = (0, 0);
        // SAFETY: the pointers are local variables.
        let asked = unsafe { self.functions.memory_get_info(&raw mut free, &raw mut all) };
        if asked == SUCCESS { all as u64 } else { 0 }
    }

    /// The device that owns memory.
    pub fn device_of(&self, address: u64) -> Option<i32> {
        let mut device = -1_i32;
        // SAFETY: the pointer is a local variable of the attribute's type.
        let asked = unsafe {
            self.functions.pointer_get_attribute((&raw mut device).cast(), POINTER_DEVICE, address)
        };
        (asked == SUCCESS).then_some(device)
    }

    /// Fills words of 32 bits, in stream order.
    ///
    /// # Safety
    /// The backend owns this many words of device memory there.
    pub unsafe fn fill(&self, at: u64, word: u32, words: u64, stream: usize) -> Status {
        let words = usize::try_from(words).unwrap_or(usize::MAX);
        // SAFETY: the caller's guarantee.
        unsafe { self.functions.fill_words_async(at, word, words, stream) }
    }

    /// The major compute capability of the current device. 0 if unknown.
    pub fn capability(&self) -> u32 {
        let (mut device, mut major) = (0, 0);
        // SAFETY: the pointer is a local variable.
        let asked = unsafe { self.functions.context_get_device(&raw mut device) };
        if asked != SUCCESS {
            return 0;
        }
        // SAFETY: as above.
        let asked = unsafe { self.functions.device_get_attribute(&raw mut major, CAPABILITY_MAJOR, device) };
        if asked == SUCCESS { u32::try_from(major).unwrap_or(0) } else { 0 }
    }

    /// Creates a stream that is not ordered with any other.
    pub fn make_stream(&self) -> Result<usize, Status> {
        let mut stream = 0;
        // SAFETY: the pointer is a local variable.
        let made = unsafe { self.functions.stream_create(&raw mut stream, STREAM_NON_BLOCKING) };
        succeeded(made, stream)
    }

    /// Waits for a stream of the backend.
    pub fn wait_stream(&self, stream: usize) -> Status {
        // SAFETY: the stream lives.
        unsafe { self.functions.stream_synchronize(stream) }
    }

    /// Creates an event.
    pub fn make_event(&self) -> Result<usize, Status> {
        let mut event = 0;
        // SAFETY: the pointer is a local variable.
        let made = unsafe { self.functions.event_create(&raw mut event, EVENT_WITHOUT_TIMES) };
        succeeded(made, event)
    }

    /// Records an event in a stream. It occurs when the stream has come that far.
    pub fn record_event(&self, event: usize, stream: usize) -> Status {
        // SAFETY: event and stream are the backend's.
        unsafe { self.functions.event_record(event, stream) }
    }

    /// Whether an event has occurred.
    pub fn has_happened(&self, event: usize) -> Result<bool, Status> {
        // SAFETY: the event is the backend's.
        match unsafe { self.functions.event_query(event) } {
            SUCCESS => Ok(true),
            NOT_READY => Ok(false),
            status => Err(status),
        }
    }

    /// The device of the current context, and its name.
    pub fn device(&self) -> (i32, String) {
        let mut device = 0;
        // SAFETY: the pointer is a local variable.
        let asked = unsafe { self.functions.context_get_device(&raw mut device) };
        let mut name = [0_u8; 256];
        // SAFETY: the buffer has room for this many bytes.
        let is_named = asked == SUCCESS
            && unsafe { self.functions.device_get_name(name.as_mut_ptr().cast(), 255, device) } == SUCCESS;
        let name = CStr::from_bytes_until_nul(&name).ok().filter(|_| is_named);
        (device, name.map_or_else(|| "device".to_owned(), |name| name.to_string_lossy().into_owned()))
    }

    /// Start and size of the allocation that contains an address.
    pub fn range_of(&self, address: u64) -> Option<(u64, u64)> {
        let (mut start, mut bytes) = (0, 0);
        // SAFETY: the pointers are local variables.
        let asked =
            unsafe { self.functions.memory_get_address_range(&raw mut start, &raw mut bytes, address) };
        (asked == SUCCESS).then_some((start, bytes as u64))
    }

    /// The module of a function. 0 if unknown.
    pub fn module(&self, function: usize) -> usize {
        let mut module = 0;
        // SAFETY: the program launches this handle, and the pointer is a local variable.
        let asked = unsafe { self.functions.function_get_module(&raw mut module, function) };
        if asked == SUCCESS { module } else { 0 }
    }

    /// Address and size of a variable of a module.
    pub fn variable(&self, module: usize, name: &str) -> Option<(u64, u64)> {
        let name = CString::new(name).ok()?;
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: a module of the program, a name that ends with a zero byte, and local variables.
        let asked = unsafe {
            self.functions.module_get_global(&raw mut address, &raw mut bytes, module, name.as_ptr())
        };
        (asked == SUCCESS && address != 0).then_some((address, bytes as u64))
    }

    /// Makes the driver load the code of a kernel, if it has not done so. Returns the function of the kernel.
    pub fn load(&self, function: usize) -> usize {
        let mut of_kernel = 0;
        // SAFETY: the program launches this handle of either kind, and the pointer is a local variable.
        let asked = unsafe { self.functions.kernel_get_function(&raw mut of_kernel, function) };
        let function = if asked == SUCCESS { of_kernel } else { function };
        // SAFETY: as above. If the code cannot be loaded now, the launch loads it.
        let _ = unsafe { self.functions.function_load(function) };
        function
    }

    /// Offset and size of each parameter of a kernel. None if the driver does not support the question. The
    /// handle may be a function or a kernel.
    pub fn parameters(&self, function: usize) -> Option<Vec<(usize, usize)>> {
        if self.functions.missing(&["cuFuncGetParamInfo", "cuKernelGetParamInfo"]).is_some() {
            return None;
        }
        let parameters = |is_kernel: bool| {
            let parameter = |index| {
                let (mut offset, mut size) = (0, 0);
                let to = (&raw mut offset, &raw mut size);
                // SAFETY: the program launches this handle, and the pointers are local variables.
                let status = unsafe {
                    match is_kernel {
                        true => self.functions.kernel_get_param_info(function, index, to.0, to.1),
                        false => self.functions.function_get_param_info(function, index, to.0, to.1),
                    }
                };
                (status == SUCCESS).then_some((offset, size))
            };
            (0..MAX_PARAMETERS).map_while(parameter).collect::<Vec<_>>()
        };
        let found = [false, true].into_iter().map(parameters).find(|parameters| !parameters.is_empty());
        Some(found.unwrap_or_default())
    }

    /// The graph that a stream is captured into, and a number that no other capture has.
    pub fn captured_graph(&self, stream: usize) -> (usize, u64) {
        let (mut status, mut id, mut graph) = (0, 0, 0);
        let (mut before, mut count) = (ptr::null(), 0);
        // SAFETY: the stream of the program's call, and local variables.
        let asked = unsafe {
            self.functions.stream_get_capture_info(
                stream,
                &raw mut status,
                &raw mut id,
                &raw mut graph,
                &raw mut before,
                &raw mut count,
            )
        };
        if asked == SUCCESS { (graph, id) } else { (0, 0) }
    }

    /// The nodes of a graph. None if unknown.
    pub fn graph_nodes(&self, graph: usize) -> Option<Vec<usize>> {
        let mut count = 0;
        // SAFETY: a graph of the program, and a local variable.
        let asked = unsafe { self.functions.graph_get_nodes(graph, ptr::null_mut(), &raw mut count) };
        if asked != SUCCESS {
            return None;
        }
        let mut nodes = vec![0; count];
        // SAFETY: as above. The vector has room for that many nodes.
        let asked = unsafe { self.functions.graph_get_nodes(graph, nodes.as_mut_ptr(), &raw mut count) };
        nodes.truncate(count);
        (asked == SUCCESS).then_some(nodes)
    }

    /// The kind of a graph node.
    pub fn node_kind(&self, node: usize) -> Option<i32> {
        let mut kind = 0;
        // SAFETY: a node of the program, and a local variable.
        let asked = unsafe { self.functions.graph_node_get_type(node, &raw mut kind) };
        (asked == SUCCESS).then_some(kind)
    }

    /// The parameters of a graph node, in at least as many words as the driver's structure has.
    pub fn node_parameters(&self, node: usize, what: NodeKind) -> Option<[u64; NODE_WORDS]> {
        let mut words = [0; NODE_WORDS];
        let to = words.as_mut_ptr();
        // SAFETY: a node of the program of this kind, and room for the driver's structure.
        let asked = unsafe {
            match what {
                NodeKind::Kernel => match self.functions.graph_kernel_node_get_params(node, to) {
                    NOT_FOUND => self.functions.graph_kernel_node_get_params_old(node, to),
                    status => status,
                },
                NodeKind::Copy => self.functions.graph_copy_node_get_params(node, to),
                NodeKind::Fill => self.functions.graph_fill_node_get_params(node, to),
            }
        };
        (asked == SUCCESS).then_some(words)
    }

    /// The graph of a child graph node.
    pub fn child_graph(&self, node: usize) -> Option<usize> {
        let mut graph = 0;
        // SAFETY: a node of the program, and a local variable.
        let asked = unsafe { self.functions.graph_child_node_get_graph(node, &raw mut graph) };
        (asked == SUCCESS).then_some(graph)
    }

    /// The name of a kernel.
    pub fn name(&self, function: usize) -> Option<String> {
        let mut names = [false, true].into_iter().filter_map(|is_kernel| {
            let mut name = ptr::null();
            // SAFETY: the program launches this handle, and the pointer is a local variable.
            let status = unsafe {
                match is_kernel {
                    true => self.functions.kernel_get_name(&raw mut name, function),
                    false => self.functions.function_get_name(&raw mut name, function),
                }
            };
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
