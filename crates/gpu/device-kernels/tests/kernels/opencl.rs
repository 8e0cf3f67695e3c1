//! The OpenCL calls that these tests need. The loader is `TENSORTAP_OPENCL`, or else the first one with a
//! device: `libOpenCL.so.1`, or that of the Python package `pyopencl`.

use std::ffi::{CString, c_char};
use std::path::Path;
use std::process::Command;

use tensortap_driver::opencl::{Handle, LIBRARY_VARIABLE, OpenCl, SYSTEM_LIBRARY};
use tensortap_library::Library;

const CL_DEVICE_TYPE_ALL: u64 = 0xffff_ffff;
const CL_PROGRAM_BUILD_LOG: u32 = 0x1183;
const CL_DEVICE_NAME: u32 = 0x102b;
const CL_MEM_READ_WRITE: u64 = 1;
const CL_MEM_COPY_HOST_PTR: u64 = 32;

/// The first device of the first platform that has one, with a queue.
pub struct Device {
    functions: OpenCl,
    device: Handle,
    context: Handle,
    queue: Handle,
    pub name: String,
}

// SAFETY: every thread may use the objects. Kernels, which are not thread-safe, exist only during a call.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Send for Program {}

/// Device memory.
pub struct Buffer {
    handle: Handle,
    release: unsafe extern "C" fn(Handle) -> i32,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: this value owns the handle.
        unsafe { (self.release)(self.handle) };
    }
}

/// An argument of a kernel.
pub enum Arg<'a> {
    Buffer(&'a Buffer),
    NoBuffer,
    Word(u32),
}

/// A built program.
pub struct Program(Handle);

impl Device {
    /// Opens a device, or says why there is none.
    pub fn find() -> Result<Device, String> {
        if let Ok(name) = std::env::var(LIBRARY_VARIABLE) {
            // The package's loader needs the environment of the package.
            let home =
                Path::new(&name).parent().filter(|folder| folder.ends_with(".libs")).and_then(Path::parent);
            home.and_then(loader_of);
            return Device::of(&name);
        }
        Device::of(SYSTEM_LIBRARY).or_else(|reason| {
            let loader =
                packaged_loader().ok_or_else(|| format!("{reason}; Python has no package `pyopencl`"))?;
            Device::of(&loader).map_err(|packaged| format!("{reason}; {packaged}"))
        })
    }

    fn of(name: &str) -> Result<Device, String> {
        let library = Library::open(name).map_err(|error| error.to_string())?;
        let functions =
            OpenCl::find(library).map_err(|missing| format!("{name} has no function {missing}"))?;
        let mut platforms = [std::ptr::null_mut(); 8];
        let mut count = 0;
        // SAFETY: the array has the passed length, and the count is a local variable.
        let status = unsafe { (functions.get_platform_ids)(8, platforms.as_mut_ptr(), &raw mut count) };
        if status != 0 {
            return Err(format!("{name} finds no platform: status {status}"));
        }
        let devices = platforms[..count.min(8) as usize].iter().filter_map(|platform| {
            let mut device = std::ptr::null_mut();
            // SAFETY: a platform of the library; room for one device.
            let status = unsafe {
                (functions.get_device_ids)(
                    *platform,
                    CL_DEVICE_TYPE_ALL,
                    1,
                    &raw mut device,
                    std::ptr::null_mut(),
                )
            };
            (status == 0).then_some(device)
        });
        let device = { devices }.next().ok_or("no OpenCL platform has a device")?;
        Device::open(functions, device)
    }

