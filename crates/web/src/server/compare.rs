//! A dump beside a golden: labels of its tasks, and every record with what it should be.

use std::sync::Arc;

use serde::Serialize;
use tensortap::analysis::AnalysisError;
use tensortap::analysis::Work;
use tensortap::analysis::blame::{Against, Blame, BlameOptions};
use tensortap::analysis::compare::with_kernels_of;
use tensortap::analysis::diff::{Diff, DiffOptions, diff_arrays, diff_dumps};
use tensortap::format::{FormatError, Record};
use tensortap::judge::{RuleBook, Verdict};
use tensortap::scene::Registry;
use tensortap_query::blame::{BlameReport, Listing, culprits};
use tensortap_query::diff::{Sort, ranked};
use tensortap_query::document::BlameDocument;
use tensortap_query::fields::{Cells, DIFF, Field, Row};
use tensortap_query::golden::remarks;
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

/// A golden that a job may keep.
enum Held {
    Dump(Arc<Opened>),
    /// Arrays of the server, which outlives its jobs: they are found through it again.
    Files,
    Reference,
}

fn held(state: &State, params: &Params) -> Result<(Held, String), Problem> {
    let name = params.get("golden").unwrap_or_default().to_owned();
    let held = match state.shelf.right(params)? {
        Some(Right::Dump(opened)) => Held::Dump(opened),
        Some(Right::Files(_)) => Held::Files,
        Some(Right::Reference) => Held::Reference,
        None => return Err(Problem::with_hint("nothing to hold the dump against", "choose a golden")),
    };
    Ok((held, name))
}

fn job_name(what: &str, opened: &Arc<Opened>, held: &Held, name: &str) -> String {
    let theirs = match held {
        Held::Dump(golden) => golden.generation,
        Held::Files | Held::Reference => 0,
    };
    format!("{what} {:p} {} {name} {theirs}", Arc::as_ptr(opened), opened.generation)
}

/// Labels every task; asked again it says how far it has come, and in the end what came of it.
pub(crate) fn blame(state: &Arc<State>, params: &Params) -> Result<Answer, Problem> {
    let opened = state.shelf.dump(params)?;
    let (right, name) = held(state, params)?;
    let key = job_name("blame", &opened, &right, &name);
    let state_too = Arc::clone(state);
    let job = state.jobs.begin(key, move |job| blamed(&state_too, &opened, &right, &name, job))?;
    Ok(Answer::json(job.text()))
}

fn blamed(
    state: &State,
    opened: &Arc<Opened>,
    right: &Held,
    name: &str,
    job: &Job,
) -> Result<String, Problem> {
    let dump = &opened.dump;
    let registry = scenes_of(&state.registry, dump, right)?;
    let scene = registry.find(&dump.info().scene);
    let progress = |done: u64, of: u64| job.reach_or_unwind(done, of);
    let options = BlameOptions {
        rules: with_kernels_of(RuleBook::default(), dump.info()),
        scene,
        work: Work { threads: THREADS, progress: &progress },
        ..BlameOptions::default()
    };
    let against = match right {
        Held::Dump(golden) => Against::Golden(&golden.dump),
        Held::Files => Against::Arrays(files(state)?),
        Held::Reference => {
            let unknown = || AnalysisError::UnknownScene { scene: dump.info().scene.clone() };
            Against::Reference(scene.ok_or_else(unknown)?)
        }
    };
    let blame = Blame::of(dump, &against, &options)?;
    job.go_on()?;
    let culprits = culprits(&blame, dump, &against, &options)?;
    let passes = blame.passes(false) && !blame.suspects_orchestration(dump) && !blame.suspects_unjudged(dump);
    let remarks = match right {
        Held::Dump(golden) => remarks(dump, &golden.dump, blame.compared),
        Held::Files | Held::Reference => Vec::new(),
    };
    let golden = match right {
        Held::Dump(golden) => Some(golden.dump.dir().display().to_string()),
        Held::Files => state.shelf.files.as_ref().map(|(path, _)| path.display().to_string()),
        Held::Reference => None,
    };
    let report = BlameReport {
        dump,
        golden,
        blame: &blame,
        culprits,
        passes,
        program: &state.program,
        given: &[],
        replay_options: String::new(),
        remarks,
    };
    let listing = Listing { only: &[], limit: Some(LISTED) };
    let document = serde_json::to_string(&BlameDocument::of(&report, listing)).map_err(Problem::new);
    drop(report);
    opened.keep_blame(name, blame);
    document
}

fn files(state: &State) -> Result<&tensortap::interchange::NamedArrays, Problem> {
    state.shelf.files.as_ref().map(|(_, files)| files).ok_or_else(|| Problem::new("there is no such golden"))
}

/// The scenes with that of the dump. References need it; beside a golden it only sharpens the verdict.
fn scenes_of(registry: &Registry, dump: &tensortap::format::Dump, right: &Held) -> Result<Registry, Problem> {
    match (tensortap::with_scene_of(registry, dump, None), right) {
        (Ok(found), _) => Ok(found),
        (Err(error), Held::Reference) => Err(Problem::new(error)),
        (Err(_), _) => Ok(registry.clone()),
    }
}

/// Compares every record; asked again it says how far it has come.
pub(crate) fn compare(state: &Arc<State>, params: &Params) -> Result<Answer, Problem> {
    let opened = state.shelf.dump(params)?;
    let (right, name) = held(state, params)?;
    let key = job_name("compare", &opened, &right, &name);
    let state_too = Arc::clone(state);
    let job = state.jobs.begin(key, move |job| compared(&state_too, &opened, &right, &name, job))?;
    Ok(Answer::json(job.text()))
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

fn compared(
    state: &State,
    opened: &Arc<Opened>,
    right: &Held,
    name: &str,
    job: &Job,
) -> Result<String, Problem> {
    let dump = &opened.dump;
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
    let diff = match right {
        Held::Dump(golden) => diff_dumps(dump, &golden.dump, &records, &options)?,
        Held::Files => diff_arrays(dump, files(state)?, &records, &options)?,
        Held::Reference => {
            return Err(Problem::with_hint(
                "records are compared with a dump or files",
                "references label tasks: blame",
            ));
        }
    };
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
    opened.keep_diff(name, diff);
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
    let fields: Vec<&'static Field> = DIFF.iter().filter_map(|key| Field::named(key)).collect();
    let mut rows = Vec::new();
    let mut total = 0;
    for row in ranked(&diff, Sort::default()) {
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
