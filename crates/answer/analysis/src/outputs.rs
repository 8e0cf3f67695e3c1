//! Compares the outputs of a run's orchestration with a golden of the whole run.
//!
//! Many tasks write parts of such an output, some over others. So the output is assembled from the captured
//! writes, the last write of every byte, and compared as one tensor.

mod memory;

use tensortap_abi::{DType, TaskId};
use tensortap_format::{ArgumentSnapshot, Dump, FormatError, OrchestrationArg, Status};
use tensortap_geometry::Layout;
use tensortap_judge::{Content, Depth, Detail, Outcome, Rule, RuleSubject, Tolerance, Verdict};
use tensortap_values::content_hash;

use crate::compare::{GONE, Side, compare, damage, detail, record_side, unless_gone};
use crate::diff::DiffOptions;
use crate::error::AnalysisError;
use crate::graph::view::{Piece, pieces};
use crate::graph::{OutputRef, TaskGraph, TensorView, load};
use memory::OutputMemory;

/// The expected final content of an output of the orchestration.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedOutput<'a> {
    /// Name among the arguments of the orchestration.
    pub name: &'a str,
    /// Element type.
    pub dtype: DType,
    /// Size of each axis.
    pub shape: &'a [u64],
    /// Expected content, packed.
    pub golden: &'a [u8],
    /// Content before the run, packed; `None` if the run starts without content, so that only tasks can have
    /// written it.
    pub initial: Option<&'a [u8]>,
    /// Tolerance of this output, if it has its own.
    pub tolerance: Option<Tolerance>,
}

/// The comparison of one output.
#[derive(Clone, Debug)]
pub struct OutputRow {
    /// Name among the arguments of the orchestration.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Size of each axis.
    pub shape: Vec<u64>,
    /// The tasks that wrote its final content, the last first.
    pub writers: Vec<Writer>,
    /// The rule.
    pub rule: Rule,
    /// The result.
    pub outcome: Outcome,
    /// The distribution of its errors, if it is outside its rule.
    pub detail: Option<Detail>,
    /// The task that wrote the worst element, if the output is outside its rule and a task wrote that
    /// element.
    pub worst_writer: Option<Writer>,
}

/// An argument of a task that wrote part of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The task.
    pub task_id: u64,
    /// Names of the task's kernels.
    pub kernels: Vec<String>,
    /// Path of the task's scope, if it has one.
    pub scope: Option<String>,
    /// Name of the task in its orchestration.
    pub task_name: Option<String>,
    /// Argument index.
    pub arg_index: u16,
    /// Name of the argument in its kernel.
    pub arg_name: Option<String>,
}

/// The comparison of all outputs of a run.
#[derive(Clone, Debug, Default)]
pub struct OutputDiff {
    /// In the order of the golden.
    pub rows: Vec<OutputRow>,
}

impl OutputDiff {
    /// Number of outputs with a verdict.
    #[must_use]
    pub fn compared(&self) -> usize {
        self.rows.iter().filter(|row| row.outcome.verdict != Verdict::Unknown).count()
    }

    /// Whether every output is within its rule, and there is at least one.
    #[must_use]
    pub fn passes(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|row| row.outcome.verdict == Verdict::Within)
    }
}

