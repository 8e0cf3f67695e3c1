//! Records the final arguments of dispatches, and the arguments of the orchestration (`--dump-args`).

use tensortap_abi::{DispatchWords, FinishedRecord, PayloadLayout, TensorDesc};
use tensortap_recorder::{DispatchCapture, OrchestrationArgCapture};
use tensortap_scene::ArgSpec;

use super::{Capture, RunRecorder};
use crate::device::FinishedDispatch;
use crate::device::memory::{CoreView, Dispatch, Table};

impl Capture<'_, '_> {
    /// Records what a core is about to receive: the slots of its message and the structs that they point to.
    pub(super) fn dispatch(
        &mut self,
        dispatch: &Dispatch,
        core_id: u32,
        message: &CoreView<'_>,
        handed_ns: u64,
    ) {
        let Some(payload) = self.payload(dispatch.task_slot) else { return };
        let PayloadLayout { tensor_count, scalar_count } = payload.layout();
        let (block, subtask) = message.contexts_written();
        let mut words =
            DispatchWords::new(&message.args_written(), tensor_count, scalar_count, block, subtask);
        (0..scalar_count).for_each(|index| words.scalar_dtype(index, payload.scalar(index).1));
        (0..tensor_count).for_each(|index| words.tensor(&payload.tensor(index)));
        let capture = DispatchCapture {
            task_id: dispatch.task_id,
            func_id: dispatch.func_id,
            core_id,
            subtask_id: dispatch.subtask,
            subtask_count: dispatch.subtask_count,
            block: dispatch.block,
            tensor_count: u32::try_from(tensor_count).expect("at most 16"),
            scalar_count: u32::try_from(scalar_count).expect("at most 32"),
            handed_ns,
        };
        self.recorder.dispatch(&capture, words.words());
    }

    /// Records when a dispatch ran, as measured by its core.
    pub(super) fn finished(&mut self, slot: u32, finished: FinishedDispatch) {
        let FinishedDispatch { core_id, subtask, block_idx, started_ns, returned_ns } = finished;
        self.recorder.finished(&FinishedRecord {
            task_id: self.run.slots.task_id(slot),
            core_id,
            subtask_id: subtask,
            block_idx,
            started_ns,
            completed_ns: returned_ns,
            ..FinishedRecord::default()
        });
    }
}

/// Records the arguments of the orchestration at the addresses where the host placed them.
pub fn record_orchestration_args(
    recorder: &mut RunRecorder<'_, '_>,
    descs: &Table<'_, TensorDesc>,
    specs: &[ArgSpec],
) {
    for ((index, arg_index), spec) in (0..descs.len()).zip(0_u16..u16::MAX).zip(specs) {
        let desc = &descs.read(index);
        recorder.orchestration_arg(&OrchestrationArgCapture { arg_index, role: spec.role, desc });
    }
}
