//! Comparing a dump with a golden: labels of its tasks, and a comparison of every record.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use tensortap::analysis::Work;
use tensortap::analysis::blame::{Blame, BlameOptions};
use tensortap::analysis::compare::with_kernels_of;
use tensortap::analysis::diff::{Diff, DiffOptions};
use tensortap::format::{FormatError, Record};
use tensortap::judge::{RuleBook, Verdict};
use tensortap_query::LabelSource;
use tensortap_query::blame::Listing;
use tensortap_query::diff::{Sort, ranked};
use tensortap_query::document::{BlameDocument, FindingsDocument, verdict_word};
use tensortap_query::fields::{Cells, DIFF, Field, Row};
use tensortap_query::report::LabeledTasks;
use tensortap_query::words::step_task;

use super::State;
use super::answer::{Answer, Params, Problem};
use super::jobs::Job;
use super::open_dumps::{Baseline, OpenDump};

/// Tasks that the blame document lists, wrong ones first. Task lists show the others.
const LISTED: usize = 200;
/// Threads of one comparison.
const THREADS: usize = 2;
/// Maximum number of compared records: the rows of more need too much memory.
const MOST_RECORDS: u64 = 2_000_000;
/// Maximum rows of one answer.
const MOST_ROWS: usize = 500;

/// The input of a job: a dump and the golden to compare it with.
struct Pair {
    opened: Arc<OpenDump>,
    /// The golden's name in requests.
    name: String,
    /// The golden. `None`: the references of the dump's kernels.
    golden: Option<PathBuf>,
}

impl Pair {
    /// Every job opens the golden again, because it may be the dump of a run that is still going on.
    fn label_source(&self, state: &State) -> Result<LabelSource, Problem> {
        Ok(LabelSource::open(&state.registry, &self.opened.dump, self.golden.as_deref())?)
    }
}

/// Starts a job about a dump and a golden, or returns the state of the existing one: its progress or its
/// result.
fn begin(
    state: &Arc<State>,
    params: &Params,
    what: &str,
    work: fn(&State, &Pair, &Job) -> Result<String, Problem>,
) -> Result<Answer, Problem> {
    let opened = state.open_dumps.dump(params)?;
    let name = params.get("golden").unwrap_or_default().to_owned();
    let (golden, theirs) = match state.open_dumps.baseline(params)? {
        Some(Baseline::Dump(golden)) => (Some(golden.dump.dir().to_owned()), golden.generation),
        Some(Baseline::Files(path, _)) => (Some(path.to_owned()), 0),
        Some(Baseline::Reference) => (None, 0),
        None => return Err(Problem::with_hint("nothing to compare the dump with", "choose a golden")),
    };
    let key = format!("{what} {:p} {} {name} {theirs}", Arc::as_ptr(&opened), opened.generation);
    let pair = Pair { opened, name, golden };
    let mine = Arc::clone(state);
    let job = state.jobs.begin(key, move |job| work(&mine, &pair, job))?;
    Ok(Answer::json(job.text()))
}

/// Labels every task.
pub(crate) fn blame(state: &Arc<State>, params: &Params) -> Result<Answer, Problem> {
    begin(state, params, "blame", blamed)
}

/// The JSON document of `blame`, and the findings of a report.
#[derive(Serialize)]
struct BlamedDocument {
    found: FindingsDocument,
    blame: BlameDocument,
}

fn blamed(state: &State, pair: &Pair, job: &Job) -> Result<String, Problem> {
    let dump = &pair.opened.dump;
    let label_source = pair.label_source(state)?;
    let progress = |done: u64, of: u64| job.reach_or_unwind(done, of);
    let work = Work { threads: THREADS, progress: &progress };
    let options = BlameOptions { work, ..label_source.options(dump, &[]) };
    let blame = Blame::of(dump, &label_source.against(dump)?, &options)?;
    job.go_on()?;
    let golden = pair.golden.as_deref();
    let labeled = LabeledTasks::of(dump, &blame, &label_source, golden, &options, &state.program)?;
    let listing = Listing { only: &[], limit: Some(LISTED) };
    let document =
        BlamedDocument { found: labeled.document()?, blame: BlameDocument::of(&labeled.found, listing) };
    let document = serde_json::to_string(&document).map_err(Problem::new);
    drop(labeled);
    pair.opened.keep_blame(&pair.name, blame);
    document
}

/// Compares every record.
pub(crate) fn compare(state: &Arc<State>, params: &Params) -> Result<Answer, Problem> {
    begin(state, params, "compare", compared)
}

