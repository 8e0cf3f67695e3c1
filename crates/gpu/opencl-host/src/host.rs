//! Devices, programs, memory and launches, without pointers in the interface.
#![expect(unsafe_code, reason = "calls of a C library; handles stay inside")]

use std::ffi::{CString, c_void};
use std::ptr;

use tensortap_abi::ModuleKind;

use tensortap_driver::opencl::{Handle, OpenCl as Library, Status};

use crate::library;
use crate::{Arg, DeviceName, Launch};

const PLATFORM_NAME: u32 = 0x0902;
const DEVICE_TYPE_ALL: u64 = 0xffff_ffff;
const DEVICE_NAME: u32 = 0x102b;
const DRIVER_VERSION: u32 = 0x102d;
const DEVICE_IL_VERSION: u32 = 0x105b;
const PROGRAM_BUILD_LOG: u32 = 0x1183;
/// OpenCL 2.0. Earlier programs have no writable variables.
const PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE: u32 = 0x1185;
const KERNEL_NUM_ARGS: u32 = 0x1191;
const MEM_READ_WRITE: u64 = 1;
const MEM_COPY_HOST_PTR: u64 = 1 << 5;
const BUFFER_CREATE_TYPE_REGION: u32 = 0x1220;
const NO_DEVICE_FOUND: Status = -1;
const NO_PLATFORM_FOUND: Status = -1001;
/// Number of built programs to keep.
const KEPT_PROGRAMS: usize = 32;
/// Limit on the bytes of a build log in messages.
const MOST_LOG: usize = 2000;

/// Describes a status.
fn failed(what: &str, status: Status) -> String {
    let name = match status {
        -4 => " (CL_MEM_OBJECT_ALLOCATION_FAILURE)",
        -5 => " (CL_OUT_OF_RESOURCES)",
        -6 => " (CL_OUT_OF_HOST_MEMORY)",
        -11 => " (CL_BUILD_PROGRAM_FAILURE)",
        -13 => " (CL_MISALIGNED_SUB_BUFFER_OFFSET)",
        -42 => " (CL_INVALID_BINARY)",
        -46 => " (CL_INVALID_KERNEL_NAME)",
        -51 => " (CL_INVALID_ARG_SIZE)",
        -54 => " (CL_INVALID_WORK_GROUP_SIZE)",
        -55 => " (CL_INVALID_WORK_ITEM_SIZE)",
        -61 => " (CL_INVALID_BUFFER_SIZE)",
        -63 => " (CL_INVALID_GLOBAL_WORK_SIZE)",
        _ => "",
    };
    format!("{what} failed with status {status}{name}")
}

fn good(what: &str, status: Status) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(failed(what, status)) }
}

/// All devices of this machine.
#[derive(Debug)]
pub(crate) struct Host {
    library: Library,
    devices: Vec<(Handle, DeviceName)>,
    /// Context and queue of each device used so far.
    opened: Vec<Option<DeviceContext>>,
    programs: Vec<Program>,
}

#[derive(Clone, Copy, Debug)]
struct DeviceContext {
    context: Handle,
    queue: Handle,
}

/// A built program.
#[derive(Debug)]
struct Program {
    device: usize,
    image_kind: u8,
    options: String,
    image: Vec<u8>,
    handle: Handle,
}

impl Host {
    /// Opens all devices. The error is a message for the user: no loader, or no device.
    pub fn open() -> Result<Host, String> {
        let library = library::load()?;
        let devices = devices(&library)?;
        if devices.is_empty() {
            return Err(
                "the OpenCL loader found no device; install a driver, such as PoCL for the CPU".into()
            );
        }
        let opened = devices.iter().map(|_| None).collect();
        Ok(Host { library, devices, opened, programs: Vec::new() })
    }

    pub fn names(&self) -> Vec<DeviceName> {
        self.devices.iter().map(|(_, name)| name.clone()).collect()
    }

