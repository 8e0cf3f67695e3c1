//! As much of OpenCL 1.2 as these tests need. The loader is `TENSORTAP_OPENCL`, or else the first that has a device: `libOpenCL.so.1`, or
//! the one of the Python package `pyopencl`.

use std::ffi::{CString, c_char, c_void};
use std::path::Path;
use std::process::Command;

use crate::library::{Library, functions};

type Handle = *mut c_void;

functions! {
    /// Of `CL/cl.h`.
    Functions {
        platforms: fn(u32, *mut Handle, *mut u32) -> i32 = "clGetPlatformIDs",
        devices: fn(Handle, u64, u32, *mut Handle, *mut u32) -> i32 = "clGetDeviceIDs",
        device_info: fn(Handle, u32, usize, *mut c_void, *mut usize) -> i32 = "clGetDeviceInfo",
        context: fn(*const isize, u32, *const Handle, *const c_void, *const c_void, *mut i32) -> Handle = "clCreateContext",
        queue: fn(Handle, Handle, u64, *mut i32) -> Handle = "clCreateCommandQueue",
        program: fn(Handle, u32, *const *const c_char, *const usize, *mut i32) -> Handle = "clCreateProgramWithSource",
        build: fn(Handle, u32, *const Handle, *const c_char, *const c_void, *const c_void) -> i32 = "clBuildProgram",
        build_info: fn(Handle, Handle, u32, usize, *mut c_void, *mut usize) -> i32 = "clGetProgramBuildInfo",
        kernel: fn(Handle, *const c_char, *mut i32) -> Handle = "clCreateKernel",
        buffer: fn(Handle, u64, usize, *mut c_void, *mut i32) -> Handle = "clCreateBuffer",
        set: fn(Handle, u32, usize, *const c_void) -> i32 = "clSetKernelArg",
        launch: fn(Handle, Handle, u32, *const usize, *const usize, *const usize, u32, *const c_void, *mut c_void) -> i32 = "clEnqueueNDRangeKernel",
        read: fn(Handle, Handle, u32, usize, usize, *mut c_void, u32, *const c_void, *mut c_void) -> i32 = "clEnqueueReadBuffer",
        release_memory: fn(Handle) -> i32 = "clReleaseMemObject",
    }
}

const CL_DEVICE_TYPE_ALL: u64 = 0xffff_ffff;
const CL_PROGRAM_BUILD_LOG: u32 = 0x1183;
const CL_DEVICE_NAME: u32 = 0x102b;
const CL_MEM_READ_WRITE: u64 = 1;
const CL_MEM_COPY_HOST_PTR: u64 = 32;

/// The first device of the first platform that has one, with a queue.
pub struct Device {
    functions: Functions,
    device: Handle,
    context: Handle,
    queue: Handle,
    pub name: String,
}

// SAFETY: the handles name objects that OpenCL allows every thread to use; kernels, which it does not, live as long as a call.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Send for Program {}

/// Memory of the device.
pub struct Buffer {
    handle: Handle,
    release: unsafe extern "C" fn(Handle) -> i32,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the handle is one that this object alone has.
        unsafe { (self.release)(self.handle) };
    }
}

/// An argument of a kernel.
pub enum Arg<'a> {
    Buffer(&'a Buffer),
    NoBuffer,
    Word(u32),
}

/// A program that was built.
pub struct Program(Handle);

impl Device {
    /// The device, or why there is none.
    pub fn find() -> Result<Device, String> {
        if let Ok(name) = std::env::var("TENSORTAP_OPENCL") {
            // One that lies in the package needs what the package would tell it.
            let home =
                Path::new(&name).parent().filter(|folder| folder.ends_with(".libs")).and_then(Path::parent);
            home.and_then(loader_of);
            return Device::of(&name);
        }
        Device::of("libOpenCL.so.1").or_else(|reason| {
            let loader =
                packaged_loader().ok_or_else(|| format!("{reason}; Python has no package `pyopencl`"))?;
            Device::of(&loader).map_err(|packaged| format!("{reason}; {packaged}"))
        })
    }

    fn of(name: &str) -> Result<Device, String> {
        let functions = Functions::find(Library::open(name)?)?;
        let mut platforms = [std::ptr::null_mut(); 8];
        let mut count = 0;
        // SAFETY: there is room for as many as are said, and the count says how many there are.
        let status = unsafe { (functions.platforms)(8, platforms.as_mut_ptr(), &raw mut count) };
        if status != 0 {
            return Err(format!("{name} finds no platform: status {status}"));
        }
        let devices = platforms[..count.min(8) as usize].iter().filter_map(|platform| {
            let mut device = std::ptr::null_mut();
            // SAFETY: a platform that was just given; room for one device.
            let status = unsafe {
                (functions.devices)(*platform, CL_DEVICE_TYPE_ALL, 1, &raw mut device, std::ptr::null_mut())
            };
            (status == 0).then_some(device)
        });
        let device = { devices }.next().ok_or("no OpenCL platform has a device")?;
        Device::open(functions, device)
    }

    fn open(functions: Functions, device: Handle) -> Result<Device, String> {
        let (mut status, none) = (0, std::ptr::null());
        let mut name = [0_u8; 256];
        // SAFETY: one device, no properties and no callback; a buffer with its size; results are looked at below.
        let (context, queue) = unsafe {
            (functions.device_info)(
                device,
                CL_DEVICE_NAME,
                name.len(),
                name.as_mut_ptr().cast(),
                std::ptr::null_mut(),
            );
            let context =
                (functions.context)(std::ptr::null(), 1, &raw const device, none, none, &raw mut status);
            (context, (functions.queue)(context, device, 0, &raw mut status))
        };
        checked(status, "a queue")?;
        let name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned();
        Ok(Device { functions, device, context, queue, name })
    }

