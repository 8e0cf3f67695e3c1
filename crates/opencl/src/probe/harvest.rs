//! What copies and launches of ours have brought of a side of a command is read and recorded, in the thread that reads.

use std::{cell::RefCell, collections::HashSet, ptr, sync::Mutex};

use tensortap_device_kernels::RangeResult;
use tensortap_queue::{Command, Range};
use tensortap_record::{DumpStage, Found, Incoming, Outcome, Role, Tensor, ThreadRecorder, UncapturedReason};

use super::{
    Running,
    copies::{Seen, Side, is_behind, place},
    lock,
};
use crate::{ffi::COMPLETE, layer::Layer, reader::Note, ring::Copy};

thread_local! {
    /// Hashes of content that came in by this thread's recorder, and so needs not come again.
    static STORED: RefCell<HashSet<u128>> = RefCell::default();
}

/// Content that is remembered at most. The collector remembers more, so what is known here is known there.
const MOST_STORED: usize = 1 << 16;

/// The driver has told of a side of a command.
pub fn told(layer: &'static Layer, note: &Note) {
    let Note { running, stage, event, borrowed: _ } = note;
    // Asked and not taken from the call: there are drivers (NVIDIA's) that call the same for what has failed.
    if layer.status(event.0) != Some(COMPLETE) {
        give_up(layer, running, *stage);
        return;
    }
    // Drivers tell in any order, and what was copied before a command was so when it is told of behind.
    record(layer, running, DumpStage::BeforeDispatch);
    if is_behind(*stage) {
        record(layer, running, *stage);
    }
}

/// The command failed, or what it waited for.
fn give_up(layer: &Layer, running: &Mutex<Running>, stage: DumpStage) {
    let mut running = lock(running);
    let side = running.sides[place(stage)].take();
    if is_behind(stage) {
        running.end(layer);
    }
    drop(running);
    if let Some(side) = side {
        side.free(layer);
    }
}

/// Reads and records a side of a command, unless it was or is not there yet.
pub fn record(layer: &'static Layer, running: &Mutex<Running>, stage: DumpStage) {
    let Some(side) = lock(running).sides[place(stage)].take() else { return };
    // What belongs to a command that the driver did not take is not read.
    if lock(running).is_over {
        side.free(layer);
        return;
    }
    let brought = Brought::read(layer, &side);
    let mut running = lock(running);
    brought.record(layer, &side, stage, &mut running.command);
    if is_behind(stage) {
        running.end(layer);
    }
    drop(running);
    side.free(layer);
}

/// What was read of a side: content that is read whole, and what our code has found.
struct Brought {
    contents: Vec<Option<Vec<u8>>>,
    results: Vec<Option<Vec<Option<RangeResult>>>>,
}

impl Brought {
    fn read(layer: &Layer, side: &Side) -> Brought {
        let is_whole = |copy: usize| side.ranges.iter().any(|(_, seen)| *seen == Seen::Copied(copy));
        let contents = side.copies.iter().enumerate();
        let contents =
            contents.map(|(at, copy)| if is_whole(at) { side.ring.read(layer, copy) } else { None });
        let results = side.findings.iter().map(|finding| side.ring.results(layer, finding));
        Brought { contents: contents.collect(), results: results.collect() }
    }

    fn record(&self, layer: &Layer, side: &Side, stage: DumpStage, command: &mut Command) {
        let of_stage: Vec<Range> = command.seen_at(stage).copied().collect();
        let (mut seen, mut missed) = (Vec::new(), Vec::new());
        for &(at, how) in &side.ranges {
            let range = &of_stage[at];
            let content = match how {
                Seen::Empty => Some(&[][..]),
                Seen::Copied(copy) => self.contents[copy].as_deref(),
                Seen::Found(launch, of_launch, copy) => {
                    let result = self.results[launch].as_ref().and_then(|results| results[of_launch]);
                    match result {
                        Some(result) => {
                            let dtype = (!layer.wants_payloads).then(|| range.elements());
                            let found = result.outcome(dtype);
                            let found = Found { hash: found.hash, stats: found.stats };
                            record_found(layer, side, (command, stage, at), &found, copy);
                        }
                        None => missed.push((range.arg, range.name)),
                    }
                    continue;
                }
            };
            match content {
                // SAFETY: of the memory that the range lies in, its own bytes are there, and nothing else of it is read.
                Some(bytes) => seen.push((at, unsafe { memory_of(range, bytes) })),
                None => missed.push((range.arg, range.name)),
            }
        }
        layer.record(|recorder| {
            for (arg, name) in missed {
                let (arg, reason) = ((arg, Role::InOut, name), UncapturedReason::NoAccess);
                recorder.not_captured(command.task(), stage, arg, reason)?;
            }
            command.observe(recorder, stage, &seen, true)
        });
    }
}

/// Records a range by what our code has found of it. Content that is new is read from the copy that has it, right into the memory of the recording.
fn record_found(
    layer: &Layer,
    side: &Side,
    (command, stage, at): (&mut Command, DumpStage, usize),
    found: &Found,
    copy: Option<usize>,
) {
    let copy = copy.filter(|_| layer.wants_payloads).map(|copy| side.copies[copy]);
    let is_stored = layer.leaves_out_stored && STORED.with_borrow(|stored| stored.contains(&found.hash));
    let recorded = layer.record(|recorder| {
        let Some((task, tensor)) = command.elsewhere(stage, at)? else { return Ok(false) };
        match copy {
            None => recorder.found(task, stage, &tensor, found).map(|_| false),
            Some(_) if is_stored => recorder.found_again(task, stage, &tensor, found).map(|()| false),
            Some(copy) => match recorder.incoming(task, stage, &tensor, found)? {
                Some(incoming) => Ok(move_in(layer, side, recorder, incoming, &copy)),
                None => Ok(false),
            },
        }
    });
    // What did not come in whole is not stored, whoever comes with it next.
    if recorded == Some(true) {
        STORED.with_borrow_mut(|stored| {
            // To forget costs a copy of each that comes again.
            if stored.len() == MOST_STORED {
                stored.clear();
            }
            stored.insert(found.hash);
        });
    }
}

/// Content comes in, piece by piece; whether all of it has.
fn move_in(
    layer: &Layer,
    side: &Side,
    recorder: &mut ThreadRecorder,
    mut incoming: Incoming,
    copy: &Copy,
) -> bool {
    let mut moved = 0;
    while let Ok(space) = recorder.next_space(&mut incoming) {
        let Some(space) = space else { return true };
        let size = usize::try_from(space.bytes).unwrap_or(0);
        // SAFETY: the space has room for as many, and is this thread's until it is committed.
        let settled = match unsafe { side.ring.read_to(layer, copy, (moved, size), space.start) } {
            true => recorder.commit(space.number, None),
            false => recorder.give_up(space.number),
        };
        if !matches!(settled, Ok(Outcome::Recorded)) {
            return false;
        }
        moved += size;
    }
    false
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
