//! One task with everything around it, and a dump at a glance.

use std::sync::Arc;

use serde::Serialize;
use tensortap::DumpStage;
use tensortap::analysis::blame::Blame;
use tensortap::analysis::graph::TaskGraph;
use tensortap::format::{ScalarValue, TaskKey};
use tensortap::judge::{Outcome, Verdict};
use tensortap_query::compare_words::outside_or_why;
use tensortap_query::document::SummaryDocument;
use tensortap_query::ids::parse_task;
use tensortap_query::module_words::module_words;
use tensortap_query::number::{bytes, counted, grouped, significant, time};
use tensortap_query::observed::role_word;
use tensortap_query::summary::{Summary, SummaryOptions};
use tensortap_query::words::{
    arg_words, kernels_text, launch_text, printable, record_name, scalar_text, sizes_text, state_name,
    step_task, task_words, what_ran,
};
use tensortap_query::{ArgPage, Moment, Neighbour, TaskPage, find_tasks};

use super::State;
use super::answer::{Answer, Params, Problem};
use super::shelf::{Opened, Right};

/// Digits of a statistic.
const DIGITS: usize = 4;
/// Neighbours that are named, on either side.
const NAMED: usize = 40;
/// Other tasks of the same name that are named.
const ALSO: usize = 60;

/// The dumps that are served.
#[derive(Serialize)]
struct DumpsDocument<'s> {
    dumps: Vec<DumpDocument>,
    /// What they are held against unless a page says otherwise.
    golden: Option<&'s str>,
    /// Where arrays in files lie that are a golden.
    files: Option<String>,
    /// Whether pages may replay tasks and write files.
    actions: bool,
    /// The command that lets them.
    allowing: &'s str,
}

