//! Launches of the backend's own kernels.

use std::{ffi::c_void, ptr};

use super::{Driver, NOT_FOUND, Status};
use crate::raw::{LaunchAttribute, LaunchConfig};

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
        let mut parameters = [parameter.as_ptr().cast::<c_void>()];
        let Some(call) = self.launch else { return NOT_FOUND };
        // SAFETY: the caller's guarantee. The driver has copied the parameter when the call returns.
        unsafe {
            call(kernel, groups, 1, 1, group, 1, 1, 0, stream, parameters.as_mut_ptr(), ptr::null_mut())
        }
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
        // SAFETY: the caller's guarantee. The driver has copied everything when the call returns.
        unsafe { call(&raw const config, kernel, parameters.as_mut_ptr(), ptr::null_mut()) }
    }

    /// Whether launches may begin early.
    pub fn launches_early(&self) -> bool {
        self.launch_with.is_some()
    }
}
