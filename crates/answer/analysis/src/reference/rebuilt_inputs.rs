//! Rebuilds the inputs of tasks in dumps with only outputs. Views and scalars come from the captured
//! dispatches (`--dump-args`), content from the outputs of earlier tasks.

use std::collections::HashMap;

use tensortap_abi::{ArgKind, Role, TensorDesc};
use tensortap_format::{ArgumentSnapshot, DispatchArg, Dump, FormatError, PayloadState, Tail, Task, TaskKey};
use tensortap_geometry::Layout;
use tensortap_scene::{KernelDef, RefTask, ScalarArg};

use super::last_writes::{AmbiguousWriter, Read, Write, last_writes};
use super::{ExpectedTensor, References, apply, ref_tensor};
use crate::compare::{GONE, unless_gone};
use crate::graph::view::pieces;
use crate::graph::{OutputRef, TaskGraph, TensorView};
use crate::provenance::{CompareUnit, shared_ranges};

/// Larger inputs are not rebuilt.
const MAX_BYTES: u64 = 1 << 28;

/// The inputs of tasks in a dump with only outputs.
pub(crate) struct RebuiltInputs<'a> {
    dump: &'a Dump,
    graph: &'a TaskGraph,
    /// By task: the arguments of its dispatch, in order.
    received: HashMap<TaskKey, Vec<DispatchArg>>,
    /// By task position and argument: the outputs that its content came from, the newest first.
    sources: HashMap<(usize, u16), Result<Vec<OutputRef>, AmbiguousWriter>>,
    /// Why writes may be missing.
    gap: Option<String>,
}

/// Whether a task has inputs but only its outputs were captured.
pub(crate) fn has_only_outputs(task: Task<'_>) -> bool {
    let lacks = task.argument_total().is_some_and(|total| u64::from(total) > task.arguments().len() as u64);
    task.is_recorded()
        && task.arguments().len() > 0
        && task.arguments().all(|arg| arg.before.is_none())
        && (lacks || task.arguments().any(|arg| arg.role == Role::InOut))
}