#[derive(Serialize)]
struct DumpDocument {
    id: usize,
    name: String,
    path: String,
    /// What ran, in words.
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

/// Which dumps there are, and how far they have come.
pub(crate) fn dumps(state: &State) -> Answer {
    let slots = state.shelf.slots.iter().enumerate();
    let dumps = slots.map(|(id, slot)| {
        let opened = slot.current();
        let dump = &opened.dump;
        DumpDocument {
            id,
            name: printable(&slot.name).into_owned(),
            path: slot.path.display().to_string(),
            title: printable(&what_ran(dump)).into_owned(),
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
        golden: state.shelf.golden.as_deref(),
        files: state.shelf.files.as_ref().map(|(path, _)| path.display().to_string()),
        actions: state.allow_actions,
        allowing: &state.allowing,
    })
}

/// A dump at a glance; contents are not read for it.
pub(crate) fn summary(state: &State, params: &Params) -> Result<Answer, Problem> {
    let opened = state.shelf.dump(params)?;
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

#[derive(Serialize)]
struct TaskDocument {
    task: String,
    kernels: String,
    title: String,
    scope: Option<String>,
    blocks: Option<String>,
    started: Option<String>,
    took: Option<String>,
    in_flight: bool,
    /// Sizes of the launch, and the program that its kernel is of.
    launch: Option<String>,
    program: Option<String>,
    /// Arguments that could not be captured, each with its reason.
    uncaptured: Vec<String>,
    label: Option<LabelDocument>,
    arguments: Vec<ArgumentDocument>,
    producers: Vec<NeighbourDocument>,
    consumers: Vec<NeighbourDocument>,
    /// Neighbours that are not named, on each side.
    further: [usize; 2],
    /// Other tasks that the name means.
    also: Vec<NeighbourDocument>,
    /// The task of the golden, where there is one.
    golden_task: Option<String>,
    generation: u64,
}

#[derive(Serialize)]
struct LabelDocument {
    label: &'static str,
    argument: Option<u16>,
    reason: Option<String>,
}

#[derive(Serialize)]
struct NeighbourDocument {
    task: String,
    words: String,
    /// Whether content passed; otherwise one only waited for the other.
    carries: bool,
    label: Option<&'static str>,
}

#[derive(Serialize)]
struct ArgumentDocument {
    argument: u16,
    name: Option<String>,
    role: &'static str,
    dtype: &'static str,
    shape: Vec<u64>,
    shape_text: String,
    size: Option<String>,
    /// Of a scalar.
    value: Option<String>,
    before: Option<MomentDocument>,
    after: Option<MomentDocument>,
    unchanged: bool,
    from: Vec<String>,
    to: Vec<String>,
}

#[derive(Serialize)]
struct MomentDocument {
    record: u64,
    name: String,
    payload: &'static str,
    /// Name and value of each statistic.
    facts: Vec<(&'static str, String)>,
    counts: Option<Vec<u64>>,
    damaged: bool,
    /// Whether the golden has a record for it.
    golden: bool,
    /// How it compares, where that was found out.
    outcome: Option<OutcomeDocument>,
}

#[derive(Serialize)]
struct OutcomeDocument {
    verdict: &'static str,
    words: String,
}

/// A task.
pub(crate) fn task(state: &State, params: &Params) -> Result<Answer, Problem> {
    let opened = state.shelf.dump(params)?;
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
    let page = TaskPage::among(&opened.dump, &graph, &graph.index, place)?;
    let golden = Golden::of(state, params, &opened)?;
    let maker = Maker { graph: &graph, blame: blame.as_deref(), golden: golden.as_ref(), opened: &opened };
    let mut document = maker.task(&page)?;
    let others = meant.into_iter().filter(|&other| other != place).take(ALSO);
    document.also = others.map(|place| maker.neighbour(Neighbour { place, carries: true })).collect();
    Ok(Answer::document(&document))
}

/// The place of a task that is named by its id, as answers name it: found without a walk over all tasks.
fn known(graph: &TaskGraph, name: &str) -> Option<usize> {
    let (step, id) = name.split_once('@').map_or((Some(0), name), |(step, id)| (step.parse().ok(), id));
    graph.position(TaskKey { step: step?, task_id: parse_task(id).ok()? })
}

/// A golden dump, with the name that requests have for it.
struct Golden {
    opened: Arc<Opened>,
    name: String,
}

impl Golden {
    fn of(state: &State, params: &Params, _: &Arc<Opened>) -> Result<Option<Golden>, Problem> {
        Ok(match state.shelf.right(params)? {
            Some(Right::Dump(opened)) => {
                Some(Golden { opened, name: params.get("golden").unwrap_or_default().to_owned() })
            }
            Some(Right::Files(..) | Right::Reference) | None => None,
        })
    }
}

/// What pages of a task are made of.
struct Maker<'m> {
    graph: &'m TaskGraph,
    blame: Option<&'m Blame>,
    golden: Option<&'m Golden>,
    opened: &'m Arc<Opened>,
}

impl Maker<'_> {
    fn task(&self, page: &TaskPage<'_>) -> Result<TaskDocument, Problem> {
        let task = page.task;
        let arguments: Result<Vec<_>, Problem> = page.args.iter().map(|arg| self.argument(arg)).collect();
        let named = |those: &[Neighbour]| those.iter().take(NAMED).map(|one| self.neighbour(*one)).collect();
        let finding = self.place().and_then(|of| Some(self.blame?.findings.get(of(task.key())?)?.clone()));
        Ok(TaskDocument {
            task: step_task(task.step, task.task_id),
            kernels: kernels_text(&task.kernel_names()),
            title: task_words(task),
            scope: task.scope().map(|scope| printable(scope).into_owned()),
            blocks: task.block_count().filter(|&blocks| blocks > 1).map(|blocks| grouped(blocks.into())),
            started: page.times.started.map(time),
            took: page.times.took.map(time),
            in_flight: task.is_unfinished(),
            launch: task.launch.as_deref().map(launch_text),
            program: page.module.as_ref().map(module_words),
            uncaptured: page
                .uncaptured
                .iter()
                .map(|(at, reason)| format!("{}: {}", arg_words(task, *at), reason.text()))
                .collect(),
            label: finding.map(|finding| LabelDocument {
                label: finding.label.name(),
                argument: finding.arg_index,
                reason: finding.reason.map(|reason| printable(&reason).into_owned()),
            }),
            arguments: arguments?,
            producers: named(&page.producers),
            consumers: named(&page.consumers),
            further: [page.producers.len().saturating_sub(NAMED), page.consumers.len().saturating_sub(NAMED)],
            also: Vec::new(),
            golden_task: self.golden_task(page)?,
            generation: self.opened.generation,
        })
    }

    /// Where a task stands in the graph that labels are of.
    fn place(&self) -> Option<impl Fn(TaskKey) -> Option<usize> + '_> {
        self.blame.map(|blame| |key| blame.graph.position(key))
    }

    fn golden_task(&self, page: &TaskPage<'_>) -> Result<Option<String>, Problem> {
        let Some(golden) = self.golden else { return Ok(None) };
        let matching = self.opened.partners(&golden.opened, &golden.name)?;
        let Some(partner) = matching.partner.get(page.task.place()).copied().flatten() else {
            return Ok(None);
        };
        let theirs = golden.opened.graph()?;
        let task = theirs.task(partner);
        Ok(Some(step_task(task.step, task.task_id)))
    }

    fn neighbour(&self, one: Neighbour) -> NeighbourDocument {
        let task = self.graph.task(one.place);
        NeighbourDocument {
            task: step_task(task.step, task.task_id),
            words: task_words(task),
            carries: one.carries,
            label: super::lists::label_of(task, self.blame).map(|label| label.name()),
        }
    }

    fn argument(&self, page: &ArgPage<'_>) -> Result<ArgumentDocument, Problem> {
        let arg = page.arg;
        let ids = |places: &[usize]| {
            let id = |&place: &usize| step_task(self.graph.task(place).step, self.graph.task(place).task_id);
            places.iter().take(NAMED).map(id).collect()
        };
        let moment = |moment: &Option<Moment>| moment.as_ref().map(|moment| self.moment(moment)).transpose();
        Ok(ArgumentDocument {
            argument: arg.arg_index,
            name: page.name.as_ref().map(|name| printable(name).into_owned()),
            role: role_word(self.graph, arg),
            dtype: arg.dtype.name(),
            shape: arg.shape().to_vec(),
            shape_text: sizes_text(arg.shape()),
            size: arg.content_bytes().map(bytes),
            value: arg.scalar_bits.map(|bits| scalar_text(ScalarValue::decode(arg.dtype, bits))),
            before: moment(&page.before)?,
            after: moment(&page.after)?,
            unchanged: arg.is_unchanged(),
            from: ids(&page.from),
            to: ids(&page.to),
        })
    }

    fn moment(&self, moment: &Moment) -> Result<MomentDocument, Problem> {
        let record = &moment.record;
        let mut facts = Vec::new();
        if let Some(stats) = moment.stats {
            for (name, value) in
                [("min", stats.min), ("max", stats.max), ("mean", stats.mean), ("std", stats.std)]
            {
                facts.push((name, significant(value, DIGITS)));
            }
            for (count, name) in [(stats.nan, "NaN"), (stats.inf, "Inf"), (stats.zeros, "zeros")] {
                if count > 0 {
                    facts.push((name, grouped(count)));
                }
            }
        }
        let golden = match self.golden {
            Some(golden) => self.opened.partner(&golden.opened, &golden.name, record)?.is_some(),
            None => false,
        };
        Ok(MomentDocument {
            record: record.index,
            name: record_name(record),
            payload: record.payload.name(),
            facts,
            counts: moment.histogram.as_ref().map(|histogram| histogram.counts.clone()),
            damaged: moment.damaged,
            golden,
            outcome: self.outcome(record.task_key(), record.arg_index, record.stage),
        })
    }

    fn outcome(&self, key: TaskKey, arg: u16, stage: DumpStage) -> Option<OutcomeDocument> {
        let blame = self.blame?;
        let compared = blame.compared_args.get(blame.graph.position(key)?)?;
        let found = compared.iter().find(|one| one.arg_index == arg && one.stage == stage)?;
        Some(OutcomeDocument { verdict: verdict_word(&found.outcome), words: outside_or_why(&found.outcome) })
    }
}

/// A verdict in one word.
pub(crate) fn verdict_word(outcome: &Outcome) -> &'static str {
    match outcome.verdict {
        Verdict::Within => "within",
        Verdict::Outside => "outside",
        Verdict::Unknown => "unknown",
    }
}
