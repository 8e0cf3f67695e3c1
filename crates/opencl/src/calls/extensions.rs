//! Functions of extensions, which a program asks for by name and calls past the layer.

use std::ffi::{c_char, c_void};

use super::behind;
use crate::{ffi::Handle, layer::Layer, raw};

pub unsafe extern "C" fn address(name: *const c_char) -> *mut c_void {
    // SAFETY: the program's promises.
    unsafe {
        let function = behind!(clGetExtensionFunctionAddress)(name);
        asked(name, function)
    }
}

pub unsafe extern "C" fn address_for_platform(platform: Handle, name: *const c_char) -> *mut c_void {
    // SAFETY: the program's promises.
    unsafe {
        let function = behind!(clGetExtensionFunctionAddressForPlatform)(platform, name);
        asked(name, function)
    }
}

/// A function that puts commands into queues is not seen when it is called: that is said, once for each.
///
/// # Safety
/// It is a text, or null.
unsafe fn asked(name: *const c_char, function: *mut c_void) -> *mut c_void {
    // SAFETY: the caller's promise.
    let name = unsafe { raw::text(name) };
    if !function.is_null() && puts_commands(&name) {
        Layer::get().tell_once(&format!("what the program does with {name} of an extension is not recorded"));
    }
    function
}

/// Whether a function of this name changes memory without being one that is recorded.
fn puts_commands(name: &str) -> bool {
    name.starts_with("clEnqueue") || name.starts_with("clCommand")
}

#[cfg(test)]
mod tests {
    use super::puts_commands;

    #[test]
    fn what_enqueues_is_told_from_what_asks() {
        for name in ["clEnqueueCommandBufferKHR", "clEnqueueMemcpyINTEL", "clCommandNDRangeKernelKHR"] {
            assert!(puts_commands(name), "{name}");
        }
        for name in ["clGetKernelSubGroupInfoKHR", "clCreateCommandBufferKHR", "clIcdGetPlatformIDsKHR"] {
            assert!(!puts_commands(name), "{name}");
        }
    }
}
