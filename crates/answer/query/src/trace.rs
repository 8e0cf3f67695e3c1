//! Writes timelines for trace viewers: Perfetto protobuf, or Chrome trace JSON with the same events.
//!
//! Every dump is a process. Its tracks are those of its [`Timeline`]. A row of overlapping slices is a
//! separate track, because viewers nest the slices of one track. A flow connects a task with each task that
//! it waited for.

mod chrome;
mod perfetto;

use std::io::{self, Write};

use tensortap::analysis::graph::TaskGraph;
use tensortap::format::{Argument, DispatchFacts, DispatchTimes, ScalarValue, Task};

use crate::number::bytes;
use crate::observed::role_word;
use crate::timeline::{Counter, Slice, SliceKind, Timeline, Track};
use crate::words::{arg_words, kernels_text, printable, scalar_text, short_task, sizes_text};

/// The format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Perfetto protobuf.
    Perfetto,
    /// Chrome trace JSON.
    Chrome,
}

impl TraceFormat {
    /// The format for a file extension.
    #[must_use]
    pub fn of_ending(ending: &str) -> Option<TraceFormat> {
        match ending {
            "pftrace" | "perfetto-trace" => Some(TraceFormat::Perfetto),
            "json" => Some(TraceFormat::Chrome),
            _ => None,
        }
    }

    /// The name of the format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TraceFormat::Perfetto => "perfetto",
            TraceFormat::Chrome => "chrome",
        }
    }
}

/// One dump of a trace.
#[derive(Clone, Copy)]
pub struct TraceProcess<'a> {
    /// The name of the process.
    pub name: &'a str,
    /// Its process number, unique in the trace.
    pub pid: u32,
    /// Its tasks.
    pub graph: &'a TaskGraph,
    /// Its timeline.
    pub timeline: &'a Timeline,
}

/// Counts of a written trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceCounts {
    /// Slices of tasks.
    pub tasks: u64,
    /// Slices of dispatches.
    pub dispatches: u64,
    /// Flows.
    pub flows: u64,
    /// Tracks of slices.
    pub tracks: u64,
    /// Samples of counters.
    pub samples: u64,
}

/// Writes a trace, dump by dump.
pub struct TraceWriter<W: Write> {
    sink: Sink<W>,
    counts: TraceCounts,
}

enum Sink<W: Write> {
    Perfetto(perfetto::Perfetto<W>),
    Chrome(chrome::Chrome<W>),
}

/// A track of slices, as a viewer shows it.
struct TraceTrack<'a> {
    pid: u32,
    /// Number within its process, from 1; also its sort order.
    number: u32,
    name: &'a str,
}

/// One slice with its annotations.
struct TraceSlice<'a> {
    slice: &'a Slice,
    name: &'a str,
    /// Annotations by name.
    facts: &'a [(&'static str, AnnotationValue)],
    /// Flows that start at it.
    leaving: &'a [u64],
    /// Flows that end at it.
    entering: &'a [u64],
}

/// The value of an annotation.
enum AnnotationValue {
    Text(String),
    Number(u64),
    /// Texts by name.
    Texts(Vec<(String, String)>),
}

