//! Programs are built. The layer adds an option so that drivers keep the names and types of kernel arguments.

use std::{
    ffi::{CString, c_char, c_void},
    ptr,
    sync::Arc,
};

use tensortap_record::ModuleKind;

use super::driver_fn;
use crate::{
    ffi::{self, BuildCallback, Context, Device, Kernel, Program, SUCCESS, Status},
    layer::Layer,
    objects::{KernelFacts, ProgramImage, key},
    raw::{self, info},
    variables::has_variables,
};

/// Larger images are not recorded.
const MAX_IMAGE_BYTES: usize = 1 << 30;

/// Makes a driver keep the names and types of kernel arguments.
const KEEP_NAMES: &str = "-cl-kernel-arg-info";

/// The program's options, and the options to build with.
///
/// # Safety
/// `options` is null or ends with a zero byte.
unsafe fn with_names(options: *const c_char) -> (String, CString) {
    // SAFETY: the caller's guarantee.
    let own = unsafe { raw::text(options) };
    let all = match own.trim() {
        "" => KEEP_NAMES.to_owned(),
        some if some.contains(KEEP_NAMES) => own.clone(),
        _ => format!("{own} {KEEP_NAMES}"),
    };
    (own, CString::new(all).unwrap_or_default())
}

pub unsafe extern "C" fn build(
    program: Program,
    count: u32,
    devices: *const Device,
    options: *const c_char,
    callback: BuildCallback,
    data: *mut c_void,
) -> Status {
    // SAFETY: the program's guarantees.
    unsafe {
        let (own, all) = with_names(options);
        let layer = Layer::get();
        layer.objects().programs.set_options(key(program), own);
        let build = driver_fn!(clBuildProgram);
        let status = build(program, count, devices, all.as_ptr(), callback, data);
        if status == ffi::INVALID_BUILD_OPTIONS {
            // The driver does not know the added option, or the program's options are invalid. Its answer to the
            // program's own options counts. The driver has called the callback already.
            return build(program, count, devices, options, None, ptr::null_mut());
        }
        status
    }
}

pub unsafe extern "C" fn compile(
    program: Program,
    count: u32,
    devices: *const Device,
    options: *const c_char,
    headers: u32,
    programs: *const Program,
    names: *const *const c_char,
    callback: BuildCallback,
    data: *mut c_void,
) -> Status {
    // SAFETY: the program's guarantees.
    unsafe {
        let (own, all) = with_names(options);
        Layer::get().objects().programs.set_options(key(program), own);
        let compile = driver_fn!(clCompileProgram);
        let call = |options: *const c_char, callback: BuildCallback| {
            compile(program, count, devices, options, headers, programs, names, callback, data)
        };
        match call(all.as_ptr(), callback) {
            // As in `build`: the driver has called the callback already.
            ffi::INVALID_COMPILER_OPTIONS => call(options, None),
            status => status,
        }
    }
}

/// A linked program is a new program.
pub unsafe extern "C" fn link(
    context: Context,
    count: u32,
    devices: *const Device,
    options: *const c_char,
    input_count: u32,
    inputs: *const Program,
    callback: BuildCallback,
    data: *mut c_void,
    status: *mut Status,
) -> Program {
    // SAFETY: the program's guarantees.
    unsafe {
        let link = driver_fn!(clLinkProgram);
        let linked = link(context, count, devices, options, input_count, inputs, callback, data, status);
        if !linked.is_null() {
            Layer::get().objects().programs.set_options(key(linked), raw::text(options));
        }
        linked
    }
}

/// The image of the program that a kernel comes from. The driver is asked once for each program.
pub fn image_of(layer: &Layer, kernel: Kernel) -> Option<Arc<ProgramImage>> {
    let program = KernelFacts::program(&layer.target, kernel)?;
    let known = layer.objects().programs.image(key(program));
    known.or_else(|| {
        let image = ask_image(layer, program)?;
        Some(layer.objects().programs.add_image(key(program), image))
    })
}