#[derive(Serialize)]
struct CompareDocument {
    verdict: &'static str,
    compared: usize,
    of: usize,
    outside: usize,
    within: usize,
    unknown: usize,
    unmatched: usize,
}

fn compared(state: &State, pair: &Pair, job: &Job) -> Result<String, Problem> {
    let dump = &pair.opened.dump;
    if dump.len() > MOST_RECORDS {
        return Err(Problem::with_hint(
            format!("{} records are too many: a page compares at most {MOST_RECORDS}", dump.len()),
            "use `tensortap diff`, which has no limit",
        ));
    }
    let records: Vec<Record> = dump.records().collect::<Result<_, FormatError>>()?;
    job.go_on()?;
    let progress = |done: u64, of: u64| job.reach_or_unwind(done, of);
    let options = DiffOptions {
        rules: with_kernels_of(RuleBook::default(), dump.info()),
        work: Work { threads: THREADS, progress: &progress },
        ..DiffOptions::default()
    };
    let label_source = pair.label_source(state)?;
    let golden = label_source.golden().ok_or_else(|| {
        Problem::with_hint(
            "records can only be compared with a dump or files",
            "with references, only tasks are labeled",
        )
    })?;
    let diff = golden.diff(dump, &records, &options)?;
    let count = |verdict| diff.rows.iter().filter(|row| row.outcome.verdict == verdict).count();
    let document = CompareDocument {
        verdict: if diff.passes(false) { "pass" } else { "fail" },
        compared: diff.compared(),
        of: diff.rows.len(),
        outside: count(Verdict::Outside),
        within: count(Verdict::Within),
        unknown: count(Verdict::Unknown),
        unmatched: diff.unmatched.len(),
    };
    pair.opened.keep_diff(&pair.name, diff);
    serde_json::to_string(&document).map_err(Problem::new)
}

#[derive(Serialize)]
struct RowsDocument {
    columns: Vec<(&'static str, &'static str, bool)>,
    total: usize,
    of: usize,
    rows: Vec<DiffRowDocument>,
}

#[derive(Serialize)]
struct DiffRowDocument {
    task: String,
    record: u64,
    verdict: &'static str,
    cells: Vec<String>,
}

/// Rows of a finished comparison, those outside their rule first.
pub(crate) fn compare_rows(state: &State, params: &Params) -> Result<Answer, Problem> {
    let opened = state.open_dumps.dump(params)?;
    let name = params.get("golden").unwrap_or_default();
    let diff: Arc<Diff> =
        opened.diff(name).ok_or_else(|| Problem::new("the records were not compared yet"))?;
    let (from, count) =
        (params.number("from")?.unwrap_or(0), params.number("count")?.unwrap_or(100).min(MOST_ROWS));
    let wanted = params.get("q").unwrap_or_default().to_lowercase();
    let mut cells = Cells::new(&opened.dump);
    // The verdict is the second column, so that narrow screens show it.
    let others = DIFF[1..].iter().filter(|key| **key != "verdict");
    let keys = [DIFF[0], "verdict"].into_iter().chain(others.copied());
    let fields: Vec<&'static Field> = keys.filter_map(Field::named).collect();
    let sort = params.get("sort").unwrap_or_else(|| Sort::default().name());
    let sort = Sort::ALL.into_iter().find(|known| known.name() == sort).ok_or_else(|| {
        let names = Sort::ALL.map(Sort::name).join(", ");
        Problem::with_hint(format!("there is no order `{sort}`"), format!("records are sorted by {names}"))
    })?;
    let mut rows = Vec::new();
    let mut total = 0;
    for row in ranked(&diff, sort) {
        let shown = || -> Vec<String> { Vec::new() };
        let mut texts = shown();
        if !wanted.is_empty() || (total >= from && rows.len() < count) {
            texts = fields.iter().map(|field| cells.text(field, &Row::compared(row))).collect();
        }
        if !wanted.is_empty() && !texts.iter().any(|text| text.to_lowercase().contains(&wanted)) {
            continue;
        }
        if total >= from && rows.len() < count {
            rows.push(DiffRowDocument {
                task: step_task(row.record.step, row.record.task_id),
                record: row.record.index,
                verdict: verdict_word(row.outcome.verdict),
                cells: texts,
            });
        }
        total += 1;
    }
    let columns = fields.iter().map(|field| (field.key, field.heading, field.is_number)).collect();
    Ok(Answer::document(&RowsDocument { columns, total, of: diff.rows.len(), rows }))
}
