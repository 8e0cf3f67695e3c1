//! Snapshots: what is read before and after a command, in the command's queue.
//!
//! On a device that runs native kernels, a snapshot is such a kernel: a function of this process ([`native_kernels`]).
//! On other devices, a snapshot copies the content to staging memory and hashes it there with device code ([`copies`]).
//! The harvest thread then reads and records the results ([`harvest`]).

mod copies;
mod harvest;
mod native_kernels;

use std::sync::Arc;

use tensortap_queue::{CommandState, MissedRanges};
use tensortap_record::{DumpStage, UncapturedReason};

pub use copies::PendingSnapshot;
pub use harvest::harvest;

use crate::{
    ffi::{Event, Mem, Queue},
    layer::Layer,
    objects::EventHandle,
    ring::Ring,
};

/// Where a snapshot finds the memory of a range when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In a buffer. Only the driver knows its address.
    Buffer(Mem),
    /// At an address of shared memory.
    Address(usize),
}

/// How snapshots are taken in a queue.
#[derive(Clone, Debug)]
pub enum SnapshotMethod {
    /// By native kernels: functions of this process that the device runs.
    NativeKernels,
    /// By copies to staging memory, and by code on the device.
    Copies(Arc<Ring>),
    /// Content is not recorded. Only the ranges themselves are.
    MetadataOnly,
    /// Not at all.
    Unavailable,
}

/// A command that the submitting thread shares with its queue and with the harvest thread.
pub type SharedCommand = tensortap_queue::SharedCommand<HeldObjects>;

/// What the layer holds until a command is over.
#[derive(Default)]
pub struct HeldObjects {
    /// The snapshots before and after the command, until they are recorded.
    snapshots: [Option<PendingSnapshot>; 2],
    /// Native kernels in its queue that have not run, by their addresses.
    waiting_kernels: Vec<usize>,
    /// The events around the command: some drivers (PoCL 3.0) crash if a command fails whose event was released.
    events: Vec<EventHandle>,
    /// Memory that the driver may read until the command has run.
    pub kept_alive: Option<Arc<[usize]>>,
}

impl HeldObjects {
    /// Holds only this memory.
    pub fn new(kept_alive: Option<Arc<[usize]>>) -> HeldObjects {
        HeldObjects { kept_alive, ..HeldObjects::default() }
    }
}

impl CommandState for HeldObjects {
    fn release(&mut self) {
        self.kept_alive = None;
        Layer::get().queue_for_release(std::mem::take(&mut self.events));
    }
}

/// Holds events until the command is over.
pub fn hold(layer: &Layer, shared: &SharedCommand, events: impl IntoIterator<Item = Event>) {
    let (mut running, events) = (shared.running(), events.into_iter().map(EventHandle));
    match running.is_over() {
        true => layer.queue_for_release(events.collect()),
        false => running.state.events.extend(events),
    }
}

/// Ends a command if it, or something that it waited for, has failed. `status` is that of its last snapshot. Returns
/// whether the command is over. Snapshots of a failed command that have not run will never run. Some drivers (PoCL 3.0)
/// report a failure only to those who ask.
pub fn end_if_failed(layer: &Layer, shared: &SharedCommand, status: Option<i32>) -> bool {
    let mut running = shared.running();
    if running.is_over() || status.is_some_and(|status| status >= 0) {
        return running.is_over();
    }
    let waiting = std::mem::take(&mut running.state.waiting_kernels);
    let snapshots = running.state.snapshots.each_mut().map(Option::take);
    shared.end(running);
    // SAFETY: the snapshots of a command are a chain. Its last one has failed, so none of them runs any more.
    unsafe { native_kernels::discard(waiting) };
    snapshots.into_iter().flatten().for_each(|snapshot| snapshot.free(layer));
    true
}

/// The commands of a snapshot that is in its queue.
#[derive(Default)]
pub struct QueuedSnapshot {
    /// Their events in queue order. The caller releases them.
    pub events: Vec<Event>,
    /// Ranges that are not captured.
    pub missed: MissedRanges,
}

/// A snapshot to take.
#[derive(Clone, Copy)]
pub struct SnapshotRequest<'a> {
    /// The command.
    pub shared: &'a Arc<SharedCommand>,
    /// Where the ranges of the stage are.
    pub sources: &'a [Source],
    /// Before or after the command.
    pub stage: DumpStage,
}

/// Puts a snapshot into a queue. Its first command waits for `waits`: for an after-snapshot, the event of the command.
///
/// # Errors
/// The reason why nothing is captured. Then nothing reports when the command has run.
pub fn enqueue(
    layer: &'static Layer,
    (queue, method): (Queue, &SnapshotMethod),
    request: SnapshotRequest<'_>,
    waits: &[Event],
) -> Result<QueuedSnapshot, UncapturedReason> {
    match method {
        SnapshotMethod::NativeKernels => native_kernels::enqueue(layer, queue, request, waits),
        SnapshotMethod::Copies(ring) => copies::enqueue(layer, (queue, ring), request, waits),
        SnapshotMethod::MetadataOnly | SnapshotMethod::Unavailable => Err(UncapturedReason::NoProbe),
    }
}
