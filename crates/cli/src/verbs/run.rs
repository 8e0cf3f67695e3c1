//! `tensortap run`: one scene, from launch to verdict.

mod text;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tensortap::abi::MAX_SCHEDULERS;
use tensortap::scene::{Registry, Scene};
use tensortap::{
    BuildMode, DEFAULT_PLATFORM, DEFAULT_RING_SLOTS, DeviceMode, DumpReport, FolderOptions, GoldenVerdict,
    MAX_RING_SLOTS, Request, RunConfig, RunReport,
};
use tensortap_query::document::RunDocument;
use tensortap_query::number::counted;

use crate::device_args::{DEVICE, DeviceArgs, FailingArgs, MemoryArgs};
use crate::dump_arg::quoted;
use crate::dump_args::DumpArgs;
use crate::error::{Exit, UsageError};
use crate::interrupt::{CLOSING_GRACE, GRACE, Interrupt};
use crate::output::{self, Output};
use crate::parse::{at_most, pair, parse_size, whole};
use crate::program::program;
use crate::progress::TaskProgress;
use crate::verbs::{any_of, has_rings, name_crashes, platform_names, runtime_names};

/// Runs the scene and tells what came of it.
pub fn run(args: &RunArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let mut config = args.config(registry)?;
    config.sanitizer = args.memory.sanitizer()?;
    open_folder(&mut config)?;
    let request = tensortap::resolve(&config)?;
    notes(args, &request).iter().for_each(|note| output.note(note));
    name_crashes(config.device_mode)?;
    match observed(&config, output)? {
        Ok(report) => {
            tell(&report, &args.again_with_dump(), output)?;
            let incomplete = report.dump.as_ref().is_some_and(complain);
            let live = report.dump.as_ref().and_then(|dump| dump.live.as_ref());
            let differs = live.is_some_and(|live| !live.agrees());
            match report.failure {
                // It ended because it was asked to, at what it was asked to find.
                Some(failure) if failure.interrupted && live.is_some_and(|live| live.stopped) => {
                    Ok(Exit::Difference)
                }
                Some(failure) => {
                    failure.report.iter().for_each(|report| output::report(report.text()));
                    Err(failure.into())
                }
                None if incomplete => Ok(Exit::Failed),
                None if differs => Ok(Exit::Difference),
                None => Ok(verdict(report.golden)),
            }
        }
        Err(error) => {
            if output.json && !error.is_usage() {
                output.document(&RunDocument::not_started(&request, &config, &error))?;
            }
            Err(error.into())
        }
    }
}

/// A scene that no executable has is a folder.
fn open_folder(config: &mut RunConfig) -> Result<(), tensortap::Error> {
    let path = Path::new(&config.scene);
    if config.registry.find(&config.scene).is_none() && tensortap::folders::is_folder(path) {
        let (executable, sanitizer) = (config.device_executable.clone(), config.sanitizer.clone());
        let options = FolderOptions { executable, sanitizer };
        let (registry, scene) = tensortap::with_folder(&config.registry, path, &options)?;
        (config.registry, config.scene) = (registry, scene.name().to_owned());
    }
    Ok(())
}

/// The outer error is the command line's own, the inner one that of a run that did not begin.
fn observed(config: &RunConfig, output: Output) -> anyhow::Result<Result<RunReport, tensortap::Error>> {
    let grace = if config.dump.is_some() { CLOSING_GRACE } else { GRACE };
    let interrupt = Interrupt::install(grace).context("taking over signals")?;
    let mut progress = TaskProgress::new(output);
    let outcome = tensortap::run_observed(config, &mut |now| {
        progress.show(now);
        !interrupt.requested()
    });
    progress.clear();
    Ok(outcome.or_else(tensortap::Error::into_report))
}

/// `again` is the command that repeats the run with a dump.
fn tell(report: &RunReport, again: &str, output: Output) -> anyhow::Result<()> {
    if output.json {
        output.document(&RunDocument::of(report))
    } else {
        output.text(&text::of(report, again))
    }
}

/// Says what is wrong with a dump; true when it could not be written to its end.
fn complain(dump: &DumpReport) -> bool {
    if let Some(losses) = text::losses(dump) {
        output::warning(&format!("the dump is not complete: {losses}"));
    }
    if let Some(problem) = &dump.problem {
        let hint = format!("what was captured before is in {} and can be read", dump.dir.display());
        output::error(&format!("the dump failed: {problem}"), Some(&hint));
    }
    dump.problem.is_some()
}

