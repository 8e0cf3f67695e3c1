//! The program's objects, as far as recording needs to know them.

mod kernels;
mod memory;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, Weak},
};

use tensortap_queue::{Mark, Memories, Orders};
use tensortap_record::QueueId;

pub use kernels::{Arg, ArgFacts, Image, KernelFacts, KernelState, Programs};
pub use memory::{Borrowed, Mapped, Region, Root};

use crate::{
    ffi::{Bits, Event, Handle},
    probe::Probes,
    ring::Ring,
};

/// A handle as a key.
pub type Key = usize;

/// The key of a handle.
pub fn key(handle: Handle) -> Key {
    handle.addr()
}

/// The queue that stands for what the host itself does to memory.
pub const HOST: Key = usize::MAX - 1;

/// Everything that is known.
#[derive(Default)]
pub struct Objects {
    /// Memory that lives.
    pub memories: Memories,
    /// What is ordered with what.
    pub orders: Orders,
    /// Buffers, and images that are made of buffers.
    pub regions: HashMap<Key, Region>,
    /// Memory objects without bytes that could be read.
    pub opaque: HashSet<Key>,
    /// How often the program holds each memory object.
    pub holds: HashMap<Key, u32>,
    /// Commands of ours that are under way with a memory object, each of which a driver may count as a holder.
    pub borrowed: HashMap<Key, u32>,
    /// Kernels with their arguments.
    pub kernels: HashMap<Key, KernelState>,
    /// Programs with what they were built with.
    pub programs: Programs,
    /// Queues.
    pub queues: HashMap<Key, KnownQueue>,
    /// Events that the program holds.
    pub events: HashMap<Key, EventState>,
    /// What was said on standard error, once.
    pub told: HashSet<String>,
    /// Memory for copies, by context and device.
    pub rings: HashMap<(Key, Key), Weak<Ring>>,
    /// Contexts that the program holds.
    pub contexts: HashMap<Key, KnownContext>,
    queue_count: usize,
    /// What the program has mapped, by the address it was given.
    pub mapped: HashMap<(Key, usize), Vec<Mapped>>,
}

/// A context that the program holds.
#[derive(Debug)]
pub struct KnownContext {
    /// How often.
    pub holds: u32,
    /// What was made in it for its devices, which queues that come and go share.
    pub rings: Vec<Arc<Ring>>,
}

/// A queue that the program holds.
#[derive(Debug)]
pub struct KnownQueue {
    /// How often.
    pub holds: u32,
    /// The queue.
    pub state: Arc<QueueState>,
}

/// A queue.
#[derive(Debug)]
pub struct QueueState {
    /// Its number among all that there were: a handle may stand for several, one after the other.
    pub number: usize,
    /// Its number in the dump.
    pub id: QueueId,
    /// How the memory of its device is seen.
    pub probes: Probes,
    /// Held while a command goes in with the probes around it, so that no other comes between.
    pub lock: Mutex<()>,
}

/// An event that the program holds.
#[derive(Clone, Copy, Debug)]
pub struct EventState {
    /// How often.
    pub holds: u32,
    /// The command it stands for.
    pub mark: Mark,
    /// The command's own event, where the program was given that of the probe behind it.
    pub own: Option<OwnEvent>,
}

/// The event of a command itself.
#[derive(Clone, Copy, Debug)]
pub struct OwnEvent(pub Event);

// SAFETY: a handle, which any thread may use.
unsafe impl Send for OwnEvent {}

impl Objects {
    /// The commands that events stand for. Those that are no commands' are passed over.
    pub fn marks(&self, events: &[Event]) -> Vec<Mark> {
        events.iter().filter_map(|&event| self.events.get(&key(event))).map(|state| state.mark).collect()
    }

    /// The number of a new queue, from 1.
    pub fn count_queue(&mut self) -> usize {
        self.queue_count += 1;
        self.queue_count
    }

    /// The event is the program's, for a command.
    pub fn give_event(&mut self, event: Event, mark: Mark, own: Option<OwnEvent>) {
        self.events.insert(key(event), EventState { holds: 1, mark, own });
    }
}

/// What the flags of a memory object say of who may write it.
pub fn is_host_writable(flags: Bits) -> bool {
    flags & crate::ffi::MEM_USE_HOST_PTR != 0
}
