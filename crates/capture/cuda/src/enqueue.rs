//! A command enters its stream, with a snapshot before and a snapshot after it.
//!
//! CUPTI calls back before and after the program's call. Before the call, the backend puts the
//! before-snapshot into the stream. After the call, it puts the after-snapshot there. The stream order is:
//! before-snapshot, command, after-snapshot. A [`StreamGuard`] is held from the first callback to the second,
//! so that no command of another thread enters the stream in between.

use std::sync::Arc;

use tensortap_queue::{Command, OrderToken};
use tensortap_record::{DumpStage, RecordError, StringId, TaskInfo, ThreadRecorder, UncapturedReason};

use crate::{
    backend::CudaBackend,
    calls::kernels::KernelFacts,
    command::{CommandArgs, CommandRequest},
    host_snapshot::{self, SharedCommand, Target, UnrecordedArgs},
    snapshot::{self, ContextResources, SnapshotRequest, SnapshotTicket},
    stream_guard::StreamGuard,
    streams::{ContextId, Stream},
};

/// The stream that a command enters.
pub struct StreamTarget {
    /// The stream.
    pub stream: Stream,
    /// Its context, by handle and by number.
    pub context: (usize, ContextId),
    /// Whether the program's call returns only when the command is complete.
    pub blocks: bool,
}

/// A command that is being recorded, while it enters its stream.
pub struct PendingCommand {
    shared: Arc<SharedCommand>,
    token: OrderToken,
    target: Target,
    is_filtered: bool,
    blocks: bool,
    guard: StreamGuard,
    /// Its arguments.
    args: Arc<CommandArgs>,
    /// The context, if the backend's kernels in it take the snapshots.
    on_device: Option<Arc<ContextResources>>,
    name: &'static str,
    kernel: Option<Arc<KernelFacts>>,
}

impl PendingCommand {
    /// Begins a command: records its task and its order, and submits its before-snapshot. None if the command
    /// is not recorded.
    pub fn new(
        backend: &CudaBackend,
        target: &StreamTarget,
        guard: StreamGuard,
        request: impl FnOnce(&mut ThreadRecorder) -> Result<CommandRequest, RecordError>,
    ) -> Option<PendingCommand> {
        let handles = Target { stream: target.stream.handle(), context: guard.stream.context.0 };
        let pending = backend.record(|recorder| {
            let mut request = request(recorder)?;
            if !guard.is_alone() {
                // A command of another thread may enter the stream between this one and its snapshots.
                request.args = request.args.uncaptured(UncapturedReason::NoProbe);
            }
            let info = task_info(recorder, &guard, &request)?;
            let (task, token) = recorder.begin_with(&info, |recorder, task| {
                let mut next = || recorder.next_task_id();
                let submission =
                    backend.state().streams.submit((target.stream, guard.passes()), task.id(), &mut next);
                let Some(submission) = submission else { return Ok(None) };
                submission.record(recorder)?;
                Ok(Some(submission.token))
            })?;
            Ok(token.map(|token| (task, request, token)))
        });
        let (task, CommandRequest { name, kernel, args, .. }, token) = pending.flatten()?;
        let is_filtered = task.is_filtered();
        let ranges = &args.ranges;
        let wants = backend.wants_content && !is_filtered && !ranges.is_empty() && args.can_hash_on_device;
        let device = if wants { backend.snapshots.device(handles.context) } else { None };
        let on_device = device.filter(|_| snapshot::are_on(backend, guard.stream.device, ranges));
        let shared = SharedCommand::new(
            Command::new(task, Arc::clone(ranges)),
            UnrecordedArgs(Some(Arc::clone(&args))),
        );
        let pending = PendingCommand {
            shared,
            token,
            target: handles,
            is_filtered,
            blocks: target.blocks,
            guard,
            args,
            on_device,
            name,
            kernel,
        };
        pending.before(backend);
        Some(pending)
    }

