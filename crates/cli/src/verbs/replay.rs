//! `tensortap replay`: captured tasks, run again.

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
use crate::dump_arg::{RankArg, StepArg, one_of};
use crate::error::{Exit, Interrupted, UsageError};
use crate::interrupt::{GRACE, Interrupt};
use crate::kernel_args::KernelArgs;
use crate::output::{self, Output};
use crate::parse::{pair, whole};
use crate::program::program;
use crate::progress::StepProgress;
use crate::select::{Words, all, as_it_is, words};
use crate::verbs::name_crashes;

/// Replays what was selected and tells what came of it.
pub fn run(args: &ReplayArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let mut config = args.config(registry)?;
    config.sanitizer = args.memory.sanitizer()?;
    if let Some(program) = &args.debugger {
        return debug(program, args, &config);
    }
    name_crashes(config.device_mode)?;
    let report = observed(&config, output)?;
    report.tasks.iter().filter_map(|task| task.sanitizer.as_deref()).for_each(output::report);
    report.notes.iter().for_each(|note| output.note(note));
    if output.json {
        output.document(&ReplayDocument::of(&report))?;
    } else {
        output.text(&text::of(&report))?;
    }
    if report.interrupted {
        return Err(Interrupted.into());
    }
    Ok(if replay_verdict(&report) == "fail" { Exit::Difference } else { Exit::Good })
}

