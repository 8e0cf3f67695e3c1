//! `tensortap tui`: a dump in the terminal.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tensortap::scene::Registry;
use tensortap_tui::{Ended, Look, Looked, TuiError};

use crate::dump_arg::{DumpArg, existing, golden_of};
use crate::error::{Exit, UsageError};
use crate::output::Output;

/// What `tensortap tui` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap tui                                   the newest dump under outputs/\n  \
    tensortap tui my_dump --golden right            held against a run that was right\n\n\
    Rooms: tasks, task, tensor, diff and graph, by their numbers. Keys stand at the bottom, `?` has all of them, `/` takes selectors as \
    every verb does (func:mul stage:after nan), the mouse works. Without --golden the room diff holds tasks against the references of \
    their scene. NO_COLOR or --color never shows the same without colours.")]
pub struct TuiArgs {
    #[command(flatten)]
    dump: DumpArg,

    /// What the dump is held against: the dump of a run that was right, or arrays in files
    #[arg(long, value_name = "DUMP")]
    golden: Option<PathBuf>,
}

/// Shows the dump until the user has seen enough.
pub fn run(args: &TuiArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let member = args.dump.open_set()?.one_member()?;
    let golden = args.golden.clone().map(|path| existing(Some(path))).transpose()?;
    let golden = golden.map(|path| golden_of(&path, member.rank)).transpose()?;
    let looked = Looked { dump: Arc::new(member.dump), golden, registry: registry.clone() };
    if output.json {
        return Err(UsageError {
            message: "a viewer has no document".into(),
            hint: "`tensortap list --json` and `summary --json` have the same".into(),
        }
        .into());
    }
    match tensortap_tui::run(&looked, Look { colours: crate::output::has_colours() }) {
        Ok(Ended::ByUser) => Ok(Exit::Good),
        Ok(Ended::BySignal(signal)) => {
            Ok(Exit::Interrupted { signal: u8::try_from(signal).unwrap_or(u8::MAX) })
        }
        Err(error @ TuiError::NoTerminal) => Err(UsageError {
            message: error.to_string(),
            hint: "`tensortap summary` and `tensortap show TASK` print the same".into(),
        }
        .into()),
        Err(error) => Err(error.into()),
    }
}
