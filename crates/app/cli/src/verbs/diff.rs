//! `tensortap diff`: compares records with those of another dump or with arrays.

mod outputs;
mod repeat;
mod text;

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::TypedValueParser;
use serde_json::Value;
use tensortap::analysis::diff::{Diff, DiffOptions, DiffRow};
use tensortap::analysis::{Progress, Work};
use tensortap::format::{Dump, Record};
use tensortap::judge::Profile;
use tensortap::judge::{Evidence, Verdict};
use tensortap::scene::Registry;

use crate::compare_args::CompareArgs;
use crate::dump_path::{DumpPathArg, RankArg, quoted};
use crate::error::{Exit, UsageError};
use crate::output::Output;
use crate::parse::{JobsArg, choice, whole};
use crate::program::program;
use crate::progress::StepProgress;
use crate::ranks::{self, DumpVerdict, VerdictDetail};
use crate::select::SelectArgs;
use tensortap_query::diff::{DiffReport, Sort, details, ranked};
use tensortap_query::document::{DiffDocument, verdict_word};
use tensortap_query::fields::{Cells, DIFF_CSV, Field, Row, csv_head, fields};
use tensortap_query::golden::{Golden, golden_end, open};
use tensortap_query::number::counted_in;
use tensortap_query::words::printable;
use tensortap_query::{OUTPUTS, Pair, newest};

/// Arguments of `tensortap diff`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap diff right                           compare the newest dump with another\n  \
    tensortap diff wrong right --stage after       compare outputs of tasks, first errors first\n  \
    tensortap diff wrong right --sort error --limit 5\n  \
    tensortap diff wrong golden.npz --csv          compare with arrays, named as `export` does\n  \
    tensortap diff wrong --scene-golden            compare the outputs of the run with its scene\n  \
    tensortap diff --repeat-check first second     find tasks with equal inputs and different outputs\n  \
    tensortap diff wrong_run right_run             run folders: compare each rank with the same rank\n\n\
    Exit status: 0 every record is within its rule, 1 some record is not, 2 a dump cannot be read")]
pub struct DiffArgs {
    /// The dump and its golden: a dump, or a file or folder of .npy, .npz or .safetensors arrays. With one path, the
    /// newest dump under outputs/ is compared with it
    #[arg(value_name = "DUMP")]
    paths: Vec<PathBuf>,

    /// Compare the outputs of the run with the golden that its scene computes
    #[arg(long, conflicts_with_all = ["repeat_check", "golden_dtype", "allow_unmatched"])]
    scene_golden: bool,

    /// Report tasks of all dumps that have the same kernel and inputs but different outputs
    #[arg(long)]
    repeat_check: bool,

    /// Scene folder to use instead of the one recorded in the dump
    #[arg(long, value_name = "DIR", requires = "scene_golden")]
    scene: Option<PathBuf>,

    /// Also list records that pass
    #[arg(long)]
    all: bool,

    /// Order of the records outside their rule: dependency order, or the largest error, share of wrong elements or
    /// distance in ulps first
    #[arg(long, value_name = "KEY", default_value = "order", value_parser = choice(Sort::ALL.map(|sort| (sort.name(), sort))), conflicts_with_all = ["repeat_check", "scene_golden"])]
    sort: Sort,

    /// List at most this many records [default: 40; in JSON and CSV: all]
    #[arg(long, value_name = "N", value_parser = whole(0_usize..), conflicts_with_all = ["repeat_check", "scene_golden"])]
    limit: Option<usize>,

    /// List only records with this verdict; repeatable
    #[arg(long, value_name = "VERDICT", value_parser = verdicts(), conflicts_with_all = ["repeat_check", "scene_golden"])]
    only: Vec<Verdict>,

    /// Print CSV, one line for each record
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

/// The data of a report.
struct Report<'a> {
    diff: DiffReport<'a>,
    all: bool,
    limit: Option<usize>,
    only: Vec<Verdict>,
    sort: Sort,
    allow_unmatched: bool,
    /// Why the golden lacks records, if its run ended early.
    golden_end: Option<String>,
    /// The suggested next command.
    next: Option<String>,
    /// Why the selectors match nothing.
    why_empty: Option<String>,
}

/// The records for JSON and CSV.
fn listed<'a>(report: &Report<'a>) -> Vec<&'a DiffRow> {
    let mut rows = ranked(report.diff.diff, report.sort);
    rows.retain(|row| report.only.is_empty() || report.only.contains(&row.outcome.verdict));
    rows.truncate(report.limit.unwrap_or(usize::MAX));
    rows
}

