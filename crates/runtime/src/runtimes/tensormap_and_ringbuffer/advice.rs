//! How large the rings would have to be.
//!
//! Once a ring is known never to drain, the rest of the orchestration is only counted: every task is taken to be
//! complete at once, so that what is held at any time is what open scopes hold. The most of that is what is needed.

use tensortap_abi::RING_COUNT;

use super::EDGES_PER_SLOT;

/// What a ring has handed out so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Tasks claimed.
    pub tasks: u64,
    /// Bytes handed out.
    pub bytes: u64,
}

/// What of a ring has run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Task slots.
    Slots,
    /// Memory for intermediates.
    Heap,
    /// Room for dependencies.
    Edges,
}

/// The most that one ring holds at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Need {
    tasks: u64,
    bytes: u64,
    largest_piece: u64,
}

/// The ring that blocked, and what all rings would need.
#[derive(Debug)]
pub struct Advice {
    ring: usize,
    resource: Resource,
    depth: usize,
    scope_tasks: u64,
    most_edges_of_a_task: u64,
    now: [Mark; RING_COUNT],
    need: [Need; RING_COUNT],
}

impl Advice {
    /// Begins counting when a ring has run out of something inside the scope at `depth`; `now` is what the rings
    /// have handed out.
    pub fn new(ring: usize, resource: Resource, depth: usize, edges: u64, now: [Mark; RING_COUNT]) -> Advice {
        let need = [Need::default(); RING_COUNT];
        Advice { ring, resource, depth, scope_tasks: 0, most_edges_of_a_task: edges, now, need }
    }

    /// What a ring would have handed out.
    pub fn mark(&self, ring: usize) -> Mark {
        self.now[ring]
    }

    /// Counts a task that takes pieces of memory. `oldest` is where the ring stood before the first task that an open
    /// scope holds.
    pub fn count_task(&mut self, ring: usize, oldest: Mark, pieces: &[u64]) {
        let (now, need) = (&mut self.now[ring], &mut self.need[ring]);
        now.tasks += 1;
        now.bytes += pieces.iter().sum::<u64>();
        need.tasks = need.tasks.max(now.tasks - oldest.tasks);
        need.bytes = need.bytes.max(now.bytes - oldest.bytes);
        need.largest_piece = need.largest_piece.max(pieces.iter().copied().max().unwrap_or(0));
    }

    /// Notes how many tasks a scope has when it ends.
    pub fn note_scope_end(&mut self, depth: usize, tasks: u64) {
        if depth == self.depth {
            self.scope_tasks = self.scope_tasks.max(tasks);
        }
    }

    /// In words, with sizes that work. `slots` and `heap_bytes` are what each ring has.
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
            // Counted tasks have no edges, for nothing runs; the most that any task had so far stands for all.
            Resource::Edges => {
                let edges = tasks * self.most_edges_of_a_task;
                tasks.max(edges.div_ceil(EDGES_PER_SLOT)).max(slots + 1).next_power_of_two()
            }
            Resource::Slots | Resource::Heap => tasks.next_power_of_two(),
        }
    }

    fn heap_that_works(&self) -> u64 {
        // One piece may be passed over at the end of the ring.
        let bytes = self.need.iter().map(|n| n.bytes + n.largest_piece).max().unwrap_or(0);
        bytes.next_power_of_two()
    }
}
