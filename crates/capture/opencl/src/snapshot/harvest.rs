//! Reads and records the results of snapshots by copies, in the harvest thread.

use std::{cell::RefCell, ptr};

use tensortap_device_kernels::RangeResult;
use tensortap_queue::{Command, ContentSource, Range, StoredContent};
use tensortap_record::{
    ContentDigest, DumpStage, Outcome, PartialContent, Role, Tensor, ThreadRecorder, UncapturedReason,
};

use super::{
    SharedCommand,
    copies::{PendingSnapshot, RangeCapture, index},
};
use crate::{ffi::COMPLETE, harvest_thread::CompletionNote, layer::Layer, ring::RingCopy};

thread_local! {
    /// Content that this thread's recorder has stored. The collector remembers more content, so it knows all of this.
    static STORED: RefCell<StoredContent> = RefCell::new(StoredContent::with_limit(1 << 16));
}

/// The driver has called back for a snapshot.
pub fn harvest(layer: &'static Layer, note: &CompletionNote) {
    let CompletionNote { shared, stage, event, references: _ } = note;
    // Ask the event: some drivers (NVIDIA) call back for failed commands as for complete ones.
    if layer.status(event.0) != Some(COMPLETE) {
        cancel(layer, shared, *stage);
        return;
    }
    // Drivers call back in any order. If the after-snapshot is complete, so is the before-snapshot.
    record(layer, shared, DumpStage::BeforeDispatch);
    if *stage == DumpStage::AfterCompletion {
        record(layer, shared, *stage);
    }
}

/// The command, or something that it waited for, has failed.
fn cancel(layer: &Layer, shared: &SharedCommand, stage: DumpStage) {
    let mut running = shared.running();
    let snapshot = running.state.snapshots[index(stage)].take();
    shared.cancel_stage(running, stage);
    if let Some(snapshot) = snapshot {
        snapshot.free(layer);
    }
}

/// Reads and records a snapshot, unless it was recorded already or is not in its queue yet.
pub fn record(layer: &'static Layer, shared: &SharedCommand, stage: DumpStage) {
    let mut running = shared.running();
    let Some(snapshot) = running.state.snapshots[index(stage)].take() else { return };
    // If the driver refused the command, its snapshot is not recorded.
    let is_over = running.is_over();
    drop(running);
    if !is_over {
        // The command is not locked while the device is read.
        let results = SnapshotResults::read(layer, &snapshot);
        let mut running = shared.running();
        results.record(layer, &snapshot, stage, &mut running.command);
        shared.finish_stage(&layer.session, running, stage);
    }
    snapshot.free(layer);
}

/// What the host has read of a snapshot.
struct SnapshotResults {
    /// The content of copies that the host reads whole.
    contents: Vec<Option<Vec<u8>>>,
    /// The results of device code.
    hashes: Vec<Option<Vec<Option<RangeResult>>>>,
}

impl SnapshotResults {
    fn read(layer: &Layer, snapshot: &PendingSnapshot) -> SnapshotResults {
        let is_read =
            |copy: usize| snapshot.ranges.iter().any(|(_, capture)| *capture == RangeCapture::Copied(copy));
        let contents = snapshot.copies.iter().enumerate();
        let contents =
            contents.map(|(at, copy)| if is_read(at) { snapshot.ring.read(layer, copy) } else { None });
        let hashes = snapshot.launches.iter().map(|launch| snapshot.ring.results(layer, launch));
        SnapshotResults { contents: contents.collect(), hashes: hashes.collect() }
    }

