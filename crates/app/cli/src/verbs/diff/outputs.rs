//! `tensortap diff --scene-golden`: compares the outputs of a run with the golden that its scene computes.

use std::io::Write;

use tensortap::analysis::outputs::{OutputDiff, OutputRow, Writer};
use tensortap::format::Dump;
use tensortap::judge::{Evidence, Outcome, Verdict};
use tensortap::scene::Registry;
use tensortap_query::fields::quote;

use super::{DiffArgs, too_many};
use crate::dump_path::{DumpPathArg, quoted};
use crate::error::{Exit, UsageError};
use crate::output::{self, Output};
use crate::program::program;
use crate::progress::StepProgress;
use crate::table::{Column, Fit, StreamTable};
use tensortap_query::compare_words::{detail_lines, evidence, outside_or_why, rule_text};
use tensortap_query::document::{OutputsDocument, verdict_word};
use tensortap_query::number::{counted, grouped, significant};
use tensortap_query::words::{counted_names, kernels_text, named_task, printable, short_task, sizes_text};

const DIGITS: usize = 4;
/// Kernels that are named for one output.
const NAMED: usize = 4;

const COLUMNS: [Column; 9] = [
    Column::text("OUTPUT", 0),
    Column::text("VERDICT", 0),
    Column::text("DTYPE", 0),
    Column::text("SHAPE", 0),
    Column::number("MAX ABS", 0),
    Column::number("NAN", 0),
    Column::text("WRITTEN BY", 0),
    Column::text("RULE", 0),
    Column::text("OUTSIDE, OR WHY", 0),
];
/// Columns that a narrow terminal leaves out, in this order.
const DISPENSABLE: [&str; 5] = ["RULE", "DTYPE", "SHAPE", "NAN", "WRITTEN BY"];

/// Compares the outputs and prints them.
pub fn run(args: &DiffArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let path = match args.paths.as_slice() {
        [] => None,
        [dump] => Some(dump.clone()),
        _ => return Err(too_many().into()),
    };
    let dump = DumpPathArg::named(path, &args.rank).open()?;
    if !args.select.selection(&dump, output)?.is_all() {
        return Err(UsageError {
            message: "--scene-golden compares the outputs of the run; selectors cannot choose among them"
                .into(),
            hint: "selectors choose records: use `tensortap diff` with a golden dump".into(),
        }
        .into());
    }
    let registry = &tensortap::with_scene_of(registry, &dump, args.scene.as_deref())?;
    let progress = StepProgress::new(output, dump.len());
    let show = |done: u64, of: u64| progress.at(done, of);
    let options = args.options(&dump, None, &show)?;
    let diff = tensortap::diff_scene_golden(&dump, registry, &options)?;
    drop(progress);
    if output.json {
        output.document(&OutputsDocument::of(&dump, &diff))?;
    } else if args.csv {
        output.stream(|out| write_csv(out, &diff))?;
    } else {
        let mut text = Vec::new();
        write_text(&mut text, &dump, &diff)?;
        output.text(&String::from_utf8_lossy(&text))?;
    }
    Ok(if diff.passes() { Exit::Good } else { Exit::Difference })
}

fn write_text(out: &mut dyn Write, dump: &Dump, diff: &OutputDiff) -> anyhow::Result<()> {
    let word = output::pass_or_fail(diff.passes());
    let folder = dump.dir().display().to_string();
    let (compared, of) = (grouped(diff.compared() as u64), counted(diff.rows.len() as u64, "output"));
    writeln!(out, "{word}: {}", what(diff))?;
    writeln!(
        out,
        "  compared {compared} of {of} of {} with the golden of scene {}\n",
        printable(&folder),
        printable(&dump.info().scene)
    )?;
    let mut table = StreamTable::new(COLUMNS, Fit::terminal(&DISPENSABLE));
    diff.rows.iter().try_for_each(|row| table.row(out, cells(row)))?;
    table.finish(out)?;
    diff.rows.iter().try_for_each(|row| write_detail(out, row))?;
    if diff.rows.iter().any(|row| row.outcome.verdict == Verdict::Outside) {
        writeln!(out, "\nto find the wrong task: {} blame {} --reference", program(), quoted(dump.dir()))?;
    }
    Ok(())
}

