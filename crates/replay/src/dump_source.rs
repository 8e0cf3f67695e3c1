//! Captured tasks from a dump.

use std::collections::HashMap;
use std::path::Path;

use tensortap_abi::{DType, DumpStage, MAX_SCALARS, MAX_TENSORS, UncapturedReason};
use tensortap_format::{ArgumentKind, DispatchArg, Dump, FormatError, PayloadState, Record, TaskFacts};

use crate::ReplayError;
use crate::capture::{Blob, CapturedRun, CapturedScalar, CapturedTask, CapturedTensor, Content, Source};

/// A dump, task by task.
pub struct DumpSource {
    dump: Dump,
    run: CapturedRun,
    tasks: Vec<CapturedTask>,
}

impl DumpSource {
    /// Opens a dump by its folder, its manifest, or a folder that holds it.
    pub fn open(path: &Path) -> Result<DumpSource, ReplayError> {
        DumpSource::new(Dump::open(path)?)
    }

    /// The tasks of an open dump.
    pub fn new(dump: Dump) -> Result<DumpSource, ReplayError> {
        let info = dump.info();
        let run = CapturedRun {
            scene: info.scene.clone(),
            platform: info.platform.clone(),
            runtime: info.runtime.clone(),
            params: info.params.clone(),
            device_base: info.device_base,
            kernels: info.kernels.clone(),
        };
        let mut records: HashMap<u64, Vec<Record>> = HashMap::new();
        for record in dump.records() {
            let record = record?;
            records.entry(record.task_id).or_default().push(record);
        }
        let mut reasons: HashMap<(u64, u16), UncapturedReason> = HashMap::new();
        for uncaptured in dump.uncaptured()? {
            reasons.insert((uncaptured.task_id, uncaptured.arg_index), uncaptured.reason);
        }
        let tasks = dump.tasks()?;
        let mut tasks: Vec<CapturedTask> = tasks
            .iter()
            .filter(|task| task.is_recorded())
            .map(|task| {
                captured(task.facts(), records.get(&task.task_id).map_or(&[], Vec::as_slice), &reasons)
            })
            .collect();
        if info.dump_args {
            check_dispatches(&mut tasks, &dump)?;
        }
        Ok(DumpSource { dump, run, tasks })
    }
}

impl Source for DumpSource {
    fn run(&self) -> &CapturedRun {
        &self.run
    }

    fn tasks(&self) -> &[CapturedTask] {
        &self.tasks
    }

    fn read(&self, blob: &Blob, into: &mut Vec<u8>) -> Result<(), ReplayError> {
        let record = self.dump.record(blob.id)?;
        Ok(self.dump.payload_into(&record, into)?)
    }

    fn name(&self) -> String {
        self.dump.dir().display().to_string()
    }
}

/// What kernels really received must be what was recorded of their tasks.
fn check_dispatches(tasks: &mut [CapturedTask], dump: &Dump) -> Result<(), FormatError> {
    let places: HashMap<u64, usize> = tasks.iter().enumerate().map(|(i, task)| (task.task_id, i)).collect();
    dump.for_each_dispatch(|dispatch| {
        let Some(task) = places.get(&dispatch.task_id).map(|&place| &mut tasks[place]) else { return };
        let differs = dispatch.args.iter().find(|arg| !agrees(task, arg));
        if let (Some(arg), None) = (differs, &task.damage) {
            task.damage = Some(format!(
                "argument {} of block {}, slot {} is not what the task's record says",
                arg.arg_index(),
                dispatch.block_idx,
                dispatch.subtask_id
            ));
        }
    })
}

/// Whether a dispatch received what is known of the task's argument, if anything is.
fn agrees(task: &CapturedTask, arg: &DispatchArg) -> bool {
    let arg_index = usize::from(arg.arg_index());
    match arg {
        DispatchArg::Tensor { desc, .. } => match task.tensors.get(arg_index) {
            Some(Ok(tensor)) => {
                (desc.buffer_addr, desc.start_offset, desc.dtype)
                    == (tensor.address, tensor.start_offset, tensor.dtype.tag())
                    && (desc.dims(), desc.dim_strides()) == (&tensor.shape[..], &tensor.strides[..])
            }
            Some(Err(_)) => true,
            None => false,
        },
        DispatchArg::Scalar { bits, .. } => {
            let scalar = arg_index.checked_sub(task.tensors.len()).and_then(|i| task.scalars.get(i));
            scalar.is_some_and(|scalar| scalar.bits.as_ref().map_or(true, |known| known == bits))
        }
    }
}

fn captured(
    task: &TaskFacts,
    records: &[Record],
    reasons: &HashMap<(u64, u16), UncapturedReason>,
) -> CapturedTask {
    let &TaskFacts { task_id, func_id, block_num, tensor_count, scalar_count, .. } = task;
    let why_missing = |arg_index: u16| match reasons.get(&(task_id, arg_index)) {
        Some(reason) => format!("it was not captured: {}", reason.text()),
        None => "the dump has no record of it; a filter or a loss kept it out".into(),
    };
    let counts = (usize::try_from(tensor_count), usize::try_from(scalar_count));
    let (tensor_count, scalar_count, damage) = match counts {
        (Ok(tensors), Ok(scalars)) if tensors <= MAX_TENSORS && scalars <= MAX_SCALARS => {
            (tensors, scalars, twice(records))
        }
        _ => (0, 0, Some(format!("its record says {tensor_count} tensors and {scalar_count} scalars"))),
    };
    let arg_index = |index: usize| u16::try_from(index).expect("at most 48 arguments");
    let find = |index: usize, stage| {
        let arg_index = arg_index(index);
        records.iter().find(|r| r.arg_index == arg_index && r.stage == stage)
    };
    let tensors = (0..tensor_count).map(|index| {
        let (before, after) =
            (find(index, DumpStage::BeforeDispatch), find(index, DumpStage::AfterCompletion));
        tensor(arg_index(index), before, after, task, &why_missing)
    });
    let scalars = (tensor_count..tensor_count + scalar_count).map(|index| {
        let record = find(index, DumpStage::BeforeDispatch).filter(|r| r.kind == ArgumentKind::Scalar);
        let arg_index = arg_index(index);
        CapturedScalar {
            arg_index,
            dtype: record.map_or(DType::UInt64, |r| r.dtype),
            bits: record.and_then(|r| r.scalar_bits).ok_or_else(|| why_missing(arg_index)),
        }
    });
    let (tensors, scalars) = (tensors.collect(), scalars.collect());
    CapturedTask { task_id, func_id, block_num, tensors, scalars, tolerance: None, damage }
}

