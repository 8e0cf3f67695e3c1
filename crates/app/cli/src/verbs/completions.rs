//! `tensortap completions`: completion scripts for shells.

use clap::{Args, ValueEnum};
use clap_complete::Shell;
use serde::Serialize;

use crate::error::Exit;
use crate::output::Output;
use crate::program::program;

/// Arguments of `tensortap completions`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap completions bash > ~/.local/share/bash-completion/completions/tensortap\n  \
    tensortap completions zsh > ~/.zfunc/_tensortap\n  \
    tensortap completions fish > ~/.config/fish/completions/tensortap.fish")]
pub struct CompletionsArgs {
    /// Shell to print the script for
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// The JSON document.
#[derive(Serialize)]
struct CompletionsDocument {
    shell: String,
    script: String,
}

/// Prints the script.
pub fn run(args: &CompletionsArgs, output: Output) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), program(), &mut script);
    let script = String::from_utf8(script)?;
    if output.json {
        let shell = args.shell.to_possible_value().map(|value| value.get_name().to_owned());
        output.document(&CompletionsDocument { shell: shell.unwrap_or_default(), script })?;
    } else {
        output.text(&script)?;
    }
    Ok(Exit::Good)
}