impl<'a> RebuiltInputs<'a> {
    /// `None` if every task with inputs has captured inputs.
    pub fn of(
        dump: &'a Dump,
        graph: &'a TaskGraph,
        references: &References,
    ) -> Result<Option<RebuiltInputs<'a>>, FormatError> {
        if !graph.tasks().iter().any(has_only_outputs) {
            return Ok(None);
        }
        let mut received = HashMap::new();
        dump.for_each_dispatch(|dispatch| {
            if dispatch.payload == PayloadState::Stored {
                received.entry(dispatch.task_key()).or_insert(dispatch.args);
            }
        })?;
        let sources = sources(graph, &received);
        let mut given = RebuiltInputs { dump, graph, received, sources, gap: None };
        given.gap = given.find_gap(references);
        Ok(Some(given))
    }

    /// The outputs that a task's references compute from its inputs, or why they cannot run.
    pub fn expect(
        &self,
        references: &References,
        place: usize,
    ) -> Result<Result<Vec<ExpectedTensor>, String>, FormatError> {
        let task = self.graph.task(place);
        let kernels = match references.kernels(task) {
            Ok(kernels) => kernels,
            Err(reason) => return Ok(Err(reason)),
        };
        Ok(match self.load(task)? {
            Ok((given, roles)) => apply(&kernels, given, &roles).map_err(|error| error.to_string()),
            Err(reason) => Err(reason),
        })
    }

    fn load(&self, task: Task<'_>) -> Result<Result<(RefTask, Vec<Role>), String>, FormatError> {
        let Some(args) = self.received.get(&task.key()) else {
            let why = if self.dump.info().dump_args {
                "the records of its dispatches were lost"
            } else {
                "only outputs were captured"
            };
            let add =
                "record with --dump-args for the views and --dump-stage both for the contents of its inputs";
            return Ok(Err(format!("{why}; {add}")));
        };
        let (mut tensors, mut scalars, mut roles) = (Vec::new(), Vec::new(), Vec::new());
        for arg in args {
            match *arg {
                DispatchArg::Scalar { bits, dtype: Some(dtype), .. } => {
                    scalars.push(ScalarArg { bits, dtype })
                }
                DispatchArg::Scalar { arg_index, .. } => {
                    return Ok(Err(format!("the dtype of argument {arg_index} is damaged")));
                }
                DispatchArg::Tensor { arg_index, ref desc, .. } => {
                    let role = task.argument(arg_index).map_or(Role::Input, |arg| arg.role);
                    let named = |why: String| format!("argument {arg_index} {why}");
                    let Some((view, dtype)) = view_of(desc).zip(desc.dtype()) else {
                        return Ok(Err(named("has a damaged tensor descriptor".into())));
                    };
                    let content = if role == Role::Output {
                        self.output(task, arg_index)?
                    } else {
                        self.content(task, arg_index, &view)?
                    };
                    let content = match content {
                        Ok(content) => content,
                        Err(why) => return Ok(Err(named(why))),
                    };
                    let Some(tensor) = ref_tensor(dtype, desc.dims(), role, &content) else {
                        return Ok(Err(named("does not have the size of its shape".into())));
                    };
                    tensors.push(tensor);
                    roles.push(role);
                }
            }
        }
        let block_num = task.block_count().unwrap_or(1);
        Ok(Ok((RefTask { tensors, scalars, block_num }, roles)))
    }

    /// The content of an output. Only its size matters; it is read so that a damaged shape cannot allocate
    /// more memory than the file has.
    fn output(&self, task: Task<'_>, arg_index: u16) -> Result<Result<Vec<u8>, String>, FormatError> {
        let after = task.argument(arg_index).and_then(|arg| arg.after).filter(ArgumentSnapshot::is_stored);
        let Some(after) = after else { return Ok(Err("is not stored after the task".into())) };
        let read = unless_gone(self.dump.payload(&self.dump.record(after.record)?))?;
        Ok(read.ok_or_else(|| format!("after the task: {GONE}")))
    }

    /// The content of a view at the start of a task: the last write of every byte before.
    fn content(
        &self,
        task: Task<'_>,
        arg_index: u16,
        view: &TensorView,
    ) -> Result<Result<Vec<u8>, String>, FormatError> {
        if let Some(gap) = &self.gap {
            return Ok(Err(format!("was not captured, and {gap}; record with --dump-stage both")));
        }
        let bytes = u128::from(view.layout.numel()) * u128::from(view.layout.elem_bits()) / 8;
        let Some(own) = pieces(view).filter(|_| bytes <= u128::from(MAX_BYTES)) else {
            return Ok(Err("was not captured and is too large to be rebuilt".into()));
        };
        let outputs = match self.sources.get(&(task.place(), arg_index)) {
            Some(Ok(outputs)) => outputs,
            Some(Err(AmbiguousWriter::SameTime(other))) => {
                let id = self.graph.task(*other).task_id;
                return Ok(Err(format!(
                    "was not captured, and task {id:#x} wrote it while other tasks used it"
                )));
            }
            Some(Err(AmbiguousWriter::TooMany)) => {
                return Ok(Err("was not captured, and too many tasks ran at the same time".into()));
            }
            None => {
                let without = "was not captured, and the dump has no times; record with --dump-stage both";
                return Ok(Err(without.into()));
            }
        };
        let written = |output: &OutputRef| {
            let arg = self.graph.output(*output)?;
            Some((*output, TensorView::of(arg)?, arg.after?))
        };
        let newest_first: Vec<(OutputRef, TensorView, ArgumentSnapshot)> =
            outputs.iter().filter_map(written).collect();
        let unit = CompareUnit::of(newest_first.iter().map(|(_, there, _)| there).chain([view]));
        let total = own.iter().map(|piece| piece.end - piece.start).sum::<u128>() / unit.half_bytes() as u128;
        let mut content = vec![None; usize::try_from(total).unwrap_or(0)];
        for (output, there, after) in newest_first {
            let name = || format!("came from task {:#x}", self.graph.task(output.task).task_id);
            if !after.is_stored() {
                return Ok(Err(format!("{}, whose content is not stored", name())));
            }
            let Some(theirs) = pieces(&there) else {
                return Ok(Err(format!("{}, in too many separate memory ranges", name())));
            };
            let Some(written) = unless_gone(self.dump.payload(&self.dump.record(after.record)?))? else {
                return Ok(Err(format!("{}: {GONE}", name())));
            };
            let written = unit.split(written);
            for part in shared_ranges(&own, &theirs, unit) {
                for n in 0..part.len {
                    let Some((here, value)) = content.get_mut(part.here + n).zip(written.get(part.there + n))
                    else {
                        return Ok(Err(format!("{}, whose payload is too short", name())));
                    };
                    here.get_or_insert(*value);
                }
            }
        }
        Ok(match content.into_iter().collect::<Option<Vec<u8>>>() {
            Some(units) => Ok(unit.join(units)),
            None => {
                Err("was not captured, and no captured task wrote it; record with --dump-stage both".into())
            }
        })
    }

    /// Why a write may be missing from the dump, if inputs are ignored.
    fn find_gap(&self, references: &References) -> Option<String> {
        let footer = self.dump.footer();
        let lost = footer.is_none_or(|f| f.losses.iter().any(|loss| loss.records > 0))
            || !self.dump.gaps().is_empty();
        if lost || self.dump.tail() != Tail::Closed {
            return Some("records were lost".into());
        }
        if self.graph.tasks().uncaptured_count() > 0 {
            return Some("some outputs could not be captured".into());
        }
        let mut given = 0;
        for task in self.graph.tasks().iter() {
            let id = task.task_id;
            let Some(args) = self.received.get(&task.key()) else {
                return Some(format!("the arguments of task {id:#x} are not in the dump"));
            };
            let Ok(kernels) = references.kernels(task) else {
                return Some(format!("the arguments that task {id:#x} writes are not known"));
            };
            for arg in args {
                let captured = task.argument(arg.arg_index());
                given += u64::from(captured.is_none_or(|arg| arg.role.reads()));
                if captured.is_none() && kernels.iter().any(|kernel| writes(kernel, arg.arg_index())) {
                    return Some(format!("filters removed an output of task {id:#x}"));
                }
            }
        }
        let filtered = footer.map_or(0, |footer| footer.filtered_records);
        (filtered != given).then(|| "filters removed other records, too".into())
    }
}

