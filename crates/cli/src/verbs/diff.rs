//! `tensortap diff`: every record beside what it should be.

mod outputs;
mod repeat;
mod text;
mod unlike;

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tensortap::analysis::diff::{Diff, DiffOptions, DiffRow};
use tensortap::analysis::{Progress, Work};
use tensortap::format::{Dump, Record};
use tensortap::judge::Verdict;
use tensortap::scene::Registry;

use crate::compare_args::CompareArgs;
use crate::dump_arg::{DumpArg, RankArg, golden_of, quoted};
use crate::error::{Exit, UsageError};
use crate::output::Output;
use crate::parse::{JobsArg, whole};
use crate::program::program;
use crate::progress::StepProgress;
use crate::select::SelectArgs;
use tensortap_query::diff::{DiffReport, Sort, details, ranked};
use tensortap_query::document::{DiffDocument, verdict_word};
use tensortap_query::fields::{Cells, DIFF_CSV, Row, csv_head, fields};
use tensortap_query::golden::{Golden, open};

/// What `tensortap diff` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap diff right                           the newest dump against another\n  \
    tensortap diff wrong right --stage after       what tasks produced, where an error began first\n  \
    tensortap diff wrong right --sort error --limit 5\n  \
    tensortap diff wrong golden.npz --csv          against arrays named as `export` names them\n  \
    tensortap diff wrong --scene-golden            what the run left in its outputs, against its scene\n  \
    tensortap diff --repeat-check first second     tasks that made something else of the same inputs\n\n\
    Exit status: 0 everything is within its rule, 1 something is not, 2 a dump cannot be read")]
pub struct DiffArgs {
    /// The dump and what it is compared with: a dump, a folder or a file of .npy, .npz or .safetensors arrays.
    /// One alone is compared with the newest dump under outputs/
    #[arg(value_name = "DUMP", required_unless_present = "scene_golden")]
    paths: Vec<PathBuf>,

    /// Compare the outputs of the run with the golden that its scene computes for itself
    #[arg(long, conflicts_with_all = ["repeat_check", "golden_dtype", "allow_unmatched"])]
    scene_golden: bool,

    /// Group the tasks of all dumps by kernel and inputs, and report those whose outputs differ
    #[arg(long)]
    repeat_check: bool,

    /// List records that pass, too
    #[arg(long)]
    all: bool,

    /// What stands first among records outside their rule: where an error began (dependency order), or the greatest error,
    /// share of elements outside, or distance in ulps
    #[arg(long, value_name = "KEY", default_value = "order", value_parser = sorts(), conflicts_with_all = ["repeat_check", "scene_golden"])]
    sort: Sort,

    /// List at most this many records [default: 40 in the table, all with --json and --csv]
    #[arg(long, value_name = "N", value_parser = whole(0_usize..), conflicts_with_all = ["repeat_check", "scene_golden"])]
    limit: Option<usize>,

    /// List records with this verdict alone; may be given several times
    #[arg(long, value_name = "VERDICT", value_parser = verdicts(), conflicts_with_all = ["repeat_check", "scene_golden"])]
    only: Vec<Verdict>,

    /// Print comma-separated values, one line for each record
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    #[command(flatten)]
    rank: RankArg,
    #[command(flatten)]
    compare: CompareArgs,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    select: SelectArgs,
}

/// Everything that is reported.
struct Report<'a> {
    diff: DiffReport<'a>,
    all: bool,
    limit: Option<usize>,
    only: Vec<Verdict>,
    sort: Sort,
    allow_unmatched: bool,
    /// The command that goes on from here.
    next: Option<String>,
}

/// The records that machines are given.
fn listed<'a>(report: &Report<'a>) -> Vec<&'a DiffRow> {
    let mut rows = ranked(report.diff.diff, report.sort);
    rows.retain(|row| report.only.is_empty() || report.only.contains(&row.outcome.verdict));
    rows.truncate(report.limit.unwrap_or(usize::MAX));
    rows
}