fn verdict(golden: GoldenVerdict) -> Exit {
    match golden {
        GoldenVerdict::Fail => Exit::Difference,
        GoldenVerdict::Pass | GoldenVerdict::None => Exit::Good,
    }
}

const GRAPH: &str = "Building the graph";

/// What `tensortap run` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap run paged_attention\n  \
    tensortap run bgemm --param batch=8 --param dtype=f16 --platform a5sim\n  \
    tensortap run vector_example --inject-fault add=sign\n  \
    tensortap run paged_attention --dump-tensor\n  \
    tensortap run tiny_llm --dump-tensor=hash --dump-func softmax --dump-stage after\n  \
    tensortap run mixed_example --dump-args\n  \
    tensortap run bgemm --guard\n  \
    tensortap run my_scene --sanitize address,undefined\n\n\
    Exit status: 0 good, 1 the golden found a difference, 2 bad usage, 3 the run or its dump failed,\n\
    130, 143, 129 interrupted by SIGINT, SIGTERM, SIGHUP")]
pub struct RunArgs {
    /// Scene to run: a name that `tensortap scenes` lists, or a folder with scene.toml
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
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = GRAPH)]
    pub ring_heap: Option<u64>,

    #[command(flatten)]
    pub failing: FailingArgs,

    #[command(flatten)]
    pub memory: MemoryArgs,

    /// Fill outputs and new memory with this byte first
    #[arg(long, value_name = "BYTE", value_parser = parse_byte, hide = true)]
    pub poison: Option<u8>,

    #[command(flatten)]
    pub dump: DumpArgs,
}

impl RunArgs {
    /// The command that runs the same and records all of it.
    pub fn again_with_dump(&self) -> String {
        let mut words = vec![format!("{} run {}", program(), word(&self.scene))];
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
        config.guard = self.memory.guard;
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

pub(super) fn parse_param(text: &str) -> Result<(String, String), String> {
    pair(text).ok_or_else(|| match platform_names().contains(&text) {
        true => format!("a parameter is given as KEY=VALUE; for the platform say --platform {text}"),
        false => "a parameter is given as KEY=VALUE".into(),
    })
}

fn parse_byte(text: &str) -> Result<u8, &'static str> {
    let byte = match text.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16),
        None => text.parse(),
    };
    byte.map_err(|_| "a byte is 0 to 255 or 0x00 to 0xff")
}

/// What the user should know before the run: options without effect, and what thread mode gives up.
fn notes(args: &RunArgs, request: &Request) -> Vec<String> {
    let runtime = request.runtime.name();
    let mut notes = Vec::new();
    if args.build.is_some() && runtime != "aicpu_build_graph" {
        notes.push(no_effect("--build", runtime, "only aicpu_build_graph has a choice"));
    }
    for (option, given) in
        [("--ring-slots", args.ring_slots.is_some()), ("--ring-heap", args.ring_heap.is_some())]
    {
        if given && !has_rings(runtime) {
            notes.push(no_effect(option, runtime, "its tasks are in one array"));
        }
    }
    if let Some(blocks) = args.device.blocks.filter(|blocks| (1..args.schedulers).contains(blocks)) {
        let idle = counted(u64::from(args.schedulers - blocks), "scheduler");
        notes.push(format!("{idle} will have nothing to do: each needs a block of its own"));
    }
    if args.device.device_mode == DeviceMode::Thread {
        notes.push(format!("in thread mode a kernel that crashes or hangs takes {} with it", program()));
    }
    notes
}

fn no_effect(option: &str, runtime: &str, why: &str) -> String {
    format!("{option} has no effect with {runtime}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_in_place_of_a_parameter_is_answered_with_its_option() {
        assert_eq!(parse_param("n=3"), Ok(("n".into(), "3".into())));
        assert!(parse_param("a5sim").unwrap_err().ends_with("say --platform a5sim"));
        assert!(!parse_param("n").unwrap_err().contains("--platform"));
    }

    #[test]
    fn bytes_are_read_in_both_bases() {
        assert_eq!((parse_byte("0xa5"), parse_byte("165")), (Ok(0xa5), Ok(0xa5)));
        assert!(parse_byte("256").is_err() && parse_byte("0x1a5").is_err());
    }
}