/// A task id that names two tasks, as happens when a ring is used again with `--dump-last` or in a damaged dump.
fn twice(records: &[Record]) -> Option<String> {
    let mut seen: Vec<_> = records.iter().map(|r| (r.arg_index, r.stage as u8)).collect();
    seen.sort_unstable();
    let repeated = seen.windows(2).find(|pair| pair[0] == pair[1])?;
    Some(format!("argument {} is recorded twice for the same stage", repeated[0].0))
}

fn tensor(
    arg_index: u16,
    before: Option<&Record>,
    after: Option<&Record>,
    task: &TaskFacts,
    why_missing: &dyn Fn(u16) -> String,
) -> Result<CapturedTensor, String> {
    let record = before.or(after).filter(|r| r.kind == ArgumentKind::Tensor);
    let record = record.ok_or_else(|| why_missing(arg_index))?;
    if let (Some(a), Some(b)) = (before, after)
        && !same_view(a, b)
    {
        return Err("its records before and after the task describe different views".into());
    }
    let unfinished = task.in_flight || task.completed_ns.is_none();
    Ok(CapturedTensor {
        arg_index,
        role: record.role,
        dtype: record.dtype,
        shape: record.shape().to_vec(),
        strides: record.strides().to_vec(),
        start_offset: record.start_offset,
        address: record.address,
        before: content(before, || why_missing(arg_index)),
        after: match after {
            Some(record) if record.in_flight => Content::Missing("the task had not completed".into()),
            None if unfinished => Content::Missing("the task had not completed".into()),
            other => content(other, || why_missing(arg_index)),
        },
    })
}

fn same_view(a: &Record, b: &Record) -> bool {
    let view = |r: &Record| (r.kind, r.dtype, r.role, r.start_offset, r.address);
    view(a) == view(b) && a.shape() == b.shape() && a.strides() == b.strides()
}

fn content(record: Option<&Record>, why_missing: impl FnOnce() -> String) -> Content {
    let Some(record) = record else { return Content::Missing(why_missing()) };
    let blob = Blob { id: record.index, bytes: record.bin_size, hash: record.hash };
    match record.payload {
        PayloadState::Stored => Content::Whole(blob),
        // The hash is that of all of the content, which is not there.
        PayloadState::Truncated => Content::Part(Blob { hash: None, ..blob }),
        PayloadState::None => {
            Content::Missing("its payload was not captured; the level or a filter kept it out".into())
        }
        PayloadState::Dropped => Content::Missing("its payload was dropped for want of space".into()),
        PayloadState::Overwritten => {
            Content::Missing("its payload was overwritten before the host read it".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use tensortap_abi::{NO_KERNEL, Role, TensorDesc};

    use super::*;

    #[test]
    fn a_dispatch_that_received_something_else_makes_its_task_damaged() {
        let missing = Content::Missing(String::new());
        let tensor = CapturedTensor {
            arg_index: 0,
            role: Role::Input,
            dtype: DType::Float32,
            shape: vec![4],
            strides: vec![2],
            start_offset: 1,
            address: 0x1000,
            before: missing.clone(),
            after: missing,
        };
        let scalar = CapturedScalar { arg_index: 1, dtype: DType::UInt32, bits: Ok(7) };
        let task = CapturedTask {
            task_id: 5,
            func_id: [0, NO_KERNEL, NO_KERNEL],
            block_num: 1,
            tensors: vec![Ok(tensor)],
            scalars: vec![scalar],
            tolerance: None,
            damage: None,
        };
        let mut desc =
            TensorDesc { buffer_addr: 0x1000, start_offset: 1, dtype: 2, ndims: 1, ..TensorDesc::default() };
        (desc.shape[0], desc.strides[0]) = (4, 2);
        let tensor = |desc| DispatchArg::Tensor { arg_index: 0, desc_addr: 0, desc };
        let scalar = |bits| DispatchArg::Scalar { arg_index: 1, bits, dtype: None };
        assert!(agrees(&task, &tensor(desc)) && agrees(&task, &scalar(7)));
        assert!(!agrees(&task, &scalar(8)));
        assert!(!agrees(&task, &DispatchArg::Scalar { arg_index: 2, bits: 7, dtype: None }));
        for change in [
            |d: &mut TensorDesc| d.buffer_addr += 4,
            |d: &mut TensorDesc| d.start_offset = 0,
            |d: &mut TensorDesc| d.dtype = 3,
            |d: &mut TensorDesc| d.shape[0] = 3,
            |d: &mut TensorDesc| d.strides[0] = -2,
        ] {
            let mut other = desc;
            change(&mut other);
            assert!(!agrees(&task, &tensor(other)), "{other:?}");
        }
    }
}
