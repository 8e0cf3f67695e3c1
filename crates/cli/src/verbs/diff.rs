//! `tensortap diff`: every record beside what it should be.

mod csv;
mod document;
mod golden;
mod repeat;
mod text;

use std::path::PathBuf;

use clap::Args;
use tensortap::analysis::Work;
use tensortap::analysis::diff::{Diff, DiffOptions, diff_dumps};
use tensortap::format::{Dump, Record};

use crate::compare_args::CompareArgs;
use crate::dump_arg::DumpArg;
use crate::error::UsageError;
use crate::exit::Exit;
use crate::output::Output;
use crate::parallel::JobsArg;
use crate::progress::StepProgress;
use crate::select::SelectArgs;
use golden::GoldenFiles;

/// What `tensortap diff` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap diff right                           the newest dump against another\n  \
    tensortap diff wrong right --stage after       what tasks produced, worst first\n  \
    tensortap diff wrong golden.npz --csv          against arrays named as `export` names them\n  \
    tensortap diff --repeat-check first second     tasks that made something else of the same inputs\n\n\
    Exit status: 0 everything is within its rule, 1 something is not, 2 a dump cannot be read")]
pub struct DiffArgs {
    /// The dump and what it is compared with: a dump, a folder or a file of .npy, .npz or .safetensors arrays.
    /// One alone is compared with the newest dump under outputs/
    #[arg(value_name = "DUMP", required = true)]
    paths: Vec<PathBuf>,

    /// Group the tasks of all dumps by kernel and inputs, and report those whose outputs differ
    #[arg(long)]
    repeat_check: bool,

    /// List records that pass, too
    #[arg(long)]
    all: bool,

    /// Print comma-separated values, one line for each record
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    #[command(flatten)]
    compare: CompareArgs,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    select: SelectArgs,
}

/// Everything that is reported.
struct Report<'a> {
    dump: &'a Dump,
    golden: String,
    diff: &'a Diff,
    passes: bool,
    all: bool,
}

/// What a dump is compared with.
enum Golden {
    Dump(Box<Dump>),
    Files(GoldenFiles),
}

/// Compares records and prints them, the worst first.
pub fn run(args: &DiffArgs, output: Output) -> anyhow::Result<Exit> {
    if args.repeat_check {
        return repeat::run(&args.paths, output);
    }
    let (dump, golden) = match args.paths.as_slice() {
        [golden] => (DumpArg::named(None).open()?, golden),
        [dump, golden] => (Dump::open(dump)?, golden),
        _ => return Err(too_many().into()),
    };
    let golden_name = golden.display().to_string();
    let golden = golden::open(golden)?;
    let selection = args.select.selection(&dump, output)?;
    let progress = StepProgress::new(output, dump.len());
    let show = |done: u64, of: u64| progress.at(done, of);
    let options = DiffOptions {
        rules: args.compare.rules(dump.info())?,
        other_dtypes: args.compare.golden_dtype,
        work: Work { threads: args.jobs.get(), progress: &show },
    };
    let records: Vec<Record> = selection.records(&dump).collect::<Result<_, _>>()?;
    if records.is_empty() && !selection.is_all() && !dump.is_empty() {
        let why = selection.why_empty(&dump)?;
        drop(progress);
        return empty(&dump, &golden_name, &why, args, output);
    }
    let diff = match &golden {
        Golden::Dump(golden) => diff_dumps(&dump, golden, &records, &options)?,
        Golden::Files(files) => files.diff(&dump, &records, &options)?,
    };
    drop(progress);
    let passes = diff.passes(args.compare.allow_unmatched);
    let report = Report { dump: &dump, golden: golden_name, diff: &diff, passes, all: args.all };
    print(&report, args, output)?;
    Ok(if passes { Exit::Good } else { Exit::Difference })
}

fn print(report: &Report<'_>, args: &DiffArgs, output: Output) -> anyhow::Result<()> {
    if output.json {
        output.document(&document::of(report))
    } else if args.csv {
        output.stream(|out| csv::write(out, report))
    } else {
        let mut text = Vec::new();
        text::write(&mut text, report)?;
        output.text(&String::from_utf8_lossy(&text))
    }
}

/// Nothing was selected, which is no difference.
fn empty(dump: &Dump, golden: &str, why: &str, args: &DiffArgs, output: Output) -> anyhow::Result<Exit> {
    if output.json || args.csv {
        let diff = Diff::default();
        print(
            &Report { dump, golden: golden.into(), diff: &diff, passes: true, all: args.all },
            args,
            output,
        )?;
    } else {
        output.text(&format!("{why}\n"))?;
    }
    Ok(Exit::Good)
}

fn too_many() -> UsageError {
    UsageError {
        message: "a dump is compared with one other".into(),
        hint: "`tensortap diff --repeat-check` takes several dumps".into(),
    }
}
