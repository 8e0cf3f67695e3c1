//! What tasks were given where only outputs were captured: views and scalars as their kernels received them (`--dump-args`),
//! content as the tasks before them had written it.

use std::collections::HashMap;

use tensortap_abi::{ArgKind, Role, TensorDesc};
use tensortap_format::{Captured, DispatchArg, Dump, FormatError, PayloadState, Tail, Task, TaskKey};
use tensortap_geometry::Layout;
use tensortap_scene::{KernelDef, RefTask, ScalarArg};

use super::last_writes::{Read, Unclear, Write, last_writes};
use super::{Expected, References, apply, ref_tensor};
use crate::carry::{Unit, shared};
use crate::compare::{GONE, unless_gone};
use crate::graph::view::pieces;
use crate::graph::{OutputRef, TaskGraph, TensorView};

/// Larger inputs than this are not put together.
const MAX_BYTES: u64 = 1 << 28;

/// What kernels received in a dump that has outputs only.
pub(crate) struct Given<'a> {
    dump: &'a Dump,
    graph: &'a TaskGraph,
    /// By task, in the order of arguments.
    received: HashMap<TaskKey, Vec<DispatchArg>>,
    /// By position of the task and argument: the outputs that hold what it was given, the newest first.
    sources: HashMap<(usize, u16), Result<Vec<OutputRef>, Unclear>>,
    /// Why writes may be missing.
    gap: Option<String>,
}

/// Whether nothing was captured before a task that was given something.
pub(crate) fn is_of_outputs_alone(task: Task<'_>) -> bool {
    let lacks = task.argument_total().is_some_and(|total| u64::from(total) > task.arguments().len() as u64);
    task.is_recorded()
        && task.arguments().len() > 0
        && task.arguments().all(|arg| arg.before.is_none())
        && (lacks || task.arguments().any(|arg| arg.role == Role::InOut))
}