    fn record(&self, layer: &Layer, snapshot: &PendingSnapshot, stage: DumpStage, command: &mut Command) {
        let of_stage: Vec<Range> = command.captured_at(stage).copied().collect();
        let (mut contents, mut missed) = (Vec::new(), Vec::new());
        for &(at, capture) in &snapshot.ranges {
            let range = &of_stage[at];
            let content = match capture {
                RangeCapture::Empty => Some(&[][..]),
                RangeCapture::Copied(copy) => self.contents[copy].as_deref(),
                RangeCapture::Hashed(launch, of_launch, copy) => {
                    let result = self.hashes[launch].as_ref().and_then(|results| results[of_launch]);
                    match result {
                        Some(result) => {
                            let dtype = (!layer.wants_payloads).then(|| range.elements());
                            let outcome = result.outcome(dtype);
                            let found = ContentDigest { hash: outcome.hash, stats: outcome.stats };
                            record_hashed(layer, snapshot, (command, stage, at), &found, copy);
                        }
                        None => missed.push((range.arg, range.name)),
                    }
                    continue;
                }
            };
            match content {
                // SAFETY: `bytes` are the bytes of the range, and nothing else of its allocation is read.
                Some(bytes) => contents.push((at, unsafe { allocation_of(range, bytes) })),
                None => missed.push((range.arg, range.name)),
            }
        }
        layer.record(|recorder| {
            for (arg, name) in missed {
                let (arg, reason) = ((arg, Role::InOut, name), UncapturedReason::NoAccess);
                recorder.not_captured(command.task(), stage, arg, reason)?;
            }
            command.record_contents(recorder, stage, &contents)
        });
    }
}

/// Records a range that device code has hashed. New content is read from its copy directly into the memory of the
/// recording.
fn record_hashed(
    layer: &Layer,
    snapshot: &PendingSnapshot,
    (command, stage, at): (&mut Command, DumpStage, usize),
    found: &ContentDigest,
    copy: Option<usize>,
) {
    let copy = copy.filter(|_| layer.wants_payloads).map(|copy| snapshot.copies[copy]);
    let is_stored = layer.skips_stored_content && STORED.with_borrow(|stored| stored.is_stored(found.hash));
    let source = match copy {
        None => ContentSource::None,
        Some(_) if is_stored => ContentSource::Dump,
        Some(_) => ContentSource::Device,
    };
    let is_new = layer.record(|recorder| {
        let partial = command.record_found(recorder, (stage, at), found, source)?;
        Ok(partial
            .zip(copy)
            .is_some_and(|(partial, copy)| read_payload(layer, snapshot, recorder, partial, &copy)))
    });
    // Content is stored only if all of it was read.
    if is_new == Some(true) {
        STORED.with_borrow_mut(|stored| stored.insert(found.hash));
    }
}

/// Reads a payload piece by piece. Returns whether all of it was recorded.
fn read_payload(
    layer: &Layer,
    snapshot: &PendingSnapshot,
    recorder: &mut ThreadRecorder,
    mut partial: PartialContent,
    copy: &RingCopy,
) -> bool {
    let mut read = 0;
    while let Ok(space) = recorder.next_space(&mut partial) {
        let Some(space) = space else { return true };
        let size = usize::try_from(space.bytes).unwrap_or(0);
        // SAFETY: the space has this size, and only this thread uses it until it is committed.
        let settled = match unsafe { snapshot.ring.read_to(layer, copy, (read, size), space.start) } {
            true => recorder.commit(space.number, None),
            false => recorder.give_up(space.number),
        };
        if !matches!(settled, Ok(Outcome::Recorded)) {
            return false;
        }
        read += size;
    }
    false
}

/// The allocation of a range, of which only the bytes of the range are in this process.
///
/// # Safety
/// While `bytes` live, nothing of the allocation except the range is read.
unsafe fn allocation_of<'a>(range: &Range, bytes: &'a [u8]) -> Tensor<'a> {
    let (before, _) = range.span();
    // If nothing is read, any address is valid except null.
    let start = if bytes.is_empty() { ptr::dangling() } else { bytes.as_ptr() };
    let start = start.wrapping_sub(usize::try_from(before).unwrap_or(0));
    // SAFETY: the caller's guarantee.
    unsafe { Tensor::at(start, range.bytes, range.elements()) }
}
