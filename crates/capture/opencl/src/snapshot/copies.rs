//! Snapshots by copies. In the command's queue, content is copied to staging memory, and device code computes its hash
//! and statistics. When the queue has come that far, the driver calls back, and the harvest thread reads and records the
//! results ([`harvest`](super::harvest)).

use std::{ffi::c_void, slice, sync::Arc};

use tensortap_device_kernels::{Plan, RangeElements, Source as HashSource};
use tensortap_queue::{Range, RingSlice};
use tensortap_record::{DumpStage, UncapturedReason};

use super::{QueuedSnapshot, SharedCommand, SnapshotRequest, Source, harvest};
use crate::{
    device_hasher::{HashLaunch, mem_of, name_of},
    ffi::{self, COMPLETE, Event, Mem, Queue, Status},
    harvest_thread::CompletionNote,
    layer::Layer,
    objects::{EventHandle, LayerReferences},
    raw::{self, info},
    ring::{Ring, RingCopy},
};

/// Ranges of up to this many bytes, one leaf of the hash tree, are copied and hashed on the host. To hash them on the
/// device would take longer.
const SMALL_BYTES: u64 = 4096;

/// A snapshot whose commands are in their queue.
pub struct PendingSnapshot {
    pub ring: Arc<Ring>,
    pub copies: Vec<RingCopy>,
    pub launches: Vec<HashLaunch>,
    /// The captured ranges by their position in the snapshot.
    pub ranges: Vec<(usize, RangeCapture)>,
    /// Whether the driver will call back.
    pub is_expected: bool,
    /// Its place among all snapshots in flight.
    place: RingSlice,
    /// The memory objects that its commands use.
    references: Arc<LayerReferences>,
}

/// How a range is captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeCapture {
    /// It has no bytes.
    Empty,
    /// The host reads this copy.
    Copied(usize),
    /// Device code hashes it: the launch, the position in the launch, and the copy with the payload, if there is one.
    Hashed(usize, usize, Option<usize>),
}

impl PendingSnapshot {
    /// Frees what the snapshot uses. It was recorded, or will never be.
    pub fn free(self, layer: &Layer) {
        self.references.drop_all();
        self.ring.free(self.copies);
        if let Some(hasher) = self.ring.hasher() {
            self.launches.into_iter().for_each(|launch| hasher.free(launch));
        }
        layer.snapshot_places.free([self.place]);
        if self.is_expected {
            layer.harvest_thread.finish_one();
        }
    }
}

/// The index of a stage: 0 before the command, 1 after it.
pub fn index(stage: DumpStage) -> usize {
    usize::from(stage == DumpStage::AfterCompletion)
}

/// Puts the commands of a snapshot into a queue, each waiting for the one before it, and asks the driver to call back
/// after the last one.
pub fn enqueue(
    layer: &'static Layer,
    (queue, ring): (Queue, &Arc<Ring>),
    SnapshotRequest { shared, sources, stage }: SnapshotRequest<'_>,
    waits: &[Event],
) -> Result<QueuedSnapshot, UncapturedReason> {
    let flush = || {
        // SAFETY: the program's queue lives.
        layer.target.clFlush.map(|flush| unsafe { flush(queue) });
    };
    let place = layer.snapshot_places.allocate(1, flush).ok_or(UncapturedReason::NoRoom)?;
    let ranges: Vec<Range> = shared.running().command.captured_at(stage).copied().collect();
    let mut builder = SnapshotBuilder::new(layer, (queue, ring, place), waits);
    for (at, (range, &source)) in ranges.iter().zip(sources).enumerate() {
        builder.add(at, range, source);
    }
    builder.launch_hashes();
    let SnapshotBuilder { mut snapshot, queued, used, .. } = builder;
    snapshot.references = Arc::new(LayerReferences::new(layer, used));
    let references = Arc::clone(&snapshot.references);
    let last = queued
        .events
        .last()
        .or_else(|| waits.first().filter(|_| stage == DumpStage::AfterCompletion))
        .copied();
    snapshot.is_expected = last.is_some();
    shared.running().state.snapshots[index(stage)] = Some(snapshot);
    match last {
        Some(event) => watch(layer, event, (shared, references), stage)
            .inspect_err(|_| {
                // Its commands are in the queue, so its memory must never be reused.
                std::mem::forget(shared.running().state.snapshots[index(stage)].take());
                queued.events.iter().for_each(|&event| layer.release(event));
            })
            .map_err(|_| UncapturedReason::NoProbe)?,
        // The snapshot has no commands, so there is nothing to wait for.
        None => harvest::record(layer, shared, stage),
    }
    Ok(queued)
}

