//! A command goes into its queue, with a snapshot before and a snapshot after it.
//!
//! The order is: the events that the program lets the command wait for, the before-snapshot, the command, the
//! after-snapshot. The program gets the event of the after-snapshot, so commands that wait for this command also wait
//! until its results were captured.

use std::{
    ptr,
    sync::{Arc, MutexGuard, PoisonError},
};

use tensortap_queue::{Command, OrderToken, Range, RangeRole, Value};
use tensortap_record::{DumpStage, Operation, RecordError, Role, StringId, Task, TaskInfo, ThreadRecorder};

use crate::{
    ffi::{self, Event, Queue, Status},
    layer::Layer,
    objects::{EventHandle, Objects, QueueState},
    queue_state::queue_state,
    raw,
    snapshot::{self, HeldObjects, SharedCommand, SnapshotMethod, SnapshotRequest, Source},
    values::record_values,
};

/// The task of a command and its arguments.
#[derive(Default)]
pub struct CommandSpec {
    /// Its task.
    pub info: TaskInfo,
    /// Name of the OpenCL function, for commands without a kernel.
    pub name: &'static str,
    /// Name of its kernel.
    pub kernel: Option<String>,
    /// Memory ranges, each with the place where a snapshot finds it.
    pub ranges: Vec<(Range, Source)>,
    /// Arguments passed by value.
    pub values: Vec<Value<'static>>,
    /// Local memory arguments: position and size in bytes.
    pub local: Vec<(u16, u64)>,
    /// Objects whose bytes cannot be read: position and name.
    pub opaque: Vec<(u16, StringId)>,
    /// The position for the program-scope variables, if the program has any.
    pub variables: Option<u16>,
    /// Memory that the driver may read until the command has run.
    pub kept_alive: Option<Arc<[usize]>>,
}

impl CommandSpec {
    /// A command that moves memory.
    pub fn transfer(operation: Operation, name: &'static str) -> CommandSpec {
        let info = TaskInfo { operation, ..TaskInfo::default() };
        CommandSpec { info, name, ..CommandSpec::default() }
    }

    /// Adds a range whose role follows from the kind of command. None means that its bytes are not known.
    #[must_use]
    pub fn with(mut self, range: Option<(Range, Source)>, role: Role) -> CommandSpec {
        let arg = u16::try_from(self.ranges.len() + self.opaque.len()).unwrap_or(u16::MAX);
        match range {
            Some((range, source)) => {
                self.ranges.push((Range { arg, role: RangeRole::Known(role), ..range }, source));
            }
            None => self.opaque.push((arg, StringId::NONE)),
        }
        self
    }
}

/// Where a call of the program submits its command.
pub struct QueueTarget<'a> {
    queue: Queue,
    /// The events that the command waits for.
    waits: &'a [Event],
    /// Whether the wait list is valid: null if and only if it is empty.
    is_valid: bool,
    /// Where the program wants the event of the command. May be null.
    event: *mut Event,
    /// Whether the program's call blocks until the command is complete.
    blocks: bool,
}

impl QueueTarget<'_> {
    /// The target of a call with these arguments.
    ///
    /// # Safety
    /// As the program's call: the wait list is valid during 'a.
    pub unsafe fn new<'a>(
        queue: Queue,
        blocks: u32,
        (count, waits): (u32, *const Event),
        event: *mut Event,
    ) -> QueueTarget<'a> {
        // SAFETY: the caller's guarantee.
        let list = unsafe { raw::list(count, waits) };
        let is_valid = (count == 0) == waits.is_null();
        QueueTarget { queue, waits: list, is_valid, event, blocks: blocks != 0 }
    }
}

