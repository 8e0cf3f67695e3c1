//! `tensortap replay`: runs captured tasks again.

mod text;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use clap::Args;
use tensortap::format::Dump;
use tensortap::scene::Registry;
use tensortap::{DEFAULT_DEVICE_FAILURES, LaunchDevice, ReplayConfig, ReplayReport, Selection, TaskChoice};
use tensortap_query::document::{ReplayDocument, replay_verdict};
use tensortap_query::ids::{escaped, parse_id, parse_task_choice};
use tensortap_query::number::counted;
use tensortap_query::words::printable_path;

use crate::device_args::{DEVICE, DeviceArgs, FAILING, FailingArgs, MemoryArgs};
use crate::dump_path::{RankArg, StepArg, source_path};
use crate::error::{Exit, Interruption, UsageError};
use crate::interrupt::{GRACE, Interrupt};
use crate::kernel_args::KernelArgs;
use crate::output::{self, Output};
use crate::parse::{pair, whole};
use crate::program::program;
use crate::progress::StepProgress;
use crate::select::{ValueList, all, unparsed, value_list};
use crate::verbs::report_thread_crashes;

/// Replays the selected tasks and prints the results.
pub fn run(args: &ReplayArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let mut config = args.config(registry)?;
    config.sanitizer = args.memory.sanitizer()?;
    if let Some(program) = &args.debugger {
        return debug(program, args, &config);
    }
    report_thread_crashes(config.device_mode)?;
    let report = observed(&config, output)?;
    report.tasks.iter().filter_map(|task| task.sanitizer.as_deref()).for_each(output::report);
    report.notes.iter().for_each(|note| output.note(note));
    if output.json {
        output.document(&ReplayDocument::of(&report))?;
    } else {
        output.text(&text::of(&report))?;
    }
    if report.interrupted {
        return Err(Interruption.into());
    }
    Ok(if replay_verdict(&report) == "fail" { Exit::Difference } else { Exit::Good })
}

fn observed(config: &ReplayConfig, output: Output) -> anyhow::Result<ReplayReport> {
    let interrupt = Interrupt::install(GRACE).context("cannot handle signals")?;
    let progress = StepProgress::new(output, 0);
    progress.begin("tasks replayed".into());
    let mut failures = 0;
    let report = tensortap::replay_observed(config, &mut |now| {
        progress.at(now.finished, now.tasks);
        if now.device_failures > failures {
            failures = now.device_failures;
            progress.begin(format!("tasks replayed, {} failed", counted(failures, "device")));
        }
        !interrupt.requested()
    });
    drop(progress);
    Ok(report?)
}

const CHANGING: &str = "Changing what runs";
const DEBUGGING: &str = "Debugging";

/// Arguments of `tensortap replay`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap replay --all                              every task of the newest dump, one at a time\n  \
    tensortap replay my_dump --task 0x100000002         one task, at its captured addresses\n  \
    tensortap replay my_dump softmax                    the tasks of one kernel\n  \
    tensortap replay --task 3 --reference               compare with the kernel's reference\n  \
    tensortap replay --all --platform a5sim             on another platform, within the rules\n  \
    tensortap replay --all --inject-fault mul=last      with a damaged kernel\n  \
    tensortap replay --kernel mul=./fixed.so            the tasks of `mul`, with another build of it\n  \
    tensortap replay d --abi simpler --kernel QK=qk.so  with a kernel of `simpler`, for its own dump\n  \
    tensortap replay --task 3 --bench                   measure the kernel's time\n  \
    tensortap replay --task 3 --guard                   find accesses outside the kernel's arguments\n  \
    tensortap replay --task 3 --debugger --trust        in gdb, at the kernel's first instruction\n  \
    tensortap replay cases                              every case of a folder, as tests\n  \
    tensortap replay gpu_run --all --device portable    OpenCL launches, on the CPU\n\n\
    Exit status: 0 every task reproduced its captured output or agreed with its reference; 1 a task did not, or was \
    refused; 2 bad usage or unreadable input; 3 no device; 130, 143, 129 interrupted")]
pub struct ReplayArgs {
    /// Dump, case, or folder of cases [default: the newest dump under outputs/]
    #[arg(value_name = "DUMP or CASE")]
    pub source: Option<PathBuf>,