fn what(diff: &OutputDiff) -> String {
    let outside = diff.rows.iter().filter(|row| row.outcome.verdict == Verdict::Outside).count();
    match (outside, diff.rows.len() - diff.compared()) {
        _ if diff.compared() == 0 => "nothing could be compared".into(),
        (0, 0) => "every output is within its rule".into(),
        (0, unknown) => format!("{} could not be compared", counted(unknown as u64, "output")),
        (1, _) => "1 output is outside its rule".into(),
        (outside, _) => format!("{} are outside their rules", counted(outside as u64, "output")),
    }
}

fn cells(row: &OutputRow) -> [String; 9] {
    [
        printable(&row.name).into_owned(),
        verdict_word(row.outcome.verdict).into(),
        row.dtype.name().into(),
        sizes_text(&row.shape),
        row.outcome.max_abs().map_or("-".into(), |error| significant(error, DIGITS)),
        row.outcome.unmatched_nan().map_or("-".into(), grouped),
        writers_text(&row.writers),
        rule_text(&row.rule),
        outside_or_why(&row.outcome),
    ]
}

/// Kernels with the number of tasks that wrote the output: `mul 4, add 1`.
fn writers_text(writers: &[Writer]) -> String {
    if writers.is_empty() {
        return "no task".into();
    }
    counted_names(writers.iter().map(|writer| kernels_text(&writer.kernels)), NAMED)
}

fn write_detail(out: &mut dyn Write, row: &OutputRow) -> anyhow::Result<()> {
    let Some(detail) = &row.detail else { return Ok(()) };
    writeln!(out, "\n{}", printable(&row.name))?;
    for line in detail_lines(detail) {
        writeln!(out, "  {line}")?;
    }
    if let Some(writer) = &row.worst_writer {
        let Writer { task_id, kernels, scope, task_name, arg_index, arg_name } = writer;
        let words = named_task(scope.as_deref(), task_name.as_deref(), kernels);
        let name = arg_name.as_ref().map(|name| format!(" ({})", printable(name))).unwrap_or_default();
        writeln!(
            out,
            "  the worst element was written by task {} ({words}), argument {arg_index}{name}",
            short_task(*task_id),
        )?;
    }
    Ok(())
}

const HEAD: [&str; 13] = [
    "output",
    "dtype",
    "shape",
    "verdict",
    "max_abs_err",
    "max_finite_err",
    "unmatched_nan",
    "max_rel_err",
    "rmse",
    "max_ulps",
    "failing",
    "written_by",
    "evidence",
];

fn write_csv(out: &mut dyn Write, diff: &OutputDiff) -> anyhow::Result<()> {
    write_csv_line(out, &HEAD.map(String::from))?;
    diff.rows.iter().try_for_each(|row| write_csv_line(out, &csv_cells(row)))
}

fn csv_cells(row: &OutputRow) -> [String; 13] {
    let [max_abs, max_finite, nan, relative, rmse, ulps, failing] = measured(&row.outcome);
    [
        printable(&row.name).into_owned(),
        row.dtype.name().into(),
        sizes_text(&row.shape),
        verdict_word(row.outcome.verdict).into(),
        max_abs,
        max_finite,
        nan,
        relative,
        rmse,
        ulps,
        failing,
        writers_text(&row.writers),
        evidence(&row.outcome),
    ]
}

/// Largest error, largest error of finite values, unmatched NaN, largest relative error, RMSE, largest distance in ULP,
/// elements outside the rule. A value that was not measured is empty.
fn measured(outcome: &Outcome) -> [String; 7] {
    let text = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
    let count = |value: Option<u64>| value.map_or(String::new(), |v| v.to_string());
    let (relative, rmse, ulps, failing) = match &outcome.evidence {
        Evidence::Full(m) => (Some(m.max_rel_err()), m.rmse, m.max_ulps, Some(m.failing)),
        Evidence::Identical => (Some(0.0), Some(0.0), Some(0), Some(0)),
        _ => (None, None, None, None),
    };
    let (all, finite, nan) = (outcome.max_abs(), outcome.max_finite(), outcome.unmatched_nan());
    [text(all), text(finite), count(nan), text(relative), text(rmse), count(ulps), count(failing)]
}

/// Writes a CSV line and quotes cells that need it.
fn write_csv_line(out: &mut dyn Write, cells: &[String]) -> anyhow::Result<()> {
    let mut line = String::new();
    for (place, cell) in cells.iter().enumerate() {
        if place > 0 {
            line.push(',');
        }
        let start = line.len();
        line += cell;
        quote(&mut line, start);
    }
    Ok(writeln!(out, "{line}")?)
}
