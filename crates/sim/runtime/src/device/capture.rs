//! The hooks of a run that is dumped: which parts of a task are captured, and when.

mod args;

pub use args::record_orchestration_args;

use std::time::Duration;

use tensortap_abi::{
    DType, DUMP_ARGS, DUMP_TENSORS, DeviceRange, DumpStage, EdgeCause, PayloadLayout, RECORD_IN_FLIGHT, Role,
    TaskId, TaskRecord, TensorDesc, ThreadState, UncapturedReason,
};
use tensortap_platform::{DeviceLink, DeviceMemory, HostEvent};
use tensortap_recorder::{
    HostLink, LaneRecorder, ScalarCapture, TaskHead, TensorCapture, TensorDetails, UncapturedArg,
};

use super::memory::{CoreView, Dispatch, PayloadReader, ThreadView};
use super::run::Run;
use super::scheduler::{FinishedDispatch, TaskHooks};
use crate::runtimes::{DefineNames, GraphObserver};

/// The host, as seen by a thread that records.
pub struct RunHostLink<'r, 'm> {
    run: &'r Run<'m>,
    link: &'r DeviceLink,
    thread: ThreadView<'m>,
    /// How often the host had woken the device when this thread last checked.
    wakes_seen: std::cell::Cell<u64>,
}

impl<'r, 'm> RunHostLink<'r, 'm> {
    /// Creates the link for a thread that publishes its state in `thread`.
    pub fn new(run: &'r Run<'m>, link: &'r DeviceLink, thread: ThreadView<'m>) -> Self {
        RunHostLink { run, link, thread, wakes_seen: std::cell::Cell::new(link.host_wakes()) }
    }
}

impl HostLink for RunHostLink<'_, '_> {
    fn wake_host(&self) {
        self.link.wake_host();
    }

    fn pause(&self, limit: Duration) {
        // The count was taken before the recorder last read the region, so no wake is missed.
        let seen = self.wakes_seen.get();
        if self.link.wait_for_host_since(seen, limit) == HostEvent::Gone {
            self.run.stop();
        }
        self.wakes_seen.set(self.link.host_wakes());
    }

    fn now_ns(&self) -> u64 {
        self.run.now_ns()
    }

    fn waiting(&self, waiting: bool) {
        // A recorder only waits during a capture.
        let state = if waiting { ThreadState::WaitingForDump } else { ThreadState::Capturing };
        self.thread.state().publish(state as u32);
    }

    fn soon(&self, range: DeviceRange) {
        self.run.prefault_soon(range);
    }
}

/// The recorder of one thread of a run.
pub type RunRecorder<'r, 'm> = LaneRecorder<'m, RunHostLink<'r, 'm>>;

/// Captures tasks for one thread.
pub struct Capture<'r, 'm> {
    run: &'r Run<'m>,
    memory: &'m DeviceMemory,
    thread: ThreadView<'m>,
    recorder: RunRecorder<'r, 'm>,
    /// [`DUMP_TENSORS`] and [`DUMP_ARGS`].
    enable: u32,
    /// Whether tensor metadata must be registered. Otherwise it comes from the payload.
    registered_only: bool,
}

impl<'r, 'm> Capture<'r, 'm> {
    /// Creates the hooks over a recorder.
    pub fn new(
        run: &'r Run<'m>,
        memory: &'m DeviceMemory,
        thread: ThreadView<'m>,
        recorder: RunRecorder<'r, 'm>,
        enable: u32,
        registered_only: bool,
    ) -> Self {
        Capture { run, memory, thread, recorder, enable, registered_only }
    }

    fn records_tensors(&self) -> bool {
        self.enable & DUMP_TENSORS != 0
    }

    fn records_args(&self) -> bool {
        self.enable & DUMP_ARGS != 0
    }

    /// Runs `capture` while this thread is published as capturing, so that stall clocks stop. Reads the clock
    /// once before and once after. Passes the start time to `capture` and returns the duration.
    fn timed_capture(&mut self, capture: impl FnOnce(&mut Self, u64)) -> u64 {
        self.thread.state().publish(ThreadState::Capturing as u32);
        let began_ns = self.recorder.begin();
        capture(self, began_ns);
        let took_ns = self.recorder.end();
        self.thread.state().publish(ThreadState::Running as u32);
        took_ns
    }

    /// Publishes that this thread records nothing more.
    pub fn flush(&mut self) {
        self.recorder.flush();
    }

    /// Records the current outputs of a task that has not completed.
    pub fn in_flight(&mut self, slot: u32) {
        if self.is_captured(slot) {
            self.task(slot, 0, RECORD_IN_FLIGHT);
            if self.records_tensors() {
                self.tensors(slot, DumpStage::AfterCompletion, true);
            }
        }
    }

    fn is_captured(&self, slot: u32) -> bool {
        // Ordered by the completion of the last dispatch, or by the post that made the running task visible.
        self.run.slots.captured(slot).get() != 0
    }

