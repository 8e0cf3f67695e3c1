//! The rows of a report.

use std::collections::{HashMap, HashSet};

use tensortap::abi::TensorStats;
use tensortap::analysis::blame::ComparedArg;
use tensortap::format::{ArgumentKind, Record, ScalarValue, Task};
use tensortap::stats_each;

use super::Known;
use crate::blame::{rank, wrong_first};
use crate::blame_words::why;
use crate::compare_words::outside_or_why;
use crate::document::{Cell, Column, ColumnKind, TableDocument, TableMaker, verdict_word};
use crate::number::{bytes, grouped, significant, time};
use crate::observed::record_role_word;
use crate::summary::KernelSummary;
use crate::words::{
    arg_words, kernels_text, printable, record_name, scalar_text, shape_text, step_task, task_title,
};
use crate::{QueryError, Times, stage_word};

/// Records for each task that there may be.
const RECORDS_PER_TASK: usize = 2;
/// Digits of a statistic.
const DIGITS: usize = 4;

const fn column(key: &'static str, title: &'static str, about: &'static str, kind: ColumnKind) -> Column {
    Column { key, title, about, kind }
}

use ColumnKind::{Number, Text, Wide};

const TASK: Column = column("task", "Task", "Its id, as commands take it", Text);
const LABEL: Column = column("label", "Label", "What it did", Text);
const WHERE: Column = column("where", "Where", "Its scope and name", Wide);
const KERNELS: Column = column("kernels", "Kernels", "What it ran", Text);
const STARTED: Column = column("started", "Started", "After the first task", Number);
const TOOK: Column = column("took", "Took", "From its first dispatch to its completion", Number);
const WHY: Column = column("why", "Why", "What its label rests on", Wide);

const RECORD: Column = column("record", "Record", "As `show` takes it", Text);
const ARGUMENT: Column = column("argument", "Argument", "Its place and name", Text);
const ROLE: Column = column(
    "role",
    "Role",
    "What the task may do with it; where that is not known, what was observed over the task",
    Text,
);
const STAGE: Column = column("stage", "Stage", "Before or after the task", Text);
const DTYPE: Column = column("dtype", "Dtype", "What its elements are", Text);
const SHAPE: Column = column("shape", "Shape", "Its sizes; of a scalar its value", Text);
const BYTES: Column = column("bytes", "Bytes", "Of its content", Number);
const VERDICT: Column = column("verdict", "Verdict", "Whether it is what it should be", Text);
const OUTSIDE: Column = column("outside", "Outside", "Elements outside the rule", Text);
const ERROR: Column = column("error", "Greatest error", "Between two elements", Number);
const MIN: Column = column("min", "Min", "Lowest finite value", Number);
const MAX: Column = column("max", "Max", "Highest finite value", Number);
const MEAN: Column = column("mean", "Mean", "Of finite values", Number);
const NAN: Column = column("nan", "NaN", "Elements that are NaN", Number);
const INF: Column = column("inf", "Inf", "Infinite elements", Number);

/// Statistics of records, by their number.
pub type Statistics = HashMap<u64, TensorStats>;

/// The tasks that have rows: all, or those that are wrong and then those that took longest. What is wrong stands first, each label in
/// the order of reports.
pub fn chosen(known: &Known<'_>, rows: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..known.graph().len()).collect();
    if places.len() > rows {
        let urgency = |&place: &usize| {
            let label = known.blame().map_or(0, |blame| rank(blame, place));
            (label, std::cmp::Reverse(known.summary.took(place)), place)
        };
        places.sort_by_cached_key(urgency);
        places.truncate(rows);
    }
    match known.blame() {
        Some(blame) => wrong_first(blame, &mut places),
        None => known.graph().sort(&mut places),
    }
    places
}