/// A snapshot while its commands enter the queue.
struct SnapshotBuilder<'a> {
    layer: &'a Layer,
    queue: Queue,
    waits: &'a [Event],
    snapshot: PendingSnapshot,
    queued: QueuedSnapshot,
    /// Buffers of the program, once for each command that uses one.
    used: Vec<Mem>,
    /// The source of each copy. Ranges with the same source share a copy.
    copied: Vec<(Source, (u64, u64))>,
    /// Ranges to hash on the device: their position, their source, and the copy with the payload.
    hashed: Vec<(usize, HashSource, Option<usize>)>,
}

impl<'a> SnapshotBuilder<'a> {
    fn new(
        layer: &'a Layer,
        (queue, ring, place): (Queue, &Arc<Ring>, RingSlice),
        waits: &'a [Event],
    ) -> SnapshotBuilder<'a> {
        let snapshot = PendingSnapshot {
            ring: Arc::clone(ring),
            copies: Vec::new(),
            launches: Vec::new(),
            ranges: Vec::new(),
            is_expected: false,
            place,
            references: Arc::default(),
        };
        let (queued, used, copied, hashed) = (QueuedSnapshot::default(), Vec::new(), Vec::new(), Vec::new());
        SnapshotBuilder { layer, queue, waits, snapshot, queued, used, copied, hashed }
    }

    /// The events that the next command waits for.
    fn last_event(&self) -> &[Event] {
        self.queued.events.last().map_or(self.waits, slice::from_ref)
    }

    /// Adds one range.
    fn add(&mut self, at: usize, range: &Range, source: Source) {
        let span = range.span();
        let is_hashed = span.1 > SMALL_BYTES && range.is_dense() && self.snapshot.ring.hasher().is_some();
        match source {
            _ if span.1 == 0 => self.snapshot.ranges.push((at, RangeCapture::Empty)),
            Source::Buffer(buffer) if is_hashed => self.add_hashed(at, range, buffer),
            _ => match self.copy(source, span) {
                Ok(copy) => self.snapshot.ranges.push((at, RangeCapture::Copied(copy))),
                Err(reason) => self.queued.missed.push((at, reason)),
            },
        }
    }

    /// Copies some bytes, and returns the number of the copy.
    fn copy(&mut self, source: Source, span: (u64, u64)) -> Result<usize, UncapturedReason> {
        if let Some(known) = self.copied.iter().position(|known| *known == (source, span)) {
            return Ok(known);
        }
        let ring = &self.snapshot.ring;
        let (copy, event) = ring.copy(self.layer, self.queue, (source, span), self.last_event())?;
        self.snapshot.copies.push(copy);
        self.copied.push((source, span));
        if let Source::Buffer(buffer) = source {
            self.used.push(buffer);
        }
        self.queued.events.push(event);
        Ok(self.snapshot.copies.len() - 1)
    }

    /// Adds a range that device code hashes. If payloads are recorded, the range is copied and the copy is hashed, so
    /// that hash and payload agree. Without room for a copy, the range is hashed in place and its payload is missing.
    fn add_hashed(&mut self, at: usize, range: &Range, buffer: Mem) {
        let (before, bytes) = range.span();
        let wants_payloads = self.layer.wants_payloads;
        let copy = match wants_payloads || !can_be_read(self.layer, buffer) {
            true => self.copy(Source::Buffer(buffer), (before, bytes)),
            false => Err(UncapturedReason::NoRoom),
        };
        let place = copy.ok().and_then(|copy| self.snapshot.ring.place_of(&self.snapshot.copies[copy]));
        if let Err(reason) = copy
            && wants_payloads
            && reason == UncapturedReason::NoRoom
        {
            self.layer.session.note_no_room();
        }
        let (buffer, address) = place.unwrap_or((name_of(buffer), before));
        let measured = (!wants_payloads).then(|| RangeElements::whole(range.elements(), bytes)).flatten();
        self.hashed.push((at, HashSource { buffer, address, bytes, measured }, copy.ok()));
    }

    /// Launches the device code for all ranges to hash.
    fn launch_hashes(&mut self) {
        let hashed = std::mem::take(&mut self.hashed);
        let sources: Vec<HashSource> = hashed.iter().map(|(_, source, _)| *source).collect();
        let plans = Plan::by_buffer(&sources).unwrap_or_default();
        let mut captures: Vec<Option<RangeCapture>> = vec![None; hashed.len()];
        for plan in plans {
            let slots: Vec<usize> = plan.ranges().iter().map(|range| range.slot as usize).collect();
            let used = plan.buffers().iter().map(|&buffer| mem_of(buffer));
            let used: Vec<Mem> = used.filter(|&buffer| !self.snapshot.ring.is_memory(buffer)).collect();
            let hasher = self.snapshot.ring.hasher();
            let enqueued =
                hasher.map(|hasher| hasher.enqueue(self.layer, self.queue, plan, self.last_event()));
            let Some(Ok((launch, events))) = enqueued else { continue };
            for (at, slot) in slots.into_iter().enumerate() {
                captures[slot] = Some(RangeCapture::Hashed(self.snapshot.launches.len(), at, hashed[slot].2));
            }
            self.snapshot.launches.push(launch);
            self.used.extend(used);
            self.queued.events.extend(events);
        }
        for ((at, _, copy), capture) in hashed.into_iter().zip(captures) {
            // If the device cannot hash a range, the host reads its copy, if there is one.
            match capture.or(copy.map(RangeCapture::Copied)) {
                Some(capture) => self.snapshot.ranges.push((at, capture)),
                None => self.queued.missed.push((at, UncapturedReason::NoRoom)),
            }
        }
    }
}

