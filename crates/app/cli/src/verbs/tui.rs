//! `tensortap tui`: views a dump in the terminal.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tensortap::scene::Registry;
use tensortap_tui::{ExitReason, Theme, TuiError, ViewerInput};

use crate::dump_path::{DumpPathArg, existing, golden_for_rank};
use crate::error::{Exit, UsageError};
use crate::output::Output;

/// Arguments of `tensortap tui`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap tui                                   the newest dump under outputs/\n  \
    tensortap tui my_dump --golden right            compare with a correct run\n\n\
    The views tasks, task, tensor, diff and graph are selected by number. The bottom line lists the most important keys, \
    and `?` lists all. `/` accepts selectors (func:mul stage:after nan). The mouse works. Without --golden, the view diff \
    compares tasks with the references of their scene. NO_COLOR or --color never turns colors off.")]
pub struct TuiArgs {
    #[command(flatten)]
    dump: DumpPathArg,

    /// Golden to compare the dump with: the dump of a correct run, or array files
    #[arg(long, value_name = "DUMP")]
    golden: Option<PathBuf>,
}

/// Shows the dump until the user quits.
pub fn run(args: &TuiArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let member = args.dump.open_set()?.one_member()?;
    let golden = args.golden.clone().map(|path| existing(Some(path))).transpose()?;
    let golden = golden.map(|path| golden_for_rank(&path, member.rank)).transpose()?;
    let input = ViewerInput { dump: Arc::new(member.dump), golden, registry: registry.clone() };
    if output.json {
        return Err(UsageError {
            message: "the terminal viewer has no JSON output".into(),
            hint: "use `tensortap list --json` or `tensortap summary --json`".into(),
        }
        .into());
    }
    match tensortap_tui::run(&input, Theme { colors: crate::output::has_colors() }) {
        Ok(ExitReason::ByUser) => Ok(Exit::Good),
        Ok(ExitReason::BySignal(signal)) => {
            Ok(Exit::Interrupted { signal: u8::try_from(signal).unwrap_or(u8::MAX) })
        }
        Err(error @ TuiError::NoTerminal) => Err(UsageError {
            message: error.to_string(),
            hint:
                "use `tensortap list`, `tensortap summary` or `tensortap show TASK`, which need no terminal"
                    .into(),
        }
        .into()),
        Err(error) => Err(error.into()),
    }
}
