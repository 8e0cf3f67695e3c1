//! Options about the simulated device, faults and memory checks, which `run`, `replay` and `test` share.

use std::collections::BTreeSet;

use clap::Args;
use tensortap::abi::MAX_BLOCKS;
use tensortap::folders::{SanitizerKind, find_sanitizer};
use tensortap::scene::FaultKind;
use tensortap::{DeviceMode, Sanitizer, UnknownName};

use crate::parse::{Limit, at_most, choice, pair, parse_limit, parse_size, whole};

/// Help heading of options about the device.
pub const DEVICE: &str = "Device";
/// Help heading of options about failures.
pub const FAILING: &str = "Failures";

/// Options about the device.
#[derive(Args)]
pub struct DeviceArgs {
    /// Number of blocks, each with one AIC and two AIV cores [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = whole(1..=at_most(MAX_BLOCKS)), help_heading = DEVICE)]
    pub blocks: Option<u32>,

    /// Run the device as a separate process or as a thread; a thread does not survive a crash or a hang
    #[arg(
        long,
        value_name = "MODE",
        default_value = DeviceMode::Process.name(),
        value_parser = choice([DeviceMode::Process, DeviceMode::Thread].map(|mode| (mode.name(), mode))),
        help_heading = DEVICE
    )]
    pub device_mode: DeviceMode,

    /// Device memory, such as 512MiB or 2GiB [default: half of the available memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = DEVICE)]
    pub device_memory: Option<u64>,
}

/// Options about failures and injected faults.
#[derive(Args)]
pub struct FailingArgs {
    /// Abort a run after this time without progress: 10, 500ms, 2min; 0 means never
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_limit, help_heading = FAILING)]
    pub stall_timeout: Limit,

    #[arg(long, value_name = "KERNEL=KIND", value_parser = parse_fault, help = fault_help(), help_heading = FAILING)]
    pub inject_fault: Option<(String, FaultKind)>,
}

/// Help heading of options about memory checks.
pub const MEMORY: &str = "Memory checks";

/// Options that check the memory accesses of kernels.
#[derive(Args)]
pub struct MemoryArgs {
    /// Put a guard page after every tensor and canaries around it; a kernel that accesses memory outside its
    /// tensors is reported with task, argument and distance
    #[arg(long, help_heading = MEMORY)]
    pub guard: bool,

    #[arg(long, value_name = "LIST", value_parser = parse_sanitize, help = sanitize_help(), help_heading = MEMORY)]
    pub sanitize: Option<Sanitizers>,
}

/// The sanitizers of `--sanitize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sanitizers(BTreeSet<SanitizerKind>);

impl MemoryArgs {
    /// The compiler's sanitizers that `--sanitize` chooses.
    pub fn sanitizer(&self) -> Result<Option<Sanitizer>, tensortap::Error> {
        let found = self.sanitize.as_ref().map(|Sanitizers(kinds)| find_sanitizer(kinds));
        Ok(found.transpose()?)
    }
}

fn sanitize_help() -> String {
    format!(
        "Compile the kernels of a scene folder with these sanitizers; a finding ends the run with a report: {}",
        SanitizerKind::ALL.map(SanitizerKind::name).join(",")
    )
}

fn parse_sanitize(text: &str) -> Result<Sanitizers, String> {
    let kind = |word: &str| {
        let unknown =
            || UnknownName::new("sanitizer", word, SanitizerKind::ALL.map(SanitizerKind::name)).to_string();
        SanitizerKind::parse(word).ok_or_else(unknown)
    };
    text.split(',').map(|word| kind(word.trim())).collect::<Result<_, _>>().map(Sanitizers)
}

fn fault_names() -> [&'static str; FaultKind::ALL.len()] {
    FaultKind::ALL.map(FaultKind::name)
}

fn fault_help() -> String {
    format!("Damage a kernel on purpose; kinds, which `help faults` explains: {}", fault_names().join(", "))
}

fn parse_fault(text: &str) -> Result<(String, FaultKind), String> {
    let (kernel, kind) = pair(text).ok_or("a fault has the form KERNEL=KIND")?;
    let kind = kind.parse().map_err(|_| UnknownName::new("fault kind", &kind, fault_names()).to_string())?;
    Ok((kernel, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_an_unknown_fault_and_lists_the_valid_ones() {
        assert_eq!(parse_fault("add=sign"), Ok(("add".into(), FaultKind::Sign)));
        let refusal = parse_fault("add=sing").unwrap_err();
        assert!(refusal.contains("did you mean `sign`?") && refusal.contains("race"), "{refusal}");
    }

    #[test]
    fn parses_a_list_of_sanitizers_and_names_the_valid_ones() {
        let both = Sanitizers(BTreeSet::from(SanitizerKind::ALL));
        assert_eq!(parse_sanitize("undefined,address"), Ok(both));
        for wrong in ["thread", "", "address,", "address,memory"] {
            let refusal = parse_sanitize(wrong).unwrap_err();
            assert!(refusal.contains("address") && refusal.contains("undefined"), "{wrong}: {refusal}");
        }
    }
}
