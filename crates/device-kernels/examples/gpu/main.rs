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
use tensortap_device_kernels::SOURCE;

const USAGE: &str = "usage: gpu compile FILE [ARCHITECTURE] | gpu check FILE | gpu speed FILE";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["compile", file] => compile(file, "sm_90"),
        ["compile", file, architecture] => compile(file, architecture),
        ["check", file] => with_kernels(file, check::check),
        ["speed", file] => with_kernels(file, speed::speed),
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

fn with_kernels(file: &str, work: fn(&Kernels<'_>) -> Result<(), String>) -> Result<(), String> {
    let code = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let device = Device::open()?;
    println!("device: {}", device.name);
    work(&Kernels::load(&device, &code)?)
}
