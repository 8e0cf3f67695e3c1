//! Probes that are copies in the queue of a command, to memory of ours, and launches of our code, which finds hash and statistics of what is there. When the device has
//! come so far, its driver says so, and a thread of ours reads and records ([`harvest`](super::harvest)).

use std::{
    ffi::c_void,
    slice,
    sync::{Arc, Mutex},
};

use tensortap_device_kernels::{Measured, Plan, Source as Looked};
use tensortap_queue::{Range, Room};
use tensortap_record::{DumpStage, UncapturedReason};

use super::{Asked, Probed, Running, Source, harvest, lock};
use crate::{
    ffi::{self, COMPLETE, Event, Mem, Queue, Status},
    finder::{Finding, mem_of, name_of},
    layer::Layer,
    objects::{Borrowed, OwnEvent},
    raw,
    reader::Note,
    ring::{Copy, Ring},
};

/// Ranges up to this many bytes, a leaf of the hash, are read whole: to look at them first would take longer.
const FEW_BYTES: u64 = 4096;

/// What is on its way of one side of a command.
pub struct Side {
    pub ring: Arc<Ring>,
    pub copies: Vec<Copy>,
    pub findings: Vec<Finding>,
    /// Ranges by their places among those of the side.
    pub ranges: Vec<(usize, Seen)>,
    /// Whether the driver was asked to tell of it.
    pub is_expected: bool,
    /// Its place among all that are on their way.
    place: Room,
    /// What its commands were given.
    borrowed: Arc<Borrowed>,
}

/// How a range is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It has no bytes.
    Empty,
    /// It is read whole: which copy has it.
    Copied(usize),
    /// Our code looks at it: which launch, its place there, and which copy has it, where there is one.
    Found(usize, usize, Option<usize>),
}

impl Side {
    /// What was on its way is read, or means nothing: its place is free.
    pub fn free(self, layer: &Layer) {
        self.borrowed.give_back();
        self.ring.free(self.copies);
        if let Some(finder) = self.ring.finder() {
            self.findings.into_iter().for_each(|finding| finder.give(finding));
        }
        layer.reader().give_place(self.place);
        if self.is_expected {
            layer.reader().has_read();
        }
    }
}

/// The place of a stage.
pub fn place(stage: DumpStage) -> usize {
    usize::from(is_behind(stage))
}

pub fn is_behind(stage: DumpStage) -> bool {
    stage == DumpStage::AfterCompletion
}

/// Puts the probes of a side into a queue, one behind the other, and asks to be told of the last.
pub fn enqueue(
    layer: &'static Layer,
    (queue, ring): (Queue, &Arc<Ring>),
    Asked { running, sources, stage }: Asked<'_>,
    waits: &[Event],
) -> Result<Probed, UncapturedReason> {
    let flush = || {
        // SAFETY: the program's queue, which lives.
        layer.target.clFlush.map(|flush| unsafe { flush(queue) });
    };
    let place_of_side = layer.reader().take_place(flush).ok_or(UncapturedReason::NoRoom)?;
    let ranges: Vec<Range> = lock(running).command.seen_at(stage).copied().collect();
    let mut going = Going::new(layer, (queue, ring, place_of_side), waits);
    for (at, (range, &source)) in ranges.iter().zip(sources).enumerate() {
        going.range(at, range, source);
    }
    going.look();
    let Going { mut side, probed, given, .. } = going;
    side.borrowed = Arc::new(Borrowed::new(layer, given));
    let borrowed = Arc::clone(&side.borrowed);
    let told_by = probed.events.last().or_else(|| waits.first().filter(|_| is_behind(stage))).copied();
    side.is_expected = told_by.is_some();
    lock(running).sides[place(stage)] = Some(side);
    match told_by {
        Some(event) => watch(layer, event, (running, borrowed), stage)
            .inspect_err(|_| {
                // It is in the queue, so what it was given stays its own.
                std::mem::forget(lock(running).sides[place(stage)].take());
                probed.events.iter().for_each(|&event| layer.release(event));
            })
            .map_err(|_| UncapturedReason::NoProbe)?,
        // Nothing goes in, so there is nothing to wait for.
        None => harvest::record(layer, running, stage),
    }
    Ok(probed)
}

/// A side that is going into its queue.
struct Going<'a> {
    layer: &'a Layer,
    queue: Queue,
    waits: &'a [Event],
    side: Side,
    probed: Probed,
    /// Buffers of the program, once for each command that is given one.
    given: Vec<Mem>,
    /// What is copied: what several ranges share is so once.
    copied: Vec<(Source, (u64, u64))>,
    /// Ranges that our code is to look at, each with its place and the copy that has it.
    looked: Vec<(usize, Looked, Option<usize>)>,
}