/// Whether a kernel may read a buffer.
fn can_be_read(layer: &Layer, buffer: Mem) -> bool {
    let flags = raw::value::<u64>(info!(layer.target, clGetMemObjectInfo(buffer, ffi::MEM_FLAGS)));
    flags.is_some_and(|flags| flags & ffi::MEM_WRITE_ONLY == 0)
}

/// Asks the driver to call back when the event is complete.
fn watch(
    layer: &Layer,
    event: Event,
    (shared, references): (&Arc<SharedCommand>, Arc<LayerReferences>),
    stage: DumpStage,
) -> Result<(), Status> {
    let set = layer.target.clSetEventCallback.ok_or(ffi::INVALID_OPERATION)?;
    let retain = layer.target.clRetainEvent.ok_or(ffi::INVALID_OPERATION)?;
    let (shared, event_handle) = (Arc::clone(shared), EventHandle(event));
    let note = Box::into_raw(Box::new(CompletionNote { shared, stage, event: event_handle, references }));
    layer.harvest_thread.expect_one();
    // SAFETY: the event lives.
    unsafe { retain(event) };
    // SAFETY: the event lives, and only the callback has the note.
    let status = unsafe { set(event, COMPLETE, Some(completed), note.cast()) };
    if status != ffi::SUCCESS {
        layer.harvest_thread.cancel_one();
        layer.release(event);
        // SAFETY: the note was created above, and the driver has not taken it.
        drop(unsafe { Box::from_raw(note) });
        return Err(status);
    }
    Ok(())
}

/// The driver calls this in its own thread. It must not call the driver and must not wait.
unsafe extern "C" fn completed(_: Event, _: i32, note: *mut c_void) {
    // SAFETY: `watch` created the note, and the driver passes it once.
    let note = *unsafe { Box::from_raw(note.cast::<CompletionNote>()) };
    note.references.drop_all();
    let thread = &Layer::get().harvest_thread;
    if !thread.hand_over(note) {
        thread.cancel_one();
    }
}
