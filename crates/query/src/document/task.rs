//! What `show TASK --json` prints.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tensortap::abi::UncapturedReason;
use tensortap::analysis::graph::{OutputRef, TaskGraph};
use tensortap::analysis::labels::Finding;
use tensortap::analysis::observation::{Observed, Unattributed};
use tensortap::format::{Dump, Launch, Module, ScalarValue, Task, role_name};
use tensortap::{DumpStage, TaskId};

use super::compare::{DetailDocument, Measures, detail_document, measures, verdict_word};
use super::show::MeasuredDocument;
use crate::kind_words::KindDocument;
use crate::observed::not_decided;
use crate::show::Histogram;
use crate::task::{ArgPage, HeldTask, Moment, Neighbour, TaskPage};

/// One task and what is around it.
#[derive(Serialize)]
pub struct TaskPageDocument<'a> {
    dump: String,
    step: u32,
    task_id: String,
    scope: Option<&'a str>,
    task_name: Option<&'a str>,
    kernels: Vec<String>,
    block_num: Option<u32>,
    /// Nanoseconds from the first task of the dump on; null when the dump has no times.
    started_ns: Option<u64>,
    took_ns: Option<u64>,
    in_flight: bool,
    step_name: Option<&'a str>,
    queue: Option<&'a str>,
    /// File and line.
    source: Option<String>,
    parent: Option<String>,
    /// How its work is spread, as `graph.json` has it; null where the dump does not say.
    launch: Option<Value>,
    /// The program that its code comes from; null where the dump does not know it.
    module: Option<&'a Module>,
    /// Arguments of which nothing could be captured.
    uncaptured: Vec<UncapturedDocument>,
    arguments: Vec<ArgumentDocument<'a>>,
    producers: Vec<NeighbourDocument>,
    consumers: Vec<NeighbourDocument>,
    /// Other tasks that the name means, too.
    pub also_meant: Vec<String>,
    /// By golden or reference, where it was asked for.
    pub label: Option<LabelDocument>,
    /// What to know of the golden before believing what is said by it.
    pub remarks: Vec<String>,
}

#[derive(Serialize)]
struct UncapturedDocument {
    arg_index: u16,
    arg_name: Option<String>,
    reason: &'static str,
}

impl UncapturedDocument {
    fn of(task: Task<'_>, arg_index: u16, reason: UncapturedReason) -> UncapturedDocument {
        let arg_name = task.arg_name(arg_index).map(String::from);
        UncapturedDocument { arg_index, arg_name, reason: reason.text() }
    }
}

/// What a task did, and why it is thought so.
#[derive(Serialize)]
pub struct LabelDocument {
    /// One of blame's labels.
    pub label: &'static str,
    /// The argument that tells.
    pub arg_index: Option<u16>,
    /// Why.
    pub reason: Option<String>,
}

impl LabelDocument {
    fn of(finding: &Finding) -> LabelDocument {
        let Finding { label, arg_index, reason, .. } = finding;
        LabelDocument { label: label.name(), arg_index: *arg_index, reason: reason.clone() }
    }
}

#[derive(Serialize)]
struct ArgumentDocument<'a> {
    arg_index: u16,
    arg_name: Option<&'a str>,
    role: &'static str,
    /// Whether that is known; otherwise `observed` says what was.
    role_known: bool,
    observed: Option<&'static str>,
    /// Why it is ambiguous; null when it is not.
    ambiguity: Option<AmbiguityDocument>,
    /// Who left something else there, with no task between; null when nothing changed so.
    unattributed_change: Option<UnattributedDocument>,
    kind: &'static str,
    dtype: &'static str,
    shape: &'a [u64],
    value: Option<ScalarValue>,
    /// Null when nothing was captured then.
    before: Option<MomentDocument<'a>>,
    after: Option<MomentDocument<'a>>,
    unchanged: bool,
    /// Tasks whose outputs hold what it was given.
    from: Vec<String>,
    /// Tasks that were given what it left.
    to: Vec<String>,
}

/// Who else may have changed an argument.
#[derive(Serialize)]
struct AmbiguityDocument {
    /// The first of the tasks that are unordered with its own and may have written there.
    tasks: Vec<String>,
    /// How many there are; 100 stands for as many or more.
    count: usize,
    host_writable: bool,
}

/// Content that differs from what the last task left, with no task between: both ends.
#[derive(Serialize)]
pub struct UnattributedDocument {
    /// The task that found it, and its argument.
    found_by: EndDocument,
    /// The last task that was given those bytes, and its argument.
    left_by: EndDocument,
    host_writable: bool,
}

#[derive(Serialize)]
struct EndDocument {
    step: u32,
    task_id: String,
    arg_index: u16,
}

impl UnattributedDocument {
    /// The document of a change.
    #[must_use]
    pub fn of(graph: &TaskGraph, change: &Unattributed) -> UnattributedDocument {
        let end = |end: OutputRef| EndDocument {
            step: graph.task(end.task).step,
            task_id: TaskId(graph.task(end.task).task_id).to_string(),
            arg_index: end.arg_index,
        };
        let Unattributed { found, left, host_writable } = *change;
        UnattributedDocument { found_by: end(found), left_by: end(left), host_writable }
    }
}

#[derive(Serialize)]
struct MomentDocument<'a> {
    index: u64,
    payload: &'static str,
    stats: Option<MeasuredDocument>,
    histogram: Option<&'a Histogram>,
    damaged: bool,
    /// How it compares with what it was held against; null where nothing was.
    compared: Option<ComparedDocument>,
}