    /// Submits the before-snapshot. A launch without one may begin early, before the last after-snapshot is
    /// complete. [`snapshot::prevent_overlap`] makes it wait.
    fn before(&self, backend: &CudaBackend) {
        if !self.is_filtered && !self.snapshot_before(backend) && self.kernel.is_some() {
            snapshot::prevent_overlap(backend, &self.guard, self.target);
        }
    }

    /// Submits the before-snapshot and records the arguments by value. Returns whether the snapshot put
    /// anything into the stream.
    fn snapshot_before(&self, backend: &CudaBackend) -> bool {
        if self.on_device.is_some() {
            // The harvest thread also records the arguments by value, which takes time here.
            return self.snapshot_on_device(backend, DumpStage::BeforeDispatch).is_some();
        }
        self.record_known(backend);
        let stage = DumpStage::BeforeDispatch;
        self.args.ranges.iter().any(|range| range.role.is_captured_at(stage))
            && self.snapshot_on_host(backend, stage)
    }

    /// Records the arguments by value, unless the harvest thread has done so.
    fn record_known(&self, backend: &CudaBackend) {
        let mut running = self.shared.running();
        backend.record(|recorder| host_snapshot::record_known(&mut running, recorder));
    }

    /// Submits a snapshot by the backend's kernels. Returns a ticket that tells when it is complete.
    fn snapshot_on_device(&self, backend: &CudaBackend, stage: DumpStage) -> Option<SnapshotTicket> {
        let device = self.on_device.as_ref()?;
        let plan = self.args.plan(&backend.snapshots, device, stage)?;
        let (target, shared) = (self.target, &self.shared);
        shared.snapshot(&backend.session, stage, || {
            let request = SnapshotRequest { device, target, shared, stage, plan: plan? };
            Ok((snapshot::enqueue(backend, &self.guard, request)?, Vec::new()))
        })
    }

    /// Submits a snapshot by copies to the host. Returns whether it will report when the stream has come that
    /// far.
    fn snapshot_on_host(&self, backend: &CudaBackend, stage: DumpStage) -> bool {
        if !backend.wants_content {
            self.shared.record_without_content(&backend.session, stage);
            return false;
        }
        let enqueue = || Ok(((), host_snapshot::enqueue(backend, self.target, &self.shared, stage)?));
        self.shared.snapshot(&backend.session, stage, enqueue).is_some()
    }

    /// The call has returned. Submits the after-snapshot, unless the driver refused the command.
    pub fn finish(self, backend: &CudaBackend, status: i32) {
        if status != 0 {
            self.record_known(backend);
            let name = self.kernel.as_ref().map_or(self.name, |kernel| kernel.name());
            self.shared.refuse(&backend.session, name, status);
            return;
        }
        let stage = DumpStage::AfterCompletion;
        let (mut ticket, mut is_reported) = (None, false);
        if !self.is_filtered && !self.guard.is_alone() {
            self.shared.record_uncaptured(&backend.session, stage, |_| Some(UncapturedReason::NoProbe));
        } else if self.on_device.is_some() {
            ticket = self.snapshot_on_device(backend, stage);
        } else {
            is_reported = !self.is_filtered && self.snapshot_on_host(backend, stage);
        }
        if !is_reported && ticket.is_none() {
            if self.on_device.is_some() {
                self.record_known(backend);
            }
            self.shared.end_without_after(&backend.session);
        }
        let PendingCommand { shared, token, blocks, guard, .. } = self;
        // Release the stream first: the wait may depend on commands that other threads submit to it.
        drop(guard);
        // The command is complete for the program when its call returns. So its result is captured before
        // that.
        let is_over = || match ticket {
            Some(ticket) => shared.wait_for_snapshot(|| ticket.is_over()),
            None => !is_reported || shared.wait(),
        };
        if blocks && is_over() {
            backend.state().streams.host_waited(&[token]);
        }
    }
}

fn task_info(
    recorder: &mut ThreadRecorder,
    guard: &StreamGuard,
    request: &CommandRequest,
) -> Result<TaskInfo, RecordError> {
    let name = if request.name.is_empty() { StringId::NONE } else { recorder.string(request.name)? };
    Ok(TaskInfo { queue: guard.stream.id, name, records: request.args.records, ..request.info })
}