    /// Tasks, in the form of --task
    #[arg(value_name = "TASK", value_parser = value_list(parse_task_choice), group = "selection")]
    pub named: Option<ValueList<TaskChoice>>,

    #[command(flatten)]
    pub rank: RankArg,

    #[command(flatten)]
    pub step: StepArg,

    /// Replay every task, one at a time
    #[arg(long, group = "selection")]
    pub all: bool,

    /// Tasks by id, range, ring and position, or kernel: 3,0x100000002,1:2-1:9,softmax
    #[arg(long, value_name = "LIST", value_parser = value_list(parse_task_choice), group = "selection")]
    pub task: Vec<ValueList<TaskChoice>>,

    /// One dispatch, by its id in kernel_args_dump.json: block << 40 | slot << 36 | task
    #[arg(long, value_name = "ID", value_parser = parse_id, group = "selection")]
    pub dispatch: Option<u64>,

    /// Only tasks with one of these kernels, by name, pattern or func_id: add*,3
    #[arg(long, value_name = "NAME_OR_ID", value_parser = value_list(unparsed))]
    pub func: Vec<ValueList<String>>,

    /// Compare outputs with the f64 references of the kernels, within the kernel's rule [default: with the captured
    /// outputs]
    #[arg(long)]
    pub reference: bool,

    /// Scene folder to use instead of the one recorded in the dump
    #[arg(long, value_name = "DIR", help_heading = CHANGING)]
    pub scene: Option<PathBuf>,

    /// Platform to replay on [default: the platform of the capture]
    #[arg(long, value_name = "NAME", help_heading = DEVICE)]
    pub platform: Option<String>,

    /// Device for launches of OpenCL and CUDA: part of its name, or its number in the loader's or driver's list [default:
    /// the device of the capture, or the first one]
    #[arg(long = "device", value_name = "NAME or N", help_heading = DEVICE)]
    pub launch_device: Option<String>,

    #[command(flatten)]
    pub device: DeviceArgs,

    /// Trust the kernels: needed for thread mode and debuggers [default: the device process cannot write files, create
    /// sockets or start programs]
    #[arg(long, help_heading = DEVICE)]
    pub trust: bool,

    /// Number of devices for many tasks [default: one per CPU, at most 4]
    #[arg(long, value_name = "N", value_parser = whole(1..=1024_usize), help_heading = DEVICE)]
    pub jobs: Option<usize>,

    #[command(flatten)]
    pub failing: FailingArgs,

    #[command(flatten)]
    pub memory: MemoryArgs,

    /// Skip the remaining tasks after this many devices have crashed or hung; 0 means no limit
    #[arg(long, value_name = "N", default_value_t = DEFAULT_DEVICE_FAILURES, value_parser = whole(0_u64..), help_heading = FAILING)]
    pub max_device_failures: u64,

    #[command(flatten)]
    pub kernels: KernelArgs,

    /// Replace the argument at this position: a scalar, or every element of a tensor; repeatable
    #[arg(long, value_name = "SLOT=VALUE", value_parser = parse_set_arg, help_heading = CHANGING)]
    pub set_arg: Vec<(u16, String)>,

    /// Also replay tasks whose arguments are not exactly as captured; the report names the differences
    #[arg(long, help_heading = CHANGING)]
    pub allow_inexact: bool,

    /// Run each task this many times, and report if its results differ
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole(1..=1_000_000_u32))]
    pub repeat: u32,

    /// Measure the time of the kernels [default: 20 runs]
    #[arg(long)]
    pub bench: bool,

    /// Start gdb or another debugger, and stop at the kernel's first instruction; without a stall limit
    #[arg(
        long,
        value_name = "PROGRAM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "gdb",
        help_heading = DEBUGGING
    )]
    pub debugger: Option<String>,

    /// Command to run in the debugger after it has stopped; repeatable
    #[arg(long, value_name = "COMMAND", requires = "debugger", help_heading = DEBUGGING)]
    pub debugger_command: Vec<String>,

    /// Call tensortap_before_kernel before the kernel
    #[arg(long, hide = true)]
    pub stop_at_kernel: bool,
}