#[derive(Serialize)]
struct ComparedDocument {
    verdict: &'static str,
    #[serde(flatten)]
    measures: Measures,
    /// Where its errors sit; null where there are none, or no bytes to look at.
    detail: Option<DetailDocument>,
    /// What kind of error it is; likewise.
    kind: Option<KindDocument>,
}

impl ComparedDocument {
    fn of(held: &HeldTask<'_>, arg_index: u16, stage: DumpStage) -> Option<ComparedDocument> {
        let compared = held.compared(arg_index, stage)?;
        let found = held.outside(arg_index, stage);
        Some(ComparedDocument {
            verdict: verdict_word(compared.outcome.verdict),
            measures: measures(&compared.outcome, &compared.rule),
            detail: found.and_then(|found| found.detail.as_ref()).map(detail_document),
            kind: found
                .and_then(|found| found.kind.as_ref())
                .map(|kind| KindDocument::of(&held.blame.graph, kind)),
        })
    }
}

#[derive(Serialize)]
struct NeighbourDocument {
    step: u32,
    task_id: String,
    task_name: Option<String>,
    kernels: Vec<String>,
    /// Whether content passed; otherwise one only waited for the other.
    carries: bool,
}

impl<'a> TaskPageDocument<'a> {
    /// The document of a page, and of what came of holding the task against something.
    #[must_use]
    pub fn of(
        dump: &Dump,
        graph: &TaskGraph,
        page: &'a TaskPage<'a>,
        held: Option<&HeldTask<'_>>,
    ) -> TaskPageDocument<'a> {
        let TaskPage { task, times, said, module, args, uncaptured, producers, consumers } = page;
        let nanoseconds = |time: Option<Duration>| time.and_then(|time| u64::try_from(time.as_nanos()).ok());
        let neighbours = |those: &[Neighbour]| {
            those.iter().map(|one| neighbour(graph.task(one.place), one.carries)).collect()
        };
        TaskPageDocument {
            dump: dump.dir().display().to_string(),
            step: task.step,
            task_id: TaskId(task.task_id).to_string(),
            scope: task.scope(),
            task_name: task.task_name(),
            kernels: task.kernel_names(),
            block_num: task.block_count(),
            started_ns: nanoseconds(times.started),
            took_ns: nanoseconds(times.took),
            in_flight: task.is_unfinished(),
            step_name: said.step_name.as_deref(),
            queue: said.queue.as_deref(),
            source: said.source_text(),
            parent: said.parent.map(|parent| TaskId(parent).to_string()),
            launch: task.launch.as_deref().map(launch_document),
            module: module.as_ref(),
            uncaptured: uncaptured.iter().map(|&(at, why)| UncapturedDocument::of(*task, at, why)).collect(),
            arguments: args.iter().map(|arg| argument(graph, arg, held)).collect(),
            producers: neighbours(producers),
            consumers: neighbours(consumers),
            also_meant: Vec::new(),
            label: held.map(|held| LabelDocument::of(&held.blame.findings[held.place])),
            remarks: not_decided(graph),
        }
    }
}

fn neighbour(task: Task<'_>, carries: bool) -> NeighbourDocument {
    NeighbourDocument {
        step: task.step,
        task_id: TaskId(task.task_id).to_string(),
        task_name: task.task_name().map(String::from),
        kernels: task.kernel_names(),
        carries,
    }
}

fn argument<'a>(
    graph: &TaskGraph,
    page: &'a ArgPage<'a>,
    held: Option<&HeldTask<'_>>,
) -> ArgumentDocument<'a> {
    let arg = page.arg;
    let ids = |places: &[usize]| places.iter().map(|&p| TaskId(graph.task(p).task_id).to_string()).collect();
    let compared = |stage| held.and_then(|held| ComparedDocument::of(held, arg.arg_index, stage));
    ArgumentDocument {
        arg_index: arg.arg_index,
        arg_name: page.name.as_deref(),
        role: role_name(arg.role),
        role_known: arg.role_known,
        observed: graph.observed(arg).map(Observed::name),
        ambiguity: graph.observations().and_then(|seen| seen.ambiguity(arg)).map(|why| AmbiguityDocument {
            tasks: ids(&why.others),
            count: why.count,
            host_writable: why.host_writable,
        }),
        unattributed_change: page.unattributed.as_ref().map(|change| UnattributedDocument::of(graph, change)),
        kind: arg.kind.name(),
        dtype: arg.dtype.name(),
        shape: arg.shape(),
        value: arg.scalar_bits.map(|bits| ScalarValue::decode(arg.dtype, bits)),
        before: page.before.as_ref().map(|one| moment(one, compared(DumpStage::BeforeDispatch))),
        after: page.after.as_ref().map(|one| moment(one, compared(DumpStage::AfterCompletion))),
        unchanged: arg.is_unchanged(),
        from: ids(&page.from),
        to: ids(&page.to),
    }
}

fn moment(moment: &Moment, compared: Option<ComparedDocument>) -> MomentDocument<'_> {
    MomentDocument {
        index: moment.record.index,
        payload: moment.record.payload.name(),
        stats: moment.stats.map(MeasuredDocument::of),
        histogram: moment.histogram.as_ref(),
        damaged: moment.damaged,
        compared,
    }
}

/// How the work of a launch is spread, as `graph.json` says it.
pub(super) fn launch_document(launch: &Launch) -> Value {
    let &Launch { work_dims, grid, group, global_size, global_offset, shared_bytes, cluster, is_cooperative } =
        launch;
    json!({
        "work_dims": work_dims, "grid": grid, "group": group, "global_size": global_size, "global_offset": global_offset,
        "shared_bytes": shared_bytes, "cluster": cluster, "cooperative": is_cooperative,
    })
}
