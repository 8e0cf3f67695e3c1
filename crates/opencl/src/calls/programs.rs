//! Programs are built, with what kernels call their arguments.

use std::{
    ffi::{CString, c_char, c_void},
    ptr,
    sync::Arc,
};

use tensortap_record::ModuleKind;

use super::behind;
use crate::{
    ffi::{self, BuildCallback, Context, Device, Kernel, Program, SUCCESS, Status},
    layer::Layer,
    objects::{Image, KernelFacts, key},
    raw,
    variables::has_variables,
};

/// Larger images are not kept.
const MOST_IMAGE_BYTES: usize = 1 << 30;

/// Lets a driver keep what kernels call their arguments, and of which types they are.
const KEEP_NAMES: &str = "-cl-kernel-arg-info";

/// The program's options, and those it is built with.
///
/// # Safety
/// It is a text, or null.
unsafe fn with_names(options: *const c_char) -> (String, CString) {
    // SAFETY: the caller's promise.
    let given = unsafe { raw::text(options) };
    let all = match given.trim() {
        "" => KEEP_NAMES.to_owned(),
        some if some.contains(KEEP_NAMES) => given.clone(),
        _ => format!("{given} {KEEP_NAMES}"),
    };
    (given, CString::new(all).unwrap_or_default())
}

pub unsafe extern "C" fn build(
    program: Program,
    count: u32,
    devices: *const Device,
    options: *const c_char,
    callback: BuildCallback,
    data: *mut c_void,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let (given, all) = with_names(options);
        let layer = Layer::get();
        layer.objects().programs.built(key(program), given);
        let build = behind!(clBuildProgram);
        let status = build(program, count, devices, all.as_ptr(), callback, data);
        if status == ffi::INVALID_BUILD_OPTIONS {
            // A driver that does not know the option, or options that are wrong anyway: it is asked what it says to the program's own.
            // Whoever asked to be called was.
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
    // SAFETY: the program's promises.
    unsafe {
        let (given, all) = with_names(options);
        Layer::get().objects().programs.built(key(program), given);
        let compile = behind!(clCompileProgram);
        let call = |options: *const c_char, callback: BuildCallback| {
            compile(program, count, devices, options, headers, programs, names, callback, data)
        };
        match call(all.as_ptr(), callback) {
            // Whoever asked to be called was.
            ffi::INVALID_COMPILER_OPTIONS => call(options, None),
            status => status,
        }
    }
}

/// A linked program is new, and its code is that of others.
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
    // SAFETY: the program's promises.
    unsafe {
        let link = behind!(clLinkProgram);
        let made = link(context, count, devices, options, input_count, inputs, callback, data, status);
        if !made.is_null() {
            Layer::get().objects().programs.built(key(made), raw::text(options));
        }
        made
    }
}

/// The code that a kernel comes from. It is asked for once for each program.
pub fn image_of(layer: &Layer, kernel: Kernel) -> Option<Arc<Image>> {
    let program = KernelFacts::program(&layer.target, kernel)?;
    let known = layer.objects().programs.image(key(program));
    known.or_else(|| {
        let asked = ask_image(layer, program)?;
        Some(layer.objects().programs.keep(key(program), asked))
    })
}

