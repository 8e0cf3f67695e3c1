//! The command line of tensortap as a library: [`main_with`] runs every verb for the scenes of the caller.
//!
//! The `tensortap` binary calls it with the built-in scenes. A program with its own scenes is just as short:
//!
//! ```no_run
//! # use tensortap::scene::Registry;
//! # fn my_scenes() -> Registry { Registry::default() }
//! fn main() -> std::process::ExitCode {
//!     tensortap_cli::main_with(my_scenes())
//! }
//! ```
//!
//! `run` runs these scenes and `scenes` lists them. `blame --reference`, `diff --scene-golden`, `replay` and `extract`
//! use their kernels to read the program's dumps. The simulated device is a process started from the same executable,
//! so it has the same scenes.
//!
//! # Features
//!
//! | feature | default | adds |
//! | --- | --- | --- |
//! | `web` | yes | the verbs `report` and `serve` |
//! | `tui` | yes | the verb `tui` |
//! | `bench` | yes | the verb `bench`, and the hidden scene `bench_dispatch` |
//! | `test-scenes` | no | scenes that only tests need; tests of this crate always have them |
//!
//! Every combination compiles, also `--no-default-features`.
#![forbid(unsafe_code)]

mod compare_args;
mod device_args;
mod dump_path;
mod error;
mod recording_args;

mod interrupt;
mod joint_ranks;
mod kernel_args;
mod labels;
mod output;
mod parse;
mod program;
mod progress;
mod ranks;
mod select;
mod table;
mod types_arg;
mod usage;
mod verbs;
mod version;
mod whole_file;

use std::process::ExitCode;

use clap::builder::styling::Styles;
use clap::{CommandFactory, Parser};
use tensortap::scene::Registry;

use crate::error::Exit;
use crate::output::{CommonArgs, Output};
use crate::verbs::Verb;

/// Record what every task of an accelerator graph reads and writes, and find the first wrong task.
#[derive(Parser)]
#[command(
    name = "tensortap",
    version = version::SHORT.as_str(),
    long_version = version::LONG.as_str(),
    after_help = "First steps:\n  \
        tensortap run paged_attention --dump-tensor   run a scene, check its result, record every task\n  \
        tensortap list                                list the records\n  \
        tensortap show INDEX                          show one record\n  \
        tensortap scenes                              list the scenes\n  \
        tensortap record -- ./program                 record your own program\n  \
        tensortap run --help                          list the options of a run\n\n\
        Topics:\n  \
        tensortap help selectors                      choose records\n  \
        tensortap help faults                         damage a kernel on purpose\n  \
        tensortap help rules                          tolerances of a comparison",
    // Only verdicts are colored.
    styles = Styles::plain(),
    max_term_width = 100
)]
struct Cli {
    #[command(flatten)]
    common: CommonArgs,
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// The definition of the command line, with the name of this program in its help.
fn command() -> clap::Command {
    program::named(Cli::command())
}

/// The scenes of the `tensortap` binary: the built-in ones, and hidden ones that fail on purpose or that `bench`
/// measures. With the feature `test-scenes`, also the scenes that only tests need.
pub fn scenes() -> Registry {
    let failing = match cfg!(feature = "test-scenes") {
        true => tensortap_test_scenes::all(),
        false => tensortap_test_scenes::documented(),
    };
    device_scenes(&tensortap::builtin().and(&failing))
}

/// These scenes, and those that `bench` runs on the device.
fn device_scenes(registry: &Registry) -> Registry {
    #[cfg(feature = "bench")]
    return tensortap_bench::registry_with(registry);
    #[cfg(not(feature = "bench"))]
    registry.clone()
}

/// Runs the command line of this process with these scenes, and returns the exit status of the process.
///
/// Call it first in `main`: the device process is started from the same executable, and this call never returns there.
#[expect(clippy::needless_pass_by_value, reason = "the caller is done with its scenes")]
pub fn main_with(registry: Registry) -> ExitCode {
    program::started_as(std::env::args_os().next().as_deref());
    // Without this, a file size limit ends the process instead of causing an error.
    tensortap::make_file_limits_errors();
    // A device process does not return from this call.
    tensortap::become_device_if_asked_with(device_scenes(&registry));
    let cli = match usage::parse::<Cli>() {
        Ok(cli) => cli,
        Err(exit) => return exit.into(),
    };
    let output = Output::new(&cli.common);
    let outcome = match &cli.verb {
        Some(verb) => verb.run(&registry, output),
        None => output.text(&command().render_help().to_string()).map(|()| Exit::Good),
    };
    let scene = cli.verb.as_ref().and_then(Verb::scene);
    outcome.unwrap_or_else(|error| error::report(&error, scene, output)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
