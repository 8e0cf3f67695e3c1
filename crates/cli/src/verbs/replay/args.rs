use std::path::{Path, PathBuf};

use clap::Args;
use tensortap::format::Dump;
use tensortap::scene::Registry;
use tensortap::{ReplayConfig, Selection, TaskChoice};

use crate::device_args::{DEVICE, DeviceArgs, FailingArgs};
use crate::dump_arg::newest;
use crate::error::UsageError;
use crate::parse::{pair, whole};
use tensortap_query::ids::parse_id;
use tensortap_query::ids::parse_task_choice;

const CHANGING: &str = "Changing what runs";
const DEBUGGING: &str = "Debugging";

/// What `tensortap replay` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap replay --all                              every task of the newest dump, each for itself\n  \
    tensortap replay my_dump --task 0x100000002         one task, at its captured addresses\n  \
    tensortap replay --task 3 --reference               is what it computes right?\n  \
    tensortap replay --all --platform a5sim             on another platform, by rule\n  \
    tensortap replay --all --inject-fault mul=last      does a damaged kernel show?\n  \
    tensortap replay --task 3 --bench                   how long its kernel takes\n  \
    tensortap replay --task 3 --debugger                in gdb, at the kernel's first instruction\n  \
    tensortap replay cases                              every case of a folder, as tests\n\n\
    Exit status: 0 every task came out as captured, or as its references say; 1 one did not or was refused; 2 bad usage or unreadable \
    input; 3 no device; 130 interrupted")]
pub struct ReplayArgs {
    /// Dump, case, or folder of cases [default: the newest dump under outputs/]
    #[arg(value_name = "DUMP or CASE")]
    pub source: Option<PathBuf>,

    /// Every task, each for itself
    #[arg(long, group = "selection")]
    pub all: bool,

    /// Tasks by id, range or kernel, in hex, decimal or as ring and position: 3,0x100000002,1:2-1:9,softmax
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_task_choice, group = "selection")]
    pub task: Vec<TaskChoice>,

    /// One dispatch, by the id in kernel_args_dump.json: block << 40 | slot << 36 | task
    #[arg(long, value_name = "ID", value_parser = parse_id, group = "selection")]
    pub dispatch: Option<u64>,

    /// Only tasks with one of these kernels, by name, pattern or func_id: add*,3
    #[arg(long, value_name = "NAME_OR_ID", value_delimiter = ',')]
    pub func: Vec<String>,

    /// Hold outputs against the f64 references of the kernels, on the captured inputs, by the kernel's rule [default:
    /// against what was captured]
    #[arg(long)]
    pub reference: bool,

    /// Platform to replay on [default: the one it was captured on]
    #[arg(long, value_name = "NAME", help_heading = DEVICE)]
    pub platform: Option<String>,

    #[command(flatten)]
    pub device: DeviceArgs,

    /// Devices at once when there are many tasks [default: one per CPU, at most 4]
    #[arg(long, value_name = "N", value_parser = whole(1..=1024_usize), help_heading = DEVICE)]
    pub jobs: Option<usize>,

    #[command(flatten)]
    pub failing: FailingArgs,

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
        let source = self.source.clone().map_or_else(newest, Ok)?;
        let select = self.selection(&source)?;
        let mut config = ReplayConfig::new(source, registry.clone());
        config.select = select;
        config.funcs.clone_from(&self.func);
        config.platform.clone_from(&self.platform);
        config.device_mode = self.device.device_mode;
        config.device_memory = self.device.device_memory;
        config.blocks = self.device.blocks;
        config.jobs = self.jobs;
        config.stall_timeout = self.failing.stall_timeout.0;
        config.set_args.clone_from(&self.set_arg);
        config.reference = self.reference;
        config.allow_inexact = self.allow_inexact;
        config.inject_fault.clone_from(&self.failing.inject_fault);
        config.repeat = self.repeat;
        config.bench = self.bench;
        config.stop_at_kernel = self.stop_at_kernel;
        Ok(config)
    }

    /// A case is replayed without saying so; of a dump it must be said what.
    fn selection(&self, source: &Path) -> Result<Selection, UsageError> {
        if let Some(dispatch) = self.dispatch {
            return Ok(Selection::Dispatch(dispatch));
        }
        if !self.task.is_empty() {
            return Ok(Selection::Tasks(self.task.clone()));
        }
        if self.all || !self.func.is_empty() || Dump::open(source).is_err() {
            return Ok(Selection::All);
        }
        Err(UsageError {
            message: format!("{} has many tasks; say which", source.display()),
            hint: "--all replays every task, --task ID one of them; `tensortap list` shows their ids".into(),
        })
    }
}

fn parse_set_arg(text: &str) -> Result<(u16, String), &'static str> {
    const ACCEPTED: &str =
        "an argument is given as SLOT=VALUE, the slot counting tensors, then scalars, from 0";
    let (slot, value) = pair(text).ok_or(ACCEPTED)?;
    Ok((slot.parse().map_err(|_| ACCEPTED)?, value))
}
