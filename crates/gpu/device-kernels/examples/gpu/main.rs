//! Compiles the kernels for CUDA, and checks and measures them on a machine with a CUDA device. See README.md
//! in this folder.

mod check;
mod driver;
mod launch;
mod speed;

use std::process::ExitCode;

use driver::Device;
use launch::{BUILD, Kernels};
use tensortap_device_kernels::{Code, PTX_ARCHITECTURE, SOURCE, ptx_origin};
use tensortap_driver::nvrtc;

const USAGE: &str = "usage: gpu ptx | gpu compile FILE [ARCHITECTURE] | gpu check [FILE] | gpu speed [FILE]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["ptx"] => make_ptx(),
        ["compile", file] => compile(file, "sm_90"),
        ["compile", file, architecture] => compile(file, architecture),
        ["check"] => with_kernels(None, check::check),
        ["check", file] => with_kernels(Some(file), check::check),
        ["speed"] => with_kernels(None, speed::speed),
        ["speed", file] => with_kernels(Some(file), speed::speed),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn compile(file: &str, architecture: &str) -> Result<(), String> {
    let code = nvrtc::Compiler::find()?.compile(SOURCE, &BUILD.nvrtc_options(architecture))?;
    std::fs::write(file, &code).map_err(|error| format!("{file}: {error}"))?;
    println!("{file}: {} bytes for {architecture}", code.len());
    Ok(())
}

/// Compiles the PTX of the library again.
fn make_ptx() -> Result<(), String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/source/cuda.ptx");
    let code = nvrtc::Compiler::find()?.compile(SOURCE, &BUILD.nvrtc_options(PTX_ARCHITECTURE))?;
    let code = String::from_utf8_lossy(&code);
    // Remove empty lines and comments, which include file names.
    let said = code.lines().filter(|line| !line.is_empty() && !line.starts_with("//"));
    let lines: Vec<&str> = said.map(|line| line.trim_matches('\0')).collect();
    let text = format!("{}\n{}\n", ptx_origin(), lines.join("\n"));
    std::fs::write(file, &text).map_err(|error| format!("{file}: {error}"))?;
    println!("{file}: {} bytes for {PTX_ARCHITECTURE}", text.len());
    Ok(())
}

/// Loads the code of a file, or the library's, and runs `work`.
fn with_kernels(file: Option<&str>, work: fn(&Kernels<'_>) -> Result<(), String>) -> Result<(), String> {
    let read = |file: &str| std::fs::read(file).map_err(|error| format!("{file}: {error}"));
    let device = Device::open()?;
    println!("device: {}", device.name);
    // PTX must end with a zero.
    let mut code = file.map_or_else(|| Ok(Code::for_device(device.major).text.into_bytes()), read)?;
    code.push(0);
    work(&Kernels::load(&device, &code)?)
}