    /// Number of records for both stages and all dispatches of a task.
    fn records(&self, slot: u32) -> u32 {
        let slots = &self.run.slots;
        let arguments = if self.records_tensors() { self.arg_records(slot) } else { 0 };
        let dispatches = slots.active(slot).count_ones().saturating_mul(slots.block_num(slot));
        if self.records_args() { arguments.saturating_add(dispatches) } else { arguments }
    }

    /// Number of argument records for both stages of a task.
    fn arg_records(&self, slot: u32) -> u32 {
        let slots = &self.run.slots;
        let roles = slots.roles(slot);
        let tensors =
            roles.iter().take(slots.tensor_count(slot).into()).filter_map(|&tag| Role::from_tag(tag));
        let captures = tensors.map(|role| u32::from(role.reads()) + u32::from(role.writes()));
        captures.sum::<u32>() + u32::from(slots.scalar_count(slot))
    }

    fn task(&mut self, slot: u32, completed_ns: u64, flags: u32) {
        let slots = &self.run.slots;
        self.recorder.task(&TaskRecord {
            task_id: slots.task_id(slot),
            func_id: slots.func_id(slot),
            block_num: slots.block_num(slot),
            started_ns: slots.dispatched_ns(slot).get(),
            completed_ns,
            capture_ns: slots.capture_ns(slot).get(),
            core: u16::try_from(slots.core(slot).get()).unwrap_or(0),
            tensor_count: slots.tensor_count(slot).into(),
            scalar_count: slots.scalar_count(slot).into(),
            flags,
            name: slots.task_name(slot),
            scope: slots.scope(slot),
            ..TaskRecord::default()
        });
    }

    fn payload(&self, slot: u32) -> Option<PayloadReader<'m>> {
        let slots = &self.run.slots;
        let layout = PayloadLayout {
            tensor_count: slots.tensor_count(slot).into(),
            scalar_count: slots.scalar_count(slot).into(),
        };
        PayloadReader::new(self.memory, slots.payload_addr(slot), layout).ok()
    }

    /// Captures the tensors of a task that belong to a stage.
    fn tensors(&mut self, slot: u32, stage: DumpStage, in_flight: bool) {
        let (task_id, roles, marks) = {
            let slots = &self.run.slots;
            (slots.task_id(slot), slots.roles(slot), slots.dump_marks(slot))
        };
        let Some(payload) = self.payload(slot) else { return };
        for (index, &tag) in roles.iter().enumerate().take(payload.layout().tensor_count) {
            let arg_index = u16::try_from(index).expect("at most 16");
            let Some(role) = Role::from_tag(tag) else { continue };
            let of_stage = match stage {
                DumpStage::BeforeDispatch => role.reads(),
                DumpStage::AfterCompletion => role.writes(),
            };
            if !of_stage {
                continue;
            }
            let (desc, marked) = (payload.tensor(index), marks & 1 << index != 0);
            match self.describe(slot, index, &desc) {
                Err(reason) => {
                    self.recorder.uncaptured(&UncapturedArg {
                        task_id,
                        stage,
                        role,
                        arg_index,
                        reason,
                        marked,
                        name: 0,
                    });
                }
                Ok(()) => {
                    let desc = &desc;
                    self.recorder.tensor(&TensorCapture {
                        task_id,
                        stage,
                        role,
                        arg_index,
                        desc,
                        marked,
                        in_flight,
                        details: TensorDetails::default(),
                    });
                }
            }
        }
    }

    /// Checks that the registered metadata of an argument matches what the kernel receives, if the runtime
    /// requires registration.
    fn describe(&self, slot: u32, index: usize, desc: &TensorDesc) -> Result<(), UncapturedReason> {
        if !self.registered_only {
            return Ok(());
        }
        let slots = &self.run.slots;
        if slots.tensor_info_mask(slot) & 1 << index == 0 {
            return Err(UncapturedReason::NoTensorInfo);
        }
        let layout = PayloadLayout { tensor_count: index + 1, scalar_count: 0 };
        let info = PayloadReader::new(self.memory, slots.tensor_info_addr(slot), layout);
        let info = info.map_err(|_| UncapturedReason::BadDescriptor)?.tensor(index);
        let same = (info.buffer_addr, info.dtype, info.start_offset, info.dims(), info.dim_strides())
            == (desc.buffer_addr, desc.dtype, desc.start_offset, desc.dims(), desc.dim_strides());
        if same { Ok(()) } else { Err(UncapturedReason::Contradiction) }
    }

    fn scalars(&mut self, slot: u32) {
        let (task_id, marks) = (self.run.slots.task_id(slot), self.run.slots.dump_marks(slot));
        let Some(payload) = self.payload(slot) else { return };
        let PayloadLayout { tensor_count, scalar_count } = payload.layout();
        for index in 0..scalar_count {
            let (bits, tag) = payload.scalar(index);
            let arg_index = u16::try_from(tensor_count + index).expect("at most 48");
            let marked = marks & 1 << arg_index != 0;
            let stage = DumpStage::BeforeDispatch;
            match DType::from_tag(tag) {
                Some(dtype) => {
                    self.recorder.scalar(&ScalarCapture {
                        task_id,
                        stage,
                        arg_index,
                        dtype,
                        bits,
                        is_local: false,
                        marked,
                        name: 0,
                    });
                }
                None => {
                    let (role, reason) = (Role::Input, UncapturedReason::BadDescriptor);
                    self.recorder.uncaptured(&UncapturedArg {
                        task_id,
                        stage,
                        role,
                        arg_index,
                        reason,
                        marked,
                        name: 0,
                    });
                }
            }
        }
    }
}

