//! Devices, images and launches, without pointers in the interface.
#![expect(unsafe_code, reason = "calls of a C library; handles stay inside")]

use std::ffi::{CStr, CString, c_void};
use std::ptr;

use tensortap_launch_host::Failure;

use tensortap_driver::cubin;

use crate::library::{self, Driver, Handle, LaunchAttribute, LaunchConfig};
use crate::memory::{Memories, copy_to_device, copy_to_host};
use crate::{DeviceName, Launch};

const COMPUTE_MAJOR: i32 = 75;
const COMPUTE_MINOR: i32 = 76;
const VIRTUAL_MEMORY: i32 = 102;
const MOST_SHARED_BYTES: i32 = 8;
const ANY_CLUSTER_SIZE: i32 = 13;
/// Shared memory that every kernel can use without an attribute.
const USUAL_SHARED_BYTES: u32 = 48 << 10;
/// Cluster size that every device supports.
const USUAL_CLUSTER: u32 = 8;
const NO_BINARY_FOR_GPU: i32 = 209;
/// Limit on parameters; no kernel has more.
const MOST_PARAMETERS: usize = 8192;
/// Keys of `cuLaunchKernelEx` for parameters in one buffer.
const PARAMETER_BUFFER: usize = 1;
const PARAMETER_BUFFER_BYTES: usize = 2;

/// All devices of this machine.
#[derive(Debug)]
pub(crate) struct Host {
    library: Driver,
    devices: Vec<(i32, DeviceName)>,
    /// The device with the current context.
    current: Option<usize>,
}

/// A loaded module. Dropping it unloads the code, so its variables never keep values from another launch.
pub(crate) struct Module<'h> {
    library: &'h Driver,
    handle: Handle,
    device: i32,
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        // SAFETY: the module is loaded. If the context is dead, the module ends with the process.
        unsafe { self.library.module_unload(self.handle) };
    }
}

impl Host {
    /// Opens all devices. The error is a message for the user: no driver, or no device.
    pub fn open() -> Result<Host, String> {
        let library = library::load()?;
        // SAFETY: the first call of the driver.
        library.check("cuInit", unsafe { library.init(0) })?;
        let mut count = 0;
        // SAFETY: writes to a local variable.
        library.check("cuDeviceGetCount", unsafe { library.device_get_count(&raw mut count) })?;
        let devices = (0..count).map(|at| named(&library, at)).collect::<Result<Vec<_>, _>>()?;
        if devices.is_empty() {
            return Err("the CUDA driver found no device".into());
        }
        Ok(Host { library, devices, current: None })
    }

    pub fn names(&self) -> Vec<DeviceName> {
        self.devices.iter().map(|(_, name)| name.clone()).collect()
    }

    /// Loads the image of a launch.
    pub fn load(&mut self, launch: &Launch, mut image: Vec<u8>) -> Result<Module<'_>, String> {
        let (device, name) = self.devices.get(launch.device).cloned().ok_or("unknown device")?;
        self.make_current(launch.device, device)?;
        let library = &self.library;
        let mut can = 0;
        // SAFETY: writes to a local variable.
        let asked = unsafe { library.device_get_attribute(&raw mut can, VIRTUAL_MEMORY, device) };
        if asked != 0 || can == 0 {
            return Err(format!(
                "{} does not support virtual memory management, which replay needs",
                name.name
            ));
        }
        // PTX must end with a zero.
        let is_for = cubin::architecture(&image);
        image.push(0);
        let mut handle = 0;
        // SAFETY: the driver trusts the sizes in the image. Its hash proves that it is the image that the
        // recorded driver received. A damaged image can crash only this process.
        let status = unsafe { library.module_load_data(&raw mut handle, image.as_ptr().cast()) };
        if status == NO_BINARY_FOR_GPU
            && let Some(is_for) = is_for
        {
            return Err(format!(
                "its code is for sm_{is_for}, but {} is sm_{}; replay it on a device with sm_{is_for}",
                name.name, name.architecture
            ));
        }
        library.check("cuModuleLoadData", status)?;
        Ok(Module { library, handle, device })
    }

    fn make_current(&mut self, place: usize, device: i32) -> Result<(), String> {
        if self.current == Some(place) {
            return Ok(());
        }
        let mut context = 0;
        let library = &self.library;
        // SAFETY: writes to a local variable; the driver returned the device.
        library.check("cuDevicePrimaryCtxRetain", unsafe {
            library.primary_context_retain(&raw mut context, device)
        })?;
        // SAFETY: the context is retained and never released.
        library.check("cuCtxSetCurrent", unsafe { library.context_set_current(context) })?;
        self.current = Some(place);
        Ok(())
    }
}