    /// Builds the program of a launch, or reuses a built one.
    pub fn build(&mut self, launch: &Launch, image: Vec<u8>) -> Result<BuiltProgram, String> {
        let opened = self.device(launch.device)?;
        let is_it = |program: &Program| {
            (program.device, program.image_kind, &program.options, &program.image)
                == (launch.device, launch.image_kind, &launch.options, &image)
        };
        if let Some(program) = self.programs.iter().find(|program| is_it(program)) {
            return Ok(BuiltProgram { handle: program.handle, opened });
        }
        let device = self.devices[launch.device].0;
        let handle = self.create_program(opened.context, device, launch.image_kind, &image)?;
        let built = self.build_program(handle, device, &launch.options);
        if let Err(why) = built {
            // SAFETY: created above, and not used again.
            unsafe { (self.library.release_program)(handle) };
            return Err(why);
        }
        if self.programs.len() >= KEPT_PROGRAMS {
            let oldest = self.programs.remove(0);
            // SAFETY: not in use: a built program is only used for the launch it was requested for.
            unsafe { (self.library.release_program)(oldest.handle) };
        }
        let Launch { device, image_kind, options, .. } = launch;
        self.programs.push(Program {
            device: *device,
            image_kind: *image_kind,
            options: options.clone(),
            image,
            handle,
        });
        Ok(BuiltProgram { handle, opened })
    }

    fn device(&mut self, place: usize) -> Result<DeviceContext, String> {
        let (device, _) = self.devices.get(place).ok_or("unknown device")?;
        if let Some(opened) = self.opened[place] {
            return Ok(opened);
        }
        let mut status = 0;
        // SAFETY: one device of the library, and no callback.
        let context = unsafe {
            (self.library.create_context)(
                ptr::null(),
                1,
                device,
                ptr::null(),
                ptr::null_mut(),
                &raw mut status,
            )
        };
        good("clCreateContext", status)?;
        // SAFETY: a device and its context. An in-order queue is enough for one launch at a time.
        let queue = unsafe { (self.library.create_queue)(context, *device, 0, &raw mut status) };
        good("clCreateCommandQueue", status)?;
        let opened = DeviceContext { context, queue };
        self.opened[place] = Some(opened);
        Ok(opened)
    }

    fn create_program(
        &self,
        context: Handle,
        device: Handle,
        image_kind: u8,
        image: &[u8],
    ) -> Result<Handle, String> {
        let (start, length) = (image.as_ptr(), image.len());
        let mut status = 0;
        let program = match ModuleKind::from_tag(image_kind) {
            Some(ModuleKind::OpenClC) => {
                let text = start.cast();
                // SAFETY: one text with its length; the library copies it.
                unsafe {
                    (self.library.create_program_with_source)(
                        context,
                        1,
                        &raw const text,
                        &raw const length,
                        &raw mut status,
                    )
                }
            }
            Some(ModuleKind::OpenClBinary) => {
                let mut loaded = 0;
                // SAFETY: one device and one binary with its length; the library copies it.
                let program = unsafe {
                    (self.library.create_program_with_binary)(
                        context,
                        1,
                        &raw const device,
                        &raw const length,
                        &raw const start,
                        &raw mut loaded,
                        &raw mut status,
                    )
                };
                good("loading the binary with clCreateProgramWithBinary", loaded)?;
                program
            }
            Some(ModuleKind::SpirV) => {
                let takes = text(|bytes, at, length| {
                    // SAFETY: `text` passes a buffer with its size.
                    unsafe { (self.library.get_device_info)(device, DEVICE_IL_VERSION, bytes, at, length) }
                });
                // A device that does not know this query predates SPIR-V.
                let create =
                    self.library.create_program_with_il.filter(|_| takes.is_ok_and(|il| !il.is_empty()));
                let create = create.ok_or(
                    "its program is SPIR-V, which this device does not support; choose another device with --device",
                )?;
                // SAFETY: bytes with their length; the library copies them.
                unsafe { create(context, start, length, &raw mut status) }
            }
            _ => return Err("its program is not an OpenCL program".into()),
        };
        good("creating the program", status)?;
        Ok(program)
    }

