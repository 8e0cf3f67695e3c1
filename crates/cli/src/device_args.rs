//! The device that tasks run on, and what is to go wrong there: the same options in `run` and `replay`.

use std::collections::BTreeSet;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tensortap::abi::MAX_BLOCKS;
use tensortap::folders::{Sanitize, find_sanitizer};
use tensortap::scene::FaultKind;
use tensortap::{DeviceMode, Sanitizer, Unknown};

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

    #[arg(long, value_name = "LIST", value_parser = parse_sanitize, help = sanitize_help(), help_heading = MEMORY)]
    pub sanitize: Option<Sanitizers>,
}

/// What sanitizers are to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sanitizers(BTreeSet<Sanitize>);

impl MemoryArgs {
    /// The sanitizers of the compiler, where some are asked for.
    pub fn sanitizer(&self) -> Result<Option<Sanitizer>, tensortap::Error> {
        let found = self.sanitize.as_ref().map(|Sanitizers(kinds)| find_sanitizer(kinds));
        Ok(found.transpose()?)
    }
}

fn sanitize_help() -> String {
    format!(
        "Compile the kernels of a scene folder with sanitizers, which end a run with a report: {}",
        Sanitize::ALL.map(Sanitize::name).join(",")
    )
}

fn parse_sanitize(text: &str) -> Result<Sanitizers, String> {
    let kind = |word: &str| {
        let unknown = || Unknown::new("sanitizer", word, Sanitize::ALL.map(Sanitize::name)).to_string();
        Sanitize::parse(word).ok_or_else(unknown)
    };
    text.split(',').map(|word| kind(word.trim())).collect::<Result<_, _>>().map(Sanitizers)
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

    #[test]
    fn sanitizers_are_a_list_and_others_are_answered_with_those_there_are() {
        let both = Sanitizers(BTreeSet::from(Sanitize::ALL));
        assert_eq!(parse_sanitize("undefined,address"), Ok(both));
        for wrong in ["thread", "", "address,", "address,memory"] {
            let refusal = parse_sanitize(wrong).unwrap_err();
            assert!(refusal.contains("address") && refusal.contains("undefined"), "{wrong}: {refusal}");
        }
    }
}