impl<'a> Given<'a> {
    /// `None` when something was captured before every task that was given something.
    pub fn of(
        dump: &'a Dump,
        graph: &'a TaskGraph,
        references: &References,
    ) -> Result<Option<Given<'a>>, FormatError> {
        if !graph.tasks().iter().any(is_of_outputs_alone) {
            return Ok(None);
        }
        let mut received = HashMap::new();
        dump.for_each_dispatch(|dispatch| {
            if dispatch.payload == PayloadState::Stored {
                received.entry(dispatch.task_key()).or_insert(dispatch.args);
            }
        })?;
        let sources = sources(graph, &received);
        let mut given = Given { dump, graph, received, sources, gap: None };
        given.gap = given.find_gap(references);
        Ok(Some(given))
    }

    /// What a task's references make of what it was given, or why that cannot be said.
    pub fn expect(
        &self,
        references: &References,
        place: usize,
    ) -> Result<Result<Vec<Expected>, String>, FormatError> {
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
                "its dispatches were lost"
            } else {
                "only outputs were captured"
            };
            let add = "--dump-args would say which views it was given, --dump-stage both what they held";
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
                        return Ok(Err(named("has a damaged view".into())));
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
                        return Ok(Err(named("is not of the size of its shape".into())));
                    };
                    tensors.push(tensor);
                    roles.push(role);
                }
            }
        }
        let block_num = task.block_count().unwrap_or(1);
        Ok(Ok((RefTask { tensors, scalars, block_num }, roles)))
    }

    /// What an output came to hold, of which only the size counts: memory is taken only for what is in the file.
    fn output(&self, task: Task<'_>, arg_index: u16) -> Result<Result<Vec<u8>, String>, FormatError> {
        let after = task.argument(arg_index).and_then(|arg| arg.after).filter(Captured::is_stored);
        let Some(after) = after else { return Ok(Err("after the task is not stored".into())) };
        let read = unless_gone(self.dump.payload(&self.dump.record(after.record)?))?;
        Ok(read.ok_or_else(|| format!("after the task: {GONE}")))
    }

    /// What a view held when a task began: the last write of every byte before.
    fn content(
        &self,
        task: Task<'_>,
        arg_index: u16,
        view: &TensorView,
    ) -> Result<Result<Vec<u8>, String>, FormatError> {
        if let Some(gap) = &self.gap {
            return Ok(Err(format!("was not captured, and {gap}; --dump-stage both stores it")));
        }
        let bytes = u128::from(view.layout.numel()) * u128::from(view.layout.elem_bits()) / 8;
        let Some(own) = pieces(view).filter(|_| bytes <= u128::from(MAX_BYTES)) else {
            return Ok(Err("is too large to be put together".into()));
        };
        let outputs = match self.sources.get(&(task.place(), arg_index)) {
            Some(Ok(outputs)) => outputs,
            Some(Err(Unclear::SameTime(other))) => {
                let id = self.graph.task(*other).task_id;
                return Ok(Err(format!(
                    "was not captured, and task {id:#x} wrote it at the same time as others used it"
                )));
            }
            Some(Err(Unclear::TooMany)) => {
                return Ok(Err("was not captured, and too many tasks ran at the same time".into()));
            }
            None => {
                let without = "was not captured, and the dump has no times; --dump-stage both stores it";
                return Ok(Err(without.into()));
            }
        };
        let written = |output: &OutputRef| {
            let arg = self.graph.output(*output)?;
            Some((*output, TensorView::of(arg)?, arg.after?))
        };
        let newest_first: Vec<(OutputRef, TensorView, Captured)> =
            outputs.iter().filter_map(written).collect();
        let unit = Unit::of(newest_first.iter().map(|(_, there, _)| there).chain([view]));
        let total = own.iter().map(|piece| piece.end - piece.start).sum::<u128>() / unit.half_bytes() as u128;
        let mut content = vec![None; usize::try_from(total).unwrap_or(0)];
        for (output, there, after) in newest_first {
            let name = || format!("came from task {:#x}", self.graph.task(output.task).task_id);
            if !after.is_stored() {
                return Ok(Err(format!("{}, of which the content is not stored", name())));
            }
            let Some(theirs) = pieces(&there) else {
                return Ok(Err(format!("{} in too many pieces", name())));
            };
            let Some(written) = unless_gone(self.dump.payload(&self.dump.record(after.record)?))? else {
                return Ok(Err(format!("{}: {GONE}", name())));
            };
            let written = unit.split(written);
            for part in shared(&own, &theirs, unit) {
                for n in 0..part.len {
                    let Some((here, value)) = content.get_mut(part.here + n).zip(written.get(part.there + n))
                    else {
                        return Ok(Err(format!("{}, of which the payload is too short", name())));
                    };
                    here.get_or_insert(*value);
                }
            }
        }
        Ok(match content.into_iter().collect::<Option<Vec<u8>>>() {
            Some(units) => Ok(unit.join(units)),
            None => Err("was not captured and came from no task; --dump-stage both stores it".into()),
        })
    }

    /// Why something else than what tasks were given may be missing.
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
                return Some(format!("what task {id:#x} was handed is not in the dump"));
            };
            let Ok(kernels) = references.kernels(task) else {
                return Some(format!("what the kernels of task {id:#x} write is not known"));
            };
            for arg in args {
                let captured = task.argument(arg.arg_index());
                given += u64::from(captured.is_none_or(|arg| arg.role.reads()));
                if captured.is_none() && kernels.iter().any(|kernel| writes(kernel, arg.arg_index())) {
                    return Some(format!("what task {id:#x} wrote was kept out"));
                }
            }
        }
        let filtered = footer.map_or(0, |footer| footer.filtered_records);
        (filtered != given).then(|| "filters kept other records out, too".into())
    }
}

/// Who wrote what tasks of outputs alone were given, as far as the dump has times.
fn sources(
    graph: &TaskGraph,
    received: &HashMap<TaskKey, Vec<DispatchArg>>,
) -> HashMap<(usize, u16), Result<Vec<OutputRef>, Unclear>> {
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    for task in graph.tasks().iter() {
        let Some(start) = task.start_time() else { continue };
        // A task that had not ended when the run did may have written until then.
        let end = task.end_time().unwrap_or(u64::MAX);
        for arg in task.outputs().filter(|arg| arg.after.is_some()) {
            let output = OutputRef { task: task.place(), arg_index: arg.arg_index };
            let view = TensorView::of(arg);
            writes.extend(view.map(|view| Write { output, view, began: start, ended: end }));
        }
        if !is_of_outputs_alone(task) {
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