    fn build_program(&self, program: Handle, device: Handle, options: &str) -> Result<(), String> {
        let options = CString::new(options).map_err(|_| "the build options contain a zero byte")?;
        // SAFETY: a program and a device of its context; the text ends with a zero; no callback.
        let status = unsafe {
            (self.library.build_program)(
                program,
                1,
                &raw const device,
                options.as_ptr(),
                ptr::null(),
                ptr::null_mut(),
            )
        };
        good("clBuildProgram", status).map_err(|why| {
            let log = text(|bytes, at, length| {
                // SAFETY: `text` passes a buffer with its size.
                unsafe {
                    (self.library.get_program_build_info)(
                        program,
                        device,
                        PROGRAM_BUILD_LOG,
                        bytes,
                        at,
                        length,
                    )
                }
            });
            let log = log.unwrap_or_default();
            let most = log.floor_char_boundary(MOST_LOG);
            format!("{why}: {}", log[..most].trim())
        })
    }

    /// Total size of the program's variables; 0 if the driver does not know.
    fn variable_bytes(&self, program: Handle, device: usize) -> usize {
        let mut bytes = 0_usize;
        let Some((device, _)) = self.devices.get(device) else { return 0 };
        let what = PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE;
        let at = (&raw mut bytes).cast();
        // SAFETY: the buffer has the size of one `size_t`. A driver that does not know the query writes
        // nothing.
        let status = unsafe {
            (self.library.get_program_build_info)(
                program,
                *device,
                what,
                size_of::<usize>(),
                at,
                ptr::null_mut(),
            )
        };
        if status == 0 { bytes } else { 0 }
    }

    /// Runs a kernel once and replaces the content of each memory with the content after it.
    pub fn run(
        &self,
        program: &BuiltProgram,
        launch: &Launch,
        memories: &mut [Vec<u8>],
    ) -> Result<(), String> {
        let library = &self.library;
        let name = CString::new(&*launch.kernel).map_err(|_| "its name contains a zero byte")?;
        let mut status = 0;
        // SAFETY: a built program, and a name that ends with a zero.
        let kernel = unsafe { (library.create_kernel)(program.handle, name.as_ptr(), &raw mut status) };
        good("clCreateKernel", status)?;
        let kernel = Kernel { library, handle: kernel };
        kernel.expect_args(launch.args.len())?;
        let variables = self.variable_bytes(program.handle, launch.device);
        if variables > 0 && !launch.allow_variables {
            return Err(format!(
                "its program has {variables} bytes of variables, and their content was not captured"
            ));
        }
        let buffers = memories
            .iter_mut()
            .map(|bytes| Buffer::new(library, program.opened.context, bytes))
            .collect::<Result<Vec<_>, _>>()?;
        let mut parts = Vec::new();
        for (at, arg) in launch.args.iter().enumerate() {
            kernel.set(at, arg, &buffers, &mut parts).map_err(|why| format!("argument {at}: {why}"))?;
        }
        kernel.launch(program.opened.queue, launch)?;
        // SAFETY: the queue of the context.
        good("clFinish", unsafe { (library.finish)(program.opened.queue) })?;
        for (buffer, bytes) in buffers.iter().zip(memories) {
            buffer.read(program.opened.queue, bytes)?;
        }
        Ok(())
    }
}

/// A built program with its device. It must be used before another program is built.
pub(crate) struct BuiltProgram {
    handle: Handle,
    opened: DeviceContext,
}

