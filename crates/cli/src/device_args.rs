//! The device that tasks run on, and what is to go wrong there: the same options in `run` and `replay`.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tensortap::abi::MAX_BLOCKS;
use tensortap::scene::FaultKind;
use tensortap::{DeviceMode, Unknown};

use crate::parse::{Limit, at_most, pair, parse_limit, parse_size, whole};

/// Of help.
pub const DEVICE: &str = "Device";
/// Of help.
pub const FAILING: &str = "Failing";

/// The device.
#[derive(Args)]
pub struct DeviceArgs {
    /// Blocks, each with one AIC and two AIV cores [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = whole(1..=at_most(MAX_BLOCKS)), help_heading = DEVICE)]
    pub blocks: Option<u32>,

    /// Whether the device is a process of its own; a thread cannot survive a crash or a hang
    #[arg(
        long,
        value_name = "MODE",
        default_value = DeviceMode::Process.name(),
        value_parser = PossibleValuesParser::new([DeviceMode::Process.name(), DeviceMode::Thread.name()])
            .try_map(|word| DeviceMode::parse(&word).ok_or("no such mode")),
        help_heading = DEVICE
    )]
    pub device_mode: DeviceMode,

    /// Device memory, such as 512MiB or 2GiB [default: half of the memory available]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = DEVICE)]
    pub device_memory: Option<u64>,
}

/// What goes wrong, on purpose or not.
#[derive(Args)]
pub struct FailingArgs {
    /// Time without progress after which a run is given up: 10, 500ms, 2min; 0 is never
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_limit, help_heading = FAILING)]
    pub stall_timeout: Limit,

    #[arg(long, value_name = "KERNEL=KIND", value_parser = parse_fault, help = fault_help(), help_heading = FAILING)]
    pub inject_fault: Option<(String, FaultKind)>,
}

/// Of help.
pub const MEMORY: &str = "Checking memory";

/// Who watches what kernels touch.
#[derive(Args)]
pub struct MemoryArgs {
    /// Let every tensor end at a page that nobody may touch, with a canary around it: a kernel that leaves its tensors is named with
    /// task, argument and distance
    #[arg(long, help_heading = MEMORY)]
    pub guard: bool,
}

fn fault_names() -> [&'static str; FaultKind::ALL.len()] {
    FaultKind::ALL.map(FaultKind::name)
}

fn fault_help() -> String {
    format!("Damage a kernel on purpose; kinds: {}", fault_names().join(", "))
}

fn parse_fault(text: &str) -> Result<(String, FaultKind), String> {
    let (kernel, kind) = pair(text).ok_or("a fault is given as KERNEL=KIND")?;
    let kind = kind.parse().map_err(|_| Unknown::new("fault kind", &kind, fault_names()).to_string())?;
    Ok((kernel, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_nobody_knows_is_answered_with_those_there_are() {
        assert_eq!(parse_fault("add=sign"), Ok(("add".into(), FaultKind::Sign)));
        let refusal = parse_fault("add=sing").unwrap_err();
        assert!(refusal.contains("did you mean `sign`?") && refusal.contains("race"), "{refusal}");
    }
}
