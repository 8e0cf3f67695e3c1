use std::path::Path;
use std::sync::Arc;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tensortap::abi::MAX_SCHEDULERS;
use tensortap::scene::Registry;
use tensortap::{BuildMode, DEFAULT_PLATFORM, DEFAULT_RING_SLOTS, MAX_RING_SLOTS, RunConfig};

use super::dump_args::DumpArgs;
use crate::device_args::{DEVICE, DeviceArgs, FailingArgs};
use crate::dump_arg::quoted;
use crate::error::UsageError;
use crate::output;
use crate::parse::{at_most, pair, whole};
use crate::size;
use crate::verbs::{any_of, platform_names, runtime_names};

const GRAPH: &str = "Building the graph";

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

    #[command(flatten)]
    pub device: DeviceArgs,

    /// Scheduler threads
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = whole(1..=at_most(MAX_SCHEDULERS)),
        help_heading = DEVICE
    )]
    pub schedulers: u32,

    /// When tasks of aicpu_build_graph run: once the graph is built, or while it is [default: concurrent]
    #[arg(
        long,
        value_name = "MODE",
        value_parser = PossibleValuesParser::new([BuildMode::Sequential.name(), BuildMode::Concurrent.name()])
            .try_map(|word| BuildMode::parse(&word).ok_or("no such mode")),
        help_heading = GRAPH
    )]
    pub build: Option<BuildMode>,

    #[arg(
        long,
        value_name = "N",
        value_parser = whole(1..=MAX_RING_SLOTS),
        help = ring_slots_help(),
        help_heading = GRAPH
    )]
    pub ring_slots: Option<u32>,

    /// Memory of each heap ring of tensormap_and_ringbuffer, such as 64MiB [default: what fits the device]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = GRAPH)]
    pub ring_heap: Option<u64>,

    #[command(flatten)]
    pub failing: FailingArgs,

    /// Fill outputs and new memory with this byte first
    #[arg(long, value_name = "BYTE", value_parser = parse_byte, hide = true)]
    pub poison: Option<u8>,

    #[command(flatten)]
    pub dump: DumpArgs,
}

impl RunArgs {
    /// The command that runs the same and records all of it.
    pub fn again_with_dump(&self) -> String {
        let mut words = vec![format!("tensortap run {}", word(&self.scene))];
        words.extend(self.params.iter().map(|(key, value)| format!("--param {key}={}", word(value))));
        if self.platform != DEFAULT_PLATFORM {
            words.push(format!("--platform {}", self.platform));
        }
        words.extend(self.runtime.iter().map(|runtime| format!("--runtime {runtime}")));
        let fault = self.failing.inject_fault.iter();
        words.extend(fault.map(|(kernel, kind)| format!("--inject-fault {kernel}={}", kind.name())));
        words.push("--dump-tensor".into());
        words.join(" ")
    }

    /// The same for the library.
    pub fn config(&self, registry: &Registry) -> Result<RunConfig, UsageError> {
        let mut config = RunConfig::new(&self.scene);
        config.registry = registry.clone();
        config.params.clone_from(&self.params);
        config.platform.clone_from(&self.platform);
        config.runtime.clone_from(&self.runtime);
        config.blocks = self.device.blocks;
        config.schedulers = self.schedulers;
        config.device_mode = self.device.device_mode;
        config.device_memory = self.device.device_memory;
        config.build = self.build.unwrap_or_default();
        config.ring_slots = self.ring_slots.unwrap_or(DEFAULT_RING_SLOTS);
        config.ring_heap = self.ring_heap;
        config.stall_timeout = self.failing.stall_timeout.0;
        config.inject_fault.clone_from(&self.failing.inject_fault);
        config.poison = self.poison;
        config.dump = self.dump.config()?;
        config.out = self.dump.out();
        config.warn = Some(Arc::new(output::warning));
        Ok(config)
    }
}

/// As a shell takes it for one word.
fn word(text: &str) -> String {
    quoted(Path::new(text))
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

fn parse_param(text: &str) -> Result<(String, String), &'static str> {
    pair(text).ok_or("a parameter is given as KEY=VALUE")
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
    fn bytes_are_read_in_both_bases() {
        assert_eq!((parse_byte("0xa5"), parse_byte("165")), (Ok(0xa5), Ok(0xa5)));
        assert!(parse_byte("256").is_err() && parse_byte("0x1a5").is_err());
    }
}
