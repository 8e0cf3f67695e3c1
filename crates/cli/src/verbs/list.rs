//! `tensortap list`: the records of a dump.

mod document;
mod foot;
mod row;
mod table;

use clap::Args;
use tensortap::format::Dump;

use crate::dump_arg::DumpArg;
use crate::exit::Exit;
use crate::output::Output;
use crate::select::{SelectArgs, Selection};

/// What `tensortap list` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap list                                 the newest dump under outputs/\n  \
    tensortap list --stage after --kind tensor     what every task produced\n  \
    tensortap list my_dump --func softmax --json\n\n\
    The dump of a run that still goes on, or that was torn, is listed as far as it goes.")]
pub struct ListArgs {
    #[command(flatten)]
    dump: DumpArg,
    #[command(flatten)]
    select: SelectArgs,
}

/// Lists the records.
pub fn run(args: &ListArgs, output: Output) -> anyhow::Result<Exit> {
    let dump = args.dump.open()?;
    let selection = args.select.selection(dump.info())?;
    if output.json {
        let selected = count(&dump, &selection)?;
        output.stream(|out| document::write(out, &dump, &selection, selected))?;
    } else {
        output.stream(|out| table::write(out, &dump, &selection))?;
    }
    Ok(Exit::Good)
}

/// Records selected. Reads the index once more rather than keep records in memory.
fn count(dump: &Dump, selection: &Selection<'_>) -> anyhow::Result<u64> {
    if selection.is_all() {
        return Ok(dump.len());
    }
    let mut selected = 0;
    for record in dump.records() {
        selected += u64::from(selection.holds(&record?));
    }
    Ok(selected)
}
