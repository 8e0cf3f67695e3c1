//! The kernels on a CUDA device: compiled here, checked and timed on a machine that has one. See README.md beside this file.

mod check;
mod driver;
mod launch;
#[path = "../../tests/common/library.rs"]
mod library;
#[path = "../../tests/common/nvrtc.rs"]
mod nvrtc;
mod speed;

use std::process::ExitCode;

use driver::Device;
use launch::{BUILD, Kernels};
use tensortap_device_kernels::{Code, PTX_ARCHITECTURE, SOURCE, ptx_origin};

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

/// Makes the code again that the library has.
fn make_ptx() -> Result<(), String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/source/cuda.ptx");
    let code = nvrtc::Compiler::find()?.compile(SOURCE, &BUILD.nvrtc_options(PTX_ARCHITECTURE))?;
    let code = String::from_utf8_lossy(&code);
    // Comments and empty lines say nothing to drivers, nor do names of files.
    let said = code.lines().filter(|line| !line.is_empty() && !line.starts_with("//"));
    let lines: Vec<&str> = said.map(|line| line.trim_matches('\0')).collect();
    let text = format!("{}\n{}\n", ptx_origin(), lines.join("\n"));
    std::fs::write(file, &text).map_err(|error| format!("{file}: {error}"))?;
    println!("{file}: {} bytes for {PTX_ARCHITECTURE}", text.len());
    Ok(())
}

/// Works with the code of a file, or with what the library has.
fn with_kernels(file: Option<&str>, work: fn(&Kernels<'_>) -> Result<(), String>) -> Result<(), String> {
    let read = |file: &str| std::fs::read(file).map_err(|error| format!("{file}: {error}"));
    let device = Device::open()?;
    println!("device: {}", device.name);
    // Text ends with a zero.
    let mut code = file.map_or_else(|| Ok(Code::for_device(device.major).text.into_bytes()), read)?;
    code.push(0);
    work(&Kernels::load(&device, &code)?)
}
