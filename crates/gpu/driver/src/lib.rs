//! The libraries of GPU vendors, loaded at run time: building tensortap needs no vendor SDK.
//!
//! | module | contains |
//! | --- | --- |
//! | `cuda` | functions of the CUDA driver, `libcuda.so.1` |
//! | `opencl` | functions of OpenCL, `libOpenCL.so.1` |
//! | `nvrtc` | the compiler library of CUDA C, for tests and for `cuda.ptx` |
//! | `cubin` | kernels and variables of a CUDA image, read without loading it |
//!
//! The crate has tables of functions and reads files. It has no devices, sessions or dumps.
#![deny(unsafe_code)]

pub mod cubin;
pub mod cuda;
pub mod nvrtc;
pub mod opencl;

use std::ffi::OsString;

/// Path of a library: the value of an environment variable, or else the system's library.
#[must_use]
pub fn path_or(variable: &str, system: &str) -> OsString {
    std::env::var_os(variable).unwrap_or_else(|| system.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_replaces_the_system_library() {
        assert_eq!(path_or("TENSORTAP_TEST_UNSET", "libx.so.1"), "libx.so.1");
        assert_eq!(path_or("PATH", "libx.so.1"), std::env::var_os("PATH").unwrap());
    }
}