impl<'a> Going<'a> {
    fn new(
        layer: &'a Layer,
        (queue, ring, place): (Queue, &Arc<Ring>, Room),
        waits: &'a [Event],
    ) -> Going<'a> {
        let side = Side {
            ring: Arc::clone(ring),
            copies: Vec::new(),
            findings: Vec::new(),
            ranges: Vec::new(),
            is_expected: false,
            place,
            borrowed: Arc::default(),
        };
        let (probed, given, copied, looked) = (Probed::default(), Vec::new(), Vec::new(), Vec::new());
        Going { layer, queue, waits, side, probed, given, copied, looked }
    }

    /// Puts in what one range needs to be seen.
    fn range(&mut self, at: usize, range: &Range, source: Source) {
        let span = range.span();
        let is_looked_at = span.1 > FEW_BYTES && range.is_dense() && self.side.ring.finder().is_some();
        match source {
            _ if span.1 == 0 => self.side.ranges.push((at, Seen::Empty)),
            Source::Buffer(buffer) if is_looked_at => self.look_at(at, range, buffer),
            _ => match self.copy(source, span) {
                Ok(copy) => self.side.ranges.push((at, Seen::Copied(copy))),
                Err(reason) => self.probed.missed.push((at, reason)),
            },
        }
    }

    /// Puts in a copy of some bytes.
    fn copy(&mut self, source: Source, span: (u64, u64)) -> Result<usize, UncapturedReason> {
        if let Some(known) = self.copied.iter().position(|known| *known == (source, span)) {
            return Ok(known);
        }
        let behind = self.probed.events.last().map_or(self.waits, slice::from_ref);
        let (copy, event) = self.side.ring.copy(self.layer, self.queue, (source, span), behind)?;
        self.side.copies.push(copy);
        self.copied.push((source, span));
        if let Source::Buffer(buffer) = source {
            self.given.push(buffer);
        }
        self.probed.events.push(event);
        Ok(self.side.copies.len() - 1)
    }

    /// A range that our code looks at: where payloads are wanted, at a copy of it, which is what is stored then. Without room for one, it is looked at where it is.
    fn look_at(&mut self, at: usize, range: &Range, buffer: Mem) {
        let (before, bytes) = range.span();
        let wants_payloads = self.layer.wants_payloads;
        let copy = match wants_payloads || !can_be_read(self.layer, buffer) {
            true => self.copy(Source::Buffer(buffer), (before, bytes)),
            false => Err(UncapturedReason::NoRoom),
        };
        let place = copy.ok().and_then(|copy| self.side.ring.place_of(&self.side.copies[copy]));
        if let Err(reason) = copy
            && wants_payloads
        {
            self.probed.told.push(reason);
        }
        let (buffer, address) = place.unwrap_or((name_of(buffer), before));
        let measured = (!wants_payloads).then(|| Measured::whole(range.elements(), bytes));
        self.looked.push((at, Looked { buffer, address, bytes, measured }, copy.ok()));
    }

    /// Puts in the launches that look at ranges.
    fn look(&mut self) {
        let looked = std::mem::take(&mut self.looked);
        let sources: Vec<Looked> = looked.iter().map(|(_, source, _)| *source).collect();
        let plans = Plan::by_buffer(&sources).unwrap_or_default();
        let mut seen: Vec<Option<Seen>> = vec![None; looked.len()];
        for plan in plans {
            let slots: Vec<usize> = plan.ranges().iter().map(|range| range.slot as usize).collect();
            let behind = self.probed.events.last().map_or(self.waits, slice::from_ref);
            let given = plan.buffers().iter().map(|&buffer| mem_of(buffer));
            let given: Vec<Mem> = given.filter(|&buffer| !self.side.ring.is_memory(buffer)).collect();
            let put = self.side.ring.finder().map(|finder| finder.put(self.layer, self.queue, plan, behind));
            let Some(Ok((finding, events))) = put else { continue };
            for (at, slot) in slots.into_iter().enumerate() {
                seen[slot] = Some(Seen::Found(self.side.findings.len(), at, looked[slot].2));
            }
            self.side.findings.push(finding);
            self.given.extend(given);
            self.probed.events.extend(events);
        }
        for ((at, _, copy), seen) in looked.into_iter().zip(seen) {
            // What cannot be looked at is read whole, where there is a copy of it.
            match seen.or(copy.map(Seen::Copied)) {
                Some(seen) => self.side.ranges.push((at, seen)),
                None => self.probed.missed.push((at, UncapturedReason::NoRoom)),
            }
        }
    }
}

/// Whether a kernel may read a buffer.
fn can_be_read(layer: &Layer, buffer: Mem) -> bool {
    let Some(ask) = layer.target.clGetMemObjectInfo else { return false };
    // SAFETY: a buffer that lives, and what is written to is this call's.
    let flags =
        raw::value::<u64>(|room, value, size| unsafe { ask(buffer, ffi::MEM_FLAGS, room, value, size) });
    flags.is_some_and(|flags| flags & ffi::MEM_WRITE_ONLY == 0)
}

/// Lets the driver tell when a side of a command can be read.
fn watch(
    layer: &Layer,
    event: Event,
    (running, borrowed): (&Arc<Mutex<Running>>, Arc<Borrowed>),
    stage: DumpStage,
) -> Result<(), Status> {
    let set = layer.target.clSetEventCallback.ok_or(ffi::INVALID_OPERATION)?;
    let retain = layer.target.clRetainEvent.ok_or(ffi::INVALID_OPERATION)?;
    let note = Box::new(Note { running: Arc::clone(running), stage, event: OwnEvent(event), borrowed });
    let note = Box::into_raw(note);
    layer.reader().expects();
    // SAFETY: an event that lives.
    unsafe { retain(event) };
    // SAFETY: an event that lives; the note is the callback's alone.
    let status = unsafe { set(event, COMPLETE, Some(told), note.cast()) };
    if status != ffi::SUCCESS {
        layer.reader().expects_no_more();
        layer.release(event);
        // SAFETY: made above, and nobody was given it.
        drop(unsafe { Box::from_raw(note) });
        return Err(status);
    }
    Ok(())
}

/// The driver tells, in a thread of its own, in which nothing is called of it and nothing waits.
unsafe extern "C" fn told(_: Event, _: i32, note: *mut c_void) {
    // SAFETY: made by `watch`, and handed over once.
    let note = *unsafe { Box::from_raw(note.cast::<Note>()) };
    note.borrowed.give_back();
    Layer::get().reader().hand_over(note);
}