/// Assembles outputs from what the tasks of a dump wrote and compares each with its golden.
///
/// If the dump may lack writes, content outside its rule is [`Verdict::Unknown`], because a missing write may
/// have corrected it.
///
/// # Errors
/// A file cannot be read, or the dump does not record the addresses of the outputs.
pub fn diff_outputs(
    dump: &Dump,
    expected: &[ExpectedOutput<'_>],
    options: &DiffOptions<'_>,
) -> Result<OutputDiff, AnalysisError> {
    let args = dump.orchestration_args()?;
    if args.is_empty() {
        return Err(AnalysisError::NoOutputPlaces { dump: dump.dir().to_path_buf() });
    }
    let graph = load(dump, &options.steps)?;
    let run = OutputRun { dump, graph: &graph, gap: gap(dump, &graph) };
    let views: Vec<Result<TensorView, String>> =
        expected.iter().map(|output| view_of(&args, output)).collect();
    let found: Vec<TensorView> = views.iter().flatten().copied().collect();
    let mut writers = graph.last_writers(&found).into_iter();
    let outputs: Vec<Output<'_>> = expected
        .iter()
        .zip(views)
        .map(|(expected, view)| {
            let writes = view.is_ok().then(|| writers.next()).flatten();
            let view = match writes {
                Some(None) => Err(NOT_DECIDED.into()),
                _ => view,
            };
            Output { expected, view, writes: writes.flatten().unwrap_or_default() }
        })
        .collect();
    let rows = options.work.map(&outputs, |output| run.judge(output, options))?;
    Ok(OutputDiff { rows })
}

/// Why the writers of an output are not reported.
pub(crate) const NOT_DECIDED: &str =
    "the last writer was not determined: too many views with gaps are interleaved";

/// Why writes may be missing, including those of tasks that never ran.
pub(crate) fn gap(dump: &Dump, graph: &TaskGraph) -> Option<String> {
    let is_complete = dump.footer().is_some_and(|footer| footer.status == Status::Complete);
    let unfinished = (!is_complete).then(|| "the run did not complete".to_string());
    unfinished.or_else(|| graph.gap.clone())
}

/// The view of an output, if the dump's argument of that name has the golden's type.
fn view_of(args: &[OrchestrationArg], expected: &ExpectedOutput<'_>) -> Result<TensorView, String> {
    let arg = args.iter().find(|arg| arg.name.as_deref() == Some(expected.name));
    let arg = arg.ok_or("the dump does not record where it was in memory")?;
    let (shape, desc) = (expected.shape, &arg.desc);
    let layout = Layout::contiguous(shape, expected.dtype.bits()).map_err(|error| error.to_string())?;
    if desc.dtype() != Some(expected.dtype) || desc.dims() != shape || desc.start_offset != 0 {
        return Err(format!(
            "in the dump it is {} {:?}, not {} {shape:?}",
            desc.dtype().map_or("of an unknown dtype", DType::name),
            desc.dims(),
            expected.dtype.name(),
        ));
    }
    Ok(TensorView::new(layout, desc.buffer_addr))
}

/// The run whose outputs are assembled.
struct OutputRun<'a> {
    dump: &'a Dump,
    graph: &'a TaskGraph,
    gap: Option<String>,
}

struct Output<'a> {
    expected: &'a ExpectedOutput<'a>,
    view: Result<TensorView, String>,
    /// The writes that it holds, the newest first.
    writes: Vec<OutputRef>,
}

/// The content that one task wrote.
struct WritePayload {
    /// Where it is in memory.
    pieces: Vec<Piece>,
    /// The elements of all pieces, packed.
    content: Vec<u8>,
}

