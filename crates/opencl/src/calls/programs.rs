//! Programs are built, with what kernels call their arguments.

use std::ffi::{CString, c_char, c_void};

use super::behind;
use crate::{
    ffi::{self, BuildCallback, Device, Program, SUCCESS, Status},
    layer::Layer,
    objects::key,
    raw,
};

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
        let before = layer.objects().programs.options.insert(key(program), given);
        let build = behind!(clBuildProgram);
        let status = build(program, count, devices, all.as_ptr(), callback, data);
        if status == ffi::INVALID_BUILD_OPTIONS {
            // A driver that does not know the option, or options that are wrong anyway: it is asked what it says to the program's own.
            return build(program, count, devices, options, callback, data);
        }
        if let (true, Some(before)) = (status == ffi::INVALID_OPERATION, before) {
            layer.objects().programs.options.insert(key(program), before);
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
        Layer::get().objects().programs.options.insert(key(program), given);
        let compile = behind!(clCompileProgram);
        let call =
            |options| compile(program, count, devices, options, headers, programs, names, callback, data);
        match call(all.as_ptr()) {
            ffi::INVALID_COMPILER_OPTIONS => call(options),
            status => status,
        }
    }
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
