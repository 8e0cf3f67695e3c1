//! What runs or writes something: with leave alone.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use tensortap::{ExportConfig, ExportFormat, ReplayConfig, Selection as ReplaySelection, TaskChoice};
use tensortap_query::Selectors;
use tensortap_query::document::ReplayDocument;

use super::State;
use super::answer::{Answer, Params, Problem};

/// Runs one task again and holds what it writes against what it wrote.
pub(crate) fn replay(state: &Arc<State>, params: &Params) -> Result<Answer, Problem> {
    let opened = state.shelf.dump(params)?;
    let graph = opened.graph()?;
    let name = params.get("task").ok_or_else(|| Problem::new("which task?"))?;
    let place = tensortap_query::find_tasks(graph.tasks(), name)?[0];
    let task = graph.task(place);
    let mut config = ReplayConfig::new(opened.dump.dir(), state.registry.clone());
    config.select = ReplaySelection::Tasks(vec![TaskChoice::Ids(task.task_id, task.task_id)]);
    config.steps = vec![(task.step.into(), task.step.into())];
    let key =
        format!("replay {:p} {} {name} {}", Arc::as_ptr(&opened), opened.generation, state.jobs.count());
    let job = state.jobs.begin(key, move |job| {
        let report = tensortap::replay_observed(&config, &mut |now| job.reach(now.finished, now.tasks));
        let report = report.map_err(Problem::new)?;
        serde_json::to_string(&ReplayDocument::of(&report)).map_err(Problem::new)
    })?;
    Ok(Answer::json(job.text()))
}

#[derive(Serialize)]
struct ExportedDocument {
    folder: String,
    selected: u64,
    files: u64,
    bytes: u64,
    skipped: usize,
}

/// Writes the records that a search leaves to files, in a new folder beside the dump.
pub(crate) fn export(state: &Arc<State>, params: &Params) -> Result<Answer, Problem> {
    let opened = state.shelf.dump(params)?;
    let word = params.get("format").unwrap_or("npy");
    let known = ExportFormat::ALL.into_iter().find(|format| format.name() == word);
    let format = known.ok_or_else(|| {
        let names = ExportFormat::ALL.map(ExportFormat::name).join(", ");
        Problem::with_hint(format!("there is no format `{word}`"), format!("formats are {names}"))
    })?;
    let selectors: Selectors = params.get("q").unwrap_or_default().parse()?;
    let key = format!("export {:p} {}", Arc::as_ptr(&opened), state.jobs.count());
    let job = state.jobs.begin(key, move |job| {
        let selection = selectors.selection(&opened.dump, &|_, _| ())?;
        let mut of = 0_u64;
        for record in selection.records(&opened.dump) {
            of = of.saturating_add(record?.readable_bytes());
        }
        job.reach(0, of);
        let config = ExportConfig::new(format, new_folder(opened.dump.dir(), format.name())?);
        let records = selection.records(&opened.dump);
        let report = tensortap::export_records(&opened.dump, records, &config, &|by| job.advance(by));
        let report = report.map_err(Problem::new)?;
        let document = ExportedDocument {
            folder: config.out.display().to_string(),
            selected: report.selected,
            files: report.files,
            bytes: report.file_bytes,
            skipped: report.skipped.len(),
        };
        serde_json::to_string(&document).map_err(Problem::new)
    })?;
    Ok(Answer::json(job.text()))
}

/// A folder beside the dump that is not there yet: no request names one.
fn new_folder(dump: &std::path::Path, format: &str) -> Result<PathBuf, Problem> {
    let dump = dump.canonicalize().map_err(Problem::new)?;
    let name = dump.file_name().map_or_else(|| "dump".into(), |name| name.to_string_lossy().into_owned());
    let parent = dump.parent().unwrap_or(&dump);
    let names =
        std::iter::once(format!("{name}_{format}")).chain((2..1000).map(|n| format!("{name}_{format}_{n}")));
    let mut free = names.map(|name| parent.join(name)).filter(|path| !path.exists());
    free.next().ok_or_else(|| Problem::new("there are too many exports beside the dump already"))
}

/// Gives a job up.
pub(crate) fn cancel(state: &State, params: &Params) -> Result<Answer, Problem> {
    let job = find(state, params)?;
    job.give_up();
    Ok(Answer::json(job.text()))
}

/// How far a job has come.
pub(crate) fn job(state: &State, params: &Params) -> Result<Answer, Problem> {
    Ok(Answer::json(find(state, params)?.text()))
}

fn find(state: &State, params: &Params) -> Result<Arc<super::jobs::Job>, Problem> {
    let id = params.number("job")?.ok_or_else(|| Problem::new("which job?"))?;
    state.jobs.find(id).ok_or_else(|| Problem::new("there is no such job, or no more"))
}