impl ReplayArgs {
    /// The configuration for the library.
    pub fn config(&self, registry: &Registry) -> anyhow::Result<ReplayConfig> {
        let source = source_path(self.source.clone(), &self.rank)?;
        let select = self.selection(&source)?;
        let mut config = ReplayConfig::new(source, registry.clone());
        config.select = select;
        config.steps.clone_from(&self.step.step);
        config.funcs = all(&self.func);
        config.kernels = self.kernels.code();
        config.block_num = self.kernels.block_num;
        config.platform.clone_from(&self.platform);
        config.launch_device =
            self.launch_device.clone().map_or_else(LaunchDevice::default, LaunchDevice::Named);
        config.device_mode = self.device.device_mode;
        config.trust = self.trust;
        config.device_memory = self.device.device_memory;
        config.blocks = self.device.blocks;
        config.jobs = self.jobs;
        config.stall_timeout = self.failing.stall_timeout.0;
        config.max_device_failures = Some(self.max_device_failures).filter(|&most| most > 0);
        config.set_args.clone_from(&self.set_arg);
        config.scene_folder.clone_from(&self.scene);
        config.reference = self.reference;
        config.allow_inexact = self.allow_inexact;
        config.inject_fault.clone_from(&self.failing.inject_fault);
        config.guard = self.memory.guard;
        config.repeat = self.repeat;
        config.bench = self.bench;
        config.stop_at_kernel = self.stop_at_kernel;
        Ok(config)
    }

    /// The tasks that are named, as arguments or with `--task`.
    fn tasks(&self) -> Vec<TaskChoice> {
        let named = self.named.as_ref().map(std::slice::from_ref);
        all(named.unwrap_or(&self.task))
    }

    /// Whether only `--kernel` chooses the tasks.
    fn selects_by_kernel(&self) -> bool {
        let selects =
            self.all || self.dispatch.is_some() || !self.tasks().is_empty() || !self.func.is_empty();
        !self.kernels.kernel.is_empty() && !selects
    }

    /// The tasks to replay. A case needs no selection; a dump with several tasks does.
    fn selection(&self, source: &Path) -> Result<Selection, UsageError> {
        if let Some(dispatch) = self.dispatch {
            return Ok(Selection::Dispatch(dispatch));
        }
        let tasks = self.tasks();
        if !tasks.is_empty() {
            return Ok(Selection::Tasks(tasks));
        }
        if self.selects_by_kernel() {
            return Ok(Selection::LibraryKernels);
        }
        if self.all || !self.func.is_empty() || !Dump::open(source).is_ok_and(|dump| has_many_tasks(&dump)) {
            return Ok(Selection::All);
        }
        Err(UsageError {
            message: format!("{} has several tasks; choose some of them", printable_path(source)),
            hint: format!(
                "use --all for every task, or --task ID for one; `{} list` shows the ids",
                program()
            ),
        })
    }
}

fn has_many_tasks(dump: &Dump) -> bool {
    dump.tasks().map_or(true, |tasks| tasks.iter().filter(|task| !task.contains_tasks()).count() > 1)
}

fn parse_set_arg(text: &str) -> Result<(u16, String), &'static str> {
    const ACCEPTED: &str =
        "an argument has the form SLOT=VALUE, where SLOT counts from 0: tensors first, then scalars";
    let (slot, value) = pair(text).ok_or(ACCEPTED)?;
    Ok((slot.parse().map_err(|_| ACCEPTED)?, value))
}

/// The function that is called right before a kernel. Two variables next to it contain the addresses of the kernel and
/// of its `args[]`.
const STOP: &str = "tensortap_before_kernel";