/// What a driver tells of a program: its first device, and the code.
fn ask_image(layer: &Layer, program: Program) -> Option<Image> {
    let ask = layer.target.clGetProgramInfo?;
    // SAFETY: a program of which a kernel lives, and what is written to is this call's.
    let devices = raw::all(1 << 16, |room, value, size| unsafe {
        ask(program, ffi::PROGRAM_DEVICES, room, value, size)
    })?;
    let device = devices.first_chunk().map(|handle| usize::from_ne_bytes(*handle))?;
    let device = ptr::with_exposed_provenance_mut(device);
    let (kind, bytes) = ask_code(layer, program)?;
    let globals = raw::value::<usize>(|room, value, size| match layer.target.clGetProgramBuildInfo {
        // SAFETY: as above, and one of its devices.
        Some(ask) => unsafe { ask(program, device, ffi::PROGRAM_BUILD_GLOBALS, room, value, size) },
        None => ffi::INVALID_OPERATION,
    });
    let is_source_with =
        |bytes: &[u8]| kind == ModuleKind::OpenClC && has_variables(&String::from_utf8_lossy(bytes));
    let has_variables = globals.is_some_and(|bytes| bytes > 0) || is_source_with(&bytes);
    // With its driver: on the same, a replay comes out bit for bit the same.
    let driver = device_text(layer, device, ffi::DRIVER_VERSION);
    let device = format!("{} / {driver}", device_name(layer, device));
    Some(Image { kind, device, bytes, has_variables, ..Image::default() })
}

/// Its source, its intermediate code, or what its first device runs: the first of them that there is.
fn ask_code(layer: &Layer, program: Program) -> Option<(ModuleKind, Vec<u8>)> {
    let ask = layer.target.clGetProgramInfo?;
    let told = |what| {
        // SAFETY: a program of which a kernel lives, and what is written to is this call's.
        move |room, value, size| unsafe { ask(program, what, room, value, size) }
    };
    let mut source = raw::all(MOST_IMAGE_BYTES, told(ffi::PROGRAM_SOURCE)).unwrap_or_default();
    // The text ends in a zero.
    source.pop_if(|last| *last == 0);
    if !source.is_empty() {
        return Some((ModuleKind::OpenClC, source));
    }
    let code = raw::all(MOST_IMAGE_BYTES, told(ffi::PROGRAM_IL)).filter(|code| !code.is_empty());
    if let Some(code) = code {
        return Some((ModuleKind::SpirV, code));
    }
    let sizes = raw::all(1 << 16, told(ffi::PROGRAM_BINARY_SIZES))?;
    let size = sizes.first_chunk().map(|size| usize::from_ne_bytes(*size))?;
    if size == 0 || size > MOST_IMAGE_BYTES {
        return None;
    }
    let mut binary = vec![0_u8; size];
    // One place for each device: those that are null are passed over.
    let mut places = vec![ptr::null_mut::<u8>(); sizes.len() / size_of::<usize>()];
    *places.first_mut()? = binary.as_mut_ptr();
    let (room, value) = (size_of_val(&places[..]), places.as_mut_ptr().cast());
    let status = told(ffi::PROGRAM_BINARIES)(room, value, ptr::null_mut());
    (status == SUCCESS).then_some((ModuleKind::OpenClBinary, binary))
}

/// What a device is called.
pub fn device_name(layer: &Layer, device: Device) -> String {
    device_text(layer, device, ffi::DEVICE_NAME)
}

fn device_text(layer: &Layer, device: Device, what: u32) -> String {
    let told = |room, value, size| match layer.target.clGetDeviceInfo {
        // SAFETY: a device of the program's, and what is written to is this call's.
        Some(ask) => unsafe { ask(device, what, room, value, size) },
        None => ffi::INVALID_OPERATION,
    };
    raw::told_text(told).unwrap_or_default()
}

/// What a program was built with is what it said.
pub unsafe extern "C" fn build_info(
    program: Program,
    device: Device,
    what: u32,
    room: usize,
    value: *mut c_void,
    size: *mut usize,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let ask = behind!(clGetProgramBuildInfo);
        if what != ffi::PROGRAM_BUILD_OPTIONS {
            return ask(program, device, what, room, value, size);
        }
        // A question that is wrong gets the driver's answer.
        let status = ask(program, device, what, 0, std::ptr::null_mut(), std::ptr::null_mut());
        let said = Layer::get().objects().programs.options.get(&key(program)).cloned();
        match said {
            Some(said) if status == SUCCESS => {
                let text = CString::new(said).unwrap_or_default();
                raw::answer(text.as_bytes_with_nul(), room, value, size)
            }
            _ => ask(program, device, what, room, value, size),
        }
    }
}