/// The records that have rows: those of the tasks that have, first those that are not what they should be, both as captured.
fn chosen_records(known: &Known<'_>, rows: usize) -> Result<Vec<Record>, QueryError> {
    let graph = known.graph();
    let tasks: HashSet<usize> = chosen(known, rows).into_iter().collect();
    let most = rows * RECORDS_PER_TASK;
    let (mut wrong, mut others) = (Vec::new(), Vec::new());
    for record in known.dump.records() {
        let record = record?;
        let Some(place) = graph.position(record.task_key()).filter(|place| tasks.contains(place)) else {
            continue;
        };
        let is_wrong = compared(known, place, &record)
            .is_some_and(|compared| compared.outcome.verdict == tensortap::judge::Verdict::Outside);
        let (list, full) = if is_wrong { (&mut wrong, most) } else { (&mut others, most) };
        if list.len() < full {
            list.push(record);
        }
    }
    others.truncate(most - wrong.len());
    wrong.extend(others);
    Ok(wrong)
}

fn compared<'k>(known: &'k Known<'_>, place: usize, record: &Record) -> Option<&'k ComparedArg> {
    let all = known.blame()?.compared_args.get(place)?;
    all.iter().find(|one| one.arg_index == record.arg_index && one.stage == record.stage)
}

/// Reads the contents of the records that may have rows, once.
pub fn measure(known: &Known<'_>, rows: usize) -> Result<Statistics, QueryError> {
    let mut statistics = HashMap::new();
    let records = chosen_records(known, rows)?;
    if !known.options.measures {
        let said = records.iter().filter_map(|record| Some((record.index, record.stats?)));
        return Ok(said.collect());
    }
    let tensors = records.into_iter().filter(|record| record.kind == ArgumentKind::Tensor).map(Ok);
    stats_each(known.dump, tensors, known.options.jobs, &|_| (), |measured| {
        if let Some(summary) = measured.summary {
            statistics.insert(measured.record.index, summary.stats);
        }
        Ok::<(), QueryError>(())
    })?;
    Ok(statistics)
}

/// Tasks and records, at most so many tasks.
pub fn tables(
    known: &Known<'_>,
    statistics: &Statistics,
    rows: usize,
) -> Result<(TableDocument, TableDocument), QueryError> {
    Ok((tasks(known, rows), records(known, statistics, rows)?))
}

