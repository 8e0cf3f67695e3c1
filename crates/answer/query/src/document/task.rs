//! The document of a task: what `show TASK --json` prints, and what the task view of the web page shows. Numbers
//! that people read are also there as text, so that every view formats them in the same way.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tensortap::abi::UncapturedReason;
use tensortap::analysis::blame::Blame;
use tensortap::analysis::graph::{OutputRef, TaskGraph};
use tensortap::analysis::labels::Finding;
use tensortap::analysis::observation::{Observation, UnattributedChange};
use tensortap::format::{Dump, Launch, Module, ScalarValue, Task};
use tensortap::{DumpStage, TaskId};

use super::compare::{DetailDocument, Measures, counted_verdict_word, detail_document, measures};
use super::show::MeasuredDocument;
use crate::compare_words::outside_or_why;
use crate::kind_words::KindDocument;
use crate::module_words::module_words;
use crate::number::{bytes, time};
use crate::observed::not_decided;
use crate::show::Histogram;
use crate::task::{ArgPage, ArgSnapshot, MemoryDocument, Neighbor, TaskComparison, TaskPage};
use crate::words::{arg_words, full_names, launch_text, record_name, scalar_text, step_task, task_words};

/// The document of a task and its neighbors.
#[derive(Serialize)]
pub struct TaskPageDocument<'a> {
    dump: String,
    /// Id with step, as used in commands.
    task: String,
    /// Description of the task.
    words: String,
    step: u32,
    task_id: String,
    scope: Option<&'a str>,
    task_name: Option<&'a str>,
    kernels: Vec<String>,
    /// The names of `kernels` as in their source, if they are symbols of C++ or Rust.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    full_names: Vec<String>,
    block_num: Option<u32>,
    /// Nanoseconds after the start of the dump's first task; null if the dump has no times.
    started_ns: Option<u64>,
    started_text: Option<String>,
    took_ns: Option<u64>,
    took_text: Option<String>,
    in_flight: bool,
    /// Why the run ended early, if the task is in flight.
    run_end: Option<&'a str>,
    step_name: Option<&'a str>,
    queue: Option<&'a str>,
    /// Source file and line that submitted the task.
    source: Option<String>,
    parent: Option<String>,
    /// Whether it is a region; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    region: bool,
    /// Ids of the tasks whose parent it is, with their steps; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<String>,
    /// Group, number and kind, if it is a part of a collective operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    collective: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collective_text: Option<&'a str>,
    /// The attributes as in `graph.json`; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<&'a Value>,
    /// Names and texts of the attributes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attributes_text: Vec<(&'a str, &'a str)>,
    /// The launch sizes as in `graph.json`; null if unknown.
    launch: Option<Value>,
    launch_text: Option<String>,
    /// The module with its code; null if unknown.
    module: Option<&'a Module>,
    module_text: Option<String>,
    /// Arguments that could not be captured.
    uncaptured: Vec<UncapturedDocument>,
    arguments: Vec<ArgumentDocument<'a>>,
    /// With `--memory`: the allocations that the memory of the arguments belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Vec<MemoryDocument>>,
    producers: Vec<NeighborDocument>,
    consumers: Vec<NeighborDocument>,
    /// Other tasks that match the name.
    pub also_meant: Vec<String>,
    /// The label, if the task was compared.
    pub label: Option<LabelDocument>,
    /// Remarks about the golden that qualify the result.
    pub remarks: Vec<String>,
}

#[derive(Serialize)]
struct UncapturedDocument {
    arg_index: u16,
    arg_name: Option<String>,
    reason: &'static str,
    /// The same as text.
    words: String,
}

impl UncapturedDocument {
    fn of(task: Task<'_>, arg_index: u16, reason: UncapturedReason) -> UncapturedDocument {
        let arg_name = task.arg_name(arg_index).map(String::from);
        let words = format!("{}: {}", arg_words(task, arg_index), reason.text());
        UncapturedDocument { arg_index, arg_name, reason: reason.text(), words }
    }
}

/// The label of a task with its reason.
#[derive(Serialize)]
pub struct LabelDocument {
    /// One of blame's labels.
    pub label: &'static str,
    /// The argument that decided the label.
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
    /// Whether the role is known; otherwise `observed` has an observation.
    role_known: bool,
    observed: Option<&'static str>,
    /// Why it is ambiguous; null if it is not.
    ambiguity: Option<AmbiguityDocument>,
    /// The unattributed change before the task; null if there is none.
    unattributed_change: Option<UnattributedDocument>,
    kind: &'static str,
    dtype: &'static str,
    shape: &'a [u64],
    /// Size of the content as text.
    size_text: Option<String>,
    value: Option<ScalarValue>,
    value_text: Option<String>,
    /// Null if nothing was captured at that stage.
    before: Option<SnapshotDocument<'a>>,
    after: Option<SnapshotDocument<'a>>,
    unchanged: bool,
    /// Tasks that produced its content before the task.
    from: Vec<String>,
    /// Tasks that used its content after the task.
    to: Vec<String>,
}

