//! Extension functions. A program gets their addresses by name, and would then call the driver directly, past the layer.

use std::ffi::{c_char, c_void};

use super::driver_fn;
use crate::{ffi::Handle, layer::Layer, raw};

pub unsafe extern "C" fn address(name: *const c_char) -> *mut c_void {
    // SAFETY: the program's guarantees.
    unsafe {
        let function = driver_fn!(clGetExtensionFunctionAddress)(name);
        note_unrecorded(name, function)
    }
}

pub unsafe extern "C" fn address_for_platform(platform: Handle, name: *const c_char) -> *mut c_void {
    // SAFETY: the program's guarantees.
    unsafe {
        let function = driver_fn!(clGetExtensionFunctionAddressForPlatform)(platform, name);
        note_unrecorded(name, function)
    }
}

/// Prints a note for a function that submits commands, once for each: the layer does not see its calls.
///
/// # Safety
/// `name` is null or ends with a zero byte.
unsafe fn note_unrecorded(name: *const c_char, function: *mut c_void) -> *mut c_void {
    // SAFETY: the caller's guarantee.
    let name = unsafe { raw::text(name) };
    if !function.is_null() && submits_commands(&name) {
        Layer::get().note_once(&format!("calls of the extension function {name} are not recorded"));
    }
    function
}

/// Whether an extension function with this name submits commands.
fn submits_commands(name: &str) -> bool {
    name.starts_with("clEnqueue") || name.starts_with("clCommand")
}

#[cfg(test)]
mod tests {
    use super::submits_commands;

    #[test]
    fn only_functions_that_submit_commands_are_reported() {
        for name in ["clEnqueueCommandBufferKHR", "clEnqueueMemcpyINTEL", "clCommandNDRangeKernelKHR"] {
            assert!(submits_commands(name), "{name}");
        }
        for name in ["clGetKernelSubGroupInfoKHR", "clCreateCommandBufferKHR", "clIcdGetPlatformIDsKHR"] {
            assert!(!submits_commands(name), "{name}");
        }
    }
}