/// Compares records and prints them, first errors first.
pub fn run(args: &DiffArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    if args.repeat_check {
        return repeat::run(&args.paths, output);
    }
    if args.scene_golden {
        return outputs::run(args, registry, output);
    }
    let (dump, golden) = match args.paths.as_slice() {
        [] => return Err(alone(None).into()),
        [golden] if has_no_other(golden) => return Err(alone(Some(golden)).into()),
        [golden] => (None, golden),
        [dump, golden] => (Some(dump.clone()), golden),
        _ => return Err(too_many().into()),
    };
    let set = DumpPathArg::named(dump, &args.rank).open_set()?;
    let folder = set.path().to_owned();
    let pairs = ranks::pairs(set, Some(golden), &args.rank)?;
    if let [Pair::Paired { member, golden: Some(golden), .. }] = pairs.as_slice() {
        return compare(args, &member.dump, golden, output, |report| {
            print(&report, args, output)?;
            Ok(if report.diff.passes { Exit::Good } else { Exit::Difference })
        });
    }
    let mut has_head = false;
    ranks::judge_each(&folder, pairs, args.compare.allow_unmatched, output, |member, held_against| {
        compare(args, &member.dump, held_against.unwrap_or(golden), output, |report| {
            let detail = report.detail(args, output, member.rank, !std::mem::replace(&mut has_head, true))?;
            Ok(DumpVerdict { passes: report.diff.passes, headline: report.headline(), detail })
        })
    })
}

/// Compares the records of one dump and passes the report to `tell`.
fn compare<T>(
    args: &DiffArgs,
    dump: &Dump,
    golden_path: &Path,
    output: Output,
    tell: impl FnOnce(Report<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let golden = open(golden_path)?;
    let golden_name = golden_path.display().to_string();
    let selection = args.select.selection(dump, output)?;
    let progress = StepProgress::new(output, dump.len());
    let show = |done: u64, of: u64| progress.at(done, of);
    let options = args.options(dump, Some(&golden), &show)?;
    let records: Vec<Record> = selection.records(dump).collect::<Result<_, _>>()?;
    if records.is_empty() && !selection.is_all() && !dump.is_empty() {
        let why_empty = Some(selection.why_empty(dump)?);
        drop(progress);
        // An empty selection is not a difference.
        let (diff, details) = (&Diff::default(), HashMap::new());
        let diff =
            DiffReport { dump, golden: golden_name, diff, details, passes: true, unlike: None, hint: None };
        return tell(Report { why_empty, ..args.report(diff) });
    }
    let diff = golden.diff(dump, &records, &options)?;
    let details = details(dump, &golden, &diff, args.sort, &options)?;
    drop(progress);
    let passes = diff.passes(args.compare.allow_unmatched);
    // If records are only missing, no task is wrong.
    let is_outside = diff.rows.iter().any(|row| row.outcome.verdict == Verdict::Outside);
    let next = is_outside.then(|| next_step(dump, &golden));
    let unlike = golden.dump().and_then(|golden| unlike_runs(dump, golden));
    let hint = dtype_hint(&golden, &diff, args.compare.golden_dtype);
    let diff = DiffReport { dump, golden: golden_name, diff: &diff, details, passes, unlike, hint };
    let golden_end = golden.dump().and_then(golden_end);
    tell(Report { golden_end, next, ..args.report(diff) })
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
            golden_end: None,
            next: None,
            why_empty: None,
        }
    }

    fn options<'a>(
        &self,
        dump: &Dump,
        golden: Option<&Golden>,
        progress: &'a Progress<'a>,
    ) -> anyhow::Result<DiffOptions<'a>> {
        Ok(DiffOptions {
            rules: self.compare.rules(dump.info(), Profile::Default)?,
            other_dtypes: self.compare.golden_dtype,
            steps: self.select.steps().to_vec(),
            golden_steps: golden.map_or(Ok(Vec::new()), |golden| self.compare.golden_steps(golden))?,
            work: Work { threads: self.jobs.get(), progress },
        })
    }
}

/// The `blame` command that finds the wrong task.
fn next_step(dump: &Dump, golden: &Golden) -> String {
    let dump = quoted(dump.dir());
    match golden {
        Golden::Dump(golden) => format!("{} blame {dump} --golden {}", program(), quoted(golden.dir())),
        Golden::Files(_) => format!("{} blame {dump} --reference", program()),
    }
}

/// A sentence if dump and golden are of different scenes or parameters; `None` if they are not or if that is unknown.
fn unlike_runs(dump: &Dump, golden: &Dump) -> Option<String> {
    let (ours, theirs) = (dump.info(), golden.info());
    if dump.format().is_foreign() || golden.format().is_foreign() {
        return None;
    }
    if ours.scene != theirs.scene {
        let (ours, theirs) = (printable(&ours.scene), printable(&theirs.scene));
        return Some(format!("different scenes: {ours} in the dump, {theirs} in the golden"));
    }
    let names: BTreeSet<&String> = ours.params.keys().chain(theirs.params.keys()).collect();
    let differing: Vec<String> = names
        .into_iter()
        .filter(|name| ours.params.get(*name) != theirs.params.get(*name))
        .map(|name| {
            let [ours, theirs] = [&ours.params, &theirs.params].map(|params| value(params.get(name)));
            printable(&format!("{name} is {ours} in the dump, {theirs} in the golden")).into_owned()
        })
        .collect();
    (!differing.is_empty()).then(|| format!("different parameters: {}", differing.join("; ")))
}