/// The category of a slice.
const fn category(what: SliceKind) -> &'static str {
    match what {
        SliceKind::Task(_) => "task",
        SliceKind::Dispatch { .. } => "dispatch",
    }
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn new(format: TraceFormat, out: W) -> io::Result<TraceWriter<W>> {
        let sink = match format {
            TraceFormat::Perfetto => Sink::Perfetto(perfetto::Perfetto::new(out)),
            TraceFormat::Chrome => Sink::Chrome(chrome::Chrome::new(out)?),
        };
        Ok(TraceWriter { sink, counts: TraceCounts::default() })
    }

    /// Adds a dump. `advance` is called with the number of written slices.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn add(&mut self, process: &TraceProcess<'_>, mut advance: impl FnMut(u64)) -> io::Result<()> {
        let TraceProcess { name, pid, timeline, graph } = *process;
        self.sink.process(pid, name)?;
        let first_flow = self.counts.flows + 1;
        let flows = Flows::of(graph, timeline, first_flow);
        self.counts.flows += timeline.flows.len() as u64;
        let mut number = 0;
        let mut rest = timeline.slices.as_slice();
        for (place, track) in timeline.tracks.iter().enumerate() {
            let (own, following) = rest.split_at(rest.partition_point(|slice| slice.track == place));
            rest = following;
            let mut own = own.to_vec();
            if track.nests {
                own.sort_by_key(|slice| (slice.start_ns, slice.row));
            }
            // Nested rows are one track.
            for (row, slices) in own.chunk_by(|a, b| track.nests || a.row == b.row).enumerate() {
                number += 1;
                self.sink.line(&TraceTrack { pid, number, name: &row_name(track, row) })?;
                self.counts.tracks += 1;
                self.slices(process, number, slices, &flows)?;
                advance(slices.len() as u64);
            }
        }
        for counter in &timeline.counters {
            number += 1;
            self.counts.samples += counter.samples.len() as u64;
            self.sink.counter(pid, number, counter)?;
        }
        Ok(())
    }

    fn slices(
        &mut self,
        process: &TraceProcess<'_>,
        line: u32,
        slices: &[Slice],
        flows: &Flows,
    ) -> io::Result<()> {
        // Ends of the enclosing slices, innermost last.
        let mut open: Vec<u64> = Vec::new();
        for slice in slices {
            while open.last().is_some_and(|&end| end <= slice.start_ns) {
                self.sink.end(process.pid, line, open.pop().unwrap_or(0))?;
            }
            let task = process.graph.task(slice.what.task());
            let (name, facts, leaving, entering) = match slice.what {
                SliceKind::Task(place) => {
                    self.counts.tasks += 1;
                    let (leaving, entering) = flows.at(place);
                    (task_name(task), task_facts(process.graph, task, slice), leaving, entering)
                }
                SliceKind::Dispatch { number, .. } => {
                    self.counts.dispatches += 1;
                    let (of, at) = (&task.dispatches()[number], &task.dispatch_times()[number]);
                    (dispatch_name(task, of), dispatch_facts(task, of, at, slice), &[][..], &[][..])
                }
            };
            let shown = TraceSlice { slice, name: &name, facts: &facts, leaving, entering };
            self.sink.slice(process.pid, line, &shown)?;
            open.push(slice.end_ns());
        }
        open.into_iter().rev().try_for_each(|end| self.sink.end(process.pid, line, end))
    }

    /// Ends the trace and returns its counts.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn finish(self) -> io::Result<TraceCounts> {
        match self.sink {
            Sink::Perfetto(mut sink) => sink.finish()?,
            Sink::Chrome(mut sink) => sink.finish()?,
        }
        Ok(self.counts)
    }
}

impl<W: Write> Sink<W> {
    fn process(&mut self, pid: u32, name: &str) -> io::Result<()> {
        match self {
            Sink::Perfetto(sink) => sink.process(pid, name),
            Sink::Chrome(sink) => sink.process(pid, name),
        }
    }

    fn line(&mut self, line: &TraceTrack<'_>) -> io::Result<()> {
        match self {
            Sink::Perfetto(sink) => sink.line(line),
            Sink::Chrome(sink) => sink.line(line),
        }
    }

    fn slice(&mut self, pid: u32, line: u32, shown: &TraceSlice<'_>) -> io::Result<()> {
        match self {
            Sink::Perfetto(sink) => sink.slice(pid, line, shown),
            Sink::Chrome(sink) => sink.slice(pid, line, shown),
        }
    }

    /// Ends the innermost slice of a track. In JSON, a slice contains its duration.
    fn end(&mut self, pid: u32, line: u32, at_ns: u64) -> io::Result<()> {
        match self {
            Sink::Perfetto(sink) => sink.end(pid, line, at_ns),
            Sink::Chrome(_) => Ok(()),
        }
    }

    fn counter(&mut self, pid: u32, number: u32, counter: &Counter) -> io::Result<()> {
        match self {
            Sink::Perfetto(sink) => sink.counter(pid, number, counter),
            Sink::Chrome(sink) => sink.counter(pid, counter),
        }
    }
}

fn row_name(track: &Track, row: usize) -> String {
    if row == 0 { track.name.clone() } else { format!("{} ({})", track.name, row + 1) }
}

/// Ids of flows at each task.
struct Flows {
    leaving: Vec<Vec<u64>>,
    entering: Vec<Vec<u64>>,
}

