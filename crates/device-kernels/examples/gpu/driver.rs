//! CUDA's driver, loaded at run time: as much of it as it takes to run the kernels.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{null_mut, without_provenance_mut};

use zerocopy::{FromBytes, IntoBytes};

use crate::library::{Library, functions};

type Handle = *mut c_void;
type Status = c_int;

functions! {
    /// Of `cuda.h`, by the names under which `libcuda.so.1` has their newest versions.
    Functions {
        init: fn(c_uint) -> Status = "cuInit",
        error_name: fn(Status, *mut *const c_char) -> Status = "cuGetErrorName",
        device: fn(*mut c_int, c_int) -> Status = "cuDeviceGet",
        device_name: fn(*mut c_char, c_int, c_int) -> Status = "cuDeviceGetName",
        device_attribute: fn(*mut c_int, c_int, c_int) -> Status = "cuDeviceGetAttribute",
        retain: fn(*mut Handle, c_int) -> Status = "cuDevicePrimaryCtxRetain",
        set_current: fn(Handle) -> Status = "cuCtxSetCurrent",
        load: fn(*mut Handle, *const c_void) -> Status = "cuModuleLoadData",
        function: fn(*mut Handle, Handle, *const c_char) -> Status = "cuModuleGetFunction",
        allocate: fn(*mut u64, usize) -> Status = "cuMemAlloc_v2",
        free: fn(u64) -> Status = "cuMemFree_v2",
        upload: fn(u64, *const c_void, usize) -> Status = "cuMemcpyHtoD_v2",
        download: fn(*mut c_void, u64, usize) -> Status = "cuMemcpyDtoH_v2",
        copy: fn(u64, u64, usize, Handle) -> Status = "cuMemcpyDtoDAsync_v2",
        launch: fn(Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void) -> Status = "cuLaunchKernel",
        stream: fn(*mut Handle, c_uint) -> Status = "cuStreamCreate",
        wait_stream: fn(Handle) -> Status = "cuStreamSynchronize",
        event: fn(*mut Handle, c_uint) -> Status = "cuEventCreate",
        record: fn(Handle, Handle) -> Status = "cuEventRecord",
        wait_event: fn(Handle) -> Status = "cuEventSynchronize",
        elapsed: fn(*mut f32, Handle, Handle) -> Status = "cuEventElapsedTime",
    }
}

/// The major compute capability.
const CAPABILITY_MAJOR: c_int = 75;

/// A stream that does not wait for the default one.
const NON_BLOCKING: c_uint = 1;

/// A device with a context of its own process.
pub struct Device {
    functions: Functions,
    pub name: String,
    /// Its major compute capability.
    pub major: u32,
}

/// Memory of the device, until it is dropped.
pub struct Memory<'d> {
    device: &'d Device,
    pub address: u64,
    pub bytes: usize,
}

/// Kernels that were loaded.
#[derive(Clone, Copy)]
pub struct Module(Handle);

/// A kernel.
#[derive(Clone, Copy)]
pub struct Kernel(Handle);

/// An order of work.
#[derive(Clone, Copy)]
pub struct Stream(Handle);

/// A moment of a stream.
#[derive(Clone, Copy)]
pub struct Event(Handle);

impl Device {
    /// The first device, or why there is none.
    pub fn open() -> Result<Device, String> {
        let functions = Functions::find(Library::open("libcuda.so.1")?)?;
        let mut device = Device { functions, name: String::new(), major: 0 };
        let (mut ordinal, mut major, mut context, mut name) = (0, 0, null_mut(), [0_u8; 128]);
        // SAFETY: results go to places of the right types; the name's room has the size that is said.
        unsafe {
            device.checked("cuInit", (functions.init)(0))?;
            device.checked("cuDeviceGet", (functions.device)(&raw mut ordinal, 0))?;
            let room = c_int::try_from(name.len()).expect("a small size");
            device.checked(
                "cuDeviceGetName",
                (functions.device_name)(name.as_mut_ptr().cast(), room, ordinal),
            )?;
            device.checked(
                "cuDeviceGetAttribute",
                (functions.device_attribute)(&raw mut major, CAPABILITY_MAJOR, ordinal),
            )?;
            device.checked("cuDevicePrimaryCtxRetain", (functions.retain)(&raw mut context, ordinal))?;
            device.checked("cuCtxSetCurrent", (functions.set_current)(context))?;
        }
        device.major = u32::try_from(major).unwrap_or(0);
        device.name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned();
        Ok(device)
    }

