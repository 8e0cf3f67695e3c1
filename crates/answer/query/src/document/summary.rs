//! What `summary --json` prints.

use std::time::Duration;

use serde::Serialize;
use tensortap::TaskId;
use tensortap::analysis::observation::{ObservationCounts, UnattributedChanges};
use tensortap::format::{Dump, Module, Task};

use super::task::UnattributedDocument;
use crate::summary::{KernelSummary, Summary};
use crate::words::{record_name, state_name};

/// The document of a summary. Times are in nanoseconds.
#[derive(Serialize)]
pub struct SummaryDocument {
    dump: String,
    scene: String,
    platform: String,
    runtime: String,
    /// `closed`, `open` or `torn`.
    state: &'static str,
    tasks: usize,
    records: u64,
    stored_bytes: u64,
    /// Time from the start of the first task to the end of the last; null if the dump has no times.
    span_ns: Option<u64>,
    kernels: Vec<KernelDocument>,
    critical_path: PathDocument,
    slowest: Vec<TaskDocument>,
    largest: Vec<LargeDocument>,
    flagged: Vec<FlaggedDocument>,
    flagged_count: u64,
    /// Ids that several tasks share.
    repeated_ids: Vec<String>,
    /// Records whose values were not measured.
    unmeasured: u64,
    /// Observations of arguments with unknown roles; null if all roles are known.
    observed: Option<ObservedDocument>,
    /// The first tasks that had not completed when the run ended.
    in_flight: Vec<TaskDocument>,
    in_flight_count: usize,
    /// Arguments that could not be captured, by reason.
    uncaptured: Vec<UncapturedDocument>,
    /// Modules with the code of kernels.
    modules: Vec<ModuleDocument>,
}

#[derive(Serialize)]
struct UncapturedDocument {
    reason: &'static str,
    arguments: u64,
}

#[derive(Serialize)]
struct ModuleDocument {
    #[serde(flatten)]
    module: Module,
    /// Number of tasks that run its code.
    tasks: u64,
}

#[derive(Serialize)]
struct ObservedDocument {
    same: u64,
    changed: u64,
    ambiguous: u64,
    unobserved: u64,
    unattributed_changes: Vec<UnattributedDocument>,
    unattributed_count: usize,
    /// Arguments for which it is not determined whether they changed between tasks.
    undecided: u64,
    /// Tasks that are treated as unordered with others although they may be ordered, because the graph is too
    /// wide.
    order_unknown: usize,
    /// Arguments whose writers are not determined because that would take too long.
    origin_undecided: usize,
}

/// Maximum number of unattributed changes that are listed.
const LISTED: usize = 100;

#[derive(Serialize)]
struct KernelDocument {
    kernels: String,
    tasks: u64,
    time_ns: u64,
    longest_ns: u64,
    bytes: u64,
    nan: u64,
    inf: u64,
}

#[derive(Serialize)]
struct PathDocument {
    time_ns: u64,
    tasks: Vec<String>,
}

#[derive(Serialize)]
struct TaskDocument {
    step: u32,
    task_id: String,
    scope: Option<String>,
    task_name: Option<String>,
    kernels: Vec<String>,
    took_ns: u64,
}

#[derive(Serialize)]
struct LargeDocument {
    index: u64,
    name: String,
    bytes: u64,
}

#[derive(Serialize)]
struct FlaggedDocument {
    index: u64,
    name: String,
    flags: Vec<&'static str>,
    nan: u64,
    inf: u64,
    numel: u64,
}

impl SummaryDocument {
    /// The document of a summary.
    #[must_use]
    pub fn of(dump: &Dump, summary: &Summary) -> SummaryDocument {
        let graph = &summary.graph;
        let id = |&place: &usize| TaskId(graph.task(place).task_id).to_string();
        let info = dump.info();
        SummaryDocument {
            dump: dump.dir().display().to_string(),
            scene: info.scene.clone(),
            platform: info.platform.clone(),
            runtime: info.runtime.clone(),
            state: state_name(&dump.tail()),
            tasks: graph.len(),
            records: dump.len(),
            stored_bytes: dump.totals().stored_bytes,
            span_ns: summary.span.map(nanoseconds),
            kernels: summary.kernels.iter().map(kernel).collect(),
            critical_path: PathDocument {
                time_ns: nanoseconds(summary.critical.1),
                tasks: summary.critical.0.iter().map(id).collect(),
            },
            slowest: summary.slowest.iter().map(|&p| task(graph.task(p), summary.took(p))).collect(),
            largest: summary
                .largest
                .iter()
                .map(|r| LargeDocument { index: r.index, name: record_name(r), bytes: r.content_bytes() })
                .collect(),
            flagged: summary.flagged.iter().map(flagged).collect(),
            flagged_count: summary.flagged_count,
            repeated_ids: summary
                .graph
                .tasks()
                .iter()
                .filter(|task| task.is_repeated())
                .map(|task| TaskId(task.task_id).to_string())
                .collect(),
            unmeasured: summary.unmeasured,
            observed: observed(summary),
            in_flight: summary
                .in_flight
                .iter()
                .take(LISTED)
                .map(|&p| task(graph.task(p), summary.took(p)))
                .collect(),
            in_flight_count: summary.in_flight.len(),
            uncaptured: summary
                .uncaptured
                .iter()
                .map(|&(reason, arguments)| UncapturedDocument { reason: reason.text(), arguments })
                .collect(),
            modules: summary
                .modules
                .iter()
                .map(|one| ModuleDocument { module: one.module.clone(), tasks: one.tasks })
                .collect(),
        }
    }
}

fn observed(summary: &Summary) -> Option<ObservedDocument> {
    let ObservationCounts { same, changed, ambiguous, unobserved } = summary.graph.observations()?.counts();
    let order_unknown = summary.graph.observations()?.order().unknown_count();
    let UnattributedChanges { changes, undecided } = &summary.unattributed;
    let listed = changes.iter().take(LISTED).map(|change| UnattributedDocument::of(&summary.graph, change));
    Some(ObservedDocument {
        same,
        changed,
        ambiguous,
        unobserved,
        unattributed_changes: listed.collect(),
        unattributed_count: changes.len(),
        undecided: *undecided,
        order_unknown,
        origin_undecided: summary.graph.undecided_count(),
    })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn kernel(sum: &KernelSummary) -> KernelDocument {
    let KernelSummary { kernels, tasks, time, longest, bytes, nan, inf } = sum;
    KernelDocument {
        kernels: kernels.clone(),
        tasks: *tasks,
        time_ns: nanoseconds(*time),
        longest_ns: nanoseconds(*longest),
        bytes: *bytes,
        nan: *nan,
        inf: *inf,
    }
}

fn task(task: Task<'_>, took: Duration) -> TaskDocument {
    TaskDocument {
        step: task.step,
        task_id: TaskId(task.task_id).to_string(),
        scope: task.scope().map(String::from),
        task_name: task.task_name().map(String::from),
        kernels: task.kernel_names(),
        took_ns: nanoseconds(took),
    }
}

fn flagged(one: &crate::summary::FlaggedRecord) -> FlaggedDocument {
    let record = &one.measured.record;
    let stats = one.measured.summary.map(|summary| summary.stats).unwrap_or_default();
    FlaggedDocument {
        index: record.index,
        name: record_name(record),
        flags: one.flags.iter().map(|flag| flag.name()).collect(),
        nan: stats.nan,
        inf: stats.inf,
        numel: record.numel,
    }
}