fn named(library: &Driver, at: i32) -> Result<(i32, DeviceName), String> {
    let mut device = 0;
    // SAFETY: writes to a local variable.
    library.check("cuDeviceGet", unsafe { library.device_get(&raw mut device, at) })?;
    let mut name = [0_u8; 256];
    // SAFETY: the buffer has room for the size and a zero.
    let status = unsafe { library.device_get_name(name.as_mut_ptr().cast(), 255, device) };
    library.check("cuDeviceGetName", status)?;
    let attribute = |which| {
        let mut value = 0;
        // SAFETY: writes to a local variable.
        let status = unsafe { library.device_get_attribute(&raw mut value, which, device) };
        library.check("cuDeviceGetAttribute", status).map(|()| u32::try_from(value).unwrap_or(0))
    };
    let architecture = 10 * attribute(COMPUTE_MAJOR)? + attribute(COMPUTE_MINOR)?;
    let name = CStr::from_bytes_until_nul(&name).map_err(|error| error.to_string())?;
    Ok((device, DeviceName { name: name.to_string_lossy().into_owned(), architecture }))
}

impl Module<'_> {
    /// Runs a kernel once. Replaces the content of each memory and variable with the content after it.
    /// Returns whether memory was relocated.
    pub fn run(
        &self,
        launch: &Launch,
        memories: &mut [Vec<u8>],
        variables: &mut [Vec<u8>],
    ) -> Result<bool, Failure> {
        let library = self.library;
        let function = self.function(&launch.kernel)?;
        let sizes = self.parameters(function);
        let is_whole = check_parameters(&launch.parameters, &sizes)?;
        let ways = (launch.may_move, launch.must_move);
        let memory = Memories::new(library, self.device, &launch.memories, ways, launch.filler)?;
        memory.write(memories)?;
        for (name, content) in launch.variables.iter().zip(&*variables) {
            copy_to_device(library, self.variable(name, content.len())?, content)?;
        }
        let mut parameters = launch.parameters.clone();
        for pointer in &launch.pointers {
            let address = memory.address(pointer.target.memory)?.wrapping_add(pointer.target.offset);
            let bytes = parameters.get_mut(pointer.parameter).ok_or("unknown parameter")?;
            let word = pointer.at.checked_add(8).and_then(|end| bytes.get_mut(pointer.at..end));
            word.ok_or("a pointer exceeds its parameter")?.copy_from_slice(&address.to_le_bytes());
        }
        self.prepare(function, launch)?;
        self.launch(function, launch, parameters, is_whole)?;
        // SAFETY: the context is current.
        let status = unsafe { library.context_synchronize() };
        // The launch is the only one, so an error here is its error, and it ends the context.
        library.check("cuCtxSynchronize", status).map_err(Failure::Crashed)?;
        memory.read(memories)?;
        for (name, content) in launch.variables.iter().zip(variables) {
            copy_to_host(library, self.variable(name, content.len())?, content)?;
        }
        Ok(memory.is_moved())
    }

    fn function(&self, kernel: &str) -> Result<Handle, String> {
        let name = CString::new(kernel).map_err(|_| "its name contains a zero byte")?;
        let mut function = 0;
        // SAFETY: the module is loaded, and the name ends with a zero.
        let status =
            unsafe { self.library.module_get_function(&raw mut function, self.handle, name.as_ptr()) };
        self.library.check(&format!("cuModuleGetFunction for `{kernel}`"), status)?;
        Ok(function)
    }

    /// The address of a variable of this size.
    fn variable(&self, name: &str, bytes: usize) -> Result<u64, String> {
        let text = CString::new(name).map_err(|_| "the name of a variable contains a zero byte")?;
        let (mut address, mut size) = (0, 0);
        // SAFETY: the module is loaded, the name ends with a zero, and the results are local variables.
        let status = unsafe {
            self.library.module_get_global(&raw mut address, &raw mut size, self.handle, text.as_ptr())
        };
        self.library.check(&format!("cuModuleGetGlobal for the variable `{name}`"), status)?;
        match bytes <= size {
            true => Ok(address),
            false => Err(format!("the variable `{name}` has {size} bytes, but {bytes} were recorded")),
        }
    }

    /// Offset and size of each parameter.
    fn parameters(&self, function: Handle) -> Vec<(usize, usize)> {
        let one = |at| {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: the function belongs to the module, and the results are local variables.
            let status =
                unsafe { self.library.function_get_param_info(function, at, &raw mut offset, &raw mut size) };
            (status == 0).then_some((offset, size))
        };
        (0..MOST_PARAMETERS).map_while(one).collect()
    }

    /// Sets the attributes for large shared memory and large clusters.
    fn prepare(&self, function: Handle, launch: &Launch) -> Result<(), String> {
        let set = |attribute: i32, value: u32| {
            let value = i32::try_from(value).map_err(|error| error.to_string())?;
            // SAFETY: the function belongs to the module.
            let status = unsafe { self.library.function_set_attribute(function, attribute, value) };
            self.library.check("cuFuncSetAttribute", status)
        };
        if launch.shared_bytes > USUAL_SHARED_BYTES {
            set(MOST_SHARED_BYTES, launch.shared_bytes)?;
        }
        if launch.cluster.iter().map(|&size| u32::from(size)).product::<u32>() > USUAL_CLUSTER {
            set(ANY_CLUSTER_SIZE, 1)?;
        }
        Ok(())
    }

    fn launch(
        &self,
        function: Handle,
        launch: &Launch,
        mut parameters: Vec<Vec<u8>>,
        is_whole: bool,
    ) -> Result<(), String> {
        let mut attributes = Vec::new();
        if launch.cluster != [0; 3] {
            let sizes = launch.cluster.map(u32::from);
            attributes.push(LaunchAttribute::new(LaunchAttribute::CLUSTER, &sizes));
        }
        if launch.is_cooperative {
            attributes.push(LaunchAttribute::new(LaunchAttribute::COOPERATIVE, &[1]));
        }
        let config = LaunchConfig {
            grid: launch.grid,
            group: launch.group,
            shared_bytes: launch.shared_bytes,
            stream: 0,
            attributes: attributes.as_ptr(),
            attribute_count: u32::try_from(attributes.len()).unwrap_or(0),
        };
        let mut starts: Vec<*mut c_void> =
            parameters.iter_mut().map(|bytes| bytes.as_mut_ptr().cast()).collect();
        let mut bytes = parameters.first().map_or(0, Vec::len);
        let mut extra = [
            ptr::without_provenance_mut(PARAMETER_BUFFER),
            starts.first().copied().unwrap_or(ptr::null_mut()),
            ptr::without_provenance_mut(PARAMETER_BUFFER_BYTES),
            (&raw mut bytes).cast(),
            ptr::null_mut(),
        ];
        let (each, all) = match is_whole {
            true => (ptr::null_mut(), extra.as_mut_ptr()),
            false => (starts.as_mut_ptr(), ptr::null_mut()),
        };
        // SAFETY: `check_parameters` has compared the sizes of the parameters with the function's. The driver
        // copies them during the call.
        let status = unsafe { self.library.launch_kernel_ex(&raw const config, function, each, all) };
        self.library.check("cuLaunchKernelEx", status)
    }
}