    fn checked(&self, call: &str, status: Status) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        let mut name = std::ptr::null();
        // SAFETY: the driver stores a text of its own, or nothing.
        let known = unsafe { (self.functions.error_name)(status, &raw mut name) } == 0 && !name.is_null();
        if !known {
            return Err(format!("{call}: status {status}"));
        }
        // SAFETY: a text of the driver that ends with a zero and lives for ever.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        Err(format!("{call}: {name}"))
    }

    /// Loads machine code.
    pub fn load(&self, code: &[u8]) -> Result<Module, String> {
        let mut module = null_mut();
        // SAFETY: the code is that of a file which the user names; the driver checks its form and copies it.
        self.checked("cuModuleLoadData", unsafe {
            (self.functions.load)(&raw mut module, code.as_ptr().cast())
        })?;
        Ok(Module(module))
    }

    /// A kernel of loaded code.
    pub fn kernel(&self, module: Module, name: &str) -> Result<Kernel, String> {
        let (mut kernel, symbol) = (null_mut(), CString::new(name).map_err(|error| error.to_string())?);
        // SAFETY: the module is loaded and stays so; the name ends with a zero.
        let status = unsafe { (self.functions.function)(&raw mut kernel, module.0, symbol.as_ptr()) };
        self.checked(name, status)?;
        Ok(Kernel(kernel))
    }

    /// Memory of so many bytes; at least one is taken.
    pub fn allocate(&self, bytes: usize) -> Result<Memory<'_>, String> {
        let mut address = 0;
        // SAFETY: the address is stored in the place that is given.
        self.checked("cuMemAlloc", unsafe { (self.functions.allocate)(&raw mut address, bytes.max(1)) })?;
        Ok(Memory { device: self, address, bytes })
    }

    /// Memory with this content.
    pub fn upload(&self, content: &[u8]) -> Result<Memory<'_>, String> {
        let memory = self.allocate(content.len())?;
        memory.write(0, content)?;
        Ok(memory)
    }

    /// A stream of our own.
    pub fn stream(&self) -> Result<Stream, String> {
        let mut stream = null_mut();
        // SAFETY: the stream is stored in the place that is given.
        self.checked("cuStreamCreate", unsafe { (self.functions.stream)(&raw mut stream, NON_BLOCKING) })?;
        Ok(Stream(stream))
    }

    /// An event that can be recorded.
    pub fn event(&self) -> Result<Event, String> {
        let mut event = null_mut();
        // SAFETY: as above.
        self.checked("cuEventCreate", unsafe { (self.functions.event)(&raw mut event, 0) })?;
        Ok(Event(event))
    }

    /// Marks what a stream has been given so far.
    pub fn record(&self, event: Event, stream: Stream) -> Result<(), String> {
        // SAFETY: both are of this context.
        self.checked("cuEventRecord", unsafe { (self.functions.record)(event.0, stream.0) })
    }

    /// Microseconds between two events, once the second is over.
    pub fn microseconds(&self, begin: Event, end: Event) -> Result<f64, String> {
        let mut milliseconds = 0.0;
        // SAFETY: both were recorded; the time is stored in the place that is given.
        unsafe {
            self.checked("cuEventSynchronize", (self.functions.wait_event)(end.0))?;
            let status = (self.functions.elapsed)(&raw mut milliseconds, begin.0, end.0);
            self.checked("cuEventElapsedTime", status)?;
        }
        Ok(f64::from(milliseconds) * 1000.0)
    }

    /// Waits until a stream has nothing left to do.
    pub fn finish(&self, stream: Stream) -> Result<(), String> {
        // SAFETY: a stream of this context.
        self.checked("cuStreamSynchronize", unsafe { (self.functions.wait_stream)(stream.0) })
    }

    /// Copies inside the device, in the stream's order.
    pub fn copy(&self, to: u64, from: u64, bytes: usize, stream: Stream) -> Result<(), String> {
        // SAFETY: the driver refuses addresses that are not its own.
        self.checked("cuMemcpyDtoDAsync", unsafe { (self.functions.copy)(to, from, bytes, stream.0) })
    }

    /// Runs a kernel, in the stream's order.
    pub fn launch(
        &self,
        kernel: Kernel,
        groups: u32,
        group: u32,
        arg: &[u8],
        stream: Stream,
    ) -> Result<(), String> {
        let mut places = [arg.as_ptr().cast::<c_void>().cast_mut()];
        let none = null_mut();
        // SAFETY: the kernel declares one argument, of as many bytes. The driver has copied them when it returns.
        let status = unsafe {
            (self.functions.launch)(
                kernel.0,
                groups,
                1,
                1,
                group,
                1,
                1,
                0,
                stream.0,
                places.as_mut_ptr(),
                none,
            )
        };
        self.checked("cuLaunchKernel", status)
    }
}

impl Stream {
    /// The stream that waits for all others that do not say otherwise.
    pub fn default_stream() -> Stream {
        Stream(without_provenance_mut(0))
    }
}

impl Memory<'_> {
    /// Overwrites what lies from `at` on.
    pub fn write(&self, at: usize, content: &[u8]) -> Result<(), String> {
        assert!(at + content.len() <= self.bytes, "past the end of {} bytes", self.bytes);
        if content.is_empty() {
            return Ok(());
        }
        // SAFETY: the range lies in this memory, and the content is read before the call returns.
        let status = unsafe {
            (self.device.functions.upload)(self.address + at as u64, content.as_ptr().cast(), content.len())
        };
        self.device.checked("cuMemcpyHtoD", status)
    }

    /// Its first values, once the default stream is done.
    pub fn read<T: FromBytes + IntoBytes>(&self, count: usize) -> Result<Vec<T>, String> {
        let mut values: Vec<T> = std::iter::repeat_with(T::new_zeroed).take(count).collect();
        let bytes = values.as_mut_slice().as_mut_bytes();
        assert!(bytes.len() <= self.bytes, "past the end of {} bytes", self.bytes);
        // SAFETY: as many bytes as there is room for, of this memory; the call ends when they are there.
        let status =
            unsafe { (self.device.functions.download)(bytes.as_mut_ptr().cast(), self.address, bytes.len()) };
        self.device.checked("cuMemcpyDtoH", status)?;
        Ok(values)
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        // SAFETY: the address is one that was allocated, and this object alone has it. The driver waits for work that uses it.
        unsafe { (self.device.functions.free)(self.address) };
    }
}
