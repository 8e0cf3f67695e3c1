//! The tables of a report.

use std::collections::{HashMap, HashSet};

use tensortap::abi::TensorStats;
use tensortap::analysis::blame::ComparedArg;
use tensortap::format::{ArgumentKind, Record, ScalarValue, Task};
use tensortap::stats_each;

use super::ReportContext;
use crate::blame::{rank, wrong_first};
use crate::blame_words::why;
use crate::compare_words::outside_or_why;
use crate::document::{
    Cell, Column, ColumnKind, TableDocument, TableMaker, counted_verdict_word, verdict_word,
};
use crate::number::{bytes, grouped, significant, time};
use crate::observed::record_role_word;
use crate::summary::KernelSummary;
use crate::words::{
    arg_words, kernels_text, printable, record_name, scalar_text, shape_text, step_task, task_title,
};
use crate::{QueryError, Times};
use tensortap::judge::Verdict;

/// Maximum records per task.
const RECORDS_PER_TASK: usize = 2;
/// Verdicts on records that have numbers about their differences.
const FAIL: &str = verdict_word(Verdict::Outside);
const UNKNOWN: &str = verdict_word(Verdict::Unknown);
/// Digits of a statistic.
const DIGITS: usize = 4;

const fn column(key: &'static str, title: &'static str, about: &'static str, kind: ColumnKind) -> Column {
    Column { key, title, about, kind }
}

use ColumnKind::{Number, Text, Wide};

const TASK: Column = column("task", "Task", "Its id, as used in commands", Text);
const LABEL: Column = column("label", "Label", "Result of the comparison", Text);
const WHERE: Column = column("where", "Where", "Its scope and name", Wide);
const KERNELS: Column = column("kernels", "Kernels", "Kernels that it ran", Text);
const STARTED: Column = column("started", "Started", "Time after the start of the first task", Number);
const TOOK: Column = column("took", "Took", "From its first dispatch to its completion", Number);
const WHY: Column = column("why", "Why", "Reason for its label", Wide);

const RECORD: Column = column("record", "Record", "Its name, as used by `show`", Text);
const ARGUMENT: Column = column("argument", "Argument", "Its index and name", Text);
const ROLE: Column =
    column("role", "Role", "How the task uses it or, if that is unknown, what was observed", Text);
const STAGE: Column = column("stage", "Stage", "Before or after the task", Text);
const DTYPE: Column = column("dtype", "Dtype", "Element type", Text);
const SHAPE: Column = column("shape", "Shape", "Its shape or, for a scalar, its value", Text);
const BYTES: Column = column("bytes", "Bytes", "Size of its content", Number);
const VERDICT: Column = column(
    "verdict",
    "Verdict",
    "Result of the comparison; ignored: it differs, but does not count, as for uninitialized memory",
    Text,
);
const OUTSIDE: Column = column("outside", "Outside", "Elements outside the rule", Text);
const ERROR: Column = column("error", "Largest error", "Largest difference of an element", Number);
const MIN: Column = column("min", "Min", "Lowest finite value", Number);
const MAX: Column = column("max", "Max", "Highest finite value", Number);
const MEAN: Column = column("mean", "Mean", "Mean of finite values", Number);
const NAN: Column = column("nan", "NaN", "Elements that are NaN", Number);
const INF: Column = column("inf", "Inf", "Infinite elements", Number);

/// Statistics by record index.
pub type Statistics = HashMap<u64, TensorStats>;

/// The tasks that have rows: all, or wrong tasks first and then the slowest. They are sorted with wrong tasks
/// first, each label in the order of reports.
pub fn chosen(context: &ReportContext<'_>, rows: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..context.graph().len()).collect();
    if places.len() > rows {
        let urgency = |&place: &usize| {
            let label = context.blame().map_or(0, |blame| rank(blame, place));
            (label, std::cmp::Reverse(context.summary.took(place)), place)
        };
        places.sort_by_cached_key(urgency);
        places.truncate(rows);
    }
    match context.blame() {
        Some(blame) => wrong_first(blame, &mut places),
        None => context.graph().sort(&mut places),
    }
    places
}

/// The records that have rows: records of the tasks that have rows, those outside their rule first, each
/// group in captured order.
fn chosen_records(context: &ReportContext<'_>, rows: usize) -> Result<Vec<Record>, QueryError> {
    let graph = context.graph();
    let tasks: HashSet<usize> = chosen(context, rows).into_iter().collect();
    let most = rows * RECORDS_PER_TASK;
    let (mut wrong, mut others) = (Vec::new(), Vec::new());
    for record in context.dump.records() {
        let record = record?;
        let Some(place) = graph.position(record.task_key()).filter(|place| tasks.contains(place)) else {
            continue;
        };
        let is_wrong = record_verdict(context, place, &record) == FAIL;
        let (list, full) = if is_wrong { (&mut wrong, most) } else { (&mut others, most) };
        if list.len() < full {
            list.push(record);
        }
    }
    others.truncate(most - wrong.len());
    wrong.extend(others);
    Ok(wrong)
}