fn devices(library: &Library) -> Result<Vec<(Handle, DeviceName)>, String> {
    let platforms = match list(|count, at, found| {
        // SAFETY: `list` passes an array with its length.
        unsafe { (library.get_platform_ids)(count, at, found) }
    }) {
        Err(NO_PLATFORM_FOUND) => Vec::new(),
        other => other.map_err(|status| failed("clGetPlatformIDs", status))?,
    };
    let mut devices = Vec::new();
    for platform in platforms {
        let found = list(|count, at, found| {
            // SAFETY: `list` passes an array with its length; the platform belongs to the library.
            unsafe { (library.get_device_ids)(platform, DEVICE_TYPE_ALL, count, at, found) }
        });
        let found = match found {
            Err(NO_DEVICE_FOUND) => Vec::new(),
            other => other.map_err(|status| failed("clGetDeviceIDs", status))?,
        };
        // SAFETY: `text` passes a buffer with its size; the platform belongs to the library.
        let name = text(|bytes, at, length| unsafe {
            (library.get_platform_info)(platform, PLATFORM_NAME, bytes, at, length)
        });
        let platform = name.unwrap_or_default();
        for device in found {
            // A driver may be registered twice.
            if devices.iter().any(|(known, _)| *known == device) {
                continue;
            }
            let said = |what: u32| {
                // SAFETY: `text` passes a buffer with its size; the device belongs to the library.
                text(|bytes, at, length| unsafe {
                    (library.get_device_info)(device, what, bytes, at, length)
                })
            };
            let (name, driver) = (said(DEVICE_NAME)?, said(DRIVER_VERSION)?);
            devices.push((device, DeviceName { platform: platform.clone(), name, driver }));
        }
    }
    Ok(devices)
}

/// Queries a count, then that many handles. `ask` may write as many handles as the count it receives.
fn list(ask: impl Fn(u32, *mut Handle, *mut u32) -> Status) -> Result<Vec<Handle>, Status> {
    let mut count = 0;
    match ask(0, ptr::null_mut(), &raw mut count) {
        0 => {}
        status => return Err(status),
    }
    let mut all = vec![ptr::null_mut(); count as usize];
    match ask(count, all.as_mut_ptr(), ptr::null_mut()) {
        0 => Ok(all),
        status => Err(status),
    }
}

/// Queries the length of a text, then the text. `ask` may write as many bytes as the size it receives.
fn text(ask: impl Fn(usize, *mut c_void, *mut usize) -> Status) -> Result<String, String> {
    let mut length = 0;
    good("querying a text", ask(0, ptr::null_mut(), &raw mut length))?;
    let mut bytes = vec![0_u8; length];
    good("querying a text", ask(length, bytes.as_mut_ptr().cast(), ptr::null_mut()))?;
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(length);
    Ok(String::from_utf8_lossy(&bytes[..end]).trim().to_owned())
}

struct Kernel<'h> {
    library: &'h Library,
    handle: Handle,
}

impl Drop for Kernel<'_> {
    fn drop(&mut self) {
        // SAFETY: created together with this value.
        unsafe { (self.library.release_kernel)(self.handle) };
    }
}

impl<'h> Kernel<'h> {
    /// Checks the number of arguments: a kernel is only launched with as many as it declares.
    fn expect_args(&self, given: usize) -> Result<(), String> {
        let mut declared = 0_u32;
        let at = (&raw mut declared).cast();
        // SAFETY: the buffer has the size of one `cl_uint`.
        let status =
            unsafe { (self.library.get_kernel_info)(self.handle, KERNEL_NUM_ARGS, 4, at, ptr::null_mut()) };
        good("clGetKernelInfo", status)?;
        if declared as usize == given {
            return Ok(());
        }
        Err(format!("the kernel declares {declared} arguments, but {given} were recorded"))
    }