/// Starts the debugger and waits until it ends.
fn debug(program: &str, args: &ReplayArgs, config: &ReplayConfig) -> anyhow::Result<Exit> {
    // The path may be a folder of cases.
    let dump = match Dump::open(&config.source) {
        Err(error) if !config.source.exists() => return Err(error.into()),
        opened => opened.ok(),
    };
    if dump.as_ref().is_some_and(Dump::has_programs) && config.kernels.is_empty() {
        return Err(UsageError {
            message: "--debugger cannot stop in a kernel of OpenCL or CUDA, because the driver runs it"
                .into(),
            hint: "run the launch on another device with --device NAME, or a kernel of your own with \
                   --kernel NAME=LIB[:SYMBOL]"
                .into(),
        }
        .into());
    }
    let has_many = dump.as_ref().is_some_and(has_many_tasks);
    if matches!(config.select, Selection::All | Selection::LibraryKernels) && has_many {
        return Err(UsageError {
            message: "--debugger needs exactly one task".into(),
            hint: "choose it with --task ID or --dispatch ID".into(),
        }
        .into());
    }
    if !args.trust {
        return Err(UsageError {
            message: "a debugger cannot confine the kernels that run in it".into(),
            hint: "if you trust these kernels, add --trust".into(),
        }
        .into());
    }
    let mut words = program.split_whitespace();
    let name = words.next().unwrap_or("gdb");
    let mut command = Command::new(name);
    command.args(words);
    if name.contains("lldb") {
        command.args(["-o", &format!("breakpoint set --name {STOP}"), "-o", "run"]);
        args.debugger_command.iter().for_each(|line| {
            command.args(["-o", line]);
        });
        command.arg("--");
    } else {
        for line in gdb_commands().into_iter().chain(args.debugger_command.iter().cloned()) {
            command.arg("-ex").arg(line);
        }
        command.arg("--args");
    }
    command.arg(std::env::current_exe().context("cannot find this executable")?);
    command.args(replay_words(args, config));
    let status = match command.status() {
        Ok(status) => status,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(UsageError {
                message: format!("there is no program `{name}`"),
                hint: "install gdb, or choose another debugger with --debugger=PROGRAM".into(),
            }
            .into());
        }
        Err(error) => return Err(error).with_context(|| format!("cannot start {name}")),
    };
    Ok(if status.success() { Exit::Good } else { Exit::Failed })
}

/// Stops right before the kernel, then at its first instruction, with `$kernel` and `$args` set. Other threads are
/// paused in between, so that the slots of a mix task stay in order.
fn gdb_commands() -> Vec<String> {
    [
        "set language c",
        "set breakpoint pending on",
        &format!("break {STOP}"),
        "run",
        "set $kernel = *(unsigned long *)&TENSORTAP_KERNEL",
        "set $args = *(unsigned long **)&TENSORTAP_ARGS",
        "tbreak *$kernel",
        "set scheduler-locking on",
        "continue",
        "set scheduler-locking off",
    ]
    .map(String::from)
    .into()
}

/// The arguments of the replay in the debugger: one process, no stall limit.
fn replay_words(args: &ReplayArgs, config: &ReplayConfig) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["replay".into(), config.source.clone().into()];
    let mut option = |name: &str, value: String| words.push(format!("--{name}={value}").into());
    args.tasks().iter().for_each(|choice| match choice {
        TaskChoice::Ids(first, last) => option("task", format!("{first}-{last}")),
        TaskChoice::InStep { step, first, last } => option("task", format!("{step}@{first}-{last}")),
        TaskChoice::Named(name) => option("task", escaped(name)),
    });
    args.dispatch.iter().for_each(|id| option("dispatch", id.to_string()));
    args.step.step.iter().for_each(|(first, last)| option("step", format!("{first}-{last}")));
    all(&args.func).iter().for_each(|func| option("func", escaped(func)));
    args.platform.iter().for_each(|name| option("platform", name.clone()));
    args.device.device_memory.iter().for_each(|bytes| option("device-memory", bytes.to_string()));
    args.device.blocks.iter().for_each(|blocks| option("blocks", blocks.to_string()));
    args.set_arg.iter().for_each(|(slot, value)| option("set-arg", format!("{slot}={value}")));
    args.kernels.options().into_iter().for_each(|(name, value)| option(name, value));
    args.failing
        .inject_fault
        .iter()
        .for_each(|(kernel, kind)| option("inject-fault", format!("{kernel}={kind}")));
    option("device-mode", "thread".into());
    option("stall-timeout", "0".into());
    words.push("--trust".into());
    words.push("--stop-at-kernel".into());
    if args.reference {
        words.push("--reference".into());
    }
    if args.allow_inexact {
        words.push("--allow-inexact".into());
    }
    words
}
