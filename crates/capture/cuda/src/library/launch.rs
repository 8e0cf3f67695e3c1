//! Launches of the backend's own kernels.

use std::{ffi::c_void, ptr};

use super::{Driver, LaunchAttribute, LaunchConfig, Status};

impl Driver {
    /// Launches a kernel with one parameter: these bytes.
    ///
    /// # Safety
    /// The kernel has one parameter of this size, and all addresses in it are valid.
    pub unsafe fn launch(
        &self,
        kernel: usize,
        (groups, group): (u32, u32),
        stream: usize,
        parameter: &[u8],
    ) -> Status {
        let mut parameters = [start_of(parameter)];
        let (to, extra) = (parameters.as_mut_ptr(), ptr::null_mut());
        // SAFETY: the caller's guarantee. The driver has copied the parameter when the call returns.
        unsafe { self.functions.launch_kernel(kernel, groups, 1, 1, group, 1, 1, 0, stream, to, extra) }
    }

    /// As [`Driver::launch`], but the kernel may begin when its predecessor in the stream triggers it.
    ///
    /// # Safety
    /// As [`Driver::launch`]. What the kernel reads is complete at that time.
    pub unsafe fn launch_early(
        &self,
        kernel: usize,
        (groups, group): (u32, u32),
        stream: usize,
        parameter: &[u8],
    ) -> Status {
        let mut parameters = [start_of(parameter)];
        let attribute = LaunchAttribute::new(LaunchAttribute::PROGRAMMATIC, &[1]);
        let config = LaunchConfig {
            grid: [groups, 1, 1],
            group: [group, 1, 1],
            shared_bytes: 0,
            stream,
            attributes: &raw const attribute,
            attribute_count: 1,
        };
        let (to, extra) = (parameters.as_mut_ptr(), ptr::null_mut());
        // SAFETY: the caller's guarantee. The driver has copied everything when the call returns.
        unsafe { self.functions.launch_kernel_ex(&raw const config, kernel, to, extra) }
    }

    /// Whether launches may begin early.
    pub fn launches_early(&self) -> bool {
        self.functions.has("cuLaunchKernelEx")
    }
}

/// The address of a parameter, which the driver only reads.
fn start_of(parameter: &[u8]) -> *mut c_void {
    parameter.as_ptr().cast_mut().cast()
}
