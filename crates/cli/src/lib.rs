//! The command line of tensortap as a call: [`main_with`] serves every verb for the scenes it is given.
//!
//! The `tensortap` binary is this with the built-in scenes. A program that brings scenes of its own is as short:
//!
//! ```no_run
//! # use tensortap::scene::Registry;
//! # fn my_scenes() -> Registry { Registry::default() }
//! fn main() -> std::process::ExitCode {
//!     tensortap_cli::main_with(my_scenes())
//! }
//! ```
//!
//! `run` runs them, `scenes` lists them, and `blame --reference`, `diff --scene-golden`, `replay` and `extract` find the
//! kernels of the program's dumps. The device is a process started from the same executable, which knows the same scenes.
#![forbid(unsafe_code)]

mod compare_args;
mod device_args;
mod dump_arg;
mod dump_args;
mod error;
mod fit;
mod interrupt;
mod kernel_args;
mod labels;
mod output;
mod parse;
mod program;
mod progress;
mod ranks;
mod select;
mod stream_table;
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

/// Records what every task of a graph was given and made, and finds out which went wrong.
#[derive(Parser)]
#[command(
    name = "tensortap",
    version = version::SHORT.as_str(),
    long_version = version::LONG.as_str(),
    after_help = "First steps:\n  \
        tensortap run paged_attention --dump-tensor   run a scene, check its result, record every task\n  \
        tensortap list                                see what was recorded\n  \
        tensortap show INDEX                          look into one of the records\n  \
        tensortap scenes                              see what can be run\n  \
        tensortap record -- ./program                 record a program of your own\n  \
        tensortap run --help                          see what can be changed\n\n\
        Topics:\n  \
        tensortap help selectors                      which records a verb is about\n  \
        tensortap help faults                         kernels damaged on purpose\n  \
        tensortap help rules                          how far a record may be from its golden",
    // Colour is kept for verdicts.
    styles = Styles::plain(),
    max_term_width = 100
)]
struct Cli {
    #[command(flatten)]
    common: CommonArgs,
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// The command line, with the name of this program.
fn command() -> clap::Command {
    program::named(Cli::command())
}

/// The scenes of the `tensortap` binary: the built-in ones, and, hidden, those made for tests and those that `bench` measures.
pub fn scenes() -> Registry {
    tensortap::builtin().and(&tensortap_test_scenes::all()).and(&tensortap_bench::scenes())
}

/// The whole command line for these scenes: reads the words of this process, does what they ask, and says how the process ends.
///
/// Call it first in `main`: in a device process, which is started from the same executable, it never returns.
#[expect(clippy::needless_pass_by_value, reason = "a program gives its scenes away and is done")]
pub fn main_with(registry: Registry) -> ExitCode {
    program::started_as(std::env::args_os().next().as_deref());
    // A file that may not become larger is an error to be told, in every verb.
    tensortap::make_file_limits_errors();
    // A device process never gets past this line. `bench` measures scenes of its own, whatever others there are.
    tensortap::become_device_if_asked_with(tensortap_bench::registry_with(&registry));
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
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }
}
