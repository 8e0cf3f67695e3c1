//! A dump beside a golden: labels of its tasks, and every record with what it should be.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use tensortap::analysis::Work;
use tensortap::analysis::blame::{Blame, BlameOptions};
use tensortap::analysis::compare::with_kernels_of;
use tensortap::analysis::diff::{Diff, DiffOptions};
use tensortap::format::{FormatError, Record};
use tensortap::judge::{RuleBook, Verdict};
use tensortap_query::Labelling;
use tensortap_query::blame::Listing;
use tensortap_query::diff::{Sort, ranked};
use tensortap_query::document::{BlameDocument, FoundDocument};
use tensortap_query::fields::{Cells, DIFF, Field, Row};
use tensortap_query::report::Labelled;
use tensortap_query::words::step_task;

use super::State;
use super::answer::{Answer, Params, Problem};
use super::jobs::Job;
use super::shelf::{Opened, Right};

/// Tasks that the document of a blame lists; those that are wrong come first, and lists of tasks have the others.
const LISTED: usize = 200;
/// Threads that one comparison has.
const THREADS: usize = 2;
/// Records that are compared: the rows of more do not fit into memory beside one another.
const MOST_RECORDS: u64 = 2_000_000;
/// Rows of one answer.
const MOST_ROWS: usize = 500;

/// What a job works on: a dump, and where that which it is held against lies.
struct Pair {
    opened: Arc<Opened>,
    /// As requests name it.
    name: String,
    /// `None`: the references of its kernels.
    golden: Option<PathBuf>,
}

impl Pair {
    /// Opened anew by every job: a golden may be a run that goes on.
    fn labelling(&self, state: &State) -> Result<Labelling, Problem> {
        Ok(Labelling::open(&state.registry, &self.opened.dump, self.golden.as_deref())?)
    }
}

/// Begins a job about a dump and a golden, or finds the one that was begun; asked again it says how far it has come, and in the end
/// what came of it.
fn begin(
    state: &Arc<State>,
    params: &Params,
    what: &str,
    work: fn(&State, &Pair, &Job) -> Result<String, Problem>,
) -> Result<Answer, Problem> {
    let opened = state.shelf.dump(params)?;
    let name = params.get("golden").unwrap_or_default().to_owned();
    let (golden, theirs) = match state.shelf.right(params)? {
        Some(Right::Dump(golden)) => (Some(golden.dump.dir().to_owned()), golden.generation),
        Some(Right::Files(path, _)) => (Some(path.to_owned()), 0),
        Some(Right::Reference) => (None, 0),
        None => return Err(Problem::with_hint("nothing to hold the dump against", "choose a golden")),
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

/// What `blame` prints as JSON, and what a report says of it.
#[derive(Serialize)]
struct BlamedDocument {
    found: FoundDocument,
    blame: BlameDocument,
}

fn blamed(state: &State, pair: &Pair, job: &Job) -> Result<String, Problem> {
    let dump = &pair.opened.dump;
    let labelling = pair.labelling(state)?;
    let progress = |done: u64, of: u64| job.reach_or_unwind(done, of);
    let work = Work { threads: THREADS, progress: &progress };
    let options = BlameOptions { work, ..labelling.options(dump, &[]) };
    let blame = Blame::of(dump, &labelling.against(dump)?, &options)?;
    job.go_on()?;
    let golden = pair.golden.as_deref();
    let labelled = Labelled::of(dump, &blame, &labelling, golden, &options, &state.program)?;
    let listing = Listing { only: &[], limit: Some(LISTED) };
    let document =
        BlamedDocument { found: labelled.document()?, blame: BlameDocument::of(&labelled.found, listing) };
    let document = serde_json::to_string(&document).map_err(Problem::new);
    drop(labelled);
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
            format!("{} records are more than the {MOST_RECORDS} that a page compares", dump.len()),
            "`tensortap diff` compares any number, with selectors for some of them",
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
    let labelling = pair.labelling(state)?;
    let golden = labelling.golden().ok_or_else(|| {
        Problem::with_hint("records are compared with a dump or files", "references label tasks: blame")
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

/// Rows of a comparison that was made: those outside their rule first.
pub(crate) fn compare_rows(state: &State, params: &Params) -> Result<Answer, Problem> {
    let opened = state.shelf.dump(params)?;
    let name = params.get("golden").unwrap_or_default();
    let diff: Arc<Diff> = opened.diff(name).ok_or_else(|| Problem::new("they were not compared yet"))?;
    let (from, count) =
        (params.number("from")?.unwrap_or(0), params.number("count")?.unwrap_or(100).min(MOST_ROWS));
    let wanted = params.get("q").unwrap_or_default().to_lowercase();
    let mut cells = Cells::new(&opened.dump);
    // The verdict stands where narrow screens show it.
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
                verdict: super::tasks::verdict_word(&row.outcome),
                cells: texts,
            });
        }
        total += 1;
    }
    let columns = fields.iter().map(|field| (field.key, field.heading, field.is_number)).collect();
    Ok(Answer::document(&RowsDocument { columns, total, of: diff.rows.len(), rows }))
}
