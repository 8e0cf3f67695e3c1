//! The page of one task, the list of dumps, and the summary of a dump.

use std::sync::Arc;

use serde::Serialize;
use tensortap::analysis::graph::TaskGraph;
use tensortap::format::TaskKey;
use tensortap_query::document::{NeighborDocument, SummaryDocument, TaskPageDocument};
use tensortap_query::ids::parse_task;
use tensortap_query::number::{bytes, counted};
use tensortap_query::summary::{Summary, SummaryOptions};
use tensortap_query::words::{printable, run_title, state_name, step_task};
use tensortap_query::{TaskComparison, TaskPage, find_tasks};

use super::State;
use super::answer::{Answer, Params, Problem};
use super::open_dumps::{Baseline, OpenDump};

/// Neighbors that are listed on each side.
const NAMED: usize = 40;
/// Other tasks of the same name that are listed.
const ALSO: usize = 60;

/// The dumps that are served.
#[derive(Serialize)]
struct DumpsDocument<'s> {
    dumps: Vec<DumpDocument>,
    /// The default golden.
    golden: Option<&'s str>,
    /// Path of a golden that is files with arrays.
    files: Option<String>,
    /// Whether pages may replay tasks and write files.
    actions: bool,
    /// The command that starts the server with actions allowed.
    allowing: &'s str,
}

#[derive(Serialize)]
struct DumpDocument {
    id: usize,
    name: String,
    path: String,
    /// A title: scene, platform and runtime.
    title: String,
    /// `closed`, `open` or `torn`.
    state: &'static str,
    status: Option<&'static str>,
    records: u64,
    records_text: String,
    bytes_text: String,
    generation: u64,
    only_golden: bool,
}

/// The list of dumps with their current state.
pub(crate) fn dumps(state: &State) -> Answer {
    let slots = state.open_dumps.slots.iter().enumerate();
    let dumps = slots.map(|(id, slot)| {
        let opened = slot.current();
        let dump = &opened.dump;
        DumpDocument {
            id,
            name: printable(&slot.name).into_owned(),
            path: slot.path.display().to_string(),
            title: printable(&run_title(dump)).into_owned(),
            state: state_name(&dump.tail()),
            status: dump.status().map(|status| status.name()),
            records: dump.len(),
            records_text: counted(dump.len(), "record"),
            bytes_text: bytes(dump.totals().stored_bytes),
            generation: opened.generation,
            only_golden: slot.only_golden,
        }
    });
    Answer::document(&DumpsDocument {
        dumps: dumps.collect(),
        golden: state.open_dumps.golden.as_deref(),
        files: state.open_dumps.files.as_ref().map(|(path, _)| path.display().to_string()),
        actions: state.allow_actions,
        allowing: &state.allowing,
    })
}

/// The summary of a dump, without reading contents.
pub(crate) fn summary(state: &State, params: &Params) -> Result<Answer, Problem> {
    let opened = state.open_dumps.dump(params)?;
    let job = state.jobs.begin(
        format!("summary {:p} {}", Arc::as_ptr(&opened), opened.generation),
        move |job| {
            let options = SummaryOptions {
                steps: &[],
                measures: false,
                jobs: Some(1),
                advance: &|by| {
                    job.advance(by);
                },
            };
            let summary = Summary::of(&opened.dump, &options)?;
            serde_json::to_string(&SummaryDocument::of(&opened.dump, &summary)).map_err(Problem::new)
        },
    )?;
    Ok(Answer::json(job.text()))
}

/// The document of a task, with what the page shows in addition.
#[derive(Serialize)]
struct TaskAnswer<'a> {
    #[serde(flatten)]
    page: TaskPageDocument<'a>,
    /// Number of neighbors that are not listed, on each side.
    further: [usize; 2],
    /// Other tasks that match the name.
    also: Vec<NeighborDocument>,
    /// The matching task of the golden.
    golden_task: Option<String>,
    /// Records of the task that have a counterpart in the golden.
    golden_records: Vec<u64>,
    generation: u64,
}

