//! Builds the fake CUDA driver of the tests, and the program that performs plans with it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The sources of the fake driver and of an allocator like PyTorch's, which the tests of the CUDA backend share.
const SHARED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../app/cli/tests/cuda");

static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// The folder with the driver, CUPTI, the allocator and the program `cuda`. It is built once, in a folder of this process.
pub fn built(dir: &Path) -> Result<&'static Path, String> {
    let built = BUILT.get_or_init(|| build(&dir.join(format!("cuda-driver-{}", std::process::id()))));
    built.as_ref().map(PathBuf::as_path).map_err(Clone::clone)
}

/// Removes the folder, if it was built.
pub fn remove() {
    if let Some(Ok(dir)) = BUILT.get() {
        let _ = std::fs::remove_dir_all(dir);
    }
}

fn build(dir: &Path) -> Result<PathBuf, String> {
    let dir = std::path::absolute(dir).map_err(|error| error.to_string())?;
    std::fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
    let shared = |name: &str| Path::new(SHARED).join(name);
    let driver = dir.join("libcuda.so.1");
    let rpath = format!("-Wl,-rpath,{}", dir.display());
    compile("CC", &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"], &[&shared("fake.c")], &driver)?;
    // One file with two names is loaded once. CUPTI is part of the fake driver.
    let cupti = dir.join("libcupti.so.13");
    let _ = std::fs::remove_file(&cupti);
    std::os::unix::fs::symlink(&driver, &cupti).map_err(|error| error.to_string())?;
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/cuda.c");
    let include = format!("-I{SHARED}");
    compile("CC", &[&rpath, "-rdynamic", &include], &[&program, &driver], &dir.join("cuda"))?;
    let reports = dir.join("libc10.so");
    compile("CXX", &["-shared", "-fPIC", "-Wl,-soname,libc10.so"], &[&shared("c10.cpp")], &reports)?;
    let options = ["-shared", "-fPIC", "-fvisibility=hidden", &rpath];
    let allocator = dir.join("libc10_cuda.so");
    compile("CXX", &options, &[&shared("c10_cuda.cpp"), &reports, &driver], &allocator)?;
    Ok(dir)
}

/// Compiles C or C++ with the compiler that a variable names.
fn compile(variable: &str, options: &[&str], sources: &[&Path], out: &Path) -> Result<(), String> {
    let (usual, standard) = if variable == "CC" { ("cc", "-std=gnu11") } else { ("c++", "-std=c++17") };
    let compiler = std::env::var_os(variable).unwrap_or_else(|| usual.into());
    let mut command = Command::new(&compiler);
    command.args([standard, "-O1"]).args(options).args(sources).args(["-lpthread", "-ldl", "-o"]).arg(out);
    let output = command.output().map_err(|error| format!("cannot run {}: {error}", compiler.display()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{} fails: {}", compiler.display(), String::from_utf8_lossy(&output.stderr)))
}
