//! Devices, images of code and launches, without a pointer.
#![expect(unsafe_code, reason = "calls of a C library; handles stay inside")]

use std::ffi::{CStr, CString, c_void};
use std::ptr;

use tensortap_launch_host::Failure;

use crate::library::{Handle, LaunchAttribute, LaunchConfig, Library};
use crate::memory::{Memories, copy_to_device, copy_to_host};
use crate::{DeviceName, Launch};

const COMPUTE_MAJOR: i32 = 75;
const COMPUTE_MINOR: i32 = 76;
const VIRTUAL_MEMORY: i32 = 102;
const MOST_SHARED_BYTES: i32 = 8;
const ANY_CLUSTER_SIZE: i32 = 13;
const COOPERATIVE: u32 = 2;
const CLUSTER: u32 = 4;
/// What every group may have without being asked for.
const USUAL_SHARED_BYTES: u32 = 48 << 10;
/// Groups that a cluster has on every device.
const USUAL_CLUSTER: u32 = 8;
const NO_BINARY_FOR_GPU: i32 = 209;
/// More parameters than any kernel has.
const MOST_PARAMETERS: usize = 8192;
/// Words by which `cuLaunchKernelEx` finds all parameters as one.
const PARAMETER_BUFFER: usize = 1;
const PARAMETER_BUFFER_BYTES: usize = 2;

/// All devices of this machine.
#[derive(Debug)]
pub(crate) struct Host {
    library: Library,
    devices: Vec<(i32, DeviceName)>,
    /// The device whose context is current.
    current: Option<usize>,
}

/// Code that was loaded. It is unloaded when this is dropped: what its variables hold never comes from another launch.
pub(crate) struct Module<'h> {
    library: &'h Library,
    handle: Handle,
    device: i32,
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        // SAFETY: loaded by whoever made this. What a dead context refuses goes with its process.
        unsafe { (self.library.unload_module)(self.handle) };
    }
}

impl Host {
    /// Finds all devices. None is an error in words, as is a library that cannot be loaded.
    pub fn open() -> Result<Host, String> {
        let library = Library::load()?;
        // SAFETY: the first call of all.
        library.good("cuInit", unsafe { (library.init)(0) })?;
        let mut count = 0;
        // SAFETY: a place of this call's.
        library.good("cuDeviceGetCount", unsafe { (library.device_count)(&raw mut count) })?;
        let devices = (0..count).map(|at| named(&library, at)).collect::<Result<Vec<_>, _>>()?;
        if devices.is_empty() {
            return Err("the CUDA driver knows no device here".into());
        }
        Ok(Host { library, devices, current: None })
    }

    pub fn names(&self) -> Vec<DeviceName> {
        self.devices.iter().map(|(_, name)| name.clone()).collect()
    }

    /// Loads the code of a launch.
    pub fn load(&mut self, launch: &Launch, mut image: Vec<u8>) -> Result<Module<'_>, String> {
        let (device, name) = self.devices.get(launch.device).cloned().ok_or("there is no such device")?;
        self.make_current(launch.device, device)?;
        let library = &self.library;
        let mut can = 0;
        // SAFETY: a place of this call's.
        let asked = unsafe { (library.device_attribute)(&raw mut can, VIRTUAL_MEMORY, device) };
        if asked != 0 || can == 0 {
            return Err(format!("{} has no virtual memory, which launches are put back with", name.name));
        }
        // Where it is text, it ends with a zero.
        let is_for = architecture(&image);
        image.push(0);
        let mut handle = ptr::null_mut();
        // SAFETY: the driver reads as much as the image says of itself. What it says was proven by its hash against what the recorded driver handed over; a
        // damaged one ends this process at worst.
        let status = unsafe { (library.load_module)(&raw mut handle, image.as_ptr()) };
        if status == NO_BINARY_FOR_GPU
            && let Some(is_for) = is_for
        {
            return Err(format!(
                "its code is for sm_{is_for}, and {} is sm_{}: it can be replayed on a device that it is for",
                name.name, name.architecture
            ));
        }
        library.good("cuModuleLoadData, of its image,", status)?;
        Ok(Module { library, handle, device })
    }

    fn make_current(&mut self, place: usize, device: i32) -> Result<(), String> {
        if self.current == Some(place) {
            return Ok(());
        }
        let mut context = ptr::null_mut();
        let library = &self.library;
        // SAFETY: a place of this call's, and a device that the driver gave.
        library.good("cuDevicePrimaryCtxRetain", unsafe {
            (library.retain_context)(&raw mut context, device)
        })?;
        // SAFETY: a context that was retained, and never is released.
        library.good("cuCtxSetCurrent", unsafe { (library.use_context)(context) })?;
        self.current = Some(place);
        Ok(())
    }
}

fn named(library: &Library, at: i32) -> Result<(i32, DeviceName), String> {
    let mut device = 0;
    // SAFETY: a place of this call's.
    library.good("cuDeviceGet", unsafe { (library.device)(&raw mut device, at) })?;
    let mut name = [0_u8; 256];
    // SAFETY: as many bytes as are said, with room for a zero.
    let status = unsafe { (library.device_name)(name.as_mut_ptr().cast(), 255, device) };
    library.good("cuDeviceGetName", status)?;
    let attribute = |which| {
        let mut value = 0;
        // SAFETY: a place of this call's.
        let status = unsafe { (library.device_attribute)(&raw mut value, which, device) };
        library.good("cuDeviceGetAttribute", status).map(|()| u32::try_from(value).unwrap_or(0))
    };
    let architecture = 10 * attribute(COMPUTE_MAJOR)? + attribute(COMPUTE_MINOR)?;
    let name = CStr::from_bytes_until_nul(&name).map_err(|error| error.to_string())?;
    Ok((device, DeviceName { name: name.to_string_lossy().into_owned(), architecture }))
}

