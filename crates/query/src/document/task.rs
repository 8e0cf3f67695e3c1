//! What `show TASK --json` prints.

use std::time::Duration;

use serde::Serialize;
use tensortap::TaskId;
use tensortap::analysis::graph::TaskGraph;
use tensortap::format::{Dump, ScalarValue, Task, role_name};

use super::show::MeasuredDocument;
use crate::show::Histogram;
use crate::task::{ArgPage, Moment, Neighbour, TaskPage};

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
    arguments: Vec<ArgumentDocument<'a>>,
    producers: Vec<NeighbourDocument>,
    consumers: Vec<NeighbourDocument>,
    /// Other tasks that the name means, too.
    pub also_meant: Vec<String>,
    /// By golden or reference, where it was asked for.
    pub label: Option<LabelDocument>,
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

#[derive(Serialize)]
struct ArgumentDocument<'a> {
    arg_index: u16,
    arg_name: Option<&'a str>,
    role: &'static str,
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

#[derive(Serialize)]
struct MomentDocument<'a> {
    index: u64,
    payload: &'static str,
    stats: Option<MeasuredDocument>,
    histogram: Option<&'a Histogram>,
    damaged: bool,
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
    /// The document of a page.
    #[must_use]
    pub fn of(dump: &Dump, graph: &TaskGraph, page: &'a TaskPage<'a>) -> TaskPageDocument<'a> {
        let TaskPage { task, times, said, args, producers, consumers } = page;
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
            arguments: args.iter().map(|arg| argument(graph, arg)).collect(),
            producers: neighbours(producers),
            consumers: neighbours(consumers),
            also_meant: Vec::new(),
            label: None,
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

fn argument<'a>(graph: &TaskGraph, page: &'a ArgPage<'a>) -> ArgumentDocument<'a> {
    let arg = page.arg;
    let ids = |places: &[usize]| places.iter().map(|&p| TaskId(graph.task(p).task_id).to_string()).collect();
    ArgumentDocument {
        arg_index: arg.arg_index,
        arg_name: page.name.as_deref(),
        role: role_name(arg.role),
        kind: arg.kind.name(),
        dtype: arg.dtype.name(),
        shape: arg.shape(),
        value: arg.scalar_bits.map(|bits| ScalarValue::decode(arg.dtype, bits)),
        before: page.before.as_ref().map(moment),
        after: page.after.as_ref().map(moment),
        unchanged: arg.is_unchanged(),
        from: ids(&page.from),
        to: ids(&page.to),
    }
}

fn moment(moment: &Moment) -> MomentDocument<'_> {
    MomentDocument {
        index: moment.record.index,
        payload: moment.record.payload.name(),
        stats: moment.stats.map(MeasuredDocument::of),
        histogram: moment.histogram.as_ref(),
        damaged: moment.damaged,
    }
}