/// A task.
pub(crate) fn task(state: &State, params: &Params) -> Result<Answer, Problem> {
    let opened = state.open_dumps.dump(params)?;
    let graph = opened.graph()?;
    let place = match params.number::<usize>("place")? {
        Some(place) if place < graph.len() => place,
        Some(_) => return Err(Problem::new("there is no task at that place")),
        None => match known(&graph, params.get("task").unwrap_or_default()) {
            Some(place) => place,
            None => find_tasks(graph.tasks(), params.get("task").unwrap_or_default())?[0],
        },
    };
    let name = params.get("task").filter(|name| known(&graph, name).is_none());
    let meant = name.map_or(Ok(Vec::new()), |name| find_tasks(graph.tasks(), name))?;
    let blame = opened.blame(params.get("golden"));
    let mut page = TaskPage::among(&opened.dump, &graph, &graph.index, place)?;
    let golden = Golden::of(state, params)?;
    let further = [&mut page.producers, &mut page.consumers].map(|neighbors| {
        let further = neighbors.len().saturating_sub(NAMED);
        neighbors.truncate(NAMED);
        further
    });
    for arg in &mut page.args {
        arg.from.truncate(NAMED);
        arg.to.truncate(NAMED);
    }
    let comparison = blame.as_deref().and_then(|blame| {
        Some(TaskComparison::without_details(blame, blame.graph.position(page.task.key())?))
    });
    let others = meant.into_iter().filter(|&other| other != place).take(ALSO);
    let also = others.map(|other| NeighborDocument::of(graph.task(other), true, blame.as_deref())).collect();
    let (golden_task, golden_records) = match &golden {
        Some(golden) => golden.partners(&opened, &page)?,
        None => (None, Vec::new()),
    };
    let page = TaskPageDocument::of(&opened.dump, &graph, &page, comparison.as_ref());
    let generation = opened.generation;
    Ok(Answer::document(&TaskAnswer { page, further, also, golden_task, golden_records, generation }))
}

/// Finds a task by the id that answers use, without a walk over all tasks.
fn known(graph: &TaskGraph, name: &str) -> Option<usize> {
    let (step, id) = name.split_once('@').map_or((Some(0), name), |(step, id)| (step.parse().ok(), id));
    graph.position(TaskKey { step: step?, task_id: parse_task(id).ok()? })
}

/// A golden dump, with its name in requests.
struct Golden {
    opened: Arc<OpenDump>,
    name: String,
}

impl Golden {
    fn of(state: &State, params: &Params) -> Result<Option<Golden>, Problem> {
        Ok(match state.open_dumps.baseline(params)? {
            Some(Baseline::Dump(opened)) => {
                Some(Golden { opened, name: params.get("golden").unwrap_or_default().to_owned() })
            }
            Some(Baseline::Files(..) | Baseline::Reference) | None => None,
        })
    }

    /// The golden's counterpart of a task, and the records of the task that have one.
    fn partners(
        &self,
        opened: &Arc<OpenDump>,
        page: &TaskPage<'_>,
    ) -> Result<(Option<String>, Vec<u64>), Problem> {
        let matching = opened.partners(&self.opened, &self.name)?;
        let Some(partner) = matching.partner.get(page.task.place()).copied().flatten() else {
            return Ok((None, Vec::new()));
        };
        let theirs = self.opened.graph()?;
        let task = theirs.task(partner);
        let mut records = Vec::new();
        for snapshot in page.args.iter().flat_map(|arg| [&arg.before, &arg.after]).flatten() {
            if opened.partner(&self.opened, &self.name, &snapshot.record)?.is_some() {
                records.push(snapshot.record.index);
            }
        }
        Ok((Some(step_task(task.step, task.task_id)), records))
    }
}
