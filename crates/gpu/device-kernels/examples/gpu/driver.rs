//! Calls of the CUDA driver that the kernels need.

use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr::null_mut;

use zerocopy::{FromBytes, IntoBytes};

use tensortap_driver::cuda::{Driver, Handle, SYSTEM_LIBRARY};
use tensortap_library::Library;

/// Attribute: major compute capability.
const CAPABILITY_MAJOR: c_int = 75;

/// Flag of a stream that does not wait for the default stream.
const NON_BLOCKING: c_uint = 1;

/// A device with the primary context of this process.
pub struct Device {
    driver: Driver,
    pub name: String,
    /// Major compute capability.
    pub major: u32,
}

/// Device memory. Dropping it frees the memory.
pub struct Memory<'d> {
    device: &'d Device,
    pub address: u64,
    pub bytes: usize,
}

/// A loaded module.
#[derive(Clone, Copy)]
pub struct Module(Handle);

/// A kernel.
#[derive(Clone, Copy)]
pub struct Kernel(Handle);

/// A stream.
#[derive(Clone, Copy)]
pub struct Stream(Handle);

/// An event.
#[derive(Clone, Copy)]
pub struct Event(Handle);

impl Device {
    /// Opens the first device.
    pub fn open() -> Result<Device, String> {
        let library = Library::open(SYSTEM_LIBRARY).map_err(|error| error.to_string())?;
        let driver = Driver::find(library);
        let mut device = Device { driver, name: String::new(), major: 0 };
        let (mut ordinal, mut major, mut context, mut name) = (0, 0, 0, [0_u8; 128]);
        // SAFETY: the results are local variables of the right types; the buffer for the name has the passed
        // size.
        unsafe {
            driver.check("cuInit", driver.init(0))?;
            driver.check("cuDeviceGet", driver.device_get(&raw mut ordinal, 0))?;
            let room = c_int::try_from(name.len()).expect("a small size");
            driver
                .check("cuDeviceGetName", driver.device_get_name(name.as_mut_ptr().cast(), room, ordinal))?;
            driver.check(
                "cuDeviceGetAttribute",
                driver.device_get_attribute(&raw mut major, CAPABILITY_MAJOR, ordinal),
            )?;
            driver.check(
                "cuDevicePrimaryCtxRetain",
                driver.primary_context_retain(&raw mut context, ordinal),
            )?;
            driver.check("cuCtxSetCurrent", driver.context_set_current(context))?;
        }
        device.major = u32::try_from(major).unwrap_or(0);
        device.name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned();
        Ok(device)
    }

    /// Loads a module.
    pub fn load(&self, code: &[u8]) -> Result<Module, String> {
        let mut module = 0;
        // SAFETY: the user passed the file; the driver checks its format and copies it.
        self.driver.check("cuModuleLoadData", unsafe {
            self.driver.module_load_data(&raw mut module, code.as_ptr().cast())
        })?;
        Ok(Module(module))
    }

    /// A kernel of a module.
    pub fn kernel(&self, module: Module, name: &str) -> Result<Kernel, String> {
        let (mut kernel, symbol) = (0, CString::new(name).map_err(|error| error.to_string())?);
        // SAFETY: the module stays loaded; the name ends with a zero.
        let status = unsafe { self.driver.module_get_function(&raw mut kernel, module.0, symbol.as_ptr()) };
        self.driver.check(name, status)?;
        Ok(Kernel(kernel))
    }