/// Other possible writers of an argument.
#[derive(Serialize)]
struct AmbiguityDocument {
    /// The first tasks that are unordered with this one and may have written the memory.
    tasks: Vec<String>,
    /// Number of such tasks; 100 means 100 or more.
    count: usize,
    host_writable: bool,
}

/// An unattributed change: content differs from what the last task left, with no task in between.
#[derive(Serialize)]
pub struct UnattributedDocument {
    /// The task that found the changed content, and its argument.
    found_by: EndDocument,
    /// The last task that used those bytes, and its argument.
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
    pub fn of(graph: &TaskGraph, change: &UnattributedChange) -> UnattributedDocument {
        let end = |end: OutputRef| EndDocument {
            step: graph.task(end.task).step,
            task_id: TaskId(graph.task(end.task).task_id).to_string(),
            arg_index: end.arg_index,
        };
        let UnattributedChange { found, left, host_writable } = *change;
        UnattributedDocument { found_by: end(found), left_by: end(left), host_writable }
    }
}

#[derive(Serialize)]
struct SnapshotDocument<'a> {
    index: u64,
    /// The name by which `show` finds the record.
    name: String,
    payload: &'static str,
    stats: Option<MeasuredDocument>,
    /// Names and texts of the statistics.
    stats_text: Vec<(&'static str, String)>,
    histogram: Option<&'a Histogram>,
    damaged: bool,
    /// The result of the comparison; null if it was not compared.
    compared: Option<ComparedDocument>,
}

#[derive(Serialize)]
struct ComparedDocument {
    /// `pass`, `fail`, `unknown`, or `ignored` if it differs but does not count for the verdict.
    verdict: &'static str,
    /// The evidence as text.
    words: String,
    #[serde(flatten)]
    measures: Measures,
    /// Where errors are; null without errors or without stored bytes.
    detail: Option<DetailDocument>,
    /// The kind of error; null in the same cases.
    kind: Option<KindDocument>,
}

impl ComparedDocument {
    fn of(held: &TaskComparison<'_>, arg_index: u16, stage: DumpStage) -> Option<ComparedDocument> {
        let compared = held.compared(arg_index, stage)?;
        let found = held.outside(arg_index, stage);
        Some(ComparedDocument {
            verdict: counted_verdict_word(held.blame, held.place, compared),
            words: outside_or_why(&compared.outcome),
            measures: measures(&compared.outcome, &compared.rule),
            detail: found.and_then(|found| found.detail.as_ref()).map(detail_document),
            kind: found
                .and_then(|found| found.kind.as_ref())
                .map(|kind| KindDocument::of(&held.blame.graph, kind)),
        })
    }
}

/// A neighbor of a task, or another task with its name.
#[derive(Serialize)]
pub struct NeighborDocument {
    /// Id with step, as used in commands.
    task: String,
    /// Description of the task.
    words: String,
    step: u32,
    task_id: String,
    task_name: Option<String>,
    kernels: Vec<String>,
    /// Whether content passed between the tasks. Otherwise it is only a dependency.
    carries: bool,
    /// Its label, if tasks were compared.
    label: Option<&'static str>,
}

impl NeighborDocument {
    /// The document of a task, with its label in `blame`.
    #[must_use]
    pub fn of(task: Task<'_>, carries: bool, blame: Option<&Blame>) -> NeighborDocument {
        let finding = blame.and_then(|blame| blame.findings.get(blame.graph.position(task.key())?));
        NeighborDocument {
            task: step_task(task.step, task.task_id),
            words: task_words(task),
            step: task.step,
            task_id: TaskId(task.task_id).to_string(),
            task_name: task.task_name().map(String::from),
            kernels: task.kernel_names(),
            carries,
            label: finding.map(|finding| finding.label.name()),
        }
    }
}

