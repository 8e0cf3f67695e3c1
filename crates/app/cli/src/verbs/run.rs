//! `tensortap run`: runs a scene and checks its result.

mod text;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use tensortap::abi::MAX_SCHEDULERS;
use tensortap::scene::{FaultKind, Registry, Scene};
use tensortap::{
    BuildMode, DEFAULT_PLATFORM, DEFAULT_RING_SLOTS, DeviceMode, DumpReport, FolderOptions, GoldenVerdict,
    MAX_RING_SLOTS, Request, RunConfig, RunReport,
};
use tensortap_query::document::RunDocument;
use tensortap_query::number::counted;

use crate::device_args::{DEVICE, DeviceArgs, FailingArgs, MemoryArgs};
use crate::dump_path::quoted;
use crate::error::{Exit, UsageError};
use crate::interrupt::{CLOSING_GRACE, GRACE, Interrupt};
use crate::output::{self, Output};
use crate::parse::{at_most, choice, pair, parse_size, whole};
use crate::program::program;
use crate::progress::TaskProgress;
use crate::recording_args::RunDumpArgs;
use crate::verbs::{any_of, has_rings, platform_names, report_thread_crashes, runtime_names};

/// Runs the scene and prints a summary.
pub fn run(args: &RunArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let mut config = args.config(registry)?;
    config.sanitizer = args.memory.sanitizer()?;
    open_folder(&mut config)?;
    let request = tensortap::resolve(&config)?;
    notes(args, &request).iter().for_each(|note| output.note(note));
    report_thread_crashes(config.device_mode)?;
    match observed(&config, output)? {
        Ok(report) => {
            tell(&report, &args.again_with_dump(), output)?;
            let incomplete = report.dump.as_ref().is_some_and(complain);
            let live = report.dump.as_ref().and_then(|dump| dump.live.as_ref());
            let differs = live.is_some_and(|live| !live.agrees());
            match report.failure {
                // `--stop-at-first` ended the run at a wrong task.
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

/// Opens a scene folder, unless the executable has a scene of this name.
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

/// Runs with progress. The outer error is from the command line, the inner one is that of a run that did not start.
fn observed(config: &RunConfig, output: Output) -> anyhow::Result<Result<RunReport, tensortap::Error>> {
    let grace = if config.dump.is_some() { CLOSING_GRACE } else { GRACE };
    let interrupt = Interrupt::install(grace).context("cannot handle signals")?;
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

/// Prints problems of a dump. Returns whether the dump failed.
fn complain(dump: &DumpReport) -> bool {
    if let Some(losses) = text::losses(dump) {
        output::warning(&format!("the dump is incomplete: {losses}"));
    }
    if let Some(problem) = &dump.problem {
        let hint = format!("the records before the failure can be read from {}", dump.dir.display());
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

/// Arguments of `tensortap run`.
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
    Exit status: 0 success, 1 the result is wrong, 2 bad usage, 3 the run or its dump failed,\n\
    130, 143, 129 interrupted by SIGINT, SIGTERM, SIGHUP")]
pub struct RunArgs {
    /// Scene to run: a name from `tensortap scenes`, or a folder with scene.toml
    #[arg(value_name = "SCENE")]
    pub scene: String,

    /// Parameter of the scene; repeatable
    #[arg(long = "param", short, value_name = "KEY=VALUE", value_parser = parse_param)]
    pub params: Vec<(String, String)>,

    #[arg(long, value_name = "NAME", default_value = DEFAULT_PLATFORM, help = platform_help())]
    pub platform: String,

    #[arg(long, value_name = "NAME", help = runtime_help())]
    pub runtime: Option<String>,

    #[command(flatten)]
    pub device: DeviceArgs,

    /// Number of scheduler threads
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = whole(1..=at_most(MAX_SCHEDULERS)),
        help_heading = DEVICE
    )]
    pub schedulers: u32,

    /// Run tasks of aicpu_build_graph after the graph is built, or while it is built [default: concurrent]
    #[arg(
        long,
        value_name = "MODE",
        value_parser = choice([BuildMode::Sequential, BuildMode::Concurrent].map(|mode| (mode.name(), mode))),
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

    /// Memory of each heap ring of tensormap_and_ringbuffer, such as 64MiB [default: by device memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = GRAPH)]
    pub ring_heap: Option<u64>,

    #[command(flatten)]
    pub failing: FailingArgs,

    #[command(flatten)]
    pub memory: MemoryArgs,

    /// Fill outputs and new memory with this byte before the run
    #[arg(long, value_name = "BYTE", value_parser = parse_byte, hide = true)]
    pub poison: Option<u8>,

    #[command(flatten)]
    pub dump: RunDumpArgs,
}

impl RunArgs {
    /// The command that repeats the run with a full dump.
    pub fn again_with_dump(&self) -> String {
        let scene = quoted(Path::new(&self.scene));
        let fault = self.failing.inject_fault.as_ref();
        run_command(&scene, &self.params, &self.platform, self.runtime.as_deref(), fault) + " --dump-tensor"
    }

    /// The configuration for the library.
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

/// The command that repeats a run, without options that have their default value. `scene` is quoted already.
pub(super) fn run_command<'a>(
    scene: &str,
    params: impl IntoIterator<Item = &'a (String, String)>,
    platform: &str,
    runtime: Option<&str>,
    fault: Option<&(String, FaultKind)>,
) -> String {
    let mut words = vec![format!("{} run {scene}", program())];
    let param = |(key, value): &(String, String)| format!("--param {key}={}", quoted(Path::new(value)));
    words.extend(params.into_iter().map(param));
    words.extend((platform != DEFAULT_PLATFORM).then(|| format!("--platform {platform}")));
    words.extend(runtime.map(|runtime| format!("--runtime {runtime}")));
    words.extend(fault.map(|(kernel, kind)| format!("--inject-fault {kernel}={}", kind.name())));
    words.join(" ")
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
        true => format!("a parameter has the form KEY=VALUE; choose a platform with --platform {text}"),
        false => "a parameter has the form KEY=VALUE".into(),
    })
}

fn parse_byte(text: &str) -> Result<u8, &'static str> {
    let byte = match text.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16),
        None => text.parse(),
    };
    byte.map_err(|_| "a byte must be from 0 to 255 or from 0x00 to 0xff")
}

