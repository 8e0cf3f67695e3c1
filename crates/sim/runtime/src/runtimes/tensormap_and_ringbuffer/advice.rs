//! Computes ring sizes that would work after a ring deadlock.
//!
//! Once a ring can never drain, the rest of the orchestration is only counted. Every counted task is assumed
//! to complete at once, so at any time only open scopes hold slots and memory. The maximum of that is the
//! required size.

use tensortap_abi::RING_COUNT;

use super::EDGES_PER_SLOT;

/// The slots and bytes that a ring has handed out so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingPosition {
    /// Number of tasks.
    pub tasks: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// The resource of a ring that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Task slots.
    Slots,
    /// Memory for intermediate tensors.
    Heap,
    /// Edges for dependencies.
    Edges,
}

/// The most that one ring holds at a time.
#[derive(Clone, Copy, Debug, Default)]
struct PeakUse {
    tasks: u64,
    bytes: u64,
    largest_piece: u64,
}

/// The ring that blocked, and the sizes that all rings would need.
#[derive(Debug)]
pub struct Advice {
    ring: usize,
    resource: Resource,
    depth: usize,
    scope_tasks: u64,
    most_edges_of_a_task: u64,
    now: [RingPosition; RING_COUNT],
    need: [PeakUse; RING_COUNT],
}

impl Advice {
    /// Starts counting after a ring ran out of `resource` inside the scope at `depth`. `now` is the current
    /// position of every ring.
    pub fn new(
        ring: usize,
        resource: Resource,
        depth: usize,
        edges: u64,
        now: [RingPosition; RING_COUNT],
    ) -> Advice {
        let need = [PeakUse::default(); RING_COUNT];
        Advice { ring, resource, depth, scope_tasks: 0, most_edges_of_a_task: edges, now, need }
    }

    /// The position that a ring would have.
    pub fn position(&self, ring: usize) -> RingPosition {
        self.now[ring]
    }

    /// Counts a task that takes these pieces of memory. `oldest` is the position of the ring before the first
    /// task that an open scope holds.
    pub fn count_task(&mut self, ring: usize, oldest: RingPosition, pieces: &[u64]) {
        let (now, need) = (&mut self.now[ring], &mut self.need[ring]);
        now.tasks += 1;
        now.bytes += pieces.iter().sum::<u64>();
        need.tasks = need.tasks.max(now.tasks - oldest.tasks);
        need.bytes = need.bytes.max(now.bytes - oldest.bytes);
        need.largest_piece = need.largest_piece.max(pieces.iter().copied().max().unwrap_or(0));
    }

    /// Stores the number of tasks of a scope that ends.
    pub fn note_scope_end(&mut self, depth: usize, tasks: u64) {
        if depth == self.depth {
            self.scope_tasks = self.scope_tasks.max(tasks);
        }
    }

    /// The error message, with sizes that work. `slots` and `heap_bytes` are the current sizes of each ring.
    pub fn message(&self, slots: u64, heap_bytes: u64) -> String {
        let options = [
            Some(self.slots_that_work(slots)).filter(|&n| n > slots).map(|n| format!("--ring-slots {n}")),
            Some(self.heap_that_works()).filter(|&n| n > heap_bytes).map(|n| format!("--ring-heap {n}")),
        ];
        let full = match self.resource {
            Resource::Slots => format!("{slots} slots"),
            Resource::Heap => format!("{heap_bytes} bytes of heap"),
            Resource::Edges => format!("{} edges ({EDGES_PER_SLOT} per slot)", slots * EDGES_PER_SLOT),
        };
        format!(
            "ring {} can never drain: its {full} are held by scopes that are still open, and nothing runs that could \
             release them; the scope at depth {} submits {} tasks. Use {}, or smaller scopes",
            self.ring,
            self.depth,
            self.scope_tasks,
            options.into_iter().flatten().collect::<Vec<_>>().join(" ")
        )
    }

    fn slots_that_work(&self, slots: u64) -> u64 {
        let tasks = self.need.iter().map(|n| n.tasks).max().unwrap_or(0);
        match self.resource {
            // Counted tasks have no edges, because nothing runs. Assume the maximum that any task has had so
            // far.
            Resource::Edges => {
                let edges = tasks * self.most_edges_of_a_task;
                tasks.max(edges.div_ceil(EDGES_PER_SLOT)).max(slots + 1).next_power_of_two()
            }
            Resource::Slots | Resource::Heap => tasks.next_power_of_two(),
        }
    }

    fn heap_that_works(&self) -> u64 {
        // The end of the ring may be skipped, which can waste up to one piece.
        let bytes = self.need.iter().map(|n| n.bytes + n.largest_piece).max().unwrap_or(0);
        bytes.next_power_of_two()
    }
}
