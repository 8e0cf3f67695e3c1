//! Snapshots: what is read before and after a command, in the command's queue.
//!
//! On a device that runs native kernels, a snapshot is such a kernel: a function of this process ([`native_kernels`]).
//! On other devices, a snapshot copies the content to staging memory and hashes it there with device code ([`copies`]).
//! The harvest thread then reads and records the results ([`harvest`]).

mod copies;
mod harvest;
mod native_kernels;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tensortap_queue::Command;
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

/// A command that is in its queue, and the events around it. The layer holds these events until the after-snapshot is
/// recorded: some drivers (PoCL 3.0) crash if a command fails whose event was released.
pub struct RunningCommand {
    /// The command.
    pub command: Command,
    /// The snapshots before and after it, until they are recorded.
    snapshots: [Option<PendingSnapshot>; 2],
    /// Native kernels in its queue that have not run, by their addresses.
    waiting_kernels: Vec<usize>,
    held_events: Vec<EventHandle>,
    /// Memory that the driver may read until the command has run.
    kept_alive: Option<Arc<[usize]>>,
    is_over: bool,
}

impl RunningCommand {
    /// A command that enters its queue.
    pub fn new(command: Command, kept_alive: Option<Arc<[usize]>>) -> RunningCommand {
        let (snapshots, waiting_kernels, held_events) = ([None, None], Vec::new(), Vec::new());
        RunningCommand { command, snapshots, waiting_kernels, held_events, kept_alive, is_over: false }
    }

    /// Holds events until the command is recorded.
    pub fn hold(&mut self, layer: &Layer, events: impl IntoIterator<Item = Event>) {
        let events = events.into_iter().map(EventHandle);
        match self.is_over {
            true => layer.queue_for_release(events.collect()),
            false => self.held_events.extend(events),
        }
    }

    /// The after-snapshot was recorded, or the driver refused the command, or it failed. Nothing more of it is recorded.
    pub fn end(&mut self, layer: &Layer) {
        self.is_over = true;
        self.kept_alive = None;
        layer.queue_for_release(std::mem::take(&mut self.held_events));
    }
}

/// Locks a command.
pub fn lock(running: &Mutex<RunningCommand>) -> MutexGuard<'_, RunningCommand> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a command if it, or something that it waited for, has failed. `status` is that of its last snapshot. Returns
/// whether the command is over. Snapshots of a failed command that have not run will never run. Some drivers (PoCL 3.0)
/// report a failure only to those who ask.
pub fn end_if_failed(layer: &Layer, running: &Mutex<RunningCommand>, status: Option<i32>) -> bool {
    let mut known = lock(running);
    if known.is_over || status.is_some_and(|status| status >= 0) {
        return known.is_over;
    }
    let waiting = std::mem::take(&mut known.waiting_kernels);
    let snapshots = known.snapshots.each_mut().map(Option::take);
    known.end(layer);
    drop(known);
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
    /// Ranges that are not captured, by their position in the snapshot, and the reasons.
    pub missed: Vec<(usize, UncapturedReason)>,
    /// Why the payloads of other ranges are not captured. Their hashes are.
    pub without_payload: Vec<UncapturedReason>,
}

/// A snapshot to take.
#[derive(Clone, Copy)]
pub struct SnapshotRequest<'a> {
    /// The command.
    pub running: &'a Arc<Mutex<RunningCommand>>,
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