fn value(value: Option<&Value>) -> String {
    match value {
        None => "missing".into(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Suggests `--golden-dtype` if records failed because of a different float dtype.
fn dtype_hint(golden: &Golden, diff: &Diff, allowed: bool) -> Option<String> {
    let is_refused = |row: &&DiffRow| {
        let unmeasured = matches!(row.outcome.evidence, Evidence::None(_) | Evidence::Damaged(_));
        row.outcome.verdict == Verdict::Outside
            && unmeasured
            && golden
                .dtype(row)
                .is_some_and(|theirs| theirs != row.record.dtype && theirs.is_like(row.record.dtype))
    };
    let refused = diff.rows.iter().filter(|_| !allowed).filter(is_refused).count();
    let records = counted_in(refused as u64, "record has", "records have");
    (refused > 0).then(|| {
        format!(
            "{records} a different float dtype in the golden; --golden-dtype compares across float dtypes"
        )
    })
}

fn verdicts() -> impl TypedValueParser<Value = Verdict> {
    choice(
        [Verdict::Within, Verdict::Outside, Verdict::Unknown].map(|verdict| (verdict_word(verdict), verdict)),
    )
}

/// Writes every record in the requested order.
fn write_csv(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    let columns = fields(DIFF_CSV);
    writeln!(out, "{}", csv_head(&columns))?;
    write_csv_rows(out, report, &columns, None)
}

fn write_csv_rows(
    out: &mut dyn Write,
    report: &Report<'_>,
    columns: &[&Field],
    rank: Option<u64>,
) -> anyhow::Result<()> {
    let mut cells = Cells::new(report.diff.dump);
    cells.rank = rank;
    for row in listed(report) {
        let mut line = String::new();
        cells.write_csv(columns, &Row::compared(row), &mut line);
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
        output.text(&report.text()?)
    }
}

impl Report<'_> {
    /// The result for one of several dumps. Only the first has CSV headings.
    fn detail(
        &self,
        args: &DiffArgs,
        output: Output,
        rank: Option<u64>,
        is_first: bool,
    ) -> anyhow::Result<VerdictDetail<DiffDocument>> {
        if output.json {
            return Ok(VerdictDetail::Document(DiffDocument::of(&self.diff, &listed(self))));
        }
        if !args.csv {
            return Ok(VerdictDetail::Text(self.text()?));
        }
        let columns: Vec<&Field> = fields(["rank"]).into_iter().chain(fields(DIFF_CSV)).collect();
        let mut lines = Vec::new();
        if is_first {
            writeln!(lines, "{}", csv_head(&columns))?;
        }
        write_csv_rows(&mut lines, self, &columns, rank)?;
        Ok(VerdictDetail::Lines(String::from_utf8_lossy(&lines).into_owned()))
    }

    fn text(&self) -> anyhow::Result<String> {
        if let Some(why) = &self.why_empty {
            return Ok(format!("{why}\n"));
        }
        let mut text = Vec::new();
        text::write(&mut text, self)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn headline(&self) -> String {
        self.why_empty.clone().unwrap_or_else(|| text::headline(&self.diff))
    }
}

/// Whether `outputs/` has no dump other than the named one.
fn has_no_other(named: &Path) -> bool {
    let is_named = |newest: PathBuf| newest.canonicalize().ok() == named.canonicalize().ok();
    newest().map_or(true, is_named)
}

/// The error if fewer than two dumps are named.
fn alone(named: Option<&Path>) -> UsageError {
    let message = match named {
        None => "`diff` compares a dump with another dump or with array files; name both".to_owned(),
        Some(named) => {
            let named = quoted(named);
            format!("there is nothing to compare {named} with: name a second dump; {OUTPUTS}/ has no other")
        }
    };
    let (program, dump) = (program(), named.map_or_else(|| "DUMP".into(), quoted));
    let hint = format!(
        "name a second dump or array files: `{program} diff {dump} right`, `{program} diff {dump} golden.npz`; or compare the \
         outputs of the run with the golden of its scene: `{program} diff {dump} --scene-golden`"
    );
    UsageError { message, hint }
}

fn too_many() -> UsageError {
    UsageError {
        message: "too many dumps: `diff` compares one dump with one other".into(),
        hint: "`tensortap diff --repeat-check` accepts several dumps".into(),
    }
}