/// Puts a command into its queue. `call` calls the driver with a wait list and a place for the event, and must not
/// block.
///
/// # Safety
/// As the program's call: its queue and events live, and its place for an event is null or can be written.
pub unsafe fn enqueue(
    target: &QueueTarget<'_>,
    spec: impl FnOnce(&mut Objects, &mut ThreadRecorder) -> Result<CommandSpec, RecordError>,
    call: impl FnOnce(u32, *const Event, *mut Event) -> Status,
) -> Status {
    let layer = Layer::get();
    if !target.is_valid {
        return ffi::INVALID_EVENT_WAIT_LIST;
    }
    let Some(state) = queue_state(layer, target.queue) else {
        return enqueue_unrecorded(layer, target, call);
    };
    layer.release_queued_events();
    // No other thread's command may enter the queue between this command and its snapshots.
    let guard = state.lock.lock().unwrap_or_else(PoisonError::into_inner);
    let pending = layer.record(|recorder| begin(layer, target, &state, recorder, spec));
    let Some(pending) = pending else {
        drop(guard);
        return enqueue_unrecorded(layer, target, call);
    };
    match pending.submit(layer, target, &state, call) {
        Ok(events) => return_event(layer, target, &pending, events, guard),
        Err(status) => status,
    }
}

/// Submits a command without recording it. `call` does not block, so this function waits if the program's call blocks.
fn enqueue_unrecorded(
    layer: &Layer,
    target: &QueueTarget<'_>,
    call: impl FnOnce(u32, *const Event, *mut Event) -> Status,
) -> Status {
    layer.count_unrecorded();
    let (count, waits) = raw::wait_list(target.waits);
    if !target.blocks {
        return call(count, waits, target.event);
    }
    let mut event = ptr::null_mut();
    let mut status = call(count, waits, &raw mut event);
    if status == ffi::SUCCESS {
        status = wait(layer, event);
        match target.event.is_null() {
            true => layer.release(event),
            // SAFETY: the program's guarantee.
            false => unsafe { target.event.write(event) },
        }
    }
    status
}

/// A command whose task has begun, before it is in its queue.
struct PendingCommand {
    shared: Arc<SharedCommand>,
    /// For each range of the command, where a snapshot finds it.
    sources: Vec<Source>,
    token: OrderToken,
    is_filtered: bool,
    /// Name of its kernel, or of the OpenCL function.
    name: String,
}

fn begin(
    layer: &Layer,
    target: &QueueTarget<'_>,
    state: &QueueState,
    recorder: &mut ThreadRecorder,
    spec: impl FnOnce(&mut Objects, &mut ThreadRecorder) -> Result<CommandSpec, RecordError>,
) -> Result<PendingCommand, RecordError> {
    let mut objects = layer.objects();
    let spec = spec(&mut objects, recorder)?;
    let tokens = objects.tokens(target.waits);
    let mut task = begin_task(recorder, state, &spec)?;
    let mut next = || recorder.next_task_id();
    let submission = objects.orders.submit(state.number, task.id(), &tokens, &mut next);
    drop(objects);
    let is_filtered = task.is_filtered();
    submission.record(recorder)?;
    let is_captured = !matches!(state.method, SnapshotMethod::Unavailable);
    record_values(recorder, &mut task, &spec, is_captured)?;
    let (kept_alive, name) = (spec.kept_alive, spec.kernel.unwrap_or_else(|| spec.name.to_owned()));
    let (ranges, sources): (Vec<Range>, _) = match is_captured {
        true => spec.ranges.into_iter().unzip(),
        false => (Vec::new(), Vec::new()),
    };
    let shared = SharedCommand::new(Command::new(task, ranges), HeldObjects::new(kept_alive));
    Ok(PendingCommand { shared, sources, token: submission.token, is_filtered, name })
}

fn begin_task(
    recorder: &mut ThreadRecorder,
    state: &QueueState,
    spec: &CommandSpec,
) -> Result<Task, RecordError> {
    let records = Range::record_count(spec.ranges.iter().map(|(range, _)| range), spec.values.len());
    let (name, submitted_ns) = (recorder.string(spec.name)?, recorder.now());
    recorder.begin(&TaskInfo { queue: state.id, name, submitted_ns, records, ..spec.info })
}

/// The events of a command that is in its queue.
struct SubmittedEvents {
    /// Completes when the after-snapshot is complete.
    last: Event,
    /// The command's own event, if `last` is the snapshot's.
    own: Option<EventHandle>,
}

