//! Kernels of ours, put into streams.

use std::{ffi::c_void, ptr};

use super::{Driver, NOT_FOUND, Status};
use crate::raw::{LaunchAttribute, LaunchConfig};

impl Driver {
    /// Puts a kernel into a stream that takes one parameter, these bytes.
    ///
    /// # Safety
    /// It takes as many, and they say the truth of memory.
    pub unsafe fn launch(
        &self,
        kernel: usize,
        (groups, group): (u32, u32),
        stream: usize,
        parameter: &[u8],
    ) -> Status {
        let mut parameters = [parameter.as_ptr().cast::<c_void>()];
        let Some(call) = self.launch else { return NOT_FOUND };
        // SAFETY: the caller's promise; the driver has copied the parameter when it returns.
        unsafe {
            call(kernel, groups, 1, 1, group, 1, 1, 0, stream, parameters.as_mut_ptr(), ptr::null_mut())
        }
    }

    /// The same, which may begin when the launch before it in the stream lets it.
    ///
    /// # Safety
    /// As [`Driver::launch`]; and what it reads is there by then.
    pub unsafe fn launch_early(
        &self,
        kernel: usize,
        (groups, group): (u32, u32),
        stream: usize,
        parameter: &[u8],
    ) -> Status {
        let mut parameters = [parameter.as_ptr().cast::<c_void>()];
        let attribute = LaunchAttribute::set(LaunchAttribute::PROGRAMMATIC);
        let both = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let config = LaunchConfig {
            sizes: [both(groups, 1), both(1, group), both(1, 1)],
            shared: 0,
            stream: stream as u64,
            attributes: (&raw const attribute).expose_provenance() as u64,
            attribute_count: 1,
        };
        let Some(call) = self.launch_with else { return NOT_FOUND };
        // SAFETY: the caller's promise; the driver has copied all of it when it returns.
        unsafe { call(&raw const config, kernel, parameters.as_mut_ptr(), ptr::null_mut()) }
    }

    /// Whether launches can be told to begin early.
    pub fn launches_early(&self) -> bool {
        self.launch_with.is_some()
    }
}
