//! Kernels from libraries that the user names: the same options in `replay`, `extract` and `blame --rerun`.

use std::path::Path;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tensortap::KernelCode;
use tensortap::abi::KernelAbi;

use crate::parse::{pair, whole};

/// Of help.
const KERNELS: &str = "Kernels from libraries";

/// The libraries.
#[derive(Args)]
pub struct KernelArgs {
    /// Take a kernel from a shared library [symbol: kernel_entry]; `replay` runs its tasks, unless others are named. Of a dump of
    /// `simpler`, NAME is a kernel's name or func_id, or a task where the dump knows no kernels; may be given several times
    #[arg(long, value_name = "NAME=LIB[:SYMBOL]", value_parser = parse_kernel, help_heading = KERNELS)]
    pub kernel: Vec<KernelCode>,

    /// How the kernels of --kernel take their arguments; raw: tensor slots hold data addresses [default: tensortap, or what a
    /// case says]
    #[arg(
        long,
        value_name = "ABI",
        value_parser = PossibleValuesParser::new(KernelAbi::ALL.map(KernelAbi::name))
            .try_map(|word| KernelAbi::from_name(&word).ok_or("no such ABI")),
        requires = "kernel",
        help_heading = KERNELS
    )]
    abi: Option<KernelAbi>,

    /// Blocks of every task, for a dump of `simpler` that does not say it
    #[arg(long, value_name = "N", value_parser = whole(1..=1_048_576_u32), requires = "kernel", help_heading = KERNELS)]
    pub block_num: Option<u32>,
}

impl KernelArgs {
    /// The same for the library.
    pub fn code(&self) -> Vec<KernelCode> {
        self.kernel.iter().map(|code| KernelCode { abi: self.abi, ..code.clone() }).collect()
    }

    /// The same as options of another call.
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

/// The entry of a library that holds one kernel.
const KERNEL_ENTRY: &str = "kernel_entry";

fn parse_kernel(text: &str) -> Result<KernelCode, &'static str> {
    const ACCEPTED: &str = "a kernel is given as NAME=LIB or NAME=LIB:SYMBOL";
    let (name, library) = pair(text).ok_or(ACCEPTED)?;
    let is_symbol = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_');
    let (path, symbol) = match library.rsplit_once(':') {
        // A file may have such a name.
        Some((path, symbol)) if is_symbol(symbol) && !Path::new(&library).exists() => (path, symbol),
        _ => (library.as_str(), KERNEL_ENTRY),
    };
    if path.is_empty() {
        return Err(ACCEPTED);
    }
    Ok(KernelCode { name, path: path.into(), symbol: symbol.into(), abi: None, of_case: None })
}