/// What an image of one kind of device is for; none of what is no such image.
fn architecture(image: &[u8]) -> Option<u32> {
    let header = image.get(..64).filter(|header| header.starts_with(b"\x7fELF\x02\x01"))?;
    let flags = u32::from_le_bytes(header[48..52].try_into().ok()?);
    // From version 8 of its layout on it stands a byte higher.
    Some(if header[8] >= 8 { flags >> 8 & 0xff } else { flags & 0xff })
}

impl Module<'_> {
    /// Runs a kernel once. What it leaves in each memory and each variable replaces what was there. Whether memory was moved.
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
            let bytes = parameters.get_mut(pointer.parameter).ok_or("there is no such parameter")?;
            let word = pointer.at.checked_add(8).and_then(|end| bytes.get_mut(pointer.at..end));
            word.ok_or("a pointer that leaves its parameter")?.copy_from_slice(&address.to_le_bytes());
        }
        self.prepare(function, launch)?;
        self.launch(function, launch, parameters, is_whole)?;
        // SAFETY: the context is current.
        let status = unsafe { (library.synchronize)() };
        // The driver says no other word: what went wrong with the only launch there is ends its context.
        library.good("cuCtxSynchronize", status).map_err(Failure::Crashed)?;
        memory.read(memories)?;
        for (name, content) in launch.variables.iter().zip(variables) {
            copy_to_host(library, self.variable(name, content.len())?, content)?;
        }
        Ok(memory.is_moved())
    }

    fn function(&self, kernel: &str) -> Result<Handle, String> {
        let name = CString::new(kernel).map_err(|_| "its name holds a zero byte")?;
        let mut function = ptr::null_mut();
        // SAFETY: a module that is loaded, and a name that ends with a zero.
        let status = unsafe { (self.library.function)(&raw mut function, self.handle, name.as_ptr()) };
        self.library.good(&format!("cuModuleGetFunction, of `{kernel}`,"), status)?;
        Ok(function)
    }

    /// Where a variable of so many bytes lies.
    fn variable(&self, name: &str, bytes: usize) -> Result<u64, String> {
        let text = CString::new(name).map_err(|_| "the name of a variable holds a zero byte")?;
        let (mut address, mut size) = (0, 0);
        // SAFETY: a module that is loaded, places of this call's, and a name that ends with a zero.
        let status =
            unsafe { (self.library.variable)(&raw mut address, &raw mut size, self.handle, text.as_ptr()) };
        self.library.good(&format!("cuModuleGetGlobal, of the variable `{name}`,"), status)?;
        match bytes <= size {
            true => Ok(address),
            false => Err(format!("the variable `{name}` has {size} bytes, and {bytes} were recorded")),
        }
    }

    /// Place and size of each parameter.
    fn parameters(&self, function: Handle) -> Vec<(usize, usize)> {
        let one = |at| {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: a function of the module, and places of this call's.
            let status = unsafe { (self.library.parameter)(function, at, &raw mut offset, &raw mut size) };
            (status == 0).then_some((offset, size))
        };
        (0..MOST_PARAMETERS).map_while(one).collect()
    }

    /// Lets the function be launched with more than usual.
    fn prepare(&self, function: Handle, launch: &Launch) -> Result<(), String> {
        let set = |attribute: i32, value: u32| {
            let value = i32::try_from(value).map_err(|error| error.to_string())?;
            // SAFETY: a function of the module.
            let status = unsafe { (self.library.set_function_attribute)(function, attribute, value) };
            self.library.good("cuFuncSetAttribute", status)
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
        let mut attribute = |id, first: &[u32]| {
            let mut value = [0; 16];
            value[..first.len()].copy_from_slice(first);
            attributes.push(LaunchAttribute { id, padding: 0, value });
        };
        if launch.cluster != [0; 3] {
            attribute(CLUSTER, &launch.cluster.map(u32::from));
        }
        if launch.is_cooperative {
            attribute(COOPERATIVE, &[1]);
        }
        let config = LaunchConfig {
            grid: launch.grid,
            group: launch.group,
            shared_bytes: launch.shared_bytes,
            stream: ptr::null_mut(),
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
        // SAFETY: each parameter has as many bytes as the function takes, or all of them do as one, by `check_parameters`; the driver copies them during the call.
        let status = unsafe { (self.library.launch)(&raw const config, function, each, all) };
        self.library.good("cuLaunchKernelEx", status)
    }
}

/// Whether the recorded parameters are all of them as one; a kernel is never launched with fewer bytes than it takes.
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
    Err(format!("the kernel takes {takes}, and {were} were recorded"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_fit_one_by_one_or_all_as_one_or_not() {
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

    #[test]
    fn images_say_what_they_are_for() {
        let image = |version: u8, flags: u32| {
            let mut image = vec![0; 64];
            image[..6].copy_from_slice(b"\x7fELF\x02\x01");
            image[8] = version;
            image[48..52].copy_from_slice(&flags.to_le_bytes());
            image
        };
        assert_eq!(architecture(&image(7, 0x005a_055a)), Some(90));
        assert_eq!(architecture(&image(8, 0x0600_5a04)), Some(90));
        assert_eq!(architecture(b".version 8.0"), None);
    }
}
