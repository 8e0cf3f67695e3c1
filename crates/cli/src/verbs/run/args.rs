use std::sync::Arc;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tensortap::scene::FaultKind;
use tensortap::{BuildMode, DEFAULT_PLATFORM, DEFAULT_RING_SLOTS, DeviceMode, RunConfig, Unknown};

use super::dump_args::DumpArgs;
use crate::duration::{Limit, parse_limit};
use crate::error::UsageError;
use crate::output;
use crate::size;
use crate::verbs::{any_of, platform_names, runtime_names};

const DEVICE: &str = "Device";
const GRAPH: &str = "Building the graph";
const FAILING: &str = "Failing";

/// What `tensortap run` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap run paged_attention\n  \
    tensortap run bgemm --param batch=8 --param dtype=f16 --platform a5sim\n  \
    tensortap run vector_example --inject-fault add=sign\n  \
    tensortap run paged_attention --dump-tensor\n  \
    tensortap run tiny_llm --dump-tensor=hash --dump-func softmax --dump-stage after\n  \
    tensortap run mixed_example --dump-args\n\n\
    Exit status: 0 good, 1 the golden found a difference, 2 bad usage, 3 the run or its dump failed, 130 interrupted")]
pub struct RunArgs {
    /// Scene to run; `tensortap scenes` lists them
    #[arg(value_name = "SCENE")]
    pub scene: String,

    /// Parameter of the scene; may be given several times
    #[arg(long = "param", short, value_name = "KEY=VALUE", value_parser = parse_param)]
    pub params: Vec<(String, String)>,

    #[arg(long, value_name = "NAME", default_value = DEFAULT_PLATFORM, help = platform_help())]
    pub platform: String,

    #[arg(long, value_name = "NAME", help = runtime_help())]
    pub runtime: Option<String>,

    /// Blocks, each with one AIC and two AIV cores [default: one per CPU]
    #[arg(long, value_name = "N", help_heading = DEVICE)]
    pub blocks: Option<u32>,

    /// Scheduler threads
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = DEVICE)]
    pub schedulers: u32,

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
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = DEVICE)]
    pub device_memory: Option<u64>,

    /// When tasks of aicpu_build_graph run: once the graph is built, or while it is [default: concurrent]
    #[arg(
        long,
        value_name = "MODE",
        value_parser = PossibleValuesParser::new([BuildMode::Sequential.name(), BuildMode::Concurrent.name()])
            .try_map(|word| BuildMode::parse(&word).ok_or("no such mode")),
        help_heading = GRAPH
    )]
    pub build: Option<BuildMode>,

    #[arg(long, value_name = "N", help = ring_slots_help(), help_heading = GRAPH)]
    pub ring_slots: Option<u32>,

    /// Memory of each heap ring of tensormap_and_ringbuffer, such as 64MiB [default: what fits the device]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = GRAPH)]
    pub ring_heap: Option<u64>,

    /// Time without progress after which the run is given up: 10, 500ms, 2min; 0 is never
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10s",
        value_parser = parse_limit,
        help_heading = FAILING
    )]
    pub stall_timeout: Limit,

    #[arg(
        long,
        value_name = "KERNEL=KIND",
        value_parser = parse_fault,
        help = fault_help(),
        help_heading = FAILING
    )]
    pub inject_fault: Option<(String, FaultKind)>,

    /// Fill outputs and new memory with this byte first
    #[arg(long, value_name = "BYTE", value_parser = parse_byte, hide = true)]
    pub poison: Option<u8>,

    #[command(flatten)]
    pub dump: DumpArgs,
}

impl RunArgs {
    /// The same for the library.
    pub fn config(&self) -> Result<RunConfig, UsageError> {
        let mut config = RunConfig::new(&self.scene);
        config.params.clone_from(&self.params);
        config.platform.clone_from(&self.platform);
        config.runtime.clone_from(&self.runtime);
        config.blocks = self.blocks;
        config.schedulers = self.schedulers;
        config.device_mode = self.device_mode;
        config.device_memory = self.device_memory;
        config.build = self.build.unwrap_or_default();
        config.ring_slots = self.ring_slots.unwrap_or(DEFAULT_RING_SLOTS);
        config.ring_heap = self.ring_heap;
        config.stall_timeout = self.stall_timeout.0;
        config.inject_fault.clone_from(&self.inject_fault);
        config.poison = self.poison;
        config.dump = self.dump.config()?;
        config.out = self.dump.out();
        config.warn = Some(Arc::new(output::warning));
        Ok(config)
    }
}

fn platform_help() -> String {
    format!("Platform to run on: {}", any_of(&platform_names()))
}

fn runtime_help() -> String {
    format!("Runtime: {} [default: the scene's first]", any_of(&runtime_names()))
}

fn ring_slots_help() -> String {
    format!("Slots of each task ring of tensormap_and_ringbuffer [default: {DEFAULT_RING_SLOTS}]")
}

fn fault_names() -> [&'static str; FaultKind::ALL.len()] {
    FaultKind::ALL.map(FaultKind::name)
}

/// What can be said about faults in a line.
pub fn fault_help() -> String {
    format!("Damage a kernel on purpose; kinds: {}", fault_names().join(", "))
}

fn parse_param(text: &str) -> Result<(String, String), &'static str> {
    pair(text).ok_or("a parameter is given as KEY=VALUE")
}

/// What is left and right of the first `=`.
pub fn pair(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once('=')?;
    (!key.is_empty()).then(|| (key.into(), value.into()))
}

/// Reads `KERNEL=KIND`.
pub fn parse_fault(text: &str) -> Result<(String, FaultKind), String> {
    let (kernel, kind) = pair(text).ok_or("a fault is given as KERNEL=KIND")?;
    let kind = kind.parse().map_err(|_| Unknown::new("fault kind", &kind, fault_names()).to_string())?;
    Ok((kernel, kind))
}

fn parse_byte(text: &str) -> Result<u8, &'static str> {
    let byte = match text.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16),
        None => text.parse(),
    };
    byte.map_err(|_| "a byte is 0 to 255 or 0x00 to 0xff")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_hold_an_equals_sign_and_a_key_may_not_be_missing() {
        assert_eq!(parse_param("a=b=c"), Ok(("a".into(), "b=c".into())));
        for bad in ["a", "", "=b"] {
            assert!(parse_param(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_fault_nobody_knows_is_answered_with_those_there_are() {
        assert_eq!(parse_fault("add=sign"), Ok(("add".into(), FaultKind::Sign)));
        let refusal = parse_fault("add=sing").unwrap_err();
        assert!(refusal.contains("did you mean `sign`?") && refusal.contains("race"), "{refusal}");
    }

    #[test]
    fn bytes_are_read_in_both_bases() {
        assert_eq!((parse_byte("0xa5"), parse_byte("165")), (Ok(0xa5), Ok(0xa5)));
        assert!(parse_byte("256").is_err() && parse_byte("0x1a5").is_err());
    }
}
