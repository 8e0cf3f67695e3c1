//! Probes that are copies in the queue of a command, to memory of ours. When the device has made them, its driver says so, and a thread of ours reads and records
//! what they brought.

use std::{
    ffi::c_void,
    ptr, slice,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tensortap_queue::Range;
use tensortap_record::{DumpStage, Tensor, UncapturedReason};

use super::{Asked, Probed, Running, Source};
use crate::{
    ffi::{self, COMPLETE, Event, Queue, Status},
    layer::Layer,
    reader::Note,
    ring::{Copy, Ring},
};

/// What copies bring of one side of a command.
pub struct Side {
    ring: Arc<Ring>,
    copies: Vec<Copy>,
    /// Ranges by their places among those of the side, each with the copy that has it. None: it has no bytes.
    ranges: Vec<(usize, Option<usize>)>,
}

fn place(stage: DumpStage) -> usize {
    usize::from(stage == DumpStage::AfterCompletion)
}

fn lock(running: &Mutex<Running>) -> MutexGuard<'_, Running> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts copies into a queue, one behind the other, and asks to be told of the last.
pub fn enqueue(
    layer: &'static Layer,
    (queue, ring): (Queue, &Arc<Ring>),
    Asked { running, sources, stage }: Asked<'_>,
    waits: &[Event],
) -> Result<Probed, Status> {
    let ranges: Vec<Range> = lock(running).command.seen_at(stage).copied().collect();
    let mut side = Side { ring: Arc::clone(ring), copies: Vec::new(), ranges: Vec::new() };
    let mut probed = Probed::default();
    // What several ranges share is copied once.
    let mut known: Vec<(Source, (u64, u64))> = Vec::new();
    for (at, (range, &source)) in ranges.iter().zip(sources).enumerate() {
        let span = range.span();
        if span.1 == 0 {
            side.ranges.push((at, None));
            continue;
        }
        if let Some(copy) = known.iter().position(|known| *known == (source, span)) {
            side.ranges.push((at, Some(copy)));
            continue;
        }
        let behind = probed.events.last().map_or(waits, slice::from_ref);
        match ring.copy(layer, queue, (source, span), behind) {
            Ok((copy, event)) => {
                side.ranges.push((at, Some(side.copies.len())));
                side.copies.push(copy);
                known.push((source, span));
                probed.events.push(event);
            }
            Err(reason) => probed.missed.push((at, reason)),
        }
    }
    let told_by = probed.events.last().or_else(|| waits.first().filter(|_| is_behind(stage))).copied();
    lock(running).sides[place(stage)] = Some(side);
    match told_by {
        Some(event) => watch(layer, event, running, stage).inspect_err(|_| {
            // Copies are in the queue: their rooms are theirs for good.
            lock(running).sides[place(stage)] = None;
            probed.events.iter().for_each(|&event| layer.release(event));
        })?,
        // Nothing is copied, so there is nothing to wait for.
        None => record(layer, running, stage),
    }
    Ok(probed)
}

fn is_behind(stage: DumpStage) -> bool {
    stage == DumpStage::AfterCompletion
}

/// Lets the driver tell when a side of a command can be read.
fn watch(layer: &Layer, event: Event, running: &Arc<Mutex<Running>>, stage: DumpStage) -> Result<(), Status> {
    let set = layer.target.clSetEventCallback.ok_or(ffi::INVALID_OPERATION)?;
    let note = Box::into_raw(Box::new(Note { running: Arc::clone(running), stage, has_failed: false }));
    layer.reader().expects();
    // SAFETY: an event that lives; the note is the callback's alone.
    let status = unsafe { set(event, COMPLETE, Some(told), note.cast()) };
    if status != ffi::SUCCESS {
        layer.reader().expects_no_more();
        // SAFETY: made above, and nobody was given it.
        drop(unsafe { Box::from_raw(note) });
        return Err(status);
    }
    Ok(())
}

/// The driver tells, in a thread of its own, in which nothing is called of it and nothing waits.
unsafe extern "C" fn told(_: Event, status: i32, note: *mut c_void) {
    // SAFETY: made by `watch`, and handed over once.
    let note = *unsafe { Box::from_raw(note.cast::<Note>()) };
    Layer::get().reader().hand_over(Note { has_failed: status != COMPLETE, ..note });
}

/// A side of a command has been copied, or never will be. In the thread that reads.
pub fn copied(layer: &'static Layer, note: &Note) {
    let Note { running, stage, has_failed } = note;
    if *has_failed {
        give_up(layer, running, *stage);
        return;
    }
    // Drivers tell in any order, and what was copied before a command was so when it is told of behind.
    record(layer, running, DumpStage::BeforeDispatch);
    if is_behind(*stage) {
        record(layer, running, *stage);
    }
}

/// The command failed, or what it waited for: nothing was copied that would mean anything, and the rooms are free.
fn give_up(layer: &Layer, running: &Mutex<Running>, stage: DumpStage) {
    let mut running = lock(running);
    let side = running.sides[place(stage)].take();
    if is_behind(stage) {
        running.end(layer);
    }
    drop(running);
    if let Some(side) = side {
        side.ring.free(layer, side.copies);
    }
}

/// Reads what copies have brought and records it.
fn record(layer: &'static Layer, running: &Mutex<Running>, stage: DumpStage) {
    let Some(Side { ring, copies, ranges }) = lock(running).sides[place(stage)].take() else { return };
    // What belongs to a command that the driver did not take is not read.
    let wanted = !lock(running).is_over;
    let contents: Vec<Option<Vec<u8>>> =
        copies.iter().map(|copy| if wanted { ring.read(layer, copy) } else { None }).collect();
    ring.free(layer, copies);
    let mut running = lock(running);
    if running.is_over {
        return;
    }
    let command = &mut running.command;
    let of_stage: Vec<Range> = command.seen_at(stage).copied().collect();
    let content = |copy: Option<usize>| match copy {
        Some(copy) => contents[copy].as_deref(),
        None => Some(&[][..]),
    };
    let (mut seen, mut missed) = (Vec::new(), Vec::new());
    for &(at, copy) in &ranges {
        let range = &of_stage[at];
        match content(copy) {
            // SAFETY: of the memory that the range lies in, its own bytes are there, and nothing else of it is read.
            Some(bytes) => seen.push((at, unsafe { memory_of(range, bytes) })),
            None => missed.push((range.arg, range.name)),
        }
    }
    layer.record(|recorder| {
        let reason = UncapturedReason::NoAccess;
        for (arg, name) in missed {
            recorder.not_captured(
                command.task(),
                stage,
                (arg, tensortap_record::Role::InOut, name),
                reason,
            )?;
        }
        command.observe(recorder, stage, &seen, true)
    });
    if is_behind(stage) {
        running.end(layer);
    }
}

/// The memory that a range lies in, of which its own bytes alone are here.
///
/// # Safety
/// Nothing but the range is read of it, while `bytes` live.
unsafe fn memory_of<'a>(range: &Range, bytes: &'a [u8]) -> Tensor<'a> {
    let (before, _) = range.span();
    // Where nothing is read, any address will do that is not null.
    let start = if bytes.is_empty() { ptr::dangling() } else { bytes.as_ptr() };
    let start = start.wrapping_sub(usize::try_from(before).unwrap_or(0));
    // SAFETY: the caller's promise.
    unsafe { Tensor::at(start, range.bytes, range.elements()) }
}
