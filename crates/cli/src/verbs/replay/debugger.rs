//! `--debugger`: the same replay in one process, under a debugger that stops at the kernel.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::Command;

use anyhow::Context;
use tensortap::{ReplayConfig, Selection, TaskChoice};

use super::ReplayArgs;
use crate::error::UsageError;
use crate::exit::Exit;

/// Called right before a kernel; two variables beside it hold the addresses of the kernel and of its `args[]`.
const STOP: &str = "tensortap_before_kernel";

/// Starts the debugger and waits for its end.
pub fn run(program: &str, args: &ReplayArgs, config: &ReplayConfig) -> anyhow::Result<Exit> {
    if config.select == Selection::All && tensortap::format::Dump::open(&config.source).is_ok() {
        return Err(UsageError {
            message: "a debugger stops at one task".into(),
            hint: "name it with --task ID or --dispatch ID".into(),
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
    args.task.iter().for_each(|choice| match choice {
        TaskChoice::Ids(first, last) => option("task", format!("{first}-{last}")),
        TaskChoice::Kernel(name) => option("task", name.clone()),
    });
    args.dispatch.iter().for_each(|id| option("dispatch", id.to_string()));
    args.func.iter().for_each(|func| option("func", func.clone()));
    args.platform.iter().for_each(|name| option("platform", name.clone()));
    args.device.device_memory.iter().for_each(|bytes| option("device-memory", bytes.to_string()));
    args.device.blocks.iter().for_each(|blocks| option("blocks", blocks.to_string()));
    args.set_arg.iter().for_each(|(slot, value)| option("set-arg", format!("{slot}={value}")));
    args.failing
        .inject_fault
        .iter()
        .for_each(|(kernel, kind)| option("inject-fault", format!("{kernel}={kind}")));
    option("device-mode", "thread".into());
    option("stall-timeout", "0".into());
    words.push("--stop-at-kernel".into());
    if args.reference {
        words.push("--reference".into());
    }
    if args.allow_inexact {
        words.push("--allow-inexact".into());
    }
    words
}
