//! Dispatch arguments as records, for a dump with only arguments (`--dump-args`). Such a dump knows the
//! arguments of every kernel, but not the contents of tensors.

use std::collections::HashSet;

use tensortap_abi::{DType, NO_KERNEL, Role, SLOTS_PER_TASK};

use super::index_records::IndexRecords;
use crate::{
    Dispatch, DispatchArg, DispatchFacts, FormatError, IndexRecord, KernelInfo, Record,
    dispatch::sound_dtype,
    error::AtPath,
    index::{Index, ReadAhead},
    survey::active,
    view::DispatchOwner,
};

/// The file offset of each dispatch, and the number of its first argument.
#[derive(Default)]
pub(super) struct DispatchTable {
    entries: Vec<DispatchEntry>,
    args: usize,
}

#[derive(Clone, Copy)]
struct DispatchEntry {
    at: u64,
    bytes: usize,
    lane: u32,
    first: usize,
}

impl DispatchTable {
    pub(super) fn see(&mut self, lane: u32, at: u64, record: &IndexRecord) {
        let args = Dispatch::new(record, 0).map_or(0, |dispatch| sound_args(&dispatch).count());
        if args > 0 {
            let bytes = record.encoded_bytes();
            self.entries.push(DispatchEntry { at, bytes, lane, first: self.args });
            self.args += args;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.args
    }

    /// The dispatch of an argument.
    fn entry(&self, place: usize) -> Option<&DispatchEntry> {
        let past = self.entries.partition_point(|entry| entry.first <= place);
        self.entries.get(past.checked_sub(1)?).filter(|_| place < self.args)
    }

    /// The argument at a position.
    pub(super) fn record(
        &self,
        of: &IndexRecords,
        place: usize,
        window: &mut ReadAhead,
    ) -> Option<Result<Record, FormatError>> {
        let entry = self.entry(place)?;
        let Index { file, path, bytes: limit, .. } = &of.index;
        let bytes = window.get(file, entry.at, entry.bytes, *limit).at("read", path);
        Some(bytes.and_then(|bytes| {
            let changed = |reason| of.index.changed(entry.at, reason);
            let mut record = IndexRecord::scratch();
            record.decode_from(bytes).map_err(changed)?;
            let step = of.tasks.by_id(record.task_id()).step;
            let dispatch = Dispatch::new(&record, step).ok_or_else(|| changed("the record has changed"))?;
            let arg = sound_args(&dispatch).nth(place - entry.first);
            let arg = arg.ok_or_else(|| changed("the record has changed"))?;
            Ok(of.dispatch_argument(place as u64, entry.lane, &dispatch, arg))
        }))
    }
}

/// Arguments that can be represented as records. Arguments with a damaged descriptor or tag are only in the
/// index, and in `kernel_args_dump.json` without their view.
fn sound_args(dispatch: &Dispatch) -> impl Iterator<Item = &DispatchArg> {
    dispatch.args.iter().filter(|arg| match arg {
        DispatchArg::Tensor { desc, .. } => sound_dtype(desc).is_some_and(|dtype| {
            let numel = desc.dims().iter().try_fold(1_u64, |numel, dim| numel.checked_mul(*dim));
            numel.and_then(|numel| dtype.packed_bytes(numel)).is_some()
        }),
        DispatchArg::Scalar { dtype, .. } => dtype.is_some(),
    })
}

impl IndexRecords {
    fn dispatch_argument(&self, index: u64, thread: u32, of: &Dispatch, arg: &DispatchArg) -> Record {
        let &Dispatch { step, task_id, func_id, core_id, subtask_id, block_idx, .. } = of;
        let mut kernels = [NO_KERNEL; SLOTS_PER_TASK];
        if let Some(slot) = kernels.get_mut(subtask_id as usize) {
            *slot = func_id;
        }
        let task_kernels = self.tasks.by_id(task_id).func_id;
        let dispatch = DispatchFacts { subtask_id, block_idx, func_id, core_id };
        let argued = DispatchOwner { index, thread, step, task_id, func_id: kernels, dispatch };
        match *arg {
            DispatchArg::Scalar { arg_index, bits, dtype } => {
                argued.scalar(arg_index, bits, dtype.unwrap_or(DType::UInt64))
            }
            DispatchArg::Tensor { arg_index, ref desc, .. } => {
                let declared = active(&task_kernels).chain([func_id]);
                argued.tensor(arg_index, desc, declared_role(&self.index.info.kernels, declared, arg_index))
            }
        }
    }

    /// Arguments of tasks, from the first dispatch of each: all dispatches of a task share one list.
    pub(super) fn for_each_task_argument(&self, mut each: impl FnMut(&Record)) -> Result<(), FormatError> {
        let Some(dispatched) = &self.dispatched else { return Ok(()) };
        let mut seen: HashSet<u64> = HashSet::new();
        let mut window = ReadAhead::new();
        let ends = dispatched.entries.iter().skip(1).map(|next| next.first).chain([dispatched.args]);
        for (entry, end) in dispatched.entries.iter().zip(ends) {
            for place in entry.first..end {
                let Some(record) = dispatched.record(self, place, &mut window).transpose()? else { break };
                if place == entry.first && !seen.insert(record.task_id) {
                    break;
                }
                each(&record);
            }
        }
        Ok(())
    }
}

/// The combined role that the kernels of a task declare for an argument; in-out if none of them declares
/// it.
fn declared_role(kernels: &[KernelInfo], of: impl Iterator<Item = u32>, arg_index: u16) -> Role {
    let declared = of
        .filter_map(|id| kernels.iter().find(|kernel| kernel.func_id == id))
        .filter_map(|kernel| kernel.signature.get(usize::from(arg_index)));
    let (reads, writes) = declared.fold((false, false), |(reads, writes), kind| match kind.as_str() {
        "IN" => (true, writes),
        "OUT" => (reads, true),
        "INOUT" => (true, true),
        _ => (reads, writes),
    });
    match (reads, writes) {
        (true, false) => Role::Input,
        (false, true) => Role::Output,
        _ => Role::InOut,
    }
}