/// Notes before the run: options without effect, and the risk of thread mode.
fn notes(args: &RunArgs, request: &Request) -> Vec<String> {
    let runtime = request.runtime.name();
    let mut notes = Vec::new();
    if args.build.is_some() && runtime != "aicpu_build_graph" {
        notes.push(no_effect("--build", runtime, "only aicpu_build_graph has build modes"));
    }
    for (option, given) in
        [("--ring-slots", args.ring_slots.is_some()), ("--ring-heap", args.ring_heap.is_some())]
    {
        if given && !has_rings(runtime) {
            notes.push(no_effect(option, runtime, "it stores tasks in one array"));
        }
    }
    if let Some(blocks) = args.device.blocks.filter(|blocks| (1..args.schedulers).contains(blocks)) {
        let idle = counted(u64::from(args.schedulers - blocks), "scheduler");
        notes.push(format!("{idle} will be idle: each scheduler needs its own block"));
    }
    if args.device.device_mode == DeviceMode::Thread {
        notes.push(format!("in thread mode, a kernel that crashes or hangs also takes down {}", program()));
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
    fn a_platform_instead_of_a_parameter_is_rejected_with_the_right_option() {
        assert_eq!(parse_param("n=3"), Ok(("n".into(), "3".into())));
        assert!(parse_param("a5sim").unwrap_err().ends_with("with --platform a5sim"));
        assert!(!parse_param("n").unwrap_err().contains("--platform"));
    }

    #[test]
    fn parses_bytes_in_decimal_and_hex() {
        assert_eq!((parse_byte("0xa5"), parse_byte("165")), (Ok(0xa5), Ok(0xa5)));
        assert!(parse_byte("256").is_err() && parse_byte("0x1a5").is_err());
    }
}