fn compared<'k>(context: &'k ReportContext<'_>, place: usize, record: &Record) -> Option<&'k ComparedArg> {
    let all = context.blame()?.compared_args.get(place)?;
    all.iter().find(|one| one.arg_index == record.arg_index && one.stage == record.stage)
}

/// The word for the verdict on a record; empty if it was not compared.
fn record_verdict(context: &ReportContext<'_>, place: usize, record: &Record) -> &'static str {
    let judged = context.blame().zip(compared(context, place, record));
    judged.map_or("", |(blame, compared)| counted_verdict_word(blame, place, compared))
}

/// Measures the records that may have rows. Contents are read once.
pub fn measure(context: &ReportContext<'_>, rows: usize) -> Result<Statistics, QueryError> {
    let mut statistics = HashMap::new();
    let records = chosen_records(context, rows)?;
    if !context.options.measures {
        let recorded = records.iter().filter_map(|record| Some((record.index, record.stats?)));
        return Ok(recorded.collect());
    }
    let tensors = records.into_iter().filter(|record| record.kind == ArgumentKind::Tensor).map(Ok);
    stats_each(context.dump, tensors, context.options.jobs, &|_| (), |measured| {
        if let Some(summary) = measured.summary {
            statistics.insert(measured.record.index, summary.stats);
        }
        Ok::<(), QueryError>(())
    })?;
    Ok(statistics)
}

/// The tables of tasks and records, with at most `rows` tasks.
pub fn tables(
    context: &ReportContext<'_>,
    statistics: &Statistics,
    rows: usize,
) -> Result<(TableDocument, TableDocument), QueryError> {
    Ok((tasks(context, rows), records(context, statistics, rows)?))
}

fn tasks(context: &ReportContext<'_>, rows: usize) -> TableDocument {
    let graph = context.graph();
    let labeled = context.blame().is_some();
    let columns = [
        Some(TASK),
        labeled.then_some(LABEL),
        Some(WHERE),
        Some(KERNELS),
        Some(STARTED),
        Some(TOOK),
        labeled.then_some(WHY),
    ];
    let mut table = TableMaker::new(&columns.into_iter().flatten().collect::<Vec<_>>());
    let first = graph.tasks().iter().filter_map(|task| task.start_time()).min();
    let places = chosen(context, rows);
    for &place in &places {
        let task = graph.task(place);
        let times = Times::since(first, task);
        let label = context.blame().map(|blame| Cell::text(blame.findings[place].label.name()));
        let why = context.blame().map(|blame| Cell::text(reason(blame, place)));
        let cells = [
            Some(Cell::text(step_task(task.step, task.task_id))),
            label,
            Some(Cell::text(task_title(task.scope(), task.task_name()).unwrap_or_default())),
            Some(Cell::text(kernels_text(&task.kernel_names()))),
            Some(duration(times.started)),
            Some(duration(times.took)),
            why,
        ];
        table.row(cells.into_iter().flatten());
    }
    let note = match labeled {
        true => "wrong tasks first, then the slowest ones",
        false => "the slowest tasks",
    };
    finish(table, places.len(), graph.len() as u64, note)
}

/// Why a task has its label; empty if the label has no reason.
fn reason(blame: &tensortap::analysis::blame::Blame, place: usize) -> String {
    let finding = &blame.findings[place];
    let plain = finding.reason.is_none() && finding.race.is_none();
    if plain { String::new() } else { why(blame, place) }
}

fn duration(value: Option<std::time::Duration>) -> Cell {
    #[expect(clippy::cast_precision_loss, reason = "rows are sorted by it")]
    let number = |value: std::time::Duration| value.as_nanos() as f64;
    Cell::some(value, time, number)
}

fn finish(table: TableMaker, rows: usize, of: u64, which: &str) -> TableDocument {
    let note = ((rows as u64) < of).then(|| {
        let left = grouped(of - rows as u64);
        format!("{} of {} rows are here: {which}. {left} are not.", grouped(rows as u64), grouped(of))
    });
    table.finish(of, note)
}

fn records(
    context: &ReportContext<'_>,
    statistics: &Statistics,
    rows: usize,
) -> Result<TableDocument, QueryError> {
    let labeled = context.blame().is_some();
    // The verdict is the second column, so that narrow screens show it.
    let judged = [VERDICT].into_iter().filter(|_| labeled);
    let head = [WHERE, KERNELS, ARGUMENT, ROLE, STAGE, DTYPE, SHAPE, BYTES];
    let measured = [OUTSIDE, ERROR].into_iter().filter(|_| labeled);
    let columns = [RECORD].into_iter().chain(judged).chain(head).chain(measured);
    let columns: Vec<Column> = columns.chain([MIN, MAX, MEAN, NAN, INF]).collect();
    let mut table = TableMaker::new(&columns);
    let chosen = chosen_records(context, rows)?;
    for record in &chosen {
        let Some(place) = context.graph().position(record.task_key()) else { continue };
        table.row(record_cells(context, record, place, statistics.get(&record.index)));
    }
    Ok(finish(
        table,
        chosen.len(),
        context.dump.len(),
        "records outside their rules first, for the tasks that have rows",
    ))
}

fn record_cells(
    context: &ReportContext<'_>,
    record: &Record,
    place: usize,
    stats: Option<&TensorStats>,
) -> Vec<Cell> {
    let task: Task<'_> = context.graph().task(place);
    let shape = match record.scalar_bits {
        Some(bits) => scalar_text(ScalarValue::decode(record.dtype, bits)),
        None => shape_text(record),
    };
    let compared = compared(context, place, record);
    let verdict = record_verdict(context, place, record);
    let mut cells = vec![Cell::text(record_name(record))];
    if context.blame().is_some() {
        cells.push(Cell::text(verdict));
    }
    cells.extend([
        Cell::text(task_title(task.scope(), task.task_name()).unwrap_or_default()),
        Cell::text(kernels_text(&task.kernel_names())),
        Cell::text(arg_words(task, record.arg_index).replace("argument ", "")),
        Cell::text(record_role_word(context.graph(), record)),
        Cell::text(record.stage.word()),
        Cell::text(record.dtype.to_string()),
        Cell::text(shape),
        count(Some(record.content_bytes()), bytes),
    ]);
    if context.blame().is_some() {
        // The values of an ignored record mean nothing.
        let outside = compared.filter(|_| verdict == FAIL || verdict == UNKNOWN);
        cells.push(Cell::text(
            outside.map_or(String::new(), |one| printable(&outside_or_why(&one.outcome)).into_owned()),
        ));
        cells.push(float(outside.and_then(|one| one.outcome.max_abs())));
    }
    let finite = stats.filter(|stats| stats.min <= stats.max);
    cells.extend([float(finite.map(|s| s.min)), float(finite.map(|s| s.max)), float(finite.map(|s| s.mean))]);
    cells.extend([count(stats.map(|s| s.nan), grouped), count(stats.map(|s| s.inf), grouped)]);
    cells
}

fn float(value: Option<f64>) -> Cell {
    Cell::some(value, |value| significant(value, DIGITS), |value| value)
}

fn count(value: Option<u64>, text: impl Fn(u64) -> String) -> Cell {
    #[expect(clippy::cast_precision_loss, reason = "rows are sorted by it")]
    let number = |value: u64| value as f64;
    Cell::some(value, text, number)
}

/// The table of kernels.
pub fn kernels(context: &ReportContext<'_>) -> TableDocument {
    let columns = [
        column("kernels", "Kernels", "Kernels that run together in a task", Text),
        column("wrong", "Wrong", "Tasks at which an error began", Number),
        column("tasks", "Tasks", "Tasks that ran them", Number),
        column("time", "Time", "Total time of these tasks", Number),
        column("share", "Share", "Share of the time of all kernels", Number),
        column("longest", "Longest", "Longest single task", Number),
        column("bytes", "Bytes", "Size of their arguments, before and after the task", Number),
        column("nan", "NaN", "NaN elements in their outputs", Number),
        column("inf", "Inf", "Infinite elements in their outputs", Number),
    ];
    let labeled = context.blame().is_some();
    let shown: Vec<Column> = columns.into_iter().filter(|column| labeled || column.key != "wrong").collect();
    let mut wrong: HashMap<String, u64> = HashMap::new();
    for (task, finding) in context.graph().tasks().iter().zip(context.findings()) {
        if finding.label.is_root() {
            *wrong.entry(kernels_text(&task.kernel_names())).or_default() += 1;
        }
    }
    let all: std::time::Duration = context.summary.kernels.iter().map(|kernel| kernel.time).sum();
    let mut table = TableMaker::new(&shown);
    let wrong = |kernel: &KernelSummary| wrong.get(&kernel.kernels).copied().unwrap_or(0);
    let mut all_kernels: Vec<&KernelSummary> = context.summary.kernels.iter().collect();
    all_kernels.sort_by_key(|kernel| std::cmp::Reverse(wrong(kernel)));
    for kernel in all_kernels {
        let share = (!all.is_zero()).then(|| 100.0 * kernel.time.as_secs_f64() / all.as_secs_f64());
        let measured = |count: u64| context.options.measures.then_some(count);
        let timed = |time| (!all.is_zero()).then_some(time);
        let cells = [
            Some(Cell::text(kernel.kernels.clone())),
            labeled.then(|| count(Some(wrong(kernel)), grouped)),
            Some(count(Some(kernel.tasks), grouped)),
            Some(duration(timed(kernel.time))),
            Some(Cell::some(share, |share| format!("{share:.0} %"), |share| share)),
            Some(duration(timed(kernel.longest))),
            Some(count(Some(kernel.bytes), bytes)),
            Some(count(measured(kernel.nan), grouped)),
            Some(count(measured(kernel.inf), grouped)),
        ];
        table.row(cells.into_iter().flatten());
    }
    let rows = context.summary.kernels.len();
    finish(table, rows, rows as u64, "")
}