impl TaskHooks for Capture<'_, '_> {
    fn before_dispatch(&mut self, slot: u32) {
        let slots = &self.run.slots;
        let wanted = self.recorder.wants_task(&TaskHead {
            task_id: slots.task_id(slot),
            func_ids: slots.func_id(slot),
            records: self.records(slot),
        });
        slots.captured(slot).set(wanted.into());
        if wanted {
            // Clear the values of the previous task in this slot.
            slots.core(slot).set(0);
            slots.capture_ns(slot).set(0);
            let took_ns = self.timed_capture(|capture, now_ns| {
                capture.run.slots.dispatched_ns(slot).set(now_ns);
                capture.task(slot, 0, 0);
                if capture.records_tensors() {
                    capture.tensors(slot, DumpStage::BeforeDispatch, false);
                    capture.scalars(slot);
                }
            });
            // Several schedulers may dispatch the blocks of a task. Each adds the time of its own captures.
            self.run.slots.capture_ns(slot).add(took_ns);
        }
    }

    fn before_post(&mut self, dispatch: &Dispatch, core_id: u32, message: &CoreView<'_>) {
        let slot = dispatch.task_slot;
        if !self.is_captured(slot) {
            return;
        }
        let slots = &self.run.slots;
        if dispatch.block.block_idx == 0 && dispatch.subtask == slots.active(slot).trailing_zeros() {
            slots.core(slot).set(core_id + 1);
        }
        if self.records_args() {
            let took_ns =
                self.timed_capture(|capture, now_ns| capture.dispatch(dispatch, core_id, message, now_ns));
            self.run.slots.capture_ns(slot).add(took_ns);
        }
    }

    fn after_dispatch(&mut self, slot: u32, finished: impl FnOnce() -> FinishedDispatch) {
        if self.records_args() && self.is_captured(slot) {
            let took_ns = self.timed_capture(|capture, _| capture.finished(slot, finished()));
            self.run.slots.capture_ns(slot).add(took_ns);
        }
    }

    fn after_completion(&mut self, slot: u32) {
        if self.is_captured(slot) {
            // The duration of this capture is in no record. The task record comes first, because live
            // comparison needs it first.
            self.timed_capture(|capture, now_ns| {
                capture.task(slot, now_ns, 0);
                if capture.records_tensors() {
                    capture.tensors(slot, DumpStage::AfterCompletion, false);
                }
            });
        }
    }
}

/// Records dependencies and names as the orchestrator creates them.
pub struct EdgeCapture<'r, 'm> {
    thread: ThreadView<'m>,
    recorder: RunRecorder<'r, 'm>,
}

impl<'r, 'm> EdgeCapture<'r, 'm> {
    /// Creates the observer over the orchestrator's recorder.
    pub fn new(thread: ThreadView<'m>, recorder: RunRecorder<'r, 'm>) -> Self {
        EdgeCapture { thread, recorder }
    }

    /// Restores the published state. A recorder that had to wait leaves it as capturing.
    fn mark_running(&self) {
        self.thread.state().publish(ThreadState::Running as u32);
    }
}

impl DefineNames for EdgeCapture<'_, '_> {
    fn string(&mut self, id: u32, text: &str) {
        self.recorder.define_string(id, text);
        self.mark_running();
    }

    fn scope(&mut self, id: u32, name: u32, parent: u32) {
        self.recorder.define_scope(id, name, parent);
        self.mark_running();
    }
}

impl GraphObserver for EdgeCapture<'_, '_> {
    fn edges(&mut self, to: TaskId, from: &mut dyn Iterator<Item = (TaskId, EdgeCause, u16)>) {
        // The clock is read once for all edges of the task.
        self.recorder.timed(|recorder| {
            for (from, cause, arg_index) in from {
                let (consumer, producer) = (to.0, from.0);
                recorder.edge(&tensortap_recorder::EdgeCapture { consumer, producer, cause, arg_index });
            }
        });
        self.mark_running();
    }
}

impl Drop for EdgeCapture<'_, '_> {
    fn drop(&mut self) {
        self.recorder.flush();
    }
}
