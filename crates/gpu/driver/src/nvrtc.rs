//! NVRTC, the compiler library of CUDA C.
#![expect(unsafe_code, reason = "functions of a C library")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::PathBuf;

use tensortap_library::{Library, functions};

functions! {
    /// As `nvrtc.h` declares them.
    struct Functions {
        create = "nvrtcCreateProgram": fn(*mut *mut c_void, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> c_int;
        destroy = "nvrtcDestroyProgram": fn(*mut *mut c_void) -> c_int;
        compile = "nvrtcCompileProgram": fn(*mut c_void, c_int, *const *const c_char) -> c_int;
        log_size = "nvrtcGetProgramLogSize": fn(*mut c_void, *mut usize) -> c_int;
        log = "nvrtcGetProgramLog": fn(*mut c_void, *mut u8) -> c_int;
        cubin_size = "nvrtcGetCUBINSize": fn(*mut c_void, *mut usize) -> c_int;
        cubin = "nvrtcGetCUBIN": fn(*mut c_void, *mut u8) -> c_int;
        ptx_size = "nvrtcGetPTXSize": fn(*mut c_void, *mut usize) -> c_int;
        ptx = "nvrtcGetPTX": fn(*mut c_void, *mut u8) -> c_int;
    }
}

/// An NVRTC library.
#[derive(Debug)]
pub struct Compiler {
    functions: Functions,
}

impl Compiler {
    /// Opens the library in `TENSORTAP_NVRTC`, or else that of a Python package, or else that of the system.
    ///
    /// # Errors
    /// Why each candidate cannot be used.
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
            let library = Library::open(name).map_err(|error| error.to_string());
            let lacks = |symbol| format!("{name} has no function `{symbol}`");
            match library.and_then(|library| Functions::find(library).map_err(lacks)) {
                Ok(functions) => return Ok(Compiler { functions }),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(format!("no NVRTC library found: {}", reasons.join("; ")))
    }

    /// Compiles a source: to machine code for an architecture such as `sm_90`, or to PTX for `compute_75`.
    ///
    /// # Errors
    /// The log of the compiler.
    pub fn compile(&self, source: &str, option_texts: &[String]) -> Result<Vec<u8>, String> {
        let source = CString::new(source).map_err(|error| error.to_string())?;
        let options: Vec<CString> =
            option_texts.iter().map(|option| CString::new(option.as_str()).unwrap_or_default()).collect();
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = std::ptr::null_mut();
        let no_headers = std::ptr::null();
        // SAFETY: the texts end with a zero and outlive the calls; the program is destroyed once, below.
        unsafe {
            let name = c"tensortap_kernels.cu".as_ptr();
            let status =
                (self.functions.create)(&raw mut program, source.as_ptr(), name, 0, no_headers, no_headers);
            if status != 0 {
                return Err(format!("nvrtcCreateProgram failed with status {status}"));
            }
            let count = c_int::try_from(options.len()).unwrap_or(0);
            let status = (self.functions.compile)(program, count, options.as_ptr());
            let is_text = option_texts.iter().any(|option| option.contains("=compute_"));
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

/// Reads a result of a compiled program: first its size, then its content.
///
/// # Safety
/// Both functions belong to the library of the program and concern the same result.
unsafe fn read(program: *mut c_void, size: Size, content: Content) -> Result<Vec<u8>, String> {
    let mut bytes = 0;
    // SAFETY: writes the size to a local variable.
    let status = unsafe { size(program, &raw mut bytes) };
    let mut buffer = vec![0; bytes];
    // SAFETY: the buffer has the reported size.
    let status = if status == 0 { unsafe { content(program, buffer.as_mut_ptr()) } } else { status };
    if status == 0 { Ok(buffer) } else { Err(format!("reading the result failed with status {status}")) }
}

/// Libraries installed by `pip install nvidia-cuda-nvrtc`.
fn packaged() -> Vec<String> {
    let python = std::env::var_os("TENSORTAP_PYTHON").unwrap_or_else(|| "python3".into());
    let script = "import nvidia; print(*nvidia.__path__, sep='\\n')";
    let Ok(output) = std::process::Command::new(python).args(["-c", script]).output() else {
        return Vec::new();
    };
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let roots = output.lines().map(PathBuf::from);
    roots
        .flat_map(|root| ["cu13/lib", "cuda_nvrtc/lib"].map(|lib| root.join(lib)))
        .flat_map(|folder| libraries_in(&folder))
        .collect()
}

fn libraries_in(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path().to_string_lossy().into_owned());
    paths.filter(|path| path.contains("/libnvrtc.so")).collect()
}
