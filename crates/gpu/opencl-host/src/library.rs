//! Loads OpenCL.

use tensortap_driver::opencl::{LIBRARY_VARIABLE, OpenCl, SYSTEM_LIBRARY};
use tensortap_driver::path_or;
use tensortap_library::Library;

/// Loads OpenCL, which is never unloaded. The error is a message for the user.
pub(crate) fn load() -> Result<OpenCl, String> {
    let path = path_or(LIBRARY_VARIABLE, SYSTEM_LIBRARY);
    let library = Library::open(&path).map_err(|error| {
        format!(
            "there is no OpenCL here ({error}); install an OpenCL loader, or set {LIBRARY_VARIABLE} to the path of one; pyopencl \
             has its own in the Python packages (pyopencl/.libs/libOpenCL*, or pyopencl.libs)"
        )
    })?;
    OpenCl::find(library).map_err(|missing| format!("{} has no function {missing}", path.display()))
}