/// The producers of the inputs of tasks with only outputs, for tasks with times.
fn sources(
    graph: &TaskGraph,
    received: &HashMap<TaskKey, Vec<DispatchArg>>,
) -> HashMap<(usize, u16), Result<Vec<OutputRef>, AmbiguousWriter>> {
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    for task in graph.tasks().iter() {
        let Some(start) = task.start_time() else { continue };
        // A task that did not end may have written until the run ended.
        let end = task.end_time().unwrap_or(u64::MAX);
        for arg in task.outputs().filter(|arg| arg.after.is_some()) {
            let output = OutputRef { task: task.place(), arg_index: arg.arg_index };
            let view = TensorView::of(arg);
            writes.extend(view.map(|view| Write { output, view, began: start, ended: end }));
        }
        if !has_only_outputs(task) {
            continue;
        }
        for arg in received.get(&task.key()).into_iter().flatten() {
            let DispatchArg::Tensor { arg_index, ref desc, .. } = *arg else { continue };
            let is_read = task.argument(arg_index).is_none_or(|arg| arg.role.reads());
            if let Some(view) = view_of(desc).filter(|_| is_read) {
                reads.push(Read { task: task.place(), arg_index, view, start, end });
            }
        }
    }
    let found = last_writes(writes, &reads);
    reads.iter().map(|read| (read.task, read.arg_index)).zip(found).collect()
}

fn writes(kernel: &KernelDef, arg_index: u16) -> bool {
    let declared = kernel.signature.get(usize::from(arg_index));
    declared.is_some_and(|arg| matches!(arg.kind(), ArgKind::Out | ArgKind::InOut))
}

fn view_of(desc: &TensorDesc) -> Option<TensorView> {
    let layout =
        Layout::new(desc.dims(), desc.dim_strides(), desc.start_offset, desc.dtype()?.bits()).ok()?;
    Some(TensorView::new(layout, desc.buffer_addr))
}