impl<'a> TaskPageDocument<'a> {
    /// The document of a page, with the result of a comparison.
    #[must_use]
    pub fn of(
        dump: &Dump,
        graph: &TaskGraph,
        page: &'a TaskPage<'a>,
        held: Option<&TaskComparison<'_>>,
    ) -> TaskPageDocument<'a> {
        let TaskPage { task, times, submission, module, args, uncaptured, producers, consumers, run_end } =
            page;
        let nanoseconds = |time: Option<Duration>| time.and_then(|time| u64::try_from(time.as_nanos()).ok());
        let blame = held.map(|held| held.blame);
        let neighbors = |those: &[Neighbor]| {
            those.iter().map(|one| NeighborDocument::of(graph.task(one.place), one.carries, blame)).collect()
        };
        TaskPageDocument {
            dump: dump.dir().display().to_string(),
            task: step_task(task.step, task.task_id),
            words: task_words(*task),
            step: task.step,
            task_id: TaskId(task.task_id).to_string(),
            scope: task.scope(),
            task_name: task.task_name(),
            kernels: task.kernel_names(),
            full_names: full_names(&task.kernel_names()),
            block_num: task.block_count(),
            started_ns: nanoseconds(times.started),
            started_text: times.started.map(time),
            took_ns: nanoseconds(times.took),
            took_text: times.took.map(time),
            in_flight: task.is_unfinished(),
            run_end: run_end.as_deref(),
            step_name: submission.step_name.as_deref(),
            queue: submission.queue.as_deref(),
            source: submission.source_text(),
            attributes: submission.attributes.iter().map(|one| &one.document).collect(),
            attributes_text: submission.attributes.iter().map(|one| (&*one.name, &*one.text)).collect(),
            region: task.is_region,
            children: task.children().map(|child| step_task(child.step, child.task_id)).collect(),
            collective: submission.collective.as_ref().map(|(_, document)| document),
            collective_text: submission.collective.as_ref().map(|(text, _)| &**text),
            parent: submission.parent.map(|parent| TaskId(parent).to_string()),
            launch: task.launch.as_deref().map(launch_document),
            launch_text: task.launch.as_deref().map(launch_text),
            module: module.as_ref(),
            module_text: module.as_ref().map(module_words),
            uncaptured: uncaptured.iter().map(|&(at, why)| UncapturedDocument::of(*task, at, why)).collect(),
            arguments: args.iter().map(|arg| argument(graph, arg, held)).collect(),
            memory: None,
            producers: neighbors(producers),
            consumers: neighbors(consumers),
            also_meant: Vec::new(),
            label: held.map(|held| LabelDocument::of(&held.blame.findings[held.place])),
            remarks: not_decided(graph),
        }
    }
}

fn argument<'a>(
    graph: &TaskGraph,
    page: &'a ArgPage<'a>,
    held: Option<&TaskComparison<'_>>,
) -> ArgumentDocument<'a> {
    let arg = page.arg;
    let ids = |places: &[usize]| places.iter().map(|&p| TaskId(graph.task(p).task_id).to_string()).collect();
    let compared = |stage| held.and_then(|held| ComparedDocument::of(held, arg.arg_index, stage));
    ArgumentDocument {
        arg_index: arg.arg_index,
        arg_name: page.name.as_deref(),
        role: arg.role.name(),
        role_known: arg.role_known,
        observed: graph.observed(arg).map(Observation::name),
        ambiguity: graph.observations().and_then(|seen| seen.ambiguity(arg)).map(|why| AmbiguityDocument {
            tasks: ids(&why.others),
            count: why.count,
            host_writable: why.host_writable,
        }),
        unattributed_change: page.unattributed.as_ref().map(|change| UnattributedDocument::of(graph, change)),
        kind: arg.kind.name(),
        dtype: arg.dtype.name(),
        shape: arg.shape(),
        size_text: arg.content_bytes().map(bytes),
        value: arg.scalar_bits.map(|bits| ScalarValue::decode(arg.dtype, bits)),
        value_text: arg.scalar_bits.map(|bits| scalar_text(ScalarValue::decode(arg.dtype, bits))),
        before: page.before.as_ref().map(|one| snapshot(one, compared(DumpStage::BeforeDispatch))),
        after: page.after.as_ref().map(|one| snapshot(one, compared(DumpStage::AfterCompletion))),
        unchanged: arg.is_unchanged(),
        from: ids(&page.from),
        to: ids(&page.to),
    }
}

fn snapshot(snapshot: &ArgSnapshot, compared: Option<ComparedDocument>) -> SnapshotDocument<'_> {
    SnapshotDocument {
        index: snapshot.record.index,
        name: record_name(&snapshot.record),
        payload: snapshot.record.payload.name(),
        stats: snapshot.stats.map(MeasuredDocument::of),
        stats_text: snapshot.statistics_text(),
        histogram: snapshot.histogram.as_ref(),
        damaged: snapshot.damaged,
        compared,
    }
}

/// The sizes of a launch, as in `graph.json`.
pub(super) fn launch_document(launch: &Launch) -> Value {
    let &Launch { work_dims, grid, group, global_size, global_offset, shared_bytes, cluster, is_cooperative } =
        launch;
    json!({
        "work_dims": work_dims, "grid": grid, "group": group, "global_size": global_size, "global_offset": global_offset,
        "shared_bytes": shared_bytes, "cluster": cluster, "cooperative": is_cooperative,
    })
}
