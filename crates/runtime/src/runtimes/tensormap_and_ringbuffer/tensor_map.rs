//! Who reads and writes which bytes: dependencies derived from views.
//!
//! Per buffer, the tasks that still matter. A task that reads waits for the writers it overlaps; a task that writes
//! waits for the writers and the readers it overlaps, and takes the place of those it covers: whoever overlaps them
//! later overlaps it too, and it waits for them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use tensortap_abi::{EdgeCause, Role};
use tensortap_geometry::Footprint;

/// One task's use of some bytes.
#[derive(Clone, Copy)]
struct Use<T> {
    task: T,
    bytes: Footprint,
}

struct Buffer<T> {
    writers: Vec<Use<T>>,
    readers: Vec<Use<T>>,
    /// Readers that may gather before finished ones are looked for.
    prune_readers_at: usize,
}

impl<T> Default for Buffer<T> {
    fn default() -> Self {
        Buffer { writers: Vec::new(), readers: Vec::new(), prune_readers_at: FIRST_PRUNE }
    }
}

const FIRST_PRUNE: usize = 32;

/// The map from buffers to their users. `T` names a task.
///
/// A task that is complete need not be waited for and is forgotten, unless the map is to remember: then its writes are
/// kept until others cover them, so that the graph can be told in full.
pub struct TensorMap<T> {
    remember: bool,
    buffers: HashMap<u64, Buffer<T>, BuildHasherDefault<AddressHasher>>,
    /// Buffers that may gather before forgotten ones are looked for.
    sweep_at: usize,
    /// What forgotten buffers leave: the memory of their lists is used again.
    spare: Vec<Buffer<T>>,
}

/// Spare buffers that are kept; as many come and go between two sweeps at first.
const MOST_SPARE: usize = FIRST_SWEEP;

const FIRST_SWEEP: usize = 1024;

/// A dependency that a new task has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<T> {
    /// Task to wait for.
    pub task: T,
    /// Why.
    pub cause: EdgeCause,
    /// Argument of the new task.
    pub arg_index: u16,
    /// Whether it may still run; if not, there is nothing to wait for.
    pub live: bool,
}

impl<T: Copy + PartialEq> TensorMap<T> {
    /// An empty map.
    pub fn new(remember: bool) -> TensorMap<T> {
        TensorMap { remember, buffers: HashMap::default(), sweep_at: FIRST_SWEEP, spare: Vec::new() }
    }

    /// Adds to `found` the tasks that a new task follows because of one argument: each task once. `is_live` says whether
    /// a task may still run; finished ones are found only by a map that remembers.
    pub fn find(
        &mut self,
        buffer_addr: u64,
        bytes: &Footprint,
        role: Role,
        arg_index: u16,
        mut is_live: impl FnMut(T) -> bool,
        found: &mut Vec<Found<T>>,
    ) {
        let Some(buffer) = self.buffers.get_mut(&buffer_addr) else { return };
        let remember = self.remember;
        let mut add = |task: T, cause: EdgeCause, live: bool| {
            if !found.iter().any(|f| f.task == task) {
                found.push(Found { task, cause, arg_index, live });
            }
        };
        buffer.writers.retain(|writer| {
            let live = is_live(writer.task);
            let matters = live || remember;
            if matters && writer.bytes.overlaps(bytes) {
                let cause = if role.reads() { EdgeCause::ReadAfterWrite } else { EdgeCause::WriteAfterWrite };
                add(writer.task, cause, live);
            }
            matters
        });
        if role.writes() {
            buffer.readers.retain(|reader| {
                let live = is_live(reader.task);
                if live && reader.bytes.overlaps(bytes) {
                    add(reader.task, EdgeCause::WriteAfterRead, true);
                }
                live
            });
        }
    }

    /// Notes that `task` uses these bytes. To be called once all arguments of the task were looked up.
    pub fn record(
        &mut self,
        buffer_addr: u64,
        bytes: Footprint,
        role: Role,
        task: T,
        mut is_live: impl FnMut(T) -> bool,
    ) {
        if bytes.is_empty() {
            return;
        }
        self.sweep_if_large(&mut is_live);
        let spare = &mut self.spare;
        let buffer = self.buffers.entry(buffer_addr).or_insert_with(|| spare.pop().unwrap_or_default());
        if role.writes() {
            // The new task waits for what it covers, so later tasks need only wait for it. Its own other arguments
            // stay: they say what else it does.
            buffer.writers.retain(|w| w.task == task || !bytes.covers(&w.bytes));
            buffer.readers.retain(|r| r.task == task || !bytes.covers(&r.bytes));
            buffer.writers.push(Use { task, bytes });
        } else {
            buffer.prune_readers(&mut is_live);
            buffer.readers.push(Use { task, bytes });
        }
    }

    /// Forgets a buffer whose memory begins a new life.
    pub fn forget(&mut self, buffer_addr: u64) {
        if let Some(buffer) = self.buffers.remove(&buffer_addr) {
            keep_spare(&mut self.spare, buffer);
        }
    }

    /// Buffers come and go with the memory of scopes; those without live users are dropped now and then.
    fn sweep_if_large(&mut self, is_live: &mut impl FnMut(T) -> bool) {
        if self.buffers.len() < self.sweep_at {
            return;
        }
        let spare = &mut self.spare;
        let mut is_idle =
            |buffer: &Buffer<T>| !buffer.writers.iter().chain(&buffer.readers).any(|user| is_live(user.task));
        self.buffers
            .extract_if(|_, buffer| is_idle(buffer))
            .for_each(|(_, buffer)| keep_spare(spare, buffer));
        self.sweep_at = (2 * self.buffers.len()).max(FIRST_SWEEP);
    }
}

/// Keeps the lists of a forgotten buffer, unless there are enough or they are large.
fn keep_spare<T>(spare: &mut Vec<Buffer<T>>, mut buffer: Buffer<T>) {
    let is_small = buffer.writers.capacity() + buffer.readers.capacity() <= 2 * FIRST_PRUNE;
    if is_small && spare.len() < MOST_SPARE {
        buffer.writers.clear();
        buffer.readers.clear();
        buffer.prune_readers_at = FIRST_PRUNE;
        spare.push(buffer);
    }
}

impl<T: Copy> Buffer<T> {
    /// Amortised: as many readers are added between two looks as the last look left.
    fn prune_readers(&mut self, is_live: &mut impl FnMut(T) -> bool) {
        if self.readers.len() >= self.prune_readers_at {
            self.readers.retain(|r| is_live(r.task));
            self.prune_readers_at = (2 * self.readers.len()).max(FIRST_PRUNE);
        }
    }
}

/// Addresses are multiples of 64 spread over a range: one multiplication mixes them well enough.
#[derive(Default)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

#[cfg(test)]
mod tests;