/// Asks the driver for a program's first device and its code.
fn ask_image(layer: &Layer, program: Program) -> Option<ProgramImage> {
    let devices = raw::all(1 << 16, info!(layer.target, clGetProgramInfo(program, ffi::PROGRAM_DEVICES)))?;
    let device = devices.first_chunk().map(|handle| usize::from_ne_bytes(*handle))?;
    let device = ptr::with_exposed_provenance_mut(device);
    let (kind, bytes) = ask_code(layer, program)?;
    let globals = raw::value::<usize>(info!(
        layer.target,
        clGetProgramBuildInfo(program, device, ffi::PROGRAM_BUILD_GLOBALS)
    ));
    let is_source_with =
        |bytes: &[u8]| kind == ModuleKind::OpenClC && has_variables(&String::from_utf8_lossy(bytes));
    let has_variables = globals.is_some_and(|bytes| bytes > 0) || is_source_with(&bytes);
    // The driver version is part of the name: a replay is bitwise equal only with the same driver.
    let driver = device_text(layer, device, ffi::DRIVER_VERSION);
    let device = format!("{} / {driver}", device_name(layer, device));
    Some(ProgramImage { kind, device, bytes, has_variables, ..ProgramImage::default() })
}

/// The code of a program: its source, else its intermediate code, else the binary for its first device.
fn ask_code(layer: &Layer, program: Program) -> Option<(ModuleKind, Vec<u8>)> {
    let ask = |what| info!(layer.target, clGetProgramInfo(program, what));
    let mut source = raw::all(MAX_IMAGE_BYTES, ask(ffi::PROGRAM_SOURCE)).unwrap_or_default();
    // The text ends with a zero byte.
    source.pop_if(|last| *last == 0);
    if !source.is_empty() {
        return Some((ModuleKind::OpenClC, source));
    }
    let code = raw::all(MAX_IMAGE_BYTES, ask(ffi::PROGRAM_IL)).filter(|code| !code.is_empty());
    if let Some(code) = code {
        return Some((ModuleKind::SpirV, code));
    }
    let sizes = raw::all(1 << 16, ask(ffi::PROGRAM_BINARY_SIZES))?;
    let size = sizes.first_chunk().map(|size| usize::from_ne_bytes(*size))?;
    if size == 0 || size > MAX_IMAGE_BYTES {
        return None;
    }
    let mut binary = vec![0_u8; size];
    // One pointer for each device. The driver skips those that are null.
    let mut places = vec![ptr::null_mut::<u8>(); sizes.len() / size_of::<usize>()];
    *places.first_mut()? = binary.as_mut_ptr();
    let (room, value) = (size_of_val(&places[..]), places.as_mut_ptr().cast());
    let status = ask(ffi::PROGRAM_BINARIES)(room, value, ptr::null_mut());
    (status == SUCCESS).then_some((ModuleKind::OpenClBinary, binary))
}

/// The name of a device.
pub fn device_name(layer: &Layer, device: Device) -> String {
    device_text(layer, device, ffi::DEVICE_NAME)
}

fn device_text(layer: &Layer, device: Device, what: u32) -> String {
    raw::text_info(info!(layer.target, clGetDeviceInfo(device, what))).unwrap_or_default()
}

/// Answers the build options that the program gave, without the added one.
pub unsafe extern "C" fn build_info(
    program: Program,
    device: Device,
    what: u32,
    room: usize,
    value: *mut c_void,
    size: *mut usize,
) -> Status {
    // SAFETY: the program's guarantees.
    unsafe {
        let ask = driver_fn!(clGetProgramBuildInfo);
        if what != ffi::PROGRAM_BUILD_OPTIONS {
            return ask(program, device, what, room, value, size);
        }
        // The driver answers invalid questions.
        let status = ask(program, device, what, 0, std::ptr::null_mut(), std::ptr::null_mut());
        let options = Layer::get().objects().programs.options.get(&key(program)).cloned();
        match options {
            Some(options) if status == SUCCESS => {
                let text = CString::new(options).unwrap_or_default();
                raw::answer(text.as_bytes_with_nul(), room, value, size)
            }
            _ => ask(program, device, what, room, value, size),
        }
    }
}