impl PendingCommand {
    /// Submits the before-snapshot, the command, and the after-snapshot.
    fn submit(
        &self,
        layer: &'static Layer,
        target: &QueueTarget<'_>,
        state: &QueueState,
        call: impl FnOnce(u32, *const Event, *mut Event) -> Status,
    ) -> Result<SubmittedEvents, Status> {
        let snapshot = |stage, waits: &[Event]| match self.is_filtered {
            true => None,
            false => self.snapshot(layer, (target.queue, &state.method), stage, waits),
        };
        let before = snapshot(DumpStage::BeforeDispatch, target.waits).unwrap_or_default();
        let waits = before.last().map_or(target.waits, std::slice::from_ref);
        let mut own = ptr::null_mut();
        let (count, waits) = raw::wait_list(waits);
        let status = call(count, waits, &raw mut own);
        if status != ffi::SUCCESS {
            before.into_iter().for_each(|event| layer.release(event));
            self.shared.refuse(&layer.session, &self.name, status);
            return Err(status);
        }
        let after = snapshot(DumpStage::AfterCompletion, &[own]);
        if after.is_none() {
            // The driver may read this memory later, and nothing reports when that is over.
            std::mem::forget(self.shared.running().state.kept_alive.take());
            self.shared.end_without_after(&layer.session);
        }
        let mut after = after.unwrap_or_default();
        let last = after.pop();
        snapshot::hold(layer, &self.shared, before.into_iter().chain(after));
        // A command that waits for nothing does not fail because of another command, so it needs no watching.
        if let Some(last) = last.filter(|_| !target.waits.is_empty()) {
            layer.watch(last, &self.shared);
        }
        Ok(match last {
            Some(last) => SubmittedEvents { last, own: Some(EventHandle(own)) },
            None => SubmittedEvents { last: own, own: None },
        })
    }

    /// Submits the snapshot of a stage and returns its events. Returns none if nothing will report when the queue has
    /// come that far: there is nothing to capture before the command, content is not recorded, or the driver refuses.
    /// A refusal is recorded as missing content.
    fn snapshot(
        &self,
        layer: &'static Layer,
        (queue, method): (Queue, &SnapshotMethod),
        stage: DumpStage,
        waits: &[Event],
    ) -> Option<Vec<Event>> {
        let sources = self.sources_at(stage);
        if sources.is_empty() && stage == DumpStage::BeforeDispatch {
            return None;
        }
        match method {
            SnapshotMethod::Unavailable => return None,
            SnapshotMethod::MetadataOnly => {
                self.shared.record_without_content(&layer.session, stage);
                return None;
            }
            SnapshotMethod::NativeKernels | SnapshotMethod::Copies(_) => {}
        }
        let request = SnapshotRequest { shared: &self.shared, sources: &sources, stage };
        self.shared.snapshot(&layer.session, stage, || {
            let queued = snapshot::enqueue(layer, (queue, method), request, waits)?;
            Ok((queued.events, queued.missed))
        })
    }

    fn sources_at(&self, stage: DumpStage) -> Vec<Source> {
        let running = self.shared.running();
        let ranges = running.command.ranges().iter().zip(&self.sources);
        ranges.filter(|(range, _)| range.role.is_captured_at(stage)).map(|(_, &source)| source).collect()
    }
}

/// Gives the program its event, and waits if the program's call blocks.
fn return_event(
    layer: &Layer,
    target: &QueueTarget<'_>,
    pending: &PendingCommand,
    SubmittedEvents { last, own }: SubmittedEvents,
    guard: MutexGuard<'_, ()>,
) -> Status {
    let wants_event = !target.event.is_null();
    if wants_event {
        layer.objects().add_event(last, pending.token, own);
        // SAFETY: the program's guarantee.
        unsafe { target.event.write(last) };
    } else {
        snapshot::hold(layer, &pending.shared, own.map(|EventHandle(own)| own));
    }
    // Release the queue first: the wait may depend on commands that other threads submit to it.
    drop(guard);
    let mut status = ffi::SUCCESS;
    if target.blocks {
        status = wait(layer, last);
        layer.objects().orders.host_waited(&[pending.token]);
    }
    if !wants_event {
        layer.release(last);
    }
    status
}

fn wait(layer: &Layer, event: Event) -> Status {
    match layer.target.clWaitForEvents {
        // SAFETY: the layer holds this event.
        Some(call) => unsafe { call(1, &raw const event) },
        None => ffi::INVALID_OPERATION,
    }
}
