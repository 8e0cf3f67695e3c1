//! Probes: what is read before and behind a command, in its own queue.
//!
//! On a device that runs functions of this process, a probe is such a function ([`functions`]). On any other, content is copied to memory of ours in the
//! command's queue, and hashed there by code of ours ([`copies`]); a thread of ours reads and records what came of it ([`harvest`]).

mod copies;
mod functions;
mod harvest;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tensortap_queue::Command;
use tensortap_record::{DumpStage, UncapturedReason};

pub use copies::Side;
pub use harvest::told;

use crate::{
    ffi::{Event, Mem, Queue},
    layer::Layer,
    objects::OwnEvent,
    ring::Ring,
};

/// Where the memory of a range is found when a probe runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In a buffer: the driver says where it is.
    Buffer(Mem),
    /// At an address of shared memory.
    Address(usize),
}

/// How the memory of a queue's device is seen.
#[derive(Clone, Debug)]
pub enum Probes {
    /// By functions of this process that the device runs.
    Functions,
    /// By copies to memory of ours, and code of ours on the device.
    Copies(Arc<Ring>),
    /// Content is not wanted: what is known of ranges is recorded.
    Mentions,
    /// Not at all.
    None,
}

/// A command that is in its queue, and the events around it. They are held until it was seen behind: a driver may lose its way (PoCL 3.0 does) when
/// a command fails whose event nobody holds.
pub struct Running {
    /// The command.
    pub command: Command,
    /// What is on its way of its two sides, until it was read.
    sides: [Option<Side>; 2],
    /// Functions that were put into its queue and have not run, by their addresses.
    waiting: Vec<usize>,
    held: Vec<OwnEvent>,
    /// What the driver may read until the command has run.
    kept: Option<Arc<[usize]>>,
    is_over: bool,
}

impl Running {
    /// A command that goes into its queue.
    pub fn new(command: Command, kept: Option<Arc<[usize]>>) -> Running {
        Running { command, sides: [None, None], waiting: Vec::new(), held: Vec::new(), kept, is_over: false }
    }

    /// Holds events until the command was seen.
    pub fn hold(&mut self, layer: &Layer, events: impl IntoIterator<Item = Event>) {
        let events = events.into_iter().map(OwnEvent);
        match self.is_over {
            true => layer.spend(events.collect()),
            false => self.held.extend(events),
        }
    }

    /// The command was seen behind, or never went in, or failed: nothing more is seen of it.
    pub fn end(&mut self, layer: &Layer) {
        self.is_over = true;
        self.kept = None;
        layer.spend(std::mem::take(&mut self.held));
    }
}

/// A command, held for a moment.
pub fn lock(running: &Mutex<Running>) -> MutexGuard<'_, Running> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a command is over. One that has failed, or whose wait has, as the driver says of the event of its last probe, is over then: what has not run of its probes never does.
/// There are drivers (PoCL 3.0) that tell nobody of it who does not ask.
pub fn is_over(layer: &Layer, running: &Mutex<Running>, status: Option<i32>) -> bool {
    let mut known = lock(running);
    if known.is_over || status.is_some_and(|status| status >= 0) {
        return known.is_over;
    }
    let waiting = std::mem::take(&mut known.waiting);
    let sides = known.sides.each_mut().map(Option::take);
    known.end(layer);
    drop(known);
    // SAFETY: probes of a command are a chain, of which the last has failed: none of them runs any more.
    unsafe { functions::forget(waiting) };
    sides.into_iter().flatten().for_each(|side| side.free(layer));
    true
}

/// What probes came of one side of a command.
#[derive(Default)]
pub struct Probed {
    /// Their events, in the order of the queue, for the caller to hold and release.
    pub events: Vec<Event>,
    /// Ranges that are not seen, by their places among those of the side, and why.
    pub missed: Vec<(usize, UncapturedReason)>,
    /// Why content of others is not.
    pub told: Vec<UncapturedReason>,
}

/// One side of a command, for its probes.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The command.
    pub running: &'a Arc<Mutex<Running>>,
    /// Where the ranges of the side are.
    pub sources: &'a [Source],
    /// Which side.
    pub stage: DumpStage,
}

/// Puts the probes of one side of a command into its queue, the first behind `waits`. Behind a command that is its own event.
///
/// # Errors
/// Why nothing is seen, and nobody tells when the command has run.
pub fn enqueue(
    layer: &'static Layer,
    (queue, probes): (Queue, &Probes),
    asked: Asked<'_>,
    waits: &[Event],
) -> Result<Probed, UncapturedReason> {
    match probes {
        Probes::Functions => functions::enqueue(layer, queue, asked, waits),
        Probes::Copies(ring) => copies::enqueue(layer, (queue, ring), asked, waits),
        Probes::Mentions | Probes::None => Err(UncapturedReason::NoProbe),
    }
}