/// Compares records and prints them, those first where an error began.
pub fn run(args: &DiffArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    if args.repeat_check {
        return repeat::run(&args.paths, output);
    }
    if args.scene_golden {
        return outputs::run(args, registry, output);
    }
    let (member, golden_path) = match args.paths.as_slice() {
        [golden] => (DumpArg::named(None, &args.rank).open_member()?, golden),
        [dump, golden] => (DumpArg::named(Some(dump.clone()), &args.rank).open_member()?, golden),
        _ => return Err(too_many().into()),
    };
    let golden_path = &golden_of(golden_path, member.rank)?;
    let dump = member.dump;
    let golden_name = golden_path.display().to_string();
    let golden = open(golden_path)?;
    let selection = args.select.selection(&dump, output)?;
    let progress = StepProgress::new(output, dump.len());
    let show = |done: u64, of: u64| progress.at(done, of);
    let options = args.options(&dump, &show)?;
    let records: Vec<Record> = selection.records(&dump).collect::<Result<_, _>>()?;
    if records.is_empty() && !selection.is_all() && !dump.is_empty() {
        let why = selection.why_empty(&dump)?;
        drop(progress);
        return empty(&dump, golden_name, &why, args, output);
    }
    let diff = golden.diff(&dump, &records, &options)?;
    let details = details(&dump, &golden, &diff, args.sort, &options)?;
    drop(progress);
    let passes = diff.passes(args.compare.allow_unmatched);
    let next = (!passes).then(|| next_step(&dump, &golden));
    let unlike = golden.dump().and_then(|golden| unlike::runs(&dump, golden));
    let hint = unlike::hint(&golden, &diff, args.compare.golden_dtype);
    let diff = DiffReport { dump: &dump, golden: golden_name, diff: &diff, details, passes, unlike, hint };
    let report = Report { next, ..args.report(diff) };
    print(&report, args, output)?;
    Ok(if passes { Exit::Good } else { Exit::Difference })
}

impl DiffArgs {
    fn report<'a>(&self, diff: DiffReport<'a>) -> Report<'a> {
        Report {
            diff,
            all: self.all,
            limit: self.limit,
            only: self.only.clone(),
            sort: self.sort,
            allow_unmatched: self.compare.allow_unmatched,
            next: None,
        }
    }

    fn options<'a>(&self, dump: &Dump, progress: &'a Progress<'a>) -> anyhow::Result<DiffOptions<'a>> {
        Ok(DiffOptions {
            rules: self.compare.rules(dump.info())?,
            other_dtypes: self.compare.golden_dtype,
            steps: self.select.steps().to_vec(),
            work: Work { threads: self.jobs.get(), progress },
        })
    }
}

/// Which task is wrong is for `blame` to say.
fn next_step(dump: &Dump, golden: &Golden) -> String {
    let dump = quoted(dump.dir());
    match golden {
        Golden::Dump(golden) => format!("{} blame {dump} --golden {}", program(), quoted(golden.dir())),
        Golden::Files(_) => format!("{} blame {dump} --reference", program()),
    }
}

fn verdicts() -> impl TypedValueParser<Value = Verdict> {
    const VERDICTS: [Verdict; 3] = [Verdict::Within, Verdict::Outside, Verdict::Unknown];
    PossibleValuesParser::new(VERDICTS.map(verdict_word)).try_map(|word| {
        VERDICTS.into_iter().find(|verdict| verdict_word(*verdict) == word).ok_or("no such verdict")
    })
}

fn sorts() -> impl TypedValueParser<Value = Sort> {
    PossibleValuesParser::new(Sort::ALL.map(Sort::name))
        .try_map(|word| Sort::ALL.into_iter().find(|sort| sort.name() == word).ok_or("no such order"))
}

/// Writes every record, in the order asked for.
fn write_csv(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    let columns = fields(DIFF_CSV);
    let mut cells = Cells::new(report.diff.dump);
    writeln!(out, "{}", csv_head(&columns))?;
    for row in listed(report) {
        let mut line = String::new();
        cells.write_csv(&columns, &Row::compared(row), &mut line);
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn print(report: &Report<'_>, args: &DiffArgs, output: Output) -> anyhow::Result<()> {
    if output.json {
        output.document(&DiffDocument::of(&report.diff, &listed(report)))
    } else if args.csv {
        output.stream(|out| write_csv(out, report))
    } else {
        let mut text = Vec::new();
        text::write(&mut text, report)?;
        output.text(&String::from_utf8_lossy(&text))
    }
}

/// Nothing was selected, which is no difference.
fn empty(dump: &Dump, golden: String, why: &str, args: &DiffArgs, output: Output) -> anyhow::Result<Exit> {
    if output.json || args.csv {
        let nothing = Diff::default();
        let report = DiffReport {
            dump,
            golden,
            diff: &nothing,
            details: HashMap::new(),
            passes: true,
            unlike: None,
            hint: None,
        };
        print(&args.report(report), args, output)?;
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
