//! Chains of tasks: each task precedes the next in its chain.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::small;

/// The chains of an order.
#[derive(Clone, Debug, Default)]
pub(super) struct Chains {
    /// By task: its chain and its rank there, from 1.
    places: Vec<(u32, u32)>,
    /// The tasks of each chain, in order.
    members: Vec<Vec<u32>>,
    /// Last task and number of each chain, the earliest end on top. Outdated entries stay until they are
    /// popped.
    ends: BinaryHeap<Reverse<(u32, u32)>>,
}

impl Chains {
    /// Number of chains.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// The chain of a task and its rank.
    pub fn place(&self, task: usize) -> (u32, u32) {
        self.places[task]
    }

    /// The tasks of a chain, in order.
    pub fn members(&self, chain: u32) -> &[u32] {
        &self.members[chain as usize]
    }

    /// The previous task in a task's chain.
    pub fn last_before(&self, task: usize) -> Option<u32> {
        let (chain, rank) = self.places[task];
        self.members(chain).get((rank as usize).checked_sub(2)?).copied()
    }

    /// Whether a task is the last of its chain.
    pub fn is_end(&self, task: u32) -> bool {
        let (chain, rank) = self.places[task as usize];
        self.members(chain).len() == rank as usize
    }

    /// A chain that ended before a position.
    pub fn ended_before(&mut self, position: u32) -> Option<u32> {
        while let Some(&Reverse((end, chain))) = self.ends.peek() {
            if self.is_end(end) {
                return (end < position).then_some(chain);
            }
            self.ends.pop();
        }
        None
    }

    /// Appends the next task to a chain, or starts a new chain.
    pub fn push(&mut self, chain: Option<u32>) {
        let chain = chain.unwrap_or_else(|| {
            self.members.push(Vec::new());
            small(self.members.len() - 1)
        });
        let (task, members) = (small(self.places.len()), &mut self.members[chain as usize]);
        members.push(task);
        self.places.push((chain, small(members.len())));
        self.ends.push(Reverse((task, chain)));
        // Bound the number of outdated entries.
        if self.ends.len() > 2 * self.members.len() + 64 {
            let ends =
                self.members.iter().zip(0..).filter_map(|(tasks, chain)| Some((*tasks.last()?, chain)));
            self.ends = ends.map(Reverse).collect();
        }
    }
}
