//! Kernels from shared libraries: the options that `replay`, `extract` and `blame --rerun` share.

use std::path::Path;

use clap::Args;
use tensortap::KernelCode;
use tensortap::abi::KernelAbi;

use crate::parse::{choice, pair, whole};

/// Help heading of these options.
const KERNELS: &str = "Kernels from libraries";

/// Options about kernels from libraries.
#[derive(Args)]
pub struct KernelArgs {
    /// Take this kernel from a shared library [default symbol: kernel_entry]; repeatable. `replay` runs the tasks of
    /// this kernel, unless you select tasks. For dumps of `simpler`, NAME is a kernel or func_id, or a task if the dump
    /// names no kernels
    #[arg(long, value_name = "NAME=LIB[:SYMBOL]", value_parser = parse_kernel, help_heading = KERNELS)]
    pub kernel: Vec<KernelCode>,

    /// How the kernels of --kernel take arguments; raw: tensor slots contain data addresses [default: tensortap, or the
    /// one of a case]
    #[arg(
        long,
        value_name = "ABI",
        value_parser = choice(KernelAbi::ALL.map(|abi| (abi.name(), abi))),
        requires = "kernel",
        help_heading = KERNELS
    )]
    abi: Option<KernelAbi>,

    /// Blocks of every task, for a dump of `simpler` that does not record them
    #[arg(long, value_name = "N", value_parser = whole(1..=1_048_576_u32), requires = "kernel", help_heading = KERNELS)]
    pub block_num: Option<u32>,
}

impl KernelArgs {
    /// The kernels with their ABI.
    pub fn code(&self) -> Vec<KernelCode> {
        self.kernel.iter().map(|code| KernelCode { abi: self.abi, ..code.clone() }).collect()
    }

    /// The options, for the command line of another call.
    pub fn options(&self) -> Vec<(&'static str, String)> {
        let kernel = |code: &KernelCode| {
            let KernelCode { name, path, symbol, .. } = code;
            ("kernel", format!("{name}={}:{symbol}", path.display()))
        };
        let mut options: Vec<_> = self.kernel.iter().map(kernel).collect();
        options.extend(self.abi.map(|abi| ("abi", abi.name().into())));
        options.extend(self.block_num.map(|blocks| ("block-num", blocks.to_string())));
        options
    }
}

/// The default symbol.
const KERNEL_ENTRY: &str = "kernel_entry";

fn parse_kernel(text: &str) -> Result<KernelCode, &'static str> {
    const ACCEPTED: &str = "a kernel has the form NAME=LIB or NAME=LIB:SYMBOL";
    let (name, library) = pair(text).ok_or(ACCEPTED)?;
    let is_symbol = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_');
    let (path, symbol) = match library.rsplit_once(':') {
        // A colon may also be part of the file name.
        Some((path, symbol)) if is_symbol(symbol) && !Path::new(&library).exists() => (path, symbol),
        _ => (library.as_str(), KERNEL_ENTRY),
    };
    if path.is_empty() {
        return Err(ACCEPTED);
    }
    Ok(KernelCode { name, path: path.into(), symbol: symbol.into(), abi: None, of_case: None })
}
