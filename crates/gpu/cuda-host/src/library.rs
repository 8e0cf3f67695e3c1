//! Loads the CUDA driver.

use tensortap_driver::{cuda, path_or};
use tensortap_library::Library;

pub(crate) use tensortap_driver::cuda::{
    Address, Driver, Handle, LaunchAttribute, LaunchConfig, MemoryAccess, MemoryKind, MemoryLocation,
};

/// Environment variable with the path of the driver.
pub(crate) const LIBRARY_VARIABLE: &str = "TENSORTAP_LIBCUDA";

/// Functions that a replay needs. CUDA 12.4 has all of them.
const REQUIRED: [&str; 26] = [
    "cuInit",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuModuleGetGlobal_v2",
    "cuFuncGetParamInfo",
    "cuFuncSetAttribute",
    "cuLaunchKernelEx",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuMemsetD8_v2",
    "cuMemGetAllocationGranularity",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
];

/// Loads the driver, which is never unloaded. The error is a message for the user.
pub(crate) fn load() -> Result<Driver, String> {
    let path = path_or(LIBRARY_VARIABLE, cuda::SYSTEM_LIBRARY);
    let library = Library::open(&path).map_err(|error| {
        format!(
            "there is no CUDA driver here ({error}); replay on a machine with an NVIDIA GPU, or set {LIBRARY_VARIABLE} \
             to the path of its libcuda"
        )
    })?;
    let driver = Driver::find(library);
    match driver.missing(&REQUIRED) {
        None => Ok(driver),
        Some(missing) => Err(format!(
            "{} has no function {missing}; replay needs the driver of CUDA 12.4 or later",
            path.display()
        )),
    }
}
