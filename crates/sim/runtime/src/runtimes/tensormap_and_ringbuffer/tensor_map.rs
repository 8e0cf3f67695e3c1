//! Derives dependencies from the bytes that tasks read and write.
//!
//! The map stores the relevant tasks per buffer. A reader waits for the writers that it overlaps. A writer
//! waits for the writers and readers that it overlaps, and replaces those whose bytes it covers completely.
//! That is safe because a later task that overlaps a replaced task also overlaps the new writer, which waits
//! for the replaced one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use tensortap_abi::{EdgeCause, Role};
use tensortap_geometry::Footprint;

/// The bytes that one task uses.
#[derive(Clone, Copy)]
struct TaskAccess<T> {
    task: T,
    bytes: Footprint,
}

struct Buffer<T> {
    writers: Vec<TaskAccess<T>>,
    readers: Vec<TaskAccess<T>>,
    /// Number of readers at which completed ones are removed.
    prune_readers_at: usize,
}

impl<T> Default for Buffer<T> {
    fn default() -> Self {
        Buffer { writers: Vec::new(), readers: Vec::new(), prune_readers_at: FIRST_PRUNE }
    }
}

const FIRST_PRUNE: usize = 32;

/// A map from buffers to the tasks that use them. `T` identifies a task.
///
/// Completed tasks are normally forgotten, because no task needs to wait for them. With `remember`, their
/// writes are kept until other writes cover them, so that a dump can show the full graph.
pub struct TensorMap<T> {
    remember: bool,
    buffers: HashMap<u64, Buffer<T>, BuildHasherDefault<AddressHasher>>,
    /// Number of buffers at which unused ones are removed.
    sweep_at: usize,
    /// Removed buffers, whose allocations are reused.
    spare: Vec<Buffer<T>>,
}

/// Limit on the spare buffers. As many buffers come and go between two of the first sweeps.
const MOST_SPARE: usize = FIRST_SWEEP;

const FIRST_SWEEP: usize = 1024;

/// A dependency of a new task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency<T> {
    /// The task to wait for.
    pub task: T,
    /// The cause.
    pub cause: EdgeCause,
    /// Argument of the new task.
    pub arg_index: u16,
    /// Whether the other task may still run. If not, there is nothing to wait for.
    pub live: bool,
}

impl<T: Copy + PartialEq> TensorMap<T> {
    /// Creates an empty map.
    pub fn new(remember: bool) -> TensorMap<T> {
        TensorMap { remember, buffers: HashMap::default(), sweep_at: FIRST_SWEEP, spare: Vec::new() }
    }

    /// Appends to `found` the tasks on which a new task depends because of one argument. Each task is added
    /// once. `is_live` says whether a task may still run. Completed tasks are found only if the map remembers
    /// them.
    pub fn find(
        &mut self,
        buffer_addr: u64,
        bytes: &Footprint,
        role: Role,
        arg_index: u16,
        mut is_live: impl FnMut(T) -> bool,
        found: &mut Vec<Dependency<T>>,
    ) {
        let Some(buffer) = self.buffers.get_mut(&buffer_addr) else { return };
        let remember = self.remember;
        let mut add = |task: T, cause: EdgeCause, live: bool| {
            if !found.iter().any(|f| f.task == task) {
                found.push(Dependency { task, cause, arg_index, live });
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

    /// Records that `task` uses these bytes. Call it after `find` was called for all arguments of the task.
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
            // The new task waits for the tasks that it covers, so later tasks only need to wait for the new
            // one. Accesses of its own other arguments stay.
            buffer.writers.retain(|w| w.task == task || !bytes.covers(&w.bytes));
            buffer.readers.retain(|r| r.task == task || !bytes.covers(&r.bytes));
            buffer.writers.push(TaskAccess { task, bytes });
        } else {
            buffer.prune_readers(&mut is_live);
            buffer.readers.push(TaskAccess { task, bytes });
        }
    }

    /// Forgets a buffer whose memory is being reused.
    pub fn forget(&mut self, buffer_addr: u64) {
        if let Some(buffer) = self.buffers.remove(&buffer_addr) {
            keep_spare(&mut self.spare, buffer);
        }
    }

    /// Removes buffers without live users. Buffers come and go with the memory of scopes.
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

/// Keeps the allocation of a removed buffer for reuse, unless it is large or there are enough.
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
    /// Removes completed readers. Amortized: the limit doubles with the number of remaining readers.
    fn prune_readers(&mut self, is_live: &mut impl FnMut(T) -> bool) {
        if self.readers.len() >= self.prune_readers_at {
            self.readers.retain(|r| is_live(r.task));
            self.prune_readers_at = (2 * self.readers.len()).max(FIRST_PRUNE);
        }
    }
}

/// Buffer addresses are multiples of 64, so one multiplication distributes them well enough.
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