impl OutputRun<'_> {
    fn judge(&self, output: &Output<'_>, options: &DiffOptions<'_>) -> Result<OutputRow, FormatError> {
        let &ExpectedOutput { name, dtype, shape, .. } = output.expected;
        let writers: Vec<Writer> = output.writes.iter().map(|&write| self.writer(write)).collect();
        let rule = rule_of(output.expected, writers.first(), options);
        let mut row = OutputRow {
            name: name.into(),
            dtype,
            shape: shape.to_vec(),
            writers,
            rule,
            outcome: Outcome::unknown(""),
            detail: None,
            worst_writer: None,
        };
        match self.content(output)? {
            Err(reason) => row.outcome = Outcome::unknown(reason),
            Ok(ours) => self.compare(output, &ours, &mut row)?,
        }
        Ok(row)
    }

    fn compare(&self, output: &Output<'_>, ours: &Side<'_>, row: &mut OutputRow) -> Result<(), FormatError> {
        let ExpectedOutput { dtype, shape, golden, .. } = *output.expected;
        let mut theirs = Side::of_bytes(dtype, shape, golden);
        theirs.hash = ours.hash.map(|_| content_hash(golden));
        row.outcome = compare(ours, &theirs, &row.rule, false, Depth::Full)?;
        if row.outcome.verdict != Verdict::Outside {
            return Ok(());
        }
        // A payload that is the whole output was checked by the comparison.
        let parts = output.writes.iter().filter(|_| matches!(ours.content, Content::Bytes(_)));
        for captured in parts.filter_map(|&write| self.graph.output(write)?.after) {
            if let Some(reason) = damage(self.dump, &self.dump.record(captured.record)?)? {
                row.outcome = Outcome::unknown(reason);
                return Ok(());
            }
        }
        row.detail = detail(ours, &theirs, &row.rule, false)?;
        let worst = row.detail.as_ref().and_then(|detail| detail.worst.first());
        let write = worst.and_then(|worst| self.source_of(output, worst.index));
        row.worst_writer = write.map(|write| self.writer(write));
        if let Some(gap) = &self.gap {
            row.outcome = Outcome::unknown(format!(
                "it is outside its rule, but {gap}, so later writes may be missing"
            ));
        }
        Ok(())
    }

    /// The final content of an output, or why it is unknown.
    fn content(&self, output: &Output<'_>) -> Result<Result<Side<'_>, String>, FormatError> {
        let view = match &output.view {
            Ok(view) => view,
            Err(reason) => return Ok(Err(reason.clone())),
        };
        if let [write] = output.writes[..]
            && let Some(record) = self.whole(write, view, output.expected)
        {
            return Ok(Ok(record_side(self.dump, &self.dump.record(record)?)));
        }
        let ExpectedOutput { dtype, shape, .. } = *output.expected;
        let assembled = self.assemble(output, view)?;
        Ok(assembled.map(|bytes| Side::of_bytes(dtype, shape, bytes)))
    }

    /// The record of a write that is the whole output.
    fn whole(&self, write: OutputRef, view: &TensorView, expected: &ExpectedOutput<'_>) -> Option<u64> {
        let arg = self.graph.output(write)?;
        let is_whole = arg.dtype == expected.dtype
            && arg.shape() == expected.shape
            && TensorView::of(arg).is_some_and(|written| written.is_same_view(view));
        arg.after.filter(|_| is_whole).map(|captured| captured.record)
    }

    fn assemble(
        &self,
        output: &Output<'_>,
        view: &TensorView,
    ) -> Result<Result<Vec<u8>, String>, FormatError> {
        let Output { expected, writes, .. } = output;
        let Some(mut memory) = OutputMemory::new(view, expected.initial) else {
            return Ok(Err("it is too large".into()));
        };
        // The oldest first, so that later writes replace earlier ones.
        for &write in writes.iter().rev() {
            let written = match self.payload(write)? {
                Ok(written) => written,
                Err(reason) => return Ok(Err(reason)),
            };
            if memory.put(&written.pieces, &written.content).is_none() {
                return Ok(Err(format!("the payload of {} is too short", self.name_of(write))));
            }
        }
        let unwritten =
            || format!("no captured task wrote {} of its {} elements", memory.missing(), view.layout.numel());
        Ok(match (memory.missing(), expected.initial, &self.gap) {
            (0, _, _) | (_, Some(_), None) => Ok(memory.bytes),
            (_, None, None) => Err(unwritten()),
            (_, _, Some(gap)) => Err(format!("{}, and {gap}", unwritten())),
        })
    }

    /// The content and the place of a write, or why it is unknown.
    fn payload(&self, write: OutputRef) -> Result<Result<WritePayload, String>, FormatError> {
        let arg = self.graph.output(write);
        let Some(captured) = arg.and_then(|arg| arg.after).filter(ArgumentSnapshot::is_stored) else {
            return Ok(Err(format!("what {} wrote is not stored", self.name_of(write))));
        };
        let Some(written) = arg.and_then(TensorView::of).and_then(|view| pieces(&view)) else {
            return Ok(Err(format!("{} has too many separate memory ranges", self.name_of(write))));
        };
        let Some(content) = unless_gone(self.dump.payload(&self.dump.record(captured.record)?))? else {
            return Ok(Err(format!("what {} wrote: {GONE}", self.name_of(write))));
        };
        Ok(Ok(WritePayload { pieces: written, content }))
    }

    /// The newest write that holds an element.
    fn source_of(&self, output: &Output<'_>, index: u64) -> Option<OutputRef> {
        let view = output.view.as_ref().ok()?;
        let at = u128::from(view.address) * 2 + u128::from(index) * u128::from(view.layout.elem_bits() / 4);
        let holds = |write: &&OutputRef| {
            let written = self.graph.output(**write).and_then(TensorView::of).and_then(|view| pieces(&view));
            written.is_some_and(|pieces| pieces.iter().any(|piece| piece.start <= at && at < piece.end))
        };
        output.writes.iter().find(holds).copied()
    }

    fn writer(&self, write: OutputRef) -> Writer {
        let task = self.graph.task(write.task);
        Writer {
            task_id: task.task_id,
            kernels: task.kernel_names(),
            scope: task.scope().map(str::to_owned),
            task_name: task.task_name().map(str::to_owned),
            arg_index: write.arg_index,
            arg_name: task.arg_name(write.arg_index).map(str::to_owned),
        }
    }

    fn name_of(&self, write: OutputRef) -> String {
        format!("argument {} of task {}", write.arg_index, TaskId(self.graph.task(write.task).task_id))
    }
}

/// The rule of an output. Rules files select it by the task that wrote it last.
fn rule_of(expected: &ExpectedOutput<'_>, last: Option<&Writer>, options: &DiffOptions<'_>) -> Rule {
    let task_id = last.map_or(String::new(), |writer| TaskId(writer.task_id).to_string());
    let kernels: Vec<&str> = last.iter().flat_map(|writer| &writer.kernels).map(String::as_str).collect();
    let arg_index = last.map_or(0, |writer| u32::from(writer.arg_index));
    let subject = RuleSubject { task_id: &task_id, kernels: &kernels, arg_index, dtype: expected.dtype };
    options.rules.rule_declared(&subject, expected.tolerance)
}
