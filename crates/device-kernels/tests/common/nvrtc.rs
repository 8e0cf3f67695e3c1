//! NVIDIA's compiler of CUDA C, as a library.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::PathBuf;

use super::library::{Library, functions};

functions! {
    /// Of `nvrtc.h`.
    Functions {
        create: fn(*mut *mut c_void, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> c_int = "nvrtcCreateProgram",
        destroy: fn(*mut *mut c_void) -> c_int = "nvrtcDestroyProgram",
        compile: fn(*mut c_void, c_int, *const *const c_char) -> c_int = "nvrtcCompileProgram",
        log_size: fn(*mut c_void, *mut usize) -> c_int = "nvrtcGetProgramLogSize",
        log: fn(*mut c_void, *mut u8) -> c_int = "nvrtcGetProgramLog",
        cubin_size: fn(*mut c_void, *mut usize) -> c_int = "nvrtcGetCUBINSize",
        cubin: fn(*mut c_void, *mut u8) -> c_int = "nvrtcGetCUBIN",
        ptx_size: fn(*mut c_void, *mut usize) -> c_int = "nvrtcGetPTXSize",
        ptx: fn(*mut c_void, *mut u8) -> c_int = "nvrtcGetPTX",
    }
}

/// The compiler.
pub struct Compiler {
    functions: Functions,
}

impl Compiler {
    /// The one that `TENSORTAP_NVRTC` names, that of a Python package, or that of the system.
    pub fn find() -> Result<Compiler, String> {
        let named = std::env::var("TENSORTAP_NVRTC").ok().into_iter().collect::<Vec<_>>();
        let names = if named.is_empty() {
            let system = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"].map(String::from);
            packaged().into_iter().chain(system).collect()
        } else {
            named
        };
        let mut reasons = Vec::new();
        for name in &names {
            match Library::open(name).and_then(Functions::find) {
                Ok(functions) => return Ok(Compiler { functions }),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(format!("no compiler library of CUDA: {}", reasons.join("; ")))
    }

    /// Code of a source, for a device (`sm_90`) or for drivers to compile (`compute_75`); or what the compiler says against it.
    pub fn compile(&self, source: &str, options_said: &[String]) -> Result<Vec<u8>, String> {
        let source = CString::new(source).map_err(|error| error.to_string())?;
        let options: Vec<CString> =
            options_said.iter().map(|option| CString::new(option.as_str()).unwrap()).collect();
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = std::ptr::null_mut();
        let no_headers = std::ptr::null();
        // SAFETY: texts end with zeros and outlive the calls; there are no headers; the program is destroyed once, below.
        unsafe {
            let name = c"tensortap_kernels.cu".as_ptr();
            let status =
                (self.functions.create)(&raw mut program, source.as_ptr(), name, 0, no_headers, no_headers);
            if status != 0 {
                return Err(format!("the compiler took no program: status {status}"));
            }
            let count = c_int::try_from(options.len()).expect("a few options");
            let status = (self.functions.compile)(program, count, options.as_ptr());
            let is_text = options_said.iter().any(|option| option.contains("=compute_"));
            let compiled = if status == 0 && is_text {
                read(program, self.functions.ptx_size, self.functions.ptx)
            } else if status == 0 {
                read(program, self.functions.cubin_size, self.functions.cubin)
            } else {
                let log = read(program, self.functions.log_size, self.functions.log)?;
                Err(String::from_utf8_lossy(&log).into_owned())
            };
            (self.functions.destroy)(&raw mut program);
            compiled
        }
    }
}

type Size = unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int;
type Content = unsafe extern "C" fn(*mut c_void, *mut u8) -> c_int;

/// What a compiled program has, whose size is asked first.
///
/// # Safety
/// The program is one of the compiler that both functions belong to, and both speak of the same thing.
unsafe fn read(program: *mut c_void, size: Size, content: Content) -> Result<Vec<u8>, String> {
    let mut bytes = 0;
    // SAFETY: the size is stored in the place that is given.
    let status = unsafe { size(program, &raw mut bytes) };
    let mut buffer = vec![0; bytes];
    // SAFETY: the buffer has as many bytes as were asked for.
    let status = if status == 0 { unsafe { content(program, buffer.as_mut_ptr()) } } else { status };
    if status == 0 { Ok(buffer) } else { Err(format!("the compiler gave nothing: status {status}")) }
}

/// Where `pip install nvidia-cuda-nvrtc` puts it.
fn packaged() -> Vec<String> {
    let python = std::env::var_os("TENSORTAP_PYTHON").unwrap_or_else(|| "python3".into());
    let script = "import nvidia; print(*nvidia.__path__, sep='\\n')";
    let Ok(said) = std::process::Command::new(python).args(["-c", script]).output() else {
        return Vec::new();
    };
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let roots = said.lines().map(PathBuf::from);
    roots
        .flat_map(|root| ["cu13/lib", "cuda_nvrtc/lib"].map(|lib| root.join(lib)))
        .flat_map(libraries_in)
        .collect()
}

fn libraries_in(folder: PathBuf) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path().to_string_lossy().into_owned());
    paths.filter(|path| path.contains("/libnvrtc.so")).collect()
}