    /// Builds a source; the error is the compiler's log.
    pub fn build(&self, source: &str, options: &str) -> Result<Program, String> {
        let options = CString::new(options).map_err(|error| error.to_string())?;
        let (text, bytes, mut status) = (source.as_ptr().cast::<c_char>(), source.len(), 0);
        let none = std::ptr::null();
        // SAFETY: one text with its size; the log's buffer with its size.
        unsafe {
            let program =
                (self.functions.program)(self.context, 1, &raw const text, &raw const bytes, &raw mut status);
            checked(status, "a program")?;
            let status =
                (self.functions.build)(program, 1, &raw const self.device, options.as_ptr(), none, none);
            if status == 0 {
                return Ok(Program(program));
            }
            let mut log = vec![0_u8; 1 << 16];
            let (size, nowhere) = (log.len(), std::ptr::null_mut());
            (self.functions.build_info)(
                program,
                self.device,
                CL_PROGRAM_BUILD_LOG,
                size,
                log.as_mut_ptr().cast(),
                nowhere,
            );
            Err(String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned())
        }
    }

    /// A buffer with this content; of one byte if there is none.
    pub fn buffer(&self, content: &[u8]) -> Buffer {
        let content = if content.is_empty() { &[0] } else { content };
        let (flags, mut status) = (CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, 0);
        let host = content.as_ptr().cast_mut().cast();
        // SAFETY: the content is copied during the call, as the flag says.
        let handle =
            unsafe { (self.functions.buffer)(self.context, flags, content.len(), host, &raw mut status) };
        checked(status, "a buffer").unwrap();
        Buffer { handle, release: self.functions.release_memory }
    }

    /// Runs a kernel over so many groups.
    pub fn launch(&self, program: &Program, kernel: &str, groups: usize, group: u32, args: &[Arg<'_>]) {
        let name = CString::new(kernel).unwrap();
        let (mut status, nothing) = (0, std::ptr::null());
        let (items, group) = ([groups * group as usize], [group as usize]);
        // SAFETY: arguments have the sizes that the kernel declares: handles of buffers, and words of four bytes.
        unsafe {
            let handle = (self.functions.kernel)(program.0, name.as_ptr(), &raw mut status);
            checked(status, kernel).unwrap();
            for (place, arg) in (0..).zip(args) {
                let status = match arg {
                    Arg::Buffer(buffer) => (self.functions.set)(
                        handle,
                        place,
                        size_of::<Handle>(),
                        (&raw const buffer.handle).cast(),
                    ),
                    Arg::NoBuffer => {
                        (self.functions.set)(handle, place, size_of::<Handle>(), std::ptr::null())
                    }
                    Arg::Word(word) => (self.functions.set)(handle, place, 4, (&raw const *word).cast()),
                };
                checked(status, &format!("argument {place} of {kernel}")).unwrap();
            }
            let offset = std::ptr::null();
            let (items, group) = (items.as_ptr(), group.as_ptr());
            let status = (self.functions.launch)(
                self.queue,
                handle,
                1,
                offset,
                items,
                group,
                0,
                nothing,
                std::ptr::null_mut(),
            );
            checked(status, kernel).unwrap();
        }
    }

    /// What a buffer has, once all before is done.
    pub fn read(&self, buffer: &Buffer, bytes: usize) -> Vec<u8> {
        let mut content = vec![0; bytes];
        let (nothing, nowhere) = (std::ptr::null(), std::ptr::null_mut());
        // SAFETY: the buffer has at least as many bytes as there is room for, and the call ends when they are there.
        let status = unsafe {
            let room = content.as_mut_ptr().cast();
            (self.functions.read)(self.queue, buffer.handle, 1, 0, bytes, room, 0, nothing, nowhere)
        };
        checked(status, "reading").unwrap();
        content
    }
}

/// The loader that `pip install pyopencl` brings, made ready to find the device that `pocl-binary-distribution` puts beside it.
fn packaged_loader() -> Option<String> {
    let python = std::env::var_os("TENSORTAP_PYTHON").unwrap_or_else(|| "python3".into());
    let script = "import importlib.util as u; print(u.find_spec('pyopencl').submodule_search_locations[0])";
    let said =
        Command::new(python).args(["-c", script]).output().ok().filter(|said| said.status.success())?;
    loader_of(Path::new(String::from_utf8(said.stdout).ok()?.trim()))
}

/// The loader in the folder of that package, ready.
fn loader_of(home: &Path) -> Option<String> {
    let beside = std::fs::read_dir(home.join(".libs")).ok()?.flatten();
    let libraries: Vec<String> = beside.map(|entry| entry.path().to_string_lossy().into_owned()).collect();
    let named = |part: &str| libraries.iter().find(|path| path.contains(part));
    // The loader looks for it by a name without a folder, and finds what is loaded.
    named("/libpocl").map(|path| Library::open(path));
    // SAFETY: in these tests the environment is read by the standard library, which locks it, and by the loader, which is called after this.
    unsafe { std::env::set_var("PYOPENCL_HOME", home) };
    named("/libOpenCL").cloned()
}

fn checked(status: i32, what: &str) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("OpenCL has no {what}: status {status}")) }
}