/// Compares the recorded parameters with the kernel's. True if they were recorded as one buffer. A kernel is
/// never launched with fewer bytes than it takes.
fn check_parameters(recorded: &[Vec<u8>], sizes: &[(usize, usize)]) -> Result<bool, String> {
    if recorded.iter().map(Vec::len).eq(sizes.iter().map(|(_, size)| *size)) {
        return Ok(false);
    }
    let end = sizes.iter().map(|(offset, size)| offset + size).max().unwrap_or(0);
    if let [whole] = recorded
        && sizes.len() != 1
        && whole.len() >= end
    {
        return Ok(true);
    }
    let list = |sizes: Vec<usize>| match &sizes[..] {
        [] => "no parameters".to_owned(),
        sizes => {
            let texts: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            format!("parameters of {} bytes", texts.join(", "))
        }
    };
    let takes = list(sizes.iter().map(|(_, size)| *size).collect());
    let were = list(recorded.iter().map(Vec::len).collect());
    Err(format!("the kernel takes {takes}, but {were} were recorded"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_parameters_one_by_one_or_as_one_buffer() {
        let recorded = |sizes: &[usize]| sizes.iter().map(|&size| vec![0; size]).collect::<Vec<_>>();
        let takes = [(0, 8), (8, 4), (16, 8)];
        assert_eq!(check_parameters(&recorded(&[8, 4, 8]), &takes), Ok(false));
        assert_eq!(check_parameters(&recorded(&[24]), &takes), Ok(true));
        assert_eq!(check_parameters(&[], &[]), Ok(false));
        for wrong in [&[8, 8, 8][..], &[8, 4], &[23], &[8, 4, 8, 1], &[]] {
            let why = check_parameters(&recorded(wrong), &takes).unwrap_err();
            assert!(why.contains("takes parameters of 8, 4, 8 bytes"), "{why}");
        }
    }
}
