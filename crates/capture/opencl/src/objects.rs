//! The program's objects, as far as recording needs them.

mod kernels;
mod memory;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, Weak},
};

use tensortap_queue::{MemoryMap, OrderToken, OrderTracker, Storages};
use tensortap_record::QueueId;

pub use kernels::{Arg, ArgFacts, KernelFacts, KernelState, ProgramImage, Programs};
pub use memory::{HostMapping, LayerReferences, Region, RootBuffer};

use crate::{
    ffi::{Bits, Event, Handle},
    ring::Ring,
    snapshot::SnapshotMethod,
};

/// A handle as a key.
pub type Key = usize;

/// The key of a handle.
pub fn key(handle: Handle) -> Key {
    handle.addr()
}

/// The queue for what the host does to memory outside of any queue.
pub const HOST: Key = usize::MAX - 1;

/// All objects.
#[derive(Default)]
pub struct Objects {
    /// Memory that is allocated now.
    pub memories: MemoryMap,
    /// Identities of that memory.
    pub storages: MemoryStorages,
    /// The order of all commands.
    pub orders: OrderTracker,
    /// Buffers, and images that were created from buffers.
    pub regions: HashMap<Key, Region>,
    /// Memory objects whose bytes cannot be read.
    pub opaque: HashSet<Key>,
    /// The program's references to each memory object.
    pub references: HashMap<Key, u32>,
    /// The layer's commands in flight that use a memory object. A driver may count each as a reference.
    pub layer_references: HashMap<Key, u32>,
    /// Kernels with their arguments.
    pub kernels: HashMap<Key, KernelState>,
    /// Programs with their build options.
    pub programs: Programs,
    /// Queues.
    pub queues: HashMap<Key, QueueEntry>,
    /// Events that the program holds.
    pub events: HashMap<Key, EventState>,
    /// Staging memory, by context and device.
    pub rings: HashMap<(Key, Key), Weak<Ring>>,
    /// Contexts that the program holds.
    pub contexts: HashMap<Key, ContextEntry>,
    queue_count: usize,
    /// Mappings of the program, by memory object and host address.
    pub mapped: HashMap<(Key, usize), Vec<HostMapping>>,
}

/// Identities of memory, greater than those of other libraries in the process.
pub struct MemoryStorages(pub Storages);

impl Default for MemoryStorages {
    fn default() -> MemoryStorages {
        MemoryStorages(Storages::after(1 << 41))
    }
}

/// A context that the program holds.
#[derive(Debug)]
pub struct ContextEntry {
    /// The program's references.
    pub references: u32,
    /// Staging memory for the devices of the context. Queues share it.
    pub rings: Vec<Arc<Ring>>,
}

/// A queue that the program holds.
#[derive(Debug)]
pub struct QueueEntry {
    /// The program's references.
    pub references: u32,
    /// The queue.
    pub state: Arc<QueueState>,
}

/// A queue.
#[derive(Debug)]
pub struct QueueState {
    /// A number that no other queue of this process has. Handles are reused.
    pub number: usize,
    /// Its number in the dump.
    pub id: QueueId,
    /// How snapshots are taken in it.
    pub method: SnapshotMethod,
    /// Locked while a command and its snapshots enter the queue, so that no other command comes between them.
    pub lock: Mutex<()>,
}

/// An event that the program holds.
#[derive(Clone, Copy, Debug)]
pub struct EventState {
    /// The program's references.
    pub references: u32,
    /// The command of the event.
    pub token: OrderToken,
    /// The command's own event, if the program has the event of the after-snapshot.
    pub own: Option<EventHandle>,
}

/// An event that can be passed between threads.
#[derive(Clone, Copy, Debug)]
pub struct EventHandle(pub Event);

// SAFETY: any thread may use the handle.
unsafe impl Send for EventHandle {}

/// An object whose references of the program are counted.
pub trait ReferenceCounted {
    /// The program's references.
    fn references(&mut self) -> &mut u32;
}

macro_rules! reference_counted {
    ($($type:ty),*) => { $(
        impl ReferenceCounted for $type {
            fn references(&mut self) -> &mut u32 {
                &mut self.references
            }
        }
    )* };
}

reference_counted!(ContextEntry, QueueEntry, EventState, KernelState);

/// The program has retained an object.
pub fn add_reference(table: &mut HashMap<Key, impl ReferenceCounted>, handle: Handle) {
    if let Some(known) = table.get_mut(&key(handle)) {
        *known.references() += 1;
    }
}

/// The program releases an object. Returns its entry if this was the last reference.
pub fn drop_reference<T: ReferenceCounted>(table: &mut HashMap<Key, T>, handle: Handle) -> Option<T> {
    let references = table.get_mut(&key(handle))?.references();
    *references = references.saturating_sub(1);
    if *references == 0 { table.remove(&key(handle)) } else { None }
}

impl Objects {
    /// The commands of these events. Events that belong to no recorded command are skipped.
    pub fn tokens(&self, events: &[Event]) -> Vec<OrderToken> {
        events.iter().filter_map(|&event| self.events.get(&key(event))).map(|state| state.token).collect()
    }

    /// The number of a new queue, from 1.
    pub fn next_queue_number(&mut self) -> usize {
        self.queue_count += 1;
        self.queue_count
    }

    /// The program gets this event for a command.
    pub fn add_event(&mut self, event: Event, token: OrderToken, own: Option<EventHandle>) {
        self.events.insert(key(event), EventState { references: 1, token, own });
    }
}

/// Whether the host may write a memory object with these flags directly.
pub fn is_host_writable(flags: Bits) -> bool {
    flags & crate::ffi::MEM_USE_HOST_PTR != 0
}