    fn open(functions: OpenCl, device: Handle) -> Result<Device, String> {
        let (mut status, none) = (0, std::ptr::null());
        let mut name = [0_u8; 256];
        // SAFETY: one device, no properties and no callback; a buffer with its size.
        let (context, queue) = unsafe {
            (functions.get_device_info)(
                device,
                CL_DEVICE_NAME,
                name.len(),
                name.as_mut_ptr().cast(),
                std::ptr::null_mut(),
            );
            let context = (functions.create_context)(
                std::ptr::null(),
                1,
                &raw const device,
                none,
                std::ptr::null_mut(),
                &raw mut status,
            );
            (context, (functions.create_queue)(context, device, 0, &raw mut status))
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
        // SAFETY: one text with its size, and a log buffer with its size.
        unsafe {
            let program = (self.functions.create_program_with_source)(
                self.context,
                1,
                &raw const text,
                &raw const bytes,
                &raw mut status,
            );
            checked(status, "a program")?;
            let status = (self.functions.build_program)(
                program,
                1,
                &raw const self.device,
                options.as_ptr(),
                none,
                std::ptr::null_mut(),
            );
            if status == 0 {
                return Ok(Program(program));
            }
            let mut log = vec![0_u8; 1 << 16];
            let (size, nowhere) = (log.len(), std::ptr::null_mut());
            (self.functions.get_program_build_info)(
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

    /// A buffer with this content, of at least one byte.
    pub fn buffer(&self, content: &[u8]) -> Buffer {
        let content = if content.is_empty() { &[0] } else { content };
        let (flags, mut status) = (CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, 0);
        let host = content.as_ptr().cast_mut().cast();
        // SAFETY: the flag makes the call copy the content.
        let handle = unsafe {
            (self.functions.create_buffer)(self.context, flags, content.len(), host, &raw mut status)
        };
        checked(status, "a buffer").unwrap();
        Buffer { handle, release: self.functions.release_mem_object }
    }

    /// Runs a kernel with this many groups.
    pub fn launch(&self, program: &Program, kernel: &str, groups: usize, group: u32, args: &[Arg<'_>]) {
        let name = CString::new(kernel).unwrap();
        let (mut status, nothing) = (0, std::ptr::null());
        let (items, group) = ([groups * group as usize], [group as usize]);
        // SAFETY: the arguments have the declared sizes: handles of buffers and words of four bytes.
        unsafe {
            let handle = (self.functions.create_kernel)(program.0, name.as_ptr(), &raw mut status);
            checked(status, kernel).unwrap();
            for (place, arg) in (0..).zip(args) {
                let status = match arg {
                    Arg::Buffer(buffer) => (self.functions.set_kernel_arg)(
                        handle,
                        place,
                        size_of::<Handle>(),
                        (&raw const buffer.handle).cast(),
                    ),
                    Arg::NoBuffer => {
                        (self.functions.set_kernel_arg)(handle, place, size_of::<Handle>(), std::ptr::null())
                    }
                    Arg::Word(word) => {
                        (self.functions.set_kernel_arg)(handle, place, 4, (&raw const *word).cast())
                    }
                };
                checked(status, &format!("argument {place} of {kernel}")).unwrap();
            }
            let offset = std::ptr::null();
            let (items, group) = (items.as_ptr(), group.as_ptr());
            let status = (self.functions.enqueue_nd_range_kernel)(
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

    /// Reads a buffer after all earlier commands.
    pub fn read(&self, buffer: &Buffer, bytes: usize) -> Vec<u8> {
        let mut content = vec![0; bytes];
        let (nothing, nowhere) = (std::ptr::null(), std::ptr::null_mut());
        // SAFETY: the buffer has at least this size, and the call blocks until the copy is done.
        let status = unsafe {
            let room = content.as_mut_ptr().cast();
            (self.functions.enqueue_read_buffer)(
                self.queue,
                buffer.handle,
                1,
                0,
                bytes,
                room,
                0,
                nothing,
                nowhere,
            )
        };
        checked(status, "reading").unwrap();
        content
    }
}

/// The loader of `pip install pyopencl`, prepared to find the device of `pocl-binary-distribution`.
fn packaged_loader() -> Option<String> {
    let python = std::env::var_os("TENSORTAP_PYTHON").unwrap_or_else(|| "python3".into());
    let script = "import importlib.util as u; print(u.find_spec('pyopencl').submodule_search_locations[0])";
    let said =
        Command::new(python).args(["-c", script]).output().ok().filter(|said| said.status.success())?;
    loader_of(Path::new(String::from_utf8(said.stdout).ok()?.trim()))
}

/// The loader in the folder of that package, with its environment set.
fn loader_of(home: &Path) -> Option<String> {
    let beside = std::fs::read_dir(home.join(".libs")).ok()?.flatten();
    let libraries: Vec<String> = beside.map(|entry| entry.path().to_string_lossy().into_owned()).collect();
    let named = |part: &str| libraries.iter().find(|path| path.contains(part));
    // The loader opens PoCL by name and finds the loaded library.
    named("/libpocl").map(Library::open);
    // SAFETY: the environment is read only by the standard library, which locks it, and by the loader, which
    // is called later.
    unsafe { std::env::set_var("PYOPENCL_HOME", home) };
    named("/libOpenCL").cloned()
}

fn checked(status: i32, what: &str) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("OpenCL has no {what}: status {status}")) }
}