fn observed(config: &ReplayConfig, output: Output) -> anyhow::Result<ReplayReport> {
    let interrupt = Interrupt::install(GRACE).context("taking over signals")?;
    let progress = StepProgress::new(output, 0);
    progress.begin("tasks replayed".into());
    let mut failures = 0;
    let report = tensortap::replay_observed(config, &mut |now| {
        progress.reach(now.finished, now.tasks);
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

/// What `tensortap replay` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap replay --all                              every task of the newest dump, each for itself\n  \
    tensortap replay my_dump --task 0x100000002         one task, at its captured addresses\n  \
    tensortap replay my_dump softmax                    those of one kernel\n  \
    tensortap replay --task 3 --reference               is what it computes right?\n  \
    tensortap replay --all --platform a5sim             on another platform, by rule\n  \
    tensortap replay --all --inject-fault mul=last      does a damaged kernel show?\n  \
    tensortap replay --kernel mul=./fixed.so            another build of a kernel, on its tasks\n  \
    tensortap replay d --abi simpler --kernel QK=qk.so  a kernel of `simpler`, on a dump of its own\n  \
    tensortap replay --task 3 --bench                   how long its kernel takes\n  \
    tensortap replay --task 3 --guard                   does its kernel leave its arguments?\n  \
    tensortap replay --task 3 --debugger --trust        in gdb, at the kernel's first instruction\n  \
    tensortap replay cases                              every case of a folder, as tests\n  \
    tensortap replay gpu_run --all --device portable     launches of OpenCL, on the CPU\n\n\
    Exit status: 0 every task came out as captured, or as its references say; 1 one did not or was refused; 2 bad usage or unreadable \
    input; 3 no device; 130, 143, 129 interrupted")]
pub struct ReplayArgs {
    /// Dump, case, or folder of cases [default: the newest dump under outputs/]
    #[arg(value_name = "DUMP or CASE")]
    pub source: Option<PathBuf>,

    /// Tasks, as --task takes them
    #[arg(value_name = "TASK", value_parser = words(parse_task_choice), group = "selection")]
    pub named: Option<Words<TaskChoice>>,

    #[command(flatten)]
    pub rank: RankArg,

    #[command(flatten)]
    pub step: StepArg,

    /// Every task, each for itself
    #[arg(long, group = "selection")]
    pub all: bool,

    /// Tasks by id, range or kernel, in hex, decimal or as ring and position: 3,0x100000002,1:2-1:9,softmax
    #[arg(long, value_name = "LIST", value_parser = words(parse_task_choice), group = "selection")]
    pub task: Vec<Words<TaskChoice>>,

    /// One dispatch, by the id in kernel_args_dump.json: block << 40 | slot << 36 | task
    #[arg(long, value_name = "ID", value_parser = parse_id, group = "selection")]
    pub dispatch: Option<u64>,

    /// Only tasks with one of these kernels, by name, pattern or func_id: add*,3
    #[arg(long, value_name = "NAME_OR_ID", value_parser = words(as_it_is))]
    pub func: Vec<Words<String>>,

    /// Hold outputs against the f64 references of the kernels, on the captured inputs, by the kernel's rule [default:
    /// against what was captured]
    #[arg(long)]
    pub reference: bool,

    /// Folder of the scene, instead of the one that the dump names
    #[arg(long, value_name = "DIR", help_heading = CHANGING)]
    pub scene: Option<PathBuf>,

    /// Platform to replay on [default: the one it was captured on]
    #[arg(long, value_name = "NAME", help_heading = DEVICE)]
    pub platform: Option<String>,

    /// Of launches of OpenCL and CUDA, the device to replay on: part of its name, or its place in the list of its loader or driver [default: the one they were
    /// captured on, or else the first]
    #[arg(long = "device", value_name = "NAME or N", help_heading = DEVICE)]
    pub launch_device: Option<String>,

    #[command(flatten)]
    pub device: DeviceArgs,

    /// Let kernels do whatever they like: for thread mode or a debugger [default: the device process may write no
    /// files, make no sockets and start no programs]
    #[arg(long, help_heading = DEVICE)]
    pub trust: bool,

    /// Devices at once when there are many tasks [default: one per CPU, at most 4]
    #[arg(long, value_name = "N", value_parser = whole(1..=1024_usize), help_heading = DEVICE)]
    pub jobs: Option<usize>,

    #[command(flatten)]
    pub failing: FailingArgs,

    #[command(flatten)]
    pub memory: MemoryArgs,

    /// Devices that may crash or hang before the tasks that are left are given up; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = DEFAULT_DEVICE_FAILURES, value_parser = whole(0_u64..), help_heading = FAILING)]
    pub max_device_failures: u64,

    #[command(flatten)]
    pub kernels: KernelArgs,

    /// Replace an argument by its position: a scalar, or every element of a tensor; may be given several times
    #[arg(long, value_name = "SLOT=VALUE", value_parser = parse_set_arg, help_heading = CHANGING)]
    pub set_arg: Vec<(u16, String)>,

    /// Replay what is not exactly as captured, too; the report says what is not
    #[arg(long, help_heading = CHANGING)]
    pub allow_inexact: bool,

    /// Run each task so often, and say when its results differ
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub repeat: u32,

    /// Measure how long kernels take [default: 20 runs]
    #[arg(long)]
    pub bench: bool,

    /// Start gdb, or the program named, stopped at the kernel's first instruction; no stall limit
    #[arg(
        long,
        value_name = "PROGRAM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "gdb",
        help_heading = DEBUGGING
    )]
    pub debugger: Option<String>,

    /// A command for gdb once it has stopped there; may be given several times
    #[arg(long, value_name = "COMMAND", requires = "debugger", help_heading = DEBUGGING)]
    pub debugger_command: Vec<String>,

    /// Pass by tensortap_before_kernel
    #[arg(long, hide = true)]
    pub stop_at_kernel: bool,
}

impl ReplayArgs {
    /// The same for the library.
    pub fn config(&self, registry: &Registry) -> anyhow::Result<ReplayConfig> {
        let source = one_of(self.source.clone(), &self.rank)?;
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

    /// The tasks that are named, wherever.
    fn tasks(&self) -> Vec<TaskChoice> {
        let named = self.named.as_ref().map(std::slice::from_ref);
        all(named.unwrap_or(&self.task))
    }

    /// Whether nothing says which tasks are meant but the kernels that are given.
    fn selects_by_kernel(&self) -> bool {
        let selects =
            self.all || self.dispatch.is_some() || !self.tasks().is_empty() || !self.func.is_empty();
        !self.kernels.kernel.is_empty() && !selects
    }

    /// A case is replayed without saying so; of a dump it must be said what.
    fn selection(&self, source: &Path) -> Result<Selection, UsageError> {
        if let Some(dispatch) = self.dispatch {
            return Ok(Selection::Dispatch(dispatch));
        }
        let tasks = self.tasks();
        if !tasks.is_empty() {
            return Ok(Selection::Tasks(tasks));
        }
        if self.selects_by_kernel() {
            return Ok(Selection::Given);
        }
        let has_many = |dump: &Dump| dump.tasks().map_or(true, |tasks| tasks.len() > 1);
        if self.all || !self.func.is_empty() || !Dump::open(source).is_ok_and(|dump| has_many(&dump)) {
            return Ok(Selection::All);
        }
        Err(UsageError {
            message: format!("{} has many tasks; say which", printable_path(source)),
            hint: format!(
                "--all replays every task, --task ID one of them; `{} list` shows their ids",
                program()
            ),
        })
    }
}

fn parse_set_arg(text: &str) -> Result<(u16, String), &'static str> {
    const ACCEPTED: &str =
        "an argument is given as SLOT=VALUE, the slot counting tensors, then scalars, from 0";
    let (slot, value) = pair(text).ok_or(ACCEPTED)?;
    Ok((slot.parse().map_err(|_| ACCEPTED)?, value))
}

/// Called right before a kernel; two variables beside it hold the addresses of the kernel and of its `args[]`.
const STOP: &str = "tensortap_before_kernel";

/// Starts the debugger and waits for its end.
fn debug(program: &str, args: &ReplayArgs, config: &ReplayConfig) -> anyhow::Result<Exit> {
    if matches!(config.select, Selection::All | Selection::Given)
        && tensortap::format::Dump::open(&config.source).is_ok()
    {
        return Err(UsageError {
            message: "a debugger stops at one task".into(),
            hint: "name it with --task ID or --dispatch ID".into(),
        }
        .into());
    }
    if !args.trust {
        return Err(UsageError {
            message: "in a debugger kernels run in its process, which cannot be confined".into(),
            hint: "if you trust what you replay, add --trust".into(),
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
    command.arg(std::env::current_exe().context("finding this executable")?);
    command.args(replay_words(args, config));
    let status = match command.status() {
        Ok(status) => status,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(UsageError {
                message: format!("there is no program `{name}`"),
                hint: "install gdb, or name another debugger with --debugger=PROGRAM".into(),
            }
            .into());
        }
        Err(error) => return Err(error).with_context(|| format!("starting {name}")),
    };
    Ok(if status.success() { Exit::Good } else { Exit::Failed })
}

/// Stops right before the kernel, then at its first instruction, with `$kernel` and `$args` set. Other threads stand
/// still in between, so that the slots of a mix task do not overtake one another.
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

/// The replay itself, in one process and without a limit.
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
