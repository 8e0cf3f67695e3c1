//! What a run left in the outputs of its orchestration, beside a golden of the whole run.
//!
//! No task produces such an output alone: many write parts of it, some over others. So it is put together from what tasks were
//! captured to have written, the last write of every byte, and compared as one tensor.

mod memory;

use tensortap_abi::{DType, TaskId};
use tensortap_format::{Captured, Dump, FormatError, OrchestrationArg, Status};
use tensortap_geometry::Layout;
use tensortap_judge::{Content, Depth, Detail, Outcome, Rule, Subject, Tolerance, Verdict};
use tensortap_values::content_hash;

use crate::compare::{GONE, Side, compare, damage, detail, record_side, unless_gone};
use crate::diff::DiffOptions;
use crate::error::AnalysisError;
use crate::graph::view::{Piece, pieces};
use crate::graph::{OutputRef, TaskGraph, TensorView, load};
use memory::Memory;

/// An output of the orchestration as it should be in the end.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedOutput<'a> {
    /// Its name among the arguments of the orchestration.
    pub name: &'a str,
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: &'a [u64],
    /// What it should hold, packed.
    pub golden: &'a [u8],
    /// What it held before the run, packed; `None` when nothing was put there, so that only tasks can have written it.
    pub initial: Option<&'a [u8]>,
    /// Its tolerance, where it has its own.
    pub tolerance: Option<Tolerance>,
}

/// One output beside its golden.
#[derive(Clone, Debug)]
pub struct OutputRow {
    /// Its name among the arguments of the orchestration.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: Vec<u64>,
    /// The tasks that wrote what it holds, the last first.
    pub writers: Vec<Writer>,
    /// The rule.
    pub rule: Rule,
    /// How it compares.
    pub outcome: Outcome,
    /// Where its errors sit, when it is outside its rule.
    pub detail: Option<Detail>,
    /// Who wrote the worst element, when it is outside its rule and a task did.
    pub worst_writer: Option<Writer>,
}

/// A task's argument that wrote part of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The task.
    pub task_id: u64,
    /// Names of its kernels.
    pub kernels: Vec<String>,
    /// Path of its scope, where it has one.
    pub scope: Option<String>,
    /// What its orchestration calls it.
    pub task_name: Option<String>,
    /// Its argument.
    pub arg_index: u16,
    /// What its kernel calls that.
    pub arg_name: Option<String>,
}

/// How the outputs of a run compare with their golden.
#[derive(Clone, Debug, Default)]
pub struct OutputDiff {
    /// In the order of the golden.
    pub rows: Vec<OutputRow>,
}

impl OutputDiff {
    /// Outputs for which there is a verdict.
    #[must_use]
    pub fn compared(&self) -> usize {
        self.rows.iter().filter(|row| row.outcome.verdict != Verdict::Unknown).count()
    }

    /// Whether every output is within its rule, and there is one.
    #[must_use]
    pub fn passes(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|row| row.outcome.verdict == Verdict::Within)
    }
}

/// Puts outputs together from what the tasks of a dump wrote and compares each with its golden.
///
/// Where the dump may lack writes, content outside its rule is [`Verdict::Unknown`]: what made it right may be what is missing.
///
/// # Errors
/// A file cannot be read, or the dump does not say where the outputs lay.
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
    let run = Run { dump, graph: &graph, gap: gap(dump, &graph) };
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

/// Why it is not said who wrote an output.
pub(crate) const NOT_DECIDED: &str =
    "who wrote it last is not decided: too many views with gaps lie in one another";

/// Why writes may be missing: also those of tasks that never ran.
pub(crate) fn gap(dump: &Dump, graph: &TaskGraph) -> Option<String> {
    let is_complete = dump.footer().is_some_and(|footer| footer.status == Status::Complete);
    let unfinished = (!is_complete).then(|| "the run did not complete".to_string());
    unfinished.or_else(|| graph.gap.clone())
}

/// Where an output lay, if the dump's argument of that name is what the golden is made for.
fn view_of(args: &[OrchestrationArg], expected: &ExpectedOutput<'_>) -> Result<TensorView, String> {
    let arg = args.iter().find(|arg| arg.name.as_deref() == Some(expected.name));
    let arg = arg.ok_or("the dump does not say where it lay")?;
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

/// The dump in which outputs are looked for.
struct Run<'a> {
    dump: &'a Dump,
    graph: &'a TaskGraph,
    gap: Option<String>,
}

struct Output<'a> {
    expected: &'a ExpectedOutput<'a>,
    view: Result<TensorView, String>,
    /// The writes it holds, the newest first.
    writes: Vec<OutputRef>,
}

/// What one task wrote.
struct Written {
    /// Where it lies.
    pieces: Vec<Piece>,
    /// The elements of all pieces, packed.
    content: Vec<u8>,
}

impl Run<'_> {
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
        // A payload that is the whole output was checked where it was compared.
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
            row.outcome =
                Outcome::unknown(format!("it is outside its rule, but {gap}: later writes may be missing"));
        }
        Ok(())
    }

    /// What an output held in the end, or why that cannot be said.
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
        let Some(mut memory) = Memory::new(view, expected.initial) else {
            return Ok(Err("it is too large".into()));
        };
        // The oldest first, so that what was written later stays.
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

    /// What a write put where; or why that is not known.
    fn payload(&self, write: OutputRef) -> Result<Result<Written, String>, FormatError> {
        let arg = self.graph.output(write);
        let Some(captured) = arg.and_then(|arg| arg.after).filter(Captured::is_stored) else {
            return Ok(Err(format!("what {} wrote is not stored", self.name_of(write))));
        };
        let Some(written) = arg.and_then(TensorView::of).and_then(|view| pieces(&view)) else {
            return Ok(Err(format!("{} has too many pieces", self.name_of(write))));
        };
        let Some(content) = unless_gone(self.dump.payload(&self.dump.record(captured.record)?))? else {
            return Ok(Err(format!("what {} wrote: {GONE}", self.name_of(write))));
        };
        Ok(Ok(Written { pieces: written, content }))
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

/// The rule of an output: rules files name it by the task that wrote it last.
fn rule_of(expected: &ExpectedOutput<'_>, last: Option<&Writer>, options: &DiffOptions<'_>) -> Rule {
    let task_id = last.map_or(String::new(), |writer| TaskId(writer.task_id).to_string());
    let kernels: Vec<&str> = last.iter().flat_map(|writer| &writer.kernels).map(String::as_str).collect();
    let arg_index = last.map_or(0, |writer| u32::from(writer.arg_index));
    let subject = Subject { task_id: &task_id, kernels: &kernels, arg_index, dtype: expected.dtype };
    options.rules.rule_declared(&subject, expected.tolerance)
}
