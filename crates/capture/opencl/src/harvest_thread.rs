//! The thread that reads and records what devices have copied.

use std::sync::Arc;

use tensortap_queue::{GRANULARITY, HarvestThread, RingAllocator, WAIT_LIMIT, number_from_environment};
use tensortap_record::DumpStage;

use crate::{
    layer::Layer,
    objects::{EventHandle, LayerReferences},
    snapshot::{self, SharedCommand},
};

/// Default limit of snapshots in flight. Each has events of the driver and a description of its ranges.
const MAX_SNAPSHOTS: u64 = 1 << 15;
/// Overrides the limit.
const MAX_SNAPSHOTS_VARIABLE: &str = "TENSORTAP_OPENCL_BACKLOG";

/// A callback of the driver for a snapshot.
pub struct CompletionNote {
    /// The command.
    pub shared: Arc<SharedCommand>,
    /// Before or after the command.
    pub stage: DumpStage,
    /// The event that is complete. The layer holds it.
    pub event: EventHandle,
    /// The memory objects that the commands of the snapshot use.
    pub references: Arc<LayerReferences>,
}

/// Counts the snapshots in flight: each has one place. The allocator is used to count, not for memory.
pub fn snapshot_places() -> RingAllocator {
    let limit = number_from_environment(MAX_SNAPSHOTS_VARIABLE).unwrap_or(MAX_SNAPSHOTS);
    RingAllocator::new(limit.saturating_mul(GRANULARITY))
}

/// The thread of the layer. The first call starts it. None if the system starts no thread.
pub fn start(layer: &'static Layer) -> Option<&'static HarvestThread<CompletionNote>> {
    let thread = &layer.harvest_thread;
    let run = move || {
        let mut notes = Vec::new();
        loop {
            thread.sleep();
            thread.accept(&mut notes);
            for note in notes.drain(..) {
                snapshot::harvest(layer, &note);
                layer.release(note.event.0);
            }
        }
    };
    thread.start(&layer.session, "tt-opencl", run, at_exit);
    thread.is_running().then_some(thread)
}

/// The process exits normally. Commands that the program has waited for are complete.
extern "C" fn at_exit() {
    Layer::get().harvest_thread.settle(WAIT_LIMIT);
}