fn tasks(known: &Known<'_>, rows: usize) -> TableDocument {
    let graph = known.graph();
    let labelled = known.blame().is_some();
    let columns = [
        Some(TASK),
        labelled.then_some(LABEL),
        Some(WHERE),
        Some(KERNELS),
        Some(STARTED),
        Some(TOOK),
        labelled.then_some(WHY),
    ];
    let mut table = TableMaker::new(&columns.into_iter().flatten().collect::<Vec<_>>());
    let first = graph.tasks().iter().filter_map(|task| task.start_time()).min();
    let places = chosen(known, rows);
    for &place in &places {
        let task = graph.task(place);
        let times = Times::since(first, task);
        let label = known.blame().map(|blame| Cell::text(blame.findings[place].label.name()));
        let why = known.blame().map(|blame| Cell::text(reason(blame, place)));
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
    let note = match labelled {
        true => "the tasks that are wrong first, then those that took longest",
        false => "the tasks that took longest",
    };
    finish(table, places.len(), graph.len() as u64, note)
}

/// Why a task has its label, where it is not the plain one.
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

fn records(known: &Known<'_>, statistics: &Statistics, rows: usize) -> Result<TableDocument, QueryError> {
    let labelled = known.blame().is_some();
    // The verdict stands where narrow screens show it.
    let judged = [VERDICT].into_iter().filter(|_| labelled);
    let head = [WHERE, KERNELS, ARGUMENT, ROLE, STAGE, DTYPE, SHAPE, BYTES];
    let measured = [OUTSIDE, ERROR].into_iter().filter(|_| labelled);
    let columns = [RECORD].into_iter().chain(judged).chain(head).chain(measured);
    let columns: Vec<Column> = columns.chain([MIN, MAX, MEAN, NAN, INF]).collect();
    let mut table = TableMaker::new(&columns);
    let chosen = chosen_records(known, rows)?;
    for record in &chosen {
        let Some(place) = known.graph().position(record.task_key()) else { continue };
        table.row(record_cells(known, record, place, statistics.get(&record.index)));
    }
    Ok(finish(
        table,
        chosen.len(),
        known.dump.len(),
        "those outside their rules first, of the tasks that have rows",
    ))
}

fn record_cells(known: &Known<'_>, record: &Record, place: usize, stats: Option<&TensorStats>) -> Vec<Cell> {
    let task: Task<'_> = known.graph().task(place);
    let shape = match record.scalar_bits {
        Some(bits) => scalar_text(ScalarValue::decode(record.dtype, bits)),
        None => shape_text(record),
    };
    let compared = compared(known, place, record);
    let mut cells = vec![Cell::text(record_name(record))];
    if known.blame().is_some() {
        cells.push(Cell::text(compared.map_or("", |one| verdict_word(one.outcome.verdict))));
    }
    cells.extend([
        Cell::text(task_title(task.scope(), task.task_name()).unwrap_or_default()),
        Cell::text(kernels_text(&task.kernel_names())),
        Cell::text(arg_words(task, record.arg_index).replace("argument ", "")),
        Cell::text(record_role_word(known.graph(), record)),
        Cell::text(stage_word(record.stage)),
        Cell::text(record.dtype.to_string()),
        Cell::text(shape),
        count(Some(record.content_bytes()), bytes),
    ]);
    if known.blame().is_some() {
        let outside = compared.filter(|one| one.outcome.verdict != tensortap::judge::Verdict::Within);
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

/// Every kernel.
pub fn kernels(known: &Known<'_>) -> TableDocument {
    let columns = [
        column("kernels", "Kernels", "What ran together", Text),
        column("wrong", "Wrong", "Tasks at which an error began", Number),
        column("tasks", "Tasks", "That ran them", Number),
        column("time", "Time", "Of all of them, one after the other", Number),
        column("share", "Share", "Of the time of all kernels", Number),
        column("longest", "Longest", "Of one task", Number),
        column("bytes", "Bytes", "Of their arguments, at both stages", Number),
        column("nan", "NaN", "Elements in what they left", Number),
        column("inf", "Inf", "Infinite elements in what they left", Number),
    ];
    let labelled = known.blame().is_some();
    let shown: Vec<Column> = columns.into_iter().filter(|column| labelled || column.key != "wrong").collect();
    let mut wrong: HashMap<String, u64> = HashMap::new();
    for (task, finding) in known.graph().tasks().iter().zip(known.findings()) {
        if finding.label.is_root() {
            *wrong.entry(kernels_text(&task.kernel_names())).or_default() += 1;
        }
    }
    let all: std::time::Duration = known.summary.kernels.iter().map(|kernel| kernel.time).sum();
    let mut table = TableMaker::new(&shown);
    let wrong = |kernel: &KernelSummary| wrong.get(&kernel.kernels).copied().unwrap_or(0);
    let mut all_kernels: Vec<&KernelSummary> = known.summary.kernels.iter().collect();
    all_kernels.sort_by_key(|kernel| std::cmp::Reverse(wrong(kernel)));
    for kernel in all_kernels {
        let share = (!all.is_zero()).then(|| 100.0 * kernel.time.as_secs_f64() / all.as_secs_f64());
        let measured = |count: u64| known.options.measures.then_some(count);
        let timed = |time| (!all.is_zero()).then_some(time);
        let cells = [
            Some(Cell::text(kernel.kernels.clone())),
            labelled.then(|| count(Some(wrong(kernel)), grouped)),
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
    let rows = known.summary.kernels.len();
    finish(table, rows, rows as u64, "")
}