    fn set(
        &self,
        at: usize,
        arg: &Arg,
        buffers: &[Buffer<'h>],
        parts: &mut Vec<Buffer<'h>>,
    ) -> Result<(), String> {
        let place = u32::try_from(at).map_err(|error| error.to_string())?;
        let set = |bytes: usize, value: *const c_void| {
            // SAFETY: the library checks the size and reads that many bytes; null means local memory.
            good("clSetKernelArg", unsafe { (self.library.set_kernel_arg)(self.handle, place, bytes, value) })
        };
        match arg {
            Arg::Value(bytes) => set(bytes.len(), bytes.as_ptr().cast()),
            Arg::Local(bytes) => {
                set(usize::try_from(*bytes).map_err(|error| error.to_string())?, ptr::null())
            }
            Arg::Memory(part) => {
                let whole = buffers.get(part.memory).ok_or("unknown memory")?;
                let handle = if part.offset == 0 && part.bytes == whole.bytes {
                    whole.handle
                } else {
                    parts.push(whole.part(part.offset, part.bytes)?);
                    parts.last().map_or(ptr::null_mut(), |part| part.handle)
                };
                set(size_of::<Handle>(), (&raw const handle).cast())
            }
        }
    }

    fn launch(&self, queue: Handle, launch: &Launch) -> Result<(), String> {
        if !(1..=3).contains(&launch.work_dims) {
            return Err(format!("a launch cannot have {} dimensions", launch.work_dims));
        }
        let sizes = |sizes: [u64; 3]| sizes.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        let (size, offset) = (sizes(launch.global_size), sizes(launch.global_offset));
        let group = launch.group.map(sizes);
        // SAFETY: the arrays have three sizes, and the library reads one per dimension; there are no events.
        let status = unsafe {
            (self.library.enqueue_nd_range_kernel)(
                queue,
                self.handle,
                launch.work_dims,
                offset.as_ptr(),
                size.as_ptr(),
                group.as_ref().map_or(ptr::null(), |group| group.as_ptr()),
                0,
                ptr::null(),
                ptr::null_mut(),
            )
        };
        good("clEnqueueNDRangeKernel", status)
    }
}

struct Buffer<'h> {
    library: &'h Library,
    handle: Handle,
    bytes: u64,
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // SAFETY: created together with this value.
        unsafe { (self.library.release_mem_object)(self.handle) };
    }
}

impl<'h> Buffer<'h> {
    /// A buffer with this content. It has at least one byte, because OpenCL has no empty buffers.
    fn new(library: &'h Library, context: Handle, content: &mut [u8]) -> Result<Buffer<'h>, String> {
        let mut status = 0;
        let (flags, start) = match content.len() {
            0 => (MEM_READ_WRITE, ptr::null_mut()),
            _ => (MEM_READ_WRITE | MEM_COPY_HOST_PTR, content.as_mut_ptr().cast()),
        };
        // SAFETY: the library copies the bytes of the slice during the call.
        let handle =
            unsafe { (library.create_buffer)(context, flags, content.len().max(1), start, &raw mut status) };
        good("clCreateBuffer", status)?;
        Ok(Buffer { library, handle, bytes: content.len() as u64 })
    }

    /// A sub-buffer.
    fn part(&self, offset: u64, bytes: u64) -> Result<Buffer<'h>, String> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err("it exceeds its memory".into());
        }
        let size = |bytes: u64| usize::try_from(bytes).map_err(|error| error.to_string());
        // `cl_buffer_region`.
        let region = [size(offset)?, size(bytes)?];
        let mut status = 0;
        // SAFETY: the region is inside of the buffer and has the declared layout.
        let handle = unsafe {
            (self.library.create_sub_buffer)(
                self.handle,
                MEM_READ_WRITE,
                BUFFER_CREATE_TYPE_REGION,
                region.as_ptr().cast(),
                &raw mut status,
            )
        };
        good("clCreateSubBuffer", status)?;
        Ok(Buffer { library: self.library, handle, bytes })
    }

    fn read(&self, queue: Handle, into: &mut [u8]) -> Result<(), String> {
        if into.is_empty() {
            return Ok(());
        }
        // SAFETY: the buffer has the size of the slice, and the call blocks until the copy is done.
        let status = unsafe {
            (self.library.enqueue_read_buffer)(
                queue,
                self.handle,
                1,
                0,
                into.len(),
                into.as_mut_ptr().cast(),
                0,
                ptr::null(),
                ptr::null_mut(),
            )
        };
        good("clEnqueueReadBuffer", status)
    }
}