    /// Allocates memory of at least one byte.
    pub fn allocate(&self, bytes: usize) -> Result<Memory<'_>, String> {
        let mut address = 0;
        // SAFETY: writes to a local variable.
        let status = unsafe { self.driver.memory_allocate(&raw mut address, bytes.max(1)) };
        self.driver.check("cuMemAlloc", status)?;
        Ok(Memory { device: self, address, bytes })
    }

    /// Allocates memory with this content.
    pub fn upload(&self, content: &[u8]) -> Result<Memory<'_>, String> {
        let memory = self.allocate(content.len())?;
        memory.write(0, content)?;
        Ok(memory)
    }

    /// Creates a stream.
    pub fn stream(&self) -> Result<Stream, String> {
        let mut stream = 0;
        // SAFETY: writes to a local variable.
        let status = unsafe { self.driver.stream_create(&raw mut stream, NON_BLOCKING) };
        self.driver.check("cuStreamCreate", status)?;
        Ok(Stream(stream))
    }

    /// Creates an event.
    pub fn event(&self) -> Result<Event, String> {
        let mut event = 0;
        // SAFETY: as above.
        self.driver.check("cuEventCreate", unsafe { self.driver.event_create(&raw mut event, 0) })?;
        Ok(Event(event))
    }

    /// Records an event in a stream.
    pub fn record(&self, event: Event, stream: Stream) -> Result<(), String> {
        // SAFETY: both belong to this context.
        self.driver.check("cuEventRecord", unsafe { self.driver.event_record(event.0, stream.0) })
    }

    /// Waits for the second event and returns the microseconds between both.
    pub fn microseconds(&self, begin: Event, end: Event) -> Result<f64, String> {
        let mut milliseconds = 0.0;
        // SAFETY: both events were recorded; writes to a local variable.
        unsafe {
            self.driver.check("cuEventSynchronize", self.driver.event_synchronize(end.0))?;
            let status = self.driver.event_elapsed_time(&raw mut milliseconds, begin.0, end.0);
            self.driver.check("cuEventElapsedTime", status)?;
        }
        Ok(f64::from(milliseconds) * 1000.0)
    }

    /// Waits until a stream is idle.
    pub fn finish(&self, stream: Stream) -> Result<(), String> {
        // SAFETY: the stream belongs to this context.
        self.driver.check("cuStreamSynchronize", unsafe { self.driver.stream_synchronize(stream.0) })
    }

    /// Copies inside of the device, in stream order.
    pub fn copy(&self, to: u64, from: u64, bytes: usize, stream: Stream) -> Result<(), String> {
        // SAFETY: the driver checks the addresses.
        self.driver.check("cuMemcpyDtoDAsync", unsafe {
            self.driver.copy_on_device_async(to, from, bytes, stream.0)
        })
    }

    /// Launches a kernel, in stream order.
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
        // SAFETY: the kernel has one argument of this size. The driver copies it during the call.
        let status = unsafe {
            self.driver.launch_kernel(
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
        self.driver.check("cuLaunchKernel", status)
    }
}

impl Stream {
    /// The default stream, which waits for all blocking streams.
    pub fn default_stream() -> Stream {
        Stream(0)
    }
}

impl Memory<'_> {
    /// Writes content at an offset.
    pub fn write(&self, at: usize, content: &[u8]) -> Result<(), String> {
        assert!(at + content.len() <= self.bytes, "past the end of {} bytes", self.bytes);
        if content.is_empty() {
            return Ok(());
        }
        // SAFETY: the range is in this memory, and the call reads the content before it returns.
        let status = unsafe {
            self.device.driver.copy_to_device(
                self.address + at as u64,
                content.as_ptr().cast(),
                content.len(),
            )
        };
        self.device.driver.check("cuMemcpyHtoD", status)
    }

    /// Reads the first values, after the default stream.
    pub fn read<T: FromBytes + IntoBytes>(&self, count: usize) -> Result<Vec<T>, String> {
        let mut values: Vec<T> = std::iter::repeat_with(T::new_zeroed).take(count).collect();
        let bytes = values.as_mut_slice().as_mut_bytes();
        assert!(bytes.len() <= self.bytes, "past the end of {} bytes", self.bytes);
        // SAFETY: the buffer has the passed size, and the call blocks until the copy is done.
        let status =
            unsafe { self.device.driver.copy_to_host(bytes.as_mut_ptr().cast(), self.address, bytes.len()) };
        self.device.driver.check("cuMemcpyDtoH", status)?;
        Ok(values)
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        // SAFETY: this value owns the allocation. The driver waits for work that uses it.
        unsafe { self.device.driver.memory_free(self.address) };
    }
}