impl Flows {
    fn of(graph: &TaskGraph, timeline: &Timeline, first: u64) -> Flows {
        let mut flows =
            Flows { leaving: vec![Vec::new(); graph.len()], entering: vec![Vec::new(); graph.len()] };
        for (id, flow) in (first..).zip(&timeline.flows) {
            flows.leaving[flow.from].push(id);
            flows.entering[flow.to].push(id);
        }
        flows
    }

    fn at(&self, place: usize) -> (&[u64], &[u64]) {
        (&self.leaving[place], &self.entering[place])
    }
}

fn task_name(task: Task<'_>) -> String {
    match task.task_name() {
        Some(name) => printable(name).into_owned(),
        None => kernels_text(&task.kernel_names()),
    }
}

fn task_facts(graph: &TaskGraph, task: Task<'_>, slice: &Slice) -> Vec<(&'static str, AnnotationValue)> {
    let text = |text: &str| AnnotationValue::Text(printable(text).into_owned());
    let mut facts = vec![("task_id", AnnotationValue::Text(short_task(task.task_id)))];
    if task.step != 0 {
        facts.push(("step", AnnotationValue::Number(task.step.into())));
    }
    facts.push(("kernels", AnnotationValue::Text(kernels_text(&task.kernel_names()))));
    facts.extend(task.scope().map(|scope| ("scope", text(scope))));
    facts.extend(task.core.map(|core| ("core", AnnotationValue::Number(core.into()))));
    facts
        .extend(task.block_count().filter(|&n| n > 1).map(|n| ("blocks", AnnotationValue::Number(n.into()))));
    if task.capture_ns != 0 {
        facts.push(("held_up_ns", AnnotationValue::Number(task.capture_ns)));
    }
    let arguments: Vec<_> = task.arguments().map(|arg| argument_words(graph, task, arg)).collect();
    if !arguments.is_empty() {
        facts.push(("arguments", AnnotationValue::Texts(arguments)));
    }
    facts.extend(slice.sure.words().map(|words| ("times", AnnotationValue::Text(words.into()))));
    facts
}

/// An argument: its name, and its type or value.
fn argument_words(graph: &TaskGraph, task: Task<'_>, arg: Argument<'_>) -> (String, String) {
    let name = arg_words(task, arg.arg_index);
    if let Some(bits) = arg.scalar_bits {
        return (name, format!("{} {}", arg.dtype.name(), scalar_text(ScalarValue::decode(arg.dtype, bits))));
    }
    let role = role_word(graph, arg);
    let size = arg.content_bytes().map(|size| format!(", {}", bytes(size))).unwrap_or_default();
    (name, format!("{role} {} {}{size}", arg.dtype.name(), sizes_text(arg.shape())))
}

fn dispatch_name(task: Task<'_>, of: &DispatchFacts) -> String {
    let place = usize::try_from(of.subtask_id).ok().filter(|_| task.func_ids().count() > 1);
    let names = task.kernel_names();
    // Used slots may have gaps, so find the kernel by its function id.
    let own = task.func_ids().position(|id| id == of.func_id).filter(|_| place.is_some()).unwrap_or(0);
    names.get(own).map_or_else(|| format!("func_{}", of.func_id), |name| printable(name).into_owned())
}

fn dispatch_facts(
    task: Task<'_>,
    of: &DispatchFacts,
    at: &DispatchTimes,
    slice: &Slice,
) -> Vec<(&'static str, AnnotationValue)> {
    let mut facts = vec![
        ("dispatch_id", AnnotationValue::Text(format!("{:#x}", task.dispatch_id(of)))),
        ("task_id", AnnotationValue::Text(short_task(task.task_id))),
        ("task", AnnotationValue::Text(task_name(task))),
        ("core", AnnotationValue::Number(of.core_id.into())),
        ("slot", AnnotationValue::Number(of.subtask_id.into())),
        ("block", AnnotationValue::Number(of.block_idx.into())),
    ];
    if let Some(waited) = at.started_ns.checked_sub(at.handed_ns).filter(|_| at.handed_ns != 0) {
        facts.push(("waited_ns", AnnotationValue::Number(waited)));
    }
    facts.extend(slice.sure.words().map(|words| ("times", AnnotationValue::Text(words.into()))));
    facts
}

#[cfg(test)]
mod tests;
